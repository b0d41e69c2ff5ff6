"""Functions of configurations; declared as in ``gridgen.functions.dynamics``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridgen.functions.calls import Calls, Request
from gridgen.functions.record import Algorithm, function
from gridgen.functions.types import Array, ArrayLike, NumberLike, Options, Results, Unpack, Writable

if TYPE_CHECKING:
    import numpy as np
    import torch


class Configurations(Calls):
    """Integration and difference of configurations, neutral and random configurations."""

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
        """Return the configurations that ``q`` reaches with constant ``v`` in unit time.

        Args:
            q:       joint positions                     (B, nq)  [rad or m]
            v:       joint velocities times a time step  (B, nv)  [rad or m]
            options: ``backend``.

        Returns:
            q1: (B, nq) [rad or m]; quaternions stay on the hemisphere of those of ``q``

        Raises:
            QuaternionError: the norm of a quaternion differs from 1 by more than 1e-3.
            ShapeError, DtypeError, DeviceError: an argument is invalid.
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
    ) -> Results:
        """Return the derivatives of ``integrate`` with respect to ``q`` and ``v``.

        They are in tangent spaces: to first order in x, replacing ``q`` with ``integrate(q, x)``
        moves the result by dq1_dq x; replacing ``v`` with ``v + x`` moves it by dq1_dv x. Equal to
        Pinocchio's ``dIntegrate``.

        Returns:
            dq1_dq: (B, nv, nv)
            dq1_dv: (B, nv, nv)
        """
        found: Results = self._call(Request("integrate_gradient", (q, v), out, options))
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
        """Return the constant velocities that lead from ``q0`` to ``q1`` in unit time.

        Free joints turn by at most pi. ``integrate(q0, v)`` equals ``q1``, except possibly for the
        sign of quaternions.

        Args:
            q0:      initial joint positions  (B, nq)  [rad or m]
            q1:      final joint positions    (B, nq)  [rad or m]
            options: ``backend``.

        Returns:
            v: (B, nv) [rad or m]

        Raises:
            the errors of ``integrate``.
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
    ) -> Results:
        """Return the derivatives of ``difference`` with respect to ``q0`` and ``q1``.

        The tangent spaces are those of ``integrate_gradient``. Equal to Pinocchio's
        ``dDifference``. Undefined where a free joint turns by pi.

        Returns:
            dv_dq0: (B, nv, nv)
            dv_dq1: (B, nv, nv)
        """
        found: Results = self._call(Request("difference_gradient", (q0, q1), out, options))
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
        """Return the configurations between ``q0`` (u = 0) and ``q1`` (u = 1).

        Each joint moves with a constant velocity; values of ``u`` outside [0, 1] extrapolate.

        Returns:
            q: (B, nq) [rad or m]
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
        """Return the Euclidean norm of ``difference(q0, q1)``.

        Returns:
            length: (B,); mixes radians and meters where the robot has both
        """
        return self._call(Request("distance", (q0, q1), out, options))

    @function()
    def neutral(self, *, like: Array | None = None) -> Array:
        """Return the neutral configuration (nq,): joints at zero, free joints at the identity.

        Args:
            like: array whose type, library and device the result has. Default: a NumPy array of
                  float64.
        """
        return self._configuration("neutral", like)

    @function()
    def random_configuration(
        self,
        rng: np.random.Generator | torch.Generator,
        n: int | None = None,
        *,
        like: Array | None = None,
    ) -> Array:
        """Return random configurations (n, nq), or one (nq,), within the position limits.

        Args:
            rng:  random generator of NumPy, or of PyTorch on any device.
            n:    number of configurations; None for one without a batch axis.
            like: array whose type, library and device the result has.

        Raises:
            OptionError: ``rng`` is not a generator, or ``n`` is not a count.
        """
        return self._configuration("random_configuration", like, rng, n)
