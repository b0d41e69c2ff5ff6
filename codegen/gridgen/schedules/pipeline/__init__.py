"""A block for each trajectory, some of its warps for each chain of Newton-Euler."""
