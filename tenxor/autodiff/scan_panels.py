"""Matrices that are equal in every iteration of a loop, repacked once in the order in which products read them. Otherwise each iteration
would pack them again, or read columns with large strides. The columns of a product are split into panels. In a panel, the rows of the
matrix, a row for each summed index, follow one another.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from ..graph.node import Node, Recipe, Scalar, disable_tape, intern_recipe
from ..layout import Layout
from ..ops import OPS
from ..runtime.realize import realize
from .node_view import SUM
from .scan_body import NodeProgram, ProgramStep, is_affine

_MULTIPLY, _POSITIVE = OPS["multiply"], OPS["positive"]
PANEL_COLUMNS = 64  # columns of a panel
MAX_OTHER_OPERAND_ROWS = 256  # rows of the other operand, at most; with more, packing is a small part of the work
CONFLICT_STRIDE_BYTES = 1 << 11  # bytes; multiples of this stride map to few cache sets


class PanelProgram:
    """A program, `program`, that reads matrices from panels.

    `panel_layouts` lists the repacked inputs, each as a pair of the input's number and the layout that gathers the panels. Panels are
    inputs after the program's own, so the numbers of created values grow by `len(panel_layouts)`.
    """

    def __init__(self, program: NodeProgram, fixed_inputs: Collection[int]) -> None:
        """Rewrite `program`. The argument stays unchanged. `fixed_inputs` are the numbers of the inputs that are equal in every iteration.

        Each product with a sum as the only reader is tried (`_rewrite_product`).
        """
        count = self._input_count = len(program.input_types)
        readers: dict[int | Scalar, list[int]] = {}
        for k, step in enumerate(program.steps):
            for s in step.sources:
                readers.setdefault(s, []).append(k)
        steps = list(program.steps)
        self.panel_layouts: list[tuple[int, Layout]] = []
        for k, total in enumerate(program.steps):
            number = total.sources[0] if total.sources else None
            if total.recipe.op is not SUM or type(number) is not int or number < count or readers[number] != [k]:
                continue
            rewritten = _rewrite_product(program.steps[number - count], total, fixed_inputs, ~len(self.panel_layouts))
            if rewritten is not None:
                steps[number - count], steps[k], panel = rewritten
                self.panel_layouts.append(panel)
        self.program = NodeProgram()
        self.program.input_types = [*program.input_types, *[(layout.shape, program.input_types[k][1]) for k, layout in self.panel_layouts]]
        self._panel_recipes: list[tuple[Recipe, int, int]] = []  # of a panel: the recipe, the number of the matrix, and its offset
        for k, layout in self.panel_layouts:
            dtype = program.input_types[k][1]
            recipe = intern_recipe(_POSITIVE, layout.shape, dtype, (dtype,), (layout.layout_key,))
            self._panel_recipes.append((recipe, k, layout.offset))
        self.program.steps = [step._replace(sources=tuple(map(self._renumber_source, step.sources))) for step in steps]

    def _renumber_source(self, s: int | Scalar) -> int | Scalar:
        """Return a source of a rewritten step: the number of panel `~s` for a negative number `s`, else the new number of value `s`. A
        `Scalar` is returned unchanged.
        """
        return s if type(s) is not int else self._input_count + ~s if s < 0 else self.renumber(s)

    def renumber(self, number: int) -> int:
        """Return the number in the rewritten program of the value with number `number` in the original program."""
        return number if number < self._input_count else number + len(self.panel_layouts)

    def pack(self, nodes: Sequence[Node]) -> list[Node]:
        """Compute the panels at once and return their nodes in the order of `panel_layouts`; empty without panels.

        `nodes` are the nodes of the program's inputs, by number. They must have the contents of the inputs in row-major order.
        """
        if not self._panel_recipes:
            return []
        with disable_tape():
            panels = [Node(recipe, (nodes[k],), (offset,)) for recipe, k, offset in self._panel_recipes]
        realize(*panels)
        return panels


def _rewrite_product(
    product: ProgramStep, total: ProgramStep, fixed_inputs: Collection[int], panel: int
) -> tuple[ProgramStep, ProgramStep, tuple[int, Layout]] | None:
    """Rewrite `product`, and `total`, the sum over it, to read a matrix from panels. `panel` is the provisional, negative number of the new
    input.

    Return both steps, and the pair of the matrix's number and the layout that gathers the panels. Return None unless exactly one of two
    operands is in `fixed_inputs`, and `total` sums the whole product over the last axis. Return None also if the matrix has several column
    axes, or if panels would not pay: few columns, or many rows of the opposite operand.
    """
    shape, kept_shape = product.recipe.shape, total.recipe.shape
    layout_keys = product.recipe.layout_keys
    if product.recipe.op is not _MULTIPLY or len(shape) != len(kept_shape) + 1 or any(layout_key is None for layout_key in layout_keys):
        return None
    if total.recipe.layout_keys[0].layout != Layout.contiguous(shape) or total.offsets != (0,):  # type: ignore[union-attr]
        return None
    fixed_operands = [k for k, s in enumerate(product.sources) if s in fixed_inputs]
    if len(fixed_operands) != 1:
        return None
    (matrix_index,) = fixed_operands
    matrix, other_layout = (layout_keys[k].layout.at(product.offsets[k]) for k in (matrix_index, 1 - matrix_index))  # type: ignore[union-attr]
    columns = [axis for axis, step in enumerate(matrix.strides[:-1]) if step and shape[axis] > 1]
    if (
        not is_affine(matrix)
        or not is_affine(other_layout)
        or len(columns) != 1
        or other_layout.strides[columns[0]]
        or not matrix.strides[-1]
    ):
        return None
    (axis,) = columns
    step, row_stride, itemsize = matrix.strides[axis], matrix.strides[-1], product.recipe.dtypes[matrix_index].itemsize
    n, k = shape[axis], shape[-1]
    if (
        n % PANEL_COLUMNS
        or n == PANEL_COLUMNS
        or prod(kept_shape) > MAX_OTHER_OPERAND_ROWS * n
        or (step == 1 and row_stride * itemsize % CONFLICT_STRIDE_BYTES)
    ):
        return None

    def split(sizes: tuple[int, ...], outer: int, inner: int) -> tuple[int, ...]:
        return (*sizes[:axis], outer, inner, *sizes[axis + 1 :])

    split_shape = split(shape, n // PANEL_COLUMNS, PANEL_COLUMNS)
    panels = Layout((n // PANEL_COLUMNS, k, PANEL_COLUMNS), (step * PANEL_COLUMNS, row_stride, step), matrix.offset)
    layouts = [Layout(split_shape, split(other_layout.strides, 0, 0), other_layout.offset)] * 2
    layouts[matrix_index] = Layout(split_shape, (*split((0,) * (len(shape) - 1), k * PANEL_COLUMNS, 1), PANEL_COLUMNS))
    recipe = intern_recipe(_MULTIPLY, split_shape, product.recipe.dtype, product.recipe.dtypes, tuple([x.layout_key for x in layouts]))
    sources = tuple([panel if j == matrix_index else s for j, s in enumerate(product.sources)])
    new_product = product._replace(recipe=recipe, sources=sources, offsets=tuple([x.offset for x in layouts]))
    total_recipe = intern_recipe(
        SUM,
        split(kept_shape, n // PANEL_COLUMNS, PANEL_COLUMNS),
        total.recipe.dtype,
        total.recipe.dtypes,
        (Layout.contiguous(split_shape).layout_key,),
    )
    number = product.sources[matrix_index]
    assert type(number) is int
    return new_product, total._replace(recipe=total_recipe), (number, panels)
