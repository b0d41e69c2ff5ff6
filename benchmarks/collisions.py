"""Self-collisions and worlds: grid-gen beside coal through Pinocchio, in one process.

    python benchmarks/collisions.py [--seconds 10]

One thread, float32 for grid-gen. The robot is panda. Its spheres cover its meshes with two
excesses, or a capsule is around each link. Both libraries test the same spheres and the same pairs
of links. Configurations are random within the limits, an edge is a straight line between two of
them. Peers that take longer get fewer. Times are the least of those of the processor. Writes
benchmarks/results/tables/collisions.csv.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any

os.environ.update(dict.fromkeys(("GRIDGEN_NUM_THREADS", "OMP_NUM_THREADS"), "1"))

import coal
import numpy as np
import pinocchio
from cases import urdf_file
from interleave import interleaved
from machine import description

import gridgen
from gridgen.compiler import MAX_BODIES
from gridgen.model.meshes import spheres_of_links
from gridgen.model.readers import read_robot

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "tables" / "collisions.csv"
FINGER = {"panda_finger_joint1": 0.04}
#: Configurations of grid-gen's calls, and of those of the peer; edges, and their points; obstacles.
STATES, FEW, EDGES, POINTS, OBSTACLES = 4096, 64, 1024, 32, 40
#: Published times, not measured here.
PUBLISHED = [("59", "", "edge of a plan", "VAMP, published", "10000")]


class Peer:
    """Pinocchio and coal with the spheres of a robot."""

    def __init__(self, urdf: str, robot: gridgen.Robot, spheres: dict[str, Any]) -> None:
        full = pinocchio.buildModelFromUrdf(urdf)
        fingers = [full.getJointId(f"panda_finger_joint{k}") for k in (1, 2)]
        at = pinocchio.neutral(full)
        at[-2:] = FINGER["panda_finger_joint1"]
        self.model = pinocchio.buildReducedModel(full, fingers, at)
        self.geometry = pinocchio.GeometryModel()
        named: dict[str, list[int]] = {}
        for link, listed in spheres.items():
            frame = self.model.frames[self.model.getFrameId(link, pinocchio.FrameType.BODY)]
            for k, numbers in enumerate(listed):
                place, solid = solid_of(*np.split(np.array(numbers), [3, -1]))
                place = frame.placement * place
                found = pinocchio.GeometryObject(f"{link}_{k}", frame.parentJoint, place, solid)
                named.setdefault(link, []).append(self.geometry.addGeometryObject(found))
        for a, b in robot.self_collision_pairs:
            for i in named[a]:
                for j in named[b]:
                    self.geometry.addCollisionPair(pinocchio.CollisionPair(i, j))
        self.data = self.model.createData()
        self.found = pinocchio.GeometryData(self.geometry)

    def collide(self, q: Any) -> list[bool]:
        """Return whether configurations collide; each ends with the first collision."""
        everything = self.model, self.data, self.geometry, self.found
        return [pinocchio.computeCollisions(*everything, one, True) for one in q]

    def distances(self, q: Any) -> list[float]:
        """Return the smallest distances of configurations."""
        everything = self.model, self.data, self.geometry, self.found
        return [
            self.found.distanceResults[pinocchio.computeDistances(*everything, one)].min_distance
            for one in q
        ]


def solid_of(start: Any, end: Any, radius: Any) -> tuple[Any, Any]:
    """Return the place and the shape of a sphere, which has no end, or of a capsule."""
    if not len(end):
        return pinocchio.SE3(np.eye(3), start), coal.Sphere(*radius)
    turn = pinocchio.Quaternion.FromTwoVectors(np.eye(3)[2], end - start).matrix()
    solid = coal.Capsule(*radius, np.linalg.norm(end - start))
    return pinocchio.SE3(turn, (start + end) / 2), solid


def capsule_around(spheres: list[Any]) -> list[tuple[float, ...]]:
    """Return a capsule around spheres, along their longest extent."""
    centers, radii = np.array(spheres)[:, :3], np.array(spheres)[:, 3]
    middle = centers.mean(axis=0)
    axis = np.linalg.svd(centers - middle, full_matrices=False)[2][0]
    along = (centers - middle) @ axis
    across = np.linalg.norm(centers - middle - along[:, None] * axis, axis=1)
    radius = (across + radii).max()
    ends = [middle + axis * limit for limit in (along.min(), along.max())]
    return [(*np.concatenate(ends).tolist(), float(radius))]


def main() -> None:
    """Measure all sets of spheres and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="for each set of spheres")
    seconds = parser.parse_args().seconds
    print(description())
    with RESULT.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("spheres", "pairs of links", "computed", "by", "ns"))
        for excess, capsules in ((0.04, False), (0.08, False), (0.04, True)):
            for row in measured(excess, capsules, seconds):
                writer.writerow(row)
                print(" | ".join(map(str, row)))
        writer.writerows(PUBLISHED)


def measured(excess: float, capsules: bool, seconds: float) -> list[tuple[Any, ...]]:
    """Return a row for each computation and library; a capsule around each link, or spheres."""
    file = urdf_file("panda")
    urdf = str(file)
    spheres = spheres_of_links(read_robot(file, MAX_BODIES), excess)
    if capsules:
        spheres = {link: capsule_around(listed) for link, listed in spheres.items()}
    robot = gridgen.load(urdf, spheres=spheres, lock=FINGER, backend="cpu")
    peer = Peer(urdf, robot, spheres)

    rng = np.random.default_rng(0)
    lower, upper = robot.lower_limits, robot.upper_limits
    exact = rng.uniform(lower, upper, (STATES, robot.nq))
    q = exact.astype(np.float32)
    ends = exact[:EDGES], np.roll(exact[:EDGES], 1, axis=0)
    edges = np.linspace(*ends, POINTS, axis=1).astype(np.float32)
    sizes = np.full((OBSTACLES, 1), 0.1)
    world = gridgen.world(spheres=np.hstack([rng.uniform(-1, 1, (OBSTACLES, 3)), sizes]), like=q)
    few, few_edges = exact[:FEW], edges[:2].reshape(-1, robot.nq).astype(float)

    free = robot.collision_free(exact[:FEW])
    assert ([not hit for hit in peer.collide(few)] == free).all()
    clearance, _ = robot.self_distance(few)
    assert np.allclose(clearance, peer.distances(few), atol=1e-6)

    ours, theirs = "grid-gen", "coal through Pinocchio"
    calls: dict[tuple[str, str], tuple[Callable[[], Any], int]] = {
        ("self-collision", ours): (lambda: robot.collision_free(q), STATES),
        ("self-collision", theirs): (lambda: peer.collide(few), FEW),
        ("self-distance", ours): (lambda: robot.self_distance(q), STATES),
        ("self-distance", theirs): (lambda: peer.distances(few), FEW),
        ("edge, 32 points", ours): (lambda: robot.path_free(edges), len(edges)),
        ("edge, 32 points", theirs): (lambda: peer.collide(few_edges), 2),
        ("self-collision and 40 spheres", ours): (
            lambda: robot.collision_free(q, world),
            STATES,
        ),
        ("distance of 40 spheres", ours): (lambda: robot.world_distance(q, world), STATES),
        ("forward kinematics", ours): (lambda: robot.forward_kinematics(q), STATES),
    }
    for call, _ in calls.values():
        call()
    named = {" | ".join(key): call for key, (call, _) in calls.items()}
    times = interleaved(named, seconds, thread_time)
    count = f"{len(robot.sphere_links)}{' capsules' * capsules}"
    sizes_of = count, len(robot.self_collision_pairs)
    return [
        (*sizes_of, *key, f"{times[' | '.join(key)].least / states * 1e9:.1f}")
        for key, (_, states) in calls.items()
    ]


if __name__ == "__main__":
    main()
