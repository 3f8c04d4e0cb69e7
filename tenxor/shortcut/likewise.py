"""Size-generic templates: calls recorded for some sizes are replayed for further sizes without the fallback.

The result of a call is stored under the specs of its arguments (`learn.py`). The signature of a call (its kind, `code/kinds.py`) consists
of the specs and arguments without their numbers, and of the information which numbers are equal, 0 or 1. After a few calls of one
signature, the fallback runs once with placeholders, whose shapes and strides are symbolic `Size`s. Every comparison made with a `Size` is
recorded as a guard. The result with its symbolic sizes becomes a size-generic template (`Rule`), used by the generated code to make results
(`code/rules.py`). Nothing is guessed: numbers that fail a guard are recorded for their exact sizes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from ..known import Known
from ..layout.coords import Shape
from ..locking import taken_at_once
from ..memory import NOWHERE
from ..node import DATA, Gather, Node, Recipe, Scalar, next_number, recipe_of
from ..ops import OPS
from ..past import Past
from ..plans import pattern as patterns
from ..plans.parts import PRODUCT, SUM
from ..plans.pattern import Pattern
from ..plans.tracing import Traced
from ..realize import lock
from ..records import NamedTuple
from ..remembered import Remembered
from ..sizes import Number
from ..spec import Made, Spec, itself
from ..storage import Element, Storage
from ..tensor import Tensor
from .frames import NEVER, Alone, SizedFrame, frame_of_sizes
from .madeof import several, steps_of, view_of
from .rule import OWN, FrameRule, Program, Rule, Words

MAX_KINDS = 1024
MOST = 48  # size-generic templates of one signature
FEW = 3  # calls of one signature recorded for exact sizes before tracing: many programs have no more sizes
MOST_TRACES = 400 if sys.version_info >= (3, 13) else 4000  # per process; from 3.13 on, a class changed often gets slow for good
_traces = 0
NOTHING: Mapping[str, Any] = {}
P = TypeVar("P", bound=Program)


class Machine(NamedTuple):
    """The generated functions for size-generic templates, and the switch that disables the fast path.

    `kind_of(name, arguments, names, shapes, followed)` returns the signature of a call and its numbers, or None. The `names` belong to the
    last arguments, `shapes` are further shapes, and `followed` is a bit mask of the arguments on the autograd tape.
    `kind_of_graph(records, node)` returns the key, the signature and the numbers of a graph, whose launch record belongs in `records`.
    `made_by(rule, numbers, specs)` returns the template for these sizes, or None if a guard fails. `forget_kinds()` clears the generated
    code's cache of recent signatures. `aside()` is a context manager that disables the fast path.
    """

    kind_of: Callable[..., tuple[bytes, tuple[int, ...]] | None]
    kind_of_graph: Callable[[object, Node], tuple[bytes, bytes, tuple[int, ...]] | None]
    made_by: Callable[[Rule, tuple[int, ...], tuple[Spec, ...]], Made | None]
    forget_kinds: Callable[[], object]
    aside: Callable[[], AbstractContextManager[None]]


machine: list[Machine] = []  # empty until the fast path is installed, then a single item


class Kind(Known[Program]):
    """The size-generic templates of one signature of calls or graphs.

    The signature refers to objects by address. `kept` holds these objects, so no new object gets an old address.
    """

    __slots__ = ("kept",)

    def __init__(self, kept: object) -> None:
        super().__init__(MOST, FEW)
        self.kept = kept


class Call(NamedTuple):
    """A call of a method, split into a signature `kind` and the remaining `numbers`: the sizes and integers, each listed once.

    `kept` are the objects that the signature refers to by address, and `specs` the specs of the tensors.
    """

    kind: Hashable
    numbers: tuple[int, ...]
    kept: object
    specs: tuple[Spec, ...] = ()

    @classmethod
    def of(
        cls, name: object, given: Sequence[Any], names: Sequence[str] = (), more: Sequence[Shape] = (), followed: int = 0
    ) -> Call | None:
        """Return the signature and the numbers of a call of `name`; None for arguments that no signature can hold.

        `names` are the names of the last arguments `given`, and `more` are shapes with further numbers. `followed` is a bit mask of the
        arguments on the autograd tape, if the method then makes different nodes. A scalar whose value does not matter is given as its
        type.
        """
        found = machine[0].kind_of(name, tuple(given), tuple(names), tuple(more), followed)
        if found is None:
            return None
        kept, specs = [x for x in (*given, *names) if type(x) is not Tensor], [x.spec for x in given if type(x) is Tensor]
        return cls(*found, (name, *kept), tuple(specs))

    def rules(self) -> Sequence[Any]:
        """Return the size-generic templates of this signature, most recently used first."""
        known = _known.get(self.kind)
        return () if known is None else known.general

    def may_have_rules(self) -> bool:
        """Return whether this signature has, or may get, size-generic templates: no trace of this signature has failed."""
        known = _known.get(self.kind)
        return known is None or known.most > 0

    def made(self) -> Made | None:
        """Return the result template for this call from a size-generic template; None if the guards fail in each."""
        for rule in self.rules():
            made: Made | None = machine[0].made_by(rule, self.numbers, self.specs)
            if made is not None:
                return made
        return None

    def learn(
        self,
        made: Made | None,
        own: Callable[..., Any],
        args: Sequence[Any],
        named: Mapping[str, Any] = NOTHING,
        words_of: Callable[..., Sequence[Number] | None] | None = None,
    ) -> None:
        """Trace a size-generic template from the fallback `own`, called with `args` and `named`, if it is time (see `learn_by`).

        `made` is the template just recorded for these arguments; do nothing if `made` is None. `words_of`, if given, takes the same
        arguments and returns integers to store with the template.
        """
        if made is not None:
            self.learn_made(made, lambda: _traced(made, self.numbers, own, args, named, words_of))

    def learn_operation(self, made: Made | None, own: Callable[..., Any], args: Sequence[Any]) -> None:
        """Trace a size-generic template of an operation from the fallback `own`, if it is time.

        `made` is the template just recorded for these arguments. Scalars are never symbolic here, even if a tensor has a size of the same
        value.
        """
        tensors = [x for x in args if is_sized(x)]

        def with_numbers(*given: Any) -> Any:
            each = iter(given)
            return own(*[next(each) if is_sized(x) else x for x in args])

        self.learn(made, with_numbers, tensors)

    def learn_made(self, made: Made, look: Callable[[], Rule | None]) -> None:
        """Trace a size-generic template with `look`, if it is time (see `learn_by`).

        `look` returns the template, or None if there is none. Accept the template only if it gives `made` for the numbers of this call.
        """

        def is_right(rule: Rule) -> bool:
            again = machine[0].made_by(rule, self.numbers, self.specs)
            return again is not None and is_alike(again, made)

        self.learn_by(look, is_right)

    def learn_frame(
        self, frame: bytes, pattern_of: Callable[[], Pattern], of_sizes: Callable[[Pattern, Pattern], SizedFrame | None]
    ) -> None:
        """Trace a size-generic launch record, if it is time; accept it only if the record gives `frame` for the numbers of this graph.

        `pattern_of` returns the graph's signature. `of_sizes` takes this signature and the one with symbolic sizes, and returns the record,
        or None.
        """

        def look() -> FrameRule | None:
            pattern, traced = pattern_of(), Traced(self.numbers)
            nodes = patterns.stand_ins(pattern, traced)
            found = of_sizes(pattern, patterns.structured([nodes[k] for k in pattern.roots]))
            return None if found is None else FrameRule(traced.trace, *found)

        self.learn_by(look, lambda rule: rule.made(self.numbers) == frame)

    def learn_by(self, look: Callable[[], P | None], is_right: Callable[[P], bool]) -> None:
        """Trace a size-generic template with `look`, if it is time, and store it if `is_right` accepts it.

        `look` returns the template, or None if the call is not size-generic; None and an exception count as failures. It is time after
        `FEW` calls of the signature, and later if templates of this signature turned out to fit single values only. If tracing fails, the
        signature is marked, and later calls are not traced; after `MOST_TRACES` traces in a process each further trace fails. While another
        thread is computing, tracing is postponed.
        """
        global _traces
        known = _known.get(self.kind)
        if known is None:
            known = Kind(self.kept)
            _known.keep(self.kind, known)
        if not known.is_due() or not taken_at_once(lock):  # no records are built while others compute: the trace stays due
            return
        try:
            rule = None
            if _traces < MOST_TRACES:
                _traces += 1
                rule = look()
            known.take(rule if rule is not None and is_right(rule) else None, self.numbers)
        except Exception:  # code without support for symbolic sizes
            known.take(None, self.numbers)
        finally:
            lock.release()


def is_known(x: Tensor) -> bool:
    """Return whether a tensor is a scalar with a known Python value."""
    return type(x.storage) is Element and x.storage.known(x.dtype) is not None


def is_sized(x: Any) -> bool:
    """Return whether an argument is a tensor that a placeholder of symbolic sizes may replace."""
    return type(x) is Tensor and not is_known(x)


def _traced(
    like: Made,
    numbers: Iterable[int],
    own: Callable[..., Any],
    args: Sequence[Any],
    named: Mapping[str, Any],
    words_of: Callable[..., Sequence[Number] | None] | None,
) -> Rule | None:
    """Run `own`, the fallback, with placeholders for `args` and `named`, and return the size-generic template of its result, or None.

    `like` is the template for the concrete sizes, and `numbers` are the sizes to become symbolic. `words_of` returns integers to store with
    the template for the given arguments, or None. If `like` is the operand itself, or a single node, the traced result must be so too.
    """
    traced = Traced(numbers)
    given, by_name, tensors = stand_ins(traced, args, named)
    with machine[0].aside():
        began = next_number()
        found = own(*given, **by_name)
        if isinstance(found, tuple):
            made = several(tensors[0], given, by_name, found, began)
        else:
            made = (view_of(tensors[0], found) if len(tensors) == 1 else None) or steps_of(tensors, found, began)
    if made is None or made.spec.strides is None or (like.recipe is not None and len(made.steps) != 1):
        return None
    if (made.kind is itself) != (like.kind is itself):
        return None
    frames = _frames(like, made, [x for x in (*args, *named.values()) if type(x) is Tensor], tensors)
    words = None if words_of is None else words_of(*given, **by_name)
    if words is not None:
        frames.append((OWN, None, words, None))
    return Rule(traced.trace, made, like, frames, [t.spec for t in tensors])


def _frames(like: Made, made: Made, tensors: Sequence[Tensor], stand_ins: Sequence[Tensor]) -> list[Words]:
    """Return the size-generic launch records of the nodes of a result; a product has no record, since its sum computes it.

    `like` is the template with concrete sizes, of `tensors`; `made` is the symbolic template, of the placeholders `stand_ins`. Nodes that
    can fail at run time get `NEVER`.
    """
    frames = list[Words]()
    memory = [t.storage.node.recipe.done for t in tensors]
    sized = [t.storage.node.recipe for t in stand_ins]
    steps = [(r, sources) for r, sources, *_ in made.steps]
    likes = [like.recipe] if like.recipe is not None else [r for r, *_ in like.steps]
    summed = {k: -1 - sources[0] for k, (r, sources) in enumerate(steps) if r.op is SUM and type(sources[0]) is int and sources[0] < 0}
    products = {k: p for k, p in summed.items() if steps[p][0].op is PRODUCT}

    def alone(k: int, recipes: Sequence[Recipe], given: Sequence[Recipe]) -> Alone:
        p = products.get(k)
        sources = steps[k if p is None else p][1]
        each = [None if isinstance(s, Scalar) else given[s] if s >= 0 else recipes[-1 - s].done for s in sources]
        return Alone(recipes[k], None if p is None else recipes[p], each)

    for k in range(len(steps)):
        if k not in products.values():
            step = steps[k][0]
            if step.target is not None or type(step.op) is Gather or (step.op is OPS["pow"] and step.dtype.is_integer):  # can fail
                frames.append((k, None, NEVER, None))
                continue
            found = frame_of_sizes(alone(k, likes, memory), alone(k, [r for r, _ in steps], sized))
            if found is not None:
                frames.append((k, products.get(k), *found))
    return frames


def stand_ins(traced: Traced, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any], list[Tensor]]:
    """Return placeholders for the positional arguments `args` and the keyword arguments `named`, and the placeholder tensors among them.

    Shapes, strides and integers become symbolic sizes of `traced`.
    """
    given, by_name = [stand_in(traced, x) for x in args], {name: stand_in(traced, x) for name, x in named.items()}
    return given, by_name, [x for x in (*given, *by_name.values()) if type(x) is Tensor]


def stand_in(traced: Traced, x: Any) -> Any:
    """Return a placeholder for an argument, with symbolic sizes of `traced` for its integers; other arguments are returned as they are.

    The placeholder of a tensor has no memory. It has a tape node if `x` is on the autograd tape.
    """
    if type(x) is Tensor:
        layout, held = traced.layout(x.spec.layout), traced.numbers(x.storage.node.shape)
        node = Node(recipe_of(DATA, held, x.dtype), buffer=NOWHERE)  # type: ignore[arg-type]
        if x.storage.node.past is not None:
            node.past = Past(node.recipe)
        return Tensor(Storage(node), layout, x.dtype)
    if type(x) is tuple:
        return tuple([stand_in(traced, k) for k in x])
    return traced.numbers((x,))[0] if type(x) is int else x


def is_alike(one: Made, other: Made) -> bool:
    """Return whether two templates make the same result, by the same recipes and with the same numbers."""
    if (one.frame, one.loop, one.low, one.high) != (other.frame, other.loop, other.low, other.high):
        return False
    if (one.kind is itself) != (other.kind is itself):
        return False
    if one.spec.dtype is not other.spec.dtype or one.spec.layout != other.spec.layout or one.shift != other.shift:
        return False
    if len(one.parts) != len(other.parts):
        return False
    if not all([a is b or (type(a) is Made and is_alike(a, b)) for a, b in zip(one.parts, other.parts, strict=True)]):
        return False
    if len(one.steps) != len(other.steps) or (one.recipe is None) != (other.recipe is None):
        return False
    if one.recipe is not None and other.recipe is not None and not are_equal(one.recipe, other.recipe):
        return False
    return all([_are_alike(a, b) for a, b in zip(one.steps, other.steps, strict=True)])


def _are_alike(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return whether two steps of templates make the same node: recipe, sources, offsets and tracking."""
    (recipe, sources, starts, follows), (its, others, begins, follow) = one, other
    if not are_equal(recipe, its) or starts != begins or follows != follow or len(sources) != len(others):
        return False
    return all([is_same(a, b) for a, b in zip(sources, others, strict=True)])


def are_equal(one: Recipe, other: Recipe) -> bool:
    """Return whether two recipes compute the same from the same sources.

    Equal recipes are a single object, unless the cache evicted the first.
    """
    if one.op is not other.op or (one.shape, one.dtype, one.dtypes) != (other.shape, other.dtype, other.dtypes):
        return False
    each = zip((*one.forms, one.target), (*other.forms, other.target), strict=True)
    return all([a is b or (a is not None and b is not None and a.layout == b.layout) for a, b in each])


def is_same(one: Scalar | int, other: Scalar | int) -> bool:
    """Return whether two sources are the same operand, or scalars that are equal to the bit.

    An integer and a float of the same value are equal where the dtype is a float: kernels receive both as a float.
    """
    if type(one) is not Scalar or type(other) is not Scalar:
        return one == other
    values = [float(x.value) if one.dtype.is_float and type(x.value) is int else x.value for x in (one, other)]
    return one.dtype is other.dtype and repr(values[0]) == repr(values[1])


def forget() -> None:
    """Clear the size-generic templates of every signature."""
    _known.clear()


class _Kinds(Remembered[Kind]):
    """A bounded cache from signatures to size-generic templates."""

    __slots__ = ()

    def clear(self) -> None:
        """Clear the cache, and the generated code's cache of recent signatures."""
        super().clear()
        for each in machine:
            each.forget_kinds()


_known = _Kinds(MAX_KINDS)
