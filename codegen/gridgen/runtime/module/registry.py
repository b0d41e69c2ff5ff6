"""The robots that are loaded, as graphs of a framework name them: by handle, not by object."""

from __future__ import annotations

import weakref
from typing import Any

from gridgen.errors import ModelError

_living: weakref.WeakSet[Any] = weakref.WeakSet()
_found: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def note(robot: Any) -> None:
    """Let a robot be found by its handle, as long as it lives."""
    _living.add(robot)


def robot_of(handle: str) -> Any:
    """Return a living robot of a handle.

    Raises:
        ModelError: there is none.
    """
    robot = _found.get(handle)
    if robot is None:
        robot = next((one for one in list(_living) if one.handle == handle), None)
        if robot is None:
            raise ModelError(
                f"no robot {handle} is loaded, which this graph calls: load it as it was when the "
                "graph was made, and keep it"
            )
        _found[handle] = robot
    return robot
