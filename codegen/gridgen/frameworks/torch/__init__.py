"""Calls that PyTorch differentiates, maps over axes, traces or compiles.

They become PyTorch operators with derivatives.
"""

from __future__ import annotations

import torch

from gridgen.errors import DeviceError

if not hasattr(torch.library, "register_vmap"):
    raise DeviceError(
        f"torch {torch.__version__} is too old to differentiate, map or compile grid-gen's "
        "functions: pip install 'torch>=2.5', or give tensors that require no gradient, with one "
        "axis for the batch"
    )
