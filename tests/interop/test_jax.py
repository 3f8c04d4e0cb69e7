"""Memory shared with JAX, both ways. JAX is an extra: `pip install '.[interop]'`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx

jax: Any = pytest.importorskip("jax", reason="JAX is not installed: pip install '.[interop]' to share memory with it")
jnp: Any = pytest.importorskip("jax.numpy")

DTYPES = ["bool", "uint8", "uint32", "int8", "int32", "float16", "bfloat16", "float32", "complex64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_jax_takes_tensor_memory_without_a_copy(dtype: str) -> None:
    t = tx.asarray([[1, 0, 1], [0, 1, 1]], dtype=dtype)
    theirs = jnp.from_dlpack(t)
    bits = t if t.dtype is not tx.bfloat16 else t.view(tx.uint16)
    assert theirs.unsafe_buffer_pointer() == np.asarray(bits).ctypes.data
    assert theirs.dtype.name == dtype and theirs.tolist() == t.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensor_takes_jax_memory_without_a_copy_and_never_writes_it(dtype: str) -> None:
    theirs = jnp.asarray([[1, 0, 1], [0, 1, 1]], dtype)
    t = tx.from_dlpack(theirs)
    bits = t if t.dtype is not tx.bfloat16 else t.view(tx.uint16)
    assert np.asarray(bits).ctypes.data == theirs.unsafe_buffer_pointer()
    t[...] = 0
    assert not t.any() and theirs.tolist() == [[1, 0, 1], [0, 1, 1]]


def test_jax_accepts_every_view() -> None:
    """For views with gaps along an axis, such as `t[:, 1:]`, `jnp.from_dlpack` raises, and `jnp.asarray` copies."""
    t = tx.arange(6, dtype=tx.float32).reshape(2, 3)
    for view in (t.T, t[::-1], t[1:], t.expand((2, 2, 3)), t.T.reshape(6), t[1, 2, ...], t[2:]):
        assert jnp.from_dlpack(view).tolist() == view.tolist()
    for taken in (jnp.asarray(t[:, 1:]), jnp.asarray(t[:, 1:].astype(tx.bfloat16))):
        assert taken.tolist() == t[:, 1:].tolist()
    assert tx.asarray(jnp.ones(3, jnp.bfloat16)).dtype is tx.bfloat16
