"""Functions recorded as a single step of the tape, `checkpoint` and `custom_derivative`: their residuals and derivative do not come from
the operations inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

from ..creation import asarray
from ..derivatives.adjoint import Part, adjoint
from ..derivatives.calls import called
from ..derivatives.leaves import own_copy
from ..derivatives.partials import is_smooth
from ..derivatives.reverse import cotangents_at, edge_of, forget
from ..derivatives.rule import Making
from ..derivatives.seen import Seen, Term
from ..errors import ArgumentError, DerivativeError, ShapeError
from ..node import is_pinned, next_number, tracking, untracked
from ..past import Kept, Past, past_of
from ..realize import realize
from ..storage import Storage
from ..tensor import Tensor
from .differentiation import enable_grad
from .draws import Recorded, replayed, within
from .trees import check_arguments, check_called, leaves_of, mapped

__all__ = ["checkpoint", "custom_derivative"]

P = ParamSpec("P")
T = TypeVar("T")
Function = Callable[..., Any]


def checkpoint(function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Return `function(*args, **named)`, saving only the arguments for derivatives: the backward pass calls the function again.

    So a deep network needs memory for a single block at a time, and is computed twice. The function must give equal results when called
    again; draws from `tx.random`, by whatever generator, are repeated then. Writes to the arguments inside the function are not visible
    outside. The function may capture tensors that require gradients. Inside `tx.vmap` the function is called once, and everything is saved.
    If derivatives are recorded, the result is computed at the call. In the backward pass, DerivativeError is raised if the second call
    gives different shapes.

    >>> import tenxor as tx
    >>> block = lambda x: tx.tanh(tx.exp(-x) * x)
    >>> x = tx.asarray([0.5, 1.0])
    >>> plain, saving = [tx.grad(f)(x) for f in (lambda x: block(x).sum(), lambda x: tx.checkpoint(block, x).sum())]
    >>> plain.tolist() == saving.tolist()
    True

    T. Chen et al.: Training deep nets with sublinear memory cost, 2016 (arXiv:1604.06174).
    """
    check_called("checkpoint", function)
    check_arguments("checkpoint", function, args, named)
    saved_args: list[Any] = mapped(_snapshot, list(args))  # with the present contents

    def call() -> T:
        return function(*mapped(_snapshot, saved_args), **named)  # the function may write to its arguments

    if not tracking.get():
        return call()
    oldest, record = next_number(), Recorded()
    with within(record):
        value: T = call()
    results = [t for t in leaves_of(value) if isinstance(t, Tensor)]
    nodes = [t.storage.node for t in results]
    if any([node.traced for node in nodes]):  # `vmap` differentiates through the traced nodes
        return value
    sources = edge_of(nodes, oldest)
    realize(*nodes)  # computed now, so that the inputs of the results can be freed
    for node in nodes:
        forget(node, oldest, all_of_it=True)

    def pull(_: Making, result_cotangents: list[Seen], wanted: Sequence[int]) -> Sequence[tuple[int, Part]]:
        with enable_grad(), within(replayed("checkpoint", record)):
            second_value = call()
        second_nodes = [t.storage.node for t in leaves_of(second_value) if isinstance(t, Tensor)]
        if [node.shape for node in second_nodes] != [node.shape for node in nodes]:
            raise DerivativeError("checkpoint: the function gave results of other shapes when it was called again; it must give the same")
        pasts: dict[int, Past] = {k: past for k in wanted if (past := past_of(sources[k])) is not None}
        smooth = [node for node in second_nodes if is_smooth(node.dtype)]
        edge = {past for source in sources if (past := past_of(source)) is not None}
        cotangents = cotangents_at(list(zip(smooth, result_cotangents, strict=True)), set(pasts.values()), edge)
        return [(k, cotangents[past]) for k, past in pasts.items() if past in cotangents]

    recorded = called("checkpoint", nodes, sources, pull, again=True)
    tensors = [Tensor(Storage(node), t.layout, t.dtype) for node, t in zip(recorded, results, strict=True)]
    remaining = iter(tensors)
    result: T = mapped(lambda t: next(remaining) if isinstance(t, Tensor) else t, value)
    return result


def custom_derivative(function: Callable[P, T], backward: Function) -> Callable[P, T]:
    """Return `function` with a user-defined derivative.

    `backward(gradient, value, *args)` takes the cotangent of the value, nested like the value, the value itself and the arguments. The
    result must be the cotangent of the argument, or for several arguments a tuple with an entry for each; None stands for 0. An expensive
    cotangent may be given as a function without arguments, called only if the cotangent is wanted. Neither `function` nor captured tensors
    are differentiated. In the backward pass, ArgumentError is raised for a wrong number of cotangents, and ShapeError for a cotangent of
    another shape than the argument.

    >>> import tenxor as tx
    >>> rounded = tx.custom_derivative(tx.round, lambda gradient, value, x: gradient)
    >>> tx.grad(lambda x: (rounded(x) * x).sum())(tx.asarray([1.2, 2.9])).tolist()
    [2.2, 5.9]
    """

    check_called("custom_derivative", function)
    check_called("custom_derivative", backward)
    plain_function = cast(Function, function)

    def call(*args: Any) -> Any:
        tensors = [x for x in leaves_of(list(args)) if isinstance(x, Tensor)]
        saved_args, record = mapped(_snapshot, list(args)), Recorded()
        with untracked(), within(record):
            value = mapped(_copy_if_overlapping, plain_function(*mapped(_detach, saved_args)))
        results = [t for t in leaves_of(value) if isinstance(t, Tensor)]
        sources: list[Kept] = [t.node for t in tensors]

        def pull(_: Making, result_cotangents: list[Seen], wanted: Sequence[int]) -> Sequence[tuple[int, Part]]:
            remaining = iter(result_cotangents)
            g = mapped(lambda t: _cotangent_tensor(next(remaining), t) if isinstance(t, Tensor) and is_smooth(t.dtype) else None, value)
            needs_rerun = any([t.node.traced or (tracking.get() and past_of(t.node) is not None) for t in tensors])
            known_value = value
            if needs_rerun:  # so that results computed from the value have derivatives, too
                with within(replayed("custom_derivative", record)):
                    known_value = call(*saved_args)
            user_cotangents = backward(g, known_value, *saved_args)
            user_cotangents = user_cotangents if isinstance(user_cotangents, (tuple, list)) and len(args) != 1 else [user_cotangents]
            if len(user_cotangents) != len(args):
                raise ArgumentError(
                    f"custom_derivative: backward gave {len(user_cotangents)} cotangents for {len(args)} arguments; give one for each,"
                    " or None"
                )
            cotangents: list[tuple[int, Part]] = []
            flat: list[Any] = []
            for x, c in zip(args, user_cotangents, strict=True):
                flat += _match_cotangents(x, c, [k - len(flat) for k in wanted])
            for k in wanted:
                t, c = tensors[k], flat[k]
                if c is not None:
                    cotangents.append((k, adjoint(t.layout, Term.of(_convert_cotangent(c, t)), t.node.size)))
            return cotangents

        recorded = called("custom_derivative", [t.storage.node for t in results], sources, pull)
        remaining = iter([Tensor(Storage(node), t.layout, t.dtype) for node, t in zip(recorded, results, strict=True)])
        return mapped(lambda t: next(remaining) if isinstance(t, Tensor) else t, value)

    return cast(Callable[P, T], call)  # positional arguments only


def _snapshot(x: Any) -> Any:
    """Return a tensor with the present content and tape node of `x`, in memory that is not externally shared. An `x` that is no tensor is
    returned unchanged.
    """
    if not isinstance(x, Tensor):
        return x
    node = x.storage.node
    return Tensor(Storage(own_copy(node) if is_pinned(node) else node), x.layout, x.dtype)


def _copy_if_overlapping(x: Any) -> Any:
    """Return `x`, or a copy if `x` is a tensor with an element at several positions."""
    return x.copy() if isinstance(x, Tensor) and not x.layout.is_injective() else x


def _detach(x: Any) -> Any:
    return x.detach() if isinstance(x, Tensor) else x


def _cotangent_tensor(view: Seen, like: Tensor) -> Tensor:
    """Return the cotangent of a content as the cotangent of `like`, a tensor that views the content."""
    cotangent = view.through(like.layout)
    return Tensor._of(cotangent.node)._view(cotangent.layout)


def _match_cotangents(x: Any, c: Any, wanted: Sequence[int]) -> list[Any]:
    """Return the cotangents of the tensors in argument `x`, None for 0. `c` is the user's cotangent. If `c` is a function, `c` is called
    only if `wanted` has the index of such a tensor.
    """
    count = len([t for t in leaves_of([x]) if isinstance(t, Tensor)])
    if callable(c):
        c = c() if any([0 <= k < count for k in wanted]) else None
    leaves = [None] * count if c is None else leaves_of([c])
    if len(leaves) != count:
        raise ArgumentError("custom_derivative: a cotangent must be nested as its argument")
    return leaves


def _convert_cotangent(c: Any, t: Tensor) -> Seen:
    """Return the user's cotangent for the argument `t`, in the dtype of `t`. Raise ShapeError if the shapes differ."""
    c = asarray(c)
    if c.shape != t.shape:
        raise ShapeError(
            f"custom_derivative: backward gave a cotangent of shape {c.shape} for an argument of shape {t.shape}; they must be equal"
        )
    c = c.astype(t.dtype, copy=False)
    return Seen(c.node, c.layout)
