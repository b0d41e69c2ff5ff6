"""Frames and energies of a robot; declared as in ``gridgen.functions.dynamics``."""

from __future__ import annotations

from collections.abc import Sequence

from gridgen.functions.calls import Calls, Request
from gridgen.functions.record import Algorithm, function
from gridgen.functions.types import (
    Array,
    ArrayLike,
    Heavy,
    Inertial,
    Options,
    Reference,
    Unpack,
    Weighted,
    Writable,
)


class Frames(Calls):
    """Poses and Jacobians of the links."""

    @function(
        "Forward kinematics: poses of all frames",
        ("poses",),
        Algorithm(
            "frames.forward_kinematics",
            "products of placements, Yang, Wu, Pan (prefix sums) eq. 1",
        ),
    )
    def forward_kinematics(
        self,
        q: ArrayLike,
        frames: str | Sequence[str] | None = None,
        *,
        out: Writable | None = None,
        **options: Unpack[Options],
    ) -> Array:
        """Return the poses of links in the base frame.

        Args:
            q:       joint positions (B, nq) [rad or m]
            frames:  a link, merged ones included, or a list of some; by default all of
                     ``frame_names``. Only what these take is computed; a generated module, which
                     has a kernel for all, computes all and copies.
            out:     array for the result.
            backend: overrides the robot's.

        Returns:
            poses: (B, n_frames, 4, 4) homogeneous, x_base = pose x_link [1 and m]; (B, 4, 4) for
            the name of one link.

        Raises:
            OptionError: a frame is unknown; the nearest are named.
        """
        return self._call(Request("forward_kinematics", (q,), out, options, frame=frames))

    @function(
        "Jacobian",
        ("J",),
        Algorithm("frames.jacobian", "joint axes as the frame sees them"),
        is_default=False,
    )
    def jacobian(
        self,
        q: ArrayLike,
        frame: str | Sequence[str],
        reference: Reference = "local",
        *,
        out: Writable | None = None,
        **options: Unpack[Options],
    ) -> Array:
        """Return the Jacobian of a link: its twist (v, w) is J qd.

        Args:
            q:         joint positions (B, nq) [rad or m]
            frame:     name of a link, merged ones included, or a list of several.
            reference: where the twist is seen from: ``local`` (the link's frame), ``world`` (the
                       base frame, with the velocity of the point at its origin) or
                       ``local_world_aligned`` (the link's origin, axes of the base).
            out:       array for the result.
            backend:   overrides the robot's.

        Returns:
            J: (B, 6, nv); (B, n, 6, nv) for a list of n links.

        Raises:
            OptionError: the frame is unknown; the nearest are named.
            ModelError:  the module was generated without the frame.
        """
        return self._call(Request("jacobian", (q,), out, options, frame=frame, reference=reference))

    @function(
        "Derivative of the Jacobian times qd,",
        ("drift",),
        Algorithm("frames.jacobian_dot_qd", "acceleration of the frame for zero qdd"),
        is_default=False,
        cancels=True,
    )
    def jacobian_dot_qd(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        frame: str | Sequence[str],
        reference: Reference = "local",
        *,
        out: Writable | None = None,
        **options: Unpack[Options],
    ) -> Array:
        """Return the time derivative of a link's Jacobian times ``qd``.

        Arguments as in ``jacobian``, with the joint velocities ``qd`` (B, nv).

        Returns:
            drift: (B, 6), (B, n, 6) for a list of n links [m/s^2, rad/s^2]
        """
        return self._call(
            Request("jacobian_dot_qd", (q, qd), out, options, frame=frame, reference=reference)
        )


class WholeBody(Calls):
    """Center of mass and energies."""

    @function(
        "Center of mass",
        ("com",),
        Algorithm(
            "energy.center_of_mass",
            "first moments of composite bodies",
            refusals=("of_no_mass",),
        ),
    )
    def center_of_mass(
        self, q: ArrayLike, *, out: Writable | None = None, **options: Unpack[Weighted]
    ) -> Array:
        """Return the center of mass in the base frame.

        Args:
            q:       joint positions (B, nq) [rad or m]
            out:     array for the result.
            options: ``params`` as in ``inverse_dynamics``, and ``backend``.

        Returns:
            com: (B, 3) [m]
        """
        return self._call(Request("center_of_mass", (q,), out, options))

    @function(
        "Jacobian of the center of mass",
        ("Jcom",),
        Algorithm(
            "energy.center_of_mass_jacobian",
            "first moments of composite bodies",
            refusals=("of_no_mass",),
        ),
    )
    def center_of_mass_jacobian(
        self, q: ArrayLike, *, out: Writable | None = None, **options: Unpack[Weighted]
    ) -> Array:
        """Return the Jacobian of the center of mass, in the base frame.

        Arguments as in ``center_of_mass``.

        Returns:
            Jcom: (B, 3, nv)
        """
        return self._call(Request("center_of_mass_jacobian", (q,), out, options))

    @function(
        "Centroidal momentum matrix: joint velocities to momentum about the center of mass",
        ("Ag",),
        Algorithm(
            "centroidal.centroidal_momentum_matrix",
            "momenta of subtrees for unit velocities",
            refusals=("of_no_mass",),
        ),
    )
    def centroidal_momentum_matrix(
        self, q: ArrayLike, *, out: Writable | None = None, **options: Unpack[Weighted]
    ) -> Array:
        """Return the matrix from joint velocities to the centroidal momentum.

        Args:
            q:       joint positions (B, nq) [rad or m]
            out:     array for the result.
            options: ``params`` as in ``inverse_dynamics``, and ``backend``.

        Returns:
            Ag: (B, 6, nv), linear rows first, about the center of mass in the axes of the base.
        """
        return self._call(Request("centroidal_momentum_matrix", (q,), out, options))

    @function(
        "Centroidal momentum of a robot whose base is at rest",
        ("hg",),
        Algorithm(
            "centroidal.centroidal_momentum",
            "momenta of the bodies, carried to the base",
            refusals=("of_no_mass",),
        ),
    )
    def centroidal_momentum(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        *,
        out: Writable | None = None,
        **options: Unpack[Weighted],
    ) -> Array:
        """Return the momentum about the center of mass, on a base at rest.

        Args:
            q:       joint positions   (B, nq)  [rad or m]
            qd:      joint velocities  (B, nv)  [rad/s or m/s]
            out:     array for the result.
            options: ``params`` as in ``inverse_dynamics``, and ``backend``.

        Returns:
            hg: (B, 6), linear part first, in the axes of the base [kg m/s, kg m^2/s]
        """
        return self._call(Request("centroidal_momentum", (q, qd), out, options))

    @function(
        "Kinetic energy of a robot whose base is at rest",
        ("energy",),
        Algorithm("energy.kinetic_energy", "sum over the bodies"),
    )
    def kinetic_energy(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        *,
        out: Writable | None = None,
        **options: Unpack[Inertial],
    ) -> Array:
        """Return the kinetic energy on a base at rest.

        Arguments as in ``center_of_mass``, with the joint velocities ``qd`` (B, nv);
        ``armature`` as in ``inverse_dynamics``.

        Returns:
            energy: (B,) [J]
        """
        return self._call(Request("kinetic_energy", (q, qd), out, options))

    @function(
        "Potential energy, zero for a center of mass at the base origin",
        ("energy",),
        Algorithm("energy.potential_energy", "first moments of composite bodies"),
    )
    def potential_energy(
        self, q: ArrayLike, *, out: Writable | None = None, **options: Unpack[Heavy]
    ) -> Array:
        """Return the potential energy, zero for a center of mass at the base.

        Arguments as in ``center_of_mass``, with ``gravity`` as in ``inverse_dynamics``.

        Returns:
            energy: (B,) [J]
        """
        return self._call(Request("potential_energy", (q,), out, options))
