"""The constraint-force algorithm on the teams of the scan schedule: rounds and requirements.

Each body is coupled with its parent, its siblings and its children. Eliminating it couples all its
neighbors with each other; bodies that are not coupled are eliminated in one round, in parallel.
The generator decides everything: a robot's rounds, the blocks that exist, and the products that
update each block (docs/cfa.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from gridgen.dynamics.cfa import Unknown, refusal, unknowns
from gridgen.errors import ModelError
from gridgen.kernel import WARP, Work
from gridgen.model.tree import KinematicTree
from gridgen.schedules.scan.kernels import SCAN_KERNELS
from gridgen.schedules.team.plan import SHARED_BYTES, ScanPlan

SMALLEST_LIMIT = 3
"""Any body with this many couplings may be eliminated: a chain between two branches has three."""


@dataclass(frozen=True)
class Product:
    """One product that updates a block: minus the transpose of ``left`` times ``right``."""

    left: int  #: coupling of the eliminated body with the row of the target.
    right: int  #: coupling of the eliminated body with the column of the target.


@dataclass(frozen=True)
class Update:
    """The products that one round subtracts from one block, in a fixed order."""

    target: int  #: a position for a diagonal block, a coupling for any other.
    #: empty only for a diagonal block that the round does not change.
    products: tuple[Product, ...]


@dataclass(frozen=True)
class Round:
    """Bodies eliminated in parallel."""

    positions: range  #: of the bodies, consecutive.
    #: updates of the diagonal blocks of all remaining bodies, in order; left and right of their
    #: products are the same.
    diagonal: tuple[Update, ...]
    coupled: tuple[Update, ...]  #: updates of couplings.


@dataclass(frozen=True)
class Elimination:
    """The rounds of one robot.

    Positions number the bodies in the order of their elimination. A coupling is a pair of
    positions, the earlier one first: the block's rows belong to it.
    """

    order: tuple[int, ...]  #: the body at every position.
    couplings: tuple[tuple[int, int], ...]  #: all blocks off the diagonal, by position.
    first: tuple[int, ...]  #: couplings of position p are ``first[p]`` to ``first[p + 1]``.
    original: tuple[int, ...]  #: for every coupling, the link that causes it; -1 for fill-in.
    rounds: tuple[Round, ...]  #: in the order of elimination.

    @property
    def widest(self) -> int:
        """Largest number of couplings of a body when it is eliminated."""
        return max((b - a for a, b in zip(self.first, self.first[1:], strict=False)), default=0)


def plan_elimination(parents: Sequence[int], joined: Sequence[bool]) -> Elimination:
    """Choose the rounds for a robot.

    Each round takes the bodies with the fewest couplings first, and every one without a coupling to
    a body of the same round. Bodies with many couplings wait, since eliminating them would couple
    all bodies with each other. The limit is the number of couplings in the largest family of a
    parent and its children, and at least ``SMALLEST_LIMIT``.

    Args:
        parents: of every body; -1 is the base.
        joined:  whether the body has a block: a free joint has none.
    """
    links = _links(parents, joined)
    graph: dict[int, set[int]] = {body: set() for body, has_block in enumerate(joined) if has_block}
    for a, b in links:
        graph[a].add(b)
        graph[b].add(a)
    limit = _limit(parents, joined)

    rounds: list[list[int]] = []
    neighbors: dict[int, list[int]] = {}
    while graph:
        chosen = _choose(graph, limit)
        rounds.append(chosen)
        for body in chosen:
            around = neighbors[body] = sorted(graph.pop(body))
            for a in around:
                graph[a].discard(body)
                graph[a].update(b for b in around if b != a)
    return _number(rounds, neighbors, links)


def _links(parents: Sequence[int], joined: Sequence[bool]) -> dict[tuple[int, int], int]:
    """Return every coupling of the robot, lower body first, with the link that causes it."""
    families: dict[int, list[int]] = {}
    for body, parent in enumerate(parents):
        if joined[body] and parent >= 0:
            families.setdefault(parent, [parent] if joined[parent] else []).append(body)
    return {
        (a, b): link
        for link, family in families.items()
        for place, a in enumerate(family)
        for b in family[place + 1 :]
    }


def _limit(parents: Sequence[int], joined: Sequence[bool]) -> int:
    children = [0] * len(parents)
    for body, parent in enumerate(parents):
        if parent >= 0:
            children[parent] += joined[body]
    return max(SMALLEST_LIMIT, *children)


def _choose(graph: dict[int, set[int]], limit: int) -> list[int]:
    """Return the bodies of the next round, sorted."""
    fewest = min(len(around) for around in graph.values())
    chosen: list[int] = []
    excluded: set[int] = set()
    for body in sorted(graph, key=lambda body: (len(graph[body]), body)):
        if len(graph[body]) > max(limit, fewest):
            break
        if body not in excluded:
            chosen.append(body)
            excluded |= graph[body]
    return sorted(chosen)


def _number(
    rounds: Sequence[Sequence[int]],
    neighbors: dict[int, list[int]],
    links: dict[tuple[int, int], int],
) -> Elimination:
    """Number positions and couplings, and list the updates of every round."""
    order = tuple(body for chosen in rounds for body in chosen)
    position = {body: place for place, body in enumerate(order)}
    couplings: list[tuple[int, int]] = []
    first = [0]
    for place, body in enumerate(order):
        couplings += [(place, at) for at in sorted(position[a] for a in neighbors[body])]
        first.append(len(couplings))
    index = {pair: coupling for coupling, pair in enumerate(couplings)}
    original = tuple(
        links.get((min(order[a], order[b]), max(order[a], order[b])), -1) for a, b in couplings
    )

    plans = []
    begin = 0
    for chosen in rounds:
        positions = range(begin, begin + len(chosen))
        begin = positions.stop
        diagonal: dict[int, list[Product]] = {at: [] for at in range(begin, len(order))}
        coupled: dict[int, list[Product]] = {}
        for place in positions:
            mine = range(first[place], first[place + 1])
            for left in mine:
                a = couplings[left][1]
                diagonal[a].append(Product(left, left))
                for right in range(left + 1, mine.stop):
                    target = index[a, couplings[right][1]]
                    coupled.setdefault(target, []).append(Product(left, right))
        plans.append(Round(positions, _updates(diagonal), _updates(coupled)))
    return Elimination(order, tuple(couplings), tuple(first), original, tuple(plans))


def _updates(products: dict[int, list[Product]]) -> tuple[Update, ...]:
    return tuple(Update(target, tuple(products[target])) for target in sorted(products))


#: Numbers in the shared memory that every GPU provides without opting in, in float64.
AVAILABLE = SHARED_BYTES // 8


@dataclass(frozen=True)
class CfaPlan:
    """The constraint-force algorithm for one robot."""

    scan: ScanPlan  #: the teams, and the scans that compute the bias motion.
    elimination: Elimination  #: the rounds.

    @property
    def tree(self) -> KinematicTree:
        """The robot."""
        return self.scan.tree

    @cached_property
    def unknowns(self) -> tuple[tuple[Unknown, ...], ...]:
        """The unknown components of every body's joint."""
        return tuple(unknowns(body) for body in self.tree.bodies)

    @property
    def size(self) -> int:
        """Rows of a block: five constraints, and the joint's axis if a joint has armature."""
        return 6 if any(self.tree.armature) else 5

    @property
    def body_numbers(self) -> int:
        """Numbers per body in a team's memory: placement, wrench, motion, a mobility of its own."""
        return 34 if "params" in self.tree.parameters else 24

    @property
    def numbers(self) -> int:
        """Numbers that a team shares, in shared memory or in its row of the workspace."""
        size, joints = self.size, len(self.elimination.order)
        vectors = self.body_numbers * len(self.tree.bodies) + self.tree.nv + 2 * size * joints
        triangle = size * (size + 1) // 2
        return vectors + triangle * joints + size * size * len(self.elimination.couplings)

    @property
    def threads(self) -> int:
        """Threads of a block, limited by the float64 systems of its warps in shared memory."""
        if not self.scan.on_warp:
            return self.scan.threads
        one_warp = WARP // self.scan.width * self.numbers
        return WARP * max(1, min(self.scan.threads // WARP, AVAILABLE // one_warp))

    @property
    def states_per_block(self) -> int:
        """States, or teams, that a block computes at a time.

        A kernel on warps has a team for every state. A kernel on blocks has a grid of any size,
        whose blocks divide the states.
        """
        return self.threads // self.scan.width if self.scan.on_warp else 1

    def in_shared_memory(self, available: int = AVAILABLE) -> bool:
        """Return whether a block's systems fit in shared memory; else they use the workspace."""
        return self.states_per_block * self.numbers <= available

    def shared_numbers(self, available: int = AVAILABLE) -> int:
        """Return the numbers in the dynamic shared memory of a block.

        Args:
            available: numbers of the element type that a block may have; by default the limit
                without opting in, in float64.
        """
        exchanged = 0 if self.scan.on_warp else 2 * self.scan.piece * self.scan.bodies
        system = self.states_per_block * self.numbers if self.in_shared_memory(available) else 0
        return max(exchanged, system)

    def workspace(self, blocks: int, available: int = AVAILABLE) -> tuple[int, int]:
        """Return the rows and columns of the workspace of a grid: a row for each team.

        There are no rows if the systems are in shared memory; the kernel then gets a batch stride
        of 0.
        """
        rows = 0 if self.in_shared_memory(available) else blocks * self.states_per_block
        return rows, self.numbers


def plan_cfa(scan: ScanPlan) -> CfaPlan:
    """Plan the algorithm for one robot.

    Raises:
        ModelError: the robot has mimic joints, or a link with a singular inertia.
    """
    tree = scan.tree
    if (reason := refusal(tree)) is not None:
        raise ModelError(f"{tree.source}: {reason}")
    joined = [bool(unknowns(body)) for body in tree.bodies]
    return CfaPlan(scan, plan_elimination(tree.parents, joined))


def cfa_work(plan: CfaPlan) -> Work:
    """Return the work of the constraint-force algorithm, once refined (docs/cfa.md)."""
    from gridgen.schedules.scan.work import scan_work  # these trace the operators of a body
    from gridgen.schedules.team import operations as of

    size, rounds = plan.size, plan.elimination.rounds
    scan, couplings = plan.scan, plan.elimination.couplings
    column = 2 * of.ACCELERATE + of.TO_ANCESTOR + of.TO_BODY
    formed = size * column * (len(plan.elimination.order) + len(couplings))
    factored = len(plan.elimination.order) * size**3 // 6 + len(couplings) * size**3 // 2
    changed = sum(
        _products(round_.diagonal) * size * size * (size + 1) // 2
        + _products(round_.coupled) * size**3
        for round_ in rounds
    )
    applied = size * size * (len(plan.elimination.order) + 2 * len(couplings))
    accelerated = of.each(scan, of.TO_ANCESTOR + of.ACCELERATE + of.TO_BODY) + Work(0, 0, 1)
    solved = of.divided(scan, applied, 2 * len(rounds)) + accelerated
    return (
        scan_work(scan, SCAN_KERNELS["bias_forces_scan"])
        + of.divided(scan, formed, 1)
        + of.divided(scan, factored + changed, 2 * len(rounds))
        + solved
        + solved
        + accelerated
    )


def _products(updates: Iterable[Update]) -> int:
    return sum(len(update.products) for update in updates)
