"""Commands: `grid-gen`, `grid-gen tune`, `grid-gen spheres` and `grid-gen cache`."""
