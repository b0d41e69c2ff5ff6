"""JAX: functions of a robot under ``jit``, ``vmap``, ``grad`` and similar transformations.

Concrete JAX arrays are used without a copy, as those of any library. A traced call becomes a
primitive (``primitive.py``), which XLA calls as compiled code through its foreign-function
interface. On a CPU (``cpu.py``) this is the code for NumPy arrays. Kernels of VJPs and JVPs compute
its derivatives (``operations.py``).
"""

from __future__ import annotations

import re

import jax

from gridgen.errors import DeviceError

#: The oldest supported release for transformations.
OLDEST = (0, 6)

if tuple(map(int, re.findall(r"\d+", jax.__version__)[:2])) < OLDEST:
    raise DeviceError(
        f"jax {jax.__version__} is too old for its transformations to call grid-gen; install a "
        f"newer one: pip install 'jax>={'.'.join(map(str, OLDEST))}'"
    )
