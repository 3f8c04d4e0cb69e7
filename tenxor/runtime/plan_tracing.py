"""Trace generic plans: plan with symbolic sizes (`SymInt`) in place of dims. The dims of a graph are the shapes, strides and inner offsets.
For plans to ship, the settings of the machine are symbolic, too. The trace of the symbolic sizes records each decision that depends on a
dim, as a guard. A generic plan is valid for every choice of dims that satisfies the guards. The structure of a graph is the signature
without dims, but tells equal dims, 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from ..codegen import backend
from ..graph.node import Recipe
from ..layout import Layout, LayoutKey
from ..symbolic.symint import IntOrSymInt, SizeTrace
from ..target import Settings, Target
from . import plan_disk_cache, shipped_op_plans
from .generic_plans import GenericPlan, StepDims, planner, split_plan_dims
from .graph_signature import GraphSignature, make_placeholders
from .plan_execution import Plan
from .shipped_generic_plans import ShippedPlan


def trace_generic_plan(signature: GraphSignature, dims: Iterable[int]) -> GenericPlan | None:
    """Return a generic plan traced for `signature`; None if some code of the planner cannot handle symbolic sizes.

    `dims` are the distinct dims of `signature`, as `split_structure` returns them.
    """
    traced = SymbolicSizes(dims)
    outline = _trace(signature, traced, backend().target)
    return None if outline is None else GenericPlan(outline[0], traced.trace.compile_function(outline[1]), traced.trace.is_pinned)


def trace_shipped_plan(signature: GraphSignature, dims: Iterable[int], settings: Settings) -> ShippedPlan | None:
    """Return a generic plan for any settings of the machine, traced for `signature` and `settings`, in serialised form.

    `dims` are the distinct dims of `signature`. Return None if the graph cannot be traced, or if the plan cannot be serialised.
    """
    traced = SymbolicSizes(dims)
    target = backend().target.with_settings(Settings(*[cast(int, traced.trace.add_input(n)) for n in settings]))
    outline = _trace(signature, traced, target)
    words = None if outline is None else plan_disk_cache.serialize_plan(outline[0])
    if outline is None or words is None:
        return None
    trace = traced.trace
    return ShippedPlan(trace.encode(()), trace.format_function(outline[1]), trace.is_pinned, shipped_op_plans.marshal_portably(words))


def _trace(signature: GraphSignature, traced: SymbolicSizes, target: Target) -> tuple[Plan, StepDims] | None:
    """Plan with the symbolic sizes of `traced`, and return the plan without dims and the dims of the steps (`split_plan_dims`).

    `signature` is the graph to plan, and `target` the machine, possibly with symbolic settings. Return None if some code cannot handle
    symbolic sizes.
    """
    try:
        nodes = make_placeholders(signature, traced)
        return split_plan_dims(
            shipped_op_plans.find_shipped_op_plan(signature, nodes) or planner.make_symbolic_plan(signature, nodes, target)
        )
    except TypeError:
        return None


class SymbolicSizes:
    """A mapping from `dims`, distinct numbers, to the symbolic sizes of a trace. The numbers 0 and 1 stay integers.

    The sizes are inputs of the trace, in the order of `dims`.
    """

    def __init__(self, dims: Iterable[int]) -> None:
        self.trace = SizeTrace()
        self.input_sizes = {n: self.trace.add_input(n) for n in dims}
        self.size_of: dict[int, IntOrSymInt] = {0: 0, 1: 1}
        self.symbolic_recipes: dict[Recipe, Recipe] = {}

    def symbolize_dim(self, value: int) -> int:
        """Return the symbolic size of `value`, a traced number; 0 and 1 stay integers. Raise KeyError for an untraced number."""
        size = self.size_of.get(value)
        if size is None:
            size = self.size_of[value] = self.input_sizes[value]
        return cast(int, size)

    def symbolize_dims(self, values: Iterable[int]) -> tuple[int, ...]:
        """Return the symbolic sizes of `values`, in order; 0, 1 and numbers that are not traced dims stay as they are."""
        return tuple([self.symbolize_dim(n) if n in self.input_sizes else n for n in values])

    def symbolize_recipe(self, recipe: Recipe) -> Recipe:
        """Return `recipe` with symbolic sizes in place of dims: a new `Recipe`, not interned, but always the same object for the same
        `recipe`.
        """
        new_recipe = self.symbolic_recipes.get(recipe)
        if new_recipe is None:
            shape = tuple(map(self.symbolize_dim, recipe.shape))
            layout_keys = tuple(
                [None if layout_key is None else self.symbolize_layout_key(layout_key) for layout_key in recipe.layout_keys]
            )
            target = None if recipe.target is None else self.symbolize_layout_key(recipe.target)
            op: Any = recipe.op
            new_op = op if getattr(op, "layouts", None) is None else op.with_symbolic_sizes(self)
            new_recipe = self.symbolic_recipes[recipe] = Recipe(new_op, shape, recipe.dtype, recipe.dtypes, layout_keys, target)
        return new_recipe

    def symbolize_layout_key(self, layout_key: LayoutKey) -> LayoutKey:
        """Return the layout key `layout_key` with symbolic sizes in place of dims (`symbolize_layout`)."""
        return self.symbolize_layout(layout_key.layout).layout_key

    def symbolize_layout(self, layout: Layout) -> Layout:
        """Return `layout`, which must have no offset tables, with symbolic sizes in place of dims.

        The stride of an axis is often the extent of the next axis times the stride of the next axis. Then it becomes this product, under
        the guard that both are equal.
        """
        shape = tuple(map(self.symbolize_dim, layout.shape))
        axes = list(zip(layout.shape, layout.strides, strict=True))
        for (size, stride), (_, outer) in zip(reversed(axes), reversed(axes[:-1]), strict=False):
            if outer == size * stride and outer not in self.size_of:
                product = self.size_of[outer] = self.symbolize_dim(size) * self.symbolize_dim(stride)
                self.trace.record_guard(product - self.input_sizes[outer], "==", True)
            self.symbolize_dim(stride)
        strides = tuple(map(self.symbolize_dim, layout.strides))
        base = None if layout.base is None else self.symbolize_layout(layout.base)
        return Layout(shape, strides, 0 if base is None and not layout.offset else self.symbolize_dim(layout.offset), None, base)
