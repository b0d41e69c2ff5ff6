"""Commands: `grid-gen`, `grid-gen tune` and `grid-gen cache`."""
