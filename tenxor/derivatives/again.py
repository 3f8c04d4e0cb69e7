"""Replay of recorded derivative computations: record the nodes created by a rule once, and later create the same nodes from new inputs.

The nodes of a rule follow from recipes, layouts and shapes alone. So the rule runs once with placeholders for its inputs, and the created
nodes are recorded as `Steps`. A cache finds the steps by a key of everything the steps depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar

from ..layout import Layout
from ..node import PLACEHOLDER, Node, Recipe, Scalar, recipe_of, untracked
from ..past import short_again
from ..plans.tracing import Traced
from ..records import NamedTuple
from ..remembered import Remembered
from .adjoint import Part, Placed, seen_of
from .seen import Seen

MAX_STEPS, MAX_BYTES = 1 << 13, 1 << 24
Pulled = Sequence[tuple[int, Part]]


class Step(NamedTuple):
    """One recorded node: the recipe, the indices of the sources in the list of values, and the offsets of the layouts."""

    recipe: Recipe
    sources: tuple[int, ...]
    offsets: tuple[int, ...]


class Output(NamedTuple):
    """One recorded result, for source `k`: node number `number` seen through `layout`.

    `place` and `apart` describe a partial cotangent (`Placed`). `place` is None for a cotangent of the whole source.
    """

    k: int
    number: int
    layout: Layout
    place: Layout | None
    apart: bool


class Steps:
    """A recorded computation. Values are numbered: first the constants, then the inputs, then one value for each step, in order."""

    __slots__ = ("constants", "outputs", "steps")

    def __init__(self, constants: list[Node | Scalar], steps: list[Step], outputs: list[Output]) -> None:
        self.constants, self.steps, self.outputs = constants, steps, outputs

    @classmethod
    def of(cls, given: Sequence[Node | Scalar], outputs: Pulled) -> Steps:
        """Return the computation that led from the nodes and numbers `given` to `outputs`."""
        number_of: dict[int, int] = {id(x): k for k, x in enumerate(given)}
        constants: list[Node | Scalar] = []
        order: list[Node] = []
        seen: set[int] = set()
        stack: list[tuple[Node | Scalar, bool]] = [(seen_of(part).node, False) for _, part in reversed(outputs)]
        while stack:
            x, ready = stack.pop()
            if id(x) in number_of:
                continue
            if ready and type(x) is Node:
                order.append(x)
            elif id(x) not in seen:
                seen.add(id(x))
                if type(x) is not Node or x.buffer is not None:
                    constants.append(x)
                else:
                    stack.append((x, True))
                    stack += [(s, False) for s in reversed(x.sources)]
        first = len(constants)
        number_of = {x: k + first for x, k in number_of.items()} | {id(x): k for k, x in enumerate(constants)}
        for k, node in enumerate(order, start=first + len(given)):
            number_of[id(node)] = k
        steps = [Step(node.recipe, tuple([number_of[id(s)] for s in node.sources]), node.offsets) for node in order]
        return cls(constants, steps, [_output(k, part, number_of) for k, part in outputs])

    def run(self, given: Sequence[Node | Scalar]) -> list[tuple[int, Part]]:
        """Return the results of the computation for new inputs. The new nodes are pending."""
        every = [*self.constants, *given]
        first = len(every)
        for short in short_again:
            short.make(every, self.steps)
        for recipe, sources, offsets in self.steps[len(every) - first :]:
            every.append(Node(recipe, tuple([every[k] for k in sources]), offsets))
        found: list[tuple[int, Part]] = []
        for k, number, layout, place, apart in self.outputs:
            seen = Seen(every[number], layout)  # type: ignore[arg-type]
            found.append((k, seen if place is None else Placed(seen, place, apart)))
        return found

    @property
    def nbytes(self) -> int:
        """The memory of the constants, in bytes."""
        return sum([x.recipe.nbytes for x in self.constants if type(x) is Node])


def _output(k: int, part: Part, number_of: dict[int, int]) -> Output:
    seen = seen_of(part)
    place, apart = (None, True) if isinstance(part, Seen) else (part.layout, part.apart)
    return Output(k, number_of[id(seen.node)], seen.layout, place, apart)


_known: Remembered[Steps] = Remembered(MAX_STEPS, MAX_BYTES)
_known_of = _known.get
_tracing: ContextVar[bool] = ContextVar("_tracing", default=False)  # True while sizes are symbolic; nothing is cached then
Make = Callable[[Sequence[Node | Scalar]], Pulled]


def made_again(
    key: Hashable, given: Sequence[Node | Scalar], make: Make, found: Callable[[], Steps] | None = None
) -> list[tuple[int, Part]]:
    """Return the results of `make(given)`, replayed from recorded steps if `key` is in the cache.

    `key` must hold everything the results depend on, except for the identities of `given`. On a miss, the steps come from `found()`, if
    given; otherwise `make` is recorded with placeholders.
    """
    if _tracing.get():
        return list(make(given))
    steps = _known_of(key)
    if steps is None:
        steps = steps_for(given, make) if found is None else found()
        _known.keep(key, steps, steps.nbytes)
    return steps.run(given)


def steps_for(given: Sequence[Node | Scalar], make: Make, numbers: Traced | None = None) -> Steps:
    """Record the computation of `make` from the nodes and numbers `given`, and return the steps.

    `make` is called with placeholders of the same shapes, or of symbolic sizes if `numbers`, a map from numbers to symbolic sizes, is
    given. With symbolic sizes nothing is cached.
    """

    def stand_in(x: Node | Scalar) -> Node | Scalar:
        if type(x) is not Node:
            return Scalar(x.value, x.dtype)  # type: ignore[union-attr]
        shape = x.shape if numbers is None else tuple(map(numbers.number, x.shape))
        return Node(recipe_of(PLACEHOLDER, shape, x.dtype))

    stand_ins = list(map(stand_in, given))
    before = _tracing.get()
    try:
        _tracing.set(numbers is not None)  # inside `try`, as a signal may be delivered right after this line
        with untracked():
            return Steps.of(stand_ins, make(stand_ins))
    finally:
        _tracing.set(before)
