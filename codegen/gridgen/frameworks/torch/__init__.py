"""Calls that PyTorch differentiates, maps over axes, traces or compiles.

They become operators of PyTorch, as which it has their derivatives.
"""
