"""Size-generic plans: reuse a plan for other sizes, wherever planning would take the same decisions.

A plan is cached under the signature of its graph, with every shape and stride. The structure of a graph is the signature without the dims
(shapes, strides and inner offsets), except for which dims are equal, 0 or 1. The second miss of a structure is planned with symbolic sizes
(`sizes.Size`), which record each question about them. The trace gives the guards, and the sizes of the kernels as functions of the dims.
Nothing is guessed: dims with a different answer to some question get a plan of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

from ..backend import backend
from ..backend.interface import Arguments
from ..known import Known, holds
from ..late import LateModule
from ..layout import Layout
from ..node import Recipe
from ..remembered import Remembered
from ..target import Target
from . import kept, ready, shipped
from .call import Call
from .pattern import Pattern
from .shipped import Shipped
from .steps import Plan, Step

planning, tracing = LateModule("tenxor.plans.plan"), LateModule("tenxor.plans.tracing")  # loaded on first use: shipped plans need neither
MAX_STRUCTURES = 1024
MAX_GENERIC_PLANS = 48  # generic plans for one structure
MAX_QUICK_NODES = 32  # pending nodes, up to which extracting the structure is faster than reading a file


# For each step: the shape and bytes of the result, and the `Arguments` of the kernel without scalars and tables.
Numbers = tuple[Any, ...]


class General:
    """A size-generic plan: a plan without dims (`outline`), and a function `found` to compute the dims of the steps.

    `found` takes the dims of a graph. It returns `Numbers`, or None if a guard fails and the graph would be planned differently.
    `is_pinned` is true if a guard fixes a dim to a single value. `is_shipped` is true if the plan came with the package and need not be
    written to disk. `template` caches the size-generic launch record of the plan (`shortcut/frames.py`).
    """

    __slots__ = ("found", "is_pinned", "is_shipped", "outline", "template")

    def __init__(self, outline: Plan, evaluate: Callable[..., Numbers | None], is_pinned: bool, is_shipped: bool = False) -> None:
        self.outline, self.found, self.is_pinned, self.is_shipped = outline, evaluate, is_pinned, is_shipped
        self.template: Any = None

    def plan(self, numbers: Numbers) -> Plan:
        """Return the concrete plan for `numbers`, a result of `found`."""
        outline, steps = self.outline, []
        for step, (shape, nbytes, argument_dims) in zip(outline.steps, numbers, strict=True):
            call = step.filling
            if isinstance(call, Call):
                call = Call(call.compiled, _fill_in_dims(call.arguments, argument_dims))
            steps.append(step.resized(shape, nbytes, call))
        return outline.with_steps(steps)


def plan_for(pattern: Pattern) -> Plan:
    """Return the plan for `pattern`: a generic plan with the dims filled in, or a new plan for exactly these dims. Compile missing kernels.
    """
    match = general_for(pattern)
    if match is None:
        return _make_exact_plan(pattern)
    general, numbers = match
    return general.plan(numbers)


def _find_by_structure(pattern: Pattern) -> Plan | None:
    """Return the plan for `pattern` from a generic plan in memory; None on a miss, and for a graph of more than `MAX_QUICK_NODES` pending
    nodes.

    `kept.find` calls this function first: for a small graph, a read of the exact plan from disk takes longer.
    """
    structure_and_dims = taken_apart(pattern) if _caches and pattern.pending <= MAX_QUICK_NODES else None
    cache = None if structure_and_dims is None else _caches.get(structure_and_dims[0])
    if structure_and_dims is None or cache is None or cache.target is not backend().target:
        return None
    match = cache.suiting(structure_and_dims[1])
    return None if match is None else match[0].plan(match[1])


kept.knowing.append(_find_by_structure)


def plan_for_itself(pattern: Pattern) -> Plan:
    """Return a plan specialised to the exact dims of `pattern`, read from disk or made and then written to disk. Use no generic plan."""
    plan = kept.read(pattern)
    if plan is None:
        plan = _make_exact_plan(pattern)
        kept.write(pattern, plan)
    return plan


def _make_exact_plan(pattern: Pattern) -> Plan:
    plan: Plan = ready.plan_of(pattern) or planning.make_plan(pattern)
    return plan


def general_for(pattern: Pattern, trace_every_miss: bool = False) -> tuple[General, Numbers] | None:
    """Return the generic plan whose guards hold for `pattern`, and its `Numbers`. On a miss, trace a new generic plan if this is due.

    Return None if `pattern` must be planned for its exact dims: a layout has offset tables, tracing failed, or a trace is not due yet. With
    `trace_every_miss` a trace is due at every miss, up to `MAX_GENERIC_PLANS` plans of a structure.
    """
    structure_and_dims = taken_apart(pattern)
    if structure_and_dims is None:
        return None
    key, dims = structure_and_dims
    cache, target = _caches.get(key), backend().target
    if cache is None or cache.target is not target:
        cache = _TargetCache(target, shipped.of_structure(key, target))
        cache.general += [General(*entry) for entry in kept.read_general(key)]
        _caches.keep(key, cache)
    match = cache.suiting(dims) or cache.load_shipped(dims)
    if match is None and (cache.is_due() or (trace_every_miss and len(cache.general) < cache.most)):
        match = cache.take(tracing.general_plan(pattern, dims), dims)
        if match is not None:
            kept.write_general(key, [(entry.outline, entry.found, entry.is_pinned) for entry in cache.general if not entry.is_shipped])
    return match


def general_of_sizes(pattern: Pattern, symbolic_pattern: Pattern) -> tuple[General, Numbers] | None:
    """Return the generic plan for `pattern`, and its `Numbers` in terms of the symbolic sizes of `symbolic_pattern`.

    `symbolic_pattern` is the same graph as `pattern`, with `Size`s for dims. Return None if the structures differ, if no generic plan holds
    or can be traced, if a dim of `pattern` has two sizes in `symbolic_pattern` or two dims share a size, or if a guard fails.
    """
    dims, sizes = list[int](), list[int]()
    structure = structure_of(pattern, dims)
    if structure is None or structure_of(symbolic_pattern, sizes) != structure:
        return None
    match = general_for(pattern, trace_every_miss=True)
    size_of = {0: 0, 1: 1}
    are_consistent = [size_of.setdefault(n, size) == size for n, size in zip(dims, sizes, strict=True)]
    if match is None or not all(are_consistent) or any([a == b for a, b in combinations(size_of.values(), 2)]):
        return None
    general = match[0]
    evaluated_dims = general.found(*list(size_of.values())[2:])
    return None if evaluated_dims is None else (general, evaluated_dims)


def was_looked_for(pattern: Pattern) -> bool:
    """Return whether the cache has an entry for the structure of `pattern`: an earlier call of `general_for` looked for a generic plan."""
    structure_and_dims = taken_apart(pattern)
    return structure_and_dims is not None and structure_and_dims[0] in _caches


class _TargetCache(Known[General]):
    """A guarded cache of the generic plans of a structure for a target, with the shipped plans of the structure not loaded so far."""

    __slots__ = ("shipped", "target")

    def __init__(self, target: Target, plans: list[Shipped]) -> None:
        super().__init__(MAX_GENERIC_PLANS)
        self.target, self.shipped = target, plans

    def load_shipped(self, dims: tuple[int, ...]) -> tuple[General, Numbers] | None:
        """Load the first shipped plan whose guards hold for `dims`, insert the plan, and return it with the evaluated dims.

        Return None if no guards hold, or if a kernel of the plan is missing. Each shipped plan is loaded at most once.
        """
        settings = self.target.settings
        for candidate in self.shipped:
            if holds(candidate.conditions, (*dims, *settings)):
                self.shipped.remove(candidate)
                outline = candidate.plan()
                general = None if outline is None else General(outline, candidate.found(settings), candidate.is_pinned, is_shipped=True)
                return None if general is None else self.take(general, dims)
        return None


def forget() -> None:
    """Clear the cache of generic plans. The cached plans keep their kernels in memory."""
    _caches.clear()


_caches: Remembered[_TargetCache] = Remembered(MAX_STRUCTURES)


# --- structure and dims of a pattern -----------------------------------------------------------------------------------


def taken_apart(pattern: Pattern) -> tuple[object, tuple[int, ...]] | None:
    """Split a pattern into a structure, as a cache key, and the distinct dims except 0 and 1; None if a layout has offset tables."""
    dims: list[int] = []
    structure = structure_of(pattern, dims)
    if structure is None:
        return None
    equalities, distinct_dims = equalities_of(dims)
    return (structure, equalities), distinct_dims


def structure_of(pattern: Pattern, dims: list[int]) -> object | None:
    """Return the structure of a pattern without its dims, and append the dims to `dims`; None if a layout has offset tables."""
    structure: list[object] = []
    stack: list[object] = [pattern.key]
    while stack:
        item = stack.pop()
        if type(item) is Recipe:
            if not take_apart(item, structure, dims):
                return None
        elif type(item) is not tuple:
            structure.append(item)
        elif len(item) == 1:
            dims.append(item[0])  # an offset into a node that the graph computes itself
        else:
            structure.append(len(item))
            stack += item
    for node in pattern.nodes:
        if node.buffer is not None:
            structure.append(len(node.shape))
            dims += node.shape
    return tuple(structure)


def take_apart(recipe: Recipe, structure: list[object], dims: list[int]) -> bool:
    """Append the structure of `recipe` to `structure` and the dims to `dims`; return False if a layout has offset tables."""
    structure += (len(recipe.shape), recipe.dtype, recipe.dtypes)
    dims += recipe.shape
    op: Any = recipe.op
    layouts = getattr(op, "layouts", None)  # some operations have layouts themselves
    structure.append(op if layouts is None else (type(op), len(layouts)))
    for layout in layouts or ():
        dims.append(layout.offset)
        if not take_layout_apart(layout, structure, dims):
            return False
    specs = recipe.specs  # specs are split directly, as their layout keys would first have to be built
    if specs is None:
        return all([take_layout_apart(None if f is None else f.layout, structure, dims) for f in (*recipe.forms, recipe.target)])
    for spec in specs:
        if spec is not None:
            structure.append(len(spec.shape))
            dims += spec.shape
            dims += spec.strides
        structure.append(None)
    return True


def take_layout_apart(layout: Layout | None, structure: list[object], dims: list[int]) -> bool:
    """Append the structure of `layout` to `structure` and the dims to `dims`; return False if the layout has offset tables.

    The offset is a dim only where `layout` is a view chain. None for `layout` stands for an operand without a layout.
    """
    is_chain = layout is not None and layout.base is not None
    while layout is not None:
        if layout.tables is not None:
            return False
        structure.append(len(layout.shape))
        dims += layout.shape
        dims += layout.strides
        if is_chain:
            dims.append(layout.offset)
        layout = layout.base
    structure.append(None)
    return True


def equalities_of(dims: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return a key for the equalities among `dims` and with 0 and 1, and the distinct numbers except 0 and 1."""
    rank_of = {0: 0, 1: 1}
    return tuple([rank_of.setdefault(n, len(rank_of)) for n in dims]), (*rank_of,)[2:]


def without_numbers(plan: Plan) -> tuple[Plan, Numbers]:
    """Return a plan without dims, and the dims of each step. Raise TypeError for a plan that is valid for its exact dims only."""
    return plan.with_steps(list(map(_strip_dims, plan.steps))), tuple(map(numbers_of, plan.steps))


_NO_DIMS = ((0, 0), (), (), 0, 0, 0)


def numbers_of(step: Step) -> tuple[Any, ...]:
    """Return the entry of a step in `Numbers`. Raise TypeError for a step computed block by block: its dims are fixed."""
    call = step.filling
    if call is None:
        return step.shape, step.nbytes, ()
    if not isinstance(call, Call):
        raise TypeError("what is computed block by block is planned for its own sizes")
    arguments = call.arguments
    argument_dims = arguments.out, tuple(arguments.sources), tuple(arguments.sizes), arguments.split, arguments.work, arguments.scratch
    return step.shape, step.nbytes, argument_dims


def _strip_dims(step: Step) -> Step:
    call = step.filling
    if isinstance(call, Call):
        call = Call(call.compiled, _fill_in_dims(call.arguments, _NO_DIMS))
    return step.resized((), 0, call)


def _fill_in_dims(arguments: Arguments, argument_dims: tuple[Any, ...]) -> Arguments:
    out, sources, *trailing_fields = argument_dims
    return Arguments(out, sources, arguments.scalars, arguments.tables, *trailing_fields)
