"""Proofs about the PTX of kernels, for every batch, stride, block and thread.

- ``terms`` represents integers as polynomials over the unknowns of a launch, and asks Z3.
- ``graph`` orders the instructions of a function in basic blocks, with dominators and loops.
- ``execution`` runs a kernel on these terms, all paths at once, and records its memory accesses.
- ``bounds`` shows that each access is inside an array, ``races`` that two threads never collide.
- ``machine_code`` compares what machine code stores with what PTX says: ``machine`` and ``thread``
  execute one thread of each on ``values``, which are bits and expressions of the inputs.
"""
