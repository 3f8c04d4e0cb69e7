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

MAX_CACHED_RECORDINGS, MAX_CACHED_BYTES = 1 << 13, 1 << 24
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
    def of(cls, inputs: Sequence[Node | Scalar], outputs: Pulled) -> Steps:
        """Record the pending nodes that lead from the nodes and numbers `inputs` to `outputs`, pairs of an index and a cotangent.

        Nodes in memory and numbers besides the inputs become constants.
        """
        number_of: dict[int, int] = {id(x): k for k, x in enumerate(inputs)}
        constants: list[Node | Scalar] = []
        order: list[Node] = []
        visited: set[int] = set()
        stack: list[tuple[Node | Scalar, bool]] = [(seen_of(cotangent).node, False) for _, cotangent in reversed(outputs)]
        while stack:
            x, ready = stack.pop()
            if id(x) in number_of:
                continue
            if ready and type(x) is Node:
                order.append(x)
            elif id(x) not in visited:
                visited.add(id(x))
                if type(x) is not Node or x.buffer is not None:
                    constants.append(x)
                else:
                    stack.append((x, True))
                    stack += [(s, False) for s in reversed(x.sources)]
        constant_count = len(constants)
        number_of = {x: k + constant_count for x, k in number_of.items()} | {id(x): k for k, x in enumerate(constants)}
        for k, node in enumerate(order, start=constant_count + len(inputs)):
            number_of[id(node)] = k
        steps = [Step(node.recipe, tuple([number_of[id(s)] for s in node.sources]), node.offsets) for node in order]
        return cls(constants, steps, [_output(k, cotangent, number_of) for k, cotangent in outputs])

    def run(self, inputs: Sequence[Node | Scalar]) -> list[tuple[int, Part]]:
        """Return the results of the computation for new inputs. The new nodes are pending."""
        values = [*self.constants, *inputs]
        input_count = len(values)
        for short in short_again:
            short.make(values, self.steps)
        for recipe, sources, offsets in self.steps[len(values) - input_count :]:
            values.append(Node(recipe, tuple([values[k] for k in sources]), offsets))
        results: list[tuple[int, Part]] = []
        for k, number, layout, target, is_injective in self.outputs:
            view = Seen(values[number], layout)  # type: ignore[arg-type]
            results.append((k, view if target is None else Placed(view, target, is_injective)))
        return results

    @property
    def nbytes(self) -> int:
        """The memory of the constants, in bytes."""
        return sum([x.recipe.nbytes for x in self.constants if type(x) is Node])


def _output(k: int, cotangent: Part, number_of: dict[int, int]) -> Output:
    """Return the record of one result: `cotangent` for source `k`. `number_of` maps the `id` of each node to its value number."""
    view = seen_of(cotangent)
    target, is_injective = (None, True) if isinstance(cotangent, Seen) else (cotangent.layout, cotangent.apart)
    return Output(k, number_of[id(view.node)], view.layout, target, is_injective)


_steps_cache: Remembered[Steps] = Remembered(MAX_CACHED_RECORDINGS, MAX_CACHED_BYTES)
_find_steps = _steps_cache.get
_tracing: ContextVar[bool] = ContextVar("_tracing", default=False)  # True while sizes are symbolic; nothing is cached then
Make = Callable[[Sequence[Node | Scalar]], Pulled]


def made_again(
    key: Hashable, inputs: Sequence[Node | Scalar], make: Make, find_steps: Callable[[], Steps] | None = None
) -> list[tuple[int, Part]]:
    """Return the results of `make(inputs)`, replayed from recorded steps if `key` is in the cache.

    The results are pairs of an index and a cotangent or tangent. `key` must hold everything the results depend on, except for the
    identities of `inputs`. On a miss, the steps come from `find_steps()`, if given; otherwise `make` is recorded with placeholders.
    """
    if _tracing.get():
        return list(make(inputs))
    steps = _find_steps(key)
    if steps is None:
        steps = steps_for(inputs, make) if find_steps is None else find_steps()
        _steps_cache.keep(key, steps, steps.nbytes)
    return steps.run(inputs)


def steps_for(inputs: Sequence[Node | Scalar], make: Make, numbers: Traced | None = None) -> Steps:
    """Record the computation of `make` from the nodes and numbers `inputs`, and return the steps.

    `make` is called with placeholders of the same shapes, or of symbolic sizes if `numbers`, a map from numbers to symbolic sizes, is
    given. With symbolic sizes nothing is cached.
    """

    def make_placeholder(x: Node | Scalar) -> Node | Scalar:
        if type(x) is not Node:
            return Scalar(x.value, x.dtype)  # type: ignore[union-attr]
        shape = x.shape if numbers is None else tuple(map(numbers.number, x.shape))
        return Node(recipe_of(PLACEHOLDER, shape, x.dtype))

    placeholders = list(map(make_placeholder, inputs))
    previous = _tracing.get()
    try:
        _tracing.set(numbers is not None)  # inside `try`, as a signal may be delivered right after this line
        with untracked():
            return Steps.of(placeholders, make(placeholders))
    finally:
        _tracing.set(previous)
