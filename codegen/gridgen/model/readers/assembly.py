"""A RobotDescription that is put together from a loaded model, link by link."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from gridgen.model.description import Joint, Link, RobotDescription, validate
from gridgen.model.oddities import Oddity


@dataclass
class Assembly:
    """Links and joints in the order in which they were added; names that recur are altered.

    Attributes:
        source: the model, as messages call it.
    """

    source: str
    links: list[Link] = field(default_factory=list)
    joints: list[Joint] = field(default_factory=list)
    oddities: list[Oddity] = field(default_factory=list)
    _taken: set[tuple[str, str]] = field(default_factory=set)

    def name(self, kind: str, wanted: str) -> str:
        """Return a name for a link or a joint that no other one has."""
        while (kind, wanted) in self._taken:
            wanted += "_"
        self._taken.add((kind, wanted))
        return wanted

    def note(self, subject: str, problem: str, advice: str) -> None:
        """Keep an oddity; those with one problem and advice are told together."""
        self.oddities.append(Oddity(f"{problem}; {advice}", subject, problem, advice))

    def finish(self, name: str) -> RobotDescription:
        """Return the robot, and warn of what was noted.

        Raises:
            UrdfError: it is not sound; see ``validate``.
        """
        links, joints = tuple(self.links), tuple(self.joints)
        text = repr((name, links, joints)).encode("utf-8", "replace")
        digest = hashlib.sha256(text).hexdigest()
        description = RobotDescription(name, links, joints, self.source, digest, in_order=True)
        validate(description)
        description.warn(self.oddities)
        return description
