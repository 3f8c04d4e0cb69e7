"""Scatters lowered to loop IR: loops that may write the same element, the order of loops, and their results."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenxor.graph.node import Node
from tenxor.layout import Layout
from tenxor.lowering.fuse import collect_pending, fuse
from tenxor.lowering.ir import For, Kernel
from tenxor.lowering.lower import lower
from tenxor.lowering.scatter_loops import find_colliding_axes
from tests.layout import examples
from tests.layout.moves import chains, layouts
from tests.layout.test_queries import strided

from .helpers import TARGET, compute, elementwise, only_kernel, reduction, scattered, tensor, value, whole_layout

rng = np.random.default_rng(11)
INDEX = np.array([1, -1, 1, 0, 1])


def kernel_of(node: Node, threads: int = 1) -> Kernel:
    """Return the last kernel of a pending node."""
    kernels = fuse(collect_pending([node]), [node], TARGET)
    return lower(kernels[-1], set(kernels), TARGET.with_threads(threads))[0]


@examples(400)
@given(layouts(max_moves=4) | chains(max_moves=2) | strided(), st.integers(0, 7))
def test_collision_free_loops_never_reach_an_element_twice(case, loops):
    layout, model = case
    loops = min(loops, model.ndim)
    colliding = find_colliding_axes(layout, loops)
    free = [k for k in range(loops) if k not in colliding]
    key_of_offset: dict[int, tuple[int, ...]] = {}
    for position in product(*map(range, model.shape)):
        key = tuple([position[k] for k in free])
        assert key_of_offset.setdefault(int(model[position]), key) == key


def test_find_colliding_axes_finds_the_loops_that_share_elements():
    rows = Layout.contiguous((10, 4)).arranged((None, 1, 0), (6, 4, 10))
    assert find_colliding_axes(rows, 2) == {0}
    assert find_colliding_axes(Layout.contiguous((4, 5)), 2) == set()
    assert find_colliding_axes(Layout.contiguous((4, 5)).select(0, [1, 1, 2]), 2) == {0}
    assert find_colliding_axes(Layout.contiguous((6,)).windows(0, 3), 2) == {0, 1}


def test_scatter_to_single_elements_is_vectorized_in_order():
    node = scattered(tensor(np.zeros(4)), [0], [tensor(INDEX)], elementwise("exp", tensor(np.arange(5.0))), "sum")
    kernel = kernel_of(node)
    assert str(kernel).splitlines()[1:] == [
        "  vector for i in 0..s0:",
        "    p0[index(p2[i], s1)] = (held + exp(p1[i]))",
    ]
    assert kernel.shared_axis == -1


def test_scatter_of_rows_is_vectorized_and_shared_by_columns():
    count = TARGET.thread_limits.min_shared_scatter // 64
    index = tensor(rng.integers(0, 9, count))
    values = tensor(np.ones((count, 64), np.float32))
    node = scattered(tensor(np.zeros((9, 64), np.float32)), [0], [index], values)
    assert str(kernel_of(node)).splitlines()[1:] == [
        "  for i in 0..s0:",
        "    parallel vector for j in 0..s1:",
        "      p0[j + index(p2[i*s4], s5)*s2] = p1[i*s3 + j]",
    ]
    for threads, block in ((2, 32), (3, 32), (64, 32)):
        kernel = kernel_of(node, threads)
        (outer,) = kernel.body
        assert isinstance(outer, For) and (outer.block, kernel.shared_axis) == (block, outer.axis)
        assert kernel.choose_grain(TARGET.thread_limits) == block


def test_collision_free_loops_are_outermost_and_parallel():
    node = scattered(tensor(np.zeros((3, 9))), [1], [tensor(INDEX)], (tensor(np.ones((3, 5))), Layout((5, 3), (1, 5))), "max")
    kernel = kernel_of(node)
    assert [line.strip().split(" in ")[0] for line in str(kernel).splitlines()[1:3]] == [
        "parallel for i",
        "vector for j",
    ]
    assert kernel.shared_axis >= 0


def test_complex_scatter_combines_real_and_imaginary_parts():
    node = scattered(tensor(np.zeros(4, complex)), [0], [tensor(INDEX)], tensor(np.arange(5) + 1j), "prod")
    assert str(kernel_of(node)).splitlines()[2:] == [
        "    p0[index(p2[i], s1)].real = ((held.real * p1[i].real) - (held.imag * p1[i].imag))",
        "    p0[index(p2[i], s1)].imag = ((held.real * p1[i].imag) + (held.imag * p1[i].real))",
    ]
    only_kernel(compute(node))
    wanted = np.zeros(4, complex)
    np.multiply.at(wanted, INDEX, np.arange(5) + 1j)
    np.testing.assert_array_equal(value(node), wanted)


def test_values_read_from_the_old_content_are_computed_first():
    old = tensor(np.arange(4.0))
    node = scattered(old, [0], [tensor(INDEX)], (elementwise("add", old, old), Layout((5,), (0,), 2)), "sum")
    kernels = compute(node)
    assert len(kernels) == 2
    np.testing.assert_array_equal(value(node), [0 + 4, 1 + 12, 2, 3 + 4])


@pytest.mark.parametrize("reduced", [True, False])
def test_only_scattered_reductions_are_separate_kernels(reduced: bool):
    x = tensor(np.arange(10.0).reshape(5, 2))
    values = reduction("sum", x, [1]) if reduced else elementwise("square", tensor(np.arange(5.0)))
    node = scattered(tensor(np.zeros(4)), [0], [elementwise("add", tensor(INDEX), tensor(0))], (values, whole_layout(values)), "sum")
    assert len(compute(node)) == 1 + reduced
    wanted = np.zeros(4)
    np.add.at(wanted, INDEX, np.arange(10.0).reshape(5, 2).sum(1) if reduced else np.arange(5.0) ** 2)
    np.testing.assert_array_equal(value(node), wanted)
