"""Inverse kinematics: solutions by forward kinematics in float64, limits, every backend."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import gridgen
from fake_gpu.ptx.backend import PTX_TARGETS
from gridgen import check
from gridgen.backends import TARGETS
from gridgen.check import compare
from gridgen.compiler import read_tree
from gridgen.errors import DtypeError, ModelError, OptionError, ParameterError, ShapeError
from gridgen.functions.calls import Solutions
from gridgen.functions.types import BackendName
from gridgen.robot import open_module
from helpers.robots import example_urdf, exhaustive
from numerics.robots import urdf_path

FloatArray = NDArray[np.float64]
TOLERANCE = (1e-4, 1e-3)
#: Rounding of positions and limits to float32.
ROUNDING = 1e-5
BOTH_ARMS = ["gripper_left_base_link", "gripper_right_base_link"]


@cache
def robot_of(name: str, floating_base: bool = False) -> gridgen.Robot:
    return gridgen.load(urdf_path(name), floating_base=floating_base)


@cache
def example(name: str) -> gridgen.Robot:
    return gridgen.load(example_urdf(name))


def problems(
    robot: gridgen.Robot, frames: str | Sequence[str], count: int
) -> tuple[FloatArray, FloatArray]:
    """Return random configurations within the limits, and the poses of frames there."""
    q = robot.random_configuration(np.random.default_rng(count), count)
    return q, robot.forward_kinematics(q, frames)


def errors(
    robot: gridgen.Robot, q: FloatArray, targets: FloatArray, frames: Sequence[str]
) -> tuple[FloatArray, FloatArray]:
    """Return the largest position and orientation errors of frames, in float64."""
    here = robot.forward_kinematics(q.astype(np.float64), frames)
    position = np.linalg.norm((here - targets)[..., :3, 3], axis=-1)
    turn = np.linalg.norm((here - targets)[..., :3, :3], axis=(-2, -1)) / np.sqrt(8)
    return position.max(-1), (2 * np.arcsin(np.minimum(turn, 1))).max(-1)


def are_within_limits(robot: gridgen.Robot, q: FloatArray) -> bool:
    lower, upper = robot.lower_limits, robot.upper_limits
    return bool(((q >= lower - ROUNDING) & (q <= upper + ROUNDING)).all())


@pytest.mark.parametrize("dtype", ["float32", *exhaustive("float64")])
@pytest.mark.parametrize(
    ("name", "frames", "count"),
    [
        ("panda", ["panda_hand_tcp"], 4096),
        pytest.param("ur10_robot", ["tool0"], 4096, marks=pytest.mark.exhaustive),
        pytest.param("kinova", ["j2s6s200_link_6"], 4096, marks=pytest.mark.exhaustive),
        pytest.param("xarm7", ["link7"], 4096, marks=pytest.mark.exhaustive),
        pytest.param("talos_reduced", BOTH_ARMS, 2048, marks=pytest.mark.exhaustive),
    ],
)
def test_poses_within_reach_are_found(name: str, frames: list[str], count: int, dtype: str) -> None:
    """At least 99.5 % of them; a solution that is reported is one."""
    robot = example(name)
    _, targets = problems(robot, frames, count)
    found = robot.inverse_kinematics(targets.astype(dtype), frames)
    assert found.q.dtype == dtype
    position, orientation = errors(robot, found.q, targets, frames)
    is_solved = (position < TOLERANCE[0] + ROUNDING) & (orientation < TOLERANCE[1] + ROUNDING)
    assert (is_solved >= found.success).all()
    assert is_solved.mean() > 0.995
    assert are_within_limits(robot, found.q)
    assert_allclose(
        found.residual[found.success],
        np.stack([position, 2 * np.sin(orientation / 2)], axis=-1)[found.success],
        atol=ROUNDING,
    )


@pytest.mark.parametrize("backend", ["emulated", *exhaustive(*PTX_TARGETS)])
@pytest.mark.parametrize("dtype", ["float32", *exhaustive("float64")])
def test_kernels_of_a_gpu_give_the_bits_of_the_cpu(
    backend: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend in PTX_TARGETS:
        pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
        monkeypatch.setitem(TARGETS, PTX_TARGETS[backend].name, PTX_TARGETS[backend])
        backend = PTX_TARGETS[backend].name
    on_gpu = gridgen.load(urdf_path("arm7"), backend=backend)  # type: ignore[arg-type]
    _, targets = problems(robot_of("arm7"), "flange", 37)
    options = {"num_starts": 2, "rest": [0.1] * 7}
    found, expected = (
        robot.inverse_kinematics(targets.astype(dtype), "flange", **options)
        for robot in (on_gpu, robot_of("arm7"))
    )
    assert 0 < expected.success.sum() < 37
    for array, other in zip(found, expected, strict=True):
        assert_array_equal(array, other)


def test_a_result_does_not_depend_on_other_problems() -> None:
    robot = robot_of("arm6")
    _, targets = problems(robot, "tool0", 100)
    found = robot.inverse_kinematics(targets, "tool0")
    for part in (slice(7, 9), slice(99, 30, -1)):
        some = robot.inverse_kinematics(targets[part], "tool0")
        for array, whole in zip(some, found, strict=True):
            assert_array_equal(array, whole[part])
    one = robot.inverse_kinematics(targets[5].tolist(), "tool0")
    assert_array_equal(one.q, found.q[5])
    assert one.success.shape == ()


def test_best_is_the_first_solution_of_all() -> None:
    robot = robot_of("arm7")
    _, targets = problems(robot, "flange", 60)
    best = robot.inverse_kinematics(targets, "flange", num_starts=6)
    every = robot.inverse_kinematics(targets, "flange", num_starts=6, return_all=True)
    assert every.q.shape == (60, 6, 7)
    assert_array_equal(every.success.any(axis=1), best.success)
    first = every.success.argmax(axis=1)
    pick = np.arange(60)[best.success], first[best.success]
    assert_array_equal(every.q[pick], best.q[best.success])
    assert_array_equal(every.residual[pick], best.residual[best.success])


def test_the_next_point_of_a_path_is_near_the_last() -> None:
    robot = robot_of("arm7")
    q, _ = problems(robot, "flange", 200)
    q = np.clip(q, robot.lower_limits + 0.1, robot.upper_limits - 0.1)
    targets = robot.forward_kinematics(q + 0.02, "flange")
    found = robot.inverse_kinematics(targets, "flange", q0=q)
    assert found.success.all()
    assert np.median(np.abs(found.q - q).max(axis=1)) < 0.05


@pytest.mark.parametrize("part", [0, 1])
def test_an_error_without_weight_does_not_count(part: int) -> None:
    robot = robot_of("arm6")
    _, targets = problems(robot, ["tool0"], 100)
    weights = np.eye(2)[part]
    found = robot.inverse_kinematics(targets, ["tool0"], pose_weights=weights)
    reached = errors(robot, found.q, targets, ["tool0"])
    assert found.success.all()
    assert (reached[part] < TOLERANCE[part]).all()
    assert (reached[1 - part] > TOLERANCE[1 - part]).any()


@pytest.mark.parametrize("return_all", [False, True])
def test_arguments_may_differ_between_problems(return_all: bool) -> None:
    robot = robot_of("arm6")
    q, targets = problems(robot, ["tool0"], 6)
    weights = np.ones((6, 1, 2))
    weights[::2, :, 1] = 0
    found = robot.inverse_kinematics(
        targets, ["tool0"], q0=q, pose_weights=weights, return_all=return_all
    )
    for i in range(6):
        one = robot.inverse_kinematics(
            targets[i], ["tool0"], q0=q[i], pose_weights=weights[i], return_all=return_all
        )
        for array, whole in zip(one, found, strict=True):
            assert_array_equal(array, whole[i])


def test_a_rest_posture_draws_the_null_space() -> None:
    robot = robot_of("arm7")
    q, targets = problems(robot, "flange", 200)
    rest = np.zeros(7)
    drawn = robot.inverse_kinematics(targets, "flange", rest=rest, iterations=60)
    free = robot.inverse_kinematics(targets, "flange", q0=rest)
    both = drawn.success & free.success
    assert drawn.success.mean() > 0.95
    lengths = [np.linalg.norm(found.q[both], axis=1) for found in (drawn, free)]
    assert lengths[0].mean() < lengths[1].mean()
    # At a posture with the rest's own pose nothing is left to move.
    own = robot.inverse_kinematics(robot.forward_kinematics(q, "flange"), "flange", rest=q)
    assert_allclose(own.q, q, atol=1e-9)


def test_two_frames_move_a_floating_base() -> None:
    robot = robot_of("quadruped", floating_base=True)
    frames = ["FL_foot", "RR_foot"]
    q, targets = problems(robot, frames, 200)
    weights = [[1.0, 0.0], [1.0, 0.2]]
    found = robot.inverse_kinematics(targets, frames, pose_weights=weights)
    assert found.success.mean() > 0.9
    assert_allclose(np.linalg.norm(found.q[:, 3:7], axis=1), 1, atol=1e-12)
    assert_allclose(
        robot.forward_kinematics(found.q[found.success], frames)[..., :3, 3],
        targets[found.success][..., :3, 3],
        atol=TOLERANCE[0],
    )
    start = q.copy()
    start[:, 7:] += 0.02
    tracked = robot.inverse_kinematics(targets, frames, q0=start, pose_weights=weights)
    assert tracked.success.all()


def test_mimic_joints_follow() -> None:
    robot = robot_of("gripper")
    _, targets = problems(robot, ["left_pad", "thumb_distal"], 200)
    weights = [1.0, 0.0]
    found = robot.inverse_kinematics(
        targets, ["left_pad", "thumb_distal"], pose_weights=weights, num_starts=64
    )
    assert found.success.mean() > 0.9
    assert are_within_limits(robot, found.q)


def test_joints_that_move_no_frame_stay() -> None:
    robot = robot_of("humanoid")
    q, targets = problems(robot, "left_sole", 50)
    found = robot.inverse_kinematics(targets, "left_sole", q0=q[::-1])
    moves = np.abs(robot.jacobian(q, "left_sole")).max(axis=(0, 1)) > 0
    assert 0 < moves.sum() < robot.nq
    assert_array_equal(found.q[:, ~moves], q[::-1][:, ~moves])


def test_a_target_out_of_reach_is_reported() -> None:
    robot = robot_of("arm6")
    _, targets = problems(robot, "tool0", 20)
    targets[::2, 0, 3] += 10
    found = robot.inverse_kinematics(targets, "tool0")
    assert not found.success[::2].any()
    assert found.success[1::2].all()
    assert (found.residual[::2, 0] > 5).all()
    assert np.isfinite(found.q).all()
    targets[0] = np.nan
    again = robot.inverse_kinematics(targets, "tool0")
    assert not again.success[0]
    assert_array_equal(again.q[1:], found.q[1:])


def test_a_start_beyond_the_limits_leads_within() -> None:
    """Also where it solves the problem, and of joints that move no frame."""
    robot = robot_of("arm7")
    q = np.zeros((2, 7)) + robot.lower_limits - 0.05
    targets = robot.forward_kinematics(q, ["link4"])
    for options in ({"q0": q}, {"rest": q}, {"q0": q, "num_starts": 1, "return_all": True}):
        found = robot.inverse_kinematics(targets, ["link4"], **options)
        assert are_within_limits(robot, found.q)


def test_an_angle_of_pi_is_an_error() -> None:
    robot = robot_of("arm6")
    q, targets = problems(robot, "tool0", 20)
    targets[:, :3, :3] = targets[:, :3, :3] @ np.diag([1.0, -1.0, -1.0])
    found = robot.inverse_kinematics(targets, "tool0", q0=q, num_starts=1, iterations=1)
    assert not found.success.any()
    assert_allclose(found.residual[:, 1], 2.0)


def test_leading_axes_and_results_in_place() -> None:
    robot = robot_of("arm6")
    _, targets = problems(robot, "tool0", 24)
    flat = robot.inverse_kinematics(targets, "tool0")
    out = np.empty((4, 6, 6)), np.empty((4, 6)), np.empty((4, 6, 2))
    shaped = robot.inverse_kinematics(targets.reshape(4, 6, 4, 4), "tool0", out=out)
    assert shaped.q is out[0]
    assert_array_equal(out[0].reshape(24, 6), flat.q)
    assert_array_equal(out[1].reshape(24) > 0, flat.success)


def test_refusals() -> None:
    robot = robot_of("arm6")
    target = np.eye(4)
    with pytest.raises(OptionError, match="no frame"):
        robot.inverse_kinematics(target, "tool")
    with pytest.raises(ModelError, match="no joint moves"):
        robot.inverse_kinematics(target, robot.frame_names[0])
    for wrong in (np.eye(3), np.zeros(3), np.zeros((5, 7)), np.zeros((4, 3, 4))):
        with pytest.raises(
            ShapeError, match=r"targets has shape .*\(4, 4\) or \(B, 4, 4\), for the"
        ):
            robot.inverse_kinematics(wrong, "tool0")
    with pytest.raises(ShapeError, match=r"\(2, 4, 4\) or \(B, 2, 4, 4\), for a list of 2"):
        robot.inverse_kinematics(target[None], ["tool0", "forearm_link"])
    for weights, wrong in (([0, 0], 0.0), ([1, -1], -1.0), ([np.nan, 1], np.nan)):
        with pytest.raises(ParameterError, match=f"pose_weights has {wrong}; give finite"):
            robot.inverse_kinematics(target, "tool0", pose_weights=weights)
    with pytest.raises(
        OptionError, match="num_starts is 129; give at most 128, the number of starts"
    ):
        robot.inverse_kinematics(target, "tool0", num_starts=129)
    robot.inverse_kinematics(target, "tool0", num_starts=129, q0=np.zeros(6))
    with pytest.raises(DtypeError, match="targets has dtype int64"):
        robot.inverse_kinematics(np.eye(4, dtype=np.int64), "tool0")
    with pytest.raises(DtypeError, match="q0"):
        robot.inverse_kinematics(target, "tool0", q0=np.zeros(6, np.float32))
    with pytest.raises(ShapeError, match="pose_weights"):
        robot.inverse_kinematics(target, "tool0", pose_weights=[1, 2, 3])
    with pytest.raises(ParameterError, match=r"targets\[1\] is no pose"):
        robot.inverse_kinematics(np.stack([target, 1.01 * target]), "tool0")
    for word, value in (
        ("num_starts", 0),
        ("iterations", 2.5),
        ("tolerance", (1e-3, 0.0)),
        ("tolerance", 1e-3),
        ("return_all", "last"),
    ):
        with pytest.raises(OptionError, match=word):
            robot.inverse_kinematics(target, "tool0", **{word: value})


LISTS = ("tool0", ["tool0", "forearm_link"])


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> gridgen.GeneratedModule:
    options = gridgen.GenerateOptions(
        output=tmp_path_factory.mktemp("modules"),
        functions=("mass_matrix",),
        inverse_kinematics=LISTS,
        vjp=True,
        jvp=True,
    )
    return gridgen.generate(urdf_path("arm6"), options)


def test_limits_of_ball_joints_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    text = """<mujoco><worldbody><body name="a"><joint name="slide" type="slide"/>
        <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
        <body name="b"><joint name="shoulder" type="ball" range="0 40"/>
        <inertial pos="0 0 0.1" mass="1" diaginertia="1 1 1"/></body></body></worldbody></mujoco>"""
    path = tmp_path / "shoulder.xml"
    path.write_text(text)
    robot = gridgen.load(path)
    with pytest.raises(ModelError, match='angle of ball joint "shoulder": load'):
        robot.inverse_kinematics(np.eye(4), "b")
    q, motion = np.tile(robot.neutral(), (2, 1)), np.zeros((2, robot.nv))
    with pytest.raises(OptionError, match="upper_limits do not include the limit of the angle"):
        gridgen.trajectory_cost(
            robot, [gridgen.Cost("upper_limits")], q[None], motion[None], motion[None, 1:]
        )


def test_a_generated_module_has_the_kernels_that_it_was_asked_for(
    module: gridgen.GeneratedModule,
) -> None:
    robot = open_module(str(module.folder / "__init__.py"))
    _, targets = problems(robot_of("arm6"), "tool0", 50)
    found = robot.inverse_kinematics(targets, "tool0")
    for array, expected in zip(
        found, robot_of("arm6").inverse_kinematics(targets, "tool0"), strict=True
    ):
        assert_array_equal(array, expected)
    text = (module.folder / "__init__.py").read_text()
    assert "inverse_kinematics = robot.inverse_kinematics" in text
    assert "compute = " not in text
    with pytest.raises(ModelError, match=r"again with --inverse-kinematics LINK,\.\.\. of these"):
        robot.inverse_kinematics(np.eye(4), "wrist_3_link")
    names = {"inverse_kinematics_of_tool0", "inverse_kinematics_of_tool0_and_forearm_link"}
    assert names <= set(robot.functions)
    with pytest.raises(OptionError, match='no frame "tool1"'):
        robot.inverse_kinematics(np.eye(4), "tool1")


@pytest.mark.exhaustive
@pytest.mark.parametrize("backend", ["cpu", *exhaustive("emulated")])
def test_the_check_of_a_module_compares_solutions_and_derivatives(
    module: gridgen.GeneratedModule, backend: BackendName
) -> None:
    robot = gridgen.robot.Robot(module, backend)
    searched = [name for name in robot.functions if name.startswith("inverse_kinematics")]
    assert len(searched) == 8
    found = compare(module.tree, robot, ["float32", "float64"], backend, functions=searched)
    assert len(found) == 16
    for comparison in found:
        assert comparison.passed, comparison
        assert comparison.error > 0.0


def test_a_check_notices_wrong_solutions(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = robot_of("arm6")
    kernel = robot.resolver.search_kernel("tool0")
    tree = read_tree(urdf_path("arm6"))
    q = robot.random_configuration(np.random.default_rng(0), 20)
    assert check._compare_search(tree, robot, kernel, "float64", q).passed
    solve = robot.inverse_kinematics

    def wrong(*given: object) -> Solutions:
        found = solve(*given)
        return found._replace(q=found.q + 1e-3)

    monkeypatch.setattr(robot, "inverse_kinematics", wrong)
    assert not check._compare_search(tree, robot, kernel, "float64", q).passed


@pytest.mark.parametrize("backend", ["cpu", *exhaustive("emulated")])
def test_a_bound_call_reads_what_its_targets_are_later(backend: BackendName) -> None:
    robot = robot_of("arm6")
    robot.compile("inverse_kinematics", frame="tool0", dtype="float64", backend=backend)
    _, targets = problems(robot, "tool0", 30)
    given = targets.copy()
    bound = robot.bind("inverse_kinematics", given, "tool0", num_starts=4, backend=backend)
    assert bound() is bound()
    for now in (targets, targets[::-1]):
        given[...] = now
        for array, expected in zip(
            bound(), robot.inverse_kinematics(now, "tool0", num_starts=4), strict=True
        ):
            assert_array_equal(array, expected)
    out = np.empty((30, 6)), np.empty(30), np.empty((30, 2))
    bound = robot.bind("inverse_kinematics", given, "tool0", q0=np.zeros(6), out=out)
    assert bound()[0] is out[0]
    plain = robot.inverse_kinematics(given, "tool0", q0=np.zeros(6))
    assert_array_equal(out[0], plain.q)


def test_links_of_a_module_are_validated() -> None:
    for wrong in ("tool0", [3], [[]], {"tool0": 1}):
        with pytest.raises(OptionError, match=r"inverse_kinematics is .*; give a tuple of links"):
            gridgen.GenerateOptions(inverse_kinematics=wrong)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"add --inverse-kinematics LINK,\.\.\."):
        gridgen.GenerateOptions(functions=("inverse_kinematics",))  # type: ignore[arg-type]
    text = urdf_path("arm6")
    with pytest.raises(OptionError, match='no frame "tool"'):
        gridgen.generate(text, gridgen.GenerateOptions(inverse_kinematics=("tool",)))
    base = robot_of("arm6").frame_names[0]
    with pytest.raises(ModelError, match=r"inverse_kinematics: no .*no joint moves"):
        gridgen.generate(text, gridgen.GenerateOptions(inverse_kinematics=(base,)))


def derivatives(
    robot: gridgen.Robot,
) -> tuple[dict[str, object], FloatArray, FloatArray, FloatArray]:
    """Return options, targets, motions of the targets, and what these make of the solutions."""
    rng = np.random.default_rng(5)
    q = 0.7 * robot.random_configuration(rng, 8)
    targets = robot.forward_kinematics(q, "flange")
    J = robot.jacobian(q, "flange", "local_world_aligned")
    twist = np.einsum("bij,bj->bi", J, rng.normal(size=q.shape))
    v, w = twist[:, :3], twist[:, 3:]
    motion = np.zeros_like(targets)
    motion[:, :3, :3] = np.cross(w[:, None], targets[:, :3, :3].swapaxes(1, 2)).swapaxes(1, 2)
    motion[:, :3, 3] = v
    change = np.einsum("bij,bj->bi", np.linalg.pinv(J), twist)
    return {"q0": q}, targets, motion, change


def test_gradients_in_torch_are_those_of_the_implicit_function() -> None:
    torch = pytest.importorskip("torch")
    robot = robot_of("arm7")
    options, targets, motion, change = derivatives(robot)
    weights = np.random.default_rng(6).normal(size=change.shape)
    given = torch.tensor(targets, requires_grad=True)
    found = robot.inverse_kinematics(given, "flange", **options)
    (found.q * torch.tensor(weights)).sum().backward()
    assert_allclose((given.grad.numpy() * motion).sum(), (weights * change).sum(), rtol=1e-5)
    assert not found.residual.requires_grad
    with pytest.raises(OptionError, match="out"):
        robot.inverse_kinematics(given, "flange", out=tuple(found))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_transforms_of_pytorch_differentiate_and_map() -> None:
    torch = pytest.importorskip("torch")
    from torch.autograd import forward_ad

    robot = robot_of("arm7")
    options, targets, motion, change = derivatives(robot)
    given = {name: torch.tensor(one) for name, one in options.items()}
    targets, motion = torch.tensor(targets), torch.tensor(motion)

    def solve(pose: object, q0: object = given["q0"]) -> object:
        return robot.inverse_kinematics(pose, "flange", q0=q0).q

    q, moved = torch.func.jvp(solve, (targets,), (motion,))
    assert_array_equal(q, solve(targets))
    assert_allclose(moved, change, rtol=1e-5, atol=1e-5)
    with forward_ad.dual_level():
        dual = solve(forward_ad.make_dual(targets, motion))
        assert_array_equal(forward_ad.unpack_dual(dual).tangent, moved)
    rows = torch.func.vmap(torch.func.jacrev(solve))(targets, given["q0"])
    assert_allclose(torch.einsum("bijk,bjk->bi", rows, motion), moved, rtol=1e-9, atol=1e-9)
    columns = torch.func.vmap(torch.func.jacfwd(solve))(targets, given["q0"])
    assert_allclose(columns, rows, rtol=1e-9, atol=1e-9)
    every = torch.stack([given["q0"], given["q0"] + 0.1])
    for found, q0 in zip(torch.func.vmap(solve, (None, 0))(targets, every), every, strict=True):
        assert_array_equal(found, solve(targets, q0))
    weights = torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=targets.dtype)
    mapped = torch.func.vmap(
        lambda one: robot.inverse_kinematics(targets, "flange", pose_weights=one[None]).q
    )(weights)
    for found, one in zip(mapped, weights, strict=True):
        plain = robot.inverse_kinematics(targets, "flange", pose_weights=one[None]).q
        assert_array_equal(found, plain)


def test_jax_differentiates_and_maps() -> None:
    jax = pytest.importorskip("jax")
    robot = robot_of("arm7")
    options, targets, motion, change = derivatives(robot)
    with jax.enable_x64(True):

        def solve(pose: object) -> object:
            return robot.inverse_kinematics(pose, "flange", **options).q

        targets, motion = jax.numpy.array(targets), jax.numpy.array(motion)
        q, moved = jax.jvp(solve, (targets,), (motion,))
        assert_allclose(q, options["q0"], atol=1e-12)
        assert_allclose(moved, change, rtol=1e-5, atol=1e-5)
        bar = jax.grad(lambda pose: (solve(pose) * change).sum())(targets)
        assert_allclose((bar * motion).sum(), (change**2).sum(), rtol=1e-5)
        one = jax.vmap(lambda pose: robot.inverse_kinematics(pose, "flange").q)(targets)
        assert_array_equal(one, robot.inverse_kinematics(np.asarray(targets), "flange").q)


@pytest.mark.exhaustive
def test_second_derivatives_of_jax_are_differences_of_first_ones() -> None:
    jax = pytest.importorskip("jax")
    robot, weights = robot_of("arm6"), np.random.default_rng(1).normal(size=6)
    (q,), motion = problems(robot, "tool0", 1)[0], np.random.default_rng(2).normal(size=6)

    def solved(pose: object) -> object:
        found = robot.inverse_kinematics(pose, "tool0", q0=q, tolerance=(1e-11, 1e-11))
        return found.q @ weights

    def pose_at(time: float) -> FloatArray:
        return jax.numpy.array(robot.forward_kinematics(q + time * motion, "tool0"))

    with jax.enable_x64(True):
        slope = jax.grad(solved)
        D = (pose_at(1e-6) - pose_at(-1e-6)) / 2e-6
        H = jax.hessian(solved)(pose_at(0.0))
        expected = (slope(pose_at(1e-6)) - slope(pose_at(-1e-6))) / 2e-6
    found = np.einsum("ijkl,kl->ij", H, D)
    assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())
