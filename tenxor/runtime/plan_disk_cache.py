"""The disk cache of plans. It serves the first results of a process: to import the planner takes longer than all other work for them.

An exact plan is stored under a text of its signature: operations, shapes, dtypes and layouts. A stored plan consists of numbers and
names, and of facts about each kernel; the code of a kernel is found by the cache of kernels. The generic plans of a structure
(`generic_plans.py`) are stored together under a text of the structure: plans without dims, each with the code of the function that
checks the guards and computes the dims. Graphs with irregular offset tables or with reductions defined by the user are planned anew in
each process.

The name of a plan on disk also covers the sources of the planner, the machine and the number of threads (`Backend.read_stored`). So a
plan of another version, machine or thread count is never loaded.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np

from .._utils.cache_registry import counts, register
from .._utils.lazy import LazyFunctions
from ..codegen import backend
from ..dtypes import DType, dtype, float64
from ..graph.node import DATA, EMPTY, POSITION, REINTERPRET, STORE, UPDATE, Gather, Recipe, Scan, Scatter
from ..layout import Table
from ..ops import OPS, Op
from ..ops.reductions import REDUCTIONS, Reduction, get_running_reduction
from . import shipped_op_plans
from .graph_signature import GraphSignature
from .kernel_call import DEBUG_LEVEL, SingleKernelCall
from .plan_execution import Plan, PlanStep

blockwise_call = LazyFunctions("tenxor.runtime.blockwise_call")  # imported with the first plan of blocks

# A plan without dims, the function to compute the dims of its steps, and whether a guard fixes a dim
StoredGenericPlan = tuple[Plan, Any, bool]
PLAN_FILE_MAGIC = b"tenxor plan 1\n"
MAX_TABLE_ENTRIES, MAX_TABLE_CORNERS = 1 << 16, 16  # limits of an offset table in a text: entries, and corners
MAX_LOOKUPS = 256  # look-ups per process: later look-ups are likely to be for sizes unknown to other processes
_SPECIAL_OPERATIONS = (DATA, EMPTY, POSITION, STORE, UPDATE, REINTERPRET)
# Attributes of a step, stored unchanged
_STORED_ATTRIBUTES = (
    *("overwritten_slot", "reinterpreted_slot", "donor_candidates", "donors", "input_slots", "released_slots"),
    *("is_unrepeatable", "is_long", "extra_outputs"),
)
_lookup_count = 0
_is_disabled = False


def load_plan(signature: GraphSignature) -> Plan | None:
    """Return the plan for the exact dims of `signature` that is shipped with the package, or written by an earlier process.

    Return None if the plan or a kernel is missing, and always with `TENXOR_DEBUG` set. The disk is not read after `MAX_LOOKUPS` look-ups.
    """
    plan = shipped_op_plans.find_shipped_op_plan(signature) if can_use_shipped_plans() else None
    return plan or (_read_exact(signature) if _may_look_up() else None)


def find_shipped_rows_plan(signature: GraphSignature) -> Plan | None:
    """Return the plan for `signature`, a single operation, by a shipped kernel, which may run on each row of several axes.

    Return None on a miss, or if shipped plans are disabled.
    """
    return shipped_op_plans.find_shipped_op_plan(signature, by_rows=True) if can_use_shipped_plans() else None


def _may_look_up() -> bool:
    """Count a look-up on disk. Return False above `MAX_LOOKUPS` look-ups, or with `TENXOR_DEBUG` set, and True otherwise."""
    global _lookup_count
    _lookup_count += 1
    return _lookup_count <= MAX_LOOKUPS and not DEBUG_LEVEL


def can_use_shipped_plans() -> bool:
    """Return whether shipped plans may be used: neither `disable_stored_plans` was called nor is `TENXOR_DEBUG` set."""
    return not (_is_disabled or DEBUG_LEVEL)


def _read_exact(signature: GraphSignature) -> Plan | None:
    """Return the plan on disk for the exact dims of `signature`; None if no plan is stored, or if a kernel is missing."""
    words = _read_value(encode_graph_key(signature))
    plan = None if words is None else deserialize_plan(words)
    counts["plans_from_disk"] += plan is not None
    return plan


def _read_value(text: str | None) -> Any | None:
    """Return the value that `_write_value` of this or an earlier process stored under the key `text`.

    Return None if `text` is None or nothing is stored.
    """
    content = None if text is None else backend().read_stored(text)
    return None if content is None else marshal.loads(content[len(PLAN_FILE_MAGIC) :])


def disable_stored_plans() -> None:
    """Disable the disk cache and shipped plans from now on, for callers that show how plans are made and the loops of their kernels."""
    global _lookup_count, _is_disabled
    _lookup_count, _is_disabled = MAX_LOOKUPS, True


def store_plan(signature: GraphSignature, plan: Plan) -> None:
    """Write `plan`, the plan for `signature`, to disk for later processes.

    Do nothing after `MAX_LOOKUPS` look-ups, with `TENXOR_DEBUG` set, or if the signature or the plan cannot be serialised.
    """
    if _lookup_count < MAX_LOOKUPS and not DEBUG_LEVEL:
        text = encode_graph_key(signature)
        _write_value(text, None if text is None else serialize_plan(plan))


def _write_value(text: str | None, words: Any) -> None:
    """Store `words`, nested tuples and lists of constants, on disk under the key `text`.

    Do nothing if either argument is None, if `words` holds symbolic sizes, or if the disk cache cannot be written.
    """
    if text is None or words is None:
        return
    try:
        content = PLAN_FILE_MAGIC + marshal.dumps(words)
    except ValueError:  # symbolic sizes cannot be marshalled
        return
    backend().write_stored(text, content)


def load_generic_plans(structure_text: str | None) -> list[StoredGenericPlan]:
    """Return the generic plans that earlier processes stored for a structure, as `StoredGenericPlan`s.

    `structure_text` is the text of the structure (`encode_structure`). Plans with a missing kernel are left out. The list is empty after
    `MAX_LOOKUPS` look-ups, with `TENXOR_DEBUG` set, and if `structure_text` is None.
    """
    entries = _read_value(_add_namespace(structure_text)) if _may_look_up() else None
    plans = []
    for words, code, is_pinned in entries or ():
        outline = deserialize_plan(words)
        if outline is not None:
            plans.append((outline, FunctionType(code, {}), is_pinned))
    counts["plans_from_disk"] += len(plans)
    return plans


def store_generic_plans(structure_text: str | None, plans: Iterable[StoredGenericPlan]) -> None:
    """Write the generic plans `plans` of a structure to disk for later processes. They replace the plans stored before.

    `structure_text` is the text of the structure (`encode_structure`). Plans that cannot be serialised are left out. Do nothing after
    `MAX_LOOKUPS` look-ups, with `TENXOR_DEBUG` set, or if `structure_text` is None.
    """
    if _lookup_count < MAX_LOOKUPS and not DEBUG_LEVEL:
        entries = [(serialize_plan(outline), evaluate.__code__, is_pinned) for outline, evaluate, is_pinned in plans]
        _write_value(_add_namespace(structure_text), [words for words in entries if words[0] is not None])


# --- keys of plans on disk --------------------------------------------------------------------------------------------


def encode_graph_key(graph_signature: GraphSignature) -> str | None:
    """Return a text that is equal for two signatures only if the same plan computes both, in any process.

    The key of `graph_signature` must be a structure, not bytes of the fast path. Return None for a graph that cannot be stored on disk, as
    with a reduction defined by the user or an irregular offset table.
    """
    shapes = tuple([(node.shape, node.dtype.name) for node in graph_signature.nodes if node.buffer is not None])

    def leaf_text(x: object) -> str | None:
        """Return the text of `x`, an item of a key that is no tuple; None if it has no text."""
        if type(x) is Recipe:
            return None if x.is_uncacheable else _encode_recipe(x)
        return None if x is None else str(x)

    return _encode_nested(["plan"], (graph_signature.key, shapes), leaf_text)


_GENERIC_NAMESPACE = f"general {sys.implementation.cache_tag} {sys.hexversion}"  # code objects are specific to a version of the interpreter


def _add_namespace(structure_text: str | None) -> str | None:
    """Return the key on disk of the generic plans of a structure, given by its text `structure_text`.

    Return None for None: the structure cannot be stored.
    """
    return None if structure_text is None else f"{_GENERIC_NAMESPACE} {structure_text}"


def encode_structure(structure: object) -> str | None:
    """Return a text that is equal for two structures only if they are identical; None for a structure that cannot be stored on disk.

    `structure` is the first item of a result of `generic_plans.split_structure`.
    """
    texts = dict[object, str | None]()  # of operations and dtypes, which a large graph repeats

    def leaf_text(x: object) -> str | None:
        """Return the text of `x`, an item of a structure that is no tuple; None if it has no text."""
        if x is None or type(x) in (int, str):
            return repr(x)
        if x not in texts:
            texts[x] = str(x) if type(x) is DType else _encode_operation(x)
        return texts[x]

    return _encode_nested([], structure, leaf_text)


def _encode_nested(words: list[str], root: object, leaf_text: Callable[[object], str | None]) -> str | None:
    """Return the text of `root`, nested tuples, with `leaf_text(x)` for each leaf x, and the number of items for each tuple.

    `words` is the beginning of the text, a list of words that this function extends. Return None if `leaf_text` returns None for a leaf.
    """
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


@register("texts of recipes", "the text of a recipe in keys of the disk cache, by recipe")
@lru_cache(maxsize=1 << 10)
def _encode_recipe(recipe: Recipe) -> str | None:
    """Return a text to identify `recipe` in every process; None if the operation or an offset table has no text."""
    operation = _encode_operation(recipe.op)
    layouts = [None if layout_key is None else layout_key.layout for layout_key in (*recipe.layout_keys, recipe.target)]
    tables: list[str | None] = []
    for layout in layouts:
        while layout is not None:
            tables += [_encode_table(table) for table in layout.tables or () if table is not None]
            layout = layout.base
    is_storable = operation is not None and None not in tables
    return f"{operation} {recipe.shape} {recipe.dtype} {[*map(str, recipe.dtypes)]} {layouts} {tables}" if is_storable else None


def _encode_table(table: Table) -> str | None:
    """Return the corners of `table`, an offset table, drawn as a line through its entries; the table of `roll` has few.

    A corner is a pair: the position in the table, and the offset there. Return None for an empty table, and for a table of more than
    `MAX_TABLE_ENTRIES` entries or with `MAX_TABLE_CORNERS` corners inside: another process is unlikely to read the same table.
    """
    offsets = table.offsets
    corners = [*np.flatnonzero(np.diff(offsets, 2)) + 1] if 0 < len(offsets) <= MAX_TABLE_ENTRIES else None
    if corners is None or len(corners) >= MAX_TABLE_CORNERS:
        return None
    return str([(int(k), int(offsets[k])) for k in (0, *corners, len(offsets) - 1)])


def _encode_operation(op: Any) -> str | None:
    """Return a text to identify `op`, the operation of a recipe, in every process.

    Return None if another process neither has the operation nor builds an equal one from the same formula.
    """
    name, details = str(op), tuple[Any, ...]()
    if type(op) is Gather:
        is_known, details = True, op.axes
    elif type(op) is Scatter:
        is_known = op.reduction is None or _is_in_table(op.reduction)
        details = op.reduction, op.axes, op.is_checked
    elif type(op) is Op and op.formula_digest:
        is_known, details = True, (op.formula_digest.hex(), op.cost)
    elif type(op) is Scan:
        is_known = op.reduction.name in REDUCTIONS and op.reduction is get_running_reduction(op.reduction.name, float64)
    else:
        is_known = OPS.get(name) is op or op in _SPECIAL_OPERATIONS or (type(op) is Reduction and _is_in_table(op))
    return f"{type(op).__name__} {name} {details}" if is_known else None


def _is_in_table(reduction: Reduction) -> bool:
    """Return whether `reduction` is one of `REDUCTIONS`, and not defined by the user."""
    return REDUCTIONS.get(reduction.name) is reduction


# --- serialisation of plans -------------------------------------------------------------------------------------------


def serialize_plan(plan: Plan) -> tuple[Any, ...] | None:
    """Return `plan` in serialisable form: tuples, lists, sets, numbers, text and bytes.

    Return None if a kernel call cannot be serialised, or is of no use to other processes. `deserialize_plan` reverses this.
    """
    steps: list[object] = []
    for step in plan.steps:
        words = None if step.kernel_call is None else step.kernel_call.serialize(serialize_plan)
        if words is None and step.kernel_call is not None:
            return None
        fields = step.result_slot, step.shape, step.dtype.name, step.nbytes, str(step.name), step.user_slot
        steps.append((fields, words, tuple([getattr(step, name) for name in _STORED_ATTRIBUTES])))
    return (
        steps,
        plan.inlined_slots,
        plan.expensive_slots,
        plan.cheap_to_store_slots,
        plan.watched_slots,
        plan.watched_read_counts,
        plan.additional_slot_count,
    )


def deserialize_plan(content: tuple[Any, ...]) -> Plan | None:
    """Return the plan whose serialised form is `content`, a result of `serialize_plan`, for the present target.

    Return None if a kernel is missing.
    """
    step_words, *fields = content
    steps = []
    for (number, shape, dtype_name, nbytes, op, user_slot), call_words, attributes in step_words:
        step = PlanStep(number, shape, dtype(dtype_name), nbytes, op, user_slot)
        for key, value in zip(_STORED_ATTRIBUTES, attributes, strict=True):
            setattr(step, key, value)
        if call_words is not None:
            step.kernel_call = (
                SingleKernelCall.deserialize(*call_words)
                if len(call_words) == 3
                else blockwise_call.deserialize_call(call_words, deserialize_plan)
            )
            if step.kernel_call is None:
                return None
        steps.append(step)
    return Plan(backend().target, steps, *fields)
