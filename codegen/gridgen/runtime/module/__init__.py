"""Modules: their files, descriptions and kernels."""
