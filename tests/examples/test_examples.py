"""Programs of the manual do what their pages say, at small size."""

from __future__ import annotations

import runpy
from typing import Any

from helpers.robots import OWN

EXAMPLES = OWN.parent / "examples"


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def test_computed_torque_keeps_to_the_way() -> None:
    run = example("computed_torque")["run"]
    exact = run(OWN / "arm6.urdf", 0.3, 0.0)
    assert exact.errors.max() < 5e-3, "the steps of time alone are left"
    loaded = run(OWN / "arm6.urdf", 0.3, 0.5)
    assert exact.errors.max() < loaded.errors.max() < 0.2, "the payload shows, and is borne"
