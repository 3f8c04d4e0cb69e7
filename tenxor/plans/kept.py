"""Plans on disk, for the first results of a process: what makes plans takes longer to load than all else that it does then.

A plan is written under the text of its pattern: operations, shapes, dtypes, layouts. It is numbers and names, and of each kernel what is
asked of it when it runs: its code is found as that of any other. What was found of a structure for all sizes (`general.py`) is written
under the text of that: plans without numbers, with the code that says for which numbers each holds, and what it is given then. What is
read through tables of any numbers, or reduced by functions of the user's own, is planned in each process. Whatever plans are made by is
part of the name that a plan is known by on disk (`Backend.read`), so one of other sources, or for another machine or number of threads,
is never found.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np

from ..backend import backend
from ..dtypes import DType, dtype, float64
from ..late import Late
from ..layout import Table
from ..node import DATA, EMPTY, POSITION, REINTERPRET, STORE, UPDATE, Gather, Recipe, Scan, Scatter
from ..ops import OPS, Op
from ..ops.reductions import REDUCTIONS, Reduction, running
from ..remembered import Remembered
from . import ready
from .call import DEBUG, Call
from .pattern import Pattern
from .steps import Plan, Step

blockwise = Late("tenxor.plans.blockwise")  # with the first plan of blocks

General = tuple[Plan, Any, bool]  # a plan without numbers, what finds these for others, and whether it is for one number alone
MAGIC = b"tenxor plan 1\n"
MOST_PLACES, MOST_LINES = 1 << 16, 16  # of a table
MOST = 256  # questions of a process: what is met later is likely to be of sizes that no other process meets
_SPECIAL = (DATA, EMPTY, POSITION, STORE, UPDATE, REINTERPRET)
_BESIDE = ("over", "bytes_of", "may_take", "donors", "needs", "last", "irrevocable", "is_long", "beside")  # of a step, as they are
FEW = 4  # sizes of what is computed by parts without a plan
knowing: list[Callable[[Pattern], Plan | None]] = []  # what has plans for other sizes, once it is loaded
_asked = 0
_parted: Remembered[int] = Remembered(1 << 10)  # in how many sizes something was, by the texts of its parts
_stopped = False


def find(pattern: Pattern) -> Plan | None:
    """The plan for a pattern, by one for other sizes that is in memory, or read."""
    for by_sizes in knowing:
        plan = by_sizes(pattern)
        if plan is not None:
            return plan
    return read(pattern)


def read(pattern: Pattern) -> Plan | None:
    """The plan for a pattern that came with the package, or that an earlier process made, if all its kernels are there."""
    return ready.plan_of(pattern) or _read(pattern) if _may_ask() else None


def _may_ask() -> bool:
    global _asked
    _asked += 1
    return _asked <= MOST and not DEBUG


def looks() -> bool:
    """Whether plans are looked for that came with the package."""
    return not (_stopped or DEBUG)


def has_parts(pattern: Pattern) -> bool:
    """Whether plans came with the package for all operations of a pattern, so that none need be made for it now. What is met in some
    sizes is planned, as one kernel serves all; so is what has too many operations to be computed by parts.
    """
    is_planned = not looks() or pattern.pending > ready.MANY
    texts = None if is_planned else ready.texts_of([node for node in pattern.nodes if node.buffer is None])
    if texts is None:
        return False
    sizes = _parted.get(texts) or 0
    _parted.keep(texts, sizes + 1)
    return sizes < FEW


def _read(pattern: Pattern) -> Plan | None:
    words = _words_at(text_of(pattern))
    return None if words is None else plan_in(words)


def _words_at(text: str | None) -> Any | None:
    content = None if text is None else backend().read(text)
    return None if content is None else marshal.loads(content[len(MAGIC) :])


def stop() -> None:
    """From now on each plan is made here: for those who want to see what it is made of, and kernels with their loops."""
    global _asked, _stopped
    _asked, _stopped = MOST, True


def write(pattern: Pattern, plan: Plan) -> None:
    """Leave a plan to later processes, if it is among the first of this one, and one that can be written."""
    if _asked < MOST and not DEBUG:
        text = text_of(pattern)
        _write(text, None if text is None else in_words(plan))


def _write(text: str | None, words: Any) -> None:
    if text is None or words is None:
        return
    try:
        content = MAGIC + marshal.dumps(words)
    except ValueError:  # sizes that remember how they were worked out
        return
    backend().write(text, content)


def read_general(structure: object) -> list[General]:
    """What earlier processes found of a structure: each plan without numbers whose kernels are there."""
    every = _words_at(text_of_structure(structure)) if _may_ask() else None
    found = []
    for words, code, is_pinned in every or ():
        outline = plan_in(words)
        if outline is not None:
            found.append((outline, FunctionType(code, {}), is_pinned))
    return found


def write_general(structure: object, found: Iterable[General]) -> None:
    """Leave what is known of a structure to later processes."""
    if _asked < MOST and not DEBUG:
        every = [(in_words(outline), suits.__code__, is_pinned) for outline, suits, is_pinned in found]
        _write(text_of_structure(structure), [words for words in every if words[0] is not None])


# --- what a plan is known by ------------------------------------------------------------------------------------------


def text_of(pattern: Pattern) -> str | None:
    """Text that two patterns share only if one plan computes both, in whatever process; None if there is none."""
    whole = pattern.key, tuple([(node.shape, node.dtype.name) for node in pattern.nodes if node.buffer is not None])

    def said(x: object) -> str | None:
        if type(x) is Recipe:
            return None if x.passing else _text_of_recipe(x)
        return None if x is None else str(x)

    return _text("plan", whole, said)


_OWN = f"general {sys.implementation.cache_tag} {sys.hexversion}"  # as compiled functions are one interpreter's


def text_of_structure(structure: object, kind: str = _OWN) -> str | None:
    """Text that two structures share only if they are one, where this kind of words is found under it; None if there is none."""

    def said(x: object) -> str | None:
        is_plain = x is None or type(x) in (int, str)
        return repr(x) if is_plain else str(x) if type(x) is DType else _text_of_operation(x)

    return _text(kind, structure, said)


def _text(head: str, whole: object, said: Callable[[object], str | None]) -> str | None:
    """The text of tuples in tuples, and of all that is said of what is in them; None if of something nothing is."""
    parts = [head]
    stack = [whole]
    while stack:
        part = stack.pop()
        if type(part) is tuple:
            parts.append(f"({len(part)}")
            stack += part
            continue
        text = said(part)
        if text is None:
            return None
        parts.append(text)
    return " ".join(parts)


@lru_cache(maxsize=1 << 10)
def _text_of_recipe(recipe: Recipe) -> str | None:
    operation = _text_of_operation(recipe.op)
    forms = [None if form is None else form.layout for form in (*recipe.forms, recipe.target)]
    tables: list[str | None] = []
    for layout in forms:
        while layout is not None:
            tables += [_text_of_table(table) for table in layout.tables or () if table is not None]
            layout = layout.base
    known = operation is not None and None not in tables
    return f"{operation} {recipe.shape} {recipe.dtype} {[*map(str, recipe.dtypes)]} {forms} {tables}" if known else None


def _text_of_table(table: Table) -> str | None:
    """The ends of the lines that a table consists of, as that of `roll` does; None if it is long, or they are many: no other process has
    such a one.
    """
    offsets = table.offsets
    turns = [*np.flatnonzero(np.diff(offsets, 2)) + 1] if 0 < len(offsets) <= MOST_PLACES else None
    if turns is None or len(turns) >= MOST_LINES:
        return None
    return str([(int(k), int(offsets[k])) for k in (0, *turns, len(offsets) - 1)])


def _text_of_operation(op: Any) -> str | None:
    """All that there is to an operation; None if it is not one that other processes have, too, or make of the same formula."""
    name, more = str(op), tuple[Any, ...]()
    if type(op) is Gather:
        is_known, more = True, op.axes
    elif type(op) is Scatter:
        is_known = op.reduction is None or _in_table(op.reduction)
        more = op.reduction, op.axes, op.checked
    elif type(op) is Op and op.key:
        is_known, more = True, (op.key.hex(), op.cost)
    elif type(op) is Scan:
        is_known = op.reduction.name in REDUCTIONS and op.reduction is running(op.reduction.name, float64)
    else:
        is_known = OPS.get(name) is op or op in _SPECIAL or (type(op) is Reduction and _in_table(op))
    return f"{type(op).__name__} {name} {more}" if is_known else None


def _in_table(reduction: Reduction) -> bool:
    return REDUCTIONS.get(reduction.name) is reduction


# --- what is written of it --------------------------------------------------------------------------------------------


def in_words(plan: Plan) -> tuple[Any, ...] | None:
    """All of a plan, in nothing but tuples, lists, sets, numbers, text and bytes; None if it is of this process alone."""
    steps: list[object] = []
    for step in plan.steps:
        words = None if step.filling is None else step.filling.in_words(in_words)
        if words is None and step.filling is not None:
            return None
        head = step.number, step.shape, step.dtype.name, step.nbytes, str(step.name), step.whole
        steps.append((head, words, tuple([getattr(step, name) for name in _BESIDE])))
    return steps, plan.inlined, plan.costly, plan.dear, plan.watched, plan.reads, plan.more


def plan_in(content: tuple[Any, ...]) -> Plan | None:
    """The plan of these words, if all its kernels are there."""
    all_steps, *rest = content
    steps = []
    for (number, shape, name, nbytes, op, whole), filling, beside in all_steps:
        step = Step(number, shape, dtype(name), nbytes, op, whole)
        for key, value in zip(_BESIDE, beside, strict=True):
            setattr(step, key, value)
        if filling is not None:
            step.filling = Call.of_words(*filling) if len(filling) == 3 else blockwise.of_words(filling, plan_in)
            if step.filling is None:
                return None
        steps.append(step)
    return Plan(backend().target, steps, *rest)
