"""Derivatives that PyTorch takes of every function, by every argument, against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from frameworks.torch_for_tests import ROBOTS, STATES, arguments, drawn, load
from gridgen.functions import FUNCTIONS, GENERATED

#: Programs that take long to trace and to compile.
LONG = {name for name in GENERATED if "gradient" in name or "second_order" in name}
CASES = [
    pytest.param(robot, name, marks=pytest.mark.exhaustive if name in LONG else ())
    for robot in ROBOTS
    for name in GENERATED
    if name != "rollout"
]


def tensors(name: str, function: str) -> dict[str, torch.Tensor]:
    """Return all arguments of a function, each to be differentiated by."""
    found = {
        array: torch.from_numpy(value.copy()).requires_grad_()
        for array, value in arguments(name, function).items()
    }
    return found


def words(name: str, function: str) -> dict[str, Any]:
    """Return what a function takes beside arrays."""
    if not FUNCTIONS[function].of_frame:
        return {}
    return {"frame": load(name).frame_names[-1], "reference": "local_world_aligned"}


def is_right(call: Any, given: dict[str, torch.Tensor]) -> bool:
    """Compare derivatives with differences, in a direction drawn at random."""
    names = [*given]
    by_place = lambda *values: call(**dict(zip(names, values, strict=True)))  # noqa: E731
    return torch.autograd.gradcheck(
        by_place, tuple(given.values()), eps=1e-7, atol=1e-5, rtol=1e-5, fast_mode=True
    )


@pytest.mark.parametrize(("name", "function"), CASES)
def test_every_function_by_every_argument(name: str, function: str) -> None:
    torch.manual_seed(0)
    robot, given = load(name), tensors(name, function)
    further = words(name, function)
    assert is_right(lambda **arrays: getattr(robot, function)(**arrays, **further), given)


@pytest.mark.parametrize("integrator", ["euler", "rk4", "implicit"])
def test_every_integrator(integrator: str) -> None:
    torch.manual_seed(0)
    robot, given = load("gripper"), tensors("gripper", "step")
    assert is_right(lambda **arrays: robot.step(**arrays, integrator=integrator), given)


@pytest.mark.parametrize("course", [{}, {"substeps": 2, "keep": 2}, {"keep": "last"}])
@pytest.mark.parametrize("name", ROBOTS)
def test_rollouts(name: str, course: dict[str, Any]) -> None:
    torch.manual_seed(0)
    robot, x = load(name), drawn(name)
    efforts = np.random.default_rng(1).normal(size=(STATES, 4, robot.nv))
    arrays = {"q0": x["q"], "qd0": 0.1 * x["qd"], "tau": efforts}
    given = {key: torch.tensor(value, requires_grad=True) for key, value in arrays.items()}
    assert is_right(lambda **arrays: robot.rollout(**arrays, dt=0.01, **course), given)
    plain = robot.rollout(**{key: one.detach() for key, one in given.items()}, dt=0.01, **course)
    torch.testing.assert_close(robot.rollout(**given, dt=0.01, **course), plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["quadruped", "gripper"])
def test_rollouts_by_all_else(name: str) -> None:
    """Masses, gravity, the time of a step, and what a controller follows."""
    torch.manual_seed(0)
    robot, x = load(name), drawn(name)
    rng = np.random.default_rng(2)
    nv = robot.nv
    arrays = {
        **{"q0": x["q"], "qd0": 0.1 * x["qd"], "tau": rng.normal(size=(3, nv)), "dt": x["dt"]},
        **{"params": x["params"][0], "gravity": x["gravity"], "armature": x["armature"][0]},
        **{"gains": rng.normal(size=(nv, 2 * nv)), "q_ref": x["q"][:, None], "qd_ref": x["qd"][0]},
    }
    given = {key: torch.tensor(value, requires_grad=True) for key, value in arrays.items()}

    def paths(gains: Any, q_ref: Any, qd_ref: Any, **rest: Any) -> Any:
        follow = (gains, q_ref, qd_ref)
        return robot.rollout(**rest, feedback=follow, effort_limits=True, substeps=2)

    assert is_right(paths, given)
    found = paths(**given)
    plain = paths(**{key: one.detach() for key, one in given.items()})
    torch.testing.assert_close(found, plain, rtol=0, atol=1e-11)


def test_methods_of_forward_dynamics_that_no_program_computes() -> None:
    robot, x = load("arm6"), drawn("arm6")
    q, qd, tau = (torch.tensor(x[key], requires_grad=True) for key in ("q", "qd", "tau"))
    by_method = [
        torch.autograd.grad(
            robot.forward_dynamics(q, qd, tau, method=method, backend=backend).sum(), (q, qd, tau)
        )
        for method, backend in (("aba", None), ("crba", None), ("jsiia", "emulated"))
    ]
    for found in by_method[1:]:
        torch.testing.assert_close(found, by_method[0], rtol=1e-9, atol=1e-9)


def test_several_results_and_several_links() -> None:
    torch.manual_seed(0)
    robot, x = load("arm6"), drawn("arm6")
    links = [*robot.frame_names[-2:]]
    q, qd = (torch.tensor(x[key], requires_grad=True) for key in ("q", "qd"))
    asked = ("mass_matrix", "bias_forces", f"jacobian:{links[0]}:world")
    assert is_right(lambda q, qd: tuple(robot.compute(asked, q, qd)), {"q": q, "qd": qd})
    found, plain = robot.compute(asked, q, qd), robot.compute(asked, q.detach(), qd.detach())
    assert found._fields == plain._fields
    torch.testing.assert_close(tuple(found), tuple(plain), rtol=0, atol=1e-12)
    for call in (robot.jacobian, robot.forward_kinematics):
        assert is_right(lambda q, call=call: call(q, links), {"q": q})
        torch.testing.assert_close(call(q, links), call(q.detach(), links), rtol=0, atol=1e-12)
    assert is_right(lambda q: robot.forward_kinematics(q, links[0]), {"q": q})
