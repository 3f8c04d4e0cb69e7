"""Argmax and argmin of short rows in two passes: the extremum first, then its position."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tenxor as tx
from tenxor.dtypes import int64, uint8, uint32
from tenxor.graph.node import POSITION, Node
from tenxor.rewrite.argextrema import MAX_FLOAT_ROW_ELEMENTS, MAX_INTERMEDIATE_BYTES, MAX_ROW_ELEMENTS, split_argextremum
from tenxor.rewrite.unroll_reductions import MAX_UNROLLED_EXTREMA, MIN_ARGEXTREMUM_SIZE
from tenxor.tensor import Tensor
from tests.codegen.twins import check

from .samples import kernels
from .test_unroll_reductions import DTYPES, drawn, rows_of
from .test_windows import reduction_of


@given(
    dtype=st.sampled_from(DTYPES),
    kind=st.sampled_from(("argmax", "argmin")),
    row=st.integers(MAX_UNROLLED_EXTREMA + 1, MAX_FLOAT_ROW_ELEMENTS + 2),
    source=st.sampled_from(("as it lies", "a part", "each other row", "several axes", "made", "read by others")),
    special=st.booleans(),
    seed=st.integers(0, 1 << 16),
)
def test_argmax_and_argmin_of_short_rows_match_numpy(dtype: str, kind: str, row: int, source: str, special: bool, seed: int) -> None:
    """The result is the first of equal values, also of zeros of both signs, and the first NaN."""
    rng = np.random.default_rng(seed)
    rows = 2 * (MIN_ARGEXTREMUM_SIZE // row + int(rng.integers(1, 20)))
    a = drawn(rng, rows, row + 1 if source == "a part" else row, dtype, special=special)
    x = tx.asarray(a)
    if source == "a part":
        a, x = a[:, 1:], x[:, 1:]
    elif source == "each other row":
        a, x = a[::2], x[::2]
    elif source == "several axes":
        a, x = a.reshape(2, -1, row), x.reshape(2, -1, row)
    elif source == "made":
        a, x = (a != a[0], x != x[0]) if dtype == "bool" else (-a, -x)
    actual, wanted = getattr(x, kind)(-1), getattr(a, kind)(-1)
    if source == "read by others":
        actual, wanted = actual * 2 + x.argmin(-1), wanted * 2 + a.argmin(-1)
    np.testing.assert_array_equal(actual.numpy(), wanted)


@pytest.mark.parametrize(
    ("dtype", "longest"),
    [("float32", MAX_FLOAT_ROW_ELEMENTS), ("float16", MAX_FLOAT_ROW_ELEMENTS), ("float64", MAX_ROW_ELEMENTS), ("int8", MAX_ROW_ELEMENTS)],
)
def test_many_short_rows_take_two_passes(dtype: str, longest: int) -> None:
    def rewrite(row: int, elements: int) -> list[Node] | None:
        return split_argextremum(reduction_of(rows_of(row, elements, dtype).argmax(1)))

    assert rewrite(MAX_UNROLLED_EXTREMA + 1, MIN_ARGEXTREMUM_SIZE) and rewrite(longest, MIN_ARGEXTREMUM_SIZE)
    assert (
        rewrite(MAX_UNROLLED_EXTREMA, MIN_ARGEXTREMUM_SIZE) is None
        and rewrite(longest + 1, MIN_ARGEXTREMUM_SIZE) is None
        and rewrite(longest, MIN_ARGEXTREMUM_SIZE - longest) is None
    )


def test_two_passes_decline_other_reductions_and_layouts() -> None:
    x = rows_of(MAX_ROW_ELEMENTS, 2 * MIN_ARGEXTREMUM_SIZE)
    y = x.reshape(-1, 4, 8)
    declined = [x.max(1), x[:, ::-1].argmax(1), x.argmax(), x.reshape(32, -1).argmax(0), tx.vmap(lambda t: t.argmax())(y)]
    assert [split_argextremum(reduction_of(t)) for t in declined] == [None] * len(declined)


def test_computed_rows_are_stored_first_unless_large() -> None:
    x = rows_of(MAX_ROW_ELEMENTS, MIN_ARGEXTREMUM_SIZE)
    assert kernels((x * 2).argmax(1)) == ["multiply_positive", "max", kernels(x.argmax(1))[-1]]
    large = tx.ones((MAX_INTERMEDIATE_BYTES // MAX_ROW_ELEMENTS // 8 + 1, MAX_ROW_ELEMENTS)).realize()
    assert split_argextremum(reduction_of((large[1:] * 2).argmax(1))) is not None
    assert split_argextremum(reduction_of((large * 2).argmax(1))) is None


@pytest.mark.parametrize("dtype", [uint8, uint32, int64])
@pytest.mark.parametrize("shape", [(5,), (5, 100), (2, 3, 133)])
def test_positions_of_any_dtype_agree_on_both_back_ends(dtype: object, shape: tuple[int, ...]) -> None:
    """Positions are counted in lanes, beyond the range of the last lane, and one by one."""
    positions = Tensor._from_node(Node.of(POSITION, shape, dtype))  # type: ignore[arg-type]
    check((positions + 1).storage.node)
    check((positions[..., ::-1] + 1).storage.node)
    check((positions * positions.sum(axis=-1, keepdims=True)).storage.node)
    check(positions.cumsum(axis=-1).storage.node)  # of some rows at a time
