"""Scopes of random draws: what the draws of a function become while a transform calls, repeats or traces it.

A draw is one number of a generator, its stream; element `n` of the draw is a function of the seed, the stream and the counter `n`
(`random.py`). A scope changes these three. Scopes nest as the transforms do: a scope asks the enclosing scope, and the outermost scope asks
the generator. Scopes hold for the thread that opened them.

- `Recorded` notes the draws of a call, and `replayed` repeats them (checkpoint, custom_derivative).
- `Batched` gives the elements of a batch the same draw, or one each, or refuses (vmap).
- `Stepwise` replaces the draws of a traced step by arguments that differ from step to step (scan).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import numpy as np

from ..dtypes import uint64
from ..errors import DerivativeError, TraceError
from ..layout import Layout
from ..node import PLACEHOLDER, Node
from ..records import NamedTuple
from ..storage import Storage
from ..tensor import Tensor


class Source(Protocol):
    """A random generator, as scopes see it."""

    _state: tuple[int, int]

    def _reserve(self, count: int) -> Draw:
        """Take the next draws."""

    def _give_back(self, draw: Draw, count: int) -> None:
        """Undo `_reserve`, if nothing was drawn since."""


class Draw(NamedTuple):
    """The seed of a random tensor, the stream (the first of several), and the counter of the first element.

    They are numbers, or 0-d uint64 tensors in a traced function.
    """

    seed: int | Tensor
    stream: int | Tensor
    counter: int | Tensor


class Scope:
    """A scope that passes draws on to the enclosing scope, or to the generator if outermost."""

    def __init__(self) -> None:
        self.outer = _current_scope.get()

    def draw(self, generator: Source, size: int, count: int = 1) -> Draw:
        """Return the next draw of a generator, of `size` elements; the first of `count` draws in a row."""
        return generator._reserve(count) if self.outer is None else self.outer.draw(generator, size, count)

    def give_back(self, generator: Source, draw: Draw, count: int) -> None:
        """Undo the last `draw`."""
        if self.outer is None:
            generator._give_back(draw, count)
        else:
            self.outer.give_back(generator, draw, count)

    def seeding(self, generator: Source, is_fixed: bool) -> None:
        """Record that a generator is about to get another state. `is_fixed` tells whether the state is the same in every call."""
        if self.outer is not None:
            self.outer.seeding(generator, is_fixed)

    def leave(self) -> None:
        """End the scope."""


_current_scope: ContextVar[Scope | None] = ContextVar("draws", default=None)


@contextmanager
def within(scope: Scope) -> Iterator[None]:
    """Open a scope for the draws of this thread."""
    outer_scope = _current_scope.get()
    try:
        _current_scope.set(scope)
        yield
    finally:
        _current_scope.set(outer_scope)
        scope.leave()


def next_draw(generator: Source, size: int) -> Draw:
    """Return the next draw of a generator, of `size` elements, in the scope of this thread."""
    scope = _current_scope.get()
    return generator._reserve(1) if scope is None else scope.draw(generator, size)


def note_seeding(generator: Source, is_fixed: bool) -> None:
    """Tell the scope of this thread that a generator is about to get another state."""
    scope = _current_scope.get()
    if scope is not None:
        scope.seeding(generator, is_fixed)


class Recorded(Scope):
    """A scope that records the draws of a call, to repeat the call with the same draws."""

    def __init__(self) -> None:
        super().__init__()
        self.draws: list[Draw] = []

    def draw(self, generator: Source, size: int, count: int = 1) -> Draw:
        draw = super().draw(generator, size, count)
        self.draws.append(draw)
        return draw

    def give_back(self, generator: Source, draw: Draw, count: int) -> None:
        self.draws.pop()
        super().give_back(generator, draw, count)


class _RestoringScope(Scope):
    """A scope that restores the states of generators at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.states: dict[int, tuple[Source, tuple[int, int]]] = {}

    def seeding(self, generator: Source, is_fixed: bool) -> None:
        self.states.setdefault(id(generator), (generator, generator._state))

    def leave(self) -> None:
        for generator, state in self.states.values():
            generator._state = state


class _ReplayingScope(_RestoringScope):
    """A scope that returns the draws of a recorded call in order, independent of the generators' states."""

    def __init__(self, op: str, draws: Sequence[Draw]) -> None:
        super().__init__()
        self.op, self.draws, self.used = op, draws, 0

    def draw(self, generator: Source, size: int, count: int = 1) -> Draw:
        if self.used == len(self.draws):
            raise DerivativeError(
                f"{self.op}: the function drew more random tensors when it was called again than the {len(self.draws)} of its first call;"
                " it must do the same in each call"
            )
        self.used += 1
        return self.draws[self.used - 1]

    def give_back(self, generator: Source, draw: Draw, count: int) -> None:
        self.used -= 1


def replayed(op: str, record: Recorded) -> _ReplayingScope:
    """Return a scope in which a call draws the same random numbers as the recorded call."""
    return _ReplayingScope(op, record.draws)


class Refused(Scope):
    """A scope that refuses draws, except from generators that the function itself seeds: such draws are the same in each call."""

    def __init__(self, message: str) -> None:
        super().__init__()
        self.message = message
        self.seeded: list[Source] = []

    def draw(self, generator: Source, size: int, count: int = 1) -> Draw:
        if not self.seeds(generator):
            raise TraceError(self.message)
        return super().draw(generator, size, count)

    def seeds(self, generator: Source) -> bool:
        """Return whether the function seeded a generator."""
        return any([x is generator for x in self.seeded])

    def seeding(self, generator: Source, is_fixed: bool) -> None:
        self.seeded = [x for x in self.seeded if x is not generator]
        if is_fixed:
            self.seeded.append(generator)
        super().seeding(generator, is_fixed)


class Batched(Refused):
    """A scope for a function that is called once for a batch of `size` elements."""

    def __init__(self, size: int, randomness: str) -> None:
        super().__init__(
            "the function draws random numbers; with randomness='error' it must not. Write"
            " tx.vmap(function, randomness='different') for numbers of its own for each element of the batch, or randomness='same'"
            " for the same numbers for all"
        )
        self.size, self.randomness = size, randomness
        self.element: Tensor | None = None  # the placeholder for the index of the batch element, made at the first draw that needs it

    def draw(self, generator: Source, size: int, count: int = 1) -> Draw:
        """Return the draw of one element. With "different" that is a part of the draw of the whole batch, `random((batch, *shape))`."""
        if self.randomness == "error" or self.seeds(generator):
            return super().draw(generator, size, count)
        if self.randomness == "same":
            return Scope.draw(self, generator, size, count)
        if self.element is None:
            self.element = _scalar(Node.of(PLACEHOLDER, (), uint64))
        batch_draw = Scope.draw(self, generator, size * self.size, count)
        return batch_draw._replace(counter=self.element * size + batch_draw.counter)

    def batches(self) -> dict[Node, Node]:
        """Map the placeholder for the index of a batch element to the indices of all batch elements. Empty if no draw reads it.
        """
        if self.element is None:
            return {}
        return {self.element.node: Tensor._of_array(np.arange(self.size, dtype=np.uint64)).node}


class Stepwise(_RestoringScope):
    """A scope for a step that is traced once for many steps. Its draws are placeholders; `sequences` has their values for all steps."""

    def __init__(self) -> None:
        super().__init__()
        self.draws: dict[int, tuple[Source, list[Draw]]] = {}  # placeholders by the id of the generator
        self.reserved: list[tuple[Source, Draw, int]] = []

    def draw(self, generator: Source, size: int, count: int = 1) -> Draw:
        placeholders = Draw(_scalar(Node.of(PLACEHOLDER, (), uint64)), _scalar(Node.of(PLACEHOLDER, (), uint64)), 0)
        self.draws.setdefault(id(generator), (generator, []))[1].append(placeholders)
        return placeholders

    def give_back(self, generator: Source, draw: Draw, count: int) -> None:
        self.draws[id(generator)][1].pop()

    @property
    def seeds(self) -> bool:
        """True if the step seeds a generator: such a step must be called for each element."""
        return bool(self.states)

    @property
    def arguments(self) -> list[Node]:
        """The placeholders for the seed and the stream of each draw."""
        return [x.node for _, draws in self.draws.values() for draw in draws for x in (draw.seed, draw.stream) if isinstance(x, Tensor)]

    def sequences(self, step_count: int) -> list[Tensor] | None:
        """Take the draws of all steps from the generators, as a loop would. Return a tensor of shape (turns,) for each argument, or None
        if the draws have no values because a function around this one is traced.
        """
        tensors: list[Tensor] = []
        for generator, draws in self.draws.values():
            draw_count = len(draws)
            seed, first_stream, counter = block = Scope.draw(self, generator, 1, draw_count * step_count)
            self.reserved.append((generator, block, draw_count * step_count))
            if not isinstance(seed, int) or not isinstance(first_stream, int) or not isinstance(counter, int):
                self.undo()
                return None
            streams = Tensor._of_array(np.arange(step_count * draw_count, dtype=np.uint64) + np.uint64(first_stream))
            for k in range(draw_count):
                tensors.append(Tensor._of_array(np.array([seed], dtype=np.uint64))._view(Layout((step_count,), (0,))))
                tensors.append(streams._view(Layout((step_count,), (draw_count,), k)))
        return tensors

    def undo(self) -> None:
        """Give back the draws that `sequences` took."""
        while self.reserved:
            Scope.give_back(self, *self.reserved.pop())


def _scalar(node: Node) -> Tensor:
    return Tensor(Storage(node), Layout.contiguous(()), node.dtype)
