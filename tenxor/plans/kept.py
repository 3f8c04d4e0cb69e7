"""The disk cache of plans. It serves the first results of a process: to import the planner takes longer than all other work for them.

An exact plan is stored under a text of its signature: operations, shapes, dtypes and layouts. A stored plan consists of numbers and names,
and of facts about each kernel; the code of a kernel is found by the cache of kernels. The generic plans of a structure (`general.py`) are
stored together under a text of the structure: plans without dims, each with the code of the function that checks the guards and computes
the dims. Graphs with irregular offset tables or with reductions defined by the user are planned anew in each process.

The name of a plan on disk also covers the sources of the planner, the machine and the number of threads (`Backend.read`). So a plan of
another version, machine or thread count is never loaded.
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

blockwise = Late("tenxor.plans.blockwise")  # imported with the first plan of blocks

General = tuple[Plan, Any, bool]  # a plan without dims, the function to compute the dims of its steps, and whether a guard fixes a dim
MAGIC = b"tenxor plan 1\n"
MOST_PLACES, MOST_LINES = 1 << 16, 16  # limits of an offset table in a text: entries, and corners
MOST = 256  # look-ups per process: later look-ups are likely to be for sizes unknown to other processes
_SPECIAL = (DATA, EMPTY, POSITION, STORE, UPDATE, REINTERPRET)
_BESIDE = ("over", "bytes_of", "may_take", "donors", "needs", "last", "irrevocable", "is_long", "beside")  # attributes stored unchanged
FEW = 4  # sizes of a graph that are computed operation by operation, without a plan for the whole
knowing: list[Callable[[Pattern], Plan | None]] = []  # look-ups in the generic plans in memory, registered by `general.py`
_asked = 0
_parted: Remembered[int] = Remembered(1 << 10)  # number of sizes computed operation by operation, by the texts of the operations
_stopped = False


def find(pattern: Pattern) -> Plan | None:
    """Return the plan for `pattern` from a generic plan in memory, or else from the package or the disk; None if no plan is found."""
    for by_sizes in knowing:
        plan = by_sizes(pattern)
        if plan is not None:
            return plan
    return read(pattern)


def read(pattern: Pattern) -> Plan | None:
    """Return the plan for `pattern` that is shipped with the package, or written by an earlier process; None if the plan or a kernel is
    missing.

    After `MOST` look-ups, and with DEBUG set, return None without a search.
    """
    return ready.plan_of(pattern) or _read(pattern) if _may_ask() else None


def _may_ask() -> bool:
    global _asked
    _asked += 1
    return _asked <= MOST and not DEBUG


def looks() -> bool:
    """Return whether shipped plans may be used: neither `stop` was called nor DEBUG is set."""
    return not (_stopped or DEBUG)


def has_parts(pattern: Pattern) -> bool:
    """Return whether the package ships a plan for each operation of `pattern`, so the graph can be computed operation by operation.

    Return False after `FEW` calls for the same operations: for a graph of several sizes, a plan pays, as its kernel serves every size.
    Return False also for more than `ready.MANY` pending nodes.
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
    """Disable the disk cache and shipped plans from now on, for callers that show how plans are made and the loops of their kernels."""
    global _asked, _stopped
    _asked, _stopped = MOST, True


def write(pattern: Pattern, plan: Plan) -> None:
    """Write `plan` to disk for later processes, unless `MOST` look-ups were made, DEBUG is set, or the plan cannot be serialised."""
    if _asked < MOST and not DEBUG:
        text = text_of(pattern)
        _write(text, None if text is None else in_words(plan))


def _write(text: str | None, words: Any) -> None:
    if text is None or words is None:
        return
    try:
        content = MAGIC + marshal.dumps(words)
    except ValueError:  # symbolic sizes cannot be marshalled
        return
    backend().write(text, content)


def read_general(structure: object) -> list[General]:
    """Return the generic plans stored by earlier processes for a structure, except plans with a missing kernel."""
    every = _words_at(text_of_structure(structure)) if _may_ask() else None
    found = []
    for words, code, is_pinned in every or ():
        outline = plan_in(words)
        if outline is not None:
            found.append((outline, FunctionType(code, {}), is_pinned))
    return found


def write_general(structure: object, found: Iterable[General]) -> None:
    """Write the generic plans of a structure to disk for later processes, in place of the plans stored before."""
    if _asked < MOST and not DEBUG:
        every = [(in_words(outline), suits.__code__, is_pinned) for outline, suits, is_pinned in found]
        _write(text_of_structure(structure), [words for words in every if words[0] is not None])


# --- keys of plans on disk --------------------------------------------------------------------------------------------


def text_of(pattern: Pattern) -> str | None:
    """Return a text that is equal for two patterns only if the same plan computes both, in any process.

    Return None for a graph that cannot be stored on disk.
    """
    whole = pattern.key, tuple([(node.shape, node.dtype.name) for node in pattern.nodes if node.buffer is not None])

    def said(x: object) -> str | None:
        if type(x) is Recipe:
            return None if x.passing else _text_of_recipe(x)
        return None if x is None else str(x)

    return _text("plan", whole, said)


_OWN = f"general {sys.implementation.cache_tag} {sys.hexversion}"  # code objects are specific to a version of the interpreter


def text_of_structure(structure: object, kind: str = _OWN) -> str | None:
    """Return a text that is equal for two structures only if they are identical; None for a structure that cannot be stored on disk.

    `kind` is a namespace: the name of the format of the content.
    """

    def said(x: object) -> str | None:
        is_plain = x is None or type(x) in (int, str)
        return repr(x) if is_plain else str(x) if type(x) is DType else _text_of_operation(x)

    return _text(kind, structure, said)


def _text(head: str, whole: object, said: Callable[[object], str | None]) -> str | None:
    """Return the text of nested tuples, with `said(x)` for each leaf x; None if `said` returns None for a leaf. `head` is the first word.
    """
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
    """Return the corners of an offset table, drawn as a line through its entries; the table of `roll` has few.

    Return None for an empty table, and for a table of more than `MOST_PLACES` entries or with `MOST_LINES` corners inside: another process
    is unlikely to read the same table.
    """
    offsets = table.offsets
    turns = [*np.flatnonzero(np.diff(offsets, 2)) + 1] if 0 < len(offsets) <= MOST_PLACES else None
    if turns is None or len(turns) >= MOST_LINES:
        return None
    return str([(int(k), int(offsets[k])) for k in (0, *turns, len(offsets) - 1)])


def _text_of_operation(op: Any) -> str | None:
    """Return a text to identify an operation; None if other processes neither have the operation nor build it from the same formula."""
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


# --- serialisation of plans -------------------------------------------------------------------------------------------


def in_words(plan: Plan) -> tuple[Any, ...] | None:
    """Return `plan` in serialisable form: tuples, lists, sets, numbers, text and bytes.

    Return None if a kernel call cannot be serialised, or is of no use to other processes.
    """
    steps: list[object] = []
    for step in plan.steps:
        words = None if step.filling is None else step.filling.in_words(in_words)
        if words is None and step.filling is not None:
            return None
        head = step.number, step.shape, step.dtype.name, step.nbytes, str(step.name), step.whole
        steps.append((head, words, tuple([getattr(step, name) for name in _BESIDE])))
    return steps, plan.inlined, plan.costly, plan.dear, plan.watched, plan.reads, plan.more


def plan_in(content: tuple[Any, ...]) -> Plan | None:
    """Return the plan serialised by `in_words`, for the present target; None if a kernel is missing."""
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
