"""One block per trajectory, with separate warps for each chain of Newton-Euler."""
