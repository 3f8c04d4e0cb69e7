"""`scan`: a loop along a sequence, recorded on the tape as one step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from .._utils import upcalls
from .._utils.aliases import argument_aliases
from .._utils.records import NamedTuple
from ..autodiff.node_view import NodeView
from ..autodiff.scan_body import TracedStep, is_affine, make_placeholder
from ..autodiff.scan_loop import run_scan
from ..autodiff.tape import clone_unshared
from ..errors import ArgumentError, DTypeError, ShapeError, TraceError, describe_value
from ..graph.node import Node, is_externally_shared
from ..graph.storage import Storage
from ..layout import Layout
from ..tensor import Tensor
from ..tensor.argument_parsing import check_flag, normalize_axis
from .concatenation import stack
from .creation import asarray, zeros
from .draw_scopes import StepScope, open_scope
from .nested_structures import check_callable, list_leaves, map_leaves, prefix_trace_errors, replace_leaves, structure_key

__all__ = ["scan"]

T = TypeVar("T")
X = TypeVar("X")
Y = TypeVar("Y")
_NUMBER_TYPES = (bool, int, float, complex)


@argument_aliases
def scan(
    step: Callable[[T, X], tuple[T, Y]], state: T, xs: X, axis: int = 0, reverse: bool = False, *, dim: int | None = None
) -> tuple[T, Y]:
    """Run `state, y = step(state, x)` for each `x` along an axis of `xs`. Return the last state and the stacked `y`.

    Parameters
    ----------
    step : callable
        A function of the state and of one `x`. It must return a state nested like the first, with the same shapes and dtypes, and a result
        `y`.
    state : Tensor, or nested lists, tuples and dicts of tensors
        The first state; None stands for no tensor, here and in `xs` and `y`.
    xs : Tensor, or nested lists, tuples and dicts of tensors
        The sequences. They must have equal sizes along `axis`.
    axis : int, default 0
        The axis of iteration, along which the results `y` are stacked, too. PyTorch's `dim` is an alias.
    reverse : bool, default False
        If True, the loop runs from the last `x` to the first, and the result for the last `x` still stands last.

    Returns
    -------
    state, ys
        New tensors, already computed, nested like the state and like `y`.

    Raises
    ------
    ShapeError, DTypeError
        If a state changes its shape or dtype; ShapeError also if `xs` have different sizes.
    ArgumentError
        If `step` cannot be called, if a new state is nested otherwise, or if `xs` has no tensor.
    TraceError
        If the traced `step` branches on values, as in an `if`.

    Notes
    -----
    `step` is called once, with tensors of the shapes of one iteration and without values. The traced step then runs for every iteration
    without Python in between, and is a single step for derivatives. Side effects such as printing happen once, and a captured tensor that
    the step writes to has no value afterwards. Random numbers of `tx.random` are drawn for each iteration, the same as in a Python loop.

    A step cannot be compiled so if it delegates operations to NumPy, looks up elements at index tensors, seeds a generator, or runs inside
    `tx.vmap`. Then `step` is called for each iteration. (JAX's `jax.lax.scan`.)

    Examples
    --------
    >>> import tenxor as tx
    >>> total, sums = tx.scan(lambda s, x: (s + x, s + x), tx.asarray(0.0), tx.asarray([1.0, 2.0, 3.0]))
    >>> total.item(), sums.tolist()
    (6.0, [1.0, 3.0, 6.0])
    >>> decay = lambda rate: tx.scan(lambda h, x: (rate * h + x, None), tx.asarray(0.0), tx.ones(3))[0]
    >>> decay(tx.asarray(0.5)).item(), tx.grad(decay)(tx.asarray(0.5)).item()  # of 1 + r + r**2
    (1.75, 2.0)
    """
    check_callable("scan", step)
    reverse = check_flag("reverse", reverse)
    begin: list[Tensor] = [asarray(t) for t in list_leaves(state)]
    sequences: list[Tensor] = [asarray(t) for t in list_leaves(xs)]
    turns = _count_steps(sequences, axis)
    loop = _Loop(step, state, xs, begin, [t.moveaxis(normalize_axis("scan", axis, t.ndim), 0) for t in sequences], turns, axis, reverse)
    has_values = not (upcalls.node_observer or any([t.node.is_traced for t in (*begin, *sequences)]))
    result: Any = (loop.run_traced() if has_values else None) or loop.run_stepwise()
    return result[0], result[1]


def _count_steps(sequences: Sequence[Tensor], axis: int) -> int:
    """Return the number of iterations, the size of `sequences` along `axis`.

    Raise ArgumentError if there are no sequences, and ShapeError if their sizes differ.
    """
    if not sequences:
        raise ArgumentError("scan: xs has no tensor, so nothing says how many steps there are; give tx.arange(steps)")
    sizes = [t.shape[normalize_axis("scan", axis, t.ndim)] for t in sequences]
    if len(set(sizes)) > 1:
        shapes = ", ".join([str(t.shape) for t in sequences])
        raise ShapeError(f"scan: xs of shapes {shapes} have sizes {sizes} along axis {axis}; they must be equal")
    return sizes[0]


class _Loop(NamedTuple):
    """The arguments of `scan`, with their tensors as lists. In `sequences` the iterations are the first axis.

    `step` is the user's function. `state` and `xs` are the nested first state and sequences, whose tensors are `initial_leaves` and
    `sequences`. The stacked results have the iterations along `axis`. With `reverse`, the loop runs from the last iteration to the first.
    """

    step: Callable[[Any, Any], Any]
    state: Any
    xs: Any
    initial_leaves: list[Tensor]
    sequences: list[Tensor]
    step_count: int
    axis: int
    reverse: bool

    def run_traced(self) -> tuple[Any, Any] | None:
        """Return the last state and the stacked results, nested, by tracing the step once; None if the caller must use `run_stepwise`.

        None is returned if the step seeds a generator, cannot run as one plan, or draws numbers that have no values in an outer traced
        function. Raise TraceError if the step needs values.
        """
        begin = self.initial_leaves
        carries = [make_placeholder(t.shape, t.dtype) for t in begin]
        elements = [make_placeholder(t.shape[1:], t.dtype) for t in self.sequences]
        members: list[Any] = [_tensor_of(node, node.shape) for node in (*carries, *elements)]
        draws = StepScope()
        with prefix_trace_errors("scan"), open_scope(draws):
            new, y = self.call_step(replace_leaves(self.state, members[: len(begin)]), replace_leaves(self.xs, members[len(begin) :]))
        ys = list_leaves(y)
        if not self.step_count:
            return replace_leaves(self.state, [_copy_on_write(t) for t in begin]), self.empty_results(y)
        if draws.has_seeded:
            return None
        nexts, results = ([NodeView(t.node, t.layout) for t in group] for group in (list_leaves(new), ys))
        sequences = [t if is_affine(t.layout) else t.copy() for t in self.sequences]
        layouts = [t.layout.flip(0) if self.reverse else t.layout for t in sequences]
        numbers = draws.reserve_steps(self.step_count)
        if numbers is None:
            return None
        xs = [NodeView(t.node, layout) for t, layout in zip(sequences, layouts, strict=True)] + [
            NodeView(t.node, t.layout) for t in numbers
        ]
        traced_step = TracedStep(carries, [*elements, *draws.placeholders], nexts, results)
        loop_result = run_scan(traced_step, [NodeView(t.node, t.layout) for t in begin], xs, self.step_count)
        if loop_result is None:
            draws.release_reserved()
            return None
        last_state: list[Any] = [_tensor_of(node, t.shape) for node, t in zip(loop_result.carries, begin, strict=True)]
        stacked: list[Any] = []
        for x, t in zip(loop_result.ys, ys, strict=True):
            shape = self.step_count, *t.shape
            layout = x.layout if x.layout.shape == shape else x.layout.reshape(shape)
            sequence = Tensor(Storage(x.node), layout.flip(0) if self.reverse else layout, x.node.dtype)
            stacked.append(self.move_iterations(sequence))
        return replace_leaves(self.state, last_state), replace_leaves(y, stacked)

    def run_stepwise(self) -> tuple[Any, Any]:
        """Return the last state and the stacked results, nested, by calling the step for each iteration, or once for zero iterations."""
        state, y, results = replace_leaves(self.state, list(self.initial_leaves)), None, []
        sequences = list(map(_copy_on_write, self.sequences))
        for turn in reversed(range(self.step_count)) if self.reverse else range(self.step_count):
            elements: list[Any] = [t._view(t.layout.index((turn,))) for t in sequences]
            state, y = self.call_step(map_leaves(_copy_on_write, state), map_leaves(_copy_on_write, replace_leaves(self.xs, elements)))
            results.append(list_leaves(y))
        if not self.step_count:  # without iterations, the call only determines the shapes
            members: list[Any] = [zeros(t.shape[1:], dtype=t.dtype) for t in self.sequences]
            with open_scope(StepScope()):
                _, y = self.call_step(map_leaves(_copy_on_write, state), replace_leaves(self.xs, members))
            return map_leaves(_copy_on_write, state), self.empty_results(y)
        if self.reverse:
            results.reverse()
        stacked: list[Any] = [self.move_iterations(stack(list(column), 0)) for column in zip(*results, strict=True)]
        return state, replace_leaves(y, stacked)

    def move_iterations(self, t: Tensor) -> Tensor:
        """Return `t`, a stacked result, with the iterations moved from the first axis to the axis `self.axis`."""
        return t if self.axis == 0 else t.moveaxis(0, normalize_axis("scan", self.axis, t.ndim))

    def empty_results(self, y: Any) -> Any:
        """Return the stacked results of zero iterations, nested like `y`, the result of an iteration for shapes and dtypes."""
        return map_leaves(lambda t: self.move_iterations(zeros((0, *t.shape), dtype=t.dtype)), y)

    def call_step(self, state: Any, x: Any) -> tuple[Any, Any]:
        """Return the next state and the result of the step for the state `state` and the element `x`, as nested tensors.

        Raise ArgumentError if the step gives no pair, or a state of another nesting than the first state. Raise ShapeError or DTypeError
        for a state of another shape or dtype, and TraceError for results that are neither tensors nor numbers.
        """
        result = self.step(state, x)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise ArgumentError(f"scan: the step gave {type(result).__name__}; it must return a pair: the next state, and a result")
        new, y = (map_leaves(_to_tensor, tree) for tree in result)
        if structure_key(new) != structure_key(self.state):
            raise ArgumentError(
                f"scan: the step returned a state nested as {_describe_nesting(new)}; the first state is {_describe_nesting(self.state)}"
            )
        for k, (t, begin) in enumerate(zip(list_leaves(new), self.initial_leaves, strict=True)):
            if t.shape != begin.shape:
                path = list(_leaf_paths(self.state))[k]
                raise ShapeError(
                    f"scan: {path} has shape {begin.shape}, and the step gave {t.shape} for it; a state keeps its shape:"
                    " begin with that shape, or give what grows as the second result"
                )
            if t.dtype is not begin.dtype:
                path = list(_leaf_paths(self.state))[k]
                raise DTypeError(
                    f"scan: {path} has dtype {begin.dtype}, and the step gave {t.dtype} for it; a state keeps its dtype:"
                    f" begin with {t.dtype}, or give it with astype(tx.{begin.dtype})"
                )
        return new, y


def _tensor_of(node: Node, shape: tuple[int, ...]) -> Tensor:
    """Return a tensor of `shape` with the content of `node` in row-major order."""
    return Tensor(Storage(node), Layout.contiguous(shape), node.dtype)


def _copy_on_write(t: Any) -> Tensor:
    """Return a tensor with the content and tape node of `t`. A write to `t` does not change the new tensor, and vice versa."""
    return Tensor(Storage(clone_unshared(t.node) if is_externally_shared(t.node) else t.node), t.layout, t.dtype)


def _to_tensor(x: Any) -> Tensor:
    """Return an item of the next state or of the result of the step as a tensor: a tensor as it is, and a Python number by `asarray`.

    Raise TraceError for anything else, such as a NumPy array.
    """
    if isinstance(x, Tensor):
        return x
    if isinstance(x, _NUMBER_TYPES):
        return asarray(x)
    raise TraceError(
        f"scan: the step returned {describe_value(x)}; it must return tensors, numbers or None, or nested lists, tuples and dicts of them"
    )


def _leaf_paths(tree: Any, path: str = "state") -> Iterator[str]:
    """Yield a name like "state['w'][0]" for each leaf of the nested state `tree`, for error messages. `path` is the name of `tree`."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _leaf_paths(value, f"{path}[{key!r}]")
    elif isinstance(tree, (list, tuple)):
        for k, value in enumerate(tree):
            yield from _leaf_paths(value, f"{path}[{k}]")
    elif tree is not None:
        yield path


def _describe_nesting(tree: Any) -> str:
    """Return the nesting of `tree` as text, with "..." for each leaf."""
    return repr(map_leaves(lambda _: ..., tree)).replace("Ellipsis", "...")
