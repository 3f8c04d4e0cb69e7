"""Where the best of a short row is: found by what the best is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tenxor as tx
from tenxor.dtypes import int64, uint8, uint32
from tenxor.node import POSITION, Node
from tenxor.rewrite.best import KEPT, LONGEST, OF_FLOATS, in_two_passes
from tenxor.rewrite.short import BEST, PLACES
from tenxor.tensor import Tensor
from tests.backend.twins import check

from .samples import kernels
from .test_short import DTYPES, drawn, rows_of
from .test_windows import reduction_of


@given(
    dtype=st.sampled_from(DTYPES),
    kind=st.sampled_from(("argmax", "argmin")),
    row=st.integers(BEST + 1, OF_FLOATS + 2),
    how=st.sampled_from(("as it lies", "a part", "each other row", "several axes", "made", "read by others")),
    odd=st.booleans(),
    seed=st.integers(0, 1 << 16),
)
def test_places_are_those_of_numpy(dtype: str, kind: str, row: int, how: str, odd: bool, seed: int) -> None:
    """The first of several that are as good, of zeros of both signs, too; and of NaN, which is the best."""
    rng = np.random.default_rng(seed)
    rows = 2 * (PLACES // row + int(rng.integers(1, 20)))
    a = drawn(rng, rows, row + 1 if how == "a part" else row, dtype, odd=odd)
    x = tx.asarray(a)
    if how == "a part":
        a, x = a[:, 1:], x[:, 1:]
    elif how == "each other row":
        a, x = a[::2], x[::2]
    elif how == "several axes":
        a, x = a.reshape(2, -1, row), x.reshape(2, -1, row)
    elif how == "made" and dtype != "bool":
        a, x = -a, -x
    found, wanted = getattr(x, kind)(-1), getattr(a, kind)(-1)
    if how == "read by others":
        found, wanted = found * 2 + x.argmin(-1), wanted * 2 + a.argmin(-1)
    np.testing.assert_array_equal(found.numpy(), wanted)


@pytest.mark.parametrize(("dtype", "longest"), [("float32", OF_FLOATS), ("float16", OF_FLOATS), ("float64", LONGEST), ("int8", LONGEST)])
def test_many_short_rows_are_gone_through_twice(dtype: str, longest: int) -> None:
    def made(row: int, elements: int) -> list[Node] | None:
        return in_two_passes(reduction_of(rows_of(row, elements, dtype).argmax(1)))

    assert made(BEST + 1, PLACES) and made(longest, PLACES)
    assert made(BEST, PLACES) is None and made(longest + 1, PLACES) is None and made(longest, PLACES - longest) is None


def test_others_are_not() -> None:
    x = rows_of(LONGEST, 2 * PLACES)
    y = x.reshape(-1, 4, 8)
    others = [x.max(1), x[:, ::-1].argmax(1), x.argmax(), x.reshape(32, -1).argmax(0), y.argmax((1, 2))]
    assert [in_two_passes(reduction_of(t)) for t in others] == [None] * len(others)


def test_what_is_made_is_written_down_first_unless_that_is_much() -> None:
    x = rows_of(LONGEST, PLACES)
    assert kernels((x * 2).argmax(1)) == ["multiply_positive", "max", kernels(x.argmax(1))[-1]]
    much = tx.ones((KEPT // LONGEST // 8 + 1, LONGEST)).realize()
    assert in_two_passes(reduction_of((much[1:] * 2).argmax(1))) is not None
    assert in_two_passes(reduction_of((much * 2).argmax(1))) is None


@pytest.mark.parametrize("dtype", [uint8, uint32, int64])
@pytest.mark.parametrize("shape", [(5,), (3, 70), (2, 3, 33)])
def test_positions_are_counted_in_any_width(dtype: object, shape: tuple[int, ...]) -> None:
    """As lanes, which count on beyond what their last one holds, and one by one."""
    place = Tensor._of(Node.of(POSITION, shape, dtype))  # type: ignore[arg-type]
    check((place + 1).storage.node)
    check((place[..., ::-1] + 1).storage.node)
    check((place * place.sum(axis=-1, keepdims=True)).storage.node)
