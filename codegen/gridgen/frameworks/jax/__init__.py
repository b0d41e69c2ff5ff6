"""JAX: functions of a robot under ``jit``, ``vmap``, ``grad`` and their like.

Arrays that JAX holds are read in place, as any library's. What it traces becomes a primitive
(``primitive.py``), which XLA calls as compiled code through its foreign-function interface: on a
CPU (``cpu.py``) what NumPy arrays are given to as well. Its derivatives are the kernels of products
(``operations.py``).
"""

from __future__ import annotations

import re

import jax

from gridgen.errors import DeviceError

#: The oldest release whose transformations take part.
OLDEST = (0, 6)

if tuple(map(int, re.findall(r"\d+", jax.__version__)[:2])) < OLDEST:
    raise DeviceError(
        f"jax {jax.__version__} is too old for its transformations to call grid-gen; install a "
        f"newer one: pip install 'jax>={'.'.join(map(str, OLDEST))}'"
    )
