"""Registry of robots: a framework's graphs identify them by handle, not by object."""

from __future__ import annotations

import weakref
from typing import Any

from gridgen.errors import ModelError

_living: weakref.WeakSet[Any] = weakref.WeakSet()
_found: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def note(robot: Any) -> None:
    """Register a robot by its handle, as long as it exists."""
    _living.add(robot)


def robot_of(handle: str) -> Any:
    """Return a registered robot.

    Raises:
        ModelError: no robot has this handle.
    """
    robot = _found.get(handle)
    if robot is None:
        robot = next((one for one in list(_living) if one.handle == handle), None)
        if robot is None:
            raise ModelError(
                f"no robot {handle} is loaded, which this graph calls: load it with the options "
                "of the graph's robot, and hold a reference to it"
            )
        _found[handle] = robot
    return robot
