"""Functions recorded as a single step of the tape, `checkpoint` and `custom_derivative`: their residuals and derivative do not come from
the operations inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

from ..autodiff.formula_derivatives import is_smooth
from ..autodiff.function_op import record_function
from ..autodiff.grad_rule import TapeNodeLike
from ..autodiff.layout_adjoint import Cotangent, apply_adjoint
from ..autodiff.node_view import DeferredTerm, NodeView
from ..autodiff.reverse import compute_at_boundary, detach_segment, find_segment_inputs
from ..autodiff.tape import TapeNode, TapeSource, clone_unshared, get_tape_node
from ..errors import ArgumentError, DerivativeError, ShapeError
from ..graph.node import disable_tape, is_externally_shared, next_serial, tape_mode
from ..graph.storage import Storage
from ..runtime.realize import realize
from ..tensor import Tensor
from .creation import asarray
from .differentiation import enable_grad
from .draw_scopes import RecordingScope, make_replaying_scope, open_scope
from .nested_structures import check_arguments, check_callable, list_leaves, map_leaves

__all__ = ["checkpoint", "custom_derivative"]

P = ParamSpec("P")
T = TypeVar("T")
Function = Callable[..., Any]


def checkpoint(function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Return `function(*args, **named)`, saving only the arguments for derivatives: the backward pass calls the function again.

    Parameters
    ----------
    function : callable
        `function` must give equal results when called again; draws from `tx.random`, by any generator, are repeated then. Writes to the
        arguments inside the function are not visible outside. The function may capture tensors that require gradients.
    *args, **named
        Arguments of `function`: tensors, nested lists, tuples and dicts of them, or any other values.

    Returns
    -------
    object
        The value of `function`. Tensors in it are computed at the call if derivatives are recorded.

    Raises
    ------
    ArgumentError
        If `function` cannot be called with the arguments.
    DerivativeError
        In the backward pass, if the second call gives different shapes.

    Notes
    -----
    A deep network of checkpointed blocks needs memory for a single block at a time, and is computed twice. Inside `tx.vmap` the function is
    called once, and everything is saved.

    References
    ----------
    T. Chen et al.: Training deep nets with sublinear memory cost, 2016 (arXiv:1604.06174).

    Examples
    --------
    >>> import tenxor as tx
    >>> block = lambda x: tx.tanh(tx.exp(-x) * x)
    >>> x = tx.asarray([0.5, 1.0])
    >>> plain, saving = [tx.grad(f)(x) for f in (lambda x: block(x).sum(), lambda x: tx.checkpoint(block, x).sum())]
    >>> plain.tolist() == saving.tolist()
    True
    """
    check_callable("checkpoint", function)
    check_arguments("checkpoint", function, args, named)
    saved_args: list[Any] = map_leaves(_snapshot, list(args))  # with the present contents

    def call() -> T:
        return function(*map_leaves(_snapshot, saved_args), **named)  # the function may write to its arguments

    if not tape_mode.get():
        return call()
    oldest, record = next_serial(), RecordingScope()
    with open_scope(record):
        value: T = call()
    results = [t for t in list_leaves(value) if isinstance(t, Tensor)]
    nodes = [t.storage.node for t in results]
    if any([node.is_traced for node in nodes]):  # `vmap` differentiates through the traced nodes
        return value
    sources = find_segment_inputs(nodes, oldest)
    realize(*nodes)  # computed now, so that the inputs of the results can be freed
    for node in nodes:
        detach_segment(node, oldest, even_if_older=True)

    def pull(_: TapeNodeLike, result_cotangents: list[NodeView], wanted: Sequence[int]) -> Sequence[tuple[int, Cotangent]]:
        with enable_grad(), open_scope(make_replaying_scope("checkpoint", record)):
            second_value = call()
        second_nodes = [t.storage.node for t in list_leaves(second_value) if isinstance(t, Tensor)]
        if [node.shape for node in second_nodes] != [node.shape for node in nodes]:
            raise DerivativeError("checkpoint: the function gave results of other shapes when it was called again; it must give the same")
        tape_nodes: dict[int, TapeNode] = {k: tape_node for k in wanted if (tape_node := get_tape_node(sources[k])) is not None}
        smooth = [node for node in second_nodes if is_smooth(node.dtype)]
        edge = {tape_node for source in sources if (tape_node := get_tape_node(source)) is not None}
        cotangents = compute_at_boundary(list(zip(smooth, result_cotangents, strict=True)), set(tape_nodes.values()), edge)
        return [(k, cotangents[tape_node]) for k, tape_node in tape_nodes.items() if tape_node in cotangents]

    recorded = record_function("checkpoint", nodes, sources, pull, recomputes=True)
    tensors = [Tensor(Storage(node), t.layout, t.dtype) for node, t in zip(recorded, results, strict=True)]
    remaining = iter(tensors)
    result: T = map_leaves(lambda t: next(remaining) if isinstance(t, Tensor) else t, value)
    return result


def custom_derivative(function: Callable[P, T], backward: Function) -> Callable[P, T]:
    """Return `function` with a user-defined derivative.

    Parameters
    ----------
    function : callable
        A function of positional arguments, which may also be given by keyword. Neither `function` nor captured tensors are differentiated.
    backward : callable
        `backward(gradient, value, *args)` takes the cotangent of the value, nested like the value, the value itself and the arguments.
        `backward` returns the cotangent of the argument, nested like the argument, or for several arguments a tuple with an entry for each.
        None stands for 0, and for an argument without tensors. An expensive cotangent may be given as a function without arguments, called
        only if the cotangent is wanted.

    Returns
    -------
    callable
        A function of the positional arguments of `function`, with the same value. The tensors in the value are new.

    Raises
    ------
    ArgumentError
        If `function` or `backward` is not callable; in a call, for a keyword argument without a position; in the backward pass, for a wrong
        number of cotangents.
    ShapeError
        In the backward pass, for a cotangent of another shape than the argument.

    Examples
    --------
    >>> import tenxor as tx
    >>> rounded = tx.custom_derivative(tx.round, lambda gradient, value, x: gradient)
    >>> tx.grad(lambda x: (rounded(x) * x).sum())(tx.asarray([1.2, 2.9])).tolist()
    [2.2, 5.9]
    """

    check_callable("custom_derivative", function)
    check_callable("custom_derivative", backward)
    plain_function = cast(Function, function)

    def call(*args: Any, **named: Any) -> Any:
        args = _order_by_position(plain_function, args, named) if named else args
        tensors = [x for x in list_leaves(list(args)) if isinstance(x, Tensor)]
        saved_args, record = map_leaves(_snapshot, list(args)), RecordingScope()
        with disable_tape(), open_scope(record):
            value = map_leaves(_copy_if_overlapping, plain_function(*map_leaves(_detach, saved_args)))
        results = [t for t in list_leaves(value) if isinstance(t, Tensor)]
        sources: list[TapeSource] = [t.node for t in tensors]

        def pull(_: TapeNodeLike, result_cotangents: list[NodeView], wanted: Sequence[int]) -> Sequence[tuple[int, Cotangent]]:
            remaining = iter(result_cotangents)
            g = map_leaves(lambda t: _cotangent_tensor(next(remaining), t) if isinstance(t, Tensor) and is_smooth(t.dtype) else None, value)
            needs_rerun = any([t.node.is_traced or (tape_mode.get() and get_tape_node(t.node) is not None) for t in tensors])
            known_value = value
            if needs_rerun:  # so that results computed from the value have derivatives, too
                with open_scope(make_replaying_scope("custom_derivative", record)):
                    known_value = call(*saved_args)
            user_cotangents = backward(g, known_value, *saved_args)
            user_cotangents = user_cotangents if isinstance(user_cotangents, (tuple, list)) and len(args) != 1 else [user_cotangents]
            if len(user_cotangents) != len(args):
                raise ArgumentError(
                    f"custom_derivative: backward returned {len(user_cotangents)} cotangents for {len(args)} arguments; it must return one"
                    " for each,"
                    " or None in the place of a cotangent that is 0"
                )
            cotangents: list[tuple[int, Cotangent]] = []
            flat: list[Any] = []
            for x, c in zip(args, user_cotangents, strict=True):
                flat += _match_cotangents(x, c, [k - len(flat) for k in wanted])
            for k in wanted:
                t, c = tensors[k], flat[k]
                if c is not None:
                    cotangents.append((k, apply_adjoint(t.layout, DeferredTerm.of(_convert_cotangent(c, t)), t.node.size)))
            return cotangents

        recorded = record_function("custom_derivative", [t.storage.node for t in results], sources, pull)
        remaining = iter([Tensor(Storage(node), t.layout, t.dtype) for node, t in zip(recorded, results, strict=True)])
        return map_leaves(lambda t: next(remaining) if isinstance(t, Tensor) else t, value)

    return cast(Callable[P, T], call)


def _order_by_position(function: Function, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """Return all arguments of the call `function(*args, **named)` as a tuple, in the order of the parameters.

    Defaults are not filled in. Raise ArgumentError if the call does not fit the parameters, or for an argument without a position: one that
    is keyword-only, or that follows an omitted parameter.
    """
    from inspect import signature

    try:
        bound = signature(function).bind(*args, **named)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"custom_derivative: the function cannot be called with these arguments: {error}; they must fit its signature"
        ) from None
    if bound.kwargs:
        raise ArgumentError(
            f"custom_derivative: argument {next(iter(bound.kwargs))!r} has no position: it is keyword-only or follows a missing one;"
            " the function must take positional arguments"
        )
    return bound.args


def _snapshot(x: Any) -> Any:
    """Return a new tensor with the present content and tape node of `x`, in memory that is not externally shared.

    An `x` that is no tensor is returned unchanged.
    """
    if not isinstance(x, Tensor):
        return x
    node = x.storage.node
    return Tensor(Storage(clone_unshared(node) if is_externally_shared(node) else node), x.layout, x.dtype)


def _copy_if_overlapping(x: Any) -> Any:
    """Return `x`, or a copy if `x` is a tensor with an element at several positions."""
    return x.copy() if isinstance(x, Tensor) and not x.layout.is_injective() else x


def _detach(x: Any) -> Any:
    """Return `x.detach()` if `x` is a tensor, and otherwise `x`."""
    return x.detach() if isinstance(x, Tensor) else x


def _cotangent_tensor(view: NodeView, like: Tensor) -> Tensor:
    """Return `view`, the cotangent of a storage's whole content, as a tensor: the cotangent of `like`, a view of the content."""
    cotangent = view.view_through(like.layout)
    return Tensor._from_node(cotangent.node)._view(cotangent.layout)


def _match_cotangents(x: Any, c: Any, wanted: Sequence[int]) -> list[Any]:
    """Return a list with the cotangent of each tensor in the argument `x`, or None for 0. `c` is the user's cotangent of `x`.

    If `c` is a function, `c` is called only if `wanted` has the index of a tensor of `x`; index 0 is the first tensor of `x`. Raise
    ArgumentError if `c` is not nested like `x`.
    """
    count = len([t for t in list_leaves([x]) if isinstance(t, Tensor)])
    if callable(c):
        c = c() if any([0 <= k < count for k in wanted]) else None
    leaves = [None] * count if c is None else list_leaves([c])
    if len(leaves) != count:
        raise ArgumentError(
            f"custom_derivative: backward returned {len(leaves)} cotangents for an argument of {count} tensors; both must be nested alike"
        )
    return leaves


def _convert_cotangent(c: Any, t: Tensor) -> NodeView:
    """Return the user's cotangent `c` for the argument `t`, in the dtype of `t`. Raise ShapeError if the shapes differ."""
    c = asarray(c)
    if c.shape != t.shape:
        raise ShapeError(
            f"custom_derivative: backward gave a cotangent of shape {c.shape} for an argument of shape {t.shape}; they must be equal"
        )
    c = c.astype(t.dtype, copy=False)
    return NodeView(c.node, c.layout)
