"""Scopes of random draws: what the draws of a function become while a transform calls, repeats or traces it. A draw is one number of a
generator, its stream; element `n` of the draw is a function of the seed, the stream and the counter `n` (`random/__init__.py`). A scope
changes these three. Scopes nest as the transforms do: a scope asks the enclosing scope, and the outermost scope asks the generator. Scopes
hold for the thread that opened them.

- `RecordingScope` notes the draws of a call, and `make_replaying_scope` repeats them (checkpoint, custom_derivative).
- `BatchScope` gives the elements of a batch the same draw, or one each, or refuses (vmap).
- `StepScope` replaces the draws of a traced step by arguments that differ from step to step (scan).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import numpy as np

from .._utils.records import NamedTuple
from ..dtypes import uint64
from ..errors import DerivativeError, TraceError
from ..graph.node import PLACEHOLDER, Node
from ..graph.storage import Storage
from ..layout import Layout
from ..tensor import Tensor


class DrawSource(Protocol):
    """The interface of a random generator for scopes: `_state` is the seed and the number of the next stream."""

    _state: tuple[int, int]

    def _reserve(self, count: int) -> Draw:
        """Take `count` consecutive streams, and return the draw of the first."""

    def _release(self, draw: Draw, count: int) -> None:
        """Give back the `count` streams from `draw` on, taken by `_reserve`, if nothing was drawn since."""


class Draw(NamedTuple):
    """The seed of a random tensor, the stream (the first of several), and the counter of the first element.

    They are numbers, or 0-d uint64 tensors in a traced function.
    """

    seed: int | Tensor
    stream: int | Tensor
    counter: int | Tensor


class DrawScope:
    """A scope that passes draws on to the enclosing scope, or to the generator if outermost."""

    def __init__(self) -> None:
        self.enclosing_scope = _current_scope.get()

    def draw(self, generator: DrawSource, size: int, count: int = 1) -> Draw:
        """Return the next draw of `generator`, for a tensor of `size` elements.

        With `count`, take `count` consecutive streams, and return the draw of the first stream.
        """
        return generator._reserve(count) if self.enclosing_scope is None else self.enclosing_scope.draw(generator, size, count)

    def release(self, generator: DrawSource, draw: Draw, count: int) -> None:
        """Undo the last call of `draw`, which returned `draw` for `count` streams of `generator`."""
        if self.enclosing_scope is None:
            generator._release(draw, count)
        else:
            self.enclosing_scope.release(generator, draw, count)

    def note_seeding(self, generator: DrawSource, is_fixed: bool) -> None:
        """Note that `generator` is about to get a new state. `is_fixed` is false for a random seed, which differs from call to call."""
        if self.enclosing_scope is not None:
            self.enclosing_scope.note_seeding(generator, is_fixed)

    def close(self) -> None:
        """End the scope. Subclasses undo changes to generators here; this class does nothing."""


_current_scope: ContextVar[DrawScope | None] = ContextVar("draws", default=None)


@contextmanager
def open_scope(scope: DrawScope) -> Iterator[None]:
    """Make `scope` the scope for the draws of this thread until the end of the `with` statement, and then close it."""
    outer_scope = _current_scope.get()
    try:
        _current_scope.set(scope)
        yield
    finally:
        _current_scope.set(outer_scope)
        scope.close()


def next_draw(generator: DrawSource, size: int) -> Draw:
    """Return the next draw of `generator`, for a tensor of `size` elements, as the scope of this thread decides, if one is open.

    Inside `tx.vmap`, `size` is that of one batch element. Without a scope, the generator advances by one stream, whatever the size. Raise
    TraceError or DerivativeError if the scope refuses the draw.
    """
    scope = _current_scope.get()
    return generator._reserve(1) if scope is None else scope.draw(generator, size)


def note_seeding(generator: DrawSource, is_fixed: bool) -> None:
    """Tell the scope of this thread, if one is open, that `generator` is about to get a new state.

    `is_fixed` is false for a random seed, which differs from call to call.
    """
    scope = _current_scope.get()
    if scope is not None:
        scope.note_seeding(generator, is_fixed)


class RecordingScope(DrawScope):
    """A scope that records the draws of a call, to repeat the call with the same draws."""

    def __init__(self) -> None:
        super().__init__()
        self.draws: list[Draw] = []

    def draw(self, generator: DrawSource, size: int, count: int = 1) -> Draw:
        draw = super().draw(generator, size, count)
        self.draws.append(draw)
        return draw

    def release(self, generator: DrawSource, draw: Draw, count: int) -> None:
        self.draws.pop()
        super().release(generator, draw, count)


class _RestoringScope(DrawScope):
    """A scope that restores the states of the generators seeded inside when the scope closes."""

    def __init__(self) -> None:
        super().__init__()
        self.states: dict[int, tuple[DrawSource, tuple[int, int]]] = {}

    def note_seeding(self, generator: DrawSource, is_fixed: bool) -> None:
        self.states.setdefault(id(generator), (generator, generator._state))

    def close(self) -> None:
        for generator, state in self.states.values():
            generator._state = state


class _ReplayingScope(_RestoringScope):
    """A scope that returns the draws `draws` of a recorded call in order, independent of the states of the generators.

    A draw beyond them raises DerivativeError, beginning with `op`.
    """

    def __init__(self, op: str, draws: Sequence[Draw]) -> None:
        super().__init__()
        self.op, self.draws, self.replayed_count = op, draws, 0

    def draw(self, generator: DrawSource, size: int, count: int = 1) -> Draw:
        if self.replayed_count == len(self.draws):
            raise DerivativeError(
                f"{self.op}: the function of {self.op} drew more random tensors when it was called again than the {len(self.draws)} of its"
                " first call; it must do the same in each call"
            )
        self.replayed_count += 1
        return self.draws[self.replayed_count - 1]

    def release(self, generator: DrawSource, draw: Draw, count: int) -> None:
        self.replayed_count -= 1


def make_replaying_scope(op: str, record: RecordingScope) -> _ReplayingScope:
    """Return a scope that repeats the draws recorded by `record`, in order. A further draw raises DerivativeError, which names `op`.

    When the scope closes, generators seeded inside get their former states back.
    """
    return _ReplayingScope(op, record.draws)


class RefusingScope(DrawScope):
    """A scope that refuses draws by a TraceError with the text `message`.

    Allowed are draws from generators that the function itself gave a fixed state, as such draws are the same in each call.
    """

    def __init__(self, message: str) -> None:
        super().__init__()
        self.message = message
        self.seeded: list[DrawSource] = []

    def draw(self, generator: DrawSource, size: int, count: int = 1) -> Draw:
        if not self.has_seeded(generator):
            raise TraceError(self.message)
        return super().draw(generator, size, count)

    def has_seeded(self, generator: DrawSource) -> bool:
        """Return whether the function gave `generator` a fixed state, so that later draws are the same in each call."""
        return any([x is generator for x in self.seeded])

    def note_seeding(self, generator: DrawSource, is_fixed: bool) -> None:
        self.seeded = [x for x in self.seeded if x is not generator]
        if is_fixed:
            self.seeded.append(generator)
        super().note_seeding(generator, is_fixed)


class BatchScope(RefusingScope):
    """A scope for a function that is called once for a batch of `size` elements (`vmap`).

    `randomness` is "error" to refuse draws, "same" for the same draw for all elements, or "different" for one each.
    """

    def __init__(self, size: int, randomness: str) -> None:
        super().__init__(
            "the function draws random numbers; with randomness='error' it must not. Write"
            " tx.vmap(function, randomness='different') for numbers of its own for each element of the batch, or randomness='same'"
            " for the same numbers for all"
        )
        self.size, self.randomness = size, randomness
        self.element_index: Tensor | None = None  # the placeholder for the index of the batch element, made at the first draw that needs it

    def draw(self, generator: DrawSource, size: int, count: int = 1) -> Draw:
        """Return the draw of one batch element, of `size` elements; `generator` and `count` are as in `DrawScope.draw`.

        With "different" this is a part of the draw of the whole batch, `random((batch, *shape))`.
        """
        if self.randomness == "error" or self.has_seeded(generator):
            return super().draw(generator, size, count)
        if self.randomness == "same":
            return DrawScope.draw(self, generator, size, count)
        if self.element_index is None:
            self.element_index = _scalar_tensor(Node.of(PLACEHOLDER, (), uint64))
        batch_draw = DrawScope.draw(self, generator, size * self.size, count)
        return batch_draw._replace(counter=self.element_index * size + batch_draw.counter)

    def batched_indices(self) -> dict[Node, Node]:
        """Return a dict from the placeholder for the index of a batch element to a node with the indices of the whole batch.

        The dict is empty if no draw reads the placeholder.
        """
        if self.element_index is None:
            return {}
        return {self.element_index.node: Tensor._from_array(np.arange(self.size, dtype=np.uint64)).node}


class StepScope(_RestoringScope):
    """A scope for a step that is traced once for many steps. Its draws are placeholders; `reserve_steps` has their values for all steps."""

    def __init__(self) -> None:
        super().__init__()
        self.draws: dict[int, tuple[DrawSource, list[Draw]]] = {}  # placeholders by the id of the generator
        self.reserved: list[tuple[DrawSource, Draw, int]] = []

    def draw(self, generator: DrawSource, size: int, count: int = 1) -> Draw:
        placeholders = Draw(_scalar_tensor(Node.of(PLACEHOLDER, (), uint64)), _scalar_tensor(Node.of(PLACEHOLDER, (), uint64)), 0)
        self.draws.setdefault(id(generator), (generator, []))[1].append(placeholders)
        return placeholders

    def release(self, generator: DrawSource, draw: Draw, count: int) -> None:
        self.draws[id(generator)][1].pop()

    @property
    def has_seeded(self) -> bool:
        """True if the step seeds a generator. Such a step cannot be traced once: it must be called for each element."""
        return bool(self.states)

    @property
    def placeholders(self) -> list[Node]:
        """The placeholders for the seed and the stream of each draw."""
        return [x.node for _, draws in self.draws.values() for draw in draws for x in (draw.seed, draw.stream) if isinstance(x, Tensor)]

    def reserve_steps(self, step_count: int) -> list[Tensor] | None:
        """Take the draws of `step_count` steps from the generators, as a loop would, and return their values.

        The result has a uint64 tensor of shape (step_count,) for each placeholder in `placeholders`, in order. Return None, and take
        nothing, if the draws have no values because an enclosing function is traced.
        """
        tensors: list[Tensor] = []
        for generator, draws in self.draws.values():
            draw_count = len(draws)
            seed, first_stream, counter = block = DrawScope.draw(self, generator, 1, draw_count * step_count)
            self.reserved.append((generator, block, draw_count * step_count))
            if not isinstance(seed, int) or not isinstance(first_stream, int) or not isinstance(counter, int):
                self.release_reserved()
                return None
            streams = Tensor._from_array(np.arange(step_count * draw_count, dtype=np.uint64) + np.uint64(first_stream))
            for k in range(draw_count):
                tensors.append(Tensor._from_array(np.array([seed], dtype=np.uint64))._view(Layout((step_count,), (0,))))
                tensors.append(streams._view(Layout((step_count,), (draw_count,), k)))
        return tensors

    def release_reserved(self) -> None:
        """Give the draws taken by `reserve_steps` back to the generators, last first."""
        while self.reserved:
            DrawScope.release(self, *self.reserved.pop())


def _scalar_tensor(node: Node) -> Tensor:
    """Return `node`, a node of a single element, as a 0-d tensor."""
    return Tensor(Storage(node), Layout.contiguous(()), node.dtype)
