"""Distances between links and to obstacles; declared as in ``gridgen.functions.dynamics``."""

from __future__ import annotations

from typing import Any

from gridgen.functions.calls import Calls, Request
from gridgen.functions.record import Algorithm, function
from gridgen.functions.types import Array, ArrayLike, NumberLike, Options, Results, Unpack, Writable
from gridgen.functions.worlds import as_world

_SEARCH = "search of all pairs with a broad phase of spheres around links"

_SOFT = "search of the pairs whose terms count"


class Collisions(Calls):
    """Distances and collisions."""

    @function(
        "Smallest signed distance between links that may touch",
        ("clearance", "pair"),
        Algorithm("collision.self_distance", _SEARCH, refusals=("of_no_pairs",), in_loops=False),
        is_default=False,
    )
    def self_distance(
        self,
        q: ArrayLike,
        *,
        out: tuple[Writable, Writable] | None = None,
        **options: Unpack[Options],
    ) -> Results:
        """Return the smallest signed distance between links of the robot, and the pair.

        The distance is that of the links' spheres, negative where they overlap. Its derivative is
        that of the nearest pair.

        Args:
            q:       joint positions (B, nq) [rad or m]
            out:     arrays for the results.

        Returns:
            clearance: (B,) [m]
            pair:      index in ``self_collision_pairs``, as a number (B,)

        Raises:
            ModelError: the robot was loaded without spheres, or no pair of links may touch.
        """
        results: Results = self._call(Request("self_distance", (q,), out, options))
        return results

    @function(
        "Smallest signed distance of moving links to obstacles",
        ("clearance", "sphere"),
        Algorithm("collision.world_distance", _SEARCH, refusals=("of_no_spheres",), in_loops=False),
        is_default=False,
    )
    def world_distance(
        self,
        q: ArrayLike,
        world: Any,
        *,
        out: tuple[Writable, Writable] | None = None,
        **options: Unpack[Options],
    ) -> Results:
        """Return the smallest signed distance of the moving links to obstacles, and the sphere.

        Args:
            q:       joint positions (B, nq) [rad or m]
            world:   obstacles: a result of ``gridgen.world``, (n,) or (B, n), or a dictionary of
                     its arguments.
            out:     arrays for the results.

        Returns:
            clearance: (B,) [m]; 1e9 in a world without obstacles.
            sphere:    index in ``sphere_links``, as a number (B,)

        Raises:
            ModelError:  the robot was loaded without spheres.
            OptionError: obstacles have another shape.
        """
        arrays = (q, as_world(world, q))
        results: Results = self._call(Request("world_distance", arrays, out, options))
        return results

    @function(
        "Soft minimum of the distances between links that may touch",
        ("clearance",),
        Algorithm("collision.soft_self_distance", _SOFT, refusals=("of_no_pairs",), in_loops=False),
        is_default=False,
    )
    def soft_self_distance(
        self,
        q: ArrayLike,
        temperature: NumberLike = 0.01,
        *,
        out: Writable | None = None,
        **options: Unpack[Options],
    ) -> Array:
        """Return the soft minimum of the distances between links, which has a smooth gradient.

        It is -t log sum exp(-d / t) of the distances d of the n pairs of spheres: by 0 to t log n
        less than ``self_distance``. The temperature t has no derivative.

        Args:
            q:           joint positions (B, nq) [rad or m]
            temperature: softness (B,), or one number [m], positive and finite.
            out:         array for the result.

        Returns:
            clearance: (B,) [m]

        Raises:
            ModelError:  the robot was loaded without spheres, or no pair of links may touch.
            OptionError: the temperature is not positive and finite.
        """
        return self._call(Request("soft_self_distance", (q, temperature), out, options))

    @function(
        "Soft minimum of the distances of moving links to obstacles",
        ("clearance",),
        Algorithm(
            "collision.soft_world_distance", _SOFT, refusals=("of_no_spheres",), in_loops=False
        ),
        is_default=False,
    )
    def soft_world_distance(
        self,
        q: ArrayLike,
        world: Any,
        temperature: NumberLike = 0.01,
        *,
        out: Writable | None = None,
        **options: Unpack[Options],
    ) -> Array:
        """Return the soft minimum of the distances of the moving links to obstacles.

        It is that of ``soft_self_distance``, of the distances of each sphere to each obstacle.

        Args:
            q:           joint positions (B, nq) [rad or m]
            world:       obstacles: a result of ``gridgen.world``, (n,) or (B, n), or a dictionary
                         of its arguments.
            temperature: softness (B,), or one number [m], positive and finite.
            out:         array for the result.

        Returns:
            clearance: (B,) [m]; 1e9 in a world without obstacles.

        Raises:
            ModelError:  the robot was loaded without spheres.
            OptionError: obstacles have another shape, or the temperature is not positive and
                         finite.
        """
        arrays = (q, as_world(world, q), temperature)
        return self._call(Request("soft_world_distance", arrays, out, options))

    @function(
        "Whether all links are apart from each other and from obstacles",
        ("free",),
        Algorithm("collision.collision_free", _SEARCH, refusals=("of_no_spheres",), in_loops=False),
        is_default=False,
    )
    def collision_free(
        self,
        q: ArrayLike,
        world: Any = None,
        margin: NumberLike = 0.0,
        *,
        out: Writable | None = None,
        **options: Unpack[Options],
    ) -> Array:
        """Return whether links that may touch, and obstacles, are at least a margin apart.

        The search ends where all states of a thread or a SIMD pack collide. A path is free if its
        configurations are, (B, T, nq) -> (B, T).

        Args:
            q:       joint positions (B, nq) [rad or m]
            world:   obstacles: a result of ``gridgen.world``, (n,) or (B, n), or a dictionary of
                     its arguments; by default none.
            margin:  least distance (B,), or one number [m].
            out:     array for the result, which then consists of numbers of the type of ``q``, 1 or
                     0, as those of bound calls and of C++.

        Returns:
            free: (B,) bool, whether nothing is nearer than the margin.

        Raises:
            ModelError:  the robot was loaded without spheres.
            OptionError: obstacles have another shape.
        """
        arrays = (q, as_world(world, q), margin)
        return self._tested(Request("collision_free", arrays, out, options))
