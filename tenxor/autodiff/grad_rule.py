"""Differentiation rules: the type of a rule for a kind of recipe, and helper functions shared by the rules. The content of a node or tape
node is the elements computed, in row-major order, and a source is an operand. A residual is a value that the derivative reads.

A rule has three functions. `residuals_of` determines the residuals. `vjp` takes a tape node and the cotangent of its content in the
content's shape. Further arguments are the indices of the wanted sources, and the graph node if the rule reads the result. It yields the
sources' cotangents with the indices. `jvp` takes the tangents of sources, by index, in the sources' shapes, and returns the tangent of the
content. A linear operation is applied to the tangent in the same way as to the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from .._utils.records import NamedTuple
from ..dtypes import DType
from ..graph.node import Node, Recipe, Residuals
from ..layout import Layout
from ..ops import OPS
from .layout_adjoint import Cotangent, apply_adjoint
from .node_view import DeferredTerm, NodeView, apply_op


class TapeNodeLike(Protocol):
    """The interface of a tape node (`TapeNode`) as used by rules.

    `layouts` has the layout through which the operation reads each source, or None for a number. `target` is the layout through which a
    store, a scatter or a scan writes. `offsets` are the offsets of `layouts`, and last the offset of `target`, unless None.
    """

    recipe: Recipe
    sources: tuple[Any, ...]
    offsets: tuple[int, ...]

    @property
    def layouts(self) -> tuple[Layout | None, ...]: ...

    @property
    def target(self) -> Layout: ...


CotangentIterator = Iterator[tuple[int, Cotangent]]
SourceTangents = Mapping[int, NodeView]
_REAL = OPS["real"]
SUM_NAMES = ("sum", "sum_in_width")  # linear reductions


def _always_replayable(recipe: Recipe) -> bool:
    """Return True for every `recipe`: the default of `GradRule.can_replay`, as the nodes of most rules follow from the recipe alone."""
    return True


class GradRule(NamedTuple):
    """The derivative of a kind of recipe: functions with the arguments below.

    `residuals_of(recipe, tracked)` returns flags for the residuals, the values that `vjp` and `jvp` read (`Residuals`). Item k of `tracked`
    says whether source k is on the tape.

    `vjp(tape_node, g, wanted, result)` is the VJP: it yields pairs (k, cotangent of the content of source k) for k in `wanted`. Several
    pairs of a source add up; a source without a pair has the cotangent 0. `g` is the cotangent of the content of `tape_node`.

    `jvp(tape_node, source_tangents, result)` is the JVP: the tangent of the content of `tape_node`, or None for 0. `source_tangents` maps k
    to the tangent of source k; a source without an entry has the tangent 0.

    `result` is the graph node of `tape_node`, or None if the residuals leave out the result.

    `can_replay(recipe)` returns whether the nodes made by `vjp` and `jvp` follow from the recipe alone. False stands for a function of the
    user, and for a VJP that computes values.
    """

    residuals_of: Callable[[Recipe, tuple[bool, ...]], Residuals]
    vjp: Callable[[TapeNodeLike, NodeView, Sequence[int], Node | None], CotangentIterator]
    jvp: Callable[[TapeNodeLike, SourceTangents, Node | None], NodeView | None]
    can_replay: Callable[[Recipe], bool] = _always_replayable


def convert_cotangent(x: NodeView, dtype: DType) -> NodeView:
    """Return the cotangent `x` converted to `dtype`, the dtype of the content; `x` itself if it has this dtype. For real content, only the
    real part of a complex `x` is kept.
    """
    if x.dtype.is_complex and not dtype.is_complex:
        x = apply_op(_REAL, [x])
    return x.cast(dtype)


def view_source(tape_node: TapeNodeLike, k: int) -> NodeView:
    """Return the value of source `k` of the tape node `tape_node`, viewed through the layout by which the operation reads it. The source
    must be a residual, and no number.
    """
    node, layout = tape_node.sources[k], tape_node.layouts[k]
    assert type(node) is Node and layout is not None
    return NodeView(node, layout)


def get_source_size(tape_node: TapeNodeLike, k: int) -> int:
    """Return the number of elements of the content of source `k` of the tape node `tape_node`: of the whole source, not of the part read.
    The source must be a node or a tape node, no number and not None.
    """
    source: Any = tape_node.sources[k]
    size: int = source.size if type(source) is Node else source.recipe.size
    return size


def get_source_dtype(tape_node: TapeNodeLike, k: int) -> DType:
    """Return the dtype of source `k` of the tape node `tape_node`."""
    dtype: DType = tape_node.recipe.dtypes[k]
    return dtype


def pull_to_source(tape_node: TapeNodeLike, k: int, term: DeferredTerm) -> Cotangent:
    """Return the cotangent of the content of source `k` of the tape node `tape_node`, given the cotangent `term` of the elements read.

    `term` has the shape in which the operation reads the source. The result has the dtype of the source. A whole cotangent may differ in
    shape from the source, with the elements in the same order, and the cotangent may be partial (`apply_adjoint`). Source `k` must not be a
    number.
    """
    layout = tape_node.layouts[k]
    assert layout is not None
    if term.dtype is not get_source_dtype(tape_node, k):
        term = DeferredTerm.of(convert_cotangent(term.to_view(), get_source_dtype(tape_node, k)))
    return apply_adjoint(layout, term, get_source_size(tape_node, k))


def read_tangent(tape_node: TapeNodeLike, k: int, tangent: NodeView) -> NodeView:
    """Return the tangent of the elements that the tape node `tape_node` reads of source `k`, given `tangent`, the tangent of the source's
    whole content. The result is a view, in the shape in which the operation reads the source. Source `k` must not be a number.
    """
    layout = tape_node.layouts[k]
    assert layout is not None
    return tangent.view_through(layout)
