"""Calls of rollouts, whose arrays have an axis of time."""
