"""Distances of links against all pairs of spheres, and against coal."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import coal
import numpy as np
import pinocchio
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gridgen
from gridgen.backends import TARGETS
from gridgen.check import compare_function, random_changes, random_states, random_world
from gridgen.commands.main import main
from gridgen.dynamics import collision
from gridgen.dynamics.functions import computation_of
from gridgen.dynamics.reference import evaluate_reference
from gridgen.errors import ModelError, OptionError, ShapeError
from gridgen.functions.worlds import world
from gridgen.model.tree import KinematicTree
from gridgen.schedules.thread.plan import count_operations, is_longer, plan_lines
from helpers.dynamics import load_tree, robot_path
from helpers.program_interpreter import run
from helpers.robots import exhaustive_cases, needs, some, spread

#: Revolute joints; branches and a mimic joint; a slide; a free joint.
ROBOTS = [("arm7", False), ("gripper", False), ("cart_pole", False), ("quadruped", True)]
CAPSULES = ("arm7", "cart_pole")
ARGUMENTS = {
    "self_distance": ("q",),
    "world_distance": ("q", "world"),
    "soft_self_distance": ("q", "temperature"),
    "soft_world_distance": ("q", "world", "temperature"),
    "collision_free": ("q", "world", "margin"),
}
FUNCTIONS = tuple(ARGUMENTS)
OF_FUNCTIONS = [(name,) for name in FUNCTIONS]


def spheres_of(name: str, floating: bool) -> dict[str, list[tuple[float, ...]]]:
    """Return random spheres of every link: one to three; of some robots capsules among them."""
    rng = np.random.default_rng(len(name))
    found: dict[str, list[tuple[float, ...]]] = {}
    for link in load_tree(name, floating).frame_names:
        for k in range(rng.integers(1, 4)):
            center, radius = rng.uniform(-0.05, 0.05, 3), float(rng.uniform(0.02, 0.08))
            ends = center.tolist()
            if k % 2 == 0 and name in CAPSULES:
                ends += (center + rng.uniform(-0.1, 0.1, 3)).tolist()
            found.setdefault(link, []).append((*ends, radius))
    return found


@cache
def tree_of(name: str, floating: bool) -> KinematicTree:
    return load_tree(name, floating, spheres=spheres_of(name, floating))


def states(tree: KinematicTree, count: int = 50) -> dict[str, np.ndarray]:
    return random_states(tree, count, np.random.default_rng(7))


def centers_of(tree: KinematicTree, q: np.ndarray, name: str, floating: bool) -> dict[str, Any]:
    """Return both ends of the axes of each link's spheres (2, B, n, 3) by poses, and radii."""
    (poses,) = evaluate_reference(tree, "forward_kinematics", {"q": q})
    found = {}
    for link, spheres in spheres_of(name, floating).items():
        pose = poses[:, tree.frame_names.index(link)]
        ends = np.array([[sphere[at:][:3] for sphere in spheres] for at in (0, -4)])
        points = np.einsum("bij,ekj->ebki", pose[:, :3, :3], ends) + pose[:, None, :3, 3]
        found[link] = points, np.array([sphere[-1] for sphere in spheres])
    return found


def solid(start: np.ndarray, end: np.ndarray, radius: float) -> tuple[Any, Any]:
    """Return a sphere or a capsule of coal, and its place."""
    length = float(np.linalg.norm(end - start))
    if length == 0.0:
        return coal.Sphere(radius), coal.Transform3s(np.eye(3), start)
    turn = np.linalg.qr(np.column_stack([end - start, np.eye(3)[:, :2]]))[0]
    turn = np.column_stack([turn[:, 1], turn[:, 2], turn[:, 0]])
    turn[:, 0] *= np.linalg.det(turn)
    return coal.Capsule(radius, length), coal.Transform3s(turn, (start + end) / 2)


def apart(one: tuple[Any, Any], other: tuple[Any, Any]) -> float:
    """Return the distance of two solids by coal."""
    return float(coal.distance(*one, *other, coal.DistanceRequest(), coal.DistanceResult()))


@pytest.mark.parametrize(("name", "floating"), ROBOTS)
def test_self_distance_is_that_of_the_nearest_of_all_pairs(name: str, floating: bool) -> None:
    tree = tree_of(name, floating)
    x = states(tree)
    if not tree.spheres.pairs:
        pytest.fail("the robot has no pairs")
    clearance, pair = evaluate_reference(tree, "self_distance", x)
    centers = centers_of(tree, x["q"], name, floating)
    solids = {
        link: [[*map(solid, *ends[:, i], radii)] for i in range(len(pair))]
        for link, (ends, radii) in centers.items()
    }
    for i, least in enumerate(clearance[:12]):
        gaps = [
            min(apart(one, other) for one in solids[a][i] for other in solids[b][i])
            for a, b in tree.spheres.pair_names
        ]
        assert_allclose(least, min(gaps), rtol=0.0, atol=1e-6)
        assert pair[i] == np.argmin(gaps)


def distances_to(ends: np.ndarray, radius: float, obstacles: Mapping[str, Any]) -> list[float]:
    """Return the distances of a sphere with both ends of its axis from obstacles by coal."""
    own, found = solid(*ends, radius), []

    def distance(shape: Any, place: Any) -> float:
        return apart(own, (shape, place))

    for numbers in obstacles["spheres"]:
        found.append(apart(own, solid(numbers[:3], numbers[:3], numbers[3])))
    for numbers in obstacles["capsules"]:
        found.append(apart(own, solid(numbers[:3], numbers[3:6], numbers[6])))
    for numbers in obstacles["boxes"]:
        place = coal.Transform3s(rotation(numbers[3:7]), numbers[:3])
        found.append(distance(coal.Box(*(2 * numbers[7:])), place))
    for *normal, offset in obstacles["half_spaces"]:
        plane = coal.Halfspace(np.array(normal), offset)
        found.append(distance(plane, coal.Transform3s.Identity()))
    return found


def rotation(quaternion: np.ndarray) -> np.ndarray:
    x, y, z, w = quaternion
    hat = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    found: np.ndarray = np.eye(3) + 2.0 * w * hat + 2.0 * hat @ hat
    return found


def random_obstacles(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    turns = rng.normal(size=(3, 4))
    normal = rng.normal(size=3)
    return {
        "spheres": np.column_stack([rng.normal(size=(3, 3)), rng.uniform(0.05, 0.2, 3)]),
        "capsules": np.column_stack([rng.normal(size=(3, 6)), rng.uniform(0.05, 0.2, 3)]),
        "boxes": np.column_stack(
            [
                rng.normal(size=(3, 3)),
                turns / np.linalg.norm(turns, axis=1, keepdims=True),
                rng.uniform(0.1, 0.5, (3, 3)),
            ]
        ),
        "half_spaces": np.append(normal / np.linalg.norm(normal), -1.0)[None],
    }


@pytest.mark.parametrize("name", ["arm7", "gripper"])
def test_world_distance_is_that_of_coal(name: str) -> None:
    tree = tree_of(name, False)
    x = states(tree, 8)
    centers = centers_of(tree, x["q"], name, False)
    for seed in range(4):
        obstacles = random_obstacles(seed)
        every = np.tile(world(**obstacles), (8, 1))
        clearance, sphere = evaluate_reference(tree, "world_distance", {**x, "world": every})
        for i in range(8):
            found = {
                (link.name, k): min(distances_to(points[:, i, k], radii[k], obstacles))
                for link in tree.spheres.links[: tree.spheres.moving]
                for points, radii in [centers[link.name]]
                for k in range(len(radii))
            }
            assert_allclose(clearance[i], min(found.values()), rtol=0.0, atol=2e-6)
            nearest = min(found, key=lambda key: found[key])
            assert tree.spheres.names[int(sphere[i])] == nearest[0]


@pytest.mark.parametrize(("name", "excess"), [("gripper", 0.0), ("arm7", 0.031 * 0.08)])
def test_a_grid_is_interpolated(name: str, excess: float) -> None:
    """A linear field is that of a half-space, also beyond the faces along the grid's plane.

    Spheres that cover a capsule protrude by 3.1 % of its radius.
    """
    tree = tree_of(name, False)
    axes = np.meshgrid(*(np.linspace(-2.0, 2.0, n) for n in (5, 5, 5)), indexing="ij")
    grid = {"origin": (-2.0, -2.0, -2.0), "spacing": 1.0, "values": axes[2] + 0.3}
    x = states(tree)
    given = {**x, "world": np.tile(world(grid=grid), (50, 1))}
    plane = {**x, "world": np.tile(world(half_spaces=[(0, 0, 1, -0.3)]), (50, 1))}
    (one, sphere), (other, nearest) = (
        evaluate_reference(tree, "world_distance", each) for each in (given, plane)
    )
    assert_allclose(one, other - excess / 2, rtol=0.0, atol=excess / 2 + 1e-13)
    assert (sphere == nearest).mean() > 0.8


def test_free_is_where_both_distances_are_beyond_the_margin() -> None:
    tree = tree_of("cart_pole", False)
    x = states(tree, 300)
    (free,) = evaluate_reference(tree, "collision_free", x)
    distances = [evaluate_reference(tree, f, x)[0] for f in ("self_distance", "world_distance")]
    assert_array_equal(free, np.min(distances, axis=0) >= x["margin"])
    assert 0.02 < free.mean() < 0.98


@pytest.mark.parametrize("kind", ["", "vjp", "jvp"])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("name", "floating"), [*ROBOTS[1:3], *exhaustive_cases(*ROBOTS[::3])])
def test_programs_agree_with_the_reference(
    function: str, name: str, floating: bool, kind: str
) -> None:
    tree = tree_of(name, floating)
    key = computation_of(tree, function).key
    key = key.product(kind, ("q",)) if kind else key
    x = states(tree)
    kernel = computation_of(tree, key).kernel(tree)
    x |= random_changes([kernel], 50, np.random.default_rng(3))
    columns = {n: list(x[n].reshape(50, -1).T) for n in kernel.inputs}
    results = run(plan_lines(tree, key), columns)
    for own, expected in zip(results.values(), evaluate_reference(tree, key, x), strict=True):
        stacked = np.stack([np.broadcast_to(entry, 50) for entry in own], axis=1)
        assert_allclose(stacked, expected.reshape(50, -1), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("function", "dtype"), spread(OF_FUNCTIONS, ["float32", "float64"], 1))
def test_compiled_code_agrees_with_the_reference(function: str, dtype: str) -> None:
    robot = gridgen.load(robot_path("arm7"), spheres=spheres_of("arm7", False), backend="cpu")
    check(robot, function, dtype)


def check(robot: gridgen.Robot, function: str, dtype: str) -> list[np.ndarray]:
    """Compare a function with the reference, with worlds of each state and with one of all."""
    tree = tree_of("arm7", False)
    x = {name: array.astype(dtype) for name, array in states(tree, 71).items()}
    found = []
    for every in (x["world"], x["world"][3]):
        given = {**x, "world": every}
        results = getattr(robot, function)(*(given[name] for name in ARGUMENTS[function]))
        exact = {n: array.astype(float) for n, array in given.items()}
        exact["world"] = np.broadcast_to(exact["world"], x["world"].shape)
        row = compare_function(tree, function, dtype, exact, results)
        assert row.passed, row
        found += results if isinstance(results, tuple) else [results]
    return found


@pytest.mark.parametrize(
    ("function", "way"),
    spread(OF_FUNCTIONS[1:2], ["compute_75", "emulated"], 1)
    + spread([*OF_FUNCTIONS[:1], *OF_FUNCTIONS[2:]], ["emulated", "compute_75"], 0),
)
def test_kernels_of_gpus_give_the_bits_of_the_cpu(
    function: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way != "emulated":
        pytest.importorskip("cupy", reason="NVRTC comes with CuPy")
        from fake_gpu.ptx.backend import PTX_TARGETS

        monkeypatch.setitem(TARGETS, "emulated", PTX_TARGETS[way])
    given = spheres_of("arm7", False)
    on_gpu, on_cpu = (
        gridgen.load(robot_path("arm7"), spheres=given, backend=backend)
        for backend in ("emulated", "cpu")
    )
    pairs = zip(check(on_gpu, function, "float32"), check(on_cpu, function, "float32"), strict=True)
    for one, other in pairs:
        assert_array_equal(one, other)


@pytest.fixture(scope="module")
def robot() -> gridgen.Robot:
    return gridgen.load(robot_path("arm7"), spheres=spheres_of("arm7", False), backend="cpu")


@pytest.mark.parametrize("function", some(FUNCTIONS[:4], FUNCTIONS[2:3]))
def test_derivatives_are_those_of_finite_differences(robot: gridgen.Robot, function: str) -> None:
    x = states(tree_of("arm7", False), 40)
    outside = robot.world_distance(x["q"], x["world"])[0] > -0.02  # no axis is in an obstacle
    assert outside.mean() > 0.5
    x = {name: array[outside] for name, array in x.items()}
    u, one, step = np.random.default_rng(1).normal(size=x["q"].shape), np.ones(outside.sum()), 1e-6
    arguments = [x[name] for name in ARGUMENTS[function][1:]]
    is_soft = function.startswith("soft")
    gradient = robot.vjp(function, one if is_soft else (one, None), x["q"], *arguments)
    slope = robot.jvp(function, u, x["q"], *arguments)[1]
    slope = slope if is_soft else slope[0]
    assert_allclose((gradient * u).sum(axis=1), slope, atol=1e-12)
    ends = [getattr(robot, function)(x["q"] + s * u, *arguments) for s in (step, -step)]
    ends = ends if is_soft else [end[0] for end in ends]
    assert_allclose(np.subtract(*ends) / (2 * step), slope, atol=1e-6)


def test_soft_minima_are_those_of_all_pairs() -> None:
    """They include the distance of every pair of spheres, and that to each of several obstacles."""
    tree = tree_of("gripper", False)
    x = states(tree)
    centers, t = centers_of(tree, x["q"], "gripper", False), x["temperature"]
    terms = []
    for a, b in tree.spheres.pair_names:
        ((points, _), radii), ((others, _), more) = centers[a], centers[b]
        every = np.linalg.norm(points[:, :, None] - others[:, None], axis=3)
        terms.append((every - np.add.outer(radii, more)).reshape(len(t), -1))
    distances = np.concatenate(terms, axis=1)
    expected = -t * np.log(np.exp(-distances / t[:, None]).sum(axis=1))
    (soft,) = evaluate_reference(tree, "soft_self_distance", x)
    assert_allclose(soft, expected, rtol=0.0, atol=1e-12)
    obstacles = random_obstacles(2)
    given = {**x, "world": np.tile(world(**obstacles), (len(t), 1))}
    (soft,) = evaluate_reference(tree, "soft_world_distance", given)
    moving = [centers[link.name] for link in tree.spheres.links[: tree.spheres.moving]]
    for i in range(4):
        distances = np.concatenate(
            [
                distances_to(points[:, i, k], radii[k], obstacles)
                for points, radii in moving
                for k in range(len(radii))
            ]
        )
        expected = -t[i] * np.log(np.exp(-distances / t[i]).sum())
        assert_allclose(soft[i], expected, rtol=0.0, atol=2e-6)


def test_soft_minima_are_refused(robot: gridgen.Robot) -> None:
    torch = pytest.importorskip("torch")
    zeros = np.zeros((2, 7))
    robot.soft_self_distance(zeros, np.full(2, 0.1))  # later calls skip some validation
    for wrong in (-0.1, 0.0, np.inf, np.nan):
        match = f"temperature has {wrong}; give a positive finite number"
        for given in (wrong, np.array([0.1, wrong]), np.array(wrong)):
            with pytest.raises(OptionError, match=match):
                robot.soft_self_distance(zeros, given)
            with pytest.raises(OptionError, match=match):
                robot.soft_world_distance(zeros, {"spheres": [(1, 1, 1, 0.1)]}, given)
            with pytest.raises(OptionError, match=match):
                robot.vjp("soft_self_distance", np.ones(2), zeros, given)
    q = torch.zeros((2, 7), dtype=torch.float64, requires_grad=True)
    soft = robot.soft_self_distance(q).sum()
    with pytest.raises(ModelError, match="no products of second order"):
        torch.autograd.grad(torch.autograd.grad(soft, q, create_graph=True)[0].sum(), q)
    clearance = robot.self_distance(q)[0].sum()
    with pytest.raises(ModelError, match="capsules have no products of second order"):
        torch.autograd.grad(torch.autograd.grad(clearance, q, create_graph=True)[0].sum(), q)
    with pytest.raises(ModelError, match="have no expressions"):
        robot.sympy("self_distance")


def test_configurations_of_paths_are_those_of_states(robot: gridgen.Robot) -> None:
    x = states(tree_of("arm7", False), 12)
    paths = np.linspace(x["q"], np.roll(x["q"], 1, axis=0), 7, axis=1)
    free = robot.collision_free(paths, x["world"][0], 0.01)
    assert free.shape == (12, 7)
    assert_array_equal(free[:, 3], robot.collision_free(paths[:, 3], x["world"][0], 0.01))
    each = robot.collision_free(paths, x["world"][:, None], 0.01)
    assert_array_equal(each[:, 3], robot.collision_free(paths[:, 3], x["world"], 0.01))


@pytest.mark.parametrize("count", [40, 900])
def test_paths_are_free_where_all_of_their_points_are(robot: gridgen.Robot, count: int) -> None:
    rng = np.random.default_rng(4)
    ends = rng.uniform(-1.0, 1.0, (count, 7))
    ends = ends, ends + rng.uniform(-0.5, 0.5, (count, 7)) * rng.integers(0, 2, (count, 1))
    paths, each = np.linspace(*ends, 11, axis=1), rng.uniform(-0.2, 0.05, count)
    every, means = states(tree_of("arm7", False), count)["world"], []
    for given in ((), (every[0], 0.01), (every, each), (None, -0.1), (None, 0.1)):
        wide = [x[:, None] if np.ndim(x) == k else x for x, k in zip(given, (2, 1), strict=False)]
        expected = robot.collision_free(paths, *wide).all(axis=1)
        free = robot.path_free(paths, *given)
        assert free.dtype == expected.dtype == bool
        assert_array_equal(free, expected)
        means.append(expected.mean())
    assert min(means) < 0.3
    assert max(means) > 0.7
    with pytest.raises(ShapeError, match=r"paths has shape \(11, 7\); give \(B, T, nq\)"):
        robot.path_free(paths[0])


def test_arguments_of_paths_are_those_of_paths(robot: gridgen.Robot) -> None:
    """Not of their points, also where there are as many; one of all paths has any form."""
    ends = np.random.default_rng(4).uniform(-1.0, 1.0, (2, 11, 7))
    paths, every = np.linspace(*ends, 11, axis=1), states(tree_of("arm7", False), 11)["world"]
    margins = np.linspace(-0.2, 0.05, 11)
    expected = robot.path_free(paths, every, margins)
    assert 0.0 < expected.mean() < 1.0
    assert_array_equal(robot.path_free(paths, every, margins.tolist()), expected)
    expected = robot.path_free(paths, every[0], -0.05)
    for margin in (np.array([-0.05]), [-0.05], np.array(-0.05)):
        assert_array_equal(robot.path_free(paths, every[:1], margin), expected)
    for obstacles, margin, message in (
        (
            every[:3],
            0.0,
            r"world has shape \(3, \d+\); give \(n,\) or \(B, n\) for paths with B = 11",
        ),
        (every[0], np.zeros(3), r"margin has shape \(3,\); give one number or \(B,\)"),
        (every[0], np.zeros((11, 11)), r"margin has shape \(11, 11\)"),
        (every[0], ["x"] * 11, "margin is"),
        (every[0], [[0.1], [0.2, 0.3]], "margin is"),
    ):
        with pytest.raises(ShapeError, match=message):
            robot.path_free(paths, obstacles, margin)


def test_a_world_by_name_is_that_of_its_array(robot: gridgen.Robot) -> None:
    x = states(tree_of("arm7", False), 12)
    obstacles = random_obstacles(0)
    for q in (x["q"], x["q"].astype(np.float32)):
        one = robot.world_distance(q, obstacles)
        assert_array_equal(one, robot.world_distance(q, world(**obstacles, like=q)))
    assert_array_equal(robot.world_distance(x["q"], None)[0], 1e9)
    assert_array_equal(robot.collision_free(x["q"]), robot.self_distance(x["q"])[0] >= 0.0)


def test_a_configuration_with_nan_is_not_free(robot: gridgen.Robot) -> None:
    q = np.zeros((20, 7))
    q[3, 2] = q[5, 0] = np.nan
    every = world(**random_obstacles(0))
    free = robot.collision_free(q, every, -1.0)
    expected = np.isfinite(q).all(axis=1)
    assert_array_equal(free, expected)
    for clearance, _ in (robot.self_distance(q), robot.world_distance(q, every)):
        assert_array_equal(np.isfinite(clearance), expected)


def test_a_world_with_nan_is_not_free(robot: gridgen.Robot) -> None:
    q, each = np.zeros((2, 7)), [0.0, 0.0, 5.0]
    worlds = [world(spheres=[(*each, 0.1)]), world(boxes=[(*each, 0, 0, 0, 1, 1, 1, 1)])]
    worlds.append(world(grid={"origin": each, "spacing": 1.0, "values": np.full((2, 2, 2), 9.0)}))
    for every in worlds:
        assert robot.collision_free(q, every, -1.0).all()
        every[-1] = every[-2] = np.nan
        found = [robot.world_distance(q, every)[0], robot.soft_world_distance(q, every)]
        found.append(robot.vjp("soft_world_distance", np.ones(2), q, every, 0.01)[:, 1])
        assert np.isnan(found).all()
        assert not robot.collision_free(q, every, -1.0).any()
    assert not robot.collision_free(q, None, np.nan).any()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros(7), r"world has shape \(7,\)"),
        (np.array([1.0, 0, 0, 0, 0, 0, 0, 0, 1.0]), "do not fit; make it by gridgen.world"),
        (np.array([1e6, *np.zeros(7)]), "do not fit"),
        (np.array([-1.0, *np.zeros(7)]), "do not fit"),
    ],
)
def test_an_array_that_is_no_world_is_refused(
    robot: gridgen.Robot, given: np.ndarray, message: str
) -> None:
    for call in (robot.world_distance, robot.collision_free):
        with pytest.raises(ShapeError, match=message):
            call(np.zeros((2, 7)), given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"spheres": np.zeros((2, 5))}, r"spheres has shape \(2, 5\); give \(n, 4\)"),
        ({"balls": np.zeros((2, 4))}, "world has 'balls'; a world has spheres"),
        ({"grid": {"values": np.zeros((2, 2, 2))}}, "grid has .*; give origin, spacing"),
        (
            {"grid": {"origin": (0, 0, 0), "spacing": 1.0, "values": np.zeros((2, 1, 2))}},
            "2 or more per axis",
        ),
        (
            {"grid": {"origin": (0, 0, 0), "spacing": -0.1, "values": np.zeros((2, 2, 2))}},
            "give a positive length",
        ),
        ({"grid": np.zeros((2, 2, 2))}, "give origin, spacing and values"),
        (
            {"grid": {"origin": (0, 0, 0), "spacing": 0.1, "values": np.full((2, 2, 2), np.nan)}},
            "values of grid has nan; give finite numbers",
        ),
        ({"spheres": [(0, 0, 0, np.nan)]}, "spheres has .*nan.*; give finite numbers"),
        ({"spheres": [(0, 0, 0, -0.1)]}, "no negative lengths"),
        ({"boxes": [(0, 0, 0, 0, 0, 0, 2, 1, 1, 1)]}, "quaternions of length one"),
        ({"half_spaces": [(0, 0, 2, 0)]}, "normals and quaternions of length one"),
        ({"spheres": [(0, 0, 0, 1), (0, 0, 1)]}, "world: spheres is"),
        ({"spheres": 1.0}, r"spheres has shape \(\); give \(n, 4\)"),
        (
            {"spheres": np.ones((5, 1, 4)), "capsules": np.ones((4, 1, 7))},
            r"obstacles are those of .*\(5,\)",
        ),
    ],
)
def test_obstacles_of_another_form_are_refused(
    robot: gridgen.Robot, given: Any, message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        robot.world_distance(np.zeros((2, 7)), given)


def test_no_derivative_is_taken_by_a_world(robot: gridgen.Robot) -> None:
    every = world(spheres=[(1, 1, 1, 0.1)])
    with pytest.raises(OptionError, match="wrt names 'world'"):
        robot.vjp("world_distance", (np.ones(2), None), np.zeros((2, 7)), every, wrt="world")


def test_pairs_of_spheres_do_not_make_a_program_too_long() -> None:
    tree = tree_of("arm7", floating=False)
    search = collision._pair_query(tree.spheres).instructions
    text = count_operations(tree, "self_distance") - search
    assert search > 100
    assert is_longer(tree, "self_distance", text - 1)
    assert not is_longer(tree, "self_distance", text)


def test_robots_without_spheres_are_refused() -> None:
    robot = gridgen.load(robot_path("arm7"), backend="cpu")
    with pytest.raises(ModelError, match="no spheres: load the robot with spheres="):
        robot.self_distance(np.zeros((2, 7)))
    one = gridgen.load(robot_path("arm7"), spheres={"hand": [(0, 0, 0, 0.1)]}, backend="cpu")
    with pytest.raises(ModelError, match="no pair of links may touch"):
        one.self_distance(np.zeros((2, 7)))
    assert one.self_collision_pairs == ()
    assert one.collision_free(np.zeros((2, 7))).all()


# -- spheres and pairs ---------------------------------------------------------------------------


def test_pairs_are_those_that_touch_in_some_configurations() -> None:
    """Others touch in all configurations or in none, by coal, or a joint connects them."""
    tree = tree_of("arm7", False)
    x = random_states(tree, 60, np.random.default_rng(5))
    centers = centers_of(tree, x["q"], "arm7", False)
    solids = {
        link: [[*map(solid, *ends[:, i], radii)] for i in range(60)]
        for link, (ends, radii) in centers.items()
    }
    named, counts = {frozenset(pair) for pair in tree.spheres.pair_names}, []
    for first, second in combinations(tree.spheres.links, 2):
        every = zip(solids[first.name], solids[second.name], strict=True)
        touch = sum(min(apart(x, y) for x in one for y in other) < 0.0 for one, other in every)
        if {first.name, second.name} in named:
            assert abs(first.body - second.body) > 1
            counts.append(touch)
        else:
            assert abs(first.body - second.body) <= 1 or touch in (0, 60)
    assert max(counts) < 60
    assert sum(counts) > 60
    assert tree.spheres.moving == len(tree.spheres.links) - 1


def test_pairs_of_an_srdf_file_are_left_out(tmp_path: Path) -> None:
    given = spheres_of("arm7", False)
    path = tmp_path / "arm7.srdf"
    path.write_text(
        '<robot name="arm7"><disable_collisions link1="link1" link2="hand" reason="Never"/>'
        '<disable_collisions link1="tool" link2="link4"/></robot>'
    )
    tree = load_tree("arm7", spheres=given, allowed_collisions=path)
    left_out = {frozenset(("link1", "hand")), frozenset(("tool", "link4"))}
    pairs = {frozenset(pair) for pair in tree.spheres.pair_names}
    links = tree.spheres.links
    assert (
        pairs
        == {frozenset((a.name, b.name)) for a in links for b in links if a.body != b.body}
        - left_out
    )
    with pytest.raises(OptionError, match='allowed_collisions has "link99", no link'):
        load_tree("arm7", spheres=given, allowed_collisions=[("link99", "hand")])
    with pytest.raises(OptionError, match="give pairs of links"):
        load_tree("arm7", spheres=given, allowed_collisions=["link1"])


def test_files_of_spheres_are_read(tmp_path: Path) -> None:
    given = {"link1": [{"center": [0.0, 0.1, 0.2], "radius": 0.1}]}
    pytest.importorskip("yaml")
    own = load_tree("arm7", spheres={"link1": [(0.0, 0.1, 0.2, 0.1)]}).spheres
    for name, content in (
        ("a.json", json.dumps(given)),
        ("b.json", json.dumps({"collision_spheres": given})),
        ("c.yml", f"robot_cfg: {{kinematics: {{collision_spheres: {json.dumps(given)}}}}}"),
    ):
        (tmp_path / name).write_text(content)
        assert load_tree("arm7", spheres=tmp_path / name).spheres == own
    (tmp_path / "d.yml").write_text("kinematics: {collision_spheres: b.json}")
    assert load_tree("arm7", spheres=tmp_path / "d.yml").spheres == own


def test_urdf_files_of_spheres_are_read(tmp_path: Path) -> None:
    shape = '<collision><origin xyz="0 0.1 0.2"/><geometry>{}</geometry></collision>'
    text = f'<robot name="a"><link name="link1">{shape}</link><link name="hand"/></robot>'
    path = tmp_path / "spheres.urdf"
    path.write_text(text.format('<sphere radius="0.1"/>'))
    own = load_tree("arm7", spheres={"link1": [(0.0, 0.1, 0.2, 0.1)]}).spheres
    assert load_tree("arm7", spheres=path).spheres == own
    for solid, message in (
        ('<box size="1 1 1"/>', "link1' has a collision shape that is no sphere"),
        ('<sphere radius="a"/>', "could not convert string to float"),
    ):
        path.write_text(text.format(solid))
        with pytest.raises(OptionError, match=message):
            load_tree("arm7", spheres=path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"link1": [(0, 0, 0, 0.0)]}, "with a positive radius"),
        ({"link1": [(0, 0, 0)]}, r"give \(x, y, z, radius\)"),
        ({"link1": [(0, 0, "a", 1)]}, r"give \(x, y, z, radius\)"),
        ({"link1": [(0, 0, np.inf, 1)]}, "finite"),
        ({"links": [(0, 0, 0, 1)]}, 'no link "links"'),
        ({"link1": 3}, "give a list of spheres"),
        ([1, 2], "give spheres"),
        ("absent.yml", "absent.yml: .*No such file"),
        ("primitives", "no link has a box"),
        ({"link1": [{"center": [0, 0, 0]}]}, "a sphere has center and radius"),
        ({"link1": [{"center": [0, 0, "a"], "radius": 1}]}, "finite"),
        ({"link1": [1.0, 2.0]}, r"give \(x, y, z, radius\)"),
        ({"link1": [(0, 0, 0, 0, 0, 1, -0.1)]}, "both ends of a capsule"),
        ({"link1": [(0, 0, 0, 0, 1, 0.1)]}, "both ends of a capsule"),
    ],
)
def test_bad_spheres_are_refused(given: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        load_tree("arm7", spheres=given)


SOLIDS = """
<robot name="solids"><link name="base"/>
<joint name="j" type="continuous"><parent link="base"/><child link="arm"/></joint>
<link name="arm"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
 iyz="0"/></inertial><collision><origin xyz="0.1 0.2 0.3" rpy="0.3 0.2 0.1"/>
<geometry>{}</geometry></collision></link></robot>
"""


@pytest.mark.parametrize(
    ("solid", "half", "kind"),
    [
        ('<box size="0.2 0.1 0.3"/>', (0.1, 0.05, 0.15), coal.Box(0.2, 0.1, 0.3)),
        ('<cylinder radius="0.1" length="0.3"/>', (0.1, 0.1, 0.15), coal.Cylinder(0.1, 0.3)),
        ('<capsule radius="0.05" length="0.3"/>', (0.05, 0.05, 0.2), coal.Capsule(0.05, 0.3)),
        ('<sphere radius="0.1"/>', (0.1, 0.1, 0.1), coal.Sphere(0.1)),
    ],
)
def test_spheres_cover_solids_and_protrude_little(
    solid: str, half: tuple[float, ...], kind: Any
) -> None:
    tree = load_tree(SOLIDS.format(solid), spheres="primitives")
    (link,) = tree.spheres.links
    numbers = link.spheres
    if isinstance(kind, coal.Capsule):
        ((*ends, radius),) = numbers
        parts = np.linspace(ends[:3], ends[3:], 200)
        assert_allclose(np.linalg.norm(parts[-1] - parts[0]), kind.halfLength * 2)
        numbers = [(*center, radius + 1e-5) for center in parts]  # between two of them
    spheres = np.array(numbers)
    (frame,) = (one for one in tree.frames if one.name == "arm")
    (shape,) = frame.shapes
    assert shape is not None
    align = np.array(tree.bodies[0].link_rotation)
    place = np.array(shape.pose.rotation), np.array(shape.pose.translation)
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (20_000, 3)) * half
    ball, here = coal.Sphere(1e-9), coal.Transform3s.Identity()

    def distance(point: np.ndarray) -> float:
        return apart((ball, coal.Transform3s(np.eye(3), point)), (kind, here))

    inside = np.array([p for p in points[:3000] if distance(p) < 0.0])
    moved = (inside @ place[0].T + place[1]) @ align
    gaps = np.linalg.norm(moved[:, None] - spheres[None, :, :3], axis=2) - spheres[:, 3]
    assert (gaps.min(axis=1) <= 0.0).all()
    centers = (spheres[:, :3] @ align.T - place[1]) @ place[0]
    protruding = [distance(c) + r for c, r in zip(centers, spheres[:, 3], strict=True)]
    assert max(protruding) <= 0.025  # points of solids of this size are farther apart
    assert len(link.spheres) <= 90


# -- frameworks ----------------------------------------------------------------------------------


@needs("torch")
def test_gradients_in_pytorch(robot: gridgen.Robot) -> None:
    import torch

    x = states(tree_of("arm7", False), 9)
    q = torch.tensor(x["q"], requires_grad=True)
    clearance, _ = robot.world_distance(q, torch.tensor(x["world"]))
    clearance.sum().backward()
    expected = robot.vjp("world_distance", (np.ones(9), None), x["q"], x["world"])
    assert_array_equal(q.grad, expected)
    paths = q[:, None] + torch.linspace(0.0, 0.3, 600)[:, None]
    free = robot.path_free(paths, torch.tensor(x["world"]))
    assert free.dtype == torch.bool
    assert_array_equal(free, robot.path_free(paths.detach().numpy(), x["world"]))
    soft = robot.soft_world_distance(q, torch.tensor(x["world"]), torch.tensor(x["temperature"]))
    (slope,) = torch.autograd.grad(soft.sum(), q)
    given = x["q"], x["world"], x["temperature"]
    assert_array_equal(slope, robot.vjp("soft_world_distance", np.ones(9), *given))
    obstacles = {"spheres": torch.tensor(random_obstacles(0)["spheres"])}
    clearance, _ = robot.world_distance(q, obstacles)
    assert_array_equal(clearance.detach(), robot.world_distance(x["q"], obstacles)[0])


@needs("jax")
def test_gradients_in_jax(robot: gridgen.Robot) -> None:
    import jax
    import jax.numpy as jnp

    x = {n: array.astype(np.float32) for n, array in states(tree_of("arm7", False), 9).items()}

    @jax.jit
    def gradient(q: Any, every: Any) -> Any:
        return jax.grad(lambda q: robot.world_distance(q, every)[0].sum())(q)

    found = gradient(jnp.asarray(x["q"]), jnp.asarray(x["world"]))
    one = np.ones(9, np.float32)
    assert_array_equal(found, robot.vjp("world_distance", (one, None), x["q"], x["world"]))
    shared = jnp.asarray(x["world"][0])
    each = jax.vmap(lambda q: robot.world_distance(q, shared)[0])(jnp.asarray(x["q"]))
    assert_array_equal(each, robot.world_distance(x["q"], x["world"][0])[0])


def test_random_worlds_have_obstacles_of_every_kind() -> None:
    counts = random_world(3, np.random.default_rng(0))[:, :7]
    assert (counts > 0).all()


@needs("trimesh")
@needs("scipy")
def test_spheres_of_meshes_cover_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import trimesh

    mesh = trimesh.creation.torus(0.1, 0.04, major_sections=24, minor_sections=12)
    (tmp_path / "meshes").mkdir()
    mesh.export(tmp_path / "meshes" / "ring.stl")
    solid = '<mesh filename="package://meshes/ring.stl" scale="1 1 2"/>'
    (tmp_path / "ring.urdf").write_text(SOLIDS.format(solid))
    output = tmp_path / "spheres.json"
    words = ["spheres", str(tmp_path / "ring.urdf"), "-o", str(output), "--most", "60"]
    assert main(words) == 0
    assert "arm: " in capsys.readouterr().out
    assert main(words) == 0  # over its own file
    capsys.readouterr()
    spheres = np.array(json.loads(output.read_text())["arm"])
    (frame,) = (one for one in load_tree(SOLIDS.format(solid)).frames if one.name == "arm")
    assert frame.shapes == (None,)
    turn = pinocchio.rpy.rpyToMatrix(0.3, 0.2, 0.1)
    points = (mesh.sample(4000, seed=0) * (1, 1, 2)) @ turn.T + (0.1, 0.2, 0.3)
    gaps = np.linalg.norm(points[:, None] - spheres[None, :, :3], axis=2) - spheres[:, 3]
    assert (gaps.min(axis=1) <= 0.0).all()
    assert 30 < len(spheres) <= 60
    hole = np.linalg.norm(np.array([0.1, 0.2, 0.3]) - spheres[:, :3], axis=1) - spheres[:, 3]
    assert hole.min() > 0.02  # 6 cm to the ring
    (tmp_path / "ring.urdf").write_text(SOLIDS.format(solid.replace("ring.stl", "absent.stl")))
    assert main(words) == 2
    assert "no file of the mesh" in capsys.readouterr().err
    output.write_text(output.read_text() + " ")
    assert main(words) == 2
    assert "has changed since" in capsys.readouterr().err


@needs("mujoco")
@needs("trimesh")
@needs("scipy")
def test_spheres_cover_meshes_of_mjcf_files(tmp_path: Path) -> None:
    corners = np.array([(0, 0, 0), (0.3, 0, 0), (0, 0.2, 0), (0, 0, 0.4)])
    vertices = " ".join(map(str, corners.ravel()))
    (tmp_path / "solid.xml").write_text(
        f'<mujoco><asset><mesh name="m" vertex="{vertices}"/></asset><worldbody><body name="arm">'
        '<joint/><geom type="mesh" mesh="m" pos="0.1 0.2 0.3" euler="20 10 30"/></body></worldbody>'
        "</mujoco>"
    )
    output = tmp_path / "spheres.json"
    words = ["spheres", str(tmp_path / "solid.xml"), "-o", str(output), "--excess", "0.06"]
    assert main(words) == 0
    spheres = np.array(json.loads(output.read_text())["arm"])
    parts = np.random.default_rng(0).dirichlet(np.ones(4), 4000)
    turn = pinocchio.rpy.rpyToMatrix  # intrinsic x, y, z angles
    x, y, z = (turn(*np.radians(angles)) for angles in ((20, 0, 0), (0, 10, 0), (0, 0, 30)))
    points = parts @ corners @ (x @ y @ z).T + (0.1, 0.2, 0.3)
    gaps = np.linalg.norm(points[:, None] - spheres[None, :, :3], axis=2) - spheres[:, 3]
    assert (gaps.min(axis=1) <= 1e-6).all()
    assert len(spheres) < 60
    assert gridgen.load(tmp_path / "solid.xml", spheres=output).sphere_links


def test_modules_have_derivatives_by_configurations_alone(tmp_path: Path) -> None:
    options = gridgen.GenerateOptions(
        output=tmp_path,
        functions=FUNCTIONS,
        vjp=True,
        spheres=spheres_of("arm7", False),
    )
    module = gridgen.generate(robot_path("arm7"), options)
    assert {f"{name}_vjp_q" for name in FUNCTIONS} < module.programs.keys()
    loaded = gridgen.Robot(module)
    assert len(loaded.self_collision_pairs) == len(tree_of("arm7", False).spheres.pairs)
    assert loaded.sphere_links == tree_of("arm7", False).spheres.names
    with pytest.raises(OptionError, match="casadi: world_distance reads an array of any length"):
        gridgen.generate(
            robot_path("arm7"), dataclasses.replace(options, vjp=False, casadi=True, force=True)
        )
