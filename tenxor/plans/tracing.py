"""How general plans are made: of `Size`s in place of the numbers of a pattern; and of a machine, where it is not this one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from ..backend import backend
from ..layout import Form, Layout
from ..node import Recipe
from ..sizes import Number, Trace
from ..target import Settings, Target
from . import kept, ready
from .general import General, Numbers, planning, without_numbers
from .pattern import Pattern, stand_ins
from .shipped import Shipped
from .steps import Plan


def general_plan(pattern: Pattern, numbers: Iterable[int]) -> General | None:
    """A plan for all patterns of the same structure that it suits, which has these numbers; None if it can be planned for itself
    alone.
    """
    traced = Traced(numbers)
    outline = _traced(pattern, traced, backend().target)
    return None if outline is None else General(outline[0], traced.trace.written(outline[1]), traced.trace.is_pinned)


def to_ship(pattern: Pattern, numbers: Iterable[int], settings: Settings) -> Shipped | None:
    """The same for machines of other settings, too, in words; None if it can be planned for itself alone, or is of this process alone."""
    traced = Traced(numbers)
    target = backend().target.with_settings(Settings(*[cast(int, traced.trace.size(n)) for n in settings]))
    outline = _traced(pattern, traced, target)
    words = None if outline is None else kept.in_words(outline[0])
    if outline is None or words is None:
        return None
    trace = traced.trace
    return Shipped(trace.words(()), trace.source(outline[1]), trace.is_pinned, ready.packed(words))


def _traced(pattern: Pattern, traced: Traced, target: Target) -> tuple[Plan, Numbers] | None:
    """What is planned for numbers and a target that are traced; None if something does not know such numbers."""
    try:
        nodes = stand_ins(pattern, traced)
        return without_numbers(ready.plan_of(pattern, nodes) or planning.outlined(pattern, nodes, target))
    except TypeError:
        return None


class Traced:
    """Numbers as sizes of a trace: one for each that differs. 0 and 1 are what they are."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self.trace = Trace()
        self.given = {n: self.trace.size(n) for n in numbers}
        self.known: dict[int, Number] = {0: 0, 1: 1}
        self.recipes: dict[Recipe, Recipe] = {}

    def number(self, value: int) -> int:
        """What stands for a number."""
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = self.given[value]
        return cast(int, found)

    def numbers(self, values: Iterable[int]) -> tuple[int, ...]:
        """What stands for some numbers; those that were not given are what they are."""
        return tuple([self.number(n) if n in self.given else n for n in values])

    def recipe(self, recipe: Recipe) -> Recipe:
        """What stands for a recipe."""
        found = self.recipes.get(recipe)
        if found is None:
            shape = tuple(map(self.number, recipe.shape))
            forms = tuple([None if form is None else self.form(form) for form in recipe.forms])
            target = None if recipe.target is None else self.form(recipe.target)
            op: Any = recipe.op
            own = op if getattr(op, "layouts", None) is None else op.resized(self)
            found = self.recipes[recipe] = Recipe(own, shape, recipe.dtype, recipe.dtypes, forms, target)
        return found

    def form(self, form: Form) -> Form:
        """What stands for the form of a layout."""
        return self.layout(form.layout).form

    def layout(self, layout: Layout) -> Layout:
        """What stands for a layout."""
        shape = tuple(map(self.number, layout.shape))
        axes = list(zip(layout.shape, layout.strides, strict=True))
        for (size, stride), (_, outer) in zip(reversed(axes), reversed(axes[:-1]), strict=False):
            if outer == size * stride and outer not in self.known:
                product = self.known[outer] = self.number(size) * self.number(stride)
                self.trace.asked(product - self.given[outer], "==", True)
            self.number(stride)
        strides = tuple(map(self.number, layout.strides))
        base = None if layout.base is None else self.layout(layout.base)
        return Layout(shape, strides, 0 if base is None and not layout.offset else self.number(layout.offset), None, base)
