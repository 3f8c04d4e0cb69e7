"""Work on large arrays in portions gives the results of single calls."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest

import tenxor as tx
from tenxor.layout import Layout
from tenxor.layout.interruptible_chunks import iterate_chunks, nonzero

SHAPES = [(), (1,), (7,), (0,), (3, 0), (2, 5), (1, 9), (9, 1), (4, 3, 5)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("max_elements", [1, 2, 4, 7, 100])
def test_portions_cover_the_array_once_in_order(shape: tuple[int, ...], max_elements: int) -> None:
    array = np.arange(int(np.prod(shape))).reshape(shape)
    chunks = [array[key] for key in iterate_chunks(shape, max_elements)]
    assert all(chunk.size <= max_elements for chunk in chunks)
    assert [n for chunk in chunks for n in chunk.ravel().tolist()] == array.ravel().tolist()


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_nonzero_in_portions_matches_numpy(shape: tuple[int, ...], _small_chunks: None) -> None:
    for seed in range(20):
        array = np.random.default_rng(seed).integers(0, 2, shape)
        for actual, wanted in zip(nonzero(array), np.nonzero(array), strict=True):
            assert actual.dtype == np.int64
            np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("count", [0, 1, 5, 6, 23])
def test_tensor_is_pickled_in_portions(count: int, _small_chunks: None) -> None:
    for dtype in (tx.uint8, tx.bfloat16, tx.complex128):
        t = tx.arange(count).astype(dtype)
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            loaded = pickle.loads(pickle.dumps([t, t], protocol))
            assert loaded[0].dtype is dtype and loaded[0].tolist() == t.tolist() and loaded[1] is loaded[0]


@pytest.fixture
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "tenxor.layout.queries",
        "tenxor.layout.interruptible_chunks",
        "tenxor.tensor.conversion_methods",
        "tenxor.tensor.protocols",
    ):
        monkeypatch.setattr(sys.modules[name], "MAX_CHUNK_ELEMENTS", 5)
    monkeypatch.setattr(iterate_chunks, "__defaults__", (5,))


@pytest.mark.usefixtures("_small_chunks")
def test_layout_predicates_of_chains_in_portions_match_brute_force() -> None:
    chain = Layout.contiguous((4, 5)).transpose().reshape((20,))
    for layout in (chain, chain.index((slice(1, None),)), chain.index((slice(None, None, -3),)), chain.oindex(([1, 1, 7, 8, 3, 9],))):
        offsets = layout.offsets().ravel().tolist()
        assert layout.range() == (min(offsets), max(offsets))
        assert layout.is_injective() == (len(set(offsets)) == len(offsets))
        for count in (1, 5, 19, 20):
            assert layout.covers(count) == set(range(count)).issubset(offsets)
        for other in (chain, chain.index((slice(5, 9),)), Layout((3,), (1,), 17)):
            assert layout.disjoint(other) == set(offsets).isdisjoint(other.offsets().ravel().tolist())
    equal_layout = Layout.contiguous((4, 5)).transpose().reshape((2, 10)).reshape((20,)).index((slice(1, None),))
    assert chain.index((slice(1, None),)) == equal_layout != chain.index((slice(0, 19),))


@pytest.mark.usefixtures("_small_chunks")
@pytest.mark.parametrize("dtype", ["int64", "bool", "complex64", "bfloat16"])
def test_tolist_and_copies_in_portions_match_numpy(dtype: str) -> None:
    array = np.arange(60).reshape(3, 4, 5)
    plain = tx.asarray(array).astype(dtype)
    expected = array.astype({"bfloat16": "float32"}.get(dtype, dtype))
    assert plain.tolist() == expected.tolist()
    assert plain.T.tolist() == expected.T.tolist() and plain[0, 0].tolist() == expected[0, 0].tolist()
    assert plain.T.reshape(-1).tolist() == expected.T.reshape(-1).tolist()
    assert plain.oindex[[0, 2, 2], :, [1, 0, 3, 3]].tolist() == expected[[0, 2, 2]][:, :, [1, 0, 3, 3]].tolist()
    assert tx.asarray(array.T[::-1]).tolist() == array.T[::-1].tolist()
