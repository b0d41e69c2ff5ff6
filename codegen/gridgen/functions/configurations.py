"""Configurations of a robot; declared as in ``gridgen.functions.dynamics``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridgen.functions.calls import Calls, Request
from gridgen.functions.record import Algorithm, function
from gridgen.functions.types import Array, ArrayLike, NumberLike, Options, Unpack, Writable

if TYPE_CHECKING:
    import numpy as np
    import torch


class Configurations(Calls):
    """Steps between configurations, and configurations to begin with."""

    @function(
        "Integration: the configuration after unit time with constant velocities",
        ("q1",),
        Algorithm("configurations.integrate", "exponential map of each joint"),
    )
    def integrate(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        out: Writable | None = None,
        **options: Unpack[Options],
    ) -> Array:
        """Return the configurations reached from ``q`` with ``v`` in unit time.

        Args:
            q:       joint positions                     (B, nq)  [rad or m]
            v:       joint velocities times a time step  (B, nv)  [rad or m]
            out:     array for the result.
            options: ``backend``.

        Returns:
            q1: (B, nq), quaternions on the half of the sphere where they start

        Raises:
            QuaternionError: a quaternion's norm is off by more than 1e-3.
            ShapeError, DtypeError, DeviceError: an argument does not fit.
        """
        return self._call(Request("integrate", (q, v), out, options))

    @function(
        "Derivatives of integrate with respect to q and v, in tangent spaces",
        ("dq1_dq", "dq1_dv"),
        Algorithm(
            "configurations.integrate_gradient", "derivatives of the exponential map of each joint"
        ),
    )
    def integrate_gradient(
        self,
        q: ArrayLike,
        v: ArrayLike,
        *,
        out: tuple[Writable, Writable] | None = None,
        **options: Unpack[Options],
    ) -> tuple[Array, Array]:
        """Return the derivatives of ``integrate`` by ``q`` and ``v``, in tangent spaces.

        If ``q`` moves on to ``integrate(q, x)``, with a small x, ``integrate(q, v)`` moves by
        dq1_dq x; if ``v`` changes by x, by dq1_dv x. As Pinocchio's ``dIntegrate``.

        Arguments as in ``integrate``, with a tuple ``out``.

        Returns:
            dq1_dq: (B, nv, nv)
            dq1_dv: (B, nv, nv)
        """
        found: tuple[Array, Array] = self._call(Request("integrate_gradient", (q, v), out, options))
        return found

    @function(
        "Difference: velocities from one configuration to another in unit time",
        ("v",),
        Algorithm("configurations.difference", "logarithm of each joint's motion"),
    )
    def difference(
        self,
        q0: ArrayLike,
        q1: ArrayLike,
        *,
        out: Writable | None = None,
        **options: Unpack[Options],
    ) -> Array:
        """Return the velocities that lead from ``q0`` to ``q1`` in unit time.

        Free joints turn by at most pi; ``integrate(q0, v)`` is ``q1`` but for the sign of
        quaternions.

        Args:
            q0:      joint positions at the beginning  (B, nq)  [rad or m]
            q1:      joint positions at the end        (B, nq)  [rad or m]
            out:     array for the result.
            options: ``backend``.

        Returns:
            v: (B, nv) [rad or m]

        Raises:
            as ``integrate``.
        """
        return self._call(Request("difference", (q0, q1), out, options))

    @function(
        "Derivatives of difference with respect to q0 and q1, in tangent spaces",
        ("dv_dq0", "dv_dq1"),
        Algorithm(
            "configurations.difference_gradient", "derivatives of the logarithm of each motion"
        ),
    )
    def difference_gradient(
        self,
        q0: ArrayLike,
        q1: ArrayLike,
        *,
        out: tuple[Writable, Writable] | None = None,
        **options: Unpack[Options],
    ) -> tuple[Array, Array]:
        """Return the derivatives of ``difference`` by ``q0`` and ``q1``, in tangent spaces.

        As in ``integrate_gradient``; as Pinocchio's ``dDifference``. Where a free joint turns by pi
        they do not exist.

        Arguments as in ``difference``, with a tuple ``out``.

        Returns:
            dv_dq0: (B, nv, nv)
            dv_dq1: (B, nv, nv)
        """
        found: tuple[Array, Array] = self._call(
            Request("difference_gradient", (q0, q1), out, options)
        )
        return found

    @function(
        "Interpolation between configurations",
        ("q",),
        Algorithm("configurations.interpolate", "exponential map of a part of the logarithm"),
    )
    def interpolate(
        self,
        q0: ArrayLike,
        q1: ArrayLike,
        u: NumberLike,
        *,
        out: Writable | None = None,
        **options: Unpack[Options],
    ) -> Array:
        """Return the configurations on the way from ``q0`` (u = 0) to ``q1`` (u = 1).

        Each joint moves with a constant velocity; beyond 0 and 1 it moves on. Arguments as in
        ``difference``, with ``u``, a number or (B,).

        Returns:
            q: (B, nq)
        """
        return self._call(Request("interpolate", (q0, q1, u), out, options))

    @function(
        "Distance between configurations",
        ("length",),
        Algorithm("configurations.distance", "length of the velocities between them"),
    )
    def distance(
        self,
        q0: ArrayLike,
        q1: ArrayLike,
        *,
        out: Writable | None = None,
        **options: Unpack[Options],
    ) -> Array:
        """Return the length of ``difference(q0, q1)``; radians and meters count alike.

        Arguments as in ``difference``.

        Returns:
            length: (B,)
        """
        return self._call(Request("distance", (q0, q1), out, options))

    @function()
    def neutral(self, *, like: Array | None = None) -> Array:
        """Return the configuration (nq,) of joints at zero and free joints at the identity.

        Args:
            like: an array whose type, library and device the result shall have; by default a NumPy
                  array of float64.
        """
        return self._configuration("neutral", like)

    @function()
    def random_configuration(
        self, rng: np.random.Generator | torch.Generator, n: int, *, like: Array | None = None
    ) -> Array:
        """Return ``n`` random configurations (n, nq) within the limits.

        Args:
            rng:  the source of randomness; those of PyTorch may be on any device.
            n:    how many.
            like: as in ``neutral``.

        Raises:
            OptionError: ``rng`` is no generator, or ``n`` no count.
        """
        return self._configuration("random_configuration", like, rng, n)
