"""A step along a sequence, over and over, as one step of a derivative: `scan`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ..creation import asarray, zeros
from ..derivatives.leaves import own_copy
from ..derivatives.loop import Body, is_affine, stand_in
from ..derivatives.looped import looped
from ..derivatives.seen import Seen
from ..errors import ArgumentError, DTypeError, ShapeError, TraceError, described
from ..keywords import spelled
from ..layout import Layout
from ..node import Node, is_pinned, watchers
from ..records import NamedTuple
from ..storage import Storage
from ..tensor import Tensor
from ..tensor.arguments import axis_of
from .draws import Stepwise, within
from .joining import stack
from .trees import check_called, filled, leaves_of, mapped, naming, outline

__all__ = ["scan"]

T = TypeVar("T")
X = TypeVar("X")
Y = TypeVar("Y")
_NUMBERS = (bool, int, float, complex)


@spelled
def scan(
    step: Callable[[T, X], tuple[T, Y]], state: T, xs: X, axis: int = 0, reverse: bool = False, *, dim: int | None = None
) -> tuple[T, Y]:
    """The last state, and all that the steps gave: `state, y = step(state, x)` for each `x` along an axis of `xs`, one after the other.

    `state`, `xs` and `y` may be nested lists, tuples and dicts of tensors, or None for nothing. Each step gives a state nested as the
    first, of the same shapes and dtypes. What the steps give is put side by side along `axis`, along which all of `xs` have one size.
    With `reverse` the last `x` comes first; what is given for it stands last all the same.

    `step` is called once, with tensors of one step's shapes whose values are not known, and what it did is then run for all: it takes
    next to no time from one step to the next, and derivatives see one step. So an `if` on values raises TraceError, and what else it
    does, such as printing, is done once; a tensor from outside that it writes to has no value afterwards. Random numbers of `tx.random`
    are drawn for each step, those that a Python loop would draw. What cannot be run so (what NumPy computes, look-ups of indices, a
    generator that is seeded in the step, a function within `tx.vmap`) is done by calling `step` for each. Results are new tensors, which
    are computed.

    ShapeError and DTypeError for a state that changes its shape or dtype, and for `xs` of different sizes; ArgumentError for one that is
    nested otherwise.

    >>> import tenxor as tx
    >>> total, sums = tx.scan(lambda s, x: (s + x, s + x), tx.asarray(0.0), tx.asarray([1.0, 2.0, 3.0]))
    >>> total.item(), sums.tolist()
    (6.0, [1.0, 3.0, 6.0])
    >>> decay = lambda rate: tx.scan(lambda h, x: (rate * h + x, None), tx.asarray(0.0), tx.ones(3))[0]
    >>> decay(tx.asarray(0.5)).item(), tx.grad(decay)(tx.asarray(0.5)).item()  # of 1 + r + r**2
    (1.75, 2.0)

    `jax.lax.scan` of JAX.
    """
    check_called("scan", step)
    begin: list[Tensor] = [asarray(t) for t in leaves_of(state)]
    sequences: list[Tensor] = [asarray(t) for t in leaves_of(xs)]
    turns = _turns(sequences, axis)
    loop = _Loop(step, state, xs, begin, [t.moveaxis(axis_of("scan", axis, t.ndim), 0) for t in sequences], turns, axis, reverse)
    has_values = not (watchers or any([t.node.traced for t in (*begin, *sequences)]))
    found: Any = (loop.traced() if has_values else None) or loop.one_by_one()
    return found[0], found[1]


def _turns(sequences: Sequence[Tensor], axis: int) -> int:
    """How many steps there are."""
    if not sequences:
        raise ArgumentError("scan: xs has no tensor, so nothing says how many steps there are; give tx.arange(steps)")
    sizes = [t.shape[axis_of("scan", axis, t.ndim)] for t in sequences]
    if len(set(sizes)) > 1:
        shapes = ", ".join([str(t.shape) for t in sequences])
        raise ShapeError(f"scan: xs of shapes {shapes} have sizes {sizes} along axis {axis}; they must be equal")
    return sizes[0]


class _Loop(NamedTuple):
    """What `scan` is given; the tensors in it, of sequences with the axis for steps in front."""

    step: Callable[[Any, Any], Any]
    state: Any
    xs: Any
    begin: list[Tensor]
    sequences: list[Tensor]
    turns: int
    axis: int
    reverse: bool

    def traced(self) -> tuple[Any, Any] | None:
        """The last state and all results, where the step can be run as what it is made of."""
        begin = self.begin
        carries = [stand_in(t.shape, t.dtype) for t in begin]
        parts = [stand_in(t.shape[1:], t.dtype) for t in self.sequences]
        members: list[Any] = [_tensor_of(node, node.shape) for node in (*carries, *parts)]
        draws = Stepwise()
        with naming("scan"), within(draws):
            new, y = self.called(filled(self.state, members[: len(begin)]), filled(self.xs, members[len(begin) :]))
        ys = leaves_of(y)
        if not self.turns:
            return filled(self.state, [_apart(t) for t in begin]), self.nothing(y)
        if draws.seeds:
            return None
        nexts, results = ([Seen(t.node, t.layout) for t in its] for its in (leaves_of(new), ys))
        body = Body.of(carries, [*parts, *draws.arguments], nexts, results)
        if body is None:
            return None
        whole = [t if is_affine(t.layout) else t.copy() for t in self.sequences]
        layouts = [t.layout.flip(0) if self.reverse else t.layout for t in whole]
        numbers = draws.sequences(self.turns)
        if numbers is None:
            return None
        xs = [Seen(t.node, layout) for t, layout in zip(whole, layouts, strict=True)] + [Seen(t.node, t.layout) for t in numbers]
        found = looped(body, [Seen(t.node, t.layout) for t in begin], xs, self.turns)
        if found is None:
            draws.undo()
            return None
        last: list[Any] = [_tensor_of(node, t.shape) for node, t in zip(found.carries, begin, strict=True)]
        each: list[Any] = []
        for x, t in zip(found.ys, ys, strict=True):
            layout = x.layout.reshape((self.turns, *t.shape))
            own = Tensor(Storage(x.node), layout.flip(0) if self.reverse else layout, x.node.dtype)
            each.append(self.placed(own))
        return filled(self.state, last), filled(y, each)

    def one_by_one(self) -> tuple[Any, Any]:
        """The same, step by step."""
        now, y, found = filled(self.state, list(self.begin)), None, []
        sequences = list(map(_apart, self.sequences))
        for turn in reversed(range(self.turns)) if self.reverse else range(self.turns):
            parts: list[Any] = [t._view(t.layout.index((turn,))) for t in sequences]
            now, y = self.called(mapped(_apart, now), mapped(_apart, filled(self.xs, parts)))
            found.append(leaves_of(y))
        if not self.turns:  # only shapes are wanted
            members: list[Any] = [zeros(t.shape[1:], dtype=t.dtype) for t in self.sequences]
            with within(Stepwise()):
                _, y = self.called(mapped(_apart, now), filled(self.xs, members))
            return mapped(_apart, now), self.nothing(y)
        if self.reverse:
            found.reverse()
        each: list[Any] = [self.placed(stack(list(its), 0)) for its in zip(*found, strict=True)]
        return now, filled(y, each)

    def placed(self, t: Tensor) -> Tensor:
        """A result with its first axis where it belongs."""
        return t.moveaxis(0, axis_of("scan", self.axis, t.ndim))

    def nothing(self, y: Any) -> Any:
        """The results of no steps, each of which gives the like of these."""
        return mapped(lambda t: self.placed(zeros((0, *t.shape), dtype=t.dtype)), y)

    def called(self, now: Any, x: Any) -> tuple[Any, Any]:
        """The next state and what a step gives; errors for what it may not give."""
        given = self.step(now, x)
        if not isinstance(given, (tuple, list)) or len(given) != 2:
            raise ArgumentError(f"scan: the step gave {type(given).__name__}; it is to give a pair: the next state, and a result")
        new, y = (mapped(_tensor, each) for each in given)
        if outline(new) != outline(self.state):
            raise ArgumentError(f"scan: the step gave a state nested as {_words(new)}; it is to be as the first, {_words(self.state)}")
        for path, t, first in zip(_paths(self.state), leaves_of(new), self.begin, strict=True):
            if t.shape != first.shape:
                raise ShapeError(
                    f"scan: {path} has shape {first.shape}, and the step gave {t.shape} for it; a state keeps its shape:"
                    " begin with that shape, or give what grows as the second result"
                )
            if t.dtype is not first.dtype:
                raise DTypeError(
                    f"scan: {path} has dtype {first.dtype}, and the step gave {t.dtype} for it; a state keeps its dtype:"
                    f" begin with {t.dtype}, or give it with astype(tx.{first.dtype})"
                )
        return new, y


def _tensor_of(node: Node, shape: tuple[int, ...]) -> Tensor:
    return Tensor(Storage(node), Layout.contiguous(shape), node.dtype)


def _apart(t: Any) -> Tensor:
    """A tensor with the same content, of which a write is not seen in the other."""
    return Tensor(Storage(own_copy(t.node) if is_pinned(t.node) else t.node), t.layout, t.dtype)


def _tensor(x: Any) -> Tensor:
    if isinstance(x, Tensor):
        return x
    if isinstance(x, _NUMBERS):
        return asarray(x)
    raise TraceError(f"scan: the step gave {described(x)}; it is to give tensors, or nested lists, tuples and dicts of them")


def _paths(tree: Any, path: str = "state") -> Iterator[str]:
    """What each leaf is called."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _paths(value, f"{path}[{key!r}]")
    elif isinstance(tree, (list, tuple)):
        for k, value in enumerate(tree):
            yield from _paths(value, f"{path}[{k}]")
    elif tree is not None:
        yield path


def _words(tree: Any) -> str:
    """How something is nested."""
    return repr(mapped(lambda _: ..., tree)).replace("Ellipsis", "...")
