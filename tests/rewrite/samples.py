"""Random operands, and the names of kernels."""

from __future__ import annotations

import numpy as np

import tenxor as tx
from tenxor.runtime.planner import preview_kernels


def drawn(*shape: int, seed: int = 0) -> tx.Tensor:
    """Return normally distributed float32 values."""
    return tx.asarray(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def kernels(*tensors: tx.Tensor) -> list[str]:
    """Return the names of the kernels that compute some tensors together."""
    return [kernel.name for _, kernel in preview_kernels([t.storage.node for t in tensors]) if kernel is not None]
