"""JAX: functions of a robot under ``jit``, ``vmap``, ``grad`` and their like.

Arrays that JAX holds are read in place, as any library's. What it traces becomes a primitive
(``primitive.py``), which XLA calls as compiled code through its foreign-function interface: on a
CPU (``cpu.py``) what NumPy arrays are given to as well. Its derivatives are the kernels of products
(``operations.py``).
"""
