"""Plans for other sizes: what was planned for some is taken over for all that would be planned alike.

A plan is remembered under its pattern, with all shapes and strides. What is left of a pattern without these numbers, but for
which of them are equal, 0 or 1, is its structure. The second time that a structure is met it is planned with `Size`s for numbers: they
remember what was asked of them, so from then on it is known for which numbers the same would be planned, and what sizes its
kernels are given. Nothing is guessed: numbers that give another answer to any question are planned for themselves.
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

planning, tracing = LateModule("tenxor.plans.plan"), LateModule("tenxor.plans.tracing")  # with the first that did not come with the package
MAX_STRUCTURES = 1024
MOST = 48  # plans of one structure
QUICK = 32  # pending nodes that are taken apart in less time than a file is read


# Those of each step are its shape and bytes, and of its kernel the arguments but for scalars and tables.
Numbers = tuple[Any, ...]


class General:
    """A plan without numbers, and what these are for those of a pattern: None if that would be planned otherwise.

    `template` is that of frames that do the same (`shortcut/frames.py`). What `is_shipped` any process has.
    """

    __slots__ = ("found", "is_pinned", "is_shipped", "outline", "template")

    def __init__(self, outline: Plan, found: Callable[..., Numbers | None], is_pinned: bool, is_shipped: bool = False) -> None:
        self.outline, self.found, self.is_pinned, self.is_shipped = outline, found, is_pinned, is_shipped
        self.template: Any = None

    def plan(self, numbers: Numbers) -> Plan:
        """The plan with these numbers, which were found."""
        old, steps = self.outline, []
        for step, (shape, nbytes, its) in zip(old.steps, numbers, strict=True):
            filling = step.filling
            if isinstance(filling, Call):
                filling = Call(filling.compiled, _with_numbers(filling.arguments, its))
            steps.append(step.resized(shape, nbytes, filling))
        return old.with_steps(steps)


def plan_for(pattern: Pattern) -> Plan:
    """The plan that computes what has this pattern."""
    found = general_for(pattern)
    if found is None:
        return _made(pattern)
    general, numbers = found
    return general.plan(numbers)


def _by_structure(pattern: Pattern) -> Plan | None:
    """The same, if it is by a general plan that is in memory, and to look for that takes less time than to ask the disk for its own."""
    parts = taken_apart(pattern) if _known and pattern.pending <= QUICK else None
    known = None if parts is None else _known.get(parts[0])
    if parts is None or known is None or known.target is not backend().target:
        return None
    found = known.suiting(parts[1])
    return None if found is None else found[0].plan(found[1])


kept.knowing.append(_by_structure)


def plan_for_itself(pattern: Pattern) -> Plan:
    """The same, of which nothing is taken over from others; nor is it known whether it is on disk."""
    found = kept.read(pattern)
    if found is None:
        found = _made(pattern)
        kept.write(pattern, found)
    return found


def _made(pattern: Pattern) -> Plan:
    found: Plan = ready.plan_of(pattern) or planning.make_plan(pattern)
    return found


def general_for(pattern: Pattern, at_once: bool = False) -> tuple[General, Numbers] | None:
    """The general plan that suits a pattern, and its numbers then; None if the pattern is to be planned for itself, as that is all that can
    be done, or as it is not time yet to plan for others, too, unless that is wanted `at_once`.
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
    """The general plan that suits a pattern, and its numbers where those of the pattern are `Size`s, as `sized` has them: the same
    pattern, else.
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
    """Whether a general plan was looked for before, for the like of a pattern."""
    parts = taken_apart(pattern)
    return parts is not None and parts[0] in _known


class _OfTarget(Known[General]):
    """What is known of a structure, whose plans are for one target; and what else came with the package for it."""

    __slots__ = ("shipped", "target")

    def __init__(self, target: Target, plans: list[Shipped]) -> None:
        super().__init__(MOST)
        self.target, self.shipped = target, plans

    def brought(self, numbers: tuple[int, ...]) -> tuple[General, Numbers] | None:
        """What suits some numbers of that, which is known from now on."""
        settings = self.target.settings
        for each in self.shipped:
            if holds(each.conditions, (*numbers, *settings)):
                self.shipped.remove(each)
                outline = each.plan()
                found = None if outline is None else General(outline, each.found(settings), each.is_pinned, is_shipped=True)
                return None if found is None else self.take(found, numbers)
        return None


def forget() -> None:
    """Forget what is known of structures, with the kernels of their plans."""
    _known.clear()


_known: Remembered[_OfTarget] = Remembered(MAX_STRUCTURES)


# --- the numbers of a pattern -----------------------------------------------------------------------------------------


def taken_apart(pattern: Pattern) -> tuple[object, tuple[int, ...]] | None:
    """What a pattern shares with those that differ in nothing but their numbers; and these, each once. None if tables are among them."""
    numbers: list[int] = []
    structure = structure_of(pattern, numbers)
    if structure is None:
        return None
    equal, others = equalities_of(numbers)
    return (structure, equal), others


def structure_of(pattern: Pattern, numbers: list[int]) -> object | None:
    """What is left of a pattern without its numbers, which are appended to `numbers`; None if tables are among them."""
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
            numbers.append(part[0])  # an offset in what is computed itself
        else:
            parts.append(len(part))
            stack += part
    for node in pattern.nodes:
        if node.buffer is not None:
            parts.append(len(node.shape))
            numbers += node.shape
    return tuple(parts)


def take_apart(recipe: Recipe, parts: list[object], numbers: list[int]) -> bool:
    """Whether a recipe is without tables; then what else there is of it is appended to the parts and numbers."""
    parts += (len(recipe.shape), recipe.dtype, recipe.dtypes)
    numbers += recipe.shape
    op: Any = recipe.op
    layouts = getattr(op, "layouts", None)  # of one that knows some itself
    parts.append(op if layouts is None else (type(op), len(layouts)))
    for layout in layouts or ():
        numbers.append(layout.offset)
        if not take_layout_apart(layout, parts, numbers):
            return False
    specs = recipe.specs  # of which forms would have to be made
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
    """Whether a layout, if there is one, is without tables; then what else there is of it, but for an offset of its own, is appended."""
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
    """Which of some numbers are equal, 0 or 1; and the others, each once."""
    each = {0: 0, 1: 1}
    return tuple([each.setdefault(n, len(each)) for n in numbers]), (*each,)[2:]


def without_numbers(plan: Plan) -> tuple[Plan, Numbers]:
    """What is left of a plan without its numbers; and these. TypeError for what is planned for its own sizes alone."""
    return plan.with_steps(list(map(_without_numbers, plan.steps))), tuple(map(numbers_of, plan.steps))


_NONE = ((0, 0), (), (), 0, 0, 0)


def numbers_of(step: Step) -> tuple[Any, ...]:
    """Its own among `Numbers`. TypeError for what is planned for its own sizes alone."""
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
