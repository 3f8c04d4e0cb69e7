"""Memory shared with PyTorch, both ways. PyTorch is an extra: `pip install '.[interop]'`."""

from __future__ import annotations

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import DTypeError

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[interop]' to share memory with it")

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_is_shared_both_ways(dtype: str) -> None:
    t = tx.asarray([[1, 0, 1], [0, 1, 1]], dtype=dtype)
    theirs = torch.from_dlpack(t.T)
    assert str(theirs.dtype) == f"torch.{dtype}" and theirs.shape == (3, 2)
    theirs[0, 1] = 1
    assert t[1, 0].item() == 1
    t[...] = 0
    assert not theirs.any()
    back = tx.from_dlpack(torch.ones((2, 3), dtype=theirs.dtype).T)
    assert (back.dtype, back.shape, back.tolist()) == (t.dtype, (3, 2), [[1, 1]] * 3)


def test_memory_lives_as_long_as_either_side() -> None:
    theirs = torch.from_dlpack(tx.arange(100_000) * 2)
    ours = tx.from_dlpack(torch.arange(100_000) * 3)
    assert int(theirs.sum()) * 3 == ours.sum().item() * 2


def test_views_that_it_would_not_survive_are_copied() -> None:
    t = tx.arange(6).reshape(2, 3)
    for view in (t[::-1], t.T.reshape(6), t.oindex[[1, 0, 0]]):
        assert torch.from_dlpack(view).tolist() == view.tolist()
        with pytest.raises(BufferError, match="cannot be shared"):
            torch.from_dlpack(view, copy=False)
    own = torch.from_dlpack(t, copy=True)
    own[0, 0] = 9
    assert t[0, 0].item() == 0


def test_its_tensors_are_taken_for_values() -> None:
    assert tx.asarray(torch.tensor([1.5, 2.5], dtype=torch.bfloat16)).dtype is tx.bfloat16
    assert tx.asarray(torch.arange(3)).tolist() == [0, 1, 2]
    assert torch.as_tensor(tx.arange(3)).tolist() == torch.tensor(tx.arange(3)).tolist() == [0, 1, 2]
    for refused in (torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.complex64).conj(), torch.eye(2).to_sparse()):
        with pytest.raises(DTypeError, match="Tensor of torch"):
            tx.asarray(refused)
    with pytest.raises(DTypeError, match="meta"):
        tx.from_dlpack(torch.ones(2, device="meta"))


def test_numbers_agree() -> None:
    x = np.linspace(-3, 3, 101)
    np.testing.assert_allclose(np.asarray(tx.softmax(tx.asarray(x), axis=0)), torch.softmax(torch.from_numpy(x), 0), rtol=1e-14)
