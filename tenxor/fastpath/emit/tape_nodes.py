"""The tape: the tape node (`TapeNode`, the record for derivatives) of a new node, as in `autodiff/tape.py`, and replayed derivative steps,
as in `autodiff/replay.py`.
"""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value, select
from ...codegen.llvm.types import I1, I32, I64, POINTER
from ..limits import RECORDED_BIT, TRACED_BIT
from ..object_layout import SIZE_OFFSET, ObjectTable
from .function_builder import FunctionBuilder

MAX_SOURCES = 60  # sources of a node: one bit each in an `i64` mask


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to record tape nodes and replay derivative steps.

    The functions emitted include `record_on_tape`, `replay_tape_step` and `replay_tape_steps`.
    """
    _emit_record_on_tape(FunctionBuilder(module, objects, "record_on_tape", [("node", POINTER), ("number", I64)], I1))
    _emit_replay_tape_step(FunctionBuilder(module, objects, "replay_tape_step", [("step", POINTER), ("nodes", POINTER)]))
    _emit_replay_tape_steps(
        FunctionBuilder(module, objects, "replay_tape_steps", [("self", POINTER), ("args", POINTER), ("count", I64)], is_exported=True)
    )


def is_valueless(f: FunctionBuilder, tape_node: Value) -> Value:
    """Emit a test whether a node with the tape node `tape_node` depends on an argument of a function being traced, and so has no value.
    Return the result, an `i1`. `tape_node` is the content of the slot `Node.tape_node`.
    """
    marked = f.or_else(f.is_object(tape_node, "TRACED"), lambda: f.is_object(tape_node, "CONSTANT"))
    is_traced = lambda: f.and_then(
        f.is_instance(tape_node, "TapeNode"), lambda: f.is_object(f.get_slot(tape_node, "TapeNode.is_traced"), "True")
    )
    return f.or_else(marked, is_traced)


def record_on_tape(f: FunctionBuilder, node: Value, serial_number: Value) -> None:
    """Emit the recording of the new node `node` on the tape: a call of the emitted function `record_on_tape`, or else of Python code.
    Return None. `serial_number` is the serial number of the node, an `i64`.

    If Python does the recording, the emitted function returns null or 0 for a node that depends on a traced argument and so has no value.
    """

    def record_in_python() -> None:
        f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
        f.require(f.is_object(f.call_python("attach_tape_node", node), "True"))

    f.emit_if(~f.call("record_on_tape", I1, [node, serial_number]), record_in_python)


def _emit_record_on_tape(f: FunctionBuilder) -> None:
    """Emit `record_on_tape(node, number)`: set the slot `tape_node` of the new node `node`, as the sources of the node require; return
    true.

    The value is a new tape node with the serial number `number` of the node; or a mark, `TRACED` or `CONSTANT`, for a node that depends on
    a traced argument; or None. The function returns false if Python (`node.attach_tape_node`) must do the work.
    """
    node, number = f.arguments
    recipe, sources, yes = f.get_slot(node, "Node.recipe"), f.get_slot(node, "Node.sources"), f.constant(I1, True)
    count, tracked, traced = f.load_word(sources, SIZE_OFFSET), f.local(I64, f.i64(0)), f.local(I64, f.i64(0))
    f.require(count < MAX_SOURCES)

    def examine_source(k: Value) -> None:
        source = f.tuple_item(sources, k)

        def examine_node() -> None:
            tape_node = f.get_slot(source, "Node.tape_node")
            has_no_value, is_tape_node = is_valueless(f, tape_node), f.is_instance(tape_node, "TapeNode")
            f.require(f.or_else(has_no_value | is_tape_node, lambda: f.is_object(tape_node, "None")))
            tracked.store(tracked.load(I64) | (is_tape_node.cast("zext", I64) << k))
            traced.store(traced.load(I64) | has_no_value.cast("zext", I64))

        f.emit_if(f.is_instance(source, "Node"), examine_node)

    def is_traced() -> Value:
        return traced.load(I64).differs(0)

    f.for_range(count, examine_source)
    tape_mode = load_tracking(f)
    trace = f.select_value(f.is_object(tape_mode, "False"), f.load_object("CONSTANT"), f.load_object("TRACED"))
    untracked = f.select_value(is_traced(), trace, f.load_object("None"))
    is_recorded = f.is_object(tape_mode, "True") & tracked.load(I64).differs(0)
    f.return_if(~is_recorded, lambda: _set_tape_node(f, node, untracked))
    residuals = f.get_slot(recipe, "Recipe.residuals")
    f.decline_if(f.is_object(residuals, "None"))
    source_mask = f.box_integer(tracked.load(I64))
    needs = f.look_up(residuals, source_mask)
    f.release_held(source_mask)
    f.decline_if(f.is_null(needs))
    f.return_if(
        f.is_object(needs, "NO_RESIDUALS"),
        lambda: _set_tape_node(f, node, f.select_value(is_traced(), f.load_object("TRACED"), f.load_object("None"))),
    )
    f.hold_borrowed(needs)
    tape_node = f.new_instance("TapeNode")
    for slot, value in (("recipe", recipe), ("offsets", f.get_slot(node, "Node.offsets")), ("reads_result", f.tuple_item(needs, 1))):
        f.set_slot(tape_node, f"TapeNode.{slot}", f.incref(value))
    f.set_slot(tape_node, "TapeNode.is_traced", f.box_bool(is_traced()))
    for slot, name in (("grad_hook", "None"), ("sources", "()")):
        f.set_slot(tape_node, f"TapeNode.{slot}", f.incref(f.load_object(name)))
    f.set_slot(tape_node, "TapeNode.serial", own_number := f.box_integer(number))
    f.transfer_held(own_number)
    tape_sources = f.build_tuple(
        count, lambda k: f.incref(_select_residual(f, f.tuple_item(sources, k), f.tuple_item(f.tuple_item(needs, 0), k)))
    )
    for x, slot, value in ((tape_node, "TapeNode.sources", tape_sources), (node, "Node.tape_node", tape_node)):
        old_value = f.get_slot(x, slot)
        f.set_slot(x, slot, value)
        f.transfer_held(value)
        f.decref(old_value)
    f.release_held(needs)
    f.emit_return(yes)


def _set_tape_node(f: FunctionBuilder, node: Value, tape_node: Value) -> Value:
    """Emit a store of the object `tape_node`, a mark or None, in the slot `tape_node` of the new node `node`; the slot gets a reference of
    its own. Return the constant true, an `i1`.
    """
    f.decref(f.get_slot(node, "Node.tape_node"))
    f.set_slot(node, "Node.tape_node", f.incref(tape_node))
    return f.constant(I1, True)


def load_tracking(f: FunctionBuilder) -> Value:
    """Emit a load of the context variable `node.tape_mode`. Return the object: True if the tape is recorded, and otherwise False or None.
    The reference is borrowed, as these are immortal.

    With False, a new node that depends on a traced argument is marked as `CONSTANT`, with None as `TRACED`. The emitted function returns
    null or 0 on an error.
    """
    mode_slot = f.local(POINTER, f.null())
    f.require(f.call("PyContextVar_Get", I32, [f.load_object("tape_mode"), f.null(), mode_slot]).equals(0))
    tape_mode = mode_slot.load(POINTER)
    f.decref(tape_mode)  # True, False and None are immortal
    return tape_mode


def is_tape_recorded(f: FunctionBuilder) -> Value:
    """Emit a test whether the tape is recorded, so that a new node with a source on the tape gets a tape node. Return the
    result, an `i1`.
    """
    return f.is_object(load_tracking(f), "True")


def build_tape_mask(f: FunctionBuilder, x: Value, args: Value, argument_count: Value) -> Value:
    """Emit the tape mask in the key of a call, as `recorder._build_call_key` does. Return the mask, an `i64`: bit 0 is set if the node of
    the tensor `x` has a tape node or a mark of tracing. Bit k + 1 says the same of argument k of the `argument_count` arguments at the
    address `args`. `TRACED_BIT` is set if an argument depends on the argument of a traced function, and `RECORDED_BIT` if a tape is
    recorded then. The mask is 0 if no tape is recorded and no argument is traced. The emitted function returns null or 0 for `MAX_SOURCES`
    arguments or more.
    """
    f.require(argument_count < MAX_SOURCES)
    tape_mask, traced_bit = f.local(I64, f.i64(0)), f.local(I64, f.i64(0))

    def set_bit(argument: Value, bit: Value) -> None:
        node = f.get_slot(f.get_slot(argument, "Tensor.storage"), "Storage.node")

        def set_bits() -> None:
            tape_mask.store(tape_mask.load(I64) | bit)
            f.emit_if(is_valueless(f, f.get_slot(node, "Node.tape_node")), lambda: traced_bit.store(f.i64(TRACED_BIT)))

        f.emit_if(f.and_then(~f.is_null(node), lambda: ~f.is_object(f.get_slot(node, "Node.tape_node"), "None")), set_bits)

    def set_bit_if_tensor(k: Value) -> None:
        argument = args.at(k, POINTER).load(POINTER)
        f.emit_if(f.is_instance(argument, "Tensor"), lambda: set_bit(argument, f.i64(2) << k))

    def complete_mask() -> list[Value]:
        traced = traced_bit.load(I64)
        is_recorded = is_tape_recorded(f)
        recorded_bit = f.select_value(is_recorded & traced.differs(0), f.i64(RECORDED_BIT), f.i64(0))
        return [f.select_value(is_recorded | traced.differs(0), tape_mask.load(I64) | traced | recorded_bit, f.i64(0))]

    set_bit(x, f.i64(1))
    f.for_range(argument_count, set_bit_if_tensor)
    return f.choose(tape_mask.load(I64).equals(0), lambda: [f.i64(0)], complete_mask)[0]


def _select_residual(f: FunctionBuilder, source: Value, needed: Value) -> Value:
    """Emit a choice of the residual of `source`: the object that a new tape node keeps for this source of its node. Return the object,
    borrowed.

    A number is kept as it is. A node is kept if its value is needed, or if its tape node reads the value; otherwise its tape node is kept,
    or None. `needed` is Python's True or False. The emitted function returns null or 0 for an externally shared node with a needed value.
    """

    def keep_node() -> list[Value]:
        buffer = f.get_slot(source, "Node.buffer")
        f.require(f.or_else(f.is_object(buffer, "None"), lambda: f.is_object(f.get_slot(buffer, "Buffer.externally_shared"), "0")))
        return [source]

    def keep_tape_node() -> list[Value]:
        tape_node = f.get_slot(source, "Node.tape_node")
        reads = f.and_then(
            f.is_instance(tape_node, "TapeNode"), lambda: f.is_object(f.get_slot(tape_node, "TapeNode.reads_result"), "True")
        )
        return [select(reads, source, tape_node)]

    def select_for_node() -> list[Value]:
        return f.choose(f.is_object(needed, "True"), keep_node, keep_tape_node)

    return f.choose(f.is_instance(source, "Node"), select_for_node, lambda: [source])[0]


def _emit_replay_tape_steps(f: FunctionBuilder) -> None:
    """Emit `replay_tape_steps(nodes, steps)`, called from Python: append the new node of each step to the list `nodes`, and return None as
    a new reference.

    `steps` is a list of recorded derivative steps (`replay_tape_step`). The function stops at the first step that the fallback must make:
    the caller sees this from the length of `nodes`. An error other than MemoryError is raised.
    """
    _, args, _ = f.arguments
    nodes, steps = (args.at(k, POINTER).load(POINTER) for k in range(2))
    step_number, goes_on = f.local(I64, f.i64(0)), f.local(I64, f.i64(1))
    count = f.list_length(steps)

    def replay_step() -> None:
        node = f.call("replay_tape_step", POINTER, [f.list_item(steps, step_number.load(I64)), nodes])
        f.emit_if(f.is_null(node), lambda: goes_on.store(f.i64(0)))
        f.emit_if(~f.is_null(node), lambda: _append_node(f, nodes, node, goes_on))
        step_number.store(step_number.load(I64) + 1)

    f.repeat_while(lambda: f.and_then(goes_on.load(I64).differs(0), lambda: step_number.load(I64) < count), replay_step)
    f.propagate_error()
    f.emit_return(f.incref(f.load_object("None")))


def _append_node(f: FunctionBuilder, nodes: Value, node: Value, goes_on: Value) -> None:
    """Emit the append of `node` to the list `nodes`, and the release of the reference `node`, which is not held. Return None.

    The local at the address `goes_on`, an `i64`, becomes 0 if memory runs out, and otherwise 1.
    """
    goes_on.store(f.call("PyList_Append", I32, [nodes, node]).equals(0).cast("zext", I64))
    f.decref(node)


def _emit_replay_tape_step(f: FunctionBuilder) -> None:
    """Emit `replay_tape_step(step, nodes)`: return a new node for a recorded derivative step, or null if the fallback must make it.

    `step` is a tuple of the recipe, the positions of the sources in the list `nodes`, and the offsets. The node is a new reference.
    `replay_tape_steps` calls the function.
    """
    step, nodes = f.arguments
    recipe, source_numbers, offsets = (f.tuple_item(step, k) for k in range(3))

    def get_source(k: Value) -> Value:
        node = f.list_item(nodes, f.unbox_integer(f.tuple_item(source_numbers, k)))
        f.decline_if(f.is_null(node))
        return f.incref(node)

    sources = f.build_tuple(f.load_word(source_numbers, SIZE_OFFSET), get_source)
    f.transfer_held(sources)
    f.emit_return(
        f.call("new_pending_node", POINTER, [f.incref(recipe), sources, f.incref(offsets), f.constant(I1, False), f.constant(I1, True)])
    )
