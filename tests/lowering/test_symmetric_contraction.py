"""Detection of products of an operand with itself, of which half of the results are computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tenxor as tx
from tenxor.dtypes import complex64, float32, int8, uint8
from tenxor.lowering.ir import Contraction
from tenxor.runtime.planner import preview_kernels
from tenxor.tensor import Tensor

pytestmark = pytest.mark.usefixtures("plain")

N = 80  # more than a tile is wide


def ones(*shape: int, dtype: object = float32) -> Tensor:
    return tx.ones(shape, dtype=dtype).realize()


X, Y = ones(50, N), ones(50, N)
SQUARE, BATCH, Z = ones(N, N), ones(3, 50, N), ones(50, N, dtype=complex64)
INTEGERS, NATURAL = ones(50, N, dtype=int8), ones(N, 50, dtype=uint8)


def product_of(t: Tensor) -> Contraction:
    (product,) = [k.contraction for _, k in preview_kernels([t.storage.node]) if k is not None and k.contraction is not None]
    return product


def distances(x: Tensor) -> Tensor:
    return x[:, None] - x[None]


SYMMETRIC: dict[str, Callable[[], Tensor]] = {
    "columns": lambda: X.T @ X,
    "rows": lambda: _self_product(ones(N, 40)),
    "einsum": lambda: tx.einsum("ki,kj->ij", X, X),
    "batches": lambda: BATCH.mT @ BATCH,
    "views": lambda: X[::-1, ::2].T @ X[::-1, ::2],
    "integers": lambda: INTEGERS.T @ INTEGERS,
    "a function of results": lambda: tx.exp(X.T @ X * 0.5 + 1),
    "of what is made on the way": lambda: _self_product((X * 2 + 1).T),
    "distances": lambda: tx.sqrt((distances(X.T) ** 2).sum(axis=-1)),
    "their sizes": lambda: tx.abs(distances(X.T)).sum(axis=-1),
    "squares of natural numbers": lambda: (distances(NATURAL) ** 2).sum(axis=-1),
    "largest sums": lambda: tx.contract(X, X, [(0, 0)], multiply=lambda x, y: x + y, add=tx.maximum),
}
ASYMMETRIC: dict[str, Callable[[], Tensor]] = {
    "of two": lambda: X.T @ Y,
    "a square, not transposed": lambda: SQUARE @ SQUARE,
    "one of them reversed": lambda: X[::-1].T @ X,
    "one of them scaled": lambda: (X * 2).T @ X,
    "weighted": lambda: (X * ones(50, 1)).T @ X,
    "something beside the results": lambda: X.T @ X + ones(N),
    "differences": lambda: distances(X.T).sum(axis=-1),
    "sizes of natural differences": lambda: tx.abs(distances(NATURAL)).sum(axis=-1),
    "complex, whose terms come in another order": lambda: Z.T @ Z,
    "few steps": lambda: _self_product(ones(N, 31)),
    "few results": lambda: X[:, :8].T @ X[:, :8],
}


def _self_product(x: Tensor) -> Tensor:
    return x @ x.T


@pytest.mark.parametrize("name", list(SYMMETRIC))
def test_product_with_itself_is_symmetric(name: str) -> None:
    assert product_of(SYMMETRIC[name]()).symmetric_pairs


@pytest.mark.parametrize("name", list(ASYMMETRIC))
def test_other_products_are_not_marked_symmetric(name: str) -> None:
    assert not product_of(ASYMMETRIC[name]()).symmetric_pairs


def test_symmetric_product_prints_as_mirrored() -> None:
    kernel = next(k for _, k in preview_kernels([(X.T @ X).storage.node]) if k is not None)
    assert "product for i in 0..s0, j in 0..s1 from i on, and mirrored, over k:" in str(kernel)
