"""Memory shared with PyTorch, both ways. PyTorch is an extra: `pip install '.[interop]'`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import DTypeError, FileError

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[interop]' to share memory with it")

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_pytorch_and_tensors_share_memory_both_ways(dtype: str) -> None:
    t = tx.asarray([[1, 0, 1], [0, 1, 1]], dtype=dtype)
    theirs = torch.from_dlpack(t.T)
    assert str(theirs.dtype) == f"torch.{dtype}" and theirs.shape == (3, 2)
    theirs[0, 1] = 1
    assert t[1, 0].item() == 1
    t[...] = 0
    assert not theirs.any()
    back = tx.from_dlpack(torch.ones((2, 3), dtype=theirs.dtype).T)
    assert (back.dtype, back.shape, back.tolist()) == (t.dtype, (3, 2), [[1, 1]] * 3)


def test_shared_memory_lives_as_long_as_either_side() -> None:
    theirs = torch.from_dlpack(tx.arange(100_000) * 2)
    ours = tx.from_dlpack(torch.arange(100_000) * 3)
    assert int(theirs.sum()) * 3 == ours.sum().item() * 2


def test_views_that_pytorch_cannot_represent_are_copied() -> None:
    t = tx.arange(6).reshape(2, 3)
    for view in (t[::-1], t.T.reshape(6), t.oindex[[1, 0, 0]]):
        assert torch.from_dlpack(view).tolist() == view.tolist()
        with pytest.raises(BufferError, match="cannot be shared"):
            torch.from_dlpack(view, copy=False)
    own = torch.from_dlpack(t, copy=True)
    own[0, 0] = 9
    assert t[0, 0].item() == 0


def test_pytorch_tensors_are_converted_by_value() -> None:
    assert tx.asarray(torch.tensor([1.5, 2.5], dtype=torch.bfloat16)).dtype is tx.bfloat16
    assert tx.asarray(torch.arange(3)).tolist() == [0, 1, 2]
    assert torch.as_tensor(tx.arange(3)).tolist() == torch.tensor(tx.arange(3)).tolist() == [0, 1, 2]
    for refused in (torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.complex64).conj(), torch.eye(2).to_sparse()):
        with pytest.raises(DTypeError, match="Tensor of torch"):
            tx.asarray(refused)
    with pytest.raises(DTypeError, match="meta"):
        tx.from_dlpack(torch.ones(2, device="meta"))


def test_softmax_matches_pytorch() -> None:
    x = np.linspace(-3, 3, 101)
    np.testing.assert_allclose(np.asarray(tx.softmax(tx.asarray(x), axis=0)), torch.softmax(torch.from_numpy(x), 0), rtol=1e-14)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers_load_pytorch_states_and_match(kind: str) -> None:
    for layers, bidirectional, batch_first in ((1, False, False), (2, True, True)):
        named = {"num_layers": layers, "bidirectional": bidirectional, "batch_first": batch_first}
        theirs = getattr(torch.nn, kind)(3, 4, **named)
        ours = getattr(tx.nn, kind)(3, 4, **named)
        assert ours.load_state_dict(theirs.state_dict()) == ([], [])
        x = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float32)
        (found, ends), (wanted, last) = ours(tx.asarray(x)), theirs(torch.from_numpy(x))
        for a, b in ((found, wanted), *(zip(ends, last, strict=True) if kind == "LSTM" else ((ends, last),))):
            np.testing.assert_allclose(a.to_numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bias", [False, True])
def test_attention_loads_pytorch_states_and_matches(bias: bool) -> None:
    theirs = torch.nn.MultiheadAttention(8, 2, bias=bias, batch_first=True)
    ours = tx.nn.MultiHeadAttention(8, 2, bias=bias)
    assert ours.load_state_dict(theirs.state_dict()) == ([], [])
    x = torch.randn(3, 5, 8)
    expected = theirs(x, x, x, need_weights=False)[0].detach().numpy()
    np.testing.assert_allclose(ours(tx.asarray(x.numpy())).numpy(), expected, rtol=1e-4, atol=1e-6)


def test_model_that_pytorch_saved_as_safetensors_is_loaded(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.torch")
    layers = (torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 4))
    theirs = torch.nn.Sequential(*layers).eval()
    ours = tx.nn.Sequential(tx.nn.Conv2d(1, 2, 3), tx.nn.BatchNorm2d(2), tx.relu, tx.nn.Flatten(), tx.nn.Linear(8, 4)).eval()
    library.save_file(theirs.state_dict(), tmp_path / "model.safetensors")
    assert ours.load(tmp_path / "model.safetensors") == ([], [])
    x = torch.randn(2, 1, 4, 4)
    np.testing.assert_allclose(ours(tx.asarray(x.numpy())).numpy(), theirs(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    ours.save(tmp_path / "back.safetensors")
    assert theirs.load_state_dict(library.load_file(tmp_path / "back.safetensors"), strict=False).unexpected_keys == []


@pytest.mark.parametrize("archived", [False, True])
def test_load_refuses_a_pickle_of_pytorch(archived: bool, tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "x.pt", _use_new_zipfile_serialization=archived)
    with pytest.raises(FileError, match=r"x\.pt' is a pickle"):
        tx.load(tmp_path / "x.pt")


def test_losses_and_scatter_functions_match_pytorch() -> None:
    rng = np.random.default_rng(1)
    x, target, weight = rng.normal(size=(3, 5, 5)), rng.integers(0, 5, (3, 5)), rng.random(5)
    for how in ({}, {"ignore_index": 2, "label_smoothing": 0.1}, {"reduction": "none"}):
        found = tx.nn.functional.cross_entropy(tx.asarray(x), target, tx.asarray(weight), **how)
        wanted = torch.nn.functional.cross_entropy(torch.from_numpy(x), torch.from_numpy(target), torch.from_numpy(weight), **how)
        np.testing.assert_allclose(found.to_numpy(), wanted.numpy(), rtol=1e-12)
    index, src = rng.integers(0, 5, (2, 4, 3)), rng.normal(size=(3, 4, 5))
    t, i, s = (torch.from_numpy(each) for each in (x, index, src))
    np.testing.assert_array_equal(tx.gather(tx.asarray(x), 1, index).to_numpy(), torch.gather(t, 1, i).numpy())
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include in (True, False):
            found = tx.scatter_reduce(tx.asarray(x), 1, index, src, reduce, include_self=include)
            wanted = t.scatter_reduce(1, i, s, reduce, include_self=include)
            np.testing.assert_allclose(found.to_numpy(), wanted.numpy(), rtol=1e-12)
