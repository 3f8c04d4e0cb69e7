"""Updates under a condition: machine code and the interpreter agree, and other updates are not predicated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import DType, boolean, complex64, complex128, float16, float32, float64, int8, int64
from tenxor.graph.node import STORE, UPDATE, Node
from tenxor.layout import Layout
from tenxor.lowering.fuse import collect_pending, fuse
from tenxor.lowering.ir import Kernel, Store, iterate_statements
from tenxor.lowering.lower import lower
from tenxor.target import Target
from tenxor.tensor import Tensor

from .graphs import in_memory
from .twins import check

pytestmark = pytest.mark.usefixtures("plain")
DTYPES = (int8, float16, float32, float64, int64, complex64, complex128)
SHAPE = (6, 45)
RNG = np.random.default_rng(4)
VIEWS: list[Callable[[Tensor], Tensor]] = [lambda t: t, lambda t: t.T, lambda t: t[::-1, ::-1], lambda t: t[:, ::-1]]


def _tensor(dtype: DType) -> Tensor:
    values = RNG.integers(-5, 6, SHAPE)
    return Tensor._from_node(in_memory(values.astype(dtype.numpy), dtype))


def _mask() -> Any:
    mask = RNG.random(SHAPE) < 0.2
    mask[1:3], mask[3, :20] = False, True
    return mask


def _update(x: Tensor, value: Tensor, op: Any = UPDATE) -> Node:
    """Return a write of `value` over the elements of `x`."""
    old, layout = x.storage.node, value.layout
    return Node.of(op, (old.size,), old.dtype, (old, value.storage.node), (Layout.contiguous((old.size,)), layout), x.layout)


def _predicated_stores(node: Node) -> list[Store]:
    """Return the predicated stores of the kernel of `node`."""
    target = Target(vector_bytes=64)
    kernel: Kernel = lower(node, set(fuse(collect_pending([node]), [node], target)), target)[0]
    return [s for s in iterate_statements(kernel.body) if isinstance(s, Store) and s.predicate is not None]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("view", VIEWS)
def test_masked_update_is_predicated_and_back_ends_agree(dtype: DType, view: Callable[[Tensor], Tensor]) -> None:
    x, y, mask = view(_tensor(dtype)), view(_tensor(dtype)), view(Tensor._from_node(in_memory(_mask(), boolean)))
    for value in (x + y, x * 2, y, x - y + x):
        node = _update(x, tx.where(mask, value, x))
        assert _predicated_stores(node)
        check(node)


def test_masked_update_accepts_any_condition() -> None:
    x, y = _tensor(float64), _tensor(float64)
    row = Tensor._from_node(in_memory(np.arange(45) % 3 == 0, boolean))
    column = Tensor._from_node(in_memory(np.array([[True], [False]] * 3), boolean))
    for condition in (x > 0, row, column, (x > y) & row):
        node = _update(x, tx.where(condition, x * y, x))
        assert _predicated_stores(node)
        check(node)


def test_partial_or_other_updates_are_not_predicated() -> None:
    x, y, mask = _tensor(float64), _tensor(float64), Tensor._from_node(in_memory(_mask(), boolean))
    assert not _predicated_stores(_update(x[1:], tx.where(mask[1:], y[1:], x[1:])))
    assert not _predicated_stores(_update(x, tx.where(mask, x, y)))
    assert not _predicated_stores(_update(x, tx.where(mask, y, x), STORE))
    assert not _predicated_stores(_update(x, x + y))


def test_kernel_text_shows_the_condition_of_a_store() -> None:
    x, mask = _tensor(float64), Tensor._from_node(in_memory(_mask(), boolean))
    node = _update(x, tx.where(mask, x * 2, x))
    target = Target(vector_bytes=64)
    assert "    where p1[" in str(lower(node, set(fuse(collect_pending([node]), [node], target)), target)[0])
