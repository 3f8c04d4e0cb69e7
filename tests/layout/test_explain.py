"""The text of `Layout.explain`."""

from __future__ import annotations

from tenxor.layout import Layout

from . import contiguous


def test_explain_gives_the_formula_of_a_view():
    assert contiguous(2, 5, 6).index((slice(None), 4)).explain() == (
        "shape (2, 6), 12 elements\noffset = 24 + 30*i + 1*j\nnot contiguous; writable: every position has an element of its own"
    )


def test_explain_names_negative_strides_and_shared_elements():
    assert contiguous(3).flip().expand((2, 3)).explain() == (
        "shape (2, 3), 6 elements\n"
        "offset = 2 + 0*i - 1*j\n"
        "not contiguous; several positions share an element: a write takes one number, or accumulates by name, as index_add_ does"
    )


def test_explain_lists_a_chain_from_the_outside_in():
    assert contiguous(2, 3).transpose().reshape((6,)).explain() == (
        "shape (6,), 6 elements\n"
        "number = 0 + 1*i\n"
        "(a0, a1) is where that number is, in row-major order, in shape (3, 2)\n"
        "offset = 0 + 1*a0 + 3*a1\n"
        "not contiguous; writable: every position has an element of its own"
    )


def test_explain_shortens_tables():
    rows = contiguous(99, 4).select(0, [n * n for n in range(10)])
    assert rows.explain().splitlines()[1:3] == [
        "offset = 0 + table[i] + 1*j",
        "  table[i]: [0, 4, 16, 36, ..., 256, 324]",
    ]


def test_explain_of_a_scalar_is_contiguous():
    assert contiguous().explain() == ("shape (), 1 element\noffset = 0\ncontiguous; writable: every position has an element of its own")


def test_explain_numbers_axes_beyond_the_letters():
    assert "1*i15" in Layout.contiguous((1,) * 15 + (2,)).explain()
