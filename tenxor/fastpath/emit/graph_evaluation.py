"""Pending graphs computed as a whole, by the kernels of a plan. The launch record of the plan, a bytes object (`record`) of integers, is
found by the key of the graph.

The code reads the tables that the walk has filled with borrowed addresses (`graph_walk.py`). So no Python code runs from the walk until the
graph is computed. Memory for intermediates comes in blocks (`block_allocator.py`), which the garbage collector does not track.
"""

from __future__ import annotations

from collections.abc import Callable

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.parallel_for import IN_USE_OFFSET, SLEEPING_COUNT_OFFSET
from ...codegen.llvm.types import I1, I32, I64, POINTER, array
from ...codegen.threads.thread_count import PARALLEL_FOR_WORD, QUEUE_WORD, WORKER_COUNT_WORD
from ...target import ThreadLimits
from ..graph_launch import DONOR, INLINED, INLINED_EXPENSIVE, MAX_GRAPH_RECORDS, MAX_RESULT_BYTES, STORED
from ..launch_records import (
    ARGUMENT_WORDS,
    FLAG,
    GRAPH_HEADER_WORDS,
    GRAPH_STEP_WORDS,
    LITERAL,
    MAX_KERNEL_ARGUMENTS,
    MEMORY,
    NODE_ENTRY_WORDS,
    SCRATCH,
)
from ..limits import MAX_SMALL_BLOCK_BYTES
from ..object_layout import BYTES_CONTENT_OFFSET, SIZE_OFFSET, ObjectTable
from ..sized_template import MAX_RESULTS
from .block_allocator import BLOCK_DATA_OFFSET
from .call_signatures import find_signature_entry, get_dim_addresses
from .function_builder import FunctionBuilder
from .graph_walk import (
    BLOCK_COUNT,
    HELD_NODE_ADDRESS,
    MARKED_NODE_ADDRESS,
    MAX_BLOCKS,
    NEW_RECIPE_COUNT,
    NODE_COUNT,
    SHARED_COUNT,
    append_to_table,
    get_table_address,
    load_walk_word,
)
from .instantiate_templates import match_template
from .kernel_launch import convert_scalar
from .node_evaluation import (
    are_orders_stable,
    is_lock_free,
    load_element_count,
    require_all_stable_orders,
    select_read_node,
    set_node_buffer,
)

FAILED, DONE, NO_RECORD, HELD_ELSEWHERE = range(4)  # results of `run_graph`
SHARING_LIMITS = ThreadLimits()


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to compute a pending graph by the launch record of its plan.

    The functions emitted include `compute_fused`, `run_graph`, `run_kernel`, `find_graph_record`, `derive_node_record` and
    `has_usable_record`.
    """
    module.define_global(
        "worker_handle", "global ptr null"
    )  # the address of `thread_count.worker_handle`, which describes the worker threads
    _emit_run_kernel(FunctionBuilder(module, objects, "run_kernel", [("step", POINTER)], I1))
    _emit_run_graph(FunctionBuilder(module, objects, "run_graph", [(name, POINTER) for name in ("root", "out", "records")], I64))
    _emit_find_graph_record(FunctionBuilder(module, objects, "find_graph_record", [("records", POINTER), ("key", POINTER)]))
    _emit_derive_node_record(FunctionBuilder(module, objects, "derive_node_record", [("node", POINTER)], I1))
    _emit_has_usable_record(FunctionBuilder(module, objects, "has_usable_record", [("root", POINTER)], I1))
    _emit_compute_fused(FunctionBuilder(module, objects, "compute_fused", [("root", POINTER)], I1))


def _emit_compute_fused(f: FunctionBuilder) -> None:
    """Emit `compute_fused(root)`: compute the pending node `root` with its graph by the kernels of a plan. Return true, or false to leave
    the node to Python, with or without an error set.

    Python makes a missing launch record. The caller owns a reference to `root`. Python code may run. A result of more than
    `MAX_SMALL_BLOCK_BYTES` bytes is declined if it has more than `MAX_RESULT_BYTES` bytes, or enough elements to be shared among threads.
    `compute_node`, `compute_sources` and `new_user_tensor` call the function, and so do reads of a tensor's values.
    """
    (root,) = f.arguments
    recipe = f.get_slot(root, "Node.recipe")
    nbytes = f.unbox_integer(f.get_slot(recipe, "Recipe.nbytes"))
    f.require(is_lock_free(f))

    def require_record() -> None:
        f.require((nbytes <= MAX_RESULT_BYTES) & (load_element_count(f, root) < SHARING_LIMITS.min_shared_work))
        f.require(f.call("has_usable_record", I1, [root]))

    f.emit_if(nbytes > MAX_SMALL_BLOCK_BYTES, require_record)  # large memory comes from Python: ask only for a graph that can run
    out = f.require_new(f.call("allocate_result", POINTER, [recipe]))

    def run() -> list[Value]:
        return [f.call("run_graph", I64, [root, out, f.load_object("graph_records")])]

    def run_with_new_record() -> list[Value]:
        request_record(f, "store_graph_record", root)
        return run()

    (status,) = run()
    (status,) = f.choose(status.equals(NO_RECORD), run_with_new_record, lambda: [status])

    def compute_held_first() -> Value:
        """Emit the computation of a node with readers outside the graph, then of the graph. Return whether both succeeded.

        The emitted function returns false where sums would add in another order.
        """
        node = f.hold_borrowed(get_table_address(f, "walk_state", HELD_NODE_ADDRESS).load(POINTER))
        require_all_stable_orders(f, root, node)
        f.require(f.call("compute_node", I1, [node]))
        f.release_held(node, out)
        return f.call("compute_fused", I1, [root])

    held_references = list(f._held)
    f.return_if(status.equals(HELD_ELSEWHERE), compute_held_first)
    f._held[:] = held_references
    f.require(status.equals(DONE))
    f.transfer_held(out)
    f.emit_return(f.constant(I1, True))


def _emit_has_usable_record(f: FunctionBuilder) -> None:
    """Emit `has_usable_record(root)`: return whether the graph of the pending node `root` has a launch record that can run now; Python
    makes a missing record.

    False stands for a graph without a key or with an empty record, and for a record that needs workers that are not awake. An error may be
    set. `compute_fused` calls the function.
    """
    (root,) = f.arguments

    def look_up_record() -> Value:
        key = f.require_new(f.call("build_graph_key", POINTER, [root]))
        record = f.call("find_graph_record", POINTER, [f.load_object("graph_records"), key])
        f.release_held(key)
        return record

    record = f.look_up_or_call(look_up_record, lambda: request_record(f, "store_graph_record", root))
    f.require(f.load_word(record, SIZE_OFFSET) > 0)
    require_workers(f, f.address_at(record, BYTES_CONTENT_OFFSET))
    f.emit_return(f.constant(I1, True))


def request_record(f: FunctionBuilder, function_name: str, root: Value) -> None:
    """Emit a call of the Python function called `function_name` in the object table, which makes and stores the launch record of the graph
    of the node `root`. Return None.

    The function may leave the record missing. The emitted function returns null or 0 if an error is set before, or if the call raises an
    error.
    """
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))  # memory for a record may have run out
    f.call_python(function_name, root)


def _emit_find_graph_record(f: FunctionBuilder) -> None:
    """Emit `find_graph_record(records, key)`: return the launch record of the graph visited last (by `build_graph_key`), borrowed; null if
    no record is known and none can be made, or if memory runs out.

    `records` is a dictionary from keys to records, and `key` the key of the graph, bytes. A missing record is made by a size-generic
    template and put into `records`, unless `records` has `MAX_GRAPH_RECORDS` entries. No Python code runs. `run_graph` and
    `has_usable_record` call the function.
    """
    records, key = f.arguments
    (cached_record,) = f.choose(load_walk_word(f, NEW_RECIPE_COUNT) > 0, lambda: [f.null()], lambda: [f.look_up(records, key)])
    f.return_if(~f.is_null(cached_record), lambda: cached_record)
    f.require(f.call("PyDict_Size", I64, [records]) < MAX_GRAPH_RECORDS)
    _, record, plan = _derive_record(f, records)
    f.require(f.call("PySet_Add", I32, [f.load_object("plans_in_use"), plan]).equals(0))
    f.require(f.call("PyDict_SetItem", I32, [records, key, record]).equals(0))
    f.release_held(record)
    f.emit_return(record)


def _derive_record(f: FunctionBuilder, records: Value) -> tuple[Value, Value, Value]:
    """Emit the making of a launch record for the graph visited last (by `build_graph_key`), by a size-generic template of its signature.

    Return three values: the size-generic template (`SizedRecord`), borrowed; the record, which is held (see `FunctionBuilder.hold_owned`);
    and the plan with its kernels, borrowed. `records` is the dictionary for the record, which is part of the signature. The emitted
    function returns null or 0 without a valid template.
    """
    f.require(f.call("sign_graph", I1, [records]))
    results = f.local(array(I64, MAX_RESULTS))
    sized_record = match_template(f, find_signature_entry(f), get_dim_addresses(f)[1], results)
    fixed, value_positions, plan = (f.tuple_item(f.get_slot(sized_record, "SizedRecord.record"), k) for k in range(3))
    record = f.require_new(f.call("instantiate_record", POINTER, [fixed, value_positions, f.local(POINTER, results)]))
    return sized_record, record, plan


def _emit_derive_node_record(f: FunctionBuilder) -> None:
    """Emit `derive_node_record(node)`: make and store the launch record of a pending node with sources in memory, by a size-generic
    template. Return true, or false without a valid template. Python code may run at the end. `compute_with_sources` calls the function.
    """
    (node,) = f.arguments
    product = select_read_node(f, node)
    key = f.require_new(f.call("build_graph_key", POINTER, [node]))
    f.release_held(key)
    sized_record, record, plan = _derive_record(f, f.load_object("recipes_with_records"))
    recipe, reads = (
        f.get_slot(node, "Node.recipe"),
        f.select_value(product.equals(node), f.load_object("None"), f.get_slot(product, "Node.recipe")),
    )
    for x in (sized_record, recipe, reads):
        f.hold_borrowed(x)
    f.require(f.call("store_record", I1, [recipe, reads, record, plan]))
    f.release_held(sized_record, recipe, reads, record)
    f.emit_return(f.constant(I1, True))


def _emit_run_graph(f: FunctionBuilder) -> None:
    """Emit `run_graph(root, out, records)`: compute the graph of the pending node `root` into the `Buffer` `out`, and return a status, an
    `i64`. `compute_fused` and in-place updates call the function. `records` is the dictionary of launch records: of graphs, or of updates.

    The status is `DONE`, and the node owns the buffer; `NO_RECORD` without a launch record, or if the record's limit of runs is reached;
    `HELD_ELSEWHERE` if a node inside is to be computed first; or `FAILED`. The node to compute first is noted in `HELD_NODE_ADDRESS`.
    Either an earlier launch marked the node as stored; or the node has readers outside, and the kernels store or repeat the node at a high
    cost. No Python code runs until the end.

    `FAILED` is 0, the result of every early exit: the lock of the runtime is taken, `root` is computed, `out` has another size, or a node
    may only be overwritten by Python. Other reasons are an empty launch record, workers that are not awake, and a kernel that fails.
    """
    root, out, records = f.arguments
    f.require(is_lock_free(f))
    f.require(f.is_object(f.get_slot(root, "Node.buffer"), "None"))
    f.require(
        f.unbox_integer(f.get_slot(out, "Buffer.nbytes")).equals(
            f.unbox_integer(f.get_slot(f.get_slot(root, "Node.recipe"), "Recipe.nbytes"))
        )
    )
    key = f.require_new(f.call("build_graph_key", POINTER, [root]))
    # An update would write shared memory
    f.require(f.or_else(load_walk_word(f, SHARED_COUNT).equals(0), lambda: records.equals(f.load_object("graph_records"))))
    marked_node = load_walk_word(f, MARKED_NODE_ADDRESS)
    is_marked = records.equals(f.load_object("graph_records")) & marked_node.differs(0)
    f.emit_if(is_marked, lambda: _compute_first(f, root, marked_node, marked_node.cast("inttoptr", POINTER)))
    held_node = get_table_address(f, "walk_state", HELD_NODE_ADDRESS)
    is_clear = held_node.load(I64).equals(0)
    (record,) = f.choose(is_clear, lambda: [f.call("find_graph_record", POINTER, [records, key])], lambda: [f.null()])
    f.release_held(key)
    f.return_if(~is_clear, lambda: f.i64(HELD_ELSEWHERE))
    f.return_if(f.is_null(record), lambda: f.i64(NO_RECORD))
    f.require(f.load_word(record, SIZE_OFFSET) > 0)
    program = f.address_at(record, BYTES_CONTENT_OFFSET)
    entry_count, steps, run_limit = program.load(I64), f.load_word(program, 8), f.load_word(program, 24)
    f.return_if(run_limit.equals(1), lambda: f.i64(NO_RECORD))
    f.emit_if(run_limit > 1, lambda: program.at(3, I64).store(run_limit - 1))
    require_workers(f, program)
    entries, expensive_node = program.at(GRAPH_HEADER_WORDS, I64), f.local(I64, f.i64(0))

    def for_outside_reader(k: Value, emit_body: Callable[[Value, Value], None]) -> None:
        """Emit the code of `emit_body(node, role)` for the node of entry `k` of the launch record, if it has references from outside the
        graph.

        For a donor without these references an early exit is taken: Python lets the result overwrite its memory.
        """
        entry = entries.at(k * NODE_ENTRY_WORDS, I64)
        node, role = get_table_address(f, "nodes").at(entry.load(I64), POINTER).load(POINTER), f.load_word(entry, 16)
        is_held = f.load_refcount(node).cast("zext", I64).differs(f.load_word(entry, 8))
        f.require(is_held | role.differs(DONOR))
        f.emit_if(is_held, lambda: emit_body(node, role))

    def note_held(node: Value, role: Value) -> None:
        f.emit_if(role.equals(STORED), lambda: held_node.store(node.cast("ptrtoint", I64)))
        f.emit_if(role.equals(INLINED_EXPENSIVE), lambda: expensive_node.store(node.cast("ptrtoint", I64)))

    def store_next_time(node: Value, role: Value) -> None:
        f.emit_if(role.equals(INLINED) | role.equals(INLINED_EXPENSIVE), lambda: _mark_stored(f, node))

    f.for_range(entry_count, lambda k: for_outside_reader(k, note_held))
    is_expensive = held_node.load(I64).equals(0) & expensive_node.load(I64).differs(0)
    f.emit_if(is_expensive, lambda: _compute_first(f, root, expensive_node.load(I64), None))
    f.return_if(held_node.load(I64).differs(0), lambda: f.i64(HELD_ELSEWHERE))
    f.for_range(entry_count, lambda k: for_outside_reader(k, store_next_time))
    get_table_address(f, "addresses").at(load_walk_word(f, NODE_COUNT) - 1, I64).store(f.unbox_address(f.get_slot(out, "Buffer.address")))
    step, steps_left = f.local(POINTER, entries.at(entry_count * NODE_ENTRY_WORDS, I64)), f.local(I64, steps)

    def run() -> None:
        current_step = step.load(POINTER)
        step.store(current_step.at(f.load_word(current_step, 16) * ARGUMENT_WORDS + GRAPH_STEP_WORDS, I64))
        succeeded = f.call("run_kernel", I1, [current_step])
        steps_left.store(f.select_value(succeeded, steps_left.load(I64) - 1, f.i64(-1)))

    f.repeat_while(lambda: steps_left.load(I64) > 0, run)
    f.for_range(load_walk_word(f, BLOCK_COUNT), lambda k: f.decref(get_table_address(f, "allocated_blocks").at(k, POINTER).load(POINTER)))
    f.require(steps_left.load(I64).equals(0))
    set_node_buffer(f, root, out)
    f.emit_return(f.i64(DONE))


def _compute_first(f: FunctionBuilder, root: Value, node: Value, boundary_node: Value | None) -> None:
    """Emit a store of `node` in the word `HELD_NODE_ADDRESS` of `@walk_state`: the pending node with the address `node`, an `i64`, is to be
    computed before the graph of `root`. Return None.

    Nothing is stored if sums in the graph of `root` might add in another order then. `boundary_node` is a pending node that other kernels
    than those of the sums compute in any case, or None. The test walks the graph, so the walk for the key is repeated.
    """
    keeps_order = are_orders_stable(f, root, boundary_node)
    f.release_held(f.require_new(f.call("build_graph_key", POINTER, [root])))
    f.emit_if(keeps_order, lambda: get_table_address(f, "walk_state", HELD_NODE_ADDRESS).store(node))


def _mark_stored(f: FunctionBuilder, node: Value) -> None:
    """Emit the marking of the pending node `node` as one to be stored (`Node.is_stored`): the next plan gives it memory of its own. Return
    None.
    """
    old_flag = f.get_slot(node, "Node.is_stored")
    f.set_slot(node, "Node.is_stored", f.incref(f.load_object("True")))
    f.decref(old_flag)


def _emit_run_kernel(f: FunctionBuilder) -> None:
    """Emit `run_kernel(step)`: launch one kernel of the graph visited last, for `run_graph`; `step` is the address of the kernel in the
    launch record. Return true.

    The function returns false if memory runs out or the kernel finds an index out of range.
    """
    (step,) = f.arguments
    args, flag = f.local(array(I64, MAX_KERNEL_ARGUMENTS)), f.local(I64, f.i64(0))
    number, nbytes = f.load_word(step, 24), f.load_word(step, 32)
    f.emit_if(nbytes > 0, lambda: get_table_address(f, "addresses").at(number, I64).store(_allocate_block(f, nbytes)))

    def store_argument(k: Value) -> None:
        row = step.at(GRAPH_STEP_WORDS, I64).at(k * ARGUMENT_WORDS, I64)
        kind, index, extra = row.load(I64), f.load_word(row, 8), f.load_word(row, 32)

        def load_address() -> list[Value]:
            offset_index = f.load_word(row, 16)
            offset = f.choose(
                offset_index >= 0, lambda: [get_table_address(f, "offsets").at(offset_index, I64).load(I64)], lambda: [f.i64(0)]
            )[0]
            return [get_table_address(f, "addresses").at(index, I64).load(I64) + offset * f.load_word(row, 24) + extra]

        def load_scalar() -> list[Value]:
            source = get_table_address(f, "scalars").at(index, POINTER).load(POINTER)
            return [convert_scalar(f, kind, f.get_slot(source, "Scalar.value"))]

        def load_other() -> list[Value]:
            is_flag = kind.equals(FLAG)
            load_remaining = lambda: f.choose(kind.equals(SCRATCH), lambda: [_allocate_block(f, extra)], load_scalar)
            return f.choose(is_flag, lambda: [flag.cast("ptrtoint", I64)], load_remaining)

        (value,) = f.choose(kind.equals(LITERAL), lambda: [extra], lambda: f.choose(kind.equals(MEMORY), load_address, load_other))
        args.at(k, I64).store(value)

    f.for_range(f.load_word(step, 16), store_argument)
    kernel, split, grain = step.load(POINTER), f.load_word(step, 8), f.load_word(step, 40)

    def run_alone() -> list[Value]:
        f.emit(f"call void {kernel.text}(ptr {args.text}, i64 0, i64 {split.text}, i64 0)")
        return []

    def run_in_parallel() -> list[Value]:
        parallel_for, queue, worker_count = (_load_thread_field(f, k) for k in (PARALLEL_FOR_WORD, QUEUE_WORD, WORKER_COUNT_WORD))
        round_extent = grain * f.load_word(step, 48)  # the chunk size of `worker_pool.compute_chunk_size`
        chunk_size = f.binary("sdiv", split + (round_extent - 1), round_extent) * grain
        call_arguments = (
            f"i64 {queue.text}, ptr {kernel.text}, ptr {args.text}, i64 0, i64 {split.text}, i64 {chunk_size.text}, i64 {worker_count.text}"
        )
        f.emit(f"call void {parallel_for.cast('inttoptr', POINTER).text}({call_arguments})")
        return []

    f.choose(f.and_then((grain > 0) & (split > grain), lambda: _are_workers_awake(f)), run_in_parallel, run_alone)
    f.emit_return(flag.load(I64).equals(0))


def _load_thread_field(f: FunctionBuilder, word_index: int) -> Value:
    """Emit a load of a field of `thread_count.worker_handle`, the description of the worker threads. Return the field, an `i64`;
    `word_index` is the index of its 64-bit word.
    """
    return f.define(POINTER, "load ptr, ptr @worker_handle").at(word_index, I64).load(I64)


def require_workers(f: FunctionBuilder, record: Value) -> None:
    """Emit an early exit, returning null or 0, if a launch record has a kernel for several threads and the workers are not awake. Return
    None.

    `record` is the address of the integers of the record. The fallback in Python wakes the workers.
    """
    f.emit_if(f.load_word(record, 16).differs(0), lambda: f.require(_are_workers_awake(f)))


def _are_workers_awake(f: FunctionBuilder) -> Value:
    """Emit a test whether there are worker threads, no worker sleeps, and the work queue is free. Return the result, an `i1`. Python would
    wake sleeping workers.
    """

    def is_queue_idle() -> Value:
        queue = _load_thread_field(f, QUEUE_WORD).cast("inttoptr", POINTER)
        return (f.load_word(queue, IN_USE_OFFSET) | f.load_word(queue, SLEEPING_COUNT_OFFSET)).equals(0)

    return f.and_then(_load_thread_field(f, WORKER_COUNT_WORD) > 0, is_queue_idle)


def _allocate_block(f: FunctionBuilder, nbytes: Value) -> Value:
    """Emit the allocation of a block of `nbytes` bytes, listed to be released when the graph is computed.

    Return the address of the data as an `i64`. The emitted function returns null or 0 if memory runs out, or for more than `MAX_BLOCKS`
    blocks.
    """
    f.require(load_walk_word(f, BLOCK_COUNT) < MAX_BLOCKS)
    block = f.call("allocate_block", POINTER, [nbytes])
    f.decline_if(f.is_null(block))
    append_to_table(f, "allocated_blocks", BLOCK_COUNT, block.cast("ptrtoint", I64))
    return block.cast("ptrtoint", I64) + BLOCK_DATA_OFFSET
