"""The example that trains a policy, at small size."""

from __future__ import annotations

import runpy

from helpers.robots import OWN


def test_a_policy_is_trained_through_forward_dynamics() -> None:
    example = runpy.run_path(str(OWN.parent / "examples" / "train_policy.py"))
    result = example["main"](["--states", "16", "--updates", "30"])["grid-gen"]
    assert sum(result.losses[-5:]) < 0.7 * sum(result.losses[:5])
