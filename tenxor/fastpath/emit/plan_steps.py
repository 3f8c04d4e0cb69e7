"""Execution of plan steps: each step gets memory, launches a kernel, and stores the result in a slot, as in `runtime/plan_execution.py`.
The list `nodes` has the slots of the plan: nodes, and `BufferSlot`s for intermediates.

The caller holds the lock of the runtime and owns the arguments. A long kernel runs without the GIL.
"""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I32, I64, POINTER, VOID, array
from ..launch_records import (
    ARGUMENT_WORDS,
    EXTRA_OUTPUT_WORDS,
    FLAG,
    LITERAL,
    MAX_KERNEL_ARGUMENTS,
    MEMORY,
    PLAN_STEP_WORDS,
    RESULT,
    SCRATCH,
)
from ..object_layout import ObjectTable
from .block_allocator import BLOCK_DATA_OFFSET
from .function_builder import FunctionBuilder
from .kernel_launch import convert_scalar, emit_kernel_call

# Words of a step's header, as byte offsets: the kernel's address or 0; the extent of the parallel loop; the number of arguments; the slot
# of the result and its bytes; whether to release the GIL; bytes of scratch memory; the slot to overwrite, or -1; the slot whose memory is
# reused if nothing else refers to it, or -1; the number of slots that are not needed afterwards; the number of extra outputs. For each
# extra output follow a slot for its memory, the number of its own slot, and the slot whose memory is reused.
(
    KERNEL_OFFSET,
    PARALLEL_EXTENT_OFFSET,
    ARGUMENT_COUNT_OFFSET,
    RESULT_SLOT_OFFSET,
    RESULT_BYTES_OFFSET,
    RELEASES_GIL_OFFSET,
    SCRATCH_BYTES_OFFSET,
    OVERWRITTEN_SLOT_OFFSET,
    REUSED_SLOT_OFFSET,
    LAST_USE_COUNT_OFFSET,
    EXTRA_OUTPUT_COUNT_OFFSET,
) = (8 * k for k in range(PLAN_STEP_WORDS))


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to run the steps of a plan.

    The functions emitted include `run_steps`, `run_plan_step` and `allocate_step_result`.
    """
    list_parameters = [(name, POINTER) for name in ("nodes", "offsets", "scalars")]
    _emit_allocate_step_result(
        FunctionBuilder(module, objects, "allocate_step_result", [("step", POINTER), ("reused_slot", I64), list_parameters[0]])
    )
    _emit_run_plan_step(FunctionBuilder(module, objects, "run_plan_step", [("step", POINTER), *list_parameters], I1))
    _emit_run_steps(FunctionBuilder(module, objects, "run_steps", [("self", POINTER), ("args", POINTER), ("count", I64)], is_exported=True))


def _emit_run_steps(f: FunctionBuilder) -> None:
    """Emit `run_steps(record, nodes, offsets, scalars, first_step, stop_step)`, called from Python: run the steps of a plan from
    `first_step` up to `stop_step`, not included. None of these steps may be left to Python (position -1 in the record).

    `record` is the launch record of the plan. `nodes`, `offsets` and `scalars` are the lists of the plan's slots and inputs. The function
    returns the number of the first step not run, as a Python integer: `stop_step` after success. The executor in Python then runs that
    step. An error other than MemoryError is raised.
    """
    _, args, _ = f.arguments
    record, *plan_lists, first_step, stop_step = (args.at(k, POINTER).load(POINTER) for k in range(6))
    program = f.call("PyBytes_AsString", POINTER, [record])
    step_number, goes_on = f.local(I64, f.unbox_integer(first_step)), f.local(I64, f.i64(1))
    end = f.unbox_integer(stop_step)

    def run_step() -> None:
        start = program.at(step_number.load(I64), I64).load(I64)
        step = f.define(POINTER, f"getelementptr i8, ptr {program.text}, i64 {start.text}")
        was_run = f.call("run_plan_step", I1, [step, *plan_lists]).cast("zext", I64)
        step_number.store(step_number.load(I64) + was_run)
        goes_on.store(was_run)

    f.repeat_while(lambda: f.and_then(goes_on.load(I64).differs(0), lambda: step_number.load(I64) < end), run_step)
    f.propagate_error()
    f.emit_return(f.call("PyLong_FromLongLong", POINTER, [step_number.load(I64)]))


def _emit_run_plan_step(f: FunctionBuilder) -> None:
    """Emit `run_plan_step(step, nodes, offsets, scalars)`: run a single step of a plan, for `run_steps`. Return true, or false if the
    executor in Python must run the step. After true, the results are stored in their slots, and slots that no later step needs are
    `RELEASED_SLOT`. After false, no result is stored.

    `step` is the address of the step in the launch record. `nodes`, `offsets` and `scalars` are lists as in `run_steps`. Reasons for false
    are short memory, a result computed meanwhile, memory to overwrite that has another reference, and an index out of range.
    """
    step, nodes, offsets, scalars = f.arguments
    slot = f.hold_borrowed(_require_list_item(f, nodes, f.load_word(step, RESULT_SLOT_OFFSET)))
    f.require(f.or_else(f.is_instance(slot, "Node"), lambda: f.is_instance(slot, "BufferSlot")))
    overwritten_slot, last_use_count = f.load_word(step, OVERWRITTEN_SLOT_OFFSET), f.load_word(step, LAST_USE_COUNT_OFFSET)
    extra_outputs = f.address_at(step, 8 * PLAN_STEP_WORDS).at(last_use_count, I64)
    argument_rows = extra_outputs.at(f.load_word(step, EXTRA_OUTPUT_COUNT_OFFSET) * EXTRA_OUTPUT_WORDS, I64)
    f.for_range(
        f.load_word(step, EXTRA_OUTPUT_COUNT_OFFSET),
        lambda k: _allocate_extra_output(f, step, extra_outputs.at(k * EXTRA_OUTPUT_WORDS, I64), nodes),
    )
    allocate = lambda: [f.call("allocate_step_result", POINTER, [step, f.load_word(step, REUSED_SLOT_OFFSET), nodes])]
    out = f.require_new(
        f.choose(overwritten_slot < 0, allocate, lambda: [f.incref(_find_overwritable_buffer(f, nodes, overwritten_slot))])[0]
    )
    scratch = f.require_new(f.call("allocate_block", POINTER, [f.load_word(step, SCRATCH_BYTES_OFFSET)]))
    f.require(_needs_value(f, slot))  # tested after the last allocation: a finalizer may have evaluated the node
    f.for_range(
        f.load_word(step, EXTRA_OUTPUT_COUNT_OFFSET),
        lambda k: f.require(_needs_value(f, _require_list_item(f, nodes, f.load_word(extra_outputs.at(k * EXTRA_OUTPUT_WORDS, I64), 8)))),
    )
    args, flag = f.local(array(I64, MAX_KERNEL_ARGUMENTS)), f.local(I64, f.i64(0))

    def store_argument(k: Value) -> None:
        args.at(k, I64).store(
            _evaluate_argument(f, argument_rows.at(k * ARGUMENT_WORDS, I64), (nodes, offsets, scalars), out, scratch, flag)
        )

    f.for_range(f.load_word(step, ARGUMENT_COUNT_OFFSET), store_argument)
    kernel = f.address_at(step, KERNEL_OFFSET).load(POINTER)
    launch = f"call void {kernel.text}(ptr {args.text}, i64 0, i64 {f.load_word(step, PARALLEL_EXTENT_OFFSET).text}, i64 0)"

    f.emit_if(~f.is_null(kernel), lambda: emit_kernel_call(f, launch, f.load_word(step, RELEASES_GIL_OFFSET).differs(0)))
    # an index is out of range: the same kernel called from Python meets it again, also after overwriting, and raises the error
    f.require(flag.load(I64).equals(0))
    f.release_held(scratch)
    f.transfer_held(out)
    _store_slot_buffer(f, slot, out)
    f.for_range(
        f.load_word(step, EXTRA_OUTPUT_COUNT_OFFSET), lambda k: _store_extra_output(f, extra_outputs.at(k * EXTRA_OUTPUT_WORDS, I64), nodes)
    )
    _forget_slot_recipe(f, slot)  # only when all outputs are stored, since Python code may run
    f.for_range(
        f.load_word(step, EXTRA_OUTPUT_COUNT_OFFSET),
        lambda k: _forget_slot_recipe(f, _require_list_item(f, nodes, f.load_word(extra_outputs.at(k * EXTRA_OUTPUT_WORDS, I64), 8))),
    )
    f.release_held(slot)
    f.for_range(last_use_count, lambda k: _mark_slot_done(f, nodes, f.address_at(step, 8 * PLAN_STEP_WORDS).at(k, I64).load(I64)))
    f.emit_return(f.constant(I1, True))


def _needs_value(f: FunctionBuilder, slot: Value) -> Value:
    """Emit a test whether a slot of the plan still needs a value: a `BufferSlot`, or a pending node that is not `UNFINISHED`. Return the
    result, an `i1`.

    A node is `UNFINISHED` after an update has begun to overwrite its operands.
    """

    def of_node() -> Value:
        recipe = f.get_slot(slot, "Node.recipe")
        return f.and_then(
            f.is_object(f.get_slot(slot, "Node.buffer"), "None"), lambda: ~f.is_object(f.get_slot(recipe, "Recipe.op"), "UNFINISHED")
        )

    return f.or_else(~f.is_instance(slot, "Node"), of_node)


def _find_overwritable_buffer(f: FunctionBuilder, nodes: Value, slot_index: Value) -> Value:
    """Emit the lookup of the buffer of slot `slot_index` in the list `nodes`, to be overwritten. Return the buffer, borrowed.

    The emitted function returns null or 0 if the buffer has further references, or is externally shared or read-only.
    """
    buffer = _load_slot_buffer(f, _require_list_item(f, nodes, slot_index))
    f.require(_is_unshared(f, buffer))
    return buffer


def _is_unshared(f: FunctionBuilder, buffer: Value) -> Value:
    """Emit a test whether a buffer has one reference, and is neither externally shared nor read-only. Return the result, an `i1`."""
    is_private = lambda: f.and_then(
        f.is_object(f.get_slot(buffer, "Buffer.externally_shared"), "0"),
        lambda: f.is_object(f.get_slot(buffer, "Buffer.is_read_only"), "False"),
    )
    return f.and_then(f.has_one_reference(buffer), is_private)


def _load_slot_buffer(f: FunctionBuilder, slot: Value) -> Value:
    """Emit a load of the buffer of a slot of the plan, a node or a `BufferSlot`. Return the buffer, borrowed. The emitted function returns
    null or 0 for a slot without a buffer.
    """
    of_node, of_slot = lambda: [f.get_slot(slot, "Node.buffer")], lambda: [f.get_slot(slot, "BufferSlot.buffer")]
    (buffer,) = f.choose(f.is_instance(slot, "Node"), of_node, of_slot)
    f.require(f.is_instance(buffer, "Buffer"))
    return buffer


def _require_list_item(f: FunctionBuilder, items: Value, k: Value) -> Value:
    """Emit a load of item `k` of a list. Return the item, borrowed. The emitted function returns null or 0 if the list is shorter."""
    item = f.list_item(items, k)
    f.decline_if(f.is_null(item))
    return item


def _store_slot_buffer(f: FunctionBuilder, slot: Value, out: Value) -> None:
    """Emit code to store the buffer `out` in a slot of the plan, a node or a `BufferSlot`. Return None. The reference `out`, which is not
    held, is consumed.
    """

    def replace_buffer(slot_name: str) -> list[Value]:
        old_buffer = f.get_slot(slot, slot_name)
        f.set_slot(slot, slot_name, out)
        f.decref(old_buffer)
        return []

    f.choose(f.is_instance(slot, "Node"), lambda: replace_buffer("Node.buffer"), lambda: replace_buffer("BufferSlot.buffer"))


def _forget_slot_recipe(f: FunctionBuilder, slot: Value) -> None:
    """Emit code to drop the recipe of `slot`, a node, after its buffer was stored. A `BufferSlot` has no recipe and stays. Return None.
    Python code may run.
    """
    f.emit_if(f.is_instance(slot, "Node"), lambda: f.call("forget_recipe", VOID, [slot]))


def _emit_allocate_step_result(f: FunctionBuilder) -> None:
    """Emit `allocate_step_result(step, reused_slot, nodes)`: return a buffer for a result of `step`, as a new reference, or null if memory
    is short.

    `step` is the address of the step in the launch record, and has the size of the result. The buffer of slot `reused_slot` of the list
    `nodes` is reused if the size is right and no other object refers to the buffer, unless it is externally shared or read-only. A negative
    `reused_slot` means a new buffer. `run_plan_step` calls the function.
    """
    step, reused_slot, nodes = f.arguments

    def reuse_buffer() -> list[Value]:
        buffer = _load_slot_buffer(f, _require_list_item(f, nodes, reused_slot))
        has_right_size = f.unbox_integer(f.get_slot(buffer, "Buffer.nbytes")).equals(f.load_word(step, RESULT_BYTES_OFFSET))
        is_reusable = f.and_then(has_right_size, lambda: _is_unshared(f, buffer))
        return f.choose(is_reusable, lambda: [f.incref(buffer)], allocate_buffer)

    def allocate_buffer() -> list[Value]:
        nbytes = f.box_integer(f.load_word(step, RESULT_BYTES_OFFSET))
        f.transfer_held(nbytes)
        return [f.call("new_buffer_of_bytes", POINTER, [nbytes])]

    (result,) = f.choose(reused_slot < 0, allocate_buffer, reuse_buffer)
    f.emit_return(result)


def _allocate_extra_output(f: FunctionBuilder, step: Value, output_words: Value, nodes: Value) -> None:
    """Emit the allocation of a buffer for an extra output of a step, and its store in the additional slot of the plan where the kernel
    finds it. Return None.

    `output_words` is the address of the output's three words in the launch record. They are the numbers of the additional slot, of the
    output's own slot, and of the slot whose memory is reused, or -1. `nodes` is the list of slots. The emitted function returns null or 0
    if memory is short.
    """
    out = f.call("allocate_step_result", POINTER, [step, f.load_word(output_words, 16), nodes])
    f.decline_if(f.is_null(out))
    _store_slot_buffer(f, _require_list_item(f, nodes, output_words.load(I64)), out)


def _store_extra_output(f: FunctionBuilder, output_words: Value, nodes: Value) -> None:
    """Emit code that stores the buffer in the additional slot of an extra output (`_allocate_extra_output`) also in the output's own slot
    of the plan. Return None.

    `output_words` is the address of three words in the launch record; the first two are the numbers of the additional and of the own slot.
    `nodes` is the list of slots. The emitted function returns null or 0 if the list is shorter.
    """
    out = f.incref(f.get_slot(_require_list_item(f, nodes, output_words.load(I64)), "BufferSlot.buffer"))
    _store_slot_buffer(f, _require_list_item(f, nodes, f.load_word(output_words, 8)), out)


def _mark_slot_done(f: FunctionBuilder, nodes: Value, k: Value) -> None:
    """Emit code to replace slot `k` of the list `nodes` by `RELEASED_SLOT`: no later step needs the slot, and the memory can be freed.
    Return None.
    """
    f.call("PyList_SetItem", I32, [nodes, k, f.incref(f.load_object("RELEASED_SLOT"))])


def _evaluate_argument(
    f: FunctionBuilder, row: Value, plan_lists: tuple[Value, Value, Value], out: Value, scratch: Value, flag: Value
) -> Value:
    """Emit the evaluation of a kernel argument. Return the argument, a 64-bit word. `row` is the address of the five words that describe it
    in the launch record: kind, index of a slot or scalar, index of an offset or -1, item size, and a constant.

    `plan_lists` are the lists of nodes, offsets and scalars of the plan, `out` is the buffer of the result, and `scratch` a memory block.
    The kind says whether the argument is the constant, an address in a slot's buffer, in `out` or in `scratch`, the address `flag`, or a
    scalar. The kernel sets the local at the address `flag` if an index is out of range. The emitted function returns null or 0 for a slot
    without a buffer.
    """
    nodes, offsets, scalars = plan_lists
    kind, item_index, constant = row.load(I64), f.load_word(row, 8), f.load_word(row, 32)

    def compute_address(buffer: Value) -> list[Value]:
        offset_index = f.load_word(row, 16)
        offset = f.choose(offset_index >= 0, lambda: [f.unbox_integer(_require_list_item(f, offsets, offset_index))], lambda: [f.i64(0)])[0]
        return [f.unbox_address(f.get_slot(buffer, "Buffer.address")) + offset * f.load_word(row, 24) + constant]

    def locate_slot() -> list[Value]:
        return compute_address(_load_slot_buffer(f, _require_list_item(f, nodes, item_index)))

    def select_by_kind() -> list[Value]:
        get_scratch_address = lambda: [f.address_at(scratch, BLOCK_DATA_OFFSET).cast("ptrtoint", I64)]
        convert_number = lambda: [convert_scalar(f, kind, f.get_slot(_require_list_item(f, scalars, item_index), "Scalar.value"))]
        get_flag_or_number = lambda: f.choose(kind.equals(FLAG), lambda: [flag.cast("ptrtoint", I64)], convert_number)
        get_result_or_number = lambda: f.choose(kind.equals(RESULT), lambda: compute_address(out), get_flag_or_number)
        return f.choose(kind.equals(SCRATCH), get_scratch_address, get_result_or_number)

    return f.choose(kind.equals(LITERAL), lambda: [constant], lambda: f.choose(kind.equals(MEMORY), locate_slot, select_by_kind))[0]
