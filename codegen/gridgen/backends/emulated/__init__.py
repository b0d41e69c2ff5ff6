"""CUDA kernels on the host, with a fiber for each CUDA thread."""
