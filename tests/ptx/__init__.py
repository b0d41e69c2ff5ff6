"""PTX on this machine: what NVRTC makes of a kernel, translated to C++ and run on host fibers.

``parser`` reads the text, ``instructions`` says what each instruction computes, ``translator``
writes C++ that calls ``ptx_thread.h``, ``library`` compiles that with the runtime of the emulated
backend and launches kernels, ``backend`` puts all of it in the place of a GPU.
"""
