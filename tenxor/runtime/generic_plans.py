"""Size-generic plans: reuse a plan for other sizes, wherever planning would take the same decisions. A plan has the kernels of a graph,
with their arguments. The plan is cached under the signature of its graph, with every shape and stride. The structure of a graph is the
signature without the dims (shapes, strides and inner offsets), except for which dims are equal, 0 or 1. The second miss of a structure is
planned with symbolic sizes (`symint.SymInt`), which record each question about them: this is a trace. The trace gives the guards,
conditions on the dims, and the sizes of the kernels as functions of the dims.

Nothing is guessed: dims with a different answer to some question get a plan of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import counts, register
from .._utils.lazy import LazyModule
from ..codegen import backend, compiled_kernels
from ..codegen.interface import KernelArguments
from ..graph.node import Recipe
from ..layout import Layout
from ..symbolic.guards import GuardedCache, guards_hold
from ..target import Target
from . import plan_disk_cache, shipped_generic_plans
from .graph_signature import GraphSignature
from .kernel_call import SingleKernelCall
from .plan_execution import Plan, PlanStep
from .shipped_generic_plans import ShippedPlan

# Loaded on first use: shipped plans need neither
planner, plan_tracing = LazyModule("tenxor.runtime.planner"), LazyModule("tenxor.runtime.plan_tracing")
MAX_STRUCTURES = 1024
MAX_GENERIC_PLANS = 48  # generic plans for one structure


# For each step: the shape and bytes of the result, and the `KernelArguments` of the kernel without scalars and tables.
StepDims = tuple[Any, ...]


class GenericPlan:
    """A size-generic plan: a plan without dims (`plan_without_dims`), and a function `evaluate` to compute the dims of the steps.

    The steps of a plan without dims have the shape `()`, 0 bytes, and kernel arguments without operands, sizes and work. `evaluate` takes
    the distinct dims of a graph, as `split_structure` returns them. It returns `StepDims`, or None if a guard fails and the graph would be
    planned differently. `is_pinned` is true if a guard fixes a dim to a single value. `is_shipped` is true if the plan came with the
    package and need not be written to disk. `launch_template` caches the size-generic launch record of the plan
    (`fastpath/launch_records.py`).
    """

    __slots__ = ("evaluate", "is_pinned", "is_shipped", "plan_without_dims", "launch_template")

    def __init__(
        self, plan_without_dims: Plan, evaluate: Callable[..., StepDims | None], is_pinned: bool, is_shipped: bool = False
    ) -> None:
        self.plan_without_dims, self.evaluate, self.is_pinned, self.is_shipped = plan_without_dims, evaluate, is_pinned, is_shipped
        self.launch_template: Any = None

    def instantiate(self, step_dims: StepDims) -> Plan:
        """Return the concrete plan for `step_dims`, a result of `evaluate` other than None. The plan shares the compiled kernels."""
        counts["plans_generic"] += 1
        plan_without_dims, steps = self.plan_without_dims, []
        for step, (shape, nbytes, argument_dims) in zip(plan_without_dims.steps, step_dims, strict=True):
            call = step.kernel_call
            if isinstance(call, SingleKernelCall):
                call = SingleKernelCall(call.compiled, _fill_in_dims(call.arguments, argument_dims))
            steps.append(step.with_dims(shape, nbytes, call))
        return plan_without_dims.with_steps(steps)


def find_plan_in_memory(signature: GraphSignature) -> Plan | None:
    """Return the plan for `signature` from a generic plan in memory; None on a miss. Neither the package nor the disk is searched."""
    structure_and_dims = split_structure(signature) if _caches else None
    cache = None if structure_and_dims is None else _caches.get(structure_and_dims[0])
    if structure_and_dims is None or cache is None or cache.target is not backend().target:
        return None
    return _instantiate(cache.match(structure_and_dims[1]))


def find_stored_plan(signature: GraphSignature) -> Plan | None:
    """Return the plan for `signature` from a generic plan in memory, in the package or on disk; None on a miss. Nothing is traced."""
    return _instantiate(_find_match(signature))


def make_plan(signature: GraphSignature) -> Plan:
    """Return a new plan for `signature`, which no source has: from a new generic plan if a trace is due, else for exactly these dims.

    `signature` must be a snapshot (`GraphSignature.snapshot`). Missing kernels are compiled.
    """
    return _instantiate(_trace_if_due(signature)) or planner.make_plan(signature)


def get_exact_plan(signature: GraphSignature) -> Plan:
    """Return a plan specialised to the exact dims of `signature`, read from disk or made and then written to disk. Use no generic plan.

    For a single operation the plan may have a shipped kernel.
    """
    plan = plan_disk_cache.load_plan(signature)
    if plan is None:
        plan = plan_disk_cache.find_shipped_rows_plan(signature) or planner.make_plan(signature)
        plan_disk_cache.store_plan(signature, plan)
    return plan


Match = tuple[GenericPlan, StepDims]  # a generic plan whose guards hold for a graph, and the dims of the steps


def _instantiate(match: Match | None) -> Plan | None:
    """Return the concrete plan of `match`, a generic plan with the dims of each step; None for None."""
    return None if match is None else match[0].instantiate(match[1])


def find_generic_plan(signature: GraphSignature, trace_every_miss: bool = False) -> Match | None:
    """Return the generic plan whose guards hold for `signature`, and its `StepDims`. On a miss, trace a new generic plan if this is due.

    Return None if `signature` must be planned for its exact dims: a layout has offset tables, tracing failed, or a trace is not due yet.
    With `trace_every_miss` a trace is due at every miss, up to `MAX_GENERIC_PLANS` plans of a structure, unless a trace of the structure
    has failed. The key of `signature` must be a structure, not bytes of the fast path.
    """
    return _find_match(signature) or _trace_if_due(signature, trace_every_miss)


def _find_match(signature: GraphSignature) -> Match | None:
    """Return the generic plan for `signature` in memory, in the package or on disk, and its `StepDims`; None on a miss. Trace nothing."""
    structure_and_dims = split_structure(signature)
    if structure_and_dims is None:
        return None
    key, dims = structure_and_dims
    cache = _open_cache(key)
    return cache.match(dims) or cache.load_shipped(dims)


def _open_cache(structure: object) -> _TargetCache:
    """Return the cache of generic plans for `structure`, the first item of a result of `split_structure`, on the present machine.

    A new cache begins with the plans in the package, not loaded yet, and on disk. A cache made for another machine is replaced.
    """
    cache, target = _caches.get(structure), backend().target
    if cache is None or cache.target is not target:
        text = plan_disk_cache.encode_structure(structure)
        cache = _TargetCache(target, text, shipped_generic_plans.find_shipped_plans(text, target))
        cache.entries += [GenericPlan(*entry) for entry in plan_disk_cache.load_generic_plans(text)]
        _caches.put(structure, cache)
    return cache


def _trace_if_due(signature: GraphSignature, trace_every_miss: bool = False) -> Match | None:
    """Trace and store a generic plan for `signature`, and return the plan and its `StepDims`. No known generic plan has guards that hold.

    Return None if no trace is due or the trace fails; then the structure is traced no more. With `trace_every_miss` a trace is due at every
    miss, up to `MAX_GENERIC_PLANS` plans of a structure.
    """
    structure_and_dims = split_structure(signature)
    if structure_and_dims is None:
        return None
    key, dims = structure_and_dims
    cache = _open_cache(key)
    if not (cache.should_generalize() or (trace_every_miss and len(cache.entries) < cache.max_entries)):
        return None
    match = cache.insert(plan_tracing.trace_generic_plan(signature, dims), dims)
    if match is not None:
        new_plans = [(entry.plan_without_dims, entry.evaluate, entry.is_pinned) for entry in cache.entries if not entry.is_shipped]
        plan_disk_cache.store_generic_plans(cache.structure_text, new_plans)
    return match


def find_with_symbolic_dims(signature: GraphSignature, symbolic_signature: GraphSignature) -> Match | None:
    """Return the generic plan for `signature`, and its `StepDims` in terms of the symbolic sizes of `symbolic_signature`.

    `symbolic_signature` is the same graph as `signature`, with `SymInt`s for dims. Return None if the structures differ, if no generic plan
    holds or can be traced, or if a guard fails. Also return None if a dim of `signature` has two sizes in `symbolic_signature`, or two dims
    share a size.
    """
    dims, sizes = list[int](), list[int]()
    structure = extract_structure(signature, dims)
    if structure is None or extract_structure(symbolic_signature, sizes) != structure:
        return None
    match = find_generic_plan(signature, trace_every_miss=True)
    size_of = {0: 0, 1: 1}
    are_consistent = [size_of.setdefault(n, size) == size for n, size in zip(dims, sizes, strict=True)]
    if match is None or not all(are_consistent) or any([a == b for a, b in combinations(size_of.values(), 2)]):
        return None
    generic_plan = match[0]
    evaluated_dims = generic_plan.evaluate(*list(size_of.values())[2:])
    return None if evaluated_dims is None else (generic_plan, evaluated_dims)


def has_cached_structure(signature: GraphSignature) -> bool:
    """Return whether a generic plan was looked for before with a graph of the same structure as `signature`, and the cache still remembers.

    A generic plan need not exist. The recorder of launch records asks, so as to trace only common structures.
    """
    structure_and_dims = split_structure(signature)
    return structure_and_dims is not None and structure_and_dims[0] in _caches


class _TargetCache(GuardedCache[GenericPlan]):
    """A guarded cache of the generic plans of a structure, for the machine `target`.

    `structure_text` is the text of the structure (`plan_disk_cache.encode_structure`). `unloaded_plans` are shipped plans of the structure,
    not loaded so far.
    """

    __slots__ = ("structure_text", "unloaded_plans", "target")

    def __init__(self, target: Target, structure_text: str | None, unloaded_plans: list[ShippedPlan]) -> None:
        super().__init__(MAX_GENERIC_PLANS)
        self.target, self.structure_text, self.unloaded_plans = target, structure_text, unloaded_plans

    def load_shipped(self, dims: tuple[int, ...]) -> Match | None:
        """Load the first shipped plan whose guards hold for `dims`, insert the plan, and return it with the evaluated dims.

        `dims` are the distinct dims of a graph (`split_structure`). Return None if no guards hold, or if a kernel of the plan is missing.
        Each shipped plan is loaded at most once.
        """
        settings = self.target.settings
        for candidate in self.unloaded_plans:
            if guards_hold(candidate.guard_program, (*dims, *settings)):
                self.unloaded_plans.remove(candidate)
                plan_without_dims = candidate.deserialize()
                generic_plan = (
                    None
                    if plan_without_dims is None
                    else GenericPlan(plan_without_dims, candidate.compile_evaluator(settings), candidate.is_pinned, is_shipped=True)
                )
                counts["plans_shipped"] += generic_plan is not None
                return None if generic_plan is None else self.insert(generic_plan, dims)
        return None


_caches: BoundedCache[_TargetCache] = register("generic plans", "the generic plans, by graph structure", depends_on=(compiled_kernels,))(
    BoundedCache(MAX_STRUCTURES)
)


# --- structure and dims of a signature ---------------------------------------------------------------------------------


def split_structure(signature: GraphSignature) -> tuple[object, tuple[int, ...]] | None:
    """Split `signature` into a structure, as a cache key, and the distinct dims except 0 and 1, in the order of their first occurrence.

    The key also tells which dims are equal, 0 or 1. Return None if a layout has offset tables. The result is kept in `signature`, whose own
    key must be a structure, not bytes of the fast path (`GraphSignature.snapshot` gives one).
    """
    if signature.structure_and_dims is None:
        dims: list[int] = []
        structure = extract_structure(signature, dims)
        if structure is None:
            return None
        equalities, distinct_dims = group_equal_dims(dims)
        signature.structure_and_dims = (structure, equalities), distinct_dims
    return signature.structure_and_dims


def extract_structure(signature: GraphSignature, dims: list[int]) -> object | None:
    """Return the structure of `signature` as a tuple without dims, and append the dims to `dims`, with repetitions.

    The key of `signature` must be a recipe or a tuple, not bytes of the fast path. Return None if a layout has offset tables; some dims may
    have been appended then.
    """
    structure: list[object] = []
    stack: list[object] = [signature.key]
    while stack:
        item = stack.pop()
        if type(item) is Recipe:
            if not split_recipe(item, structure, dims):
                return None
        elif type(item) is not tuple:
            structure.append(item)
        elif len(item) == 1:
            dims.append(item[0])  # an offset into a pending node
        else:
            structure.append(len(item))
            stack += item
    for node in signature.nodes:
        if node.buffer is not None:
            structure.append(len(node.shape))
            dims += node.shape
    return tuple(structure)


def split_recipe(recipe: Recipe, structure: list[object], dims: list[int]) -> bool:
    """Append the structure of `recipe` to `structure` and the dims to `dims`, and return True.

    Return False if a layout has offset tables: then both lists are incomplete.
    """
    structure += (len(recipe.shape), recipe.dtype, recipe.dtypes)
    dims += recipe.shape
    op: Any = recipe.op
    layouts = getattr(op, "layouts", None)  # some operations have layouts themselves
    structure.append(op if layouts is None else (type(op), len(layouts)))
    for layout in layouts or ():
        dims.append(layout.offset)
        if not split_layout(layout, structure, dims):
            return False
    specs = recipe.specs  # specs are split directly, as their layout keys would first have to be built
    if specs is None:
        return all([split_layout(None if f is None else f.layout, structure, dims) for f in (*recipe.layout_keys, recipe.target)])
    for spec in specs:
        if spec is not None:
            structure.append(len(spec.shape))
            dims += spec.shape
            dims += spec.strides
        structure.append(None)
    return True


def split_layout(layout: Layout | None, structure: list[object], dims: list[int]) -> bool:
    """Append the structure of `layout` to `structure` and the dims to `dims`, and return True.

    Return False if the layout has offset tables: then both lists are incomplete. The offset is a dim only where `layout` is a view chain.
    None for `layout` stands for an operand without a layout.
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


def group_equal_dims(dims: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return a key that tells which of `dims` are equal, 0 or 1, and the distinct numbers except 0 and 1.

    The distinct numbers are in the order of their first occurrence. The key has an entry for each of `dims`: 0 for 0, 1 for 1, and then 2,
    3, ... for new numbers.
    """
    rank_of = {0: 0, 1: 1}
    return tuple([rank_of.setdefault(n, len(rank_of)) for n in dims]), (*rank_of,)[2:]


def split_plan_dims(plan: Plan) -> tuple[Plan, StepDims]:
    """Return a pair: the plan `plan` without dims (`GenericPlan`), and the dims of each step as `StepDims`.

    Raise TypeError if a step is computed block by block, with fixed dims.
    """
    return plan.with_steps(list(map(_strip_dims, plan.steps))), tuple(map(get_step_dims, plan.steps))


_NO_DIMS = ((0, 0), (), (), 0, 0, 0)


def get_step_dims(step: PlanStep) -> tuple[Any, ...]:
    """Return the entry of `step` in `StepDims`: the shape, the bytes of the result, and the numbers of the kernel arguments.

    These numbers are a tuple: result, operands, sizes, extent of the split loop, work and scratch bytes (`KernelArguments`). The tuple is
    empty for a step without a kernel. Raise TypeError for a step computed block by block: the dims of the step are fixed.
    """
    call = step.kernel_call
    if call is None:
        return step.shape, step.nbytes, ()
    if not isinstance(call, SingleKernelCall):
        raise TypeError("a step that is computed block by block is planned for its own sizes only")
    arguments = call.arguments
    argument_dims = (
        arguments.out,
        tuple(arguments.sources),
        tuple(arguments.sizes),
        arguments.split_extent,
        arguments.work,
        arguments.scratch_bytes,
    )
    return step.shape, step.nbytes, argument_dims


def _strip_dims(step: PlanStep) -> PlanStep:
    """Return a copy of `step`, a step of a concrete plan, for a plan without dims.

    The copy has the shape `()`, 0 bytes, and kernel arguments without operands, sizes and work (`_NO_DIMS`).
    """
    call = step.kernel_call
    if isinstance(call, SingleKernelCall):
        call = SingleKernelCall(call.compiled, _fill_in_dims(call.arguments, _NO_DIMS))
    return step.with_dims((), 0, call)


def _fill_in_dims(arguments: KernelArguments, argument_dims: tuple[Any, ...]) -> KernelArguments:
    """Return `arguments` with the operands, sizes and work of `argument_dims`, the last item of a result of `get_step_dims`.

    Scalars and tables stay.
    """
    out, sources, *trailing_fields = argument_dims
    return KernelArguments(out, sources, arguments.scalars, arguments.tables, *trailing_fields)
