"""CUDA kernels on the host, each CUDA thread a fiber."""
