"""NVIDIA GPUs: compile kernels with NVRTC, load and launch them with CuPy."""
