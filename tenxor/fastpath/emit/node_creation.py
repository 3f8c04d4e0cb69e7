"""Creation of pending nodes, and of the tensors over new storages that hold them. A pending node is an operation (a recipe with sources)
that is not computed yet.
"""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value, select
from ...codegen.llvm.types import I1, I64, POINTER
from ...graph.node import HELD_BYTES_ANY_RESULT, HELD_BYTES_SMALL_RESULT, MAX_PENDING_NODES
from ...runtime.pending_limits import REFS_PER_CLEANUP, SMALL_RESULT_RATIO
from ..object_layout import SIZE_OFFSET, ObjectTable
from .function_builder import FunctionBuilder
from .node_evaluation import is_fusion_candidate, load_element_count
from .tape_nodes import is_valueless, record_on_tape

NUMBERED_KINDS = ("node", "recipe")  # kinds of objects with serial numbers
# Least and most nodes of a pending graph that is evaluated as a whole because it keeps memory alive
MIN_EAGER_NODES, MAX_EAGER_NODES = 16, 32
# Elements of the result of such a graph: with more, longer graphs pay, as fewer of their intermediates are stored
MAX_EAGER_ELEMENTS = 1 << 14


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions `new_user_node` and `new_pending_node` to create a pending node, `new_user_tensor` and `new_tensor`
    to wrap a node in a tensor, and the functions that give serial numbers.
    """
    for kind in NUMBERED_KINDS:
        module.define_global(f"next_{kind}_serial", "global i64 0")
        _emit_next_number(FunctionBuilder(module, objects, f"next_{kind}", [], I64), kind)
        _emit_python_next_number(
            FunctionBuilder(module, objects, f"{kind}_number", [("self", POINTER), ("unused", POINTER)], is_exported=True), kind
        )
    module.define_global("shared_read_count", "internal global i64 0")
    module.define_global("open_context_count", "global ptr null")  # address of the counter that is not 0 while nothing is evaluated early
    node_parameters = [("recipe", POINTER), ("sources", POINTER), ("offsets", POINTER)]
    _emit_new_user_node(FunctionBuilder(module, objects, "new_user_node", [*node_parameters, ("records_tape", I1)]))
    _emit_new_pending_node(
        FunctionBuilder(module, objects, "new_pending_node", [*node_parameters, ("belongs_to_user", I1), ("records_tape", I1)])
    )
    _emit_new_user_tensor(FunctionBuilder(module, objects, "new_user_tensor", [("node", POINTER), ("spec", POINTER), ("must_compute", I1)]))
    _emit_new_tensor(FunctionBuilder(module, objects, "new_tensor", [("node", POINTER), ("spec", POINTER)]))


def _emit_python_next_number(f: FunctionBuilder, kind: str) -> None:
    """Emit `KIND_number()`, called from Python: count an object of this kind, and return its serial number as a Python integer, a new
    reference. KIND is `kind`: "node" or "recipe".
    """
    number = f.call(f"next_{kind}", I64, [])
    f.emit_return(f.call("PyLong_FromLongLong", POINTER, [number]))


def _emit_next_number(f: FunctionBuilder, kind: str) -> None:
    """Emit `next_KIND()`: return the serial number of the next node or recipe, as an `i64`, and advance the counter. KIND is `kind`: "node"
    or "recipe".
    """
    counter = f.define(POINTER, f"getelementptr i64, ptr @next_{kind}_serial, i64 0")
    number = counter.load(I64)
    counter.store(number + 1)
    f.emit_return(number)


def new_result(f: FunctionBuilder, recipe: Value, sources: Value, offsets: Value, spec: Value) -> Value:
    """Emit the creation of a pending node with `recipe`, `sources` and `offsets`, and of its tensor with the spec `spec`. The node belongs
    to the user's program. Return a new reference, not held; null where `new_user_tensor` gives null.

    `sources` and `offsets` are tuples. The held references to all four arguments are consumed. The emitted function returns null or 0 where
    `new_user_node` gives null.
    """
    f.transfer_held(recipe, sources, offsets)
    old_read_count = load_shared_read_count(f)
    node = f.call("new_user_node", POINTER, [recipe, sources, offsets, f.constant(I1, True)])
    f.decline_if(f.is_null(node))
    f.transfer_held(spec)
    return f.call("new_user_tensor", POINTER, [node, spec, load_shared_read_count(f).differs(old_read_count)])


def load_shared_read_count(f: FunctionBuilder) -> Value:
    """Emit a load of the count of reads of externally shared buffers (memory that other libraries may write) by nodes made so far. Return
    the number, an `i64`. If it has grown with a new node, this node must be evaluated at once.
    """
    return _get_shared_read_counter(f).load(I64)


def _get_shared_read_counter(f: FunctionBuilder) -> Value:
    """Emit the address of the count that `load_shared_read_count` loads, and return the address."""
    return f.define(POINTER, "getelementptr i8, ptr @shared_read_count, i64 0")


def _emit_new_user_node(f: FunctionBuilder) -> None:
    """Emit `new_user_node(recipe, sources, offsets, records_tape)`: return a new pending node of the user's program, as a new reference.
    `recipe` is the operation; the tuples `sources` and `offsets` are its operands and their offsets in elements.

    The function takes over the references to its arguments, also on failure. With `records_tape`, a node that depends on the tape gets a
    tape node. The function returns null, to decline, under memory pressure, and where `new_pending_node` with `belongs_to_user` does.
    """
    *references, records_tape = f.arguments
    for x in references:
        f.hold_owned(x)
    f.require(f.is_object(f.get_slot(f.load_object("pool"), "Pool.is_under_pressure"), "False"))
    f.transfer_held(*references)
    f.emit_return(f.call("new_pending_node", POINTER, [*references, f.constant(I1, True), records_tape]))


def _emit_new_pending_node(f: FunctionBuilder) -> None:
    """Emit `new_pending_node(recipe, sources, offsets, belongs_to_user, records_tape)`: return a new pending node, as a new reference. The
    first three arguments are those of `new_user_node`. The function takes over the references to its arguments, also on failure.

    With `belongs_to_user`, the function returns null for a graph of more than `MAX_PENDING_NODES` nodes. While a call is recorded, it also
    returns null if a buffer below has `HELD_BYTES_ANY_RESULT` bytes or more. A node that depends on an argument of a traced function has
    neither limit. Without `belongs_to_user`, an externally shared source gives null.

    With `records_tape`, a node that depends on the tape gets a tape node, and a node that depends on an argument of a traced function gets
    its mark. Without, a source that depends on such an argument gives null. `new_user_node` and `replay_tape_step` call the function.
    """
    *references, belongs_to_user, records_tape = f.arguments
    recipe, sources, offsets = [f.hold_owned(x) for x in references]
    count, has_tape_node, is_traced = f.local(I64, f.i64(1)), f.local(I64, f.i64(0)), f.local(I64, f.i64(0))
    number = f.call("next_node", I64, [])
    max_nbytes, lowest_serial = f.local(I64, f.i64(0)), f.local(I64, number)
    # the same two numbers as Python integers that some node has
    boxed_nbytes, boxed_lowest = f.local(POINTER, f.load_object("0")), f.local(POINTER, f.null())

    def examine_source(k: Value) -> None:
        source = f.tuple_item(sources, k)

        def examine_node() -> None:
            tape_node, buffer = f.get_slot(source, "Node.tape_node"), f.get_slot(source, "Node.buffer")

            def note_tape_node() -> None:
                has_tape_node.store(f.i64(1))
                f.emit_if(is_valueless(f, tape_node), lambda: is_traced.store(f.i64(1)))

            f.emit_if(~f.is_object(tape_node, "None"), note_tape_node)

            def examine_pending() -> list[Value]:
                count.store(count.load(I64) + f.unbox_integer(f.get_slot(source, "Node.graph_node_count")))
                boxed_serial = f.get_slot(source, "Node.oldest_serial")
                serial = f.unbox_integer(boxed_serial)

                def store_serial() -> None:
                    lowest_serial.store(serial)
                    boxed_lowest.store(boxed_serial)

                f.emit_if(serial < lowest_serial.load(I64), store_serial)
                return [f.get_slot(source, "Node.max_operand_nbytes")]

            def examine_buffer() -> list[Value]:
                is_pinned = ~f.is_object(f.get_slot(buffer, "Buffer.externally_shared"), "0")
                f.decline_if(is_pinned & ~belongs_to_user)
                f.emit_if(is_pinned, lambda: _get_shared_read_counter(f).store(_get_shared_read_counter(f).load(I64) + 1))
                return [f.get_slot(buffer, "Buffer.nbytes")]

            (nbytes,) = f.choose(f.is_object(buffer, "None"), examine_pending, examine_buffer)
            weight = f.unbox_integer(nbytes)

            def store_weight() -> None:
                max_nbytes.store(weight)
                boxed_nbytes.store(nbytes)

            f.emit_if(weight > max_nbytes.load(I64), store_weight)

        f.emit_if(f.is_instance(source, "Node"), examine_node)

    f.for_range(f.load_word(sources, SIZE_OFFSET), examine_source)
    serial_span = number - lowest_serial.load(I64) + 1
    nodes = select(serial_span < count.load(I64), serial_span, count.load(I64))
    weight = max_nbytes.load(I64)

    def is_within() -> Value:
        return f.and_then(nodes <= MAX_PENDING_NODES, lambda: f.or_else(weight < HELD_BYTES_ANY_RESULT, lambda: can_evaluate_early(f)))

    has_value = is_traced.load(I64).equals(0)
    f.require(has_value | records_tape)
    f.require(f.or_else(~(belongs_to_user & has_value), is_within))
    boxed_numbers = boxed_nbytes.load(POINTER), boxed_lowest.load(POINTER)
    box_number = lambda: [f.call("PyLong_FromLongLong", POINTER, [number])]
    f.hold_borrowed(boxed_numbers[0])
    oldest_serial = f.require_new(f.choose(f.is_null(boxed_numbers[1]), box_number, lambda: [f.incref(boxed_numbers[1])])[0])
    numbers = f.box_integer(nodes), oldest_serial, boxed_numbers[0]
    node = f.new_instance(
        "Node",
        recipe=recipe,
        sources=sources,
        offsets=offsets,
        graph_node_count=numbers[0],
        oldest_serial=numbers[1],
        max_operand_nbytes=numbers[2],
    )
    for slot, value in (("buffer", "None"), ("_layouts", "None"), ("is_stored", "False"), ("tape_node", "None")):
        f.set_slot(node, f"Node.{slot}", f.incref(f.load_object(value)))
    f.emit_if(records_tape & has_tape_node.load(I64).differs(0), lambda: record_on_tape(f, node, number))
    f.transfer_held(node)
    f.emit_return(node)


def can_evaluate_early(f: FunctionBuilder) -> Value:
    """Emit a test whether results may be evaluated before the user asks for them. Return the result, an `i1`: false while a call is
    recorded (`runtime/call_recording.py`), since results must stay pending then.
    """
    return f.define(POINTER, "load ptr, ptr @open_context_count").load(I64).equals(0)


def _emit_new_user_tensor(f: FunctionBuilder) -> None:
    """Emit `new_user_tensor(node, spec, must_compute)`: return the tensor of a new node for the user, a new reference; null with an error
    set, or if a node that must be evaluated cannot be. The function takes over the references to `node` and `spec`, also on failure.

    A node that depends on an argument of a traced function stays pending. With `must_compute`, any other node is evaluated now. A small
    result that keeps much memory alive (`HELD_BYTES_SMALL_RESULT`, `SMALL_RESULT_RATIO`) is evaluated early if it is a reduction or has at
    most one axis, unless a call is recorded: its readers then add in the order of a fused kernel. Further nodes with much memory are noted
    (`note_pending`), and so are sums that the kernel of their reader may compute.
    """
    *references, must_compute = f.arguments
    f.return_if(is_valueless(f, f.get_slot(references[0], "Node.tape_node")), lambda: f.call("new_tensor", POINTER, references))
    node, spec = [f.hold_owned(x) for x in references]
    f.emit_if(must_compute, lambda: f.require(f.call("compute_node", I1, [node])))
    nodes, weight = f.unbox_integer(f.get_slot(node, "Node.graph_node_count")), f.unbox_integer(f.get_slot(node, "Node.max_operand_nbytes"))
    recipe = f.get_slot(node, "Node.recipe")
    nbytes, is_line = f.unbox_integer(f.get_slot(recipe, "Recipe.nbytes")), f.load_word(f.get_slot(recipe, "Recipe.shape"), SIZE_OFFSET) < 2
    waits = f.and_then(
        weight >= HELD_BYTES_SMALL_RESULT, lambda: f.and_then(weight >= nbytes * SMALL_RESULT_RATIO, lambda: can_evaluate_early(f))
    )

    def compute() -> None:
        """Emit the evaluation of the node by single kernels, or of a graph of `MIN_EAGER_NODES` to `MAX_EAGER_NODES` nodes with a small
        result as a whole. Failing both, the node is noted. Whole evaluation needs reductions that add in the same order as in a larger
        graph, since the operands probably have other readers.
        """
        is_long = f.and_then(
            (nodes >= MIN_EAGER_NODES) & (nodes <= MAX_EAGER_NODES), lambda: load_element_count(f, node) <= MAX_EAGER_ELEMENTS
        )
        keeps_order = f.or_else(is_line, lambda: ~f.is_instance(f.get_slot(recipe, "Recipe.op"), "Op"))

        def computed() -> Value:
            def as_a_whole() -> Value:
                may_be = f.and_then(is_long, lambda: f.is_null(f.call("PyErr_Occurred", POINTER, [])))
                is_order_stable = f.and_then(may_be, lambda: f.call("is_order_stable", I1, [node]))
                return f.and_then(is_order_stable, lambda: f.call("compute_fused", I1, [node]))

            return f.or_else(f.call("compute_unfused", I1, [node]), as_a_whole)

        f.emit_if(~f.and_then(keeps_order & ~is_fusion_candidate(f, node), computed), lambda: note_pending(f, node))

    def compute_read_sources() -> None:
        f.emit_if(~f.call("compute_sources", I1, [node]), lambda: f.require(f.is_null(f.call("PyErr_Occurred", POINTER, []))))

    f.emit_if(~must_compute & waits, compute_read_sources)
    f.emit_if(~must_compute & waits, compute)
    f.emit_if(~must_compute & ~waits & (weight >= HELD_BYTES_ANY_RESULT), lambda: note_pending(f, node))
    f.transfer_held(node, spec)
    f.emit_return(f.call("new_tensor", POINTER, [node, spec]))


def note_pending(f: FunctionBuilder, node: Value) -> None:
    """Emit code to note a pending node that keeps much memory alive, as `pending_limits.record_pending` does: a weak reference is appended
    to a list. Return None.

    The emitted function returns null or 0 if an error is set or memory runs out.
    """
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    reference = f.require_new(f.call("PyWeakref_NewRef", POINTER, [node, f.null()]))
    f.append_to_list(f.load_object("pending_refs"), reference)
    f.release_held(reference)
    f.emit_if(
        (f.list_length(f.load_object("pending_refs")) & (REFS_PER_CLEANUP - 1)).equals(0), lambda: f.call_python("prune_pending_refs")
    )


def _emit_new_tensor(f: FunctionBuilder) -> None:
    """Emit `new_tensor(node, spec)`: return a new tensor with its own storage and offset 0; null if memory runs out. The function takes
    over the references to `node` and `spec`, also on failure.
    """
    node, spec = [f.hold_owned(x) for x in f.arguments]
    storage = f.new_instance("Storage", node=node)
    f.emit_return(
        f.new_instance(
            "Tensor", storage=storage, spec=spec, dtype=f.incref(f.get_slot(spec, "Spec.dtype")), offset=f.incref(f.load_object("0"))
        )
    )
