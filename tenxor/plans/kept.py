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
MAX_TABLE_ENTRIES, MAX_TABLE_CORNERS = 1 << 16, 16  # limits of an offset table in a text: entries, and corners
MAX_LOOKUPS = 256  # look-ups per process: later look-ups are likely to be for sizes unknown to other processes
_SPECIAL_OPERATIONS = (DATA, EMPTY, POSITION, STORE, UPDATE, REINTERPRET)
# The attributes of a step that are stored unchanged.
_STORED_ATTRIBUTES = ("over", "bytes_of", "may_take", "donors", "needs", "last", "irrevocable", "is_long", "beside")
MAX_UNPLANNED_SIZES = 4  # sizes of a graph that are computed operation by operation, without a plan for the whole
knowing: list[Callable[[Pattern], Plan | None]] = []  # look-ups in the generic plans in memory, registered by `general.py`
_lookup_count = 0
_unplanned_sizes: Remembered[int] = Remembered(1 << 10)  # number of sizes computed operation by operation, by the texts of the operations
_is_disabled = False


def find(pattern: Pattern) -> Plan | None:
    """Return the plan for `pattern` from a generic plan in memory, or else from the package or the disk; None if no plan is found."""
    for look_up in knowing:
        plan = look_up(pattern)
        if plan is not None:
            return plan
    return read(pattern)


def read(pattern: Pattern) -> Plan | None:
    """Return the plan for `pattern` that is shipped with the package, or written by an earlier process; None if the plan or a kernel is
    missing.

    After `MAX_LOOKUPS` look-ups, and with DEBUG set, return None without a search.
    """
    return ready.plan_of(pattern) or _read_exact(pattern) if _may_look_up() else None


def _may_look_up() -> bool:
    global _lookup_count
    _lookup_count += 1
    return _lookup_count <= MAX_LOOKUPS and not DEBUG


def looks() -> bool:
    """Return whether shipped plans may be used: neither `stop` was called nor DEBUG is set."""
    return not (_is_disabled or DEBUG)


def has_parts(pattern: Pattern) -> bool:
    """Return whether the package ships a plan for each operation of `pattern`, so the graph can be computed operation by operation.

    Return False after `MAX_UNPLANNED_SIZES` calls for the same operations: for a graph of several sizes, a plan pays, as its kernel serves
    every size. Return False also for more than `ready.MANY` pending nodes.
    """
    needs_plan = not looks() or pattern.pending > ready.MANY
    texts = None if needs_plan else ready.texts_of([node for node in pattern.nodes if node.buffer is None])
    if texts is None:
        return False
    size_count = _unplanned_sizes.get(texts) or 0
    _unplanned_sizes.keep(texts, size_count + 1)
    return size_count < MAX_UNPLANNED_SIZES


def _read_exact(pattern: Pattern) -> Plan | None:
    words = _read_words(text_of(pattern))
    return None if words is None else plan_in(words)


def _read_words(text: str | None) -> Any | None:
    content = None if text is None else backend().read(text)
    return None if content is None else marshal.loads(content[len(MAGIC) :])


def stop() -> None:
    """Disable the disk cache and shipped plans from now on, for callers that show how plans are made and the loops of their kernels."""
    global _lookup_count, _is_disabled
    _lookup_count, _is_disabled = MAX_LOOKUPS, True


def write(pattern: Pattern, plan: Plan) -> None:
    """Write `plan` to disk for later processes, unless `MAX_LOOKUPS` look-ups were made, DEBUG is set, or the plan cannot be serialised."""
    if _lookup_count < MAX_LOOKUPS and not DEBUG:
        text = text_of(pattern)
        _write_words(text, None if text is None else in_words(plan))


def _write_words(text: str | None, words: Any) -> None:
    if text is None or words is None:
        return
    try:
        content = MAGIC + marshal.dumps(words)
    except ValueError:  # symbolic sizes cannot be marshalled
        return
    backend().write(text, content)


def read_general(structure: object) -> list[General]:
    """Return the generic plans stored by earlier processes for a structure, except plans with a missing kernel."""
    entries = _read_words(text_of_structure(structure)) if _may_look_up() else None
    plans = []
    for words, code, is_pinned in entries or ():
        outline = plan_in(words)
        if outline is not None:
            plans.append((outline, FunctionType(code, {}), is_pinned))
    return plans


def write_general(structure: object, plans: Iterable[General]) -> None:
    """Write the generic plans of a structure to disk for later processes, in place of the plans stored before."""
    if _lookup_count < MAX_LOOKUPS and not DEBUG:
        entries = [(in_words(outline), evaluate.__code__, is_pinned) for outline, evaluate, is_pinned in plans]
        _write_words(text_of_structure(structure), [words for words in entries if words[0] is not None])


# --- keys of plans on disk --------------------------------------------------------------------------------------------


def text_of(pattern: Pattern) -> str | None:
    """Return a text that is equal for two patterns only if the same plan computes both, in any process.

    Return None for a graph that cannot be stored on disk.
    """
    signature = pattern.key, tuple([(node.shape, node.dtype.name) for node in pattern.nodes if node.buffer is not None])

    def leaf_text(x: object) -> str | None:
        if type(x) is Recipe:
            return None if x.passing else _text_of_recipe(x)
        return None if x is None else str(x)

    return _text_of_nested("plan", signature, leaf_text)


_GENERIC_NAMESPACE = f"general {sys.implementation.cache_tag} {sys.hexversion}"  # code objects are specific to a version of the interpreter


def text_of_structure(structure: object, namespace: str = _GENERIC_NAMESPACE) -> str | None:
    """Return a text that is equal for two structures only if they are identical; None for a structure that cannot be stored on disk.

    `namespace` is the name of the format of the content.
    """

    def leaf_text(x: object) -> str | None:
        is_constant = x is None or type(x) in (int, str)
        return repr(x) if is_constant else str(x) if type(x) is DType else _text_of_operation(x)

    return _text_of_nested(namespace, structure, leaf_text)


def _text_of_nested(first_word: str, root: object, leaf_text: Callable[[object], str | None]) -> str | None:
    """Return the text of nested tuples, with `leaf_text(x)` for each leaf x; None if `leaf_text` returns None for a leaf. The text
    begins with `first_word`.
    """
    words = [first_word]
    stack = [root]
    while stack:
        item = stack.pop()
        if type(item) is tuple:
            words.append(f"({len(item)}")
            stack += item
            continue
        text = leaf_text(item)
        if text is None:
            return None
        words.append(text)
    return " ".join(words)


@lru_cache(maxsize=1 << 10)
def _text_of_recipe(recipe: Recipe) -> str | None:
    operation = _text_of_operation(recipe.op)
    layouts = [None if form is None else form.layout for form in (*recipe.forms, recipe.target)]
    tables: list[str | None] = []
    for layout in layouts:
        while layout is not None:
            tables += [_text_of_table(table) for table in layout.tables or () if table is not None]
            layout = layout.base
    is_storable = operation is not None and None not in tables
    return f"{operation} {recipe.shape} {recipe.dtype} {[*map(str, recipe.dtypes)]} {layouts} {tables}" if is_storable else None


def _text_of_table(table: Table) -> str | None:
    """Return the corners of an offset table, drawn as a line through its entries; the table of `roll` has few.

    Return None for an empty table, and for a table of more than `MAX_TABLE_ENTRIES` entries or with `MAX_TABLE_CORNERS` corners inside:
    another process is unlikely to read the same table.
    """
    offsets = table.offsets
    corners = [*np.flatnonzero(np.diff(offsets, 2)) + 1] if 0 < len(offsets) <= MAX_TABLE_ENTRIES else None
    if corners is None or len(corners) >= MAX_TABLE_CORNERS:
        return None
    return str([(int(k), int(offsets[k])) for k in (0, *corners, len(offsets) - 1)])


def _text_of_operation(op: Any) -> str | None:
    """Return a text to identify an operation; None if other processes neither have the operation nor build it from the same formula."""
    name, details = str(op), tuple[Any, ...]()
    if type(op) is Gather:
        is_known, details = True, op.axes
    elif type(op) is Scatter:
        is_known = op.reduction is None or _is_in_table(op.reduction)
        details = op.reduction, op.axes, op.checked
    elif type(op) is Op and op.key:
        is_known, details = True, (op.key.hex(), op.cost)
    elif type(op) is Scan:
        is_known = op.reduction.name in REDUCTIONS and op.reduction is running(op.reduction.name, float64)
    else:
        is_known = OPS.get(name) is op or op in _SPECIAL_OPERATIONS or (type(op) is Reduction and _is_in_table(op))
    return f"{type(op).__name__} {name} {details}" if is_known else None


def _is_in_table(reduction: Reduction) -> bool:
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
        fields = step.number, step.shape, step.dtype.name, step.nbytes, str(step.name), step.whole
        steps.append((fields, words, tuple([getattr(step, name) for name in _STORED_ATTRIBUTES])))
    return steps, plan.inlined, plan.costly, plan.dear, plan.watched, plan.reads, plan.more


def plan_in(content: tuple[Any, ...]) -> Plan | None:
    """Return the plan serialised by `in_words`, for the present target; None if a kernel is missing."""
    step_words, *fields = content
    steps = []
    for (number, shape, dtype_name, nbytes, op, user_slot), call_words, attributes in step_words:
        step = Step(number, shape, dtype(dtype_name), nbytes, op, user_slot)
        for key, value in zip(_STORED_ATTRIBUTES, attributes, strict=True):
            setattr(step, key, value)
        if call_words is not None:
            step.filling = Call.of_words(*call_words) if len(call_words) == 3 else blockwise.of_words(call_words, plan_in)
            if step.filling is None:
                return None
        steps.append(step)
    return Plan(backend().target, steps, *fields)
