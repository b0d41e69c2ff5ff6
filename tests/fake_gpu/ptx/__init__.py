"""Translator of PTX to C++, which runs on fibers of the host.

- ``parser`` reads the text.
- ``instructions`` defines arithmetic instructions, ``statements`` all others, ``operands`` their
  operands.
- ``translator`` writes C++ that calls ``ptx_thread.h``.
- ``executable`` compiles it with the runtime of the emulated backend and launches kernels.
- ``backend`` replaces a GPU backend.

It supports the instructions that NVRTC generates for the kernels of grid-gen, and similar ones. It
rejects others with name and line: approximate functions, flushing of denormals, votes of parts of a
block, indirect calls and asynchronous copies.
"""
