"""Time steps and their linearizations, with one lane for each body.

The integrators are those of ``gridgen.dynamics.integrators`` with one evaluation.
"""

from __future__ import annotations

from typing import Any

from gridgen.dynamics import base_factors, base_frame
from gridgen.dynamics.base_bodies import Bodies
from gridgen.dynamics.motion_derivatives import flat
from gridgen.dynamics.state import Numbers, State
from gridgen.model.tree import KinematicTree
from gridgen.symbolic.lanes import Area
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import dot

#: The integrators, as options of the functions of this module.
INTEGRATORS: dict[str, dict[str, Any]] = {
    "semi_implicit": {},
    "euler": {"share": 0.0},
    "constant_acceleration": {"share": 0.5},
    "implicit": {"is_damping_implicit": True},
}


def refusal(tree: KinematicTree) -> str | None:
    """Return why teams do not step a robot, or ``None``."""
    has = {
        "contacts": tree.contact_model.acts,
        "constraints": tree.constraints,
        "actuators": tree.actuators,
        "springs": tree.springs,
    }
    found = next((name for name, own in has.items() if own), None)
    return found and f'steps of teams do not compute {found}: use schedule="thread"'


def step(
    state: State,
    tau: Numbers,
    dt: Numbers,
    *,
    share: float = 1.0,
    is_damping_implicit: bool = False,
) -> None:
    """Write the state ``q_next``, ``qd_next``; see ``integrators.semi_implicit``."""
    tree, damping_step = state.tree, dt[0] if is_damping_implicit else None
    if tree.has_mimic:
        bodies = Bodies.of_limbs(state, damping_step)
        found = base_factors.accelerations(bodies)
        rate, of_base = bodies.lanes.number_of_each(found, bodies.owned), _of_base(bodies, found)
    else:
        bodies = Bodies.alone(state, damping_step)
        rate, of_base = base_frame.accelerations(bodies, tau)
    lanes = bodies.lanes
    lanes.begin("state at the end", -1)
    qd, change = lanes.read("qd", bodies.owned), dt[0] * rate
    lanes.write("qd_next", bodies.owned, qd + change)
    path = dt[0] * (qd + share * change if share else qd)
    lanes.write("q_next", bodies.places, lanes.read("q", bodies.places) + path)
    if bodies.base is not None:
        qd, own = bodies.of_floating(state.qd), bodies.base
        lanes.write(
            "qd_next",
            bodies.floating,
            lanes.chosen([v + dt[0] * a for v, a in zip(qd, of_base, strict=True)]),
        )
        places = list(range(own.q_index, own.q_index + own.joint_type.nq))
        end = own.joint_type.integrated(
            [state.q[k] for k in places], _path(bodies, of_base, dt[0], share), lanes
        )
        lanes.write("q_next", places, lanes.chosen(end))


def _of_base(bodies: Bodies, qdd: Area) -> list[Scalar]:
    """Return the accelerations of a floating base, in all lanes."""
    return [*bodies.lanes.vector(qdd, bodies.floating).values()] if bodies.base else []


def _path(bodies: Bodies, qdd: list[Scalar], step: Scalar, share: float) -> list[Scalar]:
    """Return the path of a floating base during a step."""
    qd = bodies.of_floating(bodies.state.qd)
    if not share:
        return [step * v for v in qd]
    return [step * (v + share * step * a) for v, a in zip(qd, qdd, strict=True)]


def step_gradient(
    state: State,
    tau: Numbers,
    dt: Numbers,
    *,
    share: float = 1.0,
    is_damping_implicit: bool = False,
) -> None:
    """Write the linearization ``A``, ``B``; see ``linearization.semi_implicit``."""
    step, nv = dt[0], state.tree.nv
    bodies = Bodies.of_limbs(state, step if is_damping_implicit else None)
    lanes, rates = bodies.lanes, base_factors.Rates(bodies)
    base = _BaseChange(bodies, rates, step, share) if bodies.base is not None else None
    for column, x in rates.columns():

        def one(row: int, column: str = column) -> Scalar:
            return lanes.value(f"T({column} == {row})")

        units = [one(nv + i) for i in range(nv)]
        gained = [step * entry for entry in x]
        faster = [a + b for a, b in zip(units, gained, strict=True)]
        along = [a + share * b for a, b in zip(units, gained, strict=True)] if share else units
        place = [step * entry for entry in along]
        if base is not None:
            first, *_, last = bodies.floating
            place[first : last + 1] = base.of_column(column, place[first : last + 1])
        others = [i for i in range(nv) if bodies.base is None or i not in bodies.floating]
        for i in others:
            place[i] = place[i] + one(i)
        lanes.write_column(column, {"A": 2 * nv, "B": nv}, [*place, *faster])


class _BaseChange:
    """The change of the configuration of a floating base during a step: two 6 x 6 matrices."""

    def __init__(
        self, bodies: Bodies, rates: base_factors.Rates, step: Scalar, share: float
    ) -> None:
        lanes, base = bodies.lanes, bodies.base
        assert base is not None
        lanes.begin("change of the base", -1)
        path = _path(bodies, _of_base(bodies, rates.qdd), step, share)
        made = base.joint_type.integrated_gradient(path, lanes)
        self.lanes, self.first = lanes, bodies.floating[0]
        self.start, self.onward = (lanes.array(name, 36) for name in ("start", "onward"))
        with lanes.some([True]):
            for area, rows in zip((self.start, self.onward), made, strict=True):
                for k, entry in enumerate(flat(*rows)):
                    lanes.set(area, str(k), entry)
        lanes.meet()

    def of_column(self, column: str, path: list[Scalar]) -> list[Scalar]:
        """Return the change for a change of the path, in a column."""
        lanes, first = self.lanes, self.first
        onward = [*lanes.vector(self.onward, range(36)).values()]
        found = []
        for r in range(6):
            is_own = f"{column} >= {first} && {column} < {first + 6}"
            at = f"{self.start.name}[{column} + {6 * r - first}]"
            lanes.touch(self.start)
            own = lanes.value(f"({is_own} ? {at} : T(0))")
            found.append(own + dot(onward[6 * r : 6 * r + 6], path))
        return found
