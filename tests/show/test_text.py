"""Tensors as text: exact outputs, the number of elements read, and refused arguments."""

from __future__ import annotations

import numpy as np
import pytest

from tenxor.errors import ArgumentError, IndexOutOfRange
from tenxor.show.text import format_repr, separator, to_string

from .fake import counting, fake


def test_printf_format_writes_rows_and_separators_exactly() -> None:
    expected = "   0.00     1.00  \n   2.00     3.00  \n---\n   4.00     5.00  \n   6.00     7.00  \n"
    assert to_string(counting(2, 2, 2), fmt="%7.2f") == expected


@pytest.mark.parametrize("fmt", [None, "%d"])
def test_dims_print_one_slice_of_five_axes(fmt: str | None) -> None:
    text = to_string(counting(4, 2, 2, 4, 4), dims=(3, None, None, None, None), fmt=fmt)
    lines = text.splitlines()
    assert [lines[i] for i in (4, 9, 14)] == ["---", "===", "---"]
    numbers = [int(word) for line in lines if line[0].isdigit() for word in line.split()]
    assert numbers == list(range(192, 256))
    assert len(lines) == 19


def test_dims_take_slices_and_may_be_fewer_than_the_axes() -> None:
    assert to_string(counting(3, 4), dims=(slice(1, None), -1)) == " 7  11"
    assert to_string(counting(3, 4), dims=(2,)) == "8  9  10  11".replace("8  9", " 8   9")


def test_blocks_of_each_axis_have_their_own_separator() -> None:
    assert [separator(level) for level in range(10)] == [*("---", "===", "***", "###", "+++", "~~~", "%%%", "@@@", "------", "======")]
    lines = to_string(counting(*[2] * 6), threshold=None).splitlines()
    assert [line for line in lines if not line[-1].isdigit()] == [
        *("---", "===", "---", "***", "---", "===", "---", "###"),
        *("---", "===", "---", "***", "---", "===", "---"),
    ]


def test_repr_has_a_header_with_shape_and_dtype() -> None:
    t = fake(np.arange(8.0).reshape(2, 2, 2))
    assert format_repr(t) == "Tensor (2, 2, 2) float64\n0.  1.\n2.  3.\n---\n4.  5.\n6.  7."


def test_repr_of_scalars_and_empty_tensors_is_exact() -> None:
    assert format_repr(fake(np.float32(2.5))) == "Tensor(2.5, float32)"
    assert format_repr(fake(np.zeros((0, 3)))) == "Tensor (0, 3) float64\n(no elements)"
    assert to_string(fake(2.5), fmt="%.1f") == "2.5  \n"
    assert to_string(fake(np.zeros((2, 0, 3))), fmt="%f") == ""


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.5, 0.25, 100.0], "  1.5     0.25  100."),
        ([-1.0, float("nan"), float("inf"), -float("inf")], " -1.   nan   inf  -inf"),
        ([0.1, 1 / 3], "0.1         0.33333333"),
        ([1e10, 0.0015, 1.0], "1.0e+10  1.5e-03  1.0e+00"),
        ([1.0, 2000.5], "   1.   2000.5"),
        ([True, False], " True  False"),
        ([-7, 10, 123456], "    -7      10  123456"),
        (np.array([0.1, 0.7], np.float32), "0.1  0.7"),
        (np.array([0.1, 2.0], np.float16), "0.1  2."),
        (np.array([2**64 - 1, 0], np.uint64), "18446744073709551615                     0"),
        (np.array([1 + 2j, -1j]), " 1.+2.j  -0.-1.j"),
    ],
)
def test_numbers_of_one_array_share_their_precision(values: object, expected: str) -> None:
    assert to_string(fake(values)) == expected


def test_bfloat16_prints_only_the_digits_of_its_eight_bits() -> None:
    pi, tenth = np.array([0x40490000, 0x3DCD0000], np.uint32).view(np.float32)
    values = np.array([pi, tenth, 1.0, np.inf], np.float32)
    assert to_string(fake(values, "bfloat16")) == "3.14  0.1   1.     inf"


@pytest.mark.parametrize("fmt", [".1f", "{:.1f}", "%.1f", lambda value: f"{value:.1f}"])
def test_all_kinds_of_format_give_the_same_text(fmt: object) -> None:
    assert to_string(fake([1.0, 2.25]), fmt=fmt) == "1.0  2.2  \n"  # type: ignore[arg-type]


def test_percent_sign_ends_a_spec_or_a_printf_format() -> None:
    assert to_string(fake([0.5]), fmt=".0%") == "50%  \n"
    assert to_string(fake([5]), fmt="%d%%") == "5%  \n"


def test_large_matrix_is_shortened_and_only_its_corners_are_read() -> None:
    t = counting(1000, 1000)
    assert to_string(t, edge=2).splitlines() == [
        *("     0       1  …     998     999", "  1000    1001  …    1998    1999", "…"),
        *("998000  998001  …  998998  998999", "999000  999001  …  999998  999999"),
    ]
    assert sum(t.storage.reads) == 16


def test_large_cube_is_shortened_on_every_axis() -> None:
    lines = to_string(counting(20, 20, 20), edge=1).splitlines()
    assert lines == [
        *("   0  …    19", "…", " 380  …   399", "---", "…", "---"),
        *("7600  …  7619", "…", "7980  …  7999"),
    ]


def test_high_ranks_never_read_more_than_the_threshold() -> None:
    t = counting(*[2] * 14)
    to_string(t)
    assert sum(t.storage.reads) <= 1000
    whole = counting(*[2] * 11)
    assert "…" not in to_string(whole, threshold=None)
    assert sum(whole.storage.reads) == 2**11


def test_requested_edge_size_is_used() -> None:
    t = counting(300, 300)
    to_string(t, edge=50)
    assert sum(t.storage.reads) == 100 * 100


def test_long_rows_continue_on_indented_lines() -> None:
    assert to_string(counting(8), width=12).splitlines() == ["0  1  2  3", "   4  5  6", "   7"]
    assert to_string(counting(5), width=2).splitlines() == ["0", "    1", "    2", "    3", "    4"]
    assert to_string(counting(4), width=0).splitlines() == ["0", "    1", "    2", "    3"]
    assert to_string(counting(100), width=None).count("\n") == 0
    assert max(map(len, to_string(counting(999)).splitlines())) <= 80


def test_dims_and_fmt_refuse_invalid_arguments() -> None:
    t = counting(2, 3)
    with pytest.raises(IndexOutOfRange, match=r"dims has 3 entries for shape \(2, 3\); it must have at most 2"):
        to_string(t, dims=(None, None, None))
    with pytest.raises(IndexOutOfRange, match=r"dims\[1\] is 3, but axis 1 of shape \(2, 3\) has 3 positions"):
        to_string(t, dims=(None, 3))
    with pytest.raises(ArgumentError, match=r"dims\[0\] is True; use None .* an integer, or a slice"):
        to_string(t, dims=(True,))
    with pytest.raises(ArgumentError, match=r"fmt '%z' cannot write the element 0 .* such as \"%7.2f\""):
        to_string(t, fmt="%z")
