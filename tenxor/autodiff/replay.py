"""Replay of recorded derivative computations: record the nodes created by a rule once, and later create the same nodes from new inputs. A
`Recording` lists a step for each created node. Inputs are nodes and numbers; a placeholder is a node without a value, in place of an input.

The nodes of a rule follow from recipes, layouts and shapes alone. So the rule runs once with placeholders for its inputs, and the created
nodes are recorded as `Recording`. A cache finds the recording by a key of everything the nodes depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar

from .._utils import upcalls
from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import register
from .._utils.records import NamedTuple
from ..graph.node import PLACEHOLDER, Node, Recipe, Scalar, disable_tape, intern_recipe
from ..layout import Layout
from ..runtime.plan_tracing import SymbolicSizes
from .layout_adjoint import Cotangent, PartialCotangent, get_values
from .node_view import NodeView

MAX_CACHED_RECORDINGS, MAX_CACHED_BYTES = 1 << 13, 1 << 24
IndexedCotangents = Sequence[tuple[int, Cotangent]]


class ReplayStep(NamedTuple):
    """One recorded node: the recipe `recipe`, the value numbers `sources` of the operands in a `Recording`, and the `offsets` of the
    layouts.
    """

    recipe: Recipe
    sources: tuple[int, ...]
    offsets: tuple[int, ...]


class RecordedOutput(NamedTuple):
    """One recorded result, the cotangent or tangent for index `source_index`: value number `value_index` of the `Recording`, seen through
    `layout`.

    `target` and `is_injective` describe a partial cotangent (`PartialCotangent`). `target` is None for a cotangent of the whole source.
    """

    source_index: int
    value_index: int
    layout: Layout
    target: Layout | None
    is_injective: bool


class Recording:
    """A recorded computation. Values are numbered: first the constants, then the inputs, then one value for each step, in order.

    `constants` are nodes in memory and numbers, `steps` describes the nodes to create, and `outputs` describes the results.
    """

    __slots__ = ("constants", "outputs", "steps")

    def __init__(self, constants: list[Node | Scalar], steps: list[ReplayStep], outputs: list[RecordedOutput]) -> None:
        self.constants, self.steps, self.outputs = constants, steps, outputs

    @classmethod
    def record(cls, inputs: Sequence[Node | Scalar], outputs: IndexedCotangents) -> Recording:
        """Return a recording of the pending nodes that lead from the nodes and numbers `inputs` to `outputs`, pairs of an index and a
        cotangent.

        Nodes in memory and numbers besides the inputs become constants, and are kept alive by the recording. A further pending node is
        recorded with all that it reads.
        """
        number_of: dict[int, int] = {id(x): k for k, x in enumerate(inputs)}
        constants: list[Node | Scalar] = []
        order: list[Node] = []
        visited: set[int] = set()
        stack: list[tuple[Node | Scalar, bool]] = [(get_values(cotangent).node, False) for _, cotangent in reversed(outputs)]
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
        steps = [ReplayStep(node.recipe, tuple([number_of[id(s)] for s in node.sources]), node.offsets) for node in order]
        return cls(constants, steps, [_record_output(k, cotangent, number_of) for k, cotangent in outputs])

    def replay(self, inputs: Sequence[Node | Scalar]) -> list[tuple[int, Cotangent]]:
        """Return the results of the computation for `inputs`, in the order of the recorded inputs: pairs of an index and a cotangent.

        The pairs have the recorded order. The new nodes are pending. Shapes and layouts of the inputs must be those of the recorded inputs;
        this is not checked.
        """
        values = [*self.constants, *inputs]
        input_count = len(values)
        fast_path = upcalls.installed
        if fast_path is not None:
            fast_path.tape_replay.make_nodes(values, self.steps)
        for recipe, sources, offsets in self.steps[len(values) - input_count :]:
            values.append(Node(recipe, tuple([values[k] for k in sources]), offsets))
        results: list[tuple[int, Cotangent]] = []
        for k, number, layout, target, is_injective in self.outputs:
            view = NodeView(values[number], layout)  # type: ignore[arg-type]
            results.append((k, view if target is None else PartialCotangent(view, target, is_injective)))
        return results

    @property
    def nbytes(self) -> int:
        """The memory of the constants, in bytes."""
        return sum([x.recipe.nbytes for x in self.constants if type(x) is Node])


def _record_output(k: int, cotangent: Cotangent, number_of: dict[int, int]) -> RecordedOutput:
    """Return the record of one result of a recorded computation: the cotangent or tangent `cotangent` for the source with index `k`.

    `number_of` maps the `id` of each node to its value number in the recording.
    """
    view = get_values(cotangent)
    target, is_injective = (None, True) if isinstance(cotangent, NodeView) else (cotangent.layout, cotangent.is_injective)
    return RecordedOutput(k, number_of[id(view.node)], view.layout, target, is_injective)


_recording_cache: BoundedCache[Recording] = register("recorded derivatives", "the derivative of a tape segment, by signature")(
    BoundedCache(MAX_CACHED_RECORDINGS, MAX_CACHED_BYTES)
)
_find_recording = _recording_cache.get
_sizes_are_symbolic: ContextVar[bool] = ContextVar("_tracing", default=False)  # True while sizes are symbolic; nothing is cached then
Computation = Callable[[Sequence[Node | Scalar]], IndexedCotangents]


def replay_or_record(
    key: Hashable, inputs: Sequence[Node | Scalar], compute: Computation, find_recording: Callable[[], Recording] | None = None
) -> list[tuple[int, Cotangent]]:
    """Return the results of `compute(inputs)`, as new pending nodes, replayed from a recording if `key` is in the cache.

    The results are pairs of an index and a cotangent or tangent. `key` must hold everything the results depend on, except for the
    identities of `inputs`. On a miss, `find_recording()` gives the recording, if this function is given. Otherwise `compute` is recorded
    with placeholders; so `compute` must not read values. The new recording is cached. While sizes are symbolic, `compute` is called
    directly.
    """
    if _sizes_are_symbolic.get():
        return list(compute(inputs))
    recording = _find_recording(key)
    if recording is None:
        recording = record_steps(inputs, compute) if find_recording is None else find_recording()
        _recording_cache.put(key, recording, recording.nbytes)
    return recording.replay(inputs)


def record_steps(inputs: Sequence[Node | Scalar], compute: Computation, symbolic_sizes: SymbolicSizes | None = None) -> Recording:
    """Return a recording of the computation of `compute` from the nodes and numbers `inputs`.

    `compute` is called without a tape, with placeholders of the same shapes for nodes, and with copies of the numbers. If `symbolic_sizes`
    is given, the placeholders have symbolic sizes in place of the present sizes. Then the computations inside `compute` are not cached. The
    recording itself is never cached here.
    """

    def make_placeholder(x: Node | Scalar) -> Node | Scalar:
        if type(x) is not Node:
            return Scalar(x.value, x.dtype)  # type: ignore[union-attr]
        shape = x.shape if symbolic_sizes is None else tuple(map(symbolic_sizes.symbolize_dim, x.shape))
        return Node(intern_recipe(PLACEHOLDER, shape, x.dtype))

    placeholders = list(map(make_placeholder, inputs))
    previous = _sizes_are_symbolic.get()
    try:
        _sizes_are_symbolic.set(symbolic_sizes is not None)  # inside `try`, as a signal may be delivered right after this line
        with disable_tape():
            return Recording.record(placeholders, compute(placeholders))
    finally:
        _sizes_are_symbolic.set(previous)
