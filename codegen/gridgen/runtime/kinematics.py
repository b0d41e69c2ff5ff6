"""A robot's frames, energies and configuration space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import partial

import numpy as np

from gridgen.errors import ModelError, OptionError
from gridgen.kernel import KernelKey
from gridgen.naming import show, show_value, similar
from gridgen.runtime import lie
from gridgen.runtime.arrays import on_host
from gridgen.runtime.description import Module
from gridgen.runtime.evaluation import Evaluator, check_choice
from gridgen.runtime.types import Array, ArrayLike, BackendChoice, Reference, Writable

REFERENCES = ("local", "world", "local_world_aligned")


class Kinematics:
    """The functions of a robot that know no forces; arrays as in ``Robot``."""

    def __init__(self, module: Module, backend: BackendChoice) -> None:
        self._description = module.description
        self._evaluator = Evaluator(module, backend)

    # -- frames -------------------------------------------------------------------------------

    def forward_kinematics(
        self,
        q: ArrayLike,
        frames: Sequence[str] | None = None,
        *,
        backend: BackendChoice | None = None,
        out: Writable | None = None,
    ) -> Array:
        """Return the poses of links in the base frame.

        Args:
            q:       joint positions (B, nq) [rad or m]
            frames:  names of links, merged ones included; by default all of ``frame_names``. All
                     are computed, and take memory, before those asked for are copied.
            backend: overrides the robot's.
            out:     array for the result, with all frames.

        Returns:
            poses: (B, n_frames, 4, 4) homogeneous, x_base = pose x_link [1 and m]

        Raises:
            OptionError: a frame is unknown; the nearest are named.
        """
        chosen = None if frames is None else self._frame_indices(frames)
        poses = self._evaluator.evaluate("forward_kinematics", {"q": q}, backend, out)
        return poses if chosen is None else poses[..., chosen, :, :]

    def jacobian(
        self,
        q: ArrayLike,
        frame: str,
        reference: Reference = "local",
        *,
        backend: BackendChoice | None = None,
        out: Writable | None = None,
    ) -> Array:
        """Return the Jacobian of a link: its twist (v, w) is J qd.

        Args:
            q:         joint positions (B, nq) [rad or m]
            frame:     name of a link, merged ones included.
            reference: where the twist is seen from: ``local`` (the link's frame), ``world`` (the
                       base frame, with the velocity of the point at its origin) or
                       ``local_world_aligned`` (the link's origin, axes of the base).
            backend:   overrides the robot's.
            out:       array for the result.

        Returns:
            J: (B, 6, nv)

        Raises:
            OptionError: the frame is unknown; the nearest are named.
            ModelError:  the module was generated without the frame.
        """
        function = self._frame_function("jacobian", frame, reference)
        return self._evaluator.evaluate(function, {"q": q}, backend, out)

    def jacobian_dot_qd(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        frame: str,
        reference: Reference = "local",
        *,
        backend: BackendChoice | None = None,
        out: Writable | None = None,
    ) -> Array:
        """Return the time derivative of a link's Jacobian times ``qd``.

        Arguments as in ``jacobian``, with the joint velocities ``qd`` (B, nv).

        Returns:
            drift: (B, 6) [m/s^2, rad/s^2]
        """
        function = self._frame_function("jacobian_dot_qd", frame, reference)
        return self._evaluator.evaluate(function, {"q": q, "qd": qd}, backend, out)

    # -- the whole robot ----------------------------------------------------------------------

    def centre_of_mass(
        self, q: ArrayLike, *, backend: BackendChoice | None = None, out: Writable | None = None
    ) -> Array:
        """Return the centre of mass in the base frame, (B, 3) [m]."""
        return self._evaluator.evaluate("centre_of_mass", {"q": q}, backend, out)

    def centre_of_mass_jacobian(
        self, q: ArrayLike, *, backend: BackendChoice | None = None, out: Writable | None = None
    ) -> Array:
        """Return the Jacobian of the centre of mass, (B, 3, nv)."""
        return self._evaluator.evaluate("centre_of_mass_jacobian", {"q": q}, backend, out)

    def kinetic_energy(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        *,
        backend: BackendChoice | None = None,
        out: Writable | None = None,
    ) -> Array:
        """Return the kinetic energy on a base at rest, (B,) [J]."""
        return self._evaluator.evaluate("kinetic_energy", {"q": q, "qd": qd}, backend, out)

    def potential_energy(
        self,
        q: ArrayLike,
        *,
        gravity: ArrayLike | None = None,
        backend: BackendChoice | None = None,
        out: Writable | None = None,
    ) -> Array:
        """Return the potential energy, zero for a centre of mass at the base, (B,) [J]."""
        inputs = {"q": q, "gravity": gravity}
        return self._evaluator.evaluate("potential_energy", inputs, backend, out)

    # -- configurations -----------------------------------------------------------------------

    def integrate(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Return the configurations reached from ``q`` (B, nq) with ``v`` (B, nv) in unit time.

        Computed on the CPU in float64; the result has the type, library and device of ``q``.

        Raises:
            QuaternionError: a quaternion's norm is off by more than 1e-3.
            ShapeError, DtypeError, DeviceError: an argument does not fit.
        """
        return on_host(partial(lie.integrate, self._description.space), q=q, v=v)

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """Return the velocities (B, nv) that lead from ``q0`` to ``q1`` in unit time.

        Computed as in ``integrate``, with the same errors; the result is like ``q0``.
        """
        return on_host(partial(lie.difference, self._description.space), q0=q0, q1=q1)

    def neutral(self) -> Array:
        """Return the configuration (nq,) of joints at zero and free joints at the identity.

        A NumPy array of float64, as that of ``random_configuration``.
        """
        return lie.neutral(self._description.space)

    def random_configuration(self, rng: np.random.Generator, n: int) -> Array:
        """Return ``n`` random configurations (n, nq) within the limits.

        Raises:
            OptionError: ``rng`` is no generator, or ``n`` no count.
        """
        if not isinstance(rng, np.random.Generator):
            raise OptionError(
                f"rng is of type {type(rng).__name__}; give a generator: "
                "numpy.random.default_rng(seed)"
            )
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 0:
            raise OptionError(
                f"n is {show_value(n)}; give the number of configurations, an integer >= 0"
            )
        return lie.random_configuration(self._description.space, rng, n)

    # -- names --------------------------------------------------------------------------------

    def _frame_indices(self, frames: Sequence[str]) -> list[int]:
        if isinstance(frames, (str, bytes, Set)) or not isinstance(frames, Iterable):
            raise OptionError(f"frames is {show_value(frames)}; give a list of the names of links")
        return [self._frame_index(name) for name in frames]

    def _frame_index(self, name: str) -> int:
        names = self._description.frame_names
        if not isinstance(name, str):
            raise OptionError(
                f"frame is {show_value(name)}; give the name of one link (all: frame_names)"
            )
        if name not in names:
            near = ", ".join(map(show, similar(name, names) or names[:3]))
            raise OptionError(
                f"{show(self._description.name)} has no frame {show(name)}; the nearest are {near} "
                "(all: frame_names)"
            )
        return names.index(name)

    def _frame_function(self, what: str, frame: str, reference: str) -> str:
        check_choice("reference", reference, REFERENCES)
        ident = self._description.frame_idents[self._frame_index(frame)]
        function = KernelKey(what, frame=ident, reference=reference).name
        if function not in self._description.functions:
            raise ModelError(
                f'{self._description.name}: the module was generated without {what} of "{frame}": '
                "run grid-gen again with --frame, or use gridgen.load()"
            )
        return function
