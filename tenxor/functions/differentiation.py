"""Derivatives of functions: each of these takes a function of tensors, and gives another or its values.

Arguments and results may be nested lists, tuples and dicts of tensors. Functions may do whatever tensors do, writes in place
included; what they capture from outside is constant, unless it is what an outer derivative is taken by. All of these may be
applied to what they give, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, ParamSpec, TypeVar, overload

from ..creation import asarray, eye, ones, zeros
from ..derivatives.adjoint import root
from ..derivatives.forward import tangents
from ..derivatives.leaves import leaf
from ..derivatives.partials import is_smooth
from ..derivatives.reverse import cotangents, forget
from ..derivatives.seen import Seen, of_number
from ..dtypes import result_type
from ..errors import ArgumentError, DTypeError, ShapeError, described
from ..node import tracked, tracking
from ..past import Past
from ..storage import Storage
from ..tensor import Tensor
from ..tensor.arguments import truth
from .kinds import told
from .trees import check_called, filled, leaves_of, mapped, outline

__all__ = ["enable_grad", "grad", "hessian", "jacobian", "jvp", "no_grad", "value_and_grad", "vjp"]

P = ParamSpec("P")
T = TypeVar("T")  # a value
Aux = TypeVar("Aux")  # what comes with a value
Function = Callable[..., Any]


@contextmanager
def no_grad() -> Iterator[None]:
    """While it is open, what is computed is constant to derivatives: `with tx.no_grad(): w -= 0.1 * w.grad`. It decorates functions, too.

    What is written in it to a tensor that requires a gradient is another value for the same gradient. It holds for this thread alone.

    >>> import tenxor as tx
    >>> w = tx.asarray([1.0, 2.0]).requires_grad_()
    >>> (w * w).sum().backward()
    >>> with tx.no_grad():
    ...     w -= 0.5 * w.grad
    >>> w.tolist(), w.is_leaf
    ([0.0, 0.0], True)
    """
    with tracked(False):
        yield


@contextmanager
def enable_grad() -> Iterator[None]:
    """While it is open, derivatives see what is computed, also inside `no_grad`."""
    with tracked():
        yield


def value_and_grad(
    function: Callable[P, T], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[P, tuple[T, Any]]:
    """A function that gives the value of `function`, one real number, and its gradient by the arguments `argnums`: nested as
    these are, or a tuple of that for several.

    With `has_aux` the function returns a pair, of which only the first is differentiated, and so does this one in place of the
    value. Arguments have values inside `function`: `if`, `float(x)` and `x.item()` work, and what is made of such a number is
    constant. DTypeError for arguments that are no floats, ShapeError if the value is not one number.

    >>> import tenxor as tx
    >>> value, gradient = tx.value_and_grad(lambda x: (x**2).sum())(tx.asarray([1.0, 3.0]))
    >>> value.item(), gradient.tolist()
    (10.0, [2.0, 6.0])
    """
    numbers, has_aux = _numbers("grad", function, argnums), truth("grad", "has_aux", has_aux)

    def both(*args: P.args, **named: P.kwargs) -> tuple[T, Any]:
        with _Scope("grad", args, numbers) as scope:
            found = function(*scope.args, **named)
            value: Any = _first("grad", found) if has_aux else found
            _check_scalar("grad", value)
            gradients = scope.back([value], [ones(value.shape, dtype=value.dtype)])
            scope.close(found)
        nested = scope.nested(gradients)
        return found, nested[0] if isinstance(argnums, int) else tuple(nested)

    return both


def grad(function: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[P, Any]:
    """A function that gives the gradient of `function`, whose value is one real number, by the arguments `argnums`; see
    `tx.value_and_grad`.

    With `has_aux` it gives a pair: the gradient, and what else the function returns.

    >>> import tenxor as tx
    >>> cube = lambda x: x**3
    >>> tx.grad(tx.grad(cube))(tx.asarray(2.0)).item()
    12.0
    """
    both = value_and_grad(function, argnums, has_aux)

    def gradient(*args: P.args, **named: P.kwargs) -> Any:
        found, its = both(*args, **named)
        return (its, found[1]) if has_aux else its

    return gradient


@overload
def vjp(
    function: Callable[..., T], *primals: Any, has_aux: Literal[False] = False
) -> tuple[T, Callable[[Any], tuple[Any, ...]]]: ...
@overload
def vjp(
    function: Callable[..., tuple[T, Aux]], *primals: Any, has_aux: Literal[True]
) -> tuple[T, Callable[[Any], tuple[Any, ...]], Aux]: ...


def vjp(function: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of `function` at the primals, and a function from cotangents of that, nested alike, to a tuple of those of the primals.

    With `has_aux` the function returns a pair, and what is second comes third here.

    >>> import tenxor as tx
    >>> value, back = tx.vjp(lambda x: x * x, tx.asarray([1.0, 2.0]))
    >>> back(tx.asarray([1.0, 10.0]))[0].tolist()
    [2.0, 40.0]
    """
    check_called("vjp", function)
    has_aux = truth("vjp", "has_aux", has_aux)
    with _Scope("vjp", primals, range(len(primals))) as scope:
        found = function(*scope.args)
    value = _first("vjp", found) if has_aux else found
    results = _results("vjp", value)

    def back(given: Any) -> tuple[Any, ...]:
        if outline(given) != outline(value):
            raise ArgumentError("vjp: the cotangents are to be nested as the value is")
        with enable_grad():
            return tuple(scope.nested(scope.back(results, leaves_of(given))))

    return (value, back, found[1]) if has_aux else (value, back)


@overload
def jvp(
    function: Callable[..., T], primals: Sequence[Any], tangents_: Sequence[Any], has_aux: Literal[False] = False
) -> tuple[T, T]: ...
@overload
def jvp(
    function: Callable[..., tuple[T, Aux]], primals: Sequence[Any], tangents_: Sequence[Any], has_aux: Literal[True]
) -> tuple[T, T, Aux]: ...


def jvp(function: Function, primals: Sequence[Any], tangents_: Sequence[Any], has_aux: bool = False) -> tuple[Any, ...]:
    """The value of `function` at the primals, and how it changes along the tangents, which are nested as the primals are.

    With `has_aux` the function returns a pair, and what is second comes third here.

    >>> import tenxor as tx
    >>> value, change = tx.jvp(lambda x: x**2, [tx.asarray([1.0, 3.0])], [tx.asarray([1.0, 0.5])])
    >>> value.tolist(), change.tolist()
    ([1.0, 9.0], [2.0, 3.0])
    """
    check_called("jvp", function)
    has_aux = truth("jvp", "has_aux", has_aux)
    if not isinstance(primals, (list, tuple)) or not isinstance(tangents_, (list, tuple)):
        raise ArgumentError(
            "jvp: primals and tangents are lists, one of each for each argument, not"
            f" {described(primals)} and {described(tangents_)}"
        )
    if outline(list(primals)) != outline(list(tangents_)):
        raise ArgumentError("jvp: the tangents are to be nested as the primals are")
    with _Scope("jvp", primals, range(len(primals))) as scope:
        found = function(*scope.args)
        value = _first("jvp", found) if has_aux else found
        results = _results("jvp", value)
        change = filled(value, scope.forward(results, leaves_of(list(tangents_))))
        scope.close(found)
    return (value, change, found[1]) if has_aux else (value, change)


def jacobian(function: Callable[P, Any], argnums: int | Sequence[int] = 0, mode: str | None = None) -> Callable[P, Any]:
    """A function that gives the derivative of each element of the value of `function` by each of an argument's: of the value's
    shape followed by the argument's, and of the dtype that theirs promote to, nested as the value is and within that as the argument is.

    `mode` is "reverse", one pass for each element of the value, or "forward", one for each of the arguments'; by default what
    needs fewer. All passes are one computation, with one more axis. Errors as of `value_and_grad`.

    Of complex numbers by complex ones it is the derivative of a holomorphic function. By real numbers it is found forwards, and of real
    ones by complex ones in reverse, as their gradients; DTypeError for the other `mode`, and for a function that needs both.

    >>> import tenxor as tx
    >>> tx.jacobian(lambda x: x**2)(tx.asarray([1.0, 3.0])).tolist()
    [[2.0, 0.0], [0.0, 6.0]]
    """
    from .vectorizing import vmap

    numbers = _numbers("jacobian", function, argnums)
    if mode not in (None, "forward", "reverse"):
        raise ArgumentError(f'jacobian: mode is "forward" or "reverse", not {described(mode)}')

    def rows(*args: P.args, **named: P.kwargs) -> Any:
        with _Scope("jacobian", args, numbers) as scope:
            value = function(*scope.args, **named)
            results, leaves = _results("jacobian", value), scope.leaves
            if _goes_back(mode, results, leaves):
                each = [vmap(lambda *g: scope.back(results, g), randomness="same")(*_basis(results, k)) for k in range(len(results))]
                each = [[d.conj() if t.dtype.is_complex else d for d in its] for t, its in zip(results, each, strict=True)]
            else:
                along = vmap(lambda *v: scope.forward(results, v), in_axes=-1, out_axes=-1, randomness="same")
                columns = [along(*_basis(leaves, k, last=True)) for k in range(len(leaves))]
                each = [[its[k] for its in columns] for k in range(len(results))]
            nested = [
                scope.nested([_by(t, x, d) for d, x in zip(its, leaves, strict=True)])
                for its, t in zip(each, results, strict=True)
            ]
            scope.close(value, nested)
        return filled(value, [its[0] if isinstance(argnums, int) else tuple(its) for its in nested])

    return rows


def hessian(function: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Callable[P, Any]:
    """A function that gives the second derivatives of `function`, whose value is one real number: the `tx.jacobian` of its gradient.
    DTypeError for complex arguments, of which gradients are not holomorphic: take their real and imaginary parts.

    >>> import tenxor as tx
    >>> tx.hessian(lambda x: (x**3).sum())(tx.asarray([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    gradient = grad(function, argnums)

    def checked(*args: P.args, **named: P.kwargs) -> Any:
        found = gradient(*args, **named)
        if any([t.dtype.is_complex for t in leaves_of(found)]):
            raise DTypeError("hessian: gradients by complex numbers are not holomorphic; take those by their real and imaginary parts")
        return found

    return jacobian(checked, argnums, "forward")


# --- how they do it ---------------------------------------------------------------------------------------------------


class _Scope:
    """Arguments of a function as what derivatives are taken by; the way back to them, and on from them."""

    def __init__(self, op: str, args: Sequence[Any], numbers: Sequence[int]) -> None:
        for k in numbers:
            if not -len(args) <= k < len(args):
                raise ArgumentError(f"{op}: there is no argument {k}; the function was given {len(args)}")
        if len({k % len(args) for k in numbers}) < len(numbers):
            raise ArgumentError(f"{op}: argnums {tuple(numbers)} name an argument twice; name each once")
        self.op = op
        self.given = [args[k] for k in numbers]
        self.leaves: list[Tensor] = []  # as the function sees them
        self.pasts: list[Past] = []
        self.args = list(args)
        with enable_grad():
            for k, its in zip(numbers, mapped(self._leaf, self.given), strict=True):
                self.args[k] = its
        self.first = min([past.number for past in self.pasts], default=0)

    def __enter__(self) -> _Scope:
        self._before = tracking.get()
        try:
            tracking.set(True)
        except BaseException:  # a signal's, heard when that was done
            tracking.set(self._before)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        tracking.set(self._before)

    def _leaf(self, x: Any) -> Tensor:
        t = asarray(float(x) if type(x) is int else x)
        if not is_smooth(t.dtype):
            raise DTypeError(
                f"{self.op}: there are no derivatives by {t.dtype}; convert the argument with x.astype(tx.float64), or leave it out"
            )
        whole = t.is_contiguous() and t.layout.offset == 0 and t.size == t.node.size
        own = t if whole else t.copy()
        node, past = leaf(own.node)
        found = Tensor(Storage(node), own.layout, t.dtype)
        self.leaves.append(found)
        self.pasts.append(past)
        return found

    def nested(self, leaves: Sequence[Any]) -> list[Any]:
        """Something for each leaf, nested as the arguments are."""
        found: list[Any] = filled(self.given, list(leaves))
        return found

    def back(self, results: Sequence[Tensor], given: Sequence[Any]) -> list[Tensor]:
        """The cotangents of the leaves, given those of results."""
        roots = []
        for g, t in zip(given, results, strict=True):
            g = _like(self.op, "cotangent", g, t)
            roots.append(root(t.node, t.layout, g))
        found = cotangents(roots, self.pasts)
        return [_tensor(found.get(past), t) for past, t in zip(self.pasts, self.leaves, strict=True)]

    def forward(self, results: Sequence[Tensor], given: Sequence[Any]) -> list[Tensor]:
        """The tangents of results, given those of the leaves."""
        each = zip(given, self.pasts, self.leaves, strict=True)
        found = tangents([t.node for t in results], {past: _like(self.op, "tangent", x, t) for x, past, t in each})
        return [_tensor(None if x is None else x.through(t.layout), t) for x, t in zip(found, results, strict=True)]

    def close(self, *trees: Any) -> None:
        """Have results know nothing of the leaves any more, if nobody else may ask."""
        for t in leaves_of(trees):
            if isinstance(t, Tensor) and type(t.storage.node.past) is Past:
                forget(t.storage.node, self.first)


def _like(op: str, what: str, x: Any, t: Tensor) -> Seen:
    """What is given for a tensor, in its dtype."""
    x = asarray(x)
    if x.shape != t.shape:
        raise ShapeError(f"{op}: a {what} has shape {x.shape}, and what it is for {t.shape}; they must be equal")
    x = x.astype(t.dtype, copy=False)
    return Seen(x.node, x.layout)


def _tensor(x: Seen | None, t: Tensor) -> Tensor:
    """A tensor of the shape of another; zeros for None."""
    if x is None:
        x = of_number(0, t.shape, t.dtype)
    return Tensor._of(x.node)._view(x.layout.reshape(t.shape))


def _first(op: str, found: Any) -> Any:
    """What of a pair is differentiated."""
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        raise ArgumentError(f"{op}: the function gave {told(found)}; with has_aux it is to give a pair, the value and what else there is")
    return found[0]


def _results(op: str, value: Any) -> list[Tensor]:
    found = leaves_of(value)
    for t in found:
        if not isinstance(t, Tensor) or not is_smooth(t.dtype):
            raise DTypeError(
                f"{op}: the function gave {described(t)};"
                " it is to give tensors of floats, or nested lists, tuples and dicts of them"
            )
    return found


def _check_scalar(op: str, value: Any) -> None:
    if not isinstance(value, Tensor) or value.size != 1 or value.dtype.is_complex or not is_smooth(value.dtype):
        told = f"a tensor of shape {value.shape} and dtype {value.dtype}" if isinstance(value, Tensor) else f"{type(value).__name__}"
        raise ShapeError(f"{op}: the function gave {told}; it is to give one real number, for example x.sum(); tx.vjp takes any")


def _numbers(op: str, function: Any, argnums: int | Sequence[int]) -> Sequence[int]:
    check_called(op, function)
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums) if isinstance(argnums, (list, tuple)) else ("",)
    if not all(isinstance(k, int) for k in numbers):
        raise ArgumentError(f"{op}: argnums is the number of an argument, or several, not {described(argnums)}")
    return numbers


def _goes_back(mode: str | None, results: Sequence[Tensor], leaves: Sequence[Tensor]) -> bool:
    """Whether a Jacobian is found in reverse: if that has fewer passes, or only so all of it is."""
    of, by = [{t.dtype.is_complex for t in its} for its in (results, leaves)]
    needed = set[str]()
    if True in of and False in by:
        needed.add("forward")
    if False in of and True in by:
        needed.add("reverse")
    if len(needed | ({mode} if mode else set())) > 1:
        raise DTypeError(
            f"jacobian: complex numbers by real ones are found forwards, and real ones by complex ones in reverse, not in mode {mode!r};"
            " leave it out, or take the real and imaginary parts one after the other"
        )
    chosen = mode or "".join(needed)
    return chosen == "reverse" if chosen else sum([t.size for t in results]) <= sum([x.size for x in leaves])


def _by(t: Tensor, x: Tensor, d: Tensor) -> Tensor:
    """The derivatives of a result by a leaf; either way back or forwards they have come in the dtype of the one where they ended."""
    return d.astype(result_type(t.dtype, x.dtype), copy=False).reshape((*t.shape, *x.shape))


def _basis(tensors: Sequence[Tensor], k: int, *, last: bool = False) -> list[Tensor]:
    """For each element of tensor `k` a 1 in its place, and zeros everywhere else; along a first axis, or the last."""
    count = tensors[k].size
    found = []
    for j, t in enumerate(tensors):
        shape = (t.size, count) if last else (count, t.size)
        members = eye(count, dtype=t.dtype) if j == k else zeros(shape, dtype=t.dtype)
        found.append(members.reshape((*t.shape, count) if last else (count, *t.shape)))
    return found
