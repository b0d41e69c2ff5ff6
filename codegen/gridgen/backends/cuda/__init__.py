"""NVIDIA GPUs: kernels from NVRTC, loaded and launched by CuPy."""
