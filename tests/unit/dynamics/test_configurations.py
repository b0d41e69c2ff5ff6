"""Steps between configurations and their derivatives, against Pinocchio's and by complex steps."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest

from gridgen.dynamics.reference import evaluate_reference
from gridgen.model.tree import KinematicTree
from helpers.dynamics import COMPLEX_STEP, Array, load_tree, robot_path
from helpers.oracle import Oracle

STATES = 100

TOLERANCE = 1e-13
"""Products of quaternions, and series of seven terms; derivatives relative to the largest entry."""

ROBOTS = [("arm7", False), ("quadruped", True), ("talos_reduced", True)]

#: Angles [rad] around the end of the series, far below it, up to half a turn.
ANGLES = [0.0, 1e-200, 1e-16, 1e-9, 1e-4, 0.1, 0.4999999, 0.5000001, 1.0, 3.0, 3.14]
#: Turns that another one would replace.
FAR = [3.2, 7.0]


def steps(tree: KinematicTree, angles: list[float]) -> tuple[Array, Array]:
    """Return random configurations, and velocities that turn a free base by such angles."""
    rng = np.random.default_rng(0)
    q, v = rng.uniform(-1.0, 1.0, (STATES, tree.nq)), rng.normal(size=(STATES, tree.nv))
    v[:, 3:6] *= rng.choice(angles, (STATES, 1)) / np.linalg.norm(v[:, 3:6], axis=1, keepdims=True)
    for body in tree.bodies:
        if body.kind == "free":
            turn = q[:, body.q_index + 3 : body.q_index + 7]
            turn /= np.linalg.norm(turn, axis=1, keepdims=True)
    return q, v


def check(found: Array, expected: list[object]) -> None:
    reference = np.array(expected)
    scale = np.abs(reference).max(axis=tuple(range(1, reference.ndim)), initial=1.0)
    error = np.abs(found - reference).max(axis=tuple(range(1, reference.ndim)), initial=0.0)
    assert (error <= TOLERANCE * scale * (5 if reference.ndim == 3 else 1)).all(), error.max()


@pytest.mark.parametrize(("name", "floating"), ROBOTS)
def test_they_are_those_of_pinocchio(name: str, floating: bool) -> None:
    tree = load_tree(name, floating)
    model = Oracle(tree, robot_path(name)).model
    for angles in (ANGLES, FAR):
        q, v = steps(tree, angles)
        (end,) = evaluate_reference(tree, "integrate", {"q": q, "v": v})
        pairs = list(zip(q, v, strict=True))
        check(end, [pinocchio.integrate(model, *pair) for pair in pairs])
        gradients = evaluate_reference(tree, "integrate_gradient", {"q": q, "v": v})
        reference = zip(*(pinocchio.dIntegrate(model, *pair) for pair in pairs), strict=True)
        for gradient, expected in zip(gradients, reference, strict=True):
            check(gradient, list(expected))

    u = np.random.default_rng(1).uniform(-0.2, 1.2, STATES)
    near = steps(tree, ANGLES)[0]
    for target in (end, near):
        x = {"q0": q, "q1": target, "u": u}
        triples = list(zip(q, target, u, strict=True))
        (found,) = evaluate_reference(tree, "difference", x)
        check(found, [pinocchio.difference(model, *t[:2]) for t in triples])
        (found,) = evaluate_reference(tree, "distance", x)
        check(found, [pinocchio.distance(model, *t[:2]) for t in triples])
        (found,) = evaluate_reference(tree, "interpolate", x)
        check(found, [pinocchio.interpolate(model, *t) for t in triples])
        gradients = evaluate_reference(tree, "difference_gradient", x)
        reference = zip(*(pinocchio.dDifference(model, *t[:2]) for t in triples), strict=True)
        for gradient, expected in zip(gradients, reference, strict=True):
            check(gradient, list(expected))


def test_difference_undoes_integrate() -> None:
    tree = load_tree("quadruped", floating=True)
    q, v = steps(tree, ANGLES)
    (end,) = evaluate_reference(tree, "integrate", {"q": q, "v": v})
    (back,) = evaluate_reference(tree, "difference", {"q0": q, "q1": end})
    np.testing.assert_allclose(back, v, rtol=0, atol=1e-12)


def test_complex_steps_pass_through() -> None:
    """Nothing has a kink: at no angle, and not where the turn is none."""
    tree = load_tree("cart_pole", floating=True)
    q, v = steps(tree, [*ANGLES, *FAR])
    (end,) = evaluate_reference(tree, "integrate", {"q": q, "v": v})
    gradients = evaluate_reference(tree, "integrate_gradient", {"q": q, "v": v})
    back = evaluate_reference(tree, "difference_gradient", {"q0": q, "q1": end})
    for k in range(tree.nv):
        step = np.zeros((STATES, tree.nv), complex)
        step[:, k] = 1j * COMPLEX_STEP
        (moved,) = evaluate_reference(tree, "integrate", {"q": q, "v": step})
        ends = (
            evaluate_reference(tree, "integrate", {"q": moved, "v": v})[0],
            evaluate_reference(tree, "integrate", {"q": q, "v": v + step})[0],
        )
        for there, gradient in zip(ends, gradients, strict=True):
            (found,) = evaluate_reference(tree, "difference", {"q0": end, "q1": there})
            check(found.imag / COMPLEX_STEP, list(gradient[:, :, k]))
        (other,) = evaluate_reference(tree, "integrate", {"q": end, "v": step})
        for (q0, q1), gradient in zip(((moved, end), (q, other)), back, strict=True):
            (found,) = evaluate_reference(tree, "difference", {"q0": q0, "q1": q1})
            np.testing.assert_allclose(found.imag / COMPLEX_STEP, gradient[:, :, k], atol=1e-11)
