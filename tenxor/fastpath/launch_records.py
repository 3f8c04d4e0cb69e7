"""Launch records: descriptions of small kernel calls, packed as 64-bit integers, by which generated code launches kernels without Python. A
node is a pending value: a recipe (an operation with shape, dtypes and layouts) on source nodes and scalars. The plan of a graph of nodes
has the compiled kernels and their arguments. A graph signature names the structure of a graph, and lists its nodes, scalars and offsets.
Python builds a record from a plan, at the first request for a node of a recipe.

The launch record of a single node is `NODE_HEADER_WORDS` integers followed by `ARGUMENT_WORDS` integers for each argument::

    head     = kernel_address parallel_extent argument_count releases_gil
    argument = kind source offset itemsize extra

`kind` is one of the constants `LITERAL` to `ELEMENT_COUNT`. `source` is an index among the node's sources. `offset` is an index among
the node's offsets (-1 for none): the argument begins there, in elements of `itemsize` bytes, plus `extra` bytes. For a `LITERAL`,
`extra` is the argument.

A record may depend on sizes only through element counts: of the recipe, or of its operands as they are read. Then one record serves
nodes of all sizes. Such a count is a `ELEMENT_COUNT` argument, with `source` 0 for the recipe and k + 1 for operand k; as a
`parallel_extent`, count number n is stored as -1 - n.

Records of graphs are in `graph_launch.py`. The record of a plan begins with the byte position of each step
(`fastpath/emit/plan_steps.py`); its arguments refer to the slots, offsets and scalars of the plan, as numbered by
`runtime/graph_signature.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._utils.cache_registry import CacheRecord
from .._utils.locks import try_acquire
from .._utils.records import NamedTuple
from ..codegen import compiled_kernels
from ..codegen.llvm.compiler import MachineCode, compiler
from ..codegen.threads.thread_count import num_threads, thread_count_source
from ..dtypes import DType
from ..graph.node import DATA, MAX_STANDALONE_BYTES, UNFINISHED, Node, Recipe, Scalar
from ..graph.reduced_sources import find_summed_product
from ..graph.spec import result_templates
from ..memory.buffer import META_BUFFER
from ..runtime.generic_plans import find_generic_plan, find_with_symbolic_dims, get_exact_plan, get_step_dims, has_cached_structure
from ..runtime.graph_signature import GraphSignature, capture_by_traversal, capture_in_python
from ..runtime.kernel_call import SingleKernelCall
from ..runtime.plan_execution import Plan, PlanStep, StepBytecode
from ..runtime.realize import compute_lock
from ..symbolic.symint import IntOrSymInt, SymInt, terms_of
from ..target import Target
from .limits import MAX_SMALL_BLOCK_BYTES

LITERAL, RESULT, MEMORY, FLOAT, SIGNED, UNSIGNED, FLAG, SCRATCH, IMAGINARY, ELEMENT_COUNT = range(10)  # argument kinds
# Lengths in integers: the heads of a graph, of a node's kernel call, of a graph's and of a plan's; an entry for a node whose references are
# counted; an argument; and an extra output of a kernel.
GRAPH_HEADER_WORDS, NODE_HEADER_WORDS, GRAPH_STEP_WORDS, PLAN_STEP_WORDS, NODE_ENTRY_WORDS = 4, 4, 7, 11, 3
ARGUMENT_WORDS, EXTRA_OUTPUT_WORDS = 5, 3
MAX_KERNEL_ARGUMENTS = 128  # arguments
MAX_LAUNCH_RECORDS = 1 << 14  # records of recipes; when exceeded, they are dropped together

_ARGUMENT_KINDS = {"float": FLOAT, "uint": UNSIGNED}
NO_LAUNCH_RECORD = b""  # in place of a launch record, for a node run without one
RECORD_SOURCES = (compiled_kernels, thread_count_source)  # a launch record has the address of a kernel, and a share for each thread
# Recipes with a launch record, or with records of sums over them; before each, the plan with the kernel, to keep it in memory.
recipes_with_records: list[Recipe | Plan] = []


class SharedLaunchRecord(bytes):
    """A launch record shared by recipes of different sizes from one size-generic template (`SizedTemplate`).

    The record refers to the plan, so the kernel stays in memory. The record is dropped together with the template and the recipes.
    """

    plan: Plan


def _get_argument_kind(dtype: DType, imag: bool) -> int:
    """Return the kind, in a launch record, of an argument for a scalar of `dtype`: `FLOAT`, `SIGNED` or `UNSIGNED`.

    A complex scalar is two arguments. With `imag`, return `IMAGINARY`, for the imaginary part.
    """
    return IMAGINARY if imag else _ARGUMENT_KINDS.get(dtype.kind, SIGNED)


def store_record_in_recipe(node: Node) -> bytes | None:
    """Build, store and return the launch record of the pending node `node`; the caller holds the lock for computing.

    The record is stored in the recipe. If the node sums a pending product, one kernel computes both, and the record is stored in the
    product's recipe under the recipe of the sum. Store and return `NO_LAUNCH_RECORD` if the node is not run by a launch record. Return None
    if a record was stored before, if a source is pending, if a sum reads only a part of its product, or if the node is computed already.
    """
    product = find_summed_product(node)
    if product is not None and any(node.offsets):
        return None  # the sum reads only a part of the product
    reader = node if product is None else product
    recipe, reader_recipe, sources, offsets = node.recipe, reader.recipe, reader.sources, reader.offsets
    if node.buffer is not None or reader.buffer is not None:
        return None  # another thread or a signal handler computed the node meanwhile
    if not all([type(s) is not Node or s.buffer is not None for s in sources]):
        return None
    if product is None:
        if recipe.launch_record is None:
            record, plan = _build_recipe_record(recipe, None, sources, offsets)
            recipe.launch_record = record
            _keep_kernel(recipe, record, plan)
            return record
    else:
        if recipe not in (reader_recipe.sum_launch_records or {}):
            record, plan = _build_recipe_record(recipe, reader_recipe, sources, offsets)
            reader_recipe.sum_launch_records = {**(reader_recipe.sum_launch_records or {}), recipe: record}
            _keep_kernel(reader_recipe, record, plan)
            return record
    return None


def drop_records() -> None:
    """Drop the launch records of all recipes, except shared and empty ones, and the kernels held only by dropped records. Wait for another
    thread that is computing.

    The registry of caches calls this function, and `_keep_kernel` if the list is full.
    """
    with compute_lock:  # another thread may be running a kernel kept in memory only by a record
        while recipes_with_records:
            recipe = recipes_with_records.pop()
            if isinstance(recipe, Recipe):
                recipe.launch_record = recipe.sum_launch_records = None


node_launch_records = CacheRecord(
    "launch records of recipes",
    "the packed launch of a kernel, by recipe",
    __name__,
    drop_records,
    lambda: len(recipes_with_records) // 2,
    max_entries=MAX_LAUNCH_RECORDS,
    depends_on=RECORD_SOURCES,
)
result_templates.depend_on(*RECORD_SOURCES)  # templates of writes hold launch records


def drop_records_unless_busy() -> None:
    """Drop the launch records of all recipes as `drop_records` does, unless another thread is computing.

    The generated code calls this function when the list of records is full. The other thread may be running a kernel kept in memory only by
    a launch record.
    """
    if try_acquire(compute_lock):
        try:
            drop_records()
        finally:
            compute_lock.release()


def _build_recipe_record(
    recipe: Recipe, product: Recipe | None, sources: Sequence[Node | Scalar], offsets: tuple[int, ...]
) -> tuple[bytes, Plan | None]:
    """Return the launch record of `recipe`, or of a sum `recipe` over a `product`, and the plan with its kernel.

    `product` is None for a recipe without a product inside. `sources` and `offsets` belong to the product if there is one, and else to the
    node; the sources are in memory. If no record can run the recipe, return `NO_LAUNCH_RECORD`, and a plan or None.
    """
    if _is_unlaunchable(recipe, product or recipe):
        return NO_LAUNCH_RECORD, None
    signature, signature_sources = build_node_signature(recipe, product, sources, offsets)
    return build_record(signature, index_by_id(signature_sources), list(range(len(offsets))), get_node_work_limit(product))


def _is_unlaunchable(recipe: Recipe, reader: Recipe) -> bool:
    """Return whether nodes of `recipe` are not run by a launch record.

    `reader` is the recipe itself, or the product summed by it. Empty results and those of more than `MAX_STANDALONE_BYTES` bytes, results
    in memory already, unfinished nodes, and writes have no record, nor have recipes with layouts too large to cache (`is_uncacheable`).
    """
    if recipe.op in (DATA, UNFINISHED) or not recipe.size:
        return True
    return recipe.nbytes > MAX_STANDALONE_BYTES or recipe.is_uncacheable or recipe.target is not None or reader.is_uncacheable


def build_node_signature(
    recipe: Recipe, product_recipe: Recipe | None, sources: Sequence[Node | Scalar], offsets: tuple[int, ...]
) -> tuple[GraphSignature, Sequence[Node | Scalar]]:
    """Return the graph signature of a recipe, or of a sum `recipe` over a `product_recipe`, and the sources in the signature.

    `product_recipe` is None for a recipe without a product inside. `sources` and `offsets` (in elements) belong to the product if there is
    one, and else to the recipe. Each returned source is a new node or scalar, so no two are the same: operands that coincide in one call
    may differ in the next.
    """
    new_sources = tuple([Node(s.recipe, buffer=s.buffer) if type(s) is Node else Scalar(s.value, s.dtype) for s in sources])  # type: ignore[union-attr]
    root = Node(product_recipe or recipe, new_sources, offsets)
    if product_recipe is not None:
        root = Node(recipe, (root,), (0,))
    return capture_in_python([root]), new_sources


def get_node_work_limit(product: Recipe | None) -> int:
    """Return the work, in additions, from which on a node is not run by a launch record, but by a plan in Python.

    `product` is the recipe of a product that the node sums, or None. With one thread a sum over a product may do more work.
    """
    sharing = compiler().target.thread_limits
    return sharing.first_slice_work if product is not None and num_threads() == 1 else sharing.min_shared_work


def get_update_work_limit() -> int:
    """Return the work, in additions, from which on an update in place is not run by a launch record, but by a plan in Python. With one
    thread an update may do more work.
    """
    sharing = compiler().target.thread_limits
    return sharing.max_unshared_contraction if num_threads() == 1 else sharing.min_shared_work


def _keep_kernel(recipe: Recipe, record: bytes, plan: Plan | None) -> None:
    """Keep the kernel of the launch record `record`, just stored in `recipe`, in memory for as long as the record is stored.

    The kernel belongs to `plan`. Do nothing for `NO_LAUNCH_RECORD`. If more than `MAX_LAUNCH_RECORDS` records are stored, drop all. The
    caller stores the record first and holds `plan`: a signal handler that drops the records in between leaves no record without a kernel.
    """
    if record and plan is not None:
        recipes_with_records.extend((plan, recipe))
        if len(recipes_with_records) > 2 * MAX_LAUNCH_RECORDS:
            node_launch_records.evictions += 1
            drop_records()


class StandaloneNode(NamedTuple):
    """A node computed by a launch record: a `recipe`, or a sum `recipe` over a `product` (else None).

    `operand_recipes` has, for each operand, the recipe of the data in memory, or None for a scalar.
    """

    recipe: Recipe
    product: Recipe | None
    operand_recipes: Sequence[Recipe | None]

    def build_signature(self) -> tuple[GraphSignature, Sequence[Node | Scalar]]:
        """Return the graph signature of the node with all offsets 0, and the sources in the signature.

        The sources are new nodes without memory, and the number 0 in place of a scalar.
        """
        reader = self.product or self.recipe
        sources = [
            Scalar(0, dtype) if data_recipe is None else Node(data_recipe, buffer=META_BUFFER)  # type: ignore[arg-type]
            for data_recipe, dtype in zip(self.operand_recipes, reader.dtypes, strict=True)
        ]
        return build_node_signature(self.recipe, self.product, sources, (0,) * len(sources))


SymbolicRecord = tuple[Sequence[IntOrSymInt], Plan]  # a size-generic launch record: words, partly symbolic, and the plan with the kernel


def trace_node_record(concrete: StandaloneNode, symbolic: StandaloneNode) -> SymbolicRecord | None:
    """Return the size-generic launch record of a node: its integers, some of them symbolic, and the plan with the kernel.

    `concrete` is the node with concrete sizes, and `symbolic` the same node with symbolic sizes. Return None if there is no launch record,
    or if the planner has not yet planned a node of this structure.
    """
    if _is_unlaunchable(symbolic.recipe, symbolic.product or symbolic.recipe):
        return None
    (signature, signature_sources), (symbolic_signature, _) = concrete.build_signature(), symbolic.build_signature()
    if not has_cached_structure(signature):
        return None
    max_work = get_node_work_limit(concrete.product)
    return trace_record(
        signature,
        symbolic_signature,
        max_work,
        lambda: build_record(signature, index_by_id(signature_sources), list(range(len(signature_sources))), max_work),
    )


def trace_record(
    signature: GraphSignature, symbolic_signature: GraphSignature, max_work: int, build: Callable[[], object]
) -> SymbolicRecord | None:
    """Return the launch record of a graph signature with symbolic sizes: its integers, some of them symbolic, and the plan with the kernel.

    `symbolic_signature` is `signature` with a `SymInt` for each number but 0 and 1. A record needs a generic plan for the symbolic sizes
    (`find_with_symbolic_dims`) with a launch template. The work must be below `max_work` additions, and the kernel must need no scratch
    memory (`fill_dims`): these tests become guards. Return None if there is no record. `build` builds the record of `signature` and stores
    its template in the generic plan. This function calls `build` if no template is stored yet, and ignores the result.
    """
    plan_and_dims = find_with_symbolic_dims(signature, symbolic_signature)
    if plan_and_dims is None:
        return None
    generic_plan, step_dims = plan_and_dims
    if generic_plan.launch_template is None:
        build()
    words = generic_plan.launch_template.fill_dims(signature, step_dims[0], max_work) if generic_plan.launch_template else ()
    return (words, generic_plan.plan_without_dims) if words else None


def replace_element_counts(words: Sequence[IntOrSymInt], recipe: Recipe) -> list[IntOrSymInt]:
    """Return the words of a launch record with references in place of symbolic element counts, so that the record serves all sizes.

    `words` are integers, some of them symbolic. `recipe` is the recipe of the node, or of the product that the node sums. Count 0 is the
    number of elements of `recipe`, and count k + 1 that of operand k. A literal argument that equals a symbolic count becomes an
    `ELEMENT_COUNT` argument with the number of the count. A parallel extent that equals count n becomes -1 - n. All other words stay.
    """
    sizes = [recipe.size, *[0 if layout_key is None else layout_key.layout.size for layout_key in recipe.layout_keys]]
    index_by_terms = {terms_of(size): k for k, size in enumerate(sizes) if isinstance(size, SymInt)}
    new_words = list(words)
    extent = index_by_terms.get(terms_of(new_words[1])) if new_words else None
    if extent is not None:
        new_words[1] = -1 - extent
    for position in range(NODE_HEADER_WORDS, len(new_words), ARGUMENT_WORDS):
        size = index_by_terms.get(terms_of(new_words[position + ARGUMENT_WORDS - 1]))
        if new_words[position] == LITERAL and size is not None:
            new_words[position : position + ARGUMENT_WORDS] = ELEMENT_COUNT, size, 0, 0, 0
    return new_words


def trace_write_record(store: Node, value: Node | Scalar, symbolic_store: Node) -> SymbolicRecord | None:
    """Return the size-generic launch record of a store in place: its integers, and the plan with the kernel; None if there is no record.

    `store` is the node of the store, and `value` the source among its operands that holds the value to write, a node or a Python scalar.
    `symbolic_store` is the same store node with symbolic sizes. Some of the returned integers are symbolic.
    """
    return trace_record(
        capture_by_traversal([store]),
        capture_by_traversal([symbolic_store]),
        get_node_work_limit(None),
        lambda: build_write_record(store, value),
    )


def build_write_record(store: Node, value: Node | Scalar) -> tuple[bytes, Plan]:
    """Return the launch record of a store in place, and the plan with its kernel; the record is empty if no record can run the store.

    `store` is the store node, and `value` the operand that holds the value to write. The record has one source, `value`, and two offsets,
    in elements: the beginning of the value, and of the destination.
    """
    with compute_lock:
        return build_record(capture_by_traversal([store]), {id(value): 0}, [-1, 0, 1], get_node_work_limit(None))


def build_record(
    signature: GraphSignature, source_indices: Mapping[int, int], offset_indices: Sequence[int], max_work: int
) -> tuple[bytes, Plan]:
    """Return the launch record of the graph signature `signature`, and the plan with its kernel.

    The record is empty if no record can run the plan, for example with more than one kernel (`LaunchTemplate`), or if the work is
    `max_work` additions or more. `source_indices` maps the `id` of each source to its index in the record. `offset_indices` has, for each
    offset of `signature`, its index among the record's offsets, or -1 if the record lacks the offset. A generic plan keeps the
    `LaunchTemplate` made here, for records of further sizes.
    """
    plan_and_dims = find_generic_plan(signature)
    if plan_and_dims is None:
        plan = get_exact_plan(signature)
        template = LaunchTemplate.of(signature, source_indices, plan, offset_indices)
        return template.pack_record(signature, get_step_dims(plan.steps[0]), max_work) if template else NO_LAUNCH_RECORD, plan
    generic_plan, step_dims = plan_and_dims
    if generic_plan.launch_template is None:
        generic_plan.launch_template = (
            LaunchTemplate.of(signature, source_indices, generic_plan.instantiate(step_dims), offset_indices) or NO_LAUNCH_RECORD
        )
    if not generic_plan.launch_template:
        return NO_LAUNCH_RECORD, generic_plan.plan_without_dims
    return generic_plan.launch_template.pack_record(signature, step_dims[0], max_work), generic_plan.plan_without_dims


class LaunchTemplate:
    """The launch record of a one-kernel plan without its sizes.

    `words` are the record's integers with 0 for each size, and `pack` packs so many integers. Argument `first_size_argument` is the first
    size; `first_size_position` is the position of its value in `words`. `absent_offsets` lists the offsets of the graph signature missing
    from the record; they must be 0. `itemsizes` belong to the result and the sources.
    """

    __slots__ = ("first_size_position", "itemsizes", "pack", "absent_offsets", "words")

    def __init__(self, words: list[int], itemsizes: Sequence[int], first_size_argument: int, absent_offsets: list[int]) -> None:
        self.words, self.itemsizes = words, itemsizes
        # The `extra` word of the first size argument
        self.first_size_position = NODE_HEADER_WORDS + ARGUMENT_WORDS * first_size_argument + ARGUMENT_WORDS - 1
        self.absent_offsets = absent_offsets
        self.pack = struct.Struct(f"={len(words)}q").pack

    @classmethod
    def of(
        cls, signature: GraphSignature, source_indices: Mapping[int, int], plan: Plan, offset_indices: Sequence[int]
    ) -> LaunchTemplate | None:
        """Return the template of `plan`, a plan for `signature`; None if no launch record can run the plan.

        `source_indices` maps the `id` of each source to its index in the launch record. `offset_indices` has, for each offset of
        `signature`, its index among the record's offsets, or -1 if the record lacks the offset. Return None if the plan has more than one
        kernel or additional slots, or reads offset tables. Also return None for a kernel that reads a node not in `source_indices`, can
        fail at run time, or has more than `MAX_KERNEL_ARGUMENTS` arguments.
        """
        call = plan.steps[0].kernel_call if len(plan.steps) == 1 else None
        if not isinstance(call, SingleKernelCall) or call.can_fail or plan.additional_slot_count:
            return None
        arguments, kernel = call.arguments, call.compiled.kernel
        if arguments.tables:
            return None
        itemsizes = kernel.itemsizes
        offsets = [arguments.out[0], *[offset for _, offset, _ in arguments.sources]]
        # The last entry is for the index -1, no offset.
        record_index_of = [*offset_indices, *[-1] * (len(signature.offsets) - len(offset_indices)), -1]
        rows = [(RESULT, 0, record_index_of[offsets[0]], itemsizes[0], 0)]
        for (k, offset, _), itemsize in zip(arguments.sources, itemsizes[1:], strict=True):
            if id(signature.nodes[k]) not in source_indices:
                return None
            rows.append((MEMORY, source_indices[id(signature.nodes[k])], record_index_of[offset], itemsize, 0))
        for (k, imag), dtype in zip(arguments.scalars, kernel.scalar_dtypes, strict=True):
            rows.append((_get_argument_kind(dtype, imag), source_indices[id(signature.scalars[k])], 0, 0, 0))
        first_size_argument = len(rows)
        rows += [(LITERAL, 0, 0, 0, 0)] * (len(arguments.sizes) + kernel.is_interruptible)
        if len(rows) > MAX_KERNEL_ARGUMENTS:
            return None
        words = [call.compiled.address, 0, len(rows), False, *[word for row in rows for word in row]]  # type: ignore[attr-defined]
        return cls(words, itemsizes, first_size_argument, [offset for offset in offsets if offset >= 0 > record_index_of[offset]])

    def pack_record(self, signature: GraphSignature, dims: tuple[Any, ...], max_work: int) -> bytes:
        """Return the packed launch record with `dims` filled in; `NO_LAUNCH_RECORD` (empty) if no record can run the step.

        The arguments are those of `fill_dims`. No record runs `max_work` additions or more, or a kernel with scratch memory. No record runs
        a step that reads at an offset of `signature` which the record lacks, unless the offset is 0.
        """
        words = self.fill_dims(signature, dims, max_work)
        return self.pack(*words) if words else NO_LAUNCH_RECORD

    def fill_dims(self, signature: GraphSignature, dims: tuple[Any, ...], max_work: int) -> list[int]:
        """Return the integers of the launch record with `dims` filled in: the sizes, offsets and work of a plan step.

        `dims` is a result of `get_step_dims`, possibly with symbolic numbers. `signature` is the graph signature with the offsets.
        Return an empty list if the work is `max_work` additions or more, or if the kernel needs scratch memory. The list is also empty if
        an offset missing from the record is not 0.
        """
        _, _, (out, sources, sizes, split, work, scratch) = dims
        sharing = compiler().target.thread_limits
        if scratch or work >= max_work or any([signature.offsets[offset] for offset in self.absent_offsets]):
            return []
        words = self.words.copy()
        words[1], words[3] = split, max_work > sharing.min_shared_work and work >= sharing.max_gil_held_work
        position = NODE_HEADER_WORDS + ARGUMENT_WORDS - 1  # the `extra` word of the first argument
        for extra, itemsize in zip([out[1], *[extra for _, _, extra in sources]], self.itemsizes, strict=True):
            words[position] = extra * itemsize
            position += ARGUMENT_WORDS
        position = self.first_size_position
        for size in sizes:
            words[position] = size
            position += ARGUMENT_WORDS
        return words


def index_by_id(objects: Sequence[object]) -> dict[int, int]:
    """Return a dictionary from the `id` of each of `objects` to the index."""
    return {id(x): k for k, x in enumerate(objects)}


def build_argument_rows(step: PlanStep, result_kind: int = MEMORY, thread_count: int = 1) -> list[tuple[int, ...]] | None:
    """Return the arguments of the kernel of `step` as rows of a launch record; None if no record can run the step. Reasons are a step
    without a single kernel in machine code, more than `MAX_KERNEL_ARGUMENTS` arguments, and more than `MAX_SMALL_BLOCK_BYTES` of scratch
    memory.

    A row has `ARGUMENT_WORDS` integers: kind, source, offset, itemsize and extra bytes. `result_kind` says where the kernel finds the
    memory of the result: in the node with the number in the row (`MEMORY`), or in the buffer passed to the launch (`RESULT`). The scratch
    memory has room for `thread_count` threads.
    """
    call = step.kernel_call
    if not isinstance(call, SingleKernelCall):
        return None
    if not isinstance(call.compiled, MachineCode):
        return None
    arguments, kernel = call.arguments, call.compiled.facts
    itemsizes = kernel.itemsizes
    rows: list[tuple[int, ...]] = [
        (MEMORY, k, offset, itemsize, extra * itemsize)
        for (k, offset, extra), itemsize in zip([(step.result_slot, *arguments.out), *arguments.sources], itemsizes, strict=False)
    ]
    rows[0] = (result_kind, *rows[0][1:])
    rows += [(FLAG, 0, 0, 0, 0)] * kernel.can_fail
    rows += [(LITERAL, 0, 0, 0, table.offsets.ctypes.data) for table in arguments.tables]
    rows += [
        (_get_argument_kind(dtype, imag), k, 0, 0, 0) for (k, imag), dtype in zip(arguments.scalars, kernel.scalar_dtypes, strict=True)
    ]
    rows += [(LITERAL, 0, 0, 0, size) for size in (*arguments.sizes, *[0] * kernel.is_interruptible)]
    scratch = arguments.scratch_bytes
    if scratch:
        scratch = scratch if thread_count == 1 else -(-scratch // compiler().target.page_bytes) * compiler().target.page_bytes
        rows += [(SCRATCH, 0, 0, 0, scratch * thread_count), (LITERAL, 0, 0, 0, scratch)]
    return rows if len(rows) <= MAX_KERNEL_ARGUMENTS and scratch * thread_count <= MAX_SMALL_BLOCK_BYTES else None


def can_skip_workers(call: SingleKernelCall, target: Target, max_work: int) -> bool:
    """Return whether generated code may run the kernel of `call` without the worker threads.

    `target` is the machine. With several threads, the work must be below the machine's threshold for sharing a kernel, and `max_work` does
    not matter. With a single thread, the work must be below `max_work` additions.
    """
    sharing = target.thread_limits
    if target.threads == 1:
        return call.work < max_work
    return call.work < (sharing.min_shared_work if call.compiled.kernel.contraction is None else sharing.max_unshared_contraction)


def build_plan_record(plan: Plan) -> StepBytecode:
    """Return the packed launch record of `plan`, and the facts about its steps that `StepBytecode` lists. `Plan.run` calls this function
    once for a plan.

    A step that is left to Python has the position -1 in the record.
    """
    step_offsets: list[int] = []
    words: list[int] = []
    for step in plan.steps:
        step_words = _build_step_words(step, plan.target)
        step_offsets.append(8 * (len(plan.steps) + len(words)) if step_words else -1)
        words += step_words or ()
    ends = [0] * (len(step_offsets) + 1)  # for each step, the end of the uninterrupted run of generated steps from there on
    for k in reversed(range(len(step_offsets))):
        ends[k] = 0 if step_offsets[k] < 0 else ends[k + 1] or k + 1
    donor_steps = [(k, step) for k, step in enumerate(plan.steps) if step_offsets[k] >= 0 and step.donors]
    overwrite_readers = [(k, step.donors[0][1]) for k, step in donor_steps if not step.extra_outputs]
    donor_readers = [donor for _, step in donor_steps if step.extra_outputs for donor in step.donors]
    return StepBytecode(
        struct.pack(f"={len(step_offsets) + len(words)}q", *step_offsets, *words), ends[:-1], overwrite_readers, donor_readers
    )


def _build_step_words(step: PlanStep, target: Target) -> list[int] | None:
    """Return the integers of `step` in the launch record of a plan; None if the step is left to Python.

    The first `PLAN_STEP_WORDS` integers are the kernel, its loop and the memory of the result. The slots to release, the extra outputs and
    the arguments follow. `target` describes the machine: its threads and the work from which kernels are shared. Left to Python are
    reinterpretations, results of more than `MAX_SMALL_BLOCK_BYTES` bytes in new memory, and kernels that need worker threads. So are steps
    that may take a donor's memory without extra outputs, and long steps that overwrite a slot.
    """
    call, overwritten_slot = step.kernel_call, -1 if step.overwritten_slot is None else step.overwritten_slot
    if step.reinterpreted_slot is not None or (
        overwritten_slot < 0 and ((step.donors and not step.extra_outputs) or step.nbytes > MAX_SMALL_BLOCK_BYTES)
    ):
        return None
    if call is None:  # the step allocates memory and computes nothing
        return (
            [0, 0, 0, step.result_slot, step.nbytes, False, 0, overwritten_slot, -1, len(step.released_slots), 0, *step.released_slots]
            if overwritten_slot < 0
            else None
        )
    rows = build_argument_rows(step, RESULT)
    if rows is None or not isinstance(call, SingleKernelCall) or not can_skip_workers(call, target, target.thread_limits.first_slice_work):
        return None
    arguments, released_slots, is_long = call.arguments, step.released_slots, call.work >= target.thread_limits.max_gil_held_work
    if overwritten_slot >= 0:
        if is_long or step.is_long or [k for k, _ in step.donors] != [overwritten_slot]:
            return None
        released_slots = (*released_slots, overwritten_slot)
    donors = [k for k, _ in step.donors] if step.extra_outputs else []
    result_donor, *extra_donors = [*donors, *[-1] * (1 + len(step.extra_outputs))][: 1 + len(step.extra_outputs)]
    extra_output_words = [word for (k, number), donor in zip(step.extra_outputs, extra_donors, strict=True) for word in (k, number, donor)]
    released_slots = (*released_slots, *[k for k, _ in step.extra_outputs], *donors[: 1 + len(step.extra_outputs)])
    words = [
        call.compiled.address,  # type: ignore[attr-defined]
        arguments.split_extent,
        len(rows),
        step.result_slot,
        step.nbytes,
        is_long,
        arguments.scratch_bytes,
        overwritten_slot,
        result_donor,
    ]
    return [
        *words,
        len(released_slots),
        len(step.extra_outputs),
        *released_slots,
        *extra_output_words,
        *[word for row in rows for word in row],
    ]
