"""Rigid-body dynamics, each algorithm once, over any scalar."""
