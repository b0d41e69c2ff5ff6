"""Operational space; declared as in ``gridgen.functions.dynamics``."""

from __future__ import annotations

from collections.abc import Sequence

from gridgen.functions.calls import Calls, Request
from gridgen.functions.record import Algorithm, function
from gridgen.functions.types import (
    Array,
    ArrayLike,
    InertialAtFrame,
    Operational,
    Reference,
    Unpack,
    Writable,
)


def _algorithm(name: str, refusal: str = "of_few_directions") -> Algorithm:
    refusals = ("of_a_singular_mass_matrix", refusal)
    source = "Khatib 1987, with the factorization of the mass matrix"
    return Algorithm(f"operational.{name}", source, refusals=refusals, in_loops=False)


class OperationalSpace(Calls):
    """Operational space."""

    @function(
        "Operational-space inertia",
        ("Lambda",),
        _algorithm("operational_space_inertia"),
        is_default=False,
        solves=True,
    )
    def operational_space_inertia(
        self,
        q: ArrayLike,
        frame: str | Sequence[str],
        reference: Reference = "local",
        *,
        out: Writable | None = None,
        **options: Unpack[InertialAtFrame],
    ) -> Array:
        """Return the inertia of the robot at a link, (J Minv J^T)^-1.

        Args:
            q:         joint positions (B, nq) [rad or m]
            frame:     name of a link, merged ones included, or a list of several.
            reference: axes and point of the link's twist: ``local``, ``world`` or
                       ``local_world_aligned``.
            out:       array for the result.

        Returns:
            Lambda: (B, 6, 6), linear rows first; (B, n, 6, 6) for a list of n links. Not finite
            where the link cannot move in every direction.

        Raises:
            ModelError: the joints do not move the link in every direction, or the mass matrix is
                singular.

        Source: Khatib 1987.
        """
        return self._of("operational_space_inertia", (q,), out, options, frame, reference)

    @function(
        "Operational-space inertia of the origin",
        ("Lambda_point",),
        _algorithm("point_inertia", "of_few_directions_of_a_point"),
        is_default=False,
        solves=True,
    )
    def point_inertia(
        self,
        q: ArrayLike,
        frame: str | Sequence[str],
        reference: Reference = "local",
        *,
        out: Writable | None = None,
        **options: Unpack[InertialAtFrame],
    ) -> Array:
        """Return the inertia of the robot at the origin of a link, for translation alone.

        Returns:
            Lambda_point: (B, 3, 3) [kg]
        """
        return self._of("point_inertia", (q,), out, options, frame, reference)

    @function(
        "Dynamically consistent inverse of the Jacobian",
        ("Jbar",),
        _algorithm("dynamically_consistent_inverse"),
        is_default=False,
        solves=True,
    )
    def dynamically_consistent_inverse(
        self,
        q: ArrayLike,
        frame: str | Sequence[str],
        reference: Reference = "local",
        *,
        out: Writable | None = None,
        **options: Unpack[InertialAtFrame],
    ) -> Array:
        """Return the dynamically consistent inverse of a link's Jacobian, Minv J^T Lambda.

        Joint torques (1 - J^T Jbar^T) tau do not accelerate the link.

        Returns:
            Jbar: (B, nv, 6)
        """
        return self._of("dynamically_consistent_inverse", (q,), out, options, frame, reference)

    @function(
        "Operational-space bias",
        ("bias",),
        _algorithm("operational_space_bias"),
        is_default=False,
        solves=True,
    )
    def operational_space_bias(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        frame: str | Sequence[str],
        reference: Reference = "local",
        *,
        out: Writable | None = None,
        **options: Unpack[Operational],
    ) -> Array:
        """Return the wrench that holds a link at an acceleration of zero.

        The wrench is Lambda (J Minv h - dJ/dt qd), where h are the bias forces. It is the sum of
        two parts. With ``gravity`` 0, only the Coriolis and centrifugal part remains (Khatib's
        mu). With velocities 0, only the gravity part remains (p).

        Returns:
            bias: (B, 6) [N, N m]
        """
        return self._of("operational_space_bias", (q, qd), out, options, frame, reference)

    def _of(
        self,
        name: str,
        arrays: tuple[ArrayLike, ...],
        out: Writable | None,
        options: InertialAtFrame | Operational,
        frame: str | Sequence[str],
        reference: Reference,
    ) -> Array:
        return self._call(Request(name, arrays, out, options, frame=frame, reference=reference))
