"""Derivatives that PyTorch takes of every function, by every argument, against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from frameworks.torch_for_tests import ROBOTS, SCREWED, STATES, arguments, drawn, load
from gridgen.errors import OptionError
from gridgen.functions import FUNCTIONS, GENERATED
from helpers.robots import TESTED_APART

# PyTorch's own, of its forward derivatives.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")

#: Programs that take long to trace and to compile.
WORDS = ("gradient", "second_order", "hessian", "derivative", "momentum_regressor")
LONG = {name for name in GENERATED if any(word in name for word in WORDS)}
CASES = [
    pytest.param(robot, name, marks=pytest.mark.exhaustive if name in LONG else ())
    for robot in ROBOTS
    for name in GENERATED
    if name not in ("rollout", *TESTED_APART)
    # The last link of the gripper moves in two directions: it has no inertia.
    if robot != "gripper" or not (FUNCTIONS[name].of_frame and FUNCTIONS[name].solves)
]
CASES += [(SCREWED, "inverse_dynamics"), (SCREWED, "forward_dynamics")]


def tensors(name: str, function: str) -> dict[str, torch.Tensor]:
    """Return all arguments of a function, each to be differentiated by."""
    found = {
        array: torch.from_numpy(value.copy()).requires_grad_(array != "active")
        for array, value in arguments(name, function).items()
    }
    return found


def words(name: str, function: str) -> dict[str, Any]:
    """Return what a function takes beside arrays."""
    if not FUNCTIONS[function].of_frame:
        return {}
    return {"frame": load(name).frame_names[-1], "reference": "local_world_aligned"}


def is_right(call: Any, given: dict[str, torch.Tensor], forward: bool = False) -> bool:
    """Compare derivatives with differences, in a direction drawn at random."""
    names, options = [*given], {"eps": 1e-7, "atol": 1e-5, "rtol": 1e-5, "fast_mode": True}
    by_place = lambda *values: call(**dict(zip(names, values, strict=True)))  # noqa: E731
    return torch.autograd.gradcheck(
        by_place, tuple(given.values()), **options, check_forward_ad=forward
    )


def test_constraints_may_be_active_by_booleans() -> None:
    given = tensors("arm6", "impulse_dynamics")
    holds = given.pop("active") > 0
    call = load("arm6").impulse_dynamics
    after, impulses = call(**given, active=holds)
    as_numbers = call(**given, active=holds.double())
    assert torch.equal(after, as_numbers[0])
    assert torch.equal(impulses, as_numbers[1])
    impulses.sum().backward()
    assert given["qd"].grad is not None


@pytest.mark.parametrize(("name", "function"), CASES)
def test_every_function_by_every_argument(name: str, function: str) -> None:
    torch.manual_seed(0)
    robot, given = load(name), tensors(name, function)
    further = words(name, function)
    assert is_right(lambda **arrays: getattr(robot, function)(**arrays, **further), given)


#: Where derivatives go forward, too, and are differentiated again.
FURTHER = [
    ("arm6", "inverse_dynamics"),
    pytest.param("quadruped", "inverse_dynamics", marks=pytest.mark.exhaustive),
    pytest.param(SCREWED, "inverse_dynamics", marks=pytest.mark.exhaustive),
    ("gripper", "inverse_dynamics"),
    pytest.param("gripper", "forward_dynamics", marks=pytest.mark.exhaustive),
    ("quadruped", "potential_energy"),
    ("gripper", "jacobian"),
    ("quadruped", "integrate"),
    pytest.param("arm6", "step", marks=pytest.mark.exhaustive),
]


@pytest.mark.parametrize(("name", "function"), FURTHER)
def test_forward_and_second_derivatives(name: str, function: str) -> None:
    torch.manual_seed(0)
    robot, given = load(name), tensors(name, function)
    further = words(name, function)
    call = lambda **arrays: getattr(robot, function)(**arrays, **further)  # noqa: E731
    assert is_right(call, given, forward=True)
    by_place = lambda *values: call(**dict(zip(given, values, strict=True)))  # noqa: E731
    options = {"eps": 1e-7, "atol": 1e-4, "rtol": 1e-4, "fast_mode": True}
    assert torch.autograd.gradgradcheck(
        by_place,
        tuple(given.values()),
        **options,
        check_undefined_grad=False,
        check_fwd_over_rev=True,
    )


def test_hessians_whichever_way_comes_first() -> None:
    robot = load("quadruped")
    q = torch.from_numpy(drawn("quadruped")["q"])
    forward, reverse = torch.func.jacfwd, torch.func.jacrev
    ways = ((reverse, reverse), (forward, reverse), (reverse, forward))
    found = [torch.func.vmap(outer(inner(robot.potential_energy)))(q) for outer, inner in ways]
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=1e-10, atol=1e-10)
    with pytest.raises(OptionError, match=r"^jvp of jvp of potential_energy does not exist"):
        forward(forward(robot.potential_energy))(q[0])
    with pytest.raises(OptionError, match=r"^vjp of vjp of vjp of potential_energy does not exist"):
        reverse(reverse(reverse(robot.potential_energy)))(q[0])


@pytest.mark.parametrize("integrator", ["euler", "rk4", "implicit"])
def test_every_integrator(integrator: str) -> None:
    torch.manual_seed(0)
    robot, given = load("gripper"), tensors("gripper", "step")
    assert is_right(lambda **arrays: robot.step(**arrays, integrator=integrator), given)


@pytest.mark.parametrize("course", [{}, {"substeps": 2, "store_every": 2}, {"store_every": "last"}])
@pytest.mark.parametrize("name", ROBOTS)
def test_rollouts(name: str, course: dict[str, Any]) -> None:
    torch.manual_seed(0)
    robot, x = load(name), drawn(name)
    efforts = np.random.default_rng(1).normal(size=(STATES, 4, robot.nv))
    arrays = {"q0": x["q"], "qd0": 0.1 * x["qd"], "tau": efforts}
    given = {key: torch.tensor(value, requires_grad=True) for key, value in arrays.items()}
    forward = name == "gripper"
    assert is_right(lambda **arrays: robot.rollout(**arrays, dt=0.01, **course), given, forward)
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

    def paths(gains: Any, q_ref: Any, qd_ref: Any, efforts: bool = False, **rest: Any) -> Any:
        further = {"effort_limits": True, "substeps": 2, "return_efforts": efforts}
        return robot.rollout(**rest, feedback=(gains, q_ref, qd_ref), **further)

    assert is_right(paths, given)
    held = {**given, **{key: given[key].detach() for key in ("gains", "q_ref", "qd_ref")}}
    wrt = [one for one in held.values() if one.requires_grad]
    sums = (sum(map(torch.sum, paths(**one))) for one in (given, held))  # by steps, by one kernel
    torch.testing.assert_close(*(torch.autograd.grad(total, wrt) for total in sums))
    found = paths(**given, efforts=True)
    plain = paths(**{key: one.detach() for key, one in given.items()}, efforts=True)
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
