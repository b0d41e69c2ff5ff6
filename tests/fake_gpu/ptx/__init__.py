"""PTX on this machine: what NVRTC makes of a kernel, translated to C++ and run on host fibers.

``parser`` reads the text; ``instructions`` says what each instruction computes, ``statements`` what
else one does, ``operands`` how what it names is read and written; ``translator`` writes C++ that
calls ``ptx_thread.h``; ``executable`` compiles that with the runtime of the emulated backend and
launches kernels; ``backend`` puts all of it in the place of a GPU.

Known is what NVRTC uses for our kernels, and what is near. No kernel needs approximate functions,
denormals taken for zero, votes of a part of a block, indirect calls or asynchronous copies: each of
these is refused by name and line.
"""
