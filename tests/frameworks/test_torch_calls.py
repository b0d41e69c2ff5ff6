"""Transforms, graphs and layouts of PyTorch: one operator serves whatever is asked of it."""

from __future__ import annotations

import gc
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import func
from torch.fx.experimental.proxy_tensor import make_fx

import gridgen
from frameworks.torch_for_tests import drawn, load
from gridgen.errors import DtypeError, ModelError, OptionError, ParameterError, ShapeError
from gridgen.frameworks.torch.operator import Words
from gridgen.frameworks.torch.operators import OPERATORS
from helpers.robots import OWN

# PyTorch's own, of its transforms and its compiler.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),
]


@pytest.fixture(scope="module")
def robot() -> gridgen.Robot:
    return gridgen.load(OWN / "arm6.urdf")


def states(*batch: int, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    """Return q, qd and qdd or tau of the arm, of which each requires a gradient."""
    rng = np.random.default_rng(len(batch))
    drawn = rng.normal(size=(3, *batch, 6))
    return [torch.tensor(x, dtype=dtype, requires_grad=True) for x in drawn]


def detached(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach() for tensor in tensors]


def assert_same(found: Any, expected: Any, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def cotangents(robot: gridgen.Robot, weights: Any, x: list[torch.Tensor]) -> list[Any]:
    """Return the derivatives that NumPy users are given."""
    found = robot.vjp("inverse_dynamics", *(one.numpy() for one in (weights, *detached(x))))
    return [torch.from_numpy(one) for one in found]


# -- batches ------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(), (1,), (0,), (5,), (2, 3), (2, 1, 0), (3, 1, 2)])
def test_batches_of_any_rank(robot: gridgen.Robot, batch: tuple[int, ...]) -> None:
    x = states(*batch)
    tau = robot.inverse_dynamics(*x)
    assert tau.shape == (*batch, 6)
    flat = [one.reshape(-1, 6) for one in detached(x)]
    assert_same(tau.detach().reshape(-1, 6), robot.inverse_dynamics(*flat))
    weights = torch.ones_like(tau)
    expected = cotangents(robot, weights.reshape(-1, 6), flat)
    for bar, one in zip(torch.autograd.grad(tau, x, weights), expected, strict=True):
        assert_same(bar, one.reshape(bar.shape))
    assert_same(robot.inverse_dynamics(*detached(x)), tau.detach())  # asks for no gradient


def test_tensors_of_any_layout(robot: gridgen.Robot) -> None:
    wide = torch.randn(6, 2, 4, dtype=torch.float64, requires_grad=True)
    qd = wide.permute(1, 2, 0)[:, ::2]
    q = torch.randn(6, dtype=torch.float64, requires_grad=True)
    x = [q.expand(2, 2, 6), qd, -qd]
    robot.inverse_dynamics(*x).sum().backward()  # the cotangents are one number, expanded
    flat = [one.reshape(-1, 6) for one in x]
    bars = cotangents(robot, torch.ones(4, 6, dtype=torch.float64), flat)
    assert_same(q.grad, bars[0].sum(0))
    by_speed = torch.zeros(2, 4, 6, dtype=torch.float64)
    by_speed[:, ::2] = (bars[1] - bars[2]).reshape(2, 2, 6)
    assert_same(wide.grad, by_speed.permute(2, 0, 1))


def test_single_precision(robot: gridgen.Robot) -> None:
    x, exact = states(7, dtype=torch.float32), states(7)
    found = torch.autograd.grad(robot.forward_dynamics(*x).square().sum(), x)
    expected = torch.autograd.grad(robot.forward_dynamics(*exact).square().sum(), exact)
    for bar, one in zip(found, expected, strict=True):
        assert bar.dtype == torch.float32
        assert (bar - one).abs().max() < 1e-4 * one.abs().max()


def test_what_one_state_gives_serves_all(robot: gridgen.Robot) -> None:
    x = states(2, 3)
    gravity = torch.tensor([0.0, 1.0, -9.0], dtype=torch.float64, requires_grad=True)
    robot.inverse_dynamics(*x, gravity=gravity).sum().backward()
    each = gravity.detach().expand(2, 3, 3).clone().requires_grad_()
    robot.inverse_dynamics(*x, gravity=each).sum().backward()
    assert_same(gravity.grad, each.grad.sum((0, 1)))


def test_parameters_of_a_module_and_of_a_step() -> None:
    robot, x = load("gripper"), drawn("gripper")
    q, qd, tau, params = (torch.from_numpy(x[key]) for key in ("q", "qd", "tau", "params"))
    masses = torch.nn.Parameter(params[0].clone())
    dt = torch.nn.Parameter(torch.tensor(0.01, dtype=torch.float64))
    with torch.no_grad():  # no graph, and no copy of the parameters either
        plain = robot.step(q, qd, tau, 0.01, params=params[0])
        assert_same(robot.step(q, qd, tau, dt, params=masses), plain)
    robot.step(q, qd, tau, dt, params=masses)[1].sum().backward()
    assert masses.grad.shape == masses.shape
    assert dt.grad.shape == ()


def test_rows_that_no_body_has() -> None:
    """Refused with and without a graph, unless the robot is told not to look."""
    checked = load("gripper")
    options = {"parameters": ("all", "armature", "damping"), "check_parameters": False}
    robot = gridgen.load(OWN / "gripper.urdf", **options)
    assert robot.handle != checked.handle
    q, rows = torch.from_numpy(drawn("gripper")["q"]), torch.from_numpy(-checked.parameters())
    expected = -checked.mass_matrix(q)
    for is_watched in (True, False):
        rows.requires_grad_(is_watched)
        assert_same(robot.mass_matrix(q, params=rows).detach(), expected)
        with pytest.raises(ParameterError, match=r"params\[0\]"):
            checked.mass_matrix(q, params=rows)
    assert torch.isfinite(func.grad(lambda p: robot.mass_matrix(q, params=p).sum())(rows)).all()


# -- transforms ---------------------------------------------------------------------------------


def test_transforms_agree_with_analytical_gradients(robot: gridgen.Robot) -> None:
    x = detached(states(4))
    by_q, by_qd = robot.inverse_dynamics_gradient(*x)[:2]
    found = func.vmap(func.jacrev(robot.inverse_dynamics, argnums=(0, 1)))(*x)
    assert_same(found, (by_q, by_qd))
    one = [tensor[0] for tensor in x]
    tau, pullback = func.vjp(robot.inverse_dynamics, *one)
    assert_same(pullback(torch.ones_like(tau))[0], by_q[0].sum(0))
    slope = func.grad(lambda q: robot.inverse_dynamics(q, *one[1:]).sum())(one[0])
    assert_same(slope, by_q[0].sum(0))


def test_mapped_axes_are_one_larger_batch(robot: gridgen.Robot) -> None:
    q, qd, qdd = detached(states(2, 3, 4))
    expected = robot.inverse_dynamics(q, qd, qdd)
    nested = func.vmap(func.vmap(func.vmap(robot.inverse_dynamics)))
    assert_same(nested(q, qd, qdd), expected)
    moved = func.vmap(robot.inverse_dynamics, in_dims=(1, 1, 1), out_dims=1)
    assert_same(moved(q, qd, qdd), expected)
    last = func.vmap(func.vmap(robot.inverse_dynamics, in_dims=(None, 0, None)), in_dims=(0, 1, 0))
    found = last(q[:, 0], qd.transpose(0, 1), qdd[:, 0])
    across = [one[:, :1].expand(qd.shape) for one in (q, qdd)]
    assert_same(found, robot.inverse_dynamics(across[0], qd, across[1]))


def test_one_of_the_arguments_is_mapped(robot: gridgen.Robot) -> None:
    q, qd, qdd = detached(states(3))
    gravity = torch.randn(5, 3, dtype=torch.float64)
    found = func.vmap(lambda g: robot.inverse_dynamics(q, qd, qdd, gravity=g))(gravity)
    for place, one in enumerate(gravity):
        assert_same(found[place], robot.inverse_dynamics(q, qd, qdd, gravity=one))
    total = lambda q, g: robot.inverse_dynamics(q, qd[0], qdd[0], gravity=g).sum()  # noqa: E731
    alone = func.vmap(func.grad(total, argnums=1), in_dims=(0, None))(q, gravity[0])
    for place, one in enumerate(q):
        assert_same(alone[place], func.grad(total, argnums=1)(one, gravity[0]))
    way = func.vmap(robot.difference, in_dims=(0, None))(q, qd[0])
    assert_same(way, robot.difference(q, qd[0].expand(q.shape)))


def test_derivatives_within_derivatives_keep_their_levels(robot: gridgen.Robot) -> None:
    """What an inner transform computes is seen by those around it, and by the tape."""
    q = states(2)[0]

    def inner(q: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        slope = func.grad(lambda s: (s * robot.gravity_forces(q)).square().sum())(scale)
        return slope.sum()

    scale = torch.tensor(3.0, dtype=torch.float64)
    found = func.grad(inner)(q.detach(), scale)
    expected = func.grad(lambda q: 6.0 * robot.gravity_forces(q).square().sum())(q.detach())
    assert_same(found, expected)
    assert_same(torch.autograd.grad(inner(q, scale), q)[0], expected)


def test_the_engine_maps_cotangents(robot: gridgen.Robot) -> None:
    """Many gradients in one pass; what serves all states, and what needs no gradient, too."""
    x = states(2)
    gravity = torch.tensor([0.3, 1.0, -9.0], dtype=torch.float64, requires_grad=True)
    call = lambda *x: robot.forward_dynamics(*x[:3], gravity=x[3])  # noqa: E731
    found = torch.autograd.functional.jacobian(call, (*x, gravity), vectorize=True)
    assert_same(found, func.jacrev(call, argnums=(0, 1, 2, 3))(*detached([*x, gravity])))
    qdd = robot.forward_dynamics(x[0], x[1].detach(), x[2])
    units = torch.eye(12, dtype=qdd.dtype).reshape(12, 2, 6)
    (by_q,) = torch.autograd.grad(qdd, x[:1], units, is_grads_batched=True)
    expected = robot.forward_dynamics_gradient(*detached(x))[0]
    for state in range(2):
        assert_same(by_q.reshape(2, 6, 2, 6)[state, :, state], expected[state])


@pytest.mark.parametrize("outer", ["reverse-mode", "forward-mode"])
def test_the_engine_maps_hessians(robot: gridgen.Robot, outer: str) -> None:
    q = states()[0].detach()
    options = {"vectorize": True, "outer_jacobian_strategy": outer}
    found = torch.autograd.functional.hessian(robot.potential_energy, q, **options)
    assert_same(found, func.hessian(robot.potential_energy)(q))


def test_what_is_linearized_and_traced_goes_forward(robot: gridgen.Robot) -> None:
    x = detached(states(3))
    _, expected = func.jvp(robot.forward_dynamics, tuple(x), tuple(x))
    _, push = func.linearize(robot.forward_dynamics, *x)
    assert_same(push(*x), expected)
    forward = lambda *x: func.jvp(robot.forward_dynamics, x, x)[1]  # noqa: E731
    twice = [torch.cos(one) for one in x]
    for mode in ("real", "fake"):
        traced = make_fx(forward, tracing_mode=mode)(*x)
        assert_same(traced(*twice), forward(*twice))


def test_checkpoints_compute_again(robot: gridgen.Robot) -> None:
    x = states(3)
    call = lambda *x: robot.forward_dynamics(*x).sin()  # noqa: E731
    again = torch.utils.checkpoint.checkpoint(call, *x, use_reentrant=False)
    assert_same(torch.autograd.grad(again.sum(), x), torch.autograd.grad(call(*x).sum(), x))


def test_results_that_no_derivative_reads_may_change(robot: gridgen.Robot) -> None:
    q, qd, qdd = states(3)
    tau, M = robot.inverse_dynamics(q, qd, qdd), robot.mass_matrix(q)
    state = robot.step(q, qd, qdd, 0.01)
    expected = torch.autograd.grad(sum(map(torch.sum, (tau, M, *state))), q, retain_graph=True)
    for one in (tau, M, *state):
        one += 1.0
    assert_same(torch.autograd.grad(sum(map(torch.sum, (tau, M, *state))), q), expected)


#: Functions that the robot of this test does not have.
REFUSED = {"self_distance", "world_distance", "collision_free", "contact_forward_dynamics"}
REFUSED |= {"actuator_torques", "soft_self_distance", "soft_world_distance"}
REFUSED |= {"forward_dynamics_second_order", "forward_dynamics_hessian", "step_hessian"}
REFUSED |= {"contact_residual", "sensors"}


def test_results_that_are_kept_are_read() -> None:
    """Of each function, by the kernel of its product."""
    robot, x = load("arm6"), drawn("arm6")
    for function, operator in OPERATORS.items():
        if function == "rollout":
            continue
        link = robot.frame_names[-1] if operator.row.of_frame else None
        arrays = [x[array] for array in operator.row.arguments]
        try:
            resolved = robot.resolver.resolve_named(function, *arrays, *([link] if link else []))
        except ModelError:  # of a ground, actuators, spheres, or not with constraints
            assert function in REFUSED
            continue
        kernel = resolved.kernel
        product = kernel.key.product("vjp", operator.row.differentiable)
        inputs = robot._module.kernels.find(product).inputs
        assert operator.saves_results == any(result in inputs for result in kernel.outputs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_computes_in_single_precision(robot: gridgen.Robot, dtype: torch.dtype) -> None:
    q, qd, qdd = states(3, dtype=torch.float32)
    low = [one.detach().to(dtype).requires_grad_() for one in (q, qdd)]
    expected = robot.inverse_dynamics(q, qd, low[1].float())
    for is_watched in (True, False):
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.set_grad_enabled(is_watched):
            found = robot.inverse_dynamics(q, qd, low[1])
            several = robot.inverse_dynamics(low[0], qd, low[1])
        assert found.dtype == several.dtype == torch.float32
        assert_same(found, expected, 1e-6)
        assert_same(several, robot.inverse_dynamics(low[0].float(), qd, low[1].float()), 1e-6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (bar,) = torch.autograd.grad(robot.inverse_dynamics(q, qd, low[1]).sum(), low[1])
        exact = [one.double() for one in (q, qd, qdd)]
        assert robot.inverse_dynamics(*exact).dtype == torch.float64
        with torch.no_grad():
            out = torch.empty(3, 6)
            assert robot.inverse_dynamics(q, qd, qdd, out=out) is out
    assert bar.dtype == dtype


def test_linearized_trajectories_have_derivatives(robot: gridgen.Robot) -> None:
    q, qd, tau = states(2, 3)
    weights = torch.randn(2, 3, 12, 12, dtype=torch.float64)
    for substeps in (1, 2):
        found = robot.rollout_gradient(q, qd, tau, 0.01, substeps=substeps)
        plain = robot.rollout_gradient(*detached([q, qd, tau]), 0.01, substeps=substeps)
        assert_same(found, plain)
        with torch.no_grad():
            assert_same(robot.rollout_gradient(q, qd, tau, 0.01, substeps=substeps), plain)
        (bar,) = torch.autograd.grad((weights * found[0]).sum(), q)
        move, size = torch.randn_like(q), 1e-6
        ends = [
            robot.rollout_gradient(
                *detached([q + sign * size * move, qd, tau]), 0.01, substeps=substeps
            )[0]
            for sign in (1, -1)
        ]
        slope = (weights * (ends[0] - ends[1])).sum() / (2 * size)
        torch.testing.assert_close((bar * move).sum(), slope, rtol=1e-6, atol=1e-6)
    with pytest.raises(OptionError, match="has no out="):
        robot.rollout_gradient(q, qd, tau, 0.01, out=plain)


def test_nothing_is_lost_where_nothing_is_noted(robot: gridgen.Robot) -> None:
    """Tensors that require a gradient are read like others under ``torch.no_grad``."""
    x, efforts = states(3), states(3, 4)[2]
    with torch.no_grad():
        expected = robot.inverse_dynamics(*x)
        assert_same(robot.bind("inverse_dynamics", *x)(), expected)
        assert_same(robot.jvp("inverse_dynamics", tuple(x), *x)[0], expected)
        bars = robot.vjp("inverse_dynamics", expected, *x)
        path = robot.rollout_vjp(
            x[0], x[1], efforts, 0.01, (efforts[:, 0], None), store_every="last"
        )
    assert_same(bars, robot.vjp("inverse_dynamics", expected, *detached(x)))
    assert len(path) == 3
    for call in (robot.vjp, robot.bind):
        with pytest.raises(DtypeError, match=r"requires a gradient.*torch\.no_grad"):
            call("inverse_dynamics", *x, *([x[0]] if call == robot.vjp else []))
    assert robot.neutral(like=x[0]).dtype == torch.float64


# -- graphs -------------------------------------------------------------------------------------


def test_what_pytorch_asks_of_operators(robot: gridgen.Robot) -> None:
    x = states(3)
    rest = [None] * (len(OPERATORS["inverse_dynamics"].tensors) - 3)
    torch.library.opcheck(
        OPERATORS["inverse_dynamics"].call, (*x, *rest, Words(robot.handle, method="").text)
    )


def loss(robot: gridgen.Robot, q: torch.Tensor, qd: torch.Tensor, u: torch.Tensor) -> Any:
    """Return a number that takes functions of every kind."""
    link = robot.frame_names[-1]
    qdd = robot.forward_dynamics(q, qd, u, gravity=[0.0, 0.0, -1.0])
    position, velocity = robot.step(q, qd, u, 0.01)
    path, _ = robot.rollout(q, qd, u[:, None].expand(-1, 4, -1), 0.01, store_every="last")
    several = robot.compute(("mass_matrix", "bias_forces"), q, qd)
    pose = robot.forward_kinematics(position, link)
    jacobian = robot.jacobian(q, [link, link], "world")
    results = (qdd, velocity, path, *several, pose, jacobian)
    return sum(one.square().sum() for one in results)


def test_a_graph_has_no_break(robot: gridgen.Robot) -> None:
    fresh = gridgen.load(OWN / "arm6.urdf")
    x = states(3)
    expected = loss(robot, *x)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    found = compiled(fresh, *x)
    assert_same(found, expected)
    grads = torch.autograd.grad(found, x)
    assert_same(grads, torch.autograd.grad(expected, x))


def test_a_graph_of_derivatives_has_no_break(robot: gridgen.Robot) -> None:
    q, qd, qdd = detached(states(3))
    slope = func.grad(lambda q: robot.inverse_dynamics(q, qd, qdd).square().sum())
    assert_same(torch.compile(slope, fullgraph=True, backend="aot_eager")(q), slope(q))


@pytest.mark.exhaustive
def test_graphs_of_other_batches_and_of_the_compiler_of_kernels(robot: gridgen.Robot) -> None:
    compiled = torch.compile(
        lambda *x: robot.inverse_dynamics(*x).square().sum(), fullgraph=True, dynamic=True
    )
    for batch in (3, 8, 64):
        x = states(batch)
        expected = robot.inverse_dynamics(*x).square().sum()
        found = compiled(*x)
        assert_same(found, expected)
        assert_same(torch.autograd.grad(found, x), torch.autograd.grad(expected, x))


class Efforts(torch.nn.Module):
    """What a robot needs to hold a state."""

    def __init__(self, robot: gridgen.Robot) -> None:
        super().__init__()
        self.robot = robot

    def forward(self, q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
        """Return the efforts."""
        return self.robot.bias_forces(q, qd)


#: Runs a program in a process that has made no call; products are operators there, too.
_RUN = """
import sys, torch, gridgen
robot = gridgen.load(sys.argv[1], armature=0.1)
inputs = torch.load(sys.argv[2])
program = {}(sys.argv[3])
assert torch.equal(program(*inputs[:-1]), inputs[-1])
assert torch.ops.gridgen.bias_forces_jvp_vjp
"""


def assert_runs_elsewhere(load: str, program: Path, x: Any, expected: torch.Tensor) -> None:
    """Run a saved program of two_link in another process, which loads it by an expression."""
    torch.save([*x, expected], inputs := program.with_suffix(".inputs"))
    command = [sys.executable, "-c", _RUN.format(load), OWN / "two_link.urdf", inputs, program]
    found = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


@pytest.mark.usefixtures("few_objects")
def test_exported_programs_find_the_robot_again(tmp_path: Path) -> None:
    robot = gridgen.load(OWN / "two_link.urdf", armature=0.1)
    x = tuple(one[..., :2].detach() for one in states(3)[:2])
    expected = robot.bias_forces(*x)
    batch = torch.export.Dim("batch")
    program = torch.export.export(Efforts(robot), x, dynamic_shapes=({0: batch}, {0: batch}))
    torch.export.save(program, file := tmp_path / "program.pt2")
    load = "(lambda path: torch.export.load(path).module())"
    assert_runs_elsewhere(load, file, x, expected)
    again = torch.export.load(file).module()
    assert_same(again(*x), expected)
    del robot, program
    gc.collect()
    with pytest.raises(ModelError, match=r"no robot two_link-\w+ is loaded"):
        again(*x)
    robot = gridgen.load(OWN / "two_link.urdf", armature=0.1)
    assert robot.nq == 2
    longer = [torch.cat((one, one)) for one in x]
    assert_same(again(*longer), torch.cat((expected, expected)))


@pytest.mark.exhaustive
def test_programs_that_inductor_compiled(tmp_path: Path) -> None:
    robot = gridgen.load(OWN / "two_link.urdf", armature=0.1)
    x = tuple(one[..., :2].detach() for one in states(3)[:2])
    program = torch.export.export(Efforts(robot), x)
    file = torch._inductor.aoti_compile_and_package(program, package_path=f"{tmp_path}/a.pt2")
    load = "torch._inductor.aoti_load_package"
    assert_runs_elsewhere(load, Path(file), x, robot.bias_forces(*x))


def test_traces_of_torchscript(robot: gridgen.Robot, tmp_path: Path) -> None:
    x = detached(states(3))
    traced = torch.jit.trace(robot.inverse_dynamics, tuple(x))
    traced.save(file := str(tmp_path / "traced.pt"))
    other = [torch.sin(one) for one in x]
    expected = robot.inverse_dynamics(*other)
    assert_same(torch.jit.load(file)(*other), expected)
    with pytest.raises(OptionError, match="has no out="):
        torch.jit.trace(lambda q: robot.gravity_forces(q, out=x[1]), (x[0],))
    with pytest.raises(DtypeError, match=r"q is a proxy of torch\.fx.*torch\.export or make_fx"):
        torch.fx.symbolic_trace(Efforts(robot))


# -- modules and errors -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> gridgen.Robot:
    from gridgen.robot import open_module

    folder = tmp_path_factory.mktemp("generated")
    functions = ("inverse_dynamics", "mass_matrix", "forward_kinematics")
    options = gridgen.GenerateOptions(output=folder, functions=functions, vjp=True)
    made = gridgen.generate(OWN / "two_link.urdf", options)
    return open_module(str(made.folder / "__init__.py"))


def test_generated_modules(module: gridgen.Robot) -> None:
    robot = gridgen.load(OWN / "two_link.urdf")
    assert module.handle != robot.handle
    q, qd, qdd = (one[..., :2] for one in states(3))
    for wrt in ((q, qd, qdd), (qd,)):  # there is a kernel by all arguments, and by no fewer
        x = [one if any(one is other for other in wrt) else one.detach() for one in (q, qd, qdd)]
        sums = (one.inverse_dynamics(*x).square().sum() for one in (module, robot))
        assert_same(*(torch.autograd.grad(total, wrt) for total in sums))
    link = robot.frame_names[1]
    poses = [one.forward_kinematics(q, link) for one in (module, robot)]
    assert_same(*poses)
    assert_same(*(torch.autograd.grad(pose.square().sum(), q) for pose in poses))


def test_modules_that_were_generated_without(tmp_path: Path) -> None:
    from gridgen.robot import open_module

    options = gridgen.GenerateOptions(output=tmp_path, functions=("mass_matrix",))
    made = gridgen.generate(OWN / "two_link.urdf", options)
    robot = open_module(str(made.folder / "__init__.py"))
    q = torch.zeros(3, 2, requires_grad=True)
    M = robot.mass_matrix(q)
    with pytest.raises(ModelError, match="--vjp"):
        M.sum().backward()


@pytest.mark.parametrize(
    "leads", [((), (4,), (1,)), ((4,), (), ()), ((3, 1), (4,), ()), ((), (), (4,))], ids=str
)
def test_leading_axes_are_broadcast(robot: gridgen.Robot, leads: Any) -> None:
    x = [torch.tensor(np.random.default_rng(0).normal(size=(*lead, 6))) for lead in leads]
    lead = np.broadcast_shapes(*leads)
    whole = [one.expand(*lead, 6).clone() for one in x]
    for given in (x, whole):
        for one in given:
            one.requires_grad_()
    found, expected = robot.inverse_dynamics(*x), robot.inverse_dynamics(*whole)
    assert_same(found, expected)
    weights = torch.cos(expected.detach())
    slopes = torch.autograd.grad(expected, whole, weights)
    for one, slope, own in zip(torch.autograd.grad(found, x, weights), slopes, x, strict=True):
        assert_same(one, slope.sum_to_size(own.shape))
    _, tangent = torch.func.jvp(robot.inverse_dynamics, tuple(x), tuple(map(torch.cos, x)))
    _, other = torch.func.jvp(robot.inverse_dynamics, tuple(whole), tuple(map(torch.cos, whole)))
    assert_same(tangent, other)


def test_states_of_rollouts_are_broadcast(robot: gridgen.Robot) -> None:
    q, qd, _ = states(4)
    tau = torch.tensor(np.random.default_rng(0).normal(size=(4, 3, 6)), requires_grad=True)
    for given in ((q[0], qd[0], tau), (q, qd[0], tau[0]), (q[:1], qd, tau[0])):
        leaves = [one.detach().requires_grad_() for one in given]
        ends = zip(leaves, ((6,), (6,), (3, 6)), strict=True)
        paths = robot.rollout(*leaves, 0.01)
        expected = robot.rollout(*(one.expand(4, *end).clone() for one, end in ends), 0.01)
        assert_same(paths, expected)
        slopes = torch.autograd.grad(sum(map(torch.sum, paths)), leaves)
        others = torch.autograd.grad(sum(map(torch.sum, expected)), leaves)
        assert_same(slopes, others)
    gravity = torch.zeros(3, 3, dtype=torch.float64)  # of each step
    mapped = torch.func.vmap(lambda a: robot.rollout(a, qd[0], tau[0], 0.01, gravity=gravity)[0])
    assert_same(mapped(q)[1], robot.rollout(q[1], qd[0], tau[0], 0.01, gravity=gravity)[0])


def test_errors_are_our_own(robot: gridgen.Robot) -> None:
    q, qd, u = states(2, 3)
    with pytest.raises(ShapeError, match=r"qd has shape \(2, 3\); arm6 needs \(\*, 6\)"):
        robot.inverse_dynamics(q, qd[..., 0], u)
    with pytest.raises(ShapeError, match=r"qd has shape \(2, 6\); .* \(2, 3, 6\) or \(6,\), as q"):
        robot.inverse_dynamics(q, qd[:, 0], u)
    with pytest.raises(ShapeError, match=r"gravity .* needs \(2, 3, 3\) or \(3,\), as q has"):
        robot.inverse_dynamics(q, qd, u, gravity=torch.zeros(2, 3, dtype=torch.float64))
    with pytest.raises(DtypeError, match=r"qd is of type torch\.float32"):
        robot.inverse_dynamics(q, qd.float(), u)
    with pytest.raises(DtypeError, match=r"q is of type torch\.bfloat16; give float32"):
        robot.inverse_dynamics(*(one.bfloat16() for one in (q, qd, u)))
    with pytest.raises(DtypeError, match=r"qd has layout .*qd\.to_dense"):
        robot.inverse_dynamics(q[0], qd[0].to_sparse(), u[0])
    with pytest.raises(DtypeError, match="sequence of tensors"):
        robot.inverse_dynamics(q, qd, u, gravity=[q[0, 0, 0], 0.0, 0.0])
    with pytest.raises(DtypeError, match="dt cannot be read"):
        robot.step(q, qd, u, "soon")
    with pytest.raises(TypeError, match="unexpected keyword argument 'grav'"):
        robot.inverse_dynamics(q, qd, u, grav=1.0)
    with pytest.raises(OptionError, match="has params as constants"):
        robot.inverse_dynamics(q, qd, u, params=u)
    with pytest.raises(OptionError, match="no frame"):
        robot.jacobian(q, "elbow_")
    with pytest.raises(OptionError, match="store_every is 3"):
        robot.rollout(q, qd, u[:, :, None].expand(2, 3, 4, 6), 0.01, store_every=3)
    with pytest.raises(ShapeError, match="joint torques of every step"):
        robot.rollout(q[0, 0], qd[0, 0], u[0, 0], 0.01)


def test_no_out_where_gradients_would_get_lost(robot: gridgen.Robot) -> None:
    q, qd, u = states(3)
    out = torch.empty(3, 6, dtype=torch.float64)
    with pytest.raises(OptionError, match="has no out="):
        robot.inverse_dynamics(q, qd, u, out=out)
    with torch.no_grad():
        assert robot.inverse_dynamics(q, qd, u, out=out) is out
    assert_same(out, robot.inverse_dynamics(*detached([q, qd, u])))


@pytest.mark.usefixtures("few_objects")
def test_a_gradient_outlives_the_name_of_its_robot() -> None:
    robot = gridgen.load(OWN / "two_link.urdf")
    q = torch.zeros(3, 2, requires_grad=True)
    energy = robot.potential_energy(q).sum()
    handle = robot.handle
    del robot
    gc.collect()
    energy.backward()
    assert handle
    assert torch.isfinite(q.grad).all()


def test_the_example_finds_the_masses(capsys: pytest.CaptureFixture[str]) -> None:
    path = OWN.parent / "examples" / "identify_masses.py"
    example = runpy.run_path(str(path))
    found = example["main"](["--motions", "8", "--updates", "120"])
    assert found["losses"][0] > 1000.0
    assert 0.8 < found["losses"][-1] < 1.2  # the noise
    np.testing.assert_allclose(found["found"][1:], found["real"][1:], rtol=0.01)
    assert "link7" in capsys.readouterr().out


@pytest.mark.parametrize("shape", [(3, 5, 6), (2, 4, 6), (4, 5), (4, 1, 3, 6)])
def test_what_a_controller_cannot_follow_is_refused(
    robot: gridgen.Robot, shape: tuple[int, ...]
) -> None:
    q, qd, _ = states(3)
    tau, gains = torch.zeros(3, 4, 6, dtype=q.dtype), torch.zeros(6, 12, dtype=q.dtype)
    with pytest.raises(ShapeError, match=r"q_ref has shape .* needs \((6,\) or \(4, 6\) or|4, 3)"):
        robot.rollout(q, qd, tau, 0.01, feedback=(gains, torch.zeros(shape), torch.zeros(6)))
