"""Configurations of a robot; declared as in ``gridgen.functions.dynamics``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridgen.functions.calls import Calls
from gridgen.functions.record import Algorithm, function
from gridgen.functions.types import Array, ArrayLike, Options, Unpack, Writable

if TYPE_CHECKING:
    import numpy as np


class Configurations(Calls):
    """Steps between configurations, and configurations to begin with."""

    @function(
        "Configuration reached with given velocities in unit time",
        ("q1",),
        Algorithm("configurations.integrate", "exponential map of each joint"),
        spreads=True,
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
        return self._call("integrate", (q, v), out, options)

    @function(results=("v",))
    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """Return the velocities that lead from ``q0`` to ``q1`` in unit time.

        Computed as in ``integrate``, with the same errors; the result is like ``q0``.
        """
        return self._call_on_host("difference", {"q0": q0, "q1": q1})

    @function()
    def neutral(self) -> Array:
        """Return the configuration (nq,) of joints at zero and free joints at the identity.

        A NumPy array of float64, as that of ``random_configuration``.
        """
        return self._call_on_host("neutral", {})

    @function()
    def random_configuration(self, rng: np.random.Generator, n: int) -> Array:
        """Return ``n`` random configurations (n, nq) within the limits.

        Raises:
            OptionError: ``rng`` is no generator, or ``n`` no count.
        """
        return self._call_on_host("random_configuration", {}, rng, n)
