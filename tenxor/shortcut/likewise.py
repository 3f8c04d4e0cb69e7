"""What was made of tensors of some sizes is made of tensors of others, without Python's own method.

What a method makes is remembered by the specs of what it was given (`learn.py`). What is left of these and of the other arguments without
their numbers, but for which of them are equal, 0 or 1, is the kind of a call (`code/kinds.py`). When a kind is met again and again,
Python's own method is called with stand-ins, whose shapes and strides are `Size`s: they remember what was asked of them. So from then on
it is known for which numbers the same is made, and what sizes that has: a rule, by which machine code makes it (`code/rules.py`). Nothing
is guessed: numbers that give another answer to any question are learnt from for themselves.
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
MOST = 48  # rules of one kind
FEW = 3  # calls of one kind that are learnt from before it is looked what holds for others: many programs have no more sizes
MOST_TRACES = 400 if sys.version_info >= (3, 13) else 4000  # in a process: there a class forgets how to be quick when it was changed often
_traces = 0
NOTHING: Mapping[str, Any] = {}
P = TypeVar("P", bound=Program)


class Machine(NamedTuple):
    """Machine code: the kind and the numbers of a call of this name, with these arguments, names of the last of them, more shapes, and
    which arguments derivatives follow; the key, the kind and the numbers of a graph, whose frame belongs among these; and what a rule
    makes of tensors with such numbers and specs; None if there is none. And what forgets the kinds that were met last, and what has
    Python's own methods be there for a while.
    """

    kind_of: Callable[..., tuple[bytes, tuple[int, ...]] | None]
    kind_of_graph: Callable[[object, Node], tuple[bytes, bytes, tuple[int, ...]] | None]
    made_by: Callable[[Rule, tuple[int, ...], tuple[Spec, ...]], Made | None]
    forget_kinds: Callable[[], object]
    aside: Callable[[], AbstractContextManager[None]]


machine: list[Machine] = []  # one, or none


class Kind(Known[Program]):
    """What is known of calls of a kind, or graphs, with the objects that words of the kind are of."""

    __slots__ = ("kept",)

    def __init__(self, kept: object) -> None:
        super().__init__(MOST, FEW)
        self.kept = kept


class Call(NamedTuple):
    """A call of a method: of which kind it is, and the numbers that it has besides, each of them once. `kept` are the objects among its
    arguments, and `specs` those of its tensors.
    """

    kind: Hashable
    numbers: tuple[int, ...]
    kept: object
    specs: tuple[Spec, ...] = ()

    @classmethod
    def of(
        cls, name: object, given: Sequence[Any], names: Sequence[str] = (), more: Sequence[Shape] = (), followed: int = 0
    ) -> Call | None:
        """That of a method with these arguments, of which the last may have names, and `more` shapes. Derivatives follow those whose bits
        are set, if other steps are made for these. Of a number of which only the type matters that is given. None for what has yet more.
        """
        found = machine[0].kind_of(name, tuple(given), tuple(names), tuple(more), followed)
        if found is None:
            return None
        kept, specs = [x for x in (*given, *names) if type(x) is not Tensor], [x.spec for x in given if type(x) is Tensor]
        return cls(*found, (name, *kept), tuple(specs))

    def rules(self) -> Sequence[Any]:
        """Those of its kind."""
        known = _known.get(self.kind)
        return () if known is None else known.general

    def may_have_rules(self) -> bool:
        """Whether one may be found yet, or was: none is for a kind of which all are seen to for themselves."""
        known = _known.get(self.kind)
        return known is None or known.most > 0

    def made(self) -> Made | None:
        """What such a method makes of such arguments; None if that is not known."""
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
        """Python's own method has `made` something of these arguments, for which nothing was known, maybe with a frame of words: sometimes
        look what it would make of others.
        """
        if made is not None:
            self.learn_made(made, lambda: _traced(made, self.numbers, own, args, named, words_of))

    def learn_operation(self, made: Made | None, own: Callable[..., Any], args: Sequence[Any]) -> None:
        """The same of an operation, for which numbers are no sizes, even if some tensor has the same."""
        tensors = [x for x in args if is_sized(x)]

        def with_numbers(*given: Any) -> Any:
            each = iter(given)
            return own(*[next(each) if is_sized(x) else x for x in args])

        self.learn(made, with_numbers, tensors)

    def learn_made(self, made: Made, look: Callable[[], Rule | None]) -> None:
        """The same by another look."""

        def is_right(rule: Rule) -> bool:
            again = machine[0].made_by(rule, self.numbers, self.specs)
            return again is not None and is_alike(again, made)

        self.learn_by(look, is_right)

    def learn_frame(
        self, frame: bytes, pattern_of: Callable[[], Pattern], of_sizes: Callable[[Pattern, Pattern], SizedFrame | None]
    ) -> None:
        """Python has made the frame of a graph of this kind, with some pattern: sometimes look what those of others would be, `of_sizes`
        that stand for the numbers of the pattern.
        """

        def look() -> FrameRule | None:
            pattern, traced = pattern_of(), Traced(self.numbers)
            nodes = patterns.stand_ins(pattern, traced)
            found = of_sizes(pattern, patterns.structured([nodes[k] for k in pattern.roots]))
            return None if found is None else FrameRule(traced.trace, *found)

        self.learn_by(look, lambda rule: rule.made(self.numbers) == frame)

    def learn_by(self, look: Callable[[], P | None], is_right: Callable[[P], bool]) -> None:
        """Look for a rule, if it is time; it is believed if it says of these numbers what is known of them."""
        global _traces
        known = _known.get(self.kind)
        if known is None:
            known = Kind(self.kept)
            _known.keep(self.kind, known)
        if not known.is_due() or not taken_at_once(lock):  # frames are not made while others compute: it stays due
            return
        try:
            rule = None
            if _traces < MOST_TRACES:
                _traces += 1
                rule = look()
            known.take(rule if rule is not None and is_right(rule) else None, self.numbers)
        except Exception:  # whatever does not know such numbers
            known.take(None, self.numbers)
        finally:
            lock.release()


def is_known(x: Tensor) -> bool:
    """Whether a tensor is one element that is known as a number."""
    return type(x.storage) is Element and x.storage.known(x.dtype) is not None


def is_sized(x: Any) -> bool:
    """Whether this is a tensor for which another of other sizes may stand."""
    return type(x) is Tensor and not is_known(x)


def _traced(
    like: Made,
    numbers: Iterable[int],
    own: Callable[..., Any],
    args: Sequence[Any],
    named: Mapping[str, Any],
    words_of: Callable[..., Sequence[Number] | None] | None,
) -> Rule | None:
    """The rule by which Python's own method makes something of such arguments, of which the result is its only one."""
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
    """The frames of what was made in steps, of which one after another is computed."""
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
            if step.target is not None or type(step.op) is Gather or (step.op is OPS["pow"] and step.dtype.is_integer):  # which can fail
                frames.append((k, None, NEVER, None))
                continue
            found = frame_of_sizes(alone(k, likes, memory), alone(k, [r for r, _ in steps], sized))
            if found is not None:
                frames.append((k, products.get(k), *found))
    return frames


def stand_ins(traced: Traced, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any], list[Tensor]]:
    """What stands for the arguments of a call, by place and by name, and the tensors among all that."""
    given, by_name = [stand_in(traced, x) for x in args], {name: stand_in(traced, x) for name, x in named.items()}
    return given, by_name, [x for x in (*given, *by_name.values()) if type(x) is Tensor]


def stand_in(traced: Traced, x: Any) -> Any:
    """What stands for an argument: for a tensor one that has no memory."""
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
    """Whether the same is made: in the same steps, with the same numbers."""
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
    (recipe, sources, starts, follows), (its, others, begins, follow) = one, other
    if not are_equal(recipe, its) or starts != begins or follows != follow or len(sources) != len(others):
        return False
    return all([is_same(a, b) for a, b in zip(sources, others, strict=True)])


def are_equal(one: Recipe, other: Recipe) -> bool:
    """Whether two recipes make the same of the same: equal ones are two objects where one was forgotten meanwhile."""
    if one.op is not other.op or (one.shape, one.dtype, one.dtypes) != (other.shape, other.dtype, other.dtypes):
        return False
    each = zip((*one.forms, one.target), (*other.forms, other.target), strict=True)
    return all([a is b or (a is not None and b is not None and a.layout == b.layout) for a, b in each])


def is_same(one: Scalar | int, other: Scalar | int) -> bool:
    """Whether two sources are the same: numbers, to the bit. Kernels are given an integer among floats as a float."""
    if type(one) is not Scalar or type(other) is not Scalar:
        return one == other
    values = [float(x.value) if one.dtype.is_float and type(x.value) is int else x.value for x in (one, other)]
    return one.dtype is other.dtype and repr(values[0]) == repr(values[1])


def forget() -> None:
    """Forget all kinds."""
    _known.clear()


class _Kinds(Remembered[Kind]):
    """Kinds by their words."""

    __slots__ = ()

    def clear(self) -> None:
        """Forget all, also those that machine code has at hand."""
        super().clear()
        for each in machine:
            each.forget_kinds()


_known = _Kinds(MAX_KINDS)
