"""Rollouts: one thread integrates a state over all time steps, forward and backward."""
