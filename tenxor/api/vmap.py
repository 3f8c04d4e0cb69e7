"""`vmap`: a function vectorized over a batch, as a single computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

from ..autodiff.batching import compute_batches, view_in_batch
from ..autodiff.node_view import NodeView
from ..autodiff.tape import clone_unshared
from ..errors import ArgumentError, ShapeError, TraceError, describe_value
from ..graph.node import PLACEHOLDER, Node, is_externally_shared
from ..graph.storage import Storage
from ..layout import Layout
from ..tensor import Tensor
from ..tensor.argument_parsing import check_choice, normalize_axis
from .argument_validation import check_argument
from .creation import asarray
from .draw_scopes import BatchScope, open_scope
from .nested_structures import check_callable, list_leaves, map_leaves, prefix_trace_errors, replace_leaves

__all__ = ["vmap"]

P = ParamSpec("P")
T = TypeVar("T")
MIN_BATCH_LAST_SIZE = 16  # batch elements; with fewer the batch axis does not stay last, as they would not fill vector registers


def vmap(
    function: Callable[P, T], in_axes: int | Sequence[Any] | None = 0, out_axes: int | Sequence[int] = 0, randomness: str = "error"
) -> Callable[P, T]:
    """Return a function that applies `function` to each element of a batch, in a single computation.

    Parameters
    ----------
    function : callable
        A function of tensors, or of nested lists, tuples and dicts of tensors, that returns the same.
    in_axes : int, Sequence or None, default 0
        The batch axis of each argument, or None for an argument common to the batch elements; a single value is for every argument. An axis
        holds for every tensor of a nested argument.
    out_axes : int or Sequence[int], default 0
        The position of the batch axis in the results.
    randomness : {"error", "different", "same"}
        The draws from `tx.random`. With "different" each batch element has separate numbers, from a single draw of shape (batch, *shape).
        With "same" the elements have the same numbers. With "error" (the default) a draw raises TraceError. A generator seeded by
        `function` itself gives the same numbers to every element, as in a loop.

    Returns
    -------
    callable
        A function of positional arguments. Its results are new tensors.

    Raises
    ------
    ArgumentError
        If an argument of `vmap` is invalid, or in a call, if no argument has a batch axis or if the number of axes is wrong.
    ShapeError
        In a call, if batches have different sizes.
    TraceError
        In a call, if `function` branches on values, as in an `if`, or returns anything but tensors.

    Notes
    -----
    `function` is called once, with tensors of a batch element's shape and without values. Indexing (where `k` depends on the batch element,
    `x[k]` is a new tensor, not a view), writes in place and derivatives work. A captured tensor to which `function` writes batched values
    has no value afterwards.

    If the batch axis is the last axis (-1) of every argument, and has size 16 or more, batch elements are computed side by side in vector
    lanes. This is faster than one after another if each element is small.

    Examples
    --------
    >>> import tenxor as tx
    >>> rows = tx.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> tx.vmap(lambda row: row / row.sum())(rows * 2).tolist() == (rows / rows.sum(axis=1, keepdims=True)).tolist()
    True
    >>> tx.vmap(tx.grad(lambda x: (x**3).sum()))(rows).tolist()
    [[3.0, 12.0], [27.0, 48.0]]
    """

    check_callable("vmap", function)
    check_argument("vmap", "in_axes", in_axes, "int | None | Sequence")
    check_argument("vmap", "out_axes", out_axes, "int | Sequence")
    check_choice("vmap", "randomness", randomness, "error", "different", "same")

    def vectorized(*args: Any) -> Any:
        axes = [in_axes] * len(args) if in_axes is None or isinstance(in_axes, int) else list(in_axes)
        if len(axes) != len(args):
            raise ArgumentError(f"vmap: in_axes {describe_value(in_axes)} is for {len(axes)} arguments; the function was given {len(args)}")
        batch = _Batch()
        arguments = [
            x if axis is None else map_leaves(partial(batch.make_element, axis=axis), x) for x, axis in zip(args, axes, strict=True)
        ]
        if batch.size is None:
            raise ArgumentError("vmap: no argument has an axis to map over; at least one must; call the function itself, or give in_axes")
        draws = BatchScope(batch.size, randomness)
        with prefix_trace_errors("vmap"), open_scope(draws):
            value = cast(Callable[..., Any], function)(*arguments)
        return batch.results(value, out_axes, draws.batched_indices())

    return cast(Callable[P, T], vectorized)  # positional arguments only


class _Batch:
    """The batched arguments of a function, with their batch size `size`, None before the first.

    `placeholders` maps the placeholder for a batch element of each argument to the batched tensor and its batch axis.
    """

    def __init__(self) -> None:
        self.size: int | None = None
        self.placeholders: dict[Node, tuple[Tensor, int]] = {}  # maps a placeholder to the batched tensor and its batch axis

    def make_element(self, x: Any, axis: Any) -> Tensor:
        """Return a tensor without value, the placeholder for a batch element of `x` along `axis`, and register the placeholder.

        Raise ShapeError if the size of the axis differs from earlier batches, and AxisError if the axis does not exist.
        """
        t = asarray(x)
        batch_axis = normalize_axis("vmap", axis, t.ndim)
        size = t.shape[batch_axis]
        if self.size is not None and size != self.size:
            raise ShapeError(
                f"vmap: one batch has {self.size} members, and one of shape {t.shape} has {size} along axis {axis}; they must be equal"
            )
        self.size = size
        placeholder = Node.of(PLACEHOLDER, (*t.shape[:batch_axis], *t.shape[batch_axis + 1 :]), t.dtype)
        self.placeholders[placeholder] = t, batch_axis
        return Tensor(Storage(placeholder), Layout.contiguous(placeholder.shape), t.dtype)

    @property
    def is_batch_axis_last(self) -> bool:
        """True if the batch axis is last in every argument, and large enough for vector lanes."""
        assert self.size is not None
        return self.size >= MIN_BATCH_LAST_SIZE and all([0 < batch_axis == t.ndim - 1 for t, batch_axis in self.placeholders.values()])

    def results(self, value: Any, out_axes: int | Sequence[int], draw_batches: dict[Node, Node]) -> Any:
        """Return the results of the function for the whole batch, nested like `value`, the traced results for one batch element.

        `out_axes` is the position of the batch axis in every result, or has a position for each. `draw_batches` maps further placeholders,
        for random draws, to nodes with their values for the batch. Raise TraceError for a result that is no tensor or number, and
        ArgumentError for a wrong number of `out_axes`.
        """
        assert self.size is not None
        tensors: list[Any] = list_leaves(value)
        for k, t in enumerate(tensors):
            if isinstance(t, (bool, int, float, complex)):
                tensors[k] = asarray(t)
            elif not isinstance(t, Tensor):
                raise TraceError(
                    f"vmap: the function gave {describe_value(t)}; it must return tensors, or nested lists, tuples and dicts of them"
                )
        axes = [out_axes] * len(tensors) if isinstance(out_axes, int) else list(out_axes)
        if len(axes) != len(tensors):
            raise ArgumentError(f"vmap: out_axes {describe_value(out_axes)} is for {len(axes)} results; the function gave {len(tensors)}")
        batch_last, results = self.is_batch_axis_last, []
        nodes = {
            placeholder: _flat_node(t.moveaxis(batch_axis, -1 if batch_last else 0))
            for placeholder, (t, batch_axis) in self.placeholders.items()
        } | draw_batches
        for t, batch, axis in zip(tensors, compute_batches([t.node for t in tensors], nodes, self.size, batch_last), axes, strict=True):
            view = view_in_batch(NodeView(t.node, t.layout), batch, self.size)
            result = Tensor._from_node(clone_unshared(view.node) if is_externally_shared(view.node) else view.node)._view(view.layout)
            results.append(result.moveaxis(0, normalize_axis("vmap", axis, result.ndim)))
        return replace_leaves(value, results)


def _flat_node(t: Tensor) -> Node:
    """Return a node with the elements of `t`, in row-major order, as its whole content: the node of `t` itself if that fits."""
    is_whole = t.is_contiguous() and t.layout.offset == 0 and t.size == t.node.size
    contiguous = t if is_whole else t.copy()
    return (contiguous if contiguous.layout.is_contiguous() else contiguous.reshape(contiguous.shape)).node
