"""Writes the tables of the manual that count operations and instructions of traced programs.

    python benchmarks/counts.py --write

Prints the tables, and with ``--write`` replaces those of ``results/tables``. It compiles nothing. A
test compares the rows of the smaller robots.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path

from sizes import FAMILIES, SIZES, robot_text
from tables import Grid, markdown_grid, write_table

from gridgen.compiler import read_tree
from gridgen.dynamics.functions import refusal
from gridgen.kernel import SEVERAL, KernelKey
from gridgen.model.tree import KinematicTree
from gridgen.options import RobotOptions
from gridgen.schedules.thread.plan import plan_programs
from gridgen.symbolic.program import Program

_ROBOTS = Path(__file__).parents[1] / "robots"
#: Robots of the tables: name, and whether the root moves freely.
ROBOTS = (("arm7", False), ("quadruped", True), ("humanoid", True))
ALL_ROBOTS = (
    *((n, False) for n in ("pendulum", "cart_pole", "two_link", "gripper", "arm6")),
    *ROBOTS,
)
#: Functions as tables name them.
ID = KernelKey("inverse_dynamics")
FD = KernelKey("forward_dynamics", "aba")
M = KernelKey("mass_matrix")
GRADIENTS = (KernelKey("inverse_dynamics_gradient"), KernelKey("forward_dynamics_gradient"))
KEYS = (ID, FD, M, KernelKey("mass_matrix_inverse"), *GRADIENTS)
DYNAMICS = {
    "inverse dynamics": ID,
    "forward dynamics": FD,
    "mass matrix": M,
    "gradient of inverse dynamics": GRADIENTS[0],
    "gradient of forward dynamics": GRADIENTS[1],
}
WRT = {ID: ("q", "qd", "qdd"), FD: ("q", "qd", "tau"), M: ("q",)}

Rows = Iterator[tuple[str, ...]]


@cache
def tree_of(name: str, floating: bool, parameters: tuple[str, ...] = ()) -> KinematicTree:
    """Return a robot of ``robots/``."""
    options = RobotOptions(floating_base=floating, parameters=parameters)
    return read_tree(_ROBOTS / f"{name}.urdf", options)


@cache
def program(tree: KinematicTree, key: KernelKey) -> Program:
    """Return the program of a CPU."""
    return plan_programs(tree, key).cpu


def title(name: str, floating: bool) -> str:
    """Return a robot as tables name it."""
    return f"{name}, floating" if floating else name


def operations_left(robots: Sequence[tuple[str, bool]]) -> Rows:
    """Yield operations in percent of the dense count."""
    others = ("mass_matrix", "mass_matrix_inverse")
    others += ("inverse_dynamics_gradient", "forward_dynamics_gradient", "forward_kinematics")
    for name, floating in robots:
        tree = tree_of(name, floating)
        method = "crba" if refusal(tree, FD) else "aba"
        keys = [ID, KernelKey("forward_dynamics", method), *map(KernelKey, others)]
        found = [program(tree, key) for key in keys]
        shares = (100 * one.operations / max(one.dense_operations, 1) for one in found)
        cells = [
            "loops" if one.loops else f"{share:.0f}"
            for one, share in zip(found, shares, strict=True)
        ]
        yield title(name, floating), *cells


def regressors(robots: Sequence[tuple[str, bool]]) -> Rows:
    """Yield operations of inverse dynamics and of the regressors."""
    names = ("joint_torque", "kinetic_energy", "potential_energy")
    for name, floating in robots:
        tree = tree_of(name, floating)
        keys = [ID, *(KernelKey(f"{one}_regressor") for one in names)]
        yield title(name, floating), *(f"{program(tree, key).operations:,}" for key in keys)


def second_derivatives(robots: Sequence[tuple[str, bool]]) -> Rows:
    """Yield operations of second derivatives, and of a gradient."""
    rows = {
        "A and B": KernelKey("step_gradient", "semi_implicit"),
        "a weighted sum of second derivatives of a step": KernelKey(
            "step_hessian", "semi_implicit"
        ),
        "the same of accelerations": KernelKey("forward_dynamics_hessian"),
        "all second derivatives of accelerations": KernelKey("forward_dynamics_second_order"),
        "all second derivatives of torques": KernelKey("inverse_dynamics_second_order"),
    }
    tree = tree_of(*robots[0])
    for need, key in rows.items():
        yield need, f"`{key.function}`", f"{program(tree, key).operations:,}"


def fused_functions(robots: Sequence[tuple[str, bool]]) -> Rows:
    """Yield operations of fused functions, and of the separate ones."""
    links = {
        "arm7": ("of two links", ("flange", "link4")),
        "humanoid": ("of both soles", ("left_sole", "right_sole")),
    }
    for name, floating in robots:
        if name not in links:
            continue
        which, frames = links[name]
        jacobians = [KernelKey("jacobian", frame=one, reference="local") for one in frames]
        fused = {
            f"M, bias forces, Jacobians {which}": (M, KernelKey("bias_forces"), *jacobians),
            "inverse dynamics and its gradient": (ID, GRADIENTS[0]),
        }
        tree = tree_of(name, floating)
        for words, parts in fused.items():
            whole = program(tree, KernelKey(SEVERAL, parts=parts)).operations
            alone = sum(program(tree, key).operations for key in parts)
            yield (
                f"{title(name, floating)}: {words}",
                f"{whole:,}",
                f"{alone:,}",
                f"{whole / alone:.2f}",
            )


def largest_straight(_: Sequence[tuple[str, bool]]) -> Rows:
    """Yield the most bodies of straight-line code: of serial chains, and of binary trees."""
    for key in KEYS:
        cells = []
        for family in FAMILIES:
            trees = (read_tree(robot_text(family, size), RobotOptions()) for size in SIZES)
            straight = takewhile(lambda tree: not program(tree, key).loops, trees)  # noqa: B023
            cells.append(str(SIZES[len(list(straight)) - 1]))
        method = f" (`{key.method}`)" if key.method else ""
        yield f"`{key.function}`{method}", *cells


def multiply_adds(robots: Sequence[tuple[str, bool]]) -> Rows:
    """Yield instructions in percent of the operations: a multiply-add has two operations."""
    for name, floating in robots:
        found = [program(tree_of(name, floating), key) for key in KEYS]
        shares = (100 * one.instructions / one.operations for one in found)
        cells = ("loops" if one.loops else f"{x:.0f}" for one, x in zip(found, shares, strict=True))
        yield title(name, floating), *cells


def parameters(robots: Sequence[tuple[str, bool]]) -> Rows:
    """Yield instructions with parameters as inputs, and the ratio to the folded robot."""
    inputs = (("hand",), ("all",), ("hand", "armature", "damping"))
    trees = [tree_of(*robots[0], parameters=one) for one in inputs]
    for name, key in DYNAMICS.items():
        folded = program(tree_of(*robots[0]), key).instructions
        counts = [program(tree, key).instructions for tree in trees]
        yield name, f"{folded:,}", *(f"{count:,} ({count / folded:.2f})" for count in counts)


def products(kind: str) -> Callable[[Sequence[tuple[str, bool]]], Rows]:
    """Return the table of products by all arguments: their instructions, those of the function."""

    def rows(robots: Sequence[tuple[str, bool]]) -> Rows:
        for name, floating in robots:
            tree, cells = tree_of(name, floating), []
            for key, wrt in WRT.items():
                count = program(tree, key.product(kind, wrt)).instructions
                own = program(tree, key).instructions
                cells.append(f"{count:,} of {own:,}: {count / own:.1f}")
            yield title(name, floating), *cells

    return rows


_LINKS = ("folded", "`hand`", '`"all"`', "`hand`, `armature`, `damping`")
_FIRST = ("robot", "inverse dynamics", "forward dynamics", "M", "its inverse")
_PRODUCTS = ("robot", "inverse dynamics", "forward dynamics (aba)", "M")
#: By name: headings, robots, and the function that yields rows.
TABLES = {
    "operations_left": (
        (*_FIRST, "gradient of ID", "gradient of FD", "poses"),
        ALL_ROBOTS,
        operations_left,
    ),
    "multiply_adds": ((*_FIRST, "gradient of ID", "gradient of FD"), ROBOTS, multiply_adds),
    "largest_straight": (("function", *FAMILIES.values()), ROBOTS[:1], largest_straight),
    "regressors": (
        ("robot", "`inverse_dynamics`", "`joint_torque_regressor`", "kinetic", "potential"),
        ROBOTS,
        regressors,
    ),
    "second_derivatives": (
        ("you need", "function", "operations, arm7"),
        ROBOTS[:1],
        second_derivatives,
    ),
    "fused_functions": (("", "in one", "alone", ""), ROBOTS, fused_functions),
    "parameters_instructions": (("", *_LINKS), ROBOTS[:1], parameters),
    "vjp_instructions": (_PRODUCTS, ROBOTS, products("vjp")),
    "jvp_instructions": (_PRODUCTS, ROBOTS[:2], products("jvp")),
}


def table(name: str, only: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """Return the rows of a table: of all its robots, or of some."""
    _, robots, rows = TABLES[name]
    return list(rows([one for one in robots if not only or one[0] in only]))


def main() -> None:
    """Count, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=list(TABLES))
    parser.add_argument("--write", action="store_true", help="replace the tables of the manual")
    arguments = parser.parse_args()
    for name in arguments.tables:
        found = table(name)
        print(markdown_grid(Grid(name, TABLES[name][0], tuple(found))), flush=True)
        if arguments.write:
            write_table(name, [TABLES[name][0], *found])


if __name__ == "__main__":
    main()
