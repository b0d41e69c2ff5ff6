"""Trajectory optimization: costs along trajectories, and iterative LQR."""
