"""The commands that users run: `grid-gen`, `grid-gen tune`, `grid-gen cache`."""
