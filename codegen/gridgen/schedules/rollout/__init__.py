"""Trajectories: a thread takes its state from step to step, and back."""
