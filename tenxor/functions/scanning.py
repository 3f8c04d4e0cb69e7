"""`scan`: a loop along a sequence, recorded on the tape as one step."""

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
    """Run `state, y = step(state, x)` for each `x` along an axis of `xs`. Return the last state and the stacked `y`.

    `state`, `xs` and `y` may be nested lists, tuples and dicts of tensors, or None for no tensor. The step must return a state nested like
    the first, with the same shapes and dtypes. The results `y` are stacked along `axis`; the tensors of `xs` must have equal sizes along
    this axis. With `reverse` the loop runs from the last `x` to the first, and the result for the last `x` still stands last.

    `step` is called once, with tensors of the shapes of one iteration and without values. The traced step then runs for every iteration
    without Python in between, and is a single step for derivatives. An `if` on values raises TraceError, side effects such as printing
    happen once, and a captured tensor that the step writes to has no value afterwards. Random numbers of `tx.random` are drawn for each
    iteration, the same as in a Python loop. A step cannot be compiled so if it delegates operations to NumPy, looks up elements at index
    tensors, seeds a generator, or runs inside `tx.vmap`. Then `step` is called for each iteration. The results are new tensors, already
    computed.

    Raises ShapeError or DTypeError for a state that changes its shape or dtype, ShapeError for `xs` of different sizes, and ArgumentError
    for a state nested otherwise.

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
    turns = _count_turns(sequences, axis)
    loop = _Loop(step, state, xs, begin, [t.moveaxis(axis_of("scan", axis, t.ndim), 0) for t in sequences], turns, axis, reverse)
    has_values = not (watchers or any([t.node.traced for t in (*begin, *sequences)]))
    result: Any = (loop.run_traced() if has_values else None) or loop.one_by_one()
    return result[0], result[1]


def _count_turns(sequences: Sequence[Tensor], axis: int) -> int:
    """Return the number of iterations, the size of `sequences` along `axis`."""
    if not sequences:
        raise ArgumentError("scan: xs has no tensor, so nothing says how many steps there are; give tx.arange(steps)")
    sizes = [t.shape[axis_of("scan", axis, t.ndim)] for t in sequences]
    if len(set(sizes)) > 1:
        shapes = ", ".join([str(t.shape) for t in sequences])
        raise ShapeError(f"scan: xs of shapes {shapes} have sizes {sizes} along axis {axis}; they must be equal")
    return sizes[0]


class _Loop(NamedTuple):
    """The arguments of `scan`, with their tensors as lists. In `sequences` the iterations are the first axis."""

    step: Callable[[Any, Any], Any]
    state: Any
    xs: Any
    begin: list[Tensor]
    sequences: list[Tensor]
    turns: int
    axis: int
    reverse: bool

    def run_traced(self) -> tuple[Any, Any] | None:
        """Return the last state and the stacked results, by tracing the step. Return None if the step cannot run as one plan per iteration.
        """
        begin = self.begin
        carries = [stand_in(t.shape, t.dtype) for t in begin]
        elements = [stand_in(t.shape[1:], t.dtype) for t in self.sequences]
        members: list[Any] = [_tensor_of(node, node.shape) for node in (*carries, *elements)]
        draws = Stepwise()
        with naming("scan"), within(draws):
            new, y = self.call_step(filled(self.state, members[: len(begin)]), filled(self.xs, members[len(begin) :]))
        ys = leaves_of(y)
        if not self.turns:
            return filled(self.state, [_isolate(t) for t in begin]), self.empty_results(y)
        if draws.seeds:
            return None
        nexts, results = ([Seen(t.node, t.layout) for t in group] for group in (leaves_of(new), ys))
        body = Body.of(carries, [*elements, *draws.arguments], nexts, results)
        if body is None:
            return None
        sequences = [t if is_affine(t.layout) else t.copy() for t in self.sequences]
        layouts = [t.layout.flip(0) if self.reverse else t.layout for t in sequences]
        numbers = draws.sequences(self.turns)
        if numbers is None:
            return None
        xs = [Seen(t.node, layout) for t, layout in zip(sequences, layouts, strict=True)] + [Seen(t.node, t.layout) for t in numbers]
        loop_result = looped(body, [Seen(t.node, t.layout) for t in begin], xs, self.turns)
        if loop_result is None:
            draws.undo()
            return None
        last_state: list[Any] = [_tensor_of(node, t.shape) for node, t in zip(loop_result.carries, begin, strict=True)]
        stacked: list[Any] = []
        for x, t in zip(loop_result.ys, ys, strict=True):
            layout = x.layout.reshape((self.turns, *t.shape))
            sequence = Tensor(Storage(x.node), layout.flip(0) if self.reverse else layout, x.node.dtype)
            stacked.append(self.move_iterations(sequence))
        return filled(self.state, last_state), filled(y, stacked)

    def one_by_one(self) -> tuple[Any, Any]:
        """Return the last state and the stacked results, by calling the step for each iteration."""
        state, y, results = filled(self.state, list(self.begin)), None, []
        sequences = list(map(_isolate, self.sequences))
        for turn in reversed(range(self.turns)) if self.reverse else range(self.turns):
            elements: list[Any] = [t._view(t.layout.index((turn,))) for t in sequences]
            state, y = self.call_step(mapped(_isolate, state), mapped(_isolate, filled(self.xs, elements)))
            results.append(leaves_of(y))
        if not self.turns:  # without iterations, the call only determines the shapes
            members: list[Any] = [zeros(t.shape[1:], dtype=t.dtype) for t in self.sequences]
            with within(Stepwise()):
                _, y = self.call_step(mapped(_isolate, state), filled(self.xs, members))
            return mapped(_isolate, state), self.empty_results(y)
        if self.reverse:
            results.reverse()
        stacked: list[Any] = [self.move_iterations(stack(list(column), 0)) for column in zip(*results, strict=True)]
        return state, filled(y, stacked)

    def move_iterations(self, t: Tensor) -> Tensor:
        """Return a stacked result with the iterations moved from the first axis to `axis`."""
        return t.moveaxis(0, axis_of("scan", self.axis, t.ndim))

    def empty_results(self, y: Any) -> Any:
        """Return the results of zero iterations. `y` is the result of an iteration, for shapes and dtypes."""
        return mapped(lambda t: self.move_iterations(zeros((0, *t.shape), dtype=t.dtype)), y)

    def call_step(self, state: Any, x: Any) -> tuple[Any, Any]:
        """Return the next state and the result of one step. Raise an error for a result of the wrong form."""
        result = self.step(state, x)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise ArgumentError(f"scan: the step gave {type(result).__name__}; it must return a pair: the next state, and a result")
        new, y = (mapped(_to_tensor, tree) for tree in result)
        if outline(new) != outline(self.state):
            raise ArgumentError(
                f"scan: the step returned a state nested as {_describe_nesting(new)}; the first state is {_describe_nesting(self.state)}"
            )
        for path, t, begin in zip(_leaf_paths(self.state), leaves_of(new), self.begin, strict=True):
            if t.shape != begin.shape:
                raise ShapeError(
                    f"scan: {path} has shape {begin.shape}, and the step gave {t.shape} for it; a state keeps its shape:"
                    " begin with that shape, or give what grows as the second result"
                )
            if t.dtype is not begin.dtype:
                raise DTypeError(
                    f"scan: {path} has dtype {begin.dtype}, and the step gave {t.dtype} for it; a state keeps its dtype:"
                    f" begin with {t.dtype}, or give it with astype(tx.{begin.dtype})"
                )
        return new, y


def _tensor_of(node: Node, shape: tuple[int, ...]) -> Tensor:
    return Tensor(Storage(node), Layout.contiguous(shape), node.dtype)


def _isolate(t: Any) -> Tensor:
    """Return a tensor with the content and tape node of `t`. A write to `t` does not change the new tensor, and vice versa."""
    return Tensor(Storage(own_copy(t.node) if is_pinned(t.node) else t.node), t.layout, t.dtype)


def _to_tensor(x: Any) -> Tensor:
    if isinstance(x, Tensor):
        return x
    if isinstance(x, _NUMBERS):
        return asarray(x)
    raise TraceError(f"scan: the step gave {described(x)}; it must return tensors, or nested lists, tuples and dicts of them")


def _leaf_paths(tree: Any, path: str = "state") -> Iterator[str]:
    """Yield the name of each leaf of a state, for error messages."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _leaf_paths(value, f"{path}[{key!r}]")
    elif isinstance(tree, (list, tuple)):
        for k, value in enumerate(tree):
            yield from _leaf_paths(value, f"{path}[{k}]")
    elif tree is not None:
        yield path


def _describe_nesting(tree: Any) -> str:
    """Return the nesting of a tree as text."""
    return repr(mapped(lambda _: ..., tree)).replace("Ellipsis", "...")
