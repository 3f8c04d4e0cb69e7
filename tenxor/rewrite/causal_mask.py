"""Recognition of causal masks: the steps of a contraction (keys, in attention) with weight 0 for a row (a query) because they come later. A
contraction sums products over the steps. Steps after the last step seen by a row are unseen.

Steps of weight 0 may be skipped only where the user's code asks for it, by `where_seen`: 0 times NaN is NaN, and a user who writes weights
and products directly must see this NaN.
"""

from __future__ import annotations

from math import inf

from ..graph.node import POSITION, Node, Scalar
from ..layout import Layout
from ..ops import OPS
from ..ops.reductions import Reduction
from .attention_rows import RowSubgraph

_RESULTS_FOR_ZERO = {"multiply": 0.0, "divide": 0.0}
_RESULTS_FOR_MINUS_INF = {"subtract": -inf, "exp": 0.0}


def find_causal_reach(rows: RowSubgraph) -> int | None:
    """Return the reach of a causal mask in `rows`: row `r` sees the steps 0 to `r` + reach. The reach is 0 or more.

    Return None if later steps may have a weight other than 0. A reduction over the steps must be a maximum of -inf or a sum of 0 at these
    steps; otherwise the result is None, too.
    """
    reach: int | None = None
    values: dict[Node, float | None] = {}  # the value of each node at unseen steps, if known: -inf or 0
    for node in rows.order[:-2]:
        if isinstance(node.op, Reduction):
            if rows.step_axis in rows.find_reduced_axes(node):
                (source,) = node.sources
                source_value = values.get(source) if type(source) is Node else None
                if (node.op.name, source_value) not in (("max", -inf), ("sum", 0.0)):
                    return None
        elif rows.step_axis in rows.axes[node]:
            mask_reach = _match_mask(node, rows) if reach is None else None
            if mask_reach is not None:
                reach, values[node] = mask_reach, -inf
            else:
                values[node] = _infer_value(node, values, rows)
    return reach if values.get(rows.weights) == 0 else None


def _match_mask(node: Node, rows: RowSubgraph) -> int | None:
    """Return the reach if `node` is a `where_seen` with the scalar -inf at the steps after `r` + reach in row `r`; otherwise None.

    The condition must compare two counters, of the steps and of the rows, and have rows and steps as its last axes. `rows` gives the axes.
    A negative reach gives None.
    """
    if node.op is not OPS["where_seen"]:
        return None
    condition, _, otherwise = node.sources
    if type(otherwise) is not Scalar or otherwise.value != -inf or type(condition) is not Node:
        return None
    if rows.axes.get(condition, ())[-2:] != (rows.row_axis, rows.step_axis):
        return None
    ndim = len(condition.shape)
    counters = [_match_counter(s, x, ndim) for s, x in zip(condition.sources, condition.layouts, strict=True)]
    if condition.op is OPS["greater_equal"]:
        counters.reverse()
    elif condition.op is not OPS["less_equal"]:
        return None
    step, row = counters
    if step is None or row is None or (step[0], row[0]) != (ndim - 1, ndim - 2) or row[1] < step[1]:
        return None
    return row[1] - step[1]


def _match_counter(source: Node | Scalar, layout: Layout | None, ndim: int) -> tuple[int, int] | None:
    """Return the only axis along which `source`, read through `layout`, counts up by 1, and the value at index 0, as a pair of integers.

    `source` is an operand of the comparison that makes a mask. The layout must have `ndim` axes, and stride 0 along the rest. Return None
    for a source with an operation other than `POSITION`, or a layout of another form.
    """
    if type(source) is not Node or source.op is not POSITION or layout is None or layout.base is not None:
        return None
    if layout.tables is not None or sorted(layout.strides) != [0] * (ndim - 1) + [1]:
        return None
    return layout.strides.index(1), layout.offset


def _infer_value(node: Node, values: dict[Node, float | None], rows: RowSubgraph) -> float | None:
    """Return the value of an elementwise node at unseen steps, -inf or 0, or None if the value is unknown.

    `values` holds the values of nodes before, and `rows` gives the axes of the nodes. The first operand must have a known value at these
    steps, and the remaining operands must be the same for every step of a row. They are taken to be finite, and divisors not 0.
    """
    operand, *other_operands = node.sources
    if type(operand) is not Node or any(type(s) is Node and (s not in rows.axes or rows.step_axis in rows.axes[s]) for s in other_operands):
        return None
    operand_value = values.get(operand)
    if operand_value is None:
        return None
    return (_RESULTS_FOR_ZERO if operand_value == 0 else _RESULTS_FOR_MINUS_INF).get(node.op.name)
