"""Calls that JAX traces: what comes out, for which arguments, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import gridgen
from frameworks.jax_for_tests import SUBJECTS, case
from gridgen.errors import DtypeError, GridGenError, OptionError, ShapeError
from numerics.robots import load_robot, urdf_path

ARM, QUADRUPED = SUBJECTS["arm6"], SUBJECTS["quadruped"]
# What XLA raises, by when the result is asked for.
REFUSED = (ValueError, jax.errors.JaxRuntimeError)


def numbers(*shape: int, dtype: str = "float32") -> jax.Array:
    return jax.numpy.asarray(np.random.default_rng(sum(shape)).normal(size=shape), dtype)


# -- what comes out -------------------------------------------------------------------------------


@pytest.mark.parametrize("states", [0, 1, 3, 65, 1000])
@pytest.mark.parametrize("function", ["inverse_dynamics", "step"])
def test_a_compiled_call_has_the_bits_of_a_plain_one(function: str, states: int) -> None:
    """`step` of a free base, with loads: several results, arguments that all states share."""
    chosen = case(QUADRUPED, function, states)
    plain = chosen.call(*map(np.asarray, chosen.arguments))
    found = jax.jit(chosen.call)(*chosen.arguments)
    for one, other in zip(*map(jax.tree.leaves, (found, plain)), strict=True):
        assert isinstance(one, jax.Array)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_one_state_is_answered_alone() -> None:
    robot, (q, qd, tau) = ARM.robot, numbers(3, 6)
    found = jax.jit(robot.forward_dynamics)(q, qd, tau)
    np.testing.assert_array_equal(found, robot.forward_dynamics(q, qd, tau))
    assert found.shape == (6,)
    energy = jax.jit(robot.kinetic_energy)(q, qd)
    assert energy.shape == ()


def test_batches_of_several_axes_are_one_call() -> None:
    robot, (q, qd, tau) = ARM.robot, numbers(3, 2, 4, 6)
    gravity = np.broadcast_to(np.float32([0.0, 1.0, -9.0]), (2, 4, 3))
    found = jax.jit(robot.forward_dynamics)(q, qd, tau, gravity=gravity)
    np.testing.assert_array_equal(found, robot.forward_dynamics(q, qd, tau, gravity=gravity))


@pytest.mark.parametrize("leads", [((), (4,), (1,)), ((4,), (), ()), ((3, 1), (4,), ())], ids=str)
def test_leading_axes_are_broadcast(x64: None, leads: tuple[tuple[int, ...], ...]) -> None:
    x = [numbers(*lead, 6, dtype="float64") + i for i, lead in enumerate(leads)]
    whole = [jax.numpy.broadcast_to(one, (*np.broadcast_shapes(*leads), 6)) for one in x]
    call = ARM.robot.inverse_dynamics
    expected = call(*map(np.array, whole))
    np.testing.assert_array_equal(jax.jit(call)(*x), expected)

    def total(*x: jax.Array) -> jax.Array:
        return (jax.numpy.cos(expected) * call(*x)).sum()

    slopes = jax.grad(total, (0, 1, 2))(*whole)
    for one, slope, own in zip(jax.grad(total, (0, 1, 2))(*x), slopes, x, strict=True):
        new = tuple(range(slope.ndim - own.ndim))
        ones = tuple(i for i, n in enumerate(own.shape, len(new)) if n != slope.shape[i])
        summed = slope.sum((*new, *ones)).reshape(own.shape)
        np.testing.assert_allclose(one, summed, rtol=1e-10, atol=1e-10)


def test_vmap_over_any_axes_is_one_call() -> None:
    robot = ARM.robot
    q, qd, qdd = numbers(6, 5), numbers(4, 6), numbers(5, 4, 6)

    def call(q: jax.Array, qd: jax.Array, qdd: jax.Array, g: jax.Array) -> jax.Array:
        return robot.inverse_dynamics(q, qd, qdd, gravity=g)

    inner = jax.vmap(call, in_axes=(None, 0, 0, None))
    outer = jax.vmap(inner, in_axes=(1, None, 0, 0), out_axes=2)
    gravity = numbers(5, 3)
    found = jax.jit(outer)(q, qd, qdd, gravity)
    assert found.shape == (4, 6, 5)
    text = str(jax.make_jaxpr(outer)(q, qd, qdd, gravity))
    assert text.count("gridgen[") == 1
    for i in range(5):
        for j in range(4):
            expected = call(*map(np.asarray, (q[:, i], qd[j], qdd[i, j], gravity[i])))
            np.testing.assert_array_equal(found[j, :, i], expected)


def test_what_all_states_share_is_not_repeated() -> None:
    robot = ARM.robot
    q, qd = numbers(6), numbers(4, 6)
    mapped = jax.vmap(robot.bias_forces, in_axes=(None, 0))
    assert "broadcast" not in str(jax.make_jaxpr(mapped)(q, qd))
    expected = robot.bias_forces(jax.numpy.broadcast_to(q, (4, 6)), qd)
    np.testing.assert_array_equal(mapped(q, qd), expected)


def test_scan_under_jit() -> None:
    robot, (q, qd), tau = ARM.robot, numbers(2, 3, 6), numbers(4, 3, 6)

    @jax.jit
    def path(q: jax.Array, qd: jax.Array, tau: jax.Array) -> jax.Array:
        def step(state: tuple[jax.Array, jax.Array], tau: jax.Array) -> object:
            found = robot.step(*state, tau, 1e-2)
            return tuple(found), found.q_next

        return jax.lax.scan(step, (q, qd), tau)[1]

    found = path(q, qd, tau)
    for k in range(4):
        q, qd = robot.step(q, qd, tau[k], 1e-2)
        np.testing.assert_array_equal(found[k], q)


def test_lengths_of_steps_may_be_traced() -> None:
    """A Python number that JAX traces has no type of its own."""
    chosen = case(ARM, "step")
    q, qd, tau = (array.astype("float32") for array in chosen.arguments[:3])
    for dt in (1e-3, np.float64(1e-3), np.full(3, 1e-3, "float32")):
        found = jax.jit(ARM.robot.step)(q, qd, tau, dt)
        np.testing.assert_array_equal(found[0], ARM.robot.step(q, qd, tau, dt)[0])


def test_products_can_be_traced_themselves() -> None:
    robot, (q, qd, qdd, bar) = ARM.robot, numbers(4, 3, 6)
    found = jax.jit(lambda *x: robot.vjp("inverse_dynamics", bar, *x))(q, qd, qdd)
    for one, other in zip(found, robot.vjp("inverse_dynamics", bar, q, qd, qdd), strict=True):
        np.testing.assert_array_equal(one, other)


def test_double_precision(x64: None) -> None:
    chosen = case(ARM, "inverse_dynamics")
    found = jax.jit(chosen.call)(*chosen.arguments)
    assert found.dtype == "float64"
    np.testing.assert_array_equal(found, chosen.call(*map(np.asarray, chosen.arguments)))


_SHARDED = """
import jax, numpy as np
from jax.sharding import Mesh, PartitionSpec as P
import gridgen

robot = gridgen.load(ROBOT)
q, qd, qdd = jax.numpy.asarray(np.random.default_rng(0).normal(size=(3, 8, 6)), "float32")
gravity = jax.numpy.asarray([0.0, 1.0, -9.0])
mesh = Mesh(np.array(jax.devices()), ("states",))
assert mesh.size == 2

def on_one(gravity, q, qd, qdd):
    return robot.inverse_dynamics(q, qd, qdd, gravity=gravity)

specs = P(), *3 * (P("states"),)
on_two = jax.shard_map(on_one, mesh=mesh, in_specs=specs, out_specs=P("states"))
np.testing.assert_array_equal(jax.jit(on_two)(gravity, q, qd, qdd), on_one(gravity, q, qd, qdd))
slopes = [
    jax.jit(jax.grad(lambda g, q: (f(g, q, qd, qdd) ** 2).sum(), (0, 1)))(gravity, q)
    for f in (on_one, on_two)
]
for one, two in zip(*slopes, strict=True):
    np.testing.assert_allclose(two, one, rtol=1e-4)
"""


def test_states_on_two_devices() -> None:
    text = _SHARDED.replace("ROBOT", repr(str(urdf_path("arm6"))))
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    path = os.pathsep.join(p for p in (str(Path(gridgen.__file__).parents[1]),) if p)
    subprocess.run(
        [sys.executable, "-c", text], check=True, env={**os.environ, **flags, "PYTHONPATH": path}
    )


# -- quaternions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
def test_quaternions_are_normalized_as_in_plain_calls(shared: bool) -> None:
    robot = QUADRUPED.robot
    q, qd = (array.astype("float32") for array in case(QUADRUPED, "bias_forces").arguments[:2])
    off = q.at[1, 3:7].multiply(1.0004)
    if shared:
        found = jax.jit(jax.vmap(robot.bias_forces, in_axes=(None, 0)))(off[1], qd)
        off = jax.numpy.tile(off[1], (3, 1))
    else:
        found = jax.jit(robot.bias_forces)(off, qd)
    np.testing.assert_allclose(found, robot.bias_forces(off, qd), rtol=1e-5, atol=1e-4)
    assert np.isnan(jax.jit(robot.bias_forces)(q.at[2, 4].set(np.nan), qd)[2]).any()


def test_a_quaternion_that_is_none_is_named() -> None:
    q, qd = (array.astype("float32") for array in case(QUADRUPED, "bias_forces").arguments[:2])
    wrong = q.at[2, 3:7].multiply(1.2)
    with pytest.raises(Exception, match=r"state 2: a quaternion has norm 1\.2.*\[3:7\]"):
        jax.jit(QUADRUPED.robot.bias_forces)(wrong, qd).block_until_ready()


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "change", "words"),
    [
        (ShapeError, {"q": (3, 5)}, r"q has shape \(3, 5\)"),
        (ShapeError, {"qd": (4, 6)}, r"qd has shape \(4, 6\); arm6 needs \(3, 6\)"),
        (ShapeError, {"qd": (3, 2, 6)}, "qd has shape"),
        (DtypeError, {"q": "int32"}, "q has dtype int32"),
        (DtypeError, {"q": "bfloat16"}, "q has dtype bfloat16"),
        (DtypeError, {"qd": "float16"}, "qd has dtype float16"),
        (DtypeError, {"gravity": np.zeros(3)}, "jax_enable_x64"),
        (OptionError, {"out": np.zeros((3, 6), "float32")}, "immutable"),
        (OptionError, {"backend": "emulated"}, "omit it"),
        (OptionError, {"schedule": "scan"}, "thread"),
    ],
)
def test_what_is_wrong_is_named(
    error: type[GridGenError], change: dict[str, object], words: str
) -> None:
    x = dict.fromkeys(("q", "qd", "qdd"), numbers(3, 6))
    options = {}
    for name, value in change.items():
        if isinstance(value, tuple):
            x[name] = numbers(*value)
        elif name in x:
            x[name] = x[name].astype(value)
        else:
            options[name] = value
    call = jax.jit(lambda x: ARM.robot.inverse_dynamics(**x, **options))
    with pytest.raises(error, match=words):
        call(x)


def test_parameters_that_no_body_has_are_refused_where_they_are_numbers() -> None:
    robot = load_robot(urdf_path("gripper"), parameters="all")
    params = robot.parameters().astype("float32")
    params[0, 0] = -1.0
    q = numbers(robot.nq)
    with pytest.raises(gridgen.ParameterError):
        jax.jit(lambda q: robot.mass_matrix(q, params=params))(q)


def test_obstacles_that_are_none_are_refused() -> None:
    robot = gridgen.load(urdf_path("two_link"), spheres={"forearm": [(0.0, 0.0, 0.0, 0.1)]})
    world = gridgen.world(spheres=[(1.0, 1.0, 1.0, 0.1)], like=np.zeros(0, np.float32))
    world[0] = 1e6
    q, call = numbers(robot.nq), jax.jit(robot.collision_free)
    with pytest.raises(gridgen.ShapeError, match="world has shape"):
        jax.jit(lambda q: robot.collision_free(q, world))(q)
    for first in (1e6, -1.0, 1.5, np.nan):  # traced ones, where the program runs
        world[0] = first
        with pytest.raises(REFUSED, match="world has 12 numbers, which its first ones do not fit"):
            call(q, world).block_until_ready()
    world[0] = 1.0
    assert call(q, world) == 1.0


def test_rows_that_jax_traces_are_checked_as_others_are(x64: None) -> None:
    """On rows of every kind: of bodies, of points, plates and rods, and somewhat beyond these."""
    robot, rng = load_robot(urdf_path("gripper"), parameters="all"), np.random.default_rng(3)
    own = robot.parameters()
    moments = rng.uniform(0.0, 1.0, (60, 3)) * rng.integers(0, 2, (60, 3))  # of the mass, by axis
    kinds = [gridgen.inertia(1.0, rng.normal(size=3), np.diag(m.sum() - m)) for m in moments]
    scale = rng.choice([0.0, 1e-12, 1e-6, 1e-5, 1e-4, 0.1], (60, 1))
    rows = [*np.array(kinds) * (1.0 + scale * rng.normal(size=(60, 10))), np.zeros(10)]
    call = jax.jit(lambda q, params: robot.mass_matrix(q, params=params))
    q = np.stack([robot.neutral()] * 2)
    refused = 0
    for row in (*rows, -own[1], np.full(10, np.nan), np.eye(10)[1], np.eye(10)[0]):
        params = np.stack([own, own])
        params[1, 1] = row
        for dtype in ("float32", "float64"):
            given = params.astype(dtype)
            try:
                robot.check_parameters(given)
            except gridgen.ParameterError:
                with pytest.raises(REFUSED, match=r"state 1: row 1 \(link"):
                    call(q.astype(dtype), given).block_until_ready()
                refused += 1
            else:
                call(q.astype(dtype), given).block_until_ready()
    assert 20 < refused < 100
    with pytest.raises(REFUSED, match="state 0: row 0"):
        jax.vmap(call, (0, None))(jax.numpy.asarray(q), -jax.numpy.asarray(own)).block_until_ready()


def test_the_check_of_rows_may_be_left_out(x64: None) -> None:
    options = {"parameters": "all"}
    checked = load_robot(urdf_path("gripper"), **options)
    robot = gridgen.load(urdf_path("gripper"), **options, check_parameters=False)
    q, rows = np.ones((2, robot.nq)), -robot.parameters()
    found = jax.jit(lambda rows: robot.mass_matrix(q, params=rows))(rows)
    np.testing.assert_allclose(found, -checked.mass_matrix(q), rtol=1e-12)
    slope = jax.grad(lambda rows: robot.mass_matrix(q, params=rows).sum())(rows)
    assert np.isfinite(slope).all()
    with pytest.raises(REFUSED, match="check_parameters=False"):
        jax.jit(lambda rows: checked.mass_matrix(q, params=rows))(rows).block_until_ready()


def test_products_that_are_called_by_name_have_the_numbers_of_plain_ones() -> None:
    """A pushforward's kernel computes the results with it; that of accelerations reads these."""
    robot, (q, qd, u) = ARM.robot, numbers(3, 4, 6)
    for name in ("inverse_dynamics:vjp", "inverse_dynamics", "forward_dynamics"):
        bars = (u,) if "vjp" in name else ()
        tangents = (u, None, None, *(None for _ in bars))
        plain = robot.jvp(name, tangents, *bars, q, qd, u)
        found = jax.jit(lambda q, n=name, t=tangents, b=bars: robot.jvp(n, t, *b, q, qd, u))(q)
        for one, other in zip(*map(jax.tree.leaves, (found, plain)), strict=True):
            np.testing.assert_array_equal(one, other)
    qdd = robot.forward_dynamics(q, qd, u)
    plain = robot.vjp("forward_dynamics", u, q, qd, u)
    for results in (None, qdd):
        pull = jax.jit(lambda q, r=results: robot.vjp("forward_dynamics", u, q, qd, u, results=r))
        for one, other in zip(pull(q), plain, strict=True):
            np.testing.assert_array_equal(one, other)
    with pytest.raises(ShapeError, match="tau has shape"):
        jax.jit(lambda q: robot.vjp("forward_dynamics", u, q, qd, u[:2], results=qdd))(q)


def test_products_that_are_called_by_name_have_derivatives(x64: None) -> None:
    """By what their kernels do not read, too: efforts, in place of which these read results."""
    robot, (q, qd, u) = ARM.robot, numbers(3, 6, dtype="float64")

    def by_name(q: jax.Array, tau: jax.Array) -> jax.Array:
        return robot.vjp("forward_dynamics", u, q, qd, tau)[1]

    def by_jax(q: jax.Array, tau: jax.Array) -> jax.Array:
        return jax.vjp(lambda qd: robot.forward_dynamics(q, qd, tau), qd)[1](u)[0]

    found, expected = (jax.jacrev(call, (0, 1))(q, u) for call in (by_name, by_jax))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    batch = [jax.numpy.stack([x, -x]) for x in (q, qd, u)]
    for bars in (u, None):  # one for all states; none
        pull = lambda q, b=bars: robot.vjp("inverse_dynamics", b, q, *batch[1:])  # noqa: E731
        for one, other in zip(jax.jit(pull)(batch[0]), pull(batch[0]), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


#: Runs a program of JAX in a process that has made no call.
_RUN = """
import sys, gridgen, jax, numpy as np
robot = gridgen.load(sys.argv[1])
with open(sys.argv[2], "rb") as file:
    program = jax.export.deserialize(file.read())
state = jax.ShapeDtypeStruct((1, 6), "float32")
jax.jit(robot.forward_dynamics).lower(state, state, state)
*x, expected = np.load(sys.argv[3])
assert np.array_equal(program.call(*x), expected)
"""


def test_exported_programs_run_in_another_process(tmp_path: Path) -> None:
    pytest.importorskip("flatbuffers")  # by which JAX writes them
    robot, x = ARM.robot, numbers(3, 4, 6)
    (batch,) = jax.export.symbolic_shape("batch")
    state = jax.ShapeDtypeStruct((batch, 6), "float32")
    allowed = [jax.export.DisabledSafetyCheck.custom_call("gridgen_cpu")]
    program = jax.export.export(jax.jit(robot.forward_dynamics), disabled_checks=allowed)(
        *[state] * 3
    )
    (tmp_path / "program").write_bytes(program.serialize())
    np.save(tmp_path / "x.npy", np.stack([*x, robot.forward_dynamics(*x)]))
    files = [urdf_path("arm6"), tmp_path / "program", tmp_path / "x.npy"]
    command = [sys.executable, "-c", _RUN, *map(str, files)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    with pytest.raises(ValueError, match="custom calls whose targets have no compatibility"):
        jax.export.export(jax.jit(robot.forward_dynamics))(*[state] * 3)
