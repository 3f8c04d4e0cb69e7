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
MOST = 48  # generic plans for one structure
QUICK = 32  # pending nodes, up to which extracting the structure is faster than reading a file


# For each step: the shape and bytes of the result, and the `Arguments` of the kernel without scalars and tables.
Numbers = tuple[Any, ...]


class General:
    """A size-generic plan: a plan without dims (`outline`), and a function `found` to compute the dims of the steps.

    `found` takes the dims of a graph. It returns `Numbers`, or None if a guard fails and the graph would be planned differently.
    `is_pinned` is true if a guard fixes a dim to a single value. `is_shipped` is true if the plan came with the package and need not be
    written to disk. `template` caches the size-generic launch record of the plan (`shortcut/frames.py`).
    """

    __slots__ = ("found", "is_pinned", "is_shipped", "outline", "template")

    def __init__(self, outline: Plan, found: Callable[..., Numbers | None], is_pinned: bool, is_shipped: bool = False) -> None:
        self.outline, self.found, self.is_pinned, self.is_shipped = outline, found, is_pinned, is_shipped
        self.template: Any = None

    def plan(self, numbers: Numbers) -> Plan:
        """Return the concrete plan for `numbers`, a result of `found`."""
        old, steps = self.outline, []
        for step, (shape, nbytes, its) in zip(old.steps, numbers, strict=True):
            filling = step.filling
            if isinstance(filling, Call):
                filling = Call(filling.compiled, _with_numbers(filling.arguments, its))
            steps.append(step.resized(shape, nbytes, filling))
        return old.with_steps(steps)


def plan_for(pattern: Pattern) -> Plan:
    """Return the plan for `pattern`: a generic plan with the dims filled in, or a new plan for exactly these dims. Compile missing kernels.
    """
    found = general_for(pattern)
    if found is None:
        return _made(pattern)
    general, numbers = found
    return general.plan(numbers)


def _by_structure(pattern: Pattern) -> Plan | None:
    """Return the plan for `pattern` from a generic plan in memory; None on a miss, and for a graph of more than `QUICK` pending nodes.

    `kept.find` calls this function first: for a small graph, a read of the exact plan from disk takes longer.
    """
    parts = taken_apart(pattern) if _known and pattern.pending <= QUICK else None
    known = None if parts is None else _known.get(parts[0])
    if parts is None or known is None or known.target is not backend().target:
        return None
    found = known.suiting(parts[1])
    return None if found is None else found[0].plan(found[1])


kept.knowing.append(_by_structure)


def plan_for_itself(pattern: Pattern) -> Plan:
    """Return a plan specialised to the exact dims of `pattern`, read from disk or made and then written to disk. Use no generic plan."""
    found = kept.read(pattern)
    if found is None:
        found = _made(pattern)
        kept.write(pattern, found)
    return found


def _made(pattern: Pattern) -> Plan:
    found: Plan = ready.plan_of(pattern) or planning.make_plan(pattern)
    return found


def general_for(pattern: Pattern, at_once: bool = False) -> tuple[General, Numbers] | None:
    """Return the generic plan whose guards hold for `pattern`, and its `Numbers`. On a miss, trace a new generic plan if this is due.

    Return None if `pattern` must be planned for its exact dims: a layout has offset tables, tracing failed, or a trace is not due yet. With
    `at_once` a trace is due at every miss, up to `MOST` plans of a structure.
    """
    parts = taken_apart(pattern)
    if parts is None:
        return None
    key, others = parts
    known, target = _known.get(key), backend().target
    if known is None or known.target is not target:
        known = _OfTarget(target, shipped.of_structure(key, target))
        known.general += [General(*each) for each in kept.read_general(key)]
        _known.keep(key, known)
    found = known.suiting(others) or known.brought(others)
    if found is None and (known.is_due() or (at_once and len(known.general) < known.most)):
        found = known.take(tracing.general_plan(pattern, others), others)
        if found is not None:
            kept.write_general(key, [(each.outline, each.found, each.is_pinned) for each in known.general if not each.is_shipped])
    return found


def general_of_sizes(pattern: Pattern, sized: Pattern) -> tuple[General, Numbers] | None:
    """Return the generic plan for `pattern`, and its `Numbers` in terms of the symbolic sizes of `sized`.

    `sized` is the same graph as `pattern`, with `Size`s for dims. Return None if the structures differ, if no generic plan holds or can be
    traced, if a dim of `pattern` has two sizes in `sized` or two dims share a size, or if a guard fails.
    """
    numbers, sizes = list[int](), list[int]()
    structure = structure_of(pattern, numbers)
    if structure is None or structure_of(sized, sizes) != structure:
        return None
    found = general_for(pattern, at_once=True)
    distinct = {0: 0, 1: 1}
    same = [distinct.setdefault(n, size) == size for n, size in zip(numbers, sizes, strict=True)]
    if found is None or not all(same) or any([a == b for a, b in combinations(distinct.values(), 2)]):
        return None
    general = found[0]
    its = general.found(*list(distinct.values())[2:])
    return None if its is None else (general, its)


def was_looked_for(pattern: Pattern) -> bool:
    """Return whether the cache has an entry for the structure of `pattern`: an earlier call of `general_for` looked for a generic plan."""
    parts = taken_apart(pattern)
    return parts is not None and parts[0] in _known


class _OfTarget(Known[General]):
    """A guarded cache of the generic plans of a structure for a target, with the shipped plans of the structure not loaded so far."""

    __slots__ = ("shipped", "target")

    def __init__(self, target: Target, plans: list[Shipped]) -> None:
        super().__init__(MOST)
        self.target, self.shipped = target, plans

    def brought(self, numbers: tuple[int, ...]) -> tuple[General, Numbers] | None:
        """Load the first shipped plan whose guards hold for the dims `numbers`, insert the plan, and return it with the evaluated dims.

        Return None if no guards hold, or if a kernel of the plan is missing. Each shipped plan is loaded at most once.
        """
        settings = self.target.settings
        for each in self.shipped:
            if holds(each.conditions, (*numbers, *settings)):
                self.shipped.remove(each)
                outline = each.plan()
                found = None if outline is None else General(outline, each.found(settings), each.is_pinned, is_shipped=True)
                return None if found is None else self.take(found, numbers)
        return None


def forget() -> None:
    """Clear the cache of generic plans. The cached plans keep their kernels in memory."""
    _known.clear()


_known: Remembered[_OfTarget] = Remembered(MAX_STRUCTURES)


# --- structure and dims of a pattern -----------------------------------------------------------------------------------


def taken_apart(pattern: Pattern) -> tuple[object, tuple[int, ...]] | None:
    """Split a pattern into a structure, as a cache key, and the distinct dims except 0 and 1; None if a layout has offset tables."""
    numbers: list[int] = []
    structure = structure_of(pattern, numbers)
    if structure is None:
        return None
    equal, others = equalities_of(numbers)
    return (structure, equal), others


def structure_of(pattern: Pattern, numbers: list[int]) -> object | None:
    """Return the structure of a pattern without its dims, and append the dims to `numbers`; None if a layout has offset tables."""
    parts: list[object] = []
    stack: list[object] = [pattern.key]
    while stack:
        part = stack.pop()
        if type(part) is Recipe:
            if not take_apart(part, parts, numbers):
                return None
        elif type(part) is not tuple:
            parts.append(part)
        elif len(part) == 1:
            numbers.append(part[0])  # an offset into a node that the graph computes itself
        else:
            parts.append(len(part))
            stack += part
    for node in pattern.nodes:
        if node.buffer is not None:
            parts.append(len(node.shape))
            numbers += node.shape
    return tuple(parts)


def take_apart(recipe: Recipe, parts: list[object], numbers: list[int]) -> bool:
    """Append the structure of `recipe` to `parts` and the dims to `numbers`; return False if a layout has offset tables."""
    parts += (len(recipe.shape), recipe.dtype, recipe.dtypes)
    numbers += recipe.shape
    op: Any = recipe.op
    layouts = getattr(op, "layouts", None)  # some operations have layouts themselves
    parts.append(op if layouts is None else (type(op), len(layouts)))
    for layout in layouts or ():
        numbers.append(layout.offset)
        if not take_layout_apart(layout, parts, numbers):
            return False
    specs = recipe.specs  # specs are split directly, as their layout keys would first have to be built
    if specs is None:
        return all([take_layout_apart(None if f is None else f.layout, parts, numbers) for f in (*recipe.forms, recipe.target)])
    for spec in specs:
        if spec is not None:
            parts.append(len(spec.shape))
            numbers += spec.shape
            numbers += spec.strides
        parts.append(None)
    return True


def take_layout_apart(layout: Layout | None, parts: list[object], numbers: list[int]) -> bool:
    """Append the structure of `layout` to `parts` and the dims to `numbers`; return False if the layout has offset tables.

    The offset is a dim only where `layout` is a view chain. None for `layout` stands for an operand without a layout.
    """
    chain = layout is not None and layout.base is not None
    while layout is not None:
        if layout.tables is not None:
            return False
        parts.append(len(layout.shape))
        numbers += layout.shape
        numbers += layout.strides
        if chain:
            numbers.append(layout.offset)
        layout = layout.base
    parts.append(None)
    return True


def equalities_of(numbers: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return a key for the equalities among `numbers` and with 0 and 1, and the distinct numbers except 0 and 1."""
    each = {0: 0, 1: 1}
    return tuple([each.setdefault(n, len(each)) for n in numbers]), (*each,)[2:]


def without_numbers(plan: Plan) -> tuple[Plan, Numbers]:
    """Return a plan without dims, and the dims of each step. Raise TypeError for a plan that is valid for its exact dims only."""
    return plan.with_steps(list(map(_without_numbers, plan.steps))), tuple(map(numbers_of, plan.steps))


_NONE = ((0, 0), (), (), 0, 0, 0)


def numbers_of(step: Step) -> tuple[Any, ...]:
    """Return the entry of a step in `Numbers`. Raise TypeError for a step computed block by block: its dims are fixed."""
    filling = step.filling
    if filling is None:
        return step.shape, step.nbytes, ()
    if not isinstance(filling, Call):
        raise TypeError("what is computed block by block is planned for its own sizes")
    its = filling.arguments
    numbers = its.out, tuple(its.sources), tuple(its.sizes), its.split, its.work, its.scratch
    return step.shape, step.nbytes, numbers


def _without_numbers(step: Step) -> Step:
    filling = step.filling
    if isinstance(filling, Call):
        filling = Call(filling.compiled, _with_numbers(filling.arguments, _NONE))
    return step.resized((), 0, filling)


def _with_numbers(old: Arguments, numbers: tuple[Any, ...]) -> Arguments:
    out, sources, *others = numbers
    return Arguments(out, sources, old.scalars, old.tables, *others)
