"""Trace generic plans: plan with symbolic sizes (`Size`) in place of dims (shapes, strides and inner offsets), and, for plans to ship, in
place of the settings of the machine.
"""

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
    """Return a generic plan traced for `pattern`, whose distinct dims are `numbers`; None if some code of the planner cannot handle
    symbolic sizes.
    """
    traced = Traced(numbers)
    outline = _trace(pattern, traced, backend().target)
    return None if outline is None else General(outline[0], traced.trace.written(outline[1]), traced.trace.is_pinned)


def to_ship(pattern: Pattern, numbers: Iterable[int], settings: Settings) -> Shipped | None:
    """Return a generic plan for any settings of the machine, traced for `pattern` and `settings`, in serialised form.

    `numbers` are the distinct dims of `pattern`. Return None if the graph cannot be traced, or if the plan cannot be serialised.
    """
    traced = Traced(numbers)
    target = backend().target.with_settings(Settings(*[cast(int, traced.trace.size(n)) for n in settings]))
    outline = _trace(pattern, traced, target)
    words = None if outline is None else kept.in_words(outline[0])
    if outline is None or words is None:
        return None
    trace = traced.trace
    return Shipped(trace.words(()), trace.source(outline[1]), trace.is_pinned, ready.packed(words))


def _trace(pattern: Pattern, traced: Traced, target: Target) -> tuple[Plan, Numbers] | None:
    """Plan with symbolic sizes, and return the plan without dims and the dims; None if some code cannot handle symbolic sizes."""
    try:
        nodes = stand_ins(pattern, traced)
        return without_numbers(ready.plan_of(pattern, nodes) or planning.outlined(pattern, nodes, target))
    except TypeError:
        return None


class Traced:
    """A mapping from dims to the symbolic sizes of a trace: a size for each distinct number except 0 and 1, which stay integers."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self.trace = Trace()
        self.inputs = {n: self.trace.size(n) for n in numbers}
        self.size_of: dict[int, Number] = {0: 0, 1: 1}
        self.recipes: dict[Recipe, Recipe] = {}

    def number(self, value: int) -> int:
        """Return the symbolic size of a dim, which must be 0, 1 or one of the traced numbers."""
        size = self.size_of.get(value)
        if size is None:
            size = self.size_of[value] = self.inputs[value]
        return cast(int, size)

    def numbers(self, values: Iterable[int]) -> tuple[int, ...]:
        """Return the symbolic sizes of `values`; numbers that are not dims stay as they are."""
        return tuple([self.number(n) if n in self.inputs else n for n in values])

    def recipe(self, recipe: Recipe) -> Recipe:
        """Return `recipe` with symbolic sizes in place of dims."""
        new_recipe = self.recipes.get(recipe)
        if new_recipe is None:
            shape = tuple(map(self.number, recipe.shape))
            forms = tuple([None if form is None else self.form(form) for form in recipe.forms])
            target = None if recipe.target is None else self.form(recipe.target)
            op: Any = recipe.op
            new_op = op if getattr(op, "layouts", None) is None else op.resized(self)
            new_recipe = self.recipes[recipe] = Recipe(new_op, shape, recipe.dtype, recipe.dtypes, forms, target)
        return new_recipe

    def form(self, form: Form) -> Form:
        """Return a layout key with symbolic sizes in place of dims."""
        return self.layout(form.layout).form

    def layout(self, layout: Layout) -> Layout:
        """Return `layout`, which must have no offset tables, with symbolic sizes in place of dims.

        The stride of an axis is often the extent of the next axis times the stride of the next axis. Then it becomes this product, under
        the guard that both are equal.
        """
        shape = tuple(map(self.number, layout.shape))
        axes = list(zip(layout.shape, layout.strides, strict=True))
        for (size, stride), (_, outer) in zip(reversed(axes), reversed(axes[:-1]), strict=False):
            if outer == size * stride and outer not in self.size_of:
                product = self.size_of[outer] = self.number(size) * self.number(stride)
                self.trace.asked(product - self.inputs[outer], "==", True)
            self.number(stride)
        strides = tuple(map(self.number, layout.strides))
        base = None if layout.base is None else self.layout(layout.base)
        return Layout(shape, strides, 0 if base is None and not layout.offset else self.number(layout.offset), None, base)
