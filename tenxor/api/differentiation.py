"""Derivatives of functions: transformations that take a function of tensors, and return a new function or values.

Arguments and results may be nested lists, tuples and dicts of tensors. The functions may use every operation on tensors, including in-place
writes. Captured tensors are constant, unless an outer derivative is taken with respect to them. The transformations can be nested in every
order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, ParamSpec, TypeVar, overload

from ..autodiff.formula_derivatives import is_smooth
from ..autodiff.forward import compute_tangents
from ..autodiff.layout_adjoint import make_root
from ..autodiff.node_view import NodeView, full_view
from ..autodiff.reverse import compute_cotangents, detach_segment
from ..autodiff.tape import TapeNode
from ..autodiff.tape_leaves import make_leaf
from ..dtypes import result_type
from ..errors import ArgumentError, DTypeError, ShapeError, describe_value
from ..graph.node import tape_mode, use_tape_mode
from ..graph.storage import Storage
from ..tensor import Tensor
from ..tensor.argument_parsing import check_flag
from .argument_validation import describe_with_type
from .creation import asarray, eye, ones, zeros
from .nested_structures import check_callable, list_leaves, map_leaves, replace_leaves, structure_key

__all__ = ["enable_grad", "grad", "hessian", "jacobian", "jvp", "no_grad", "value_and_grad", "vjp"]

P = ParamSpec("P")
T = TypeVar("T")  # the value of a function
Aux = TypeVar("Aux")  # auxiliary output
Function = Callable[..., Any]


@contextmanager
def no_grad() -> Iterator[None]:
    """Record no derivatives inside this context: `with tx.no_grad(): w -= 0.1 * w.grad`.

    Results are constants. The context is also a decorator. An unrecorded write to a tensor that requires a gradient replaces the value, and
    the tensor still requires a gradient. The context applies to this thread only.

    Examples
    --------
    >>> import tenxor as tx
    >>> w = tx.asarray([1.0, 2.0]).requires_grad_()
    >>> (w * w).sum().backward()
    >>> with tx.no_grad():
    ...     w -= 0.5 * w.grad
    >>> w.tolist(), w.is_leaf
    ([0.0, 0.0], True)
    """
    with use_tape_mode(False):
        yield


@contextmanager
def enable_grad() -> Iterator[None]:
    """Record derivatives inside this context, also within `no_grad`. The context applies to this thread only, and is also a decorator.

    Examples
    --------
    >>> import tenxor as tx
    >>> x = tx.ones(1).requires_grad_()
    >>> with tx.no_grad():
    ...     with tx.enable_grad():
    ...         y = 2 * x
    >>> y.requires_grad
    True
    """
    with use_tape_mode():
        yield


def value_and_grad(function: Callable[P, T], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[P, tuple[T, Any]]:
    """Return a function that computes the value of `function`, which must be a real number, and the gradient.

    Parameters
    ----------
    function : callable
        A function of tensors, or of nested lists, tuples and dicts of tensors. `function` returns a real tensor of one element.
    argnums : int or Sequence[int], default 0
        Numbers of the positional arguments with respect to which the gradient is taken. Negative numbers count from the last.
    has_aux : bool, default False
        Whether `function` returns a pair, of which only the first is differentiated.

    Returns
    -------
    callable
        A function with the parameters of `function` that returns the value, or with `has_aux` the pair, and the gradient. The gradient is
        nested like the argument. For a sequence `argnums`, the gradient is a tuple with one entry for each argument.

    Raises
    ------
    ArgumentError
        If `argnums` names an argument that does not exist, or an argument twice; if `function` returns no pair with `has_aux`.
    DTypeError
        If the arguments `argnums` are not floating-point or complex.
    ShapeError
        If the value is not a single real number.

    Notes
    -----
    Arguments have values inside `function`: `if`, `float(x)` and `x.item()` work. Results computed from a Python number obtained in this
    way are constant.

    Examples
    --------
    >>> import tenxor as tx
    >>> value, gradient = tx.value_and_grad(lambda x: (x**2).sum())(tx.asarray([1.0, 3.0]))
    >>> value.item(), gradient.tolist()
    (10.0, [2.0, 6.0])
    """
    numbers, has_aux = _check_argnums("grad", function, argnums), check_flag("has_aux", has_aux)

    def both(*args: P.args, **named: P.kwargs) -> tuple[T, Any]:
        with _DerivativeScope("grad", args, numbers) as scope:
            result = function(*scope.args, **named)
            value: Any = _take_differentiated("grad", result) if has_aux else result
            _check_scalar("grad", value)
            gradients = scope.backward_pass([value], [ones(value.shape, dtype=value.dtype)])
            scope.detach_results(result)
        nested = scope.nest_like_arguments(gradients)
        return result, nested[0] if isinstance(argnums, int) else tuple(nested)

    return both


def grad(function: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[P, Any]:
    """Return a function that computes the gradient of `function`, whose value must be a real number.

    Parameters
    ----------
    function : callable
        A function of tensors, or of nested lists, tuples and dicts of tensors. `function` returns a real tensor of one element.
    argnums : int or Sequence[int], default 0
        Numbers of the positional arguments with respect to which the gradient is taken. Negative numbers count from the last.
    has_aux : bool, default False
        Whether `function` returns a pair, of which only the first is differentiated.

    Returns
    -------
    callable
        A function with the parameters of `function` that returns the gradient, nested like the argument, or for a sequence `argnums` a
        tuple of gradients. With `has_aux`, the result is a pair of the gradient and the second item of the value.

    Raises
    ------
    ArgumentError, DTypeError, ShapeError
        As in `tx.value_and_grad`.

    Examples
    --------
    >>> import tenxor as tx
    >>> cube = lambda x: x**3
    >>> tx.grad(tx.grad(cube))(tx.asarray(2.0)).item()
    12.0
    """
    both = value_and_grad(function, argnums, has_aux)

    def gradient(*args: P.args, **named: P.kwargs) -> Any:
        result, gradients = both(*args, **named)
        return (gradients, result[1]) if has_aux else gradients

    return gradient


@overload
def vjp(function: Callable[..., T], *primals: Any, has_aux: Literal[False] = False) -> tuple[T, Callable[[Any], tuple[Any, ...]]]: ...
@overload
def vjp(
    function: Callable[..., tuple[T, Aux]], *primals: Any, has_aux: Literal[True]
) -> tuple[T, Callable[[Any], tuple[Any, ...]], Aux]: ...


def vjp(function: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return the value of `function` at the primals, and a function that computes vector-Jacobian products.

    Parameters
    ----------
    function : callable
        Function with a value of floating-point or complex tensors, perhaps in nested lists, tuples and dicts.
    *primals : Tensor, or nested lists, tuples and dicts of them
        Floating-point or complex arguments of `function`.
    has_aux : bool, default False
        Whether `function` returns a pair, of which only the first is differentiated.

    Returns
    -------
    value : Tensor, or nested lists, tuples and dicts of them
        The value of `function`, or with `has_aux` the first item of the pair.
    back : callable
        A function that maps a cotangent of the value, nested like the value, to a tuple of the cotangents of the primals. `back` can be
        called several times. `back` raises ArgumentError for a cotangent that is not nested like the value, and ShapeError for a wrong
        shape.
    aux : object
        The second item of the pair, with `has_aux` only.

    Raises
    ------
    DTypeError
        If a primal or the value is not floating-point or complex.

    Examples
    --------
    >>> import tenxor as tx
    >>> value, back = tx.vjp(lambda x: x * x, tx.asarray([1.0, 2.0]))
    >>> back(tx.asarray([1.0, 10.0]))[0].tolist()
    [2.0, 40.0]
    """
    check_callable("vjp", function)
    has_aux = check_flag("has_aux", has_aux)
    with _DerivativeScope("vjp", primals, range(len(primals))) as scope:
        result = function(*scope.args)
    value = _take_differentiated("vjp", result) if has_aux else result
    results = _result_tensors("vjp", value)

    def back(value_cotangents: Any) -> tuple[Any, ...]:
        if structure_key(value_cotangents) != structure_key(value):
            raise ArgumentError(
                f"vjp: the cotangents are {describe_value(value_cotangents)}; they must be nested as the result, {describe_value(value)}"
            )
        with enable_grad():
            return tuple(scope.nest_like_arguments(scope.backward_pass(results, list_leaves(value_cotangents))))

    return (value, back, result[1]) if has_aux else (value, back)


@overload
def jvp(function: Callable[..., T], primals: Sequence[Any], tangents_: Sequence[Any], has_aux: Literal[False] = False) -> tuple[T, T]: ...
@overload
def jvp(
    function: Callable[..., tuple[T, Aux]], primals: Sequence[Any], tangents_: Sequence[Any], has_aux: Literal[True]
) -> tuple[T, T, Aux]: ...


def jvp(function: Function, primals: Sequence[Any], tangents_: Sequence[Any], has_aux: bool = False) -> tuple[Any, ...]:
    """Return the value of `function` at the primals, and the tangent (directional derivative) along `tangents_`.

    Parameters
    ----------
    function : callable
        Function with a value of floating-point or complex tensors, perhaps in nested lists, tuples and dicts.
    primals : list or tuple
        The positional arguments of `function`: floating-point or complex tensors, or nested lists, tuples and dicts of them.
    tangents_ : list or tuple
        The direction, nested like `primals` and with equal shapes.
    has_aux : bool, default False
        Whether `function` returns a pair, of which only the first is differentiated.

    Returns
    -------
    value, tangent : Tensor, or nested lists, tuples and dicts of them
        The value of `function`, or with `has_aux` the first item of the pair; and its tangent, nested like the value.
    aux : object
        The second item of the pair, with `has_aux` only.

    Raises
    ------
    ArgumentError
        If `primals` or `tangents_` is no list or tuple, or if they are not nested alike.
    DTypeError
        If a primal or the value is not floating-point or complex.
    ShapeError
        If a tangent and its primal have different shapes.

    Examples
    --------
    >>> import tenxor as tx
    >>> value, change = tx.jvp(lambda x: x**2, [tx.asarray([1.0, 3.0])], [tx.asarray([1.0, 0.5])])
    >>> value.tolist(), change.tolist()
    ([1.0, 9.0], [2.0, 3.0])
    """
    check_callable("jvp", function)
    has_aux = check_flag("has_aux", has_aux)
    if not isinstance(primals, (list, tuple)) or not isinstance(tangents_, (list, tuple)):
        raise ArgumentError(
            "jvp: primals and tangents must be lists with one item for each argument, not"
            f" {describe_value(primals)} and {describe_value(tangents_)}"
        )
    if structure_key(list(primals)) != structure_key(list(tangents_)):
        raise ArgumentError(f"jvp: tangents are {describe_value(tangents_)}; they must be nested as primals, {describe_value(primals)}")
    with _DerivativeScope("jvp", primals, range(len(primals))) as scope:
        result = function(*scope.args)
        value = _take_differentiated("jvp", result) if has_aux else result
        results = _result_tensors("jvp", value)
        change = replace_leaves(value, scope.forward_pass(results, list_leaves(list(tangents_))))
        scope.detach_results(result)
    return (value, change, result[1]) if has_aux else (value, change)


def jacobian(function: Callable[P, Any], argnums: int | Sequence[int] = 0, mode: str | None = None) -> Callable[P, Any]:
    """Return a function that computes the derivative of each element of a value with respect to each element of the arguments `argnums`.

    Parameters
    ----------
    function : callable
        A function of tensors, with a value of any shape. Arguments and value may be nested lists, tuples and dicts of tensors.
    argnums : int or Sequence[int], default 0
        Numbers of the positional arguments with respect to which derivatives are taken.
    mode : "forward" or "reverse", optional
        "reverse" needs a pass for each element of the value, "forward" a pass for each element of the arguments. The default is the mode
        with fewer passes. The passes run as a single batched computation.

    Returns
    -------
    callable
        A function with the parameters of `function` that returns new tensors with the value's shape followed by the argument's shape, in
        the dtype to which both promote. They are nested like the value, and at each leaf like the argument.

    Raises
    ------
    ArgumentError
        If `mode` is another string, or for the reasons given in `tx.value_and_grad`.
    DTypeError
        If an argument or the value is not floating-point or complex, or if complex numbers forbid the `mode`.

    Notes
    -----
    For complex values and arguments, the result is the derivative of a holomorphic function. Derivatives of complex values with respect to
    real arguments are computed in forward mode. Derivatives of real values with respect to complex arguments are computed in reverse mode,
    as gradients. The opposite `mode` raises DTypeError, and so does a function that needs both modes.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.jacobian(lambda x: x**2)(tx.asarray([1.0, 3.0])).tolist()
    [[2.0, 0.0], [0.0, 6.0]]
    """
    from .vmap import vmap

    numbers = _check_argnums("jacobian", function, argnums)
    if mode not in (None, "forward", "reverse"):
        raise ArgumentError(f'jacobian: mode must be "forward" or "reverse", not {describe_value(mode)}')

    def rows(*args: P.args, **named: P.kwargs) -> Any:
        with _DerivativeScope("jacobian", args, numbers) as scope:
            value = function(*scope.args, **named)
            results, leaves = _result_tensors("jacobian", value), scope.leaves
            if _is_reverse_mode(mode, results, leaves):
                derivatives = [
                    vmap(lambda *g: scope.backward_pass(results, g), randomness="same")(*_make_basis(results, k))
                    for k in range(len(results))
                ]
                derivatives = [[d.conj() if t.dtype.is_complex else d for d in row] for t, row in zip(results, derivatives, strict=True)]
            else:
                along = vmap(lambda *v: scope.forward_pass(results, v), in_axes=-1, out_axes=-1, randomness="same")
                columns = [along(*_make_basis(leaves, k, batch_last=True)) for k in range(len(leaves))]
                derivatives = [[column[k] for column in columns] for k in range(len(results))]
            nested = [
                scope.nest_like_arguments([_shape_derivative(t, x, d) for d, x in zip(row, leaves, strict=True)])
                for row, t in zip(derivatives, results, strict=True)
            ]
            scope.detach_results(value, nested)
        return replace_leaves(value, [row[0] if isinstance(argnums, int) else tuple(row) for row in nested])

    return rows


def hessian(function: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Callable[P, Any]:
    """Return a function that computes the second derivatives of `function`, whose value must be a real number.

    Parameters
    ----------
    function : callable
        A function of tensors, or of nested lists, tuples and dicts of tensors. `function` returns a real tensor of one element.
    argnums : int or Sequence[int], default 0
        Numbers of the positional arguments with respect to which derivatives are taken.

    Returns
    -------
    callable
        A function with the parameters of `function` that returns the `tx.jacobian` of the gradient: a new tensor with the argument's shape
        twice. For a sequence `argnums`, the result is a tuple of tuples, with a tensor for each pair of arguments. For an argument that is
        nested, the result is nested in the same way twice.

    Raises
    ------
    ArgumentError, DTypeError, ShapeError
        As in `tx.value_and_grad`. Also DTypeError for complex arguments, as their gradients are not holomorphic: take real and imaginary
        parts.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.hessian(lambda x: (x**3).sum())(tx.asarray([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    gradient = grad(function, argnums)

    def checked(*args: P.args, **named: P.kwargs) -> Any:
        gradients = gradient(*args, **named)
        if any([t.dtype.is_complex for t in list_leaves(gradients)]):
            raise DTypeError("hessian: gradients of complex numbers are not holomorphic; differentiate by the real and imaginary parts")
        return gradients

    return jacobian(checked, argnums, "forward")


# --- implementation ---------------------------------------------------------------------------------------------------


class _DerivativeScope:
    """The arguments of a function as leaves of the tape, and the passes between the leaves and the results.

    `numbers` are the numbers of the arguments in `args` to differentiate by. The attribute `args` has leaves in their place. A `with`
    statement over the scope records derivatives.
    """

    def __init__(self, op: str, args: Sequence[Any], numbers: Sequence[int]) -> None:
        for k in numbers:
            if not -len(args) <= k < len(args):
                raise ArgumentError(f"{op}: argnums names argument {k}; the function was given {len(args)}, and the first is number 0")
        if len({k % len(args) for k in numbers}) < len(numbers):
            raise ArgumentError(f"{op}: argnums {tuple(numbers)} name an argument twice; name each once")
        self.op = op
        self.arguments = [args[k] for k in numbers]
        self.leaves: list[Tensor] = []  # the tensors passed to the function
        self.tape_leaves: list[TapeNode] = []
        self.args = list(args)
        with enable_grad():
            for k, argument in zip(numbers, map_leaves(self._make_leaf, self.arguments), strict=True):
                self.args[k] = argument
        self.oldest_tape_serial = min([tape_node.serial for tape_node in self.tape_leaves], default=0)

    def __enter__(self) -> _DerivativeScope:
        self._previous_tracking = tape_mode.get()
        try:
            tape_mode.set(True)
        except BaseException:  # raised by a signal handler right after the call
            tape_mode.set(self._previous_tracking)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        tape_mode.set(self._previous_tracking)

    def _make_leaf(self, x: Any) -> Tensor:
        """Return a new tensor on a new leaf of the tape, with the elements of the argument `x`, and append both to the lists of leaves.

        Raise DTypeError for a dtype without derivatives.
        """
        t = asarray(float(x) if type(x) is int else x)
        if not is_smooth(t.dtype):
            raise DTypeError(
                f"{self.op}: there are no derivatives with respect to {t.dtype}; use x.astype(tx.float64), or leave the argument out"
            )
        is_whole = t.is_contiguous() and t.layout.offset == 0 and t.size == t.node.size
        contiguous = t if is_whole else t.copy()
        node, tape_node = make_leaf(contiguous.node)
        tensor = Tensor(Storage(node), contiguous.layout, t.dtype)
        self.leaves.append(tensor)
        self.tape_leaves.append(tape_node)
        return tensor

    def nest_like_arguments(self, leaves: Sequence[Any]) -> list[Any]:
        """Return `leaves`, one value for each leaf, nested like the arguments."""
        result: list[Any] = replace_leaves(self.arguments, list(leaves))
        return result

    def backward_pass(self, results: Sequence[Tensor], result_cotangents: Sequence[Any]) -> list[Tensor]:
        """Return a cotangent for each leaf, in order; zeros for a leaf without influence.

        `result_cotangents` has one for each of `results`, cast to its dtype. Raise ShapeError if shapes differ.
        """
        roots = []
        for g, t in zip(result_cotangents, results, strict=True):
            g = _convert_like(self.op, "cotangent", g, t)
            roots.append(make_root(t.node, t.layout, g))
        cotangent_of = compute_cotangents(roots, self.tape_leaves)
        return [_to_tensor(cotangent_of.get(tape_node), t) for tape_node, t in zip(self.tape_leaves, self.leaves, strict=True)]

    def forward_pass(self, results: Sequence[Tensor], leaf_tangents: Sequence[Any]) -> list[Tensor]:
        """Return a tangent for each of `results`; zeros for a result independent of the leaves. `leaf_tangents` has one for each leaf."""
        triples = zip(leaf_tangents, self.tape_leaves, self.leaves, strict=True)
        result_tangents = compute_tangents(
            [t.node for t in results], {tape_node: _convert_like(self.op, "tangent", x, t) for x, tape_node, t in triples}
        )
        return [_to_tensor(None if x is None else x.view_through(t.layout), t) for x, t in zip(result_tangents, results, strict=True)]

    def detach_results(self, *trees: Any) -> None:
        """Detach the tensors in the nested values `trees` from the leaves, to free residuals.

        Nothing is detached if an outer derivative may need the tape.
        """
        for t in list_leaves(trees):
            if isinstance(t, Tensor) and type(t.storage.node.tape_node) is TapeNode:
                detach_segment(t.storage.node, self.oldest_tape_serial)


def _convert_like(op: str, role: str, x: Any, t: Tensor) -> NodeView:
    """Return the user's cotangent or tangent `x` of `t`, in the dtype of `t`. Raise ShapeError, beginning with `op`, if the shapes differ.

    `role`, "cotangent" or "tangent", is for the message.
    """
    x = asarray(x)
    if x.shape != t.shape:
        raise ShapeError(
            f"{op}: a {role} has shape {x.shape}, and its {'result' if role == 'cotangent' else 'argument'} {t.shape}; they must be equal"
        )
    x = x.astype(t.dtype, copy=False)
    return NodeView(x.node, x.layout)


def _to_tensor(x: NodeView | None, t: Tensor) -> Tensor:
    """Return `x` as a tensor of the shape of `t`; for None, return zeros of the shape and dtype of `t`."""
    if x is None:
        x = full_view(0, t.shape, t.dtype)
    return Tensor._from_node(x.node)._view(x.layout.reshape(t.shape))


def _take_differentiated(op: str, result: Any) -> Any:
    """Return the first item of `result`, a pair of value and auxiliary data (`has_aux`).

    Raise ArgumentError, beginning with `op`, for anything but a pair.
    """
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise ArgumentError(
            f"{op}: the function gave {describe_with_type(result)}; with has_aux it must return a pair: the value and the auxiliary data"
        )
    return result[0]


def _result_tensors(op: str, value: Any) -> list[Tensor]:
    """Return the tensors in `value`, the nested result of a function, in order.

    Raise DTypeError, beginning with `op`, unless each leaf is a floating-point or complex tensor.
    """
    tensors = list_leaves(value)
    for t in tensors:
        if not isinstance(t, Tensor) or not is_smooth(t.dtype):
            raise DTypeError(
                f"{op}: the function gave {describe_value(t)}; it must return tensors of floats, or nested lists, tuples and dicts of them"
            )
    return tensors


def _check_scalar(op: str, value: Any) -> None:
    """Raise ArgumentError unless `value`, a function's result, is a tensor; ShapeError unless it has one real floating-point element."""
    if not isinstance(value, Tensor):
        advice = "with has_aux=True it may return a pair" if type(value) is tuple else "not what float(), .item() or .numpy() gives"
        raise ArgumentError(f"{op}: the function gave {describe_with_type(value)}; it must return a tensor; {advice}")
    if value.size != 1 or value.dtype.is_complex or not is_smooth(value.dtype):
        description = f"a tensor of shape {value.shape} and dtype {value.dtype}"
        raise ShapeError(f"{op}: the function gave {description}; it must return one real number, for example x.sum(); tx.vjp takes any")


def _check_argnums(op: str, function: Any, argnums: int | Sequence[int]) -> Sequence[int]:
    """Return `argnums`, an integer or several, as a tuple.

    Raise ArgumentError, beginning with `op`, for anything but integers, and if `function` is not callable.
    """
    check_callable(op, function)
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums) if isinstance(argnums, (list, tuple)) else ("",)
    if not all(isinstance(k, int) for k in numbers):
        raise ArgumentError(f"{op}: argnums must be the position of an argument, or a tuple of positions, not {describe_value(argnums)}")
    return numbers


def _is_reverse_mode(mode: str | None, results: Sequence[Tensor], leaves: Sequence[Tensor]) -> bool:
    """Return whether the Jacobian of `results` by `leaves` is computed in reverse mode: as `mode` says, as complex numbers require, or
    with the fewer passes.

    `mode` is "reverse", "forward" or None for a free choice. Raise DTypeError if `mode` contradicts the dtypes.
    """
    result_kinds, leaf_kinds = [{t.dtype.is_complex for t in tensors} for tensors in (results, leaves)]
    needed = set[str]()
    if True in result_kinds and False in leaf_kinds:
        needed.add("forward")
    if False in result_kinds and True in leaf_kinds:
        needed.add("reverse")
    if len(needed | ({mode} if mode else set())) > 1:
        raise DTypeError(
            f"jacobian: complex results of real arguments need forward mode, real results of complex ones reverse mode; mode is {mode!r};"
            " leave mode out, or, if both kinds occur, differentiate the real and the imaginary parts separately"
        )
    chosen = mode or "".join(needed)
    return chosen == "reverse" if chosen else sum([t.size for t in results]) <= sum([x.size for x in leaves])


def _shape_derivative(t: Tensor, x: Tensor, d: Tensor) -> Tensor:
    """Return the derivatives `d` of result `t` with respect to leaf `x`, in the common dtype. A pass gives the dtype of its last tensor."""
    return d.astype(result_type(t.dtype, x.dtype), copy=False).reshape((*t.shape, *x.shape))


def _make_basis(tensors: Sequence[Tensor], k: int, *, batch_last: bool = False) -> list[Tensor]:
    """Return a batch of tangents for each of `tensors`, along a new first axis, or a new last axis if `batch_last`.

    Entry j of the batch, for each flat index j of tensor `k`, is 1 at this element, and 0 elsewhere and in all other tensors.
    """
    count = tensors[k].size
    basis = []
    for j, t in enumerate(tensors):
        shape = (t.size, count) if batch_last else (count, t.size)
        tangents = eye(count, dtype=t.dtype) if j == k else zeros(shape, dtype=t.dtype)
        basis.append(tangents.reshape((*t.shape, count) if batch_last else (count, *t.shape)))
    return basis
