"""Matrices that are equal in every iteration of a loop, repacked once in the order in which products read them. Otherwise each iteration
would pack them again, or read columns with large strides.

The columns of a product are split into panels. In a panel, the rows of the matrix, a row for each summed index, follow one another.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from ..layout import Layout
from ..node import Node, Scalar, recipe_of, untracked
from ..ops import OPS
from ..realize import realize
from .loop import Program, Step, is_affine
from .seen import SUM

_MULTIPLY, _POSITIVE = OPS["multiply"], OPS["positive"]
COLUMNS = 64  # columns of a panel
ROWS = 256  # rows of the other operand, at most; with more, packing is a small part of the work
APART = 1 << 11  # bytes; multiples of this stride map to few cache sets


class Panels:
    """A program that reads matrices from panels.

    `of` lists the repacked inputs, each with the layout that gathers the panels. Panels are inputs after the program's own, so the numbers
    of created values grow by `len(of)`.
    """

    def __init__(self, program: Program, same: Collection[int]) -> None:
        """Rewrite a program for the inputs `same`, which are equal in every iteration."""
        count = self._count = len(program.shapes)
        readers: dict[int | Scalar, list[int]] = {}
        for k, step in enumerate(program.steps):
            for s in step.sources:
                readers.setdefault(s, []).append(k)
        steps = list(program.steps)
        self.of: list[tuple[int, Layout]] = []
        for k, total in enumerate(program.steps):
            number = total.sources[0] if total.sources else None
            if total.recipe.op is not SUM or type(number) is not int or number < count or readers[number] != [k]:
                continue
            found = _cut(program.steps[number - count], total, same, ~len(self.of))
            if found is not None:
                steps[number - count], steps[k], its = found
                self.of.append(its)
        self.program = Program()
        self.program.shapes = [*program.shapes, *[(layout.shape, program.shapes[k][1]) for k, layout in self.of]]
        self.program.steps = [step._replace(sources=tuple(map(self._source, step.sources))) for step in steps]

    def _source(self, s: int | Scalar) -> int | Scalar:
        """Return a source of a rewritten step: panel `~s` for a negative number `s`, else the new number of `s`."""
        return s if type(s) is not int else self._count + ~s if s < 0 else self.number(s)

    def number(self, k: int) -> int:
        """Return the number in the rewritten program of the value with number `k`."""
        return k if k < self._count else k + len(self.of)

    def made(self, nodes: Sequence[Node]) -> list[Node]:
        """Compute the panels, given the nodes of the inputs."""
        with untracked():
            found = [Node.of(_POSITIVE, its.shape, nodes[k].dtype, (nodes[k],), (its,)) for k, its in self.of]
        realize(*found)
        return found


def _cut(product: Step, total: Step, same: Collection[int], panel: int) -> tuple[Step, Step, tuple[int, Layout]] | None:
    """Rewrite a product and the sum over it to read a matrix from panels. `panel` is the provisional, negative number of the new input.

    Return both steps, the number of the matrix, and the layout that gathers the panels. Return None unless exactly one operand is in
    `same`, or if panels would not pay.
    """
    shape, kept = product.recipe.shape, total.recipe.shape
    forms = product.recipe.forms
    if product.recipe.op is not _MULTIPLY or len(shape) != len(kept) + 1 or any(form is None for form in forms):
        return None
    if total.recipe.forms[0].layout != Layout.contiguous(shape) or total.offsets != (0,):  # type: ignore[union-attr]
        return None
    which = [k for k, s in enumerate(product.sources) if s in same]
    if len(which) != 1:
        return None
    (one,) = which
    matrix, other = (forms[k].layout.at(product.offsets[k]) for k in (one, 1 - one))  # type: ignore[union-attr]
    columns = [axis for axis, step in enumerate(matrix.strides[:-1]) if step and shape[axis] > 1]
    if not is_affine(matrix) or not is_affine(other) or len(columns) != 1 or other.strides[columns[0]] or not matrix.strides[-1]:
        return None
    (axis,) = columns
    step, further, itemsize = matrix.strides[axis], matrix.strides[-1], product.recipe.dtypes[one].itemsize
    n, k = shape[axis], shape[-1]
    if n % COLUMNS or n == COLUMNS or prod(kept) > ROWS * n or (step == 1 and further * itemsize % APART):
        return None

    def split(sizes: tuple[int, ...], first: int, second: int) -> tuple[int, ...]:
        return (*sizes[:axis], first, second, *sizes[axis + 1 :])

    cut = split(shape, n // COLUMNS, COLUMNS)
    panels = Layout((n // COLUMNS, k, COLUMNS), (step * COLUMNS, further, step), matrix.offset)
    layouts = [Layout(cut, split(other.strides, 0, 0), other.offset)] * 2
    layouts[one] = Layout(cut, (*split((0,) * (len(shape) - 1), k * COLUMNS, 1), COLUMNS))
    recipe = recipe_of(_MULTIPLY, cut, product.recipe.dtype, product.recipe.dtypes, tuple([x.form for x in layouts]))
    sources = tuple([panel if j == one else s for j, s in enumerate(product.sources)])
    own = product._replace(recipe=recipe, sources=sources, offsets=tuple([x.offset for x in layouts]))
    whole = recipe_of(SUM, split(kept, n // COLUMNS, COLUMNS), total.recipe.dtype, total.recipe.dtypes, (Layout.contiguous(cut).form,))
    number = product.sources[one]
    assert type(number) is int
    return own, total._replace(recipe=whole), (number, panels)
