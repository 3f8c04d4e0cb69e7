"""Test that the work of planning grows in proportion to the graph. Work is the number of calls of functions, so no clock decides."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen import backend
from tenxor.graph.node import Node
from tenxor.lowering.fuse import collect_pending, fuse
from tenxor.lowering.ir import iterate_expressions, walk
from tenxor.lowering.lower import lower
from tenxor.runtime.generic_plans import split_structure
from tenxor.runtime.graph_signature import capture_in_python, make_placeholders
from tenxor.runtime.plan_tracing import SymbolicSizes
from tenxor.runtime.planner import make_symbolic_plan
from tenxor.tensor import Tensor

from .helpers import TARGET

pytestmark = pytest.mark.usefixtures("plain")  # without the fast path, so that graphs stay pending

MAX_GROWTH = 2.5  # of the work for a graph of twice the length; four times would be quadratic


def matrix(rows: int = 64, columns: int = 100) -> Tensor:
    """Return a tensor in memory."""
    return tx.asarray(np.ones((rows, columns), np.float32))


def count_calls(function: Callable[[], object]) -> int:
    """Return the number of calls of functions, in Python and in C, that `function()` makes at its second run: the first fills caches."""
    function()
    count = 0

    def observe(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    previous = sys.getprofile()
    sys.setprofile(observe)
    try:
        function()
    finally:
        sys.setprofile(previous)
    return count


def count_fusion(*results: Tensor) -> int:
    """Return the number of calls in the fusion of the pending graph of `results`."""
    roots = [t.storage.node for t in results]
    order = collect_pending(roots)
    assert order
    return count_calls(lambda: fuse(order, roots, TARGET))


def overlapping_sums(count: int) -> Tensor:
    """Return the row sums of ever more smoothed matrices: a reduction below each of `count` steps, each of which reads two slices."""
    x = matrix(300, 40)
    total = tx.zeros(40)
    for _ in range(count):
        x = x[1:] * 0.5 + x[:-1]
        total = total + x[:100].sum(axis=0)
    return total


def doubled_shifts(count: int) -> Tensor:
    """Return row sums after `count` steps in which every element is reached by twice as many paths, each with another offset."""
    x = matrix(4, 1 << 13)
    for k in range(count):
        x = x[:, 1 << k :] + x[:, : -(1 << k)]
    return x.sum(axis=1)


def row_updates(count: int) -> Tensor:
    """Return a matrix after `count` updates of a part by another part."""
    x = matrix() * 2.0
    for k in range(count):
        x[k % 60 : k % 60 + 3] += x[(k * 7) % 60] * 1.0
    return x


def shrinking_sums(count: int) -> Tensor:
    """Return a matrix after `count` steps that each become an elementwise kernel, as each reads two parts of a costly sum."""
    x = matrix(300, 40)
    for _ in range(count):
        x = x[1:] * 0.5 + x[:-1] / 3.0
    return x


def repeated_softmax(count: int) -> Tensor:
    x = matrix()
    for _ in range(count):
        e = tx.exp(x - x.max(axis=1, keepdims=True))
        x = e / e.sum(axis=1, keepdims=True)
    return x


def centred(count: int) -> Tensor:
    """Return a matrix from which the means of rows and of columns are subtracted by turns."""
    x = matrix()
    for k in range(count):
        x = (x - x.mean(axis=k % 2, keepdims=True)) * 1.5
    return x


@pytest.mark.parametrize(
    ("build", "count"),
    [(overlapping_sums, 10), (doubled_shifts, 6), (row_updates, 20), (shrinking_sums, 32), (repeated_softmax, 8), (centred, 16)],
)
def test_fusion_grows_in_proportion_to_the_graph(build: Callable[[int], Tensor], count: int) -> None:
    assert count_fusion(build(2 * count)) < MAX_GROWTH * count_fusion(build(count))


def nested_normalizations(count: int) -> Tensor:
    """Return a matrix to which a term with a reduction of all elements and a reduction of rows is added `count` times."""
    x = y = matrix()
    for _ in range(count):
        y = x - (y * x).sum(axis=1, keepdims=True) / y.max()
    return y


def test_lowering_grows_in_proportion_to_the_kernel() -> None:
    """Each reduction of a kernel computes its elements anew, so the kernel itself may grow faster than the graph."""

    def measure(count: int) -> float:
        root = nested_normalizations(count).storage.node
        kernels = set(fuse(collect_pending([root]), [root], TARGET))
        size = sum(len(walk(e)) for e in iterate_expressions(lower(root, kernels, TARGET)[0].body))
        return count_calls(lambda: lower(root, kernels, TARGET)) / size

    assert measure(16) < MAX_GROWTH / 2 * measure(8)


def count_guards(roots: Sequence[Node]) -> int:
    """Return the number of guards of a plan for `roots` with symbolic sizes."""
    signature = capture_in_python(roots)
    structure_and_dims = split_structure(signature)
    assert structure_and_dims is not None
    sizes = SymbolicSizes(structure_and_dims[1])
    make_symbolic_plan(signature, make_placeholders(signature, sizes), backend().target)
    return len(sizes.trace.lines)


def test_guards_grow_in_proportion_to_the_slices_of_a_pending_tensor() -> None:
    def build(count: int) -> Tensor:
        x = tx.exp(matrix(300, 40))
        total = x[:100]
        for k in range(1, count):
            total = total + x[k : k + 100] * (k + 0.5)
        return total

    assert count_guards([build(40).storage.node]) < MAX_GROWTH * count_guards([build(20).storage.node])
