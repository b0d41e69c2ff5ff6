"""Calls: resolution of kernels, launches, bound calls, derivative products."""
