"""Contacts with height fields, against MuJoCo's planes and height fields."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gridgen
from gridgen.backends import TARGETS
from gridgen.check import compare_function, random_parameters
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import GridGenWarning, OptionError, ShapeError
from helpers.dynamics import load_tree
from helpers.robots import OWN, exhaustive, needs

GRAVITY = (0.0, 0.0, -9.81)
FEET = [{"link": f"{leg}_foot", "radius": 0.02} for leg in ("FL", "FR", "RL", "RR")]
#: A ball that moves freely.
BALL = """
<robot name="ball">
  <link name="base"/>
  <link name="ball"><inertial><mass value="1"/>
    <inertia ixx="4e-3" iyy="4e-3" izz="4e-3" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><geometry><sphere radius="0.1"/></geometry></collision></link>
  <joint name="free" type="floating"><parent link="base"/><child link="ball"/></joint>
</robot>
"""
SLOPES = (0.2, -0.1)


def tilted(slopes: tuple[float, float], height: float = 0.0, **options: Any) -> np.ndarray:
    """Return a plane as a field of 6 x 9 points."""
    options = {"half_lengths": (4.0, 3.0), **options}
    x, y = (np.linspace(-h, h, n) for h, n in zip(options["half_lengths"], (9, 6), strict=True))
    return gridgen.terrain(height + slopes[0] * x + slopes[1] * y[:, None], **options)


def rough(rng: np.random.Generator, *batch: int) -> np.ndarray:
    """Return heights of up to 10 cm at points 40 to 50 cm apart."""
    heights = rng.uniform(0.0, 0.1, (*batch, 9, 11))
    return gridgen.terrain(heights, half_lengths=(2.5, 1.6), center=(0.1, -0.2))


def ball(backend: str = "cpu", **options: Any) -> gridgen.Robot:
    contact = {"terrain": rough(np.random.default_rng(0)), "iterations": 30}
    return gridgen.load(BALL, ground=["ball"], contact=contact, backend=backend, **options)


def on_field(rng: np.random.Generator, count: int, terrain: np.ndarray) -> dict[str, np.ndarray]:
    """Return states of the ball that touch a field, or nearly do."""
    q, qd, tau = rng.normal(size=(count, 7)), *rng.normal(size=(2, count, 6))
    q[:, :2] = rng.uniform(-1.5, 1.5, (count, 2))
    q[:, 2] = rng.uniform(0.1, 0.2, count)
    q[:, 3:] /= np.linalg.norm(q[:, 3:], axis=1, keepdims=True)
    return {"q": q, "qd": qd, "tau": tau, "terrain": terrain}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_compiled_code_agrees_with_the_reference(dtype: str) -> None:
    rng, name = np.random.default_rng(2), "contact_forward_dynamics"
    options: dict[str, Any] = {"ground": ["ball"]}
    options["contact"] = {"terrain": rough(np.random.default_rng(0)), "iterations": 30}
    tree = load_tree(BALL, **options)
    drawn = random_parameters(tree, 40, rng)["terrain"]
    own = np.asarray(tree.parameters["terrain"])
    for terrain in (rough(rng, 40), rough(rng), own, drawn):
        x = {key: array.astype(dtype) for key, array in on_field(rng, 40, terrain).items()}
        given = {} if terrain is own else {"terrain": x["terrain"]}
        results = ball().contact_forward_dynamics(x["q"], x["qd"], x["tau"], **given)
        assert (results[1][..., 2] > 0.0).mean() > 0.3
        exact = {key: array.astype(float) for key, array in x.items()}
        exact["gravity"] = np.tile(GRAVITY, (40, 1))
        with np.errstate(divide="ignore", invalid="ignore"):  # of states that have converged
            row = compare_function(tree, name, dtype, exact, results)
        assert row.passed, row


@pytest.mark.parametrize("way", [*exhaustive("emulated"), "compute_75"])
def test_kernels_of_gpus_give_the_bits_of_the_cpu(way: str, monkeypatch: Any) -> None:
    if way != "emulated":
        pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
        from fake_gpu.ptx.backend import PTX_TARGETS

        monkeypatch.setitem(TARGETS, "emulated", PTX_TARGETS[way])
    rng = np.random.default_rng(3)
    on_gpu, on_cpu = ball("emulated"), ball()
    for terrain in (rough(rng, 40), rough(rng)):
        x = on_field(rng, 40, terrain)
        q, qd, tau, terrain = (x[name].astype("float32") for name in ("q", "qd", "tau", "terrain"))
        path = np.repeat(tau[:, None], 8, axis=1)
        found, expected = (
            (
                *robot.contact_forward_dynamics(q, qd, tau, terrain=terrain),
                *robot.step(q, qd, tau, 2e-3, terrain=terrain),
                *robot.rollout(q, qd, path, 2e-3, terrain=terrain),
            )
            for robot in (on_gpu, on_cpu)
        )
        for one, other in zip(found, expected, strict=True):
            assert_array_equal(one, other)
        assert_array_equal(found[2], found[4][:, 1])  # a rollout is a sequence of steps


@pytest.mark.exhaustive
def test_derivatives_are_those_of_differences() -> None:
    rng, robot = np.random.default_rng(4), ball()
    x = on_field(rng, 20, rough(rng, 20))
    q, qd, tau = (x[name] for name in ("q", "qd", "tau"))
    options = {"terrain": x["terrain"], "tolerance": np.full(1, 1e-13)}
    path = np.repeat(tau[:, None], 3, axis=1)
    move, *moves = (rng.normal(size=array.shape) for array in (qd, qd, tau, path))
    for name, given, along in (
        ("contact_forward_dynamics", (q, qd, tau), (moves[0], moves[1])),
        ("rollout", (q, qd, path, 1e-3), (moves[0], moves[2])),
    ):
        function = getattr(robot, name)

        def moved(step: float, given: Any = given, along: Any = along, call: Any = function) -> Any:
            first = robot.integrate(q, step * move)
            others = (a + step * b for a, b in zip(given[1:3], along, strict=True))
            return call(first, *others, *given[3:], **options)

        weights = [rng.normal(size=array.shape) for array in moved(0.0)]
        pairs = zip(weights, moved(1e-7), moved(-1e-7), strict=True)
        slopes = sum((w * (a - b)).reshape(20, -1).sum(axis=1) for w, a, b in pairs) / 2e-7
        if name == "rollout":
            bars = robot.rollout_vjp(*given, tuple(weights), **options)
        else:
            bars = robot.vjp(name, tuple(weights), *given, **options)
        tangent = (robot.integrate(q, 1e-7 * move) - robot.integrate(q, -1e-7 * move)) / 2e-7
        found = sum(
            (bar * way).reshape(20, -1).sum(axis=1)
            for bar, way in zip(bars, (tangent, *along), strict=False)
        )
        assert_allclose(found, slopes, rtol=1e-4, atol=1e-3)
    A, B = robot.step_gradient(q, qd, tau, 1e-3, **options)
    ends = [
        robot.step(
            robot.integrate(q, h * move), qd + h * moves[0], tau + h * moves[1], 1e-3, **options
        )
        for h in (1e-7, -1e-7)
    ]
    changes = np.hstack([robot.difference(ends[1][0], ends[0][0]), ends[0][1] - ends[1][1]])
    found = np.einsum("bij,bj->bi", A, np.hstack([move, moves[0]]))
    found += np.einsum("bij,bj->bi", B, moves[1])
    assert_allclose(found, changes / 2e-7, rtol=1e-4, atol=1e-4)
    tangents = (tangent, *moves[:2])
    names = {**options, "wrt": ("q", "qd", "tau")}
    _, changes = robot.jvp("contact_forward_dynamics", tangents, q, qd, tau, **names)
    bars = robot.vjp("contact_forward_dynamics", tuple(changes), q, qd, tau, **names)
    found = sum((bar * way).sum(axis=1) for bar, way in zip(bars, tangents, strict=True))
    assert_allclose(found, sum((c * c).reshape(20, -1).sum(axis=1) for c in changes), rtol=1e-9)


def test_a_ball_rolls_down_a_slope_and_off_the_field() -> None:
    """Its acceleration is 5/7 of that of a block, its kinetic energy the lost potential energy."""
    robot, slope, steps = ball(), np.arctan(0.2), 2400
    field = tilted((-0.2, 0.0), half_lengths=(1.5, 1.0))
    q0, qd0 = np.array([[0.0, 0, 0, 0, 0, 0, 1]]), np.zeros((1, 6))
    q0[0, :3] = (np.array([np.sin(slope), 0.0, np.cos(slope)]) * 0.1) - [1.0, 0, -0.2]
    q, qd = robot.rollout(q0, qd0, np.zeros((1, steps, 6)), 1e-3, terrain=field)
    energy = robot.kinetic_energy(q[0], qd[0]) + robot.potential_energy(q[0])
    on, off = q[0, :, 0] < 1.4, q[0, :, 0] > 1.6
    fall = 9.81 * (q[0, 0, 2] - q[0, on, 2].min())
    assert_allclose(energy[on], energy[0], atol=0.02 * fall)
    t = 1e-3 * np.arange(steps + 1)[on]
    found = np.polynomial.Polynomial.fit(t, q[0, on, 0], 2).convert().coef[2] * 2.0
    assert found == pytest.approx(5.0 / 7.0 * 9.81 * np.sin(slope) * np.cos(slope), rel=0.02)
    assert off.sum() > 20
    assert_allclose(np.diff(q[0, off, 2], 2) / 1e-6, -9.81, rtol=1e-6)  # it falls freely


@pytest.mark.exhaustive
def test_a_quadruped_settles_on_a_rough_field() -> None:
    rng = np.random.default_rng(5)
    field = gridgen.terrain(0.06 * rng.uniform(size=(5, 81, 81)), half_lengths=(2.0, 2.0))
    robot = gridgen.load(
        OWN / "quadruped.urdf",
        floating_base=True,
        joint_dynamics=True,
        ground=FEET,
        contact={"terrain": field[0]},
        backend="cpu",
    )
    steps = 1500
    q0 = np.tile(robot.neutral(), (5, 1))
    q0[:, :2], q0[:, 2], q0[:, 7:] = rng.uniform(-1.0, 1.0, (5, 2)), 0.45, [0.0, 0.7, -1.4] * 4
    qd0, tau = np.zeros((5, robot.nv)), np.zeros((5, steps, robot.nv))
    gains = np.zeros((robot.nv, 2 * robot.nv))
    for j in range(6, robot.nv):
        gains[j, j], gains[j, robot.nv + j] = 60.0, 2.0
    feedback = tuple(
        np.broadcast_to(array[:, None], (5, steps, *array.shape[1:]))
        for array in (np.tile(gains, (5, 1, 1)), q0, qd0)
    )
    options: dict[str, Any] = {"terrain": field, "feedback": feedback}
    options["record"] = ("contact_forward_dynamics",)
    q, qd, _, forces = robot.rollout(q0, qd0, tau, 2e-3, **options)
    weight = 9.81 * robot.total_mass
    assert_allclose(forces[:, -100:, :, 2].sum(axis=2).mean(axis=1), weight, rtol=0.02)
    touching = (forces[:, -1, :, 2] > 0.01 * weight).sum(axis=1)
    assert (touching >= 3).all()
    energy = robot.kinetic_energy(q.reshape(-1, robot.nq), qd.reshape(-1, robot.nv))
    energy = energy.reshape(5, -1)
    assert energy.max() < 0.15 * weight  # of the fall
    assert energy[:, -1].max() < 0.01
    poses = robot.forward_kinematics(q[:, -1])
    for foot in FEET:
        p = poses[:, robot.frame_names.index(foot["link"]), :3, 3]
        for point, own in zip(p, field, strict=True):
            heights, place = own[6:].reshape(81, 81), (point[:2] + 2.0) / 0.05
            column, row = place.astype(int)
            least = heights[row : row + 2, column : column + 2].min()
            assert point[2] - 0.02 > least - 5e-3  # no foot sinks


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(6), r"terrain has shape \(6,\)"),
        (tilted(SLOPES)[:-1], "do not fit; make it by gridgen.terrain"),
        (np.r_[2.5, 2, 0, 0, 1, 1, np.zeros(5)], "do not fit"),
        (np.r_[2, 2, 0, 0, 0, 1, np.zeros(4)], "do not fit"),
    ],
)
def test_an_array_that_is_no_terrain_is_refused(array: np.ndarray, message: str) -> None:
    robot, zero = ball(), np.zeros((1, 6))
    with pytest.raises(ShapeError, match=message):
        robot.contact_forward_dynamics(robot.neutral()[None], zero, zero, terrain=array)
    with pytest.raises(ShapeError, match=message):
        load_tree(BALL, ground=["ball"], contact={"terrain": array})


def test_wrong_options_say_what_to_do() -> None:
    field = tilted(SLOPES)
    for given, message in (
        ({"heights": np.zeros(4), "half_lengths": (1, 1)}, r"heights has shape \(4,\); give"),
        ({"heights": np.zeros((1, 4)), "half_lengths": (1, 1)}, "give 2 x 2 or more"),
        ({"heights": np.zeros((2, 4)), "half_lengths": (1, 0)}, "positive lengths"),
        ({"heights": np.full((2, 2), np.nan), "half_lengths": (1, 1)}, "heights has nan; give"),
        ({"heights": np.zeros((2, 4)), "half_lengths": 1}, r"half_lengths has shape \(\)"),
    ):
        with pytest.raises(OptionError, match=message):
            gridgen.terrain(**given)
    with pytest.raises(OptionError, match="give one height field"):
        load_tree(BALL, ground=["ball"], contact={"terrain": "hills.png"})
    with pytest.raises(OptionError, match="name links in ground"):
        load_tree(BALL, contact={"terrain": field})
    robot, zero = gridgen.load(BALL, ground=["ball"], backend="cpu"), np.zeros((1, 6))
    with pytest.raises(OptionError, match="touches no height field: load it with one"):
        robot.contact_forward_dynamics(robot.neutral()[None], zero, zero, terrain=field)
    robot, name = ball(), "contact_forward_dynamics"
    with pytest.raises(OptionError, match="wrt names 'terrain'"):
        robot.vjp(name, (zero, None), robot.neutral()[None], zero, zero, wrt="terrain")


@pytest.mark.exhaustive
@needs("torch")
def test_tensors_and_their_gradients() -> None:
    import torch

    rng, robot = np.random.default_rng(6), ball()
    x = on_field(rng, 5, rough(rng, 5))
    q, qd, tau, field = (torch.tensor(x[name]) for name in ("q", "qd", "tau", "terrain"))
    q.requires_grad_()
    qdd, _ = robot.contact_forward_dynamics(q, qd, tau, terrain=field)
    (bar,) = torch.autograd.grad(qdd.sum(), q)
    name, ones = "contact_forward_dynamics", np.ones((5, 6))
    expected = robot.vjp(name, (ones, None), *map(x.get, ("q", "qd", "tau")), terrain=x["terrain"])
    assert_allclose(bar, expected[0], rtol=1e-12)
    path = tau[:, None].expand(5, 4, 6)
    paths = robot.rollout(q, qd, path, 1e-3, terrain=field)
    (bar,) = torch.autograd.grad(paths[0].sum() + paths[1].sum(), q)
    ones = [np.ones(array.shape) for array in paths]
    given = (x["q"], x["qd"], path.numpy(), 1e-3, tuple(ones))
    assert_allclose(bar, robot.rollout_vjp(*given, terrain=x["terrain"])[0], rtol=1e-10)
    made = gridgen.terrain(torch.zeros(3, 4), half_lengths=(1, 2), like=torch.zeros(1))
    assert made.dtype == torch.float32
    assert made.shape == (18,)


# --- Against MuJoCo ------------------------------------------------------------------------------


def field_text(text: str, size: str = "20 20 1 1", rows: int = 7, columns: int = 9) -> str:
    """Return a model with a height field in place of its plane."""
    asset = f'<asset><hfield name="field" nrow="{rows}" ncol="{columns}" size="{size}"/></asset>'
    text = text.replace("<worldbody>", f"{asset}<worldbody>", 1)
    return text.replace('type="plane" size="1 1 1"', 'type="hfield" hfield="field"')


@needs("mujoco")
@pytest.mark.filterwarnings("ignore::gridgen.errors.GridGenWarning")
@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_every_shape_on_a_flat_field_has_mujocos_numbers_of_a_plane(cone: str) -> None:
    """On a turned field of a file, and on a sloped one in place of the plane z = 0."""
    import mujoco

    from gridgen.model.readers.mujoco import from_model
    from gridgen.model.tree import build_tree
    from gridgen.options import RobotOptions
    from helpers.contact_models import EVERYTHING, model_of
    from helpers.contacts import Peer

    peer = Peer(model_of("everything", cone), 20)
    settings: dict[str, Any] = {"iterations": 100}
    text = EVERYTHING.format(cone=cone, impratio=peer.model.opt.impratio)
    model = mujoco.MjModel.from_xml_string(field_text(text))
    tree = build_tree(from_model(model), RobotOptions(joint_dynamics=True, contact=settings))
    assert len(tree.parameters["terrain"]) == 6 + 7 * 9
    peer.check(*evaluate_reference(tree, "contact_forward_dynamics", peer.x), tolerance=1e-8)

    turned = 'euler="0.1 -0.2 0.3" pos="0 0 0.1"'
    peer = Peer(model_of(EVERYTHING.replace(turned, 'euler="0.1 -0.2 0" pos="0 0 0.1"'), cone), 20)
    flat = model_of(EVERYTHING.replace(turned, ""), cone)
    normal = np.zeros(9)
    mujoco.mju_quat2Mat(normal, peer.model.geom_quat[0])
    slopes = -normal[2:6:3] / normal[8]
    settings["terrain"] = tilted(slopes, 0.1)
    tree = build_tree(from_model(flat), RobotOptions(joint_dynamics=True, contact=settings))
    peer.check(*evaluate_reference(tree, "contact_forward_dynamics", peer.x), tolerance=1e-8)


@needs("mujoco")
@pytest.mark.filterwarnings("ignore::gridgen.errors.GridGenWarning")
def test_spheres_on_triangles_have_mujocos_numbers_of_a_height_field() -> None:
    """Where the sphere touches the inside of one triangle alone."""
    import mujoco

    from gridgen.model.readers.mujoco import from_model
    from gridgen.model.tree import build_tree
    from gridgen.options import RobotOptions
    from helpers.contacts import iterate_to_the_end, local

    text = """<mujoco><option ccd_tolerance="1e-14" ccd_iterations="200"/><worldbody>
      <geom type="plane" size="1 1 1" pos="0.3 -0.2 0.1" euler="0 0 40"/>
      <body><freejoint/><geom size="0.06"/>
        <body pos="0.3 0 0"><joint axis="0 1 0.2"/><geom size="0.05" pos="0.1 0.2 -0.05"/></body>
      </body></worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(field_text(text, "2 1.5 0.4 1", 4, 4))
    iterate_to_the_end(model)
    rng, data = np.random.default_rng(7), mujoco.MjData(model)
    model.hfield_data[:] = rng.uniform(size=16)
    robot_options = RobotOptions(joint_dynamics=True, contact={"iterations": 100})
    tree = build_tree(from_model(model), robot_options)
    states: list[tuple[Any, ...]] = []
    while len(states) < 10:
        mujoco.mj_resetData(model, data)
        data.qpos[:2], data.qpos[2] = rng.uniform(-1.0, 1.0, 2), rng.uniform(0.1, 0.6)
        data.qpos[3:7] = rng.normal(size=4)
        data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
        data.qpos[7], data.qvel[:] = rng.normal(), rng.normal(size=7)
        data.qfrc_applied[:] = rng.normal(size=7)
        mujoco.mj_forward(model, data)
        geoms = [contact.geom[1] for contact in data.contact]
        if not geoms or data.contact.dist.min() < -0.02 or not inside(model, data):
            continue
        assert len({*geoms}) == len(geoms)
        q = data.qpos.copy()
        q[3:7] = np.roll(q[3:7], -1)
        turned = [local(model, data, v) for v in (data.qvel, data.qfrc_applied)]
        states.append((q, *turned, local(model, data, data.qacc, shifted=True)))
    q, qd, tau, expected = map(np.array, zip(*states, strict=True))
    x = {"q": q, "qd": qd, "tau": tau, "gravity": np.array(GRAVITY)}
    found, _ = evaluate_reference(tree, "contact_forward_dynamics", x)
    size = np.maximum(np.abs(expected).max(axis=1, keepdims=True), 1.0)
    assert_allclose(found / size, expected / size, rtol=0.0, atol=1e-8)


def inside(model: Any, data: Any) -> bool:
    """Return whether every sphere is further than its radius from the edges of its triangle."""
    field = 0
    R, p = data.geom_xmat[field].reshape(3, 3), data.geom_xpos[field]
    cells = 3.0 / (2.0 * model.hfield_size[0, :2])
    for geom in range(1, model.ngeom):
        place = (R.T @ (data.geom_xpos[geom] - p))[:2]
        u, v = ((place + model.hfield_size[0, :2]) * cells) % 1.0
        apart = min(u, 1.0 - u, abs(u - v)) / cells[0], min(v, 1.0 - v, abs(u - v)) / cells[1]
        if min(apart) < 1.5 * model.geom_size[geom, 0]:
            return False
    return True


@needs("mujoco")
def test_what_a_file_has_and_height_fields_do_not_cover_is_named() -> None:
    import mujoco

    spec = mujoco.MjSpec.from_string(
        """<mujoco><asset>
          <hfield name="a" nrow="3" ncol="3" size="1 1 1 1"/>
          <hfield name="b" nrow="3" ncol="3" size="1 1 1 1"/>
          <mesh name="part" vertex="0 0 0  0.1 0 0  0 0.1 0  0 0 0.1"/></asset>
        <worldbody><geom type="hfield" hfield="a"/><geom type="hfield" hfield="b" pos="2 0 0"/>
          <body pos="0 0 1"><freejoint/><geom name="ball" size="0.1"/></body>
          <body pos="0 0 2"><freejoint/><geom type="mesh" mesh="part"/></body>
          <body pos="0 0 2"><freejoint/><geom type="hfield" hfield="a" mass="1"/></body>
        </worldbody></mujoco>"""
    )
    with pytest.warns(GridGenWarning) as caught:
        robot = gridgen.load(spec.compile(), contact=True, backend="cpu")
    said = " ".join(str(warning.message) for warning in caught)
    for words in (
        "contacts with a second height field",
        "contacts with height fields that move",
    ):
        assert words in said
    assert robot.contact_names == ("ball", "geom3")
