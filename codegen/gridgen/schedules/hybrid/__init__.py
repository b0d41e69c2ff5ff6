"""Articulated inertias on the CPU, bias forces and the rest on the GPU."""
