"""Predicted kernel times on GPUs and CPUs, from counts and published figures."""
