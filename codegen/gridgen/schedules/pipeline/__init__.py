"""Inverse dynamics along trajectories as a pipeline of two chains."""
