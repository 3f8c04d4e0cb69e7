"""What was made of tensors of some sizes is made of tensors of others, without Python's own method.

What a method makes is remembered by the specs of what it was given (`learn.py`). What is left of these and of the other arguments without
their numbers, but for which of them are equal, 0 or 1, is the kind of a call. When a kind is met again and again, Python's own method is
called with stand-ins, whose shapes and strides are `Size`s: they remember what was asked of them. So from then on it is known for which
numbers the same is made, and what sizes that has. Nothing is guessed: numbers that give another answer to any question are learnt from for
themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ..layout import Form, form_of_numbers
from ..locking import taken_at_once
from ..node import DATA, Node, Recipe, Scalar, next_number, recipe_of
from ..plans.general import Traced
from ..plans.parts import PRODUCT, SUM
from ..plans.steps import Plan
from ..realize import lock
from ..remembered import Remembered
from ..sizes import Known, Size
from ..spec import Made, Spec, equalities_of, spec_of
from ..storage import Storage, Watched
from ..tensor import Tensor
from .frames import NOWHERE, Alone, frame_of_sizes, give_frame
from .madeof import steps_of, view_of

MAX_KINDS = 1024
MOST = 12  # rules of one kind
FEW = 3  # calls of one kind that are learnt from before it is looked what holds for others: many programs have no more sizes
MOST_TRACES = 400 if sys.version_info >= (3, 13) else 4000  # in a process: there a class forgets how to be quick when it was changed often
_HOLD_NODES = frozenset((Storage, Watched))
pythons_own: list[Callable[[], AbstractContextManager[None]]] = []  # what has Python's own methods stand in their places for a while
_traces = 0
NOTHING: Mapping[str, Any] = {}


class Call:
    """A call of a method: of which kind it is, and the numbers that it has besides, each of them once."""

    __slots__ = ("kind", "numbers")

    def __init__(self, kind: object, numbers: Sequence[int]) -> None:
        self.kind, self.numbers = kind, numbers

    @classmethod
    def of(
        cls, name: object, given: Sequence[Any], keys: Sequence[Any], names: Sequence[str] = (), more: Sequence[int] = ()
    ) -> Call | None:
        """That of a method with these arguments, known by these keys, and `more` numbers; None for what has yet more to it."""
        parts: list[object] = [name, *names]
        specs: list[Spec] = []
        has_numbers = False
        for x, key in zip(given, keys, strict=False):  # behind them are the names that some have
            kind = type(x)
            if kind is Tensor:
                spec, storage = x.spec, x.storage
                if spec.strides is None or spec.form.passing or type(storage) not in _HOLD_NODES:
                    return None
                if storage.node.recipe.dtype is not spec.dtype:
                    return None
                specs.append(spec)
                parts.append(spec.dtype)
            elif kind is tuple or (kind is int and key is not int):
                has_numbers = True
                parts.append(kind)
            else:
                parts.append(key)
        first = specs[0]
        pattern, numbers = first.pattern, first.numbers
        if more or any([spec.form is not first.form for spec in specs]):
            parts += [len(spec.shape) for spec in specs]
            pattern, numbers = equalities_of([*[n for spec in specs for n in (*spec.shape, *spec.strides)], *more])  # type: ignore[misc]
        if has_numbers:
            which = {n: k for k, n in enumerate(numbers)}
            parts += [_named(x, which) for x in given if type(x) is int or type(x) is tuple]
        parts.append(pattern)
        return cls(tuple(parts), numbers)

    def made(self, *given: Any) -> Made | None:
        """What such a method makes of such arguments; None if that is not known."""
        known = _known.get(self.kind)
        found = None if known is None else known.suiting(self.numbers)
        return None if found is None else found[0].made(*given, *found[1])

    def learn(self, made: Made | None, own: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any] = NOTHING) -> None:
        """Python's own method has `made` something of these arguments, for which nothing was known: sometimes look what it would make of
        others.
        """
        self.learn_by(lambda: None if made is None else self._rule(made, own, args, named))

    def learn_by(self, look: Callable[[], Any]) -> None:
        """The same by another look."""
        global _traces
        known = _known.get(self.kind)
        if known is None:
            known = Known[Any](MOST, FEW)
            _known.keep(self.kind, known)
        if not known.is_due() or not taken_at_once(lock):  # frames are not made while others compute: it stays due
            return
        rule = None
        try:
            if _traces < MOST_TRACES:
                _traces += 1
                rule = look()
        except Exception:  # whatever does not know such numbers
            rule = None
        finally:
            lock.release()
        known.take(rule, self.numbers)

    def _rule(self, made: Made, own: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> Rule | None:
        rule = _traced(made, self.numbers, own, args, named)
        found = None if rule is None else rule.found(*self.numbers)
        return None if rule is None or found is None or not is_alike(rule.made(*found), made) else rule


def _named(x: int | tuple[int, ...], which: Mapping[int, int]) -> object:
    """What stands for the integers of an argument: for those that are numbers of tensors, which of them."""
    if type(x) is tuple:
        return tuple([_named(n, which) for n in x])
    return (which[x],) if x in which else x  # type: ignore[index]


class Rule:
    """What is made of tensors of some kind, as it was made of some: `like` that. `found` says of their numbers what its shapes and strides
    are, or None if something else is made of tensors with these. What is computed alone has a frame with it.
    """

    __slots__ = ("dtype", "found", "frames", "like", "steps")

    def __init__(self, found: Callable[..., tuple[Any, ...] | None], made: Made, like: Made, frames: Sequence[Frame]) -> None:
        self.found, self.dtype, self.like = found, made.spec.dtype, like
        self.steps = [(r.op, r.dtype, r.dtypes, sources, follows) for r, sources, _, follows in made.steps]
        self.frames = frames

    def made(self, shape: Any, strides: Any, shift: int, each: Sequence[Any], words: Sequence[Any]) -> Made:
        """What is made, with these numbers."""
        form = form_of_numbers(shape, strides)
        spec = form.specs.get(self.dtype) or spec_of(form.layout, self.dtype)
        steps = []
        for (op, dtype, dtypes, sources, follows), (size, forms, target, starts, numbers) in zip(self.steps, each, strict=True):
            its = tuple([form_of_numbers(*x) if x else None for x in forms])
            recipe = recipe_of(op, size, dtype, dtypes, its, form_of_numbers(*target) if target else None)
            steps.append((recipe, _with_numbers(sources, numbers) if numbers else sources, starts, follows))
        for (k, product, pack, plan), its in zip(self.frames, words, strict=True):
            give_frame(steps[k][0], None if product is None else steps[product][0], pack(*its), plan)
        if self.like.recipe is not None:
            return Made(spec, steps[0][0], self.like.low, self.like.high)
        return Made(spec, steps=tuple(steps), shift=shift)


def _with_numbers(sources: Sequence[Scalar | int], numbers: Sequence[int]) -> tuple[Scalar | int, ...]:
    """Sources of which some are numbers that depend on sizes: these."""
    left = iter(numbers)
    return tuple([Scalar(float(next(left)), s.dtype) if type(s) is Scalar and isinstance(s.value, Size) else s for s in sources])


def _traced(like: Made, numbers: Iterable[int], own: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> Rule | None:
    """The rule by which Python's own method makes something of such arguments, of which the result is its only one."""
    traced = Traced(numbers)
    given, by_name = [_stand_in(traced, x) for x in args], {name: _stand_in(traced, x) for name, x in named.items()}
    tensors = [x for x in (*given, *by_name.values()) if type(x) is Tensor]
    with pythons_own[0]():
        began = next_number()
        found = own(*given, **by_name)
        made = (view_of(tensors[0], found) if len(tensors) == 1 else None) or steps_of(tensors, found, began)
    if made is None or made.spec.strides is None or (like.recipe is not None and len(made.steps) != 1):
        return None
    each = []
    for recipe, sources, starts, _ in made.steps:
        forms = [_numbers_of(form) for form in recipe.forms]
        values = tuple([s.value for s in sources if isinstance(s, Scalar) if isinstance(s.value, Size)])
        each.append((recipe.shape, tuple(forms), _numbers_of(recipe.target), starts, values))
    frames, words = _frames(like, made, [x for x in (*args, *named.values()) if type(x) is Tensor], tensors)
    layout = made.spec.layout
    return Rule(traced.trace.written((layout.shape, layout.strides, made.shift, tuple(each), tuple(words))), made, like, frames)


Frame = tuple[int, int | None, Callable[..., bytes], Plan]  # of which step, and of which product that sums; what packs its words


def _frames(like: Made, made: Made, tensors: Sequence[Tensor], stand_ins: Sequence[Tensor]) -> tuple[list[Frame], list[Any]]:
    """The frames of what was made in steps, of which one after another is computed; and their words, of which some are `Size`s."""
    frames, words = list[Frame](), list[Any]()
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
            found = frame_of_sizes(alone(k, likes, memory), alone(k, [r for r, _ in steps], sized))
            if found is not None:
                frames.append((k, products.get(k), found.pack, found.plan))
                words.append(tuple(found.words))
    return frames, words


def _numbers_of(form: Form | None) -> tuple[Any, ...]:
    """The numbers of a form, if there is one. TypeError for one that has tables, or is a chain."""
    if form is None:
        return ()
    layout = form.layout
    if layout.tables is not None or layout.base is not None:
        raise TypeError("tables and chains have more to them than numbers")
    return layout.shape, layout.strides


def _stand_in(traced: Traced, x: Any) -> Any:
    """What stands for an argument: for a tensor one that has no memory."""
    if type(x) is Tensor:
        layout, held = traced.layout(x.spec.layout), traced.numbers(x.storage.node.shape)
        node = Node(recipe_of(DATA, held, x.dtype), buffer=NOWHERE)  # type: ignore[arg-type]
        return Tensor(Storage(node), layout, x.dtype)
    if type(x) is tuple:
        return traced.numbers(x)
    return traced.numbers((x,))[0] if type(x) is int else x


def is_alike(one: Made, other: Made) -> bool:
    """Whether the same is made: in the same steps, with the same numbers."""
    if one.spec.dtype is not other.spec.dtype or one.spec.layout != other.spec.layout or one.shift != other.shift or other.parts:
        return False
    if len(one.steps) != len(other.steps) or (one.recipe is None) != (other.recipe is None):
        return False
    if one.recipe is not None and other.recipe is not None and not _are_equal(one.recipe, other.recipe):
        return False
    return all([_are_alike(a, b) for a, b in zip(one.steps, other.steps, strict=True)])


def _are_alike(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    (recipe, sources, starts, follows), (its, others, begins, follow) = one, other
    if not _are_equal(recipe, its) or starts != begins or follows != follow or len(sources) != len(others):
        return False
    return all([_is_same(a, b) for a, b in zip(sources, others, strict=True)])


def _are_equal(one: Recipe, other: Recipe) -> bool:
    """Whether two recipes make the same of the same: equal ones are two objects where one was forgotten meanwhile."""
    if one.op is not other.op or (one.shape, one.dtype, one.dtypes) != (other.shape, other.dtype, other.dtypes):
        return False
    each = zip((*one.forms, one.target), (*other.forms, other.target), strict=True)
    return all([a is b or (a is not None and b is not None and a.layout == b.layout) for a, b in each])


def _is_same(one: Scalar | int, other: Scalar | int) -> bool:
    """Whether two sources are the same: numbers, to the bit."""
    if type(one) is not Scalar or type(other) is not Scalar:
        return one == other
    return one.dtype is other.dtype and repr(one.value) == repr(other.value)


def forget() -> None:
    """Forget all kinds."""
    _known.clear()


_known: Remembered[Known[Any]] = Remembered(MAX_KINDS)
