"""Random graphs of views, operations, reductions, scans and stores, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenxor.dtypes import int64
from tenxor.graph.node import POSITION, Node, Scalar, Scatter
from tenxor.layout import Layout
from tenxor.lowering import match_contraction, predict_contraction
from tenxor.lowering.cpu.cache_rows import cache_rows
from tenxor.lowering.cpu.interchange import interchange_columns
from tenxor.lowering.cpu.nontemporal import use_nontemporal_stores
from tenxor.lowering.cpu.prefetch_rows import prefetch_rows
from tenxor.lowering.cpu.schedule_contraction import schedule_contraction
from tenxor.lowering.cpu.schedule_single_pass import schedule_single_pass
from tenxor.lowering.cpu.tile_transposes import tile_transposes
from tenxor.lowering.cpu.unroll_rows import unroll_and_jam
from tenxor.lowering.cpu.vectorize import vectorize
from tenxor.lowering.ir import For, Kernel, Statement
from tenxor.lowering.loop_nest import LoopNest
from tenxor.lowering.lower import build_loop_nest, lower
from tenxor.lowering.parameterize import KernelBinding, parameterize
from tenxor.lowering.predict_contraction import is_contraction
from tenxor.target import Costs, Loops, SinglePass, Streams, Target

from . import helpers
from .helpers import TARGET, Array, Lower, chosen, compute, elementwise, reduction, scan, stored, tensor, value

MOST_ELEMENTS = 120
PAIRS = 24  # elements of either side
BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "floor_divide": lambda x, y: np.where(y == 0, 0, x // np.where(y == 0, 1, y)),
}
UNARY = {"negative": np.negative, "square": np.square, "sign": np.sign}
REDUCED = {
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "argmax": np.argmax,
    "count_nonzero": np.count_nonzero,
}
# applies each pass wherever it is possible
EAGER = TARGET._replace(
    costs=Costs(min_buffered_value=1, min_buffered_invariant=1), streams=Streams(0, 0, prefetched_row_bytes=(1, 1 << 12))
)
SCANNED = {"sum": np.cumsum, "max": np.maximum.accumulate}


class Graph:
    """A random graph of pending nodes, each with the result of NumPy. All are int64, so results are exact."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.nodes: list[tuple[Node, Array]] = []

    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def leaf(self) -> None:
        shape = tuple(self.draw(st.lists(st.sampled_from([1, 2, 3, 4]), max_size=3)))
        if self.pick(True, True, False):
            array = self.draw(st.randoms(use_true_random=False)).choices(range(-9, 10), k=int(np.prod(shape)))
            self.add(tensor(np.array(array, np.int64).reshape(shape)), np.array(array, np.int64).reshape(shape))
        else:
            self.add(Node.of(POSITION, shape, int64), np.arange(np.prod(shape, dtype=int)).reshape(shape))

    def add(self, node: Node, array: Array) -> None:
        assert node.shape == array.shape
        self.nodes.append((node, array))

    def view(self) -> tuple[tuple[Node, Layout], Array]:
        """Return a random node with a random view. Newer nodes are preferred, for deep graphs."""
        node, array = self.pick(self.nodes[-1], self.nodes[-1], *self.nodes)
        layout = Layout.contiguous(node.shape)
        for _ in range(self.pick(0, 0, 0, 1, 2)):
            layout, array = self.moved(layout, array)
        return (node, layout), array

    def moved(self, layout: Layout, array: Array) -> tuple[Layout, Array]:
        move = self.pick("transpose", "flip", "slice", "flatten", "reshape", "gather", "gather", "expand", "expand_dims")
        ndim = array.ndim
        if move == "transpose":
            axes = self.draw(st.permutations(range(ndim)))
            return layout.permute(axes), array.transpose(axes)
        if move == "flatten":
            return layout.reshape((-1,)), array.reshape(-1)
        if move == "reshape" and array.size % 2 == 0:
            shape = (2, array.size // 2) if self.pick(True, False) else (array.size // 2, 2)
            return layout.reshape(shape), array.reshape(shape)
        if move == "expand_dims":
            position = self.draw(st.integers(0, ndim))
            return layout.expand_dims(position), np.expand_dims(array, position)
        if move == "expand" and array.size <= MOST_ELEMENTS // 3:
            return layout.expand((3, *array.shape)), np.broadcast_to(array, (3, *array.shape))
        if ndim == 0:
            return layout, array
        axis = self.draw(st.integers(0, ndim - 1))
        if move == "flip":
            return layout.flip(axis), np.flip(array, axis)
        if move == "gather":
            size = array.shape[axis]
            indices = self.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=4)) if size else []
            return layout.select(axis, indices), np.take(array, np.array(indices, int), axis)
        key = (slice(None),) * axis + (self.pick(slice(1, None), slice(None, None, 2), slice(None, None, -2), 0),)
        if key[-1] == 0 and array.shape[axis] == 0:
            return layout, array
        return layout.index(key), array[key]

    def step(self) -> None:
        kind = self.pick(
            *(
                "unary",
                "binary",
                "binary",
                "rows",
                "rows",
                "rows",
                "reduce",
                "reduce",
                "scan",
                "store",
                "choose",
                "choose",
                "pairs",
                "pairs",
            )
        )
        source, array = self.view()
        if kind == "unary":
            name = self.pick(*UNARY)
            self.add(elementwise(name, source), UNARY[name](array))
        elif kind == "binary":
            self.binary(source, array)
        elif kind == "reduce" or kind == "rows":
            self.reduce(source, array, rows=kind == "rows")
        elif kind == "scan" and array.ndim:
            name = self.pick(*SCANNED)
            self.add(scan(name, source), SCANNED[name](array, axis=-1))
        elif kind == "store":
            self.store(source, array)
        elif kind == "choose":
            self.choose(source, array)
        elif kind == "pairs":
            self.pairs(source, array)

    def binary(self, source: Any, array: Array) -> None:
        name = self.pick(*BINARY)
        other, values = self.view()
        try:
            shape = np.broadcast_shapes(array.shape, values.shape)
        except ValueError:
            shape = None
        if shape is None or np.prod(shape) > MOST_ELEMENTS:
            number = self.draw(st.integers(-3, 3))
            self.add(elementwise(name, source, Scalar(number, int64)), BINARY[name](array, np.int64(number)))
        else:
            self.add(elementwise(name, source, other), BINARY[name](array, values))

    def reduce(self, source: Any, array: Array, *, rows: bool) -> None:
        """Add a reduction, and with `rows` also an operation on it and its own operand."""
        name = self.pick(*REDUCED)
        axes = [a for a in range(array.ndim) if self.pick(True, False)]
        if name == "argmax":
            axes = axes[:1]
        if not axes or any(array.shape[a] == 0 for a in axes):
            return
        node = reduction(name, source, axes)
        expected = REDUCED[name](array, axis=axes[0] if name == "argmax" else tuple(axes))
        self.add(node, np.asarray(expected))
        if rows:
            back = (node, Layout.contiguous(node.shape).expand_dims(axes))
            self.add(elementwise("subtract", source, back), array - np.expand_dims(expected, axes))

    def choose(self, source: Any, array: Array) -> None:
        """What is at some indices, of either sign, in memory or pending, along one axis or two."""
        axes = list(self.draw(st.permutations(range(array.ndim))))[: self.pick(1, 1, 2)]
        if not axes or any(array.shape[a] == 0 for a in axes):
            return
        indices, numbers = zip(*[self.indices(array.shape[a]) for a in axes], strict=True)
        try:
            expected = np.moveaxis(array, axes, range(len(axes)))[numbers]
        except IndexError:  # they do not broadcast
            return
        if expected.size <= MOST_ELEMENTS:
            self.add(chosen(source, axes, *indices), expected)

    def indices(self, size: int) -> tuple[Any, Array]:
        """Indices of an axis: numbers in memory, or what is left of any node after division by its size."""
        if self.pick(True, False):
            (node, layout), array = self.view()
            return elementwise("remainder", (node, layout), Scalar(size, int64)), array % size
        numbers = np.array(self.draw(st.lists(st.integers(-size, size - 1), min_size=1, max_size=5)))
        return tensor(numbers), numbers

    def pairs(self, source: Any, array: Array) -> None:
        """A reduction over pairs of rows of this and of another, of the same length, or of its own."""
        node, layout = source
        other, others = self.view()
        if array.ndim == 0 or not array.size or array.size > PAIRS:
            return
        if others.ndim == 0 or others.shape[-1] != array.shape[-1] or not 0 < others.size <= PAIRS:
            other, others = source, array
        name, kind = self.pick("multiply", "subtract", "maximum"), self.pick("sum", "max", "min", "count_nonzero")
        left = layout.reshape((-1, 1, array.shape[-1]))
        right = other[1].reshape((1, -1, array.shape[-1]))
        both = elementwise(name, (node, left), (other[0], right))
        values = BINARY[name](array.reshape(left.shape), others.reshape(right.shape))
        self.add(reduction(kind, both, [2]), REDUCED[kind](values, axis=2))

    def store(self, source: Any, array: Array) -> None:
        old, before = self.draw(st.sampled_from(self.nodes))
        target, positions = self.moved(Layout.contiguous(old.shape), np.arange(before.size).reshape(before.shape))
        if not target.is_injective():
            return
        try:
            values = np.broadcast_to(array, target.shape)
        except ValueError:
            return
        after = before.copy().reshape(-1)
        after[positions.reshape(-1)] = values.reshape(-1)
        self.add(stored(old, target, source), after.reshape(before.shape))


def check_lanes(kernel: Kernel, body: tuple[Statement, ...], inside: bool = False) -> None:
    """Lanes never run inside lanes."""
    for s in body:
        if isinstance(s, For):
            vector = kernel.axes[s.axis].vector and not s.block
            assert not (vector and inside), str(kernel)
            check_lanes(kernel, s.body, inside or vector)


@pytest.fixture(autouse=True, scope="module")
def _small_products() -> Iterator[None]:
    """Let small graphs use products and single-pass fusion, which otherwise need large operands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(helpers, "TARGET", TARGET._replace(single_pass=SinglePass(min_matrix_bytes=0)))
        for module in (match_contraction, predict_contraction):
            patch.setattr(module, "MIN_CONTRACTION_SIZES", (2, 2, 2))
        yield


def check(data: st.DataObject, lower: Lower) -> None:
    """Check that a random graph computes the values of NumPy."""
    graph = Graph(data.draw)
    for _ in range(graph.pick(1, 2, 3)):
        graph.leaf()
    with np.errstate(all="ignore"):
        for _ in range(graph.draw(st.integers(3, 9))):
            graph.step()
    wanted = [graph.nodes[-1], graph.draw(st.sampled_from(graph.nodes))]
    for kernel in compute(*(node for node, _ in wanted if node.buffer is None), lower=lower):
        check_lanes(kernel, kernel.body)
    for node, expected in wanted:
        assert np.array_equal(value(node), expected)


@settings(max_examples=400)
@given(st.data())
def test_random_graphs_match_numpy(data: st.DataObject) -> None:
    def lowered(root: Node, kernels: Set[Node], target: Target) -> tuple[Kernel, KernelBinding]:
        kernel, binding = lower(root, kernels, target)
        assert is_contraction(root, kernels) == (kernel.contraction is not None), "what becomes a product is known before it does"
        return kernel, binding

    check(data, lowered)


PASSES: dict[str, Callable[[LoopNest], LoopNest]] = {
    "none": lambda nest: nest,
    "lanes": vectorize,
    "product": lambda nest: schedule_contraction(nest, TARGET) or nest,
    "kept rows": lambda nest: cache_rows(nest, EAGER),
    "tiles": lambda nest: tile_transposes(nest, EAGER),
    "one pass": lambda nest: schedule_single_pass(nest, EAGER) or nest,
    "rows of columns": lambda nest: interchange_columns(vectorize(nest), EAGER),
    "streams": lambda nest: use_nontemporal_stores(vectorize(nest), EAGER),
    "rows abreast": lambda nest: unroll_and_jam(vectorize(nest), EAGER._replace(register_count=32, loops=Loops(min_long_row_bytes=0))),
    "prefetches": lambda nest: prefetch_rows(use_nontemporal_stores(vectorize(nest), EAGER), EAGER),
}


@pytest.mark.parametrize("name", PASSES)
@settings(max_examples=100)
@given(st.data())
def test_each_lowering_pass_alone_preserves_the_values_of_random_graphs(name: str, data: st.DataObject) -> None:
    """Each pass runs by itself; "none" leaves the loops as they are."""

    def lowered(root: Node, kernels: Set[Node], target: Target) -> tuple[Kernel, KernelBinding]:
        nest = build_loop_nest(root, kernels, target)
        return parameterize(nest if isinstance(root.op, Scatter) else PASSES[name](nest))

    check(data, lowered)
