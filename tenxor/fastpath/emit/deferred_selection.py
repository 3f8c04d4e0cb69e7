"""Emitters for deferred mask selections, `x[mask]` of a large tensor (`fastpath/masked_selection.py`).

The elements are selected when they are needed. They never are if values computed from them are written back through the same mask: then one
masked kernel does both (`fused_masked_update.py`).
"""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I8, I64, POINTER
from ..copy_descriptors import (
    KEY_COUNT_OFFSET,
    KEY_ITEMSIZE_OFFSET,
    KEY_KIND_OFFSET,
    MASK_KEY_KIND,
    ROW_BYTES_OFFSET,
    TENSOR_ITEMSIZE_OFFSET,
)
from ..masked_selection import MIN_DEFERRED_BYTES
from ..object_layout import BYTES_CONTENT_OFFSET, ObjectTable
from .function_builder import FunctionBuilder
from .graph_evaluation import NO_RECORD, request_record
from .inplace_update import return_if_done_in_place
from .node_creation import can_evaluate_early
from .node_evaluation import is_lock_free, set_node_buffer
from .python_conversion import load_data_address


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to postpone a mask selection, and compute the selection when needed.

    The functions emitted include `selected_later`, `selected_node`, `selected_now`, `finish_selected` and `computed_over`.
    """
    selection_parameters = [(name, POINTER) for name in ("x", "key", "node", "mask", "frame", "rows")]
    _emit_new_selection_node(FunctionBuilder(module, objects, "selected_node", [*selection_parameters[:-1], ("like", POINTER)]))
    _emit_defer_selection(FunctionBuilder(module, objects, "selected_later", selection_parameters))
    _emit_finish_selection(FunctionBuilder(module, objects, "selected_now", [("node", POINTER)], I1))
    _emit_python_finish(FunctionBuilder(module, objects, "finish_selected", [("self", POINTER), ("node", POINTER)], is_exported=True))
    _emit_compute_over(FunctionBuilder(module, objects, "computed_over", [("node", POINTER), ("reads", I64), ("asks", I1)], I1))


def _is_large_mask(f: FunctionBuilder, program: Value) -> Value:
    """Emit a test whether a key is a mask of a tensor of `MIN_DEFERRED_BYTES` bytes or more. `program` is the address of the copy
    descriptor of the selected rows.
    """
    return f.and_then(
        f.load_word(program, KEY_KIND_OFFSET).equals(MASK_KEY_KIND),
        lambda: f.load_word(program, KEY_COUNT_OFFSET) * f.load_word(program, ROW_BYTES_OFFSET) >= MIN_DEFERRED_BYTES,
    )


def can_defer(f: FunctionBuilder, descriptor: Value, node: Value, mask: Value) -> Value:
    """Emit a test whether a mask selection may be deferred: it is large, neither buffer is externally shared, and no call is being
    recorded.

    `descriptor` is the address of the copy descriptor of the selected rows. `node` has the elements selected from, and `mask` the mask,
    both in memory.
    """
    are_not_shared = lambda: f.and_then(_is_not_shared(f, node), lambda: _is_not_shared(f, mask))
    return f.and_then(f.and_then(_is_large_mask(f, descriptor), lambda: can_evaluate_early(f)), are_not_shared)


def _is_not_shared(f: FunctionBuilder, node: Value) -> Value:
    """Emit a test whether the buffer of `node`, a node in memory, is not externally shared."""
    return f.is_object(f.get_slot(f.get_slot(node, "Node.buffer"), "Buffer.externally_shared"), "0")


def _emit_defer_selection(f: FunctionBuilder) -> None:
    """Emit `selected_later(x, key, node, mask, frame, rows)`: return a new tensor of the rows of `x` that the mask `key` selects, pending;
    null to decline.

    `node` and `mask` are the nodes of `x` and `key`, in memory. `frame` is the copy descriptor, a bytes object, and `rows` the template for
    the number of selected rows.
    """
    x, key, node, mask, frame, rows = f.arguments
    selection_node = f.require_new(f.call("selected_node", POINTER, [x, key, node, mask, frame, f.get_slot(rows, "RecipeTemplate.recipe")]))
    f.transfer_held(selection_node)
    f.emit_return(f.call("given", POINTER, [selection_node, f.incref(f.get_slot(rows, "ResultTemplate.spec")), f.constant(I1, False)]))


def _emit_new_selection_node(f: FunctionBuilder) -> None:
    """Emit `selected_node(x, key, node, mask, frame, like)`: return a new pending node of the rows of `node` that `mask` selects; null to
    decline.

    The tensors `x` and `key` give the views of these two nodes, and `frame` is the copy descriptor, a bytes object. The new node has the
    shape and dtype of the recipe `like`.
    """
    x, key, node, mask, frame, like = f.arguments
    slots = [(x, "spec"), (x, "offset"), (key, "spec"), (key, "offset")]
    spec, offset, mask_spec, mask_offset = [f.hold_borrowed(f.get_slot(tensor, f"Tensor.{slot}")) for tensor, slot in slots]
    selection = f.new_instance(
        "MaskedSelection", spec=spec, offset=offset, mask_spec=mask_spec, mask_offset=mask_offset, descriptor=f.hold_borrowed(frame)
    )
    shape, dtype, empty = f.get_slot(like, "Recipe.shape"), f.get_slot(like, "Recipe.dtype"), f.load_object("()")
    through = f.new_tuple(f.incref(f.load_object("None")))
    recipe = f.require_new(
        f.call("recipe_through", POINTER, [f.load_object("UNFINISHED"), shape, dtype, empty, through, f.load_object("True")])
    )
    f.release_held(through)
    sources = f.new_tuple(selection, f.hold_borrowed(node), f.hold_borrowed(mask))
    f.transfer_held(recipe, sources)
    f.emit_return(f.call("pending", POINTER, [recipe, sources, f.incref(empty), f.constant(I1, False)]))


def _emit_finish_selection(f: FunctionBuilder) -> None:
    """Emit `selected_now(node)`: carry out the deferred mask selection of the pending `node`. Return true, or false if nothing was done.

    The function returns false for a node in memory or of another operation, without memory for the result, and while another thread holds
    the lock of the runtime.
    """
    (node,) = f.arguments
    f.require(f.is_object(f.get_slot(node, "Node.buffer"), "None"))
    sources = f.hold_borrowed(f.get_slot(node, "Node.sources"))
    selection, x, mask = (f.tuple_item(sources, k) for k in range(3))
    f.require(f.is_instance(selection, "MaskedSelection"))
    f.emit_if(f.is_object(f.get_slot(x, "Node.buffer"), "None"), lambda: f.require(f.call("computed", I1, [x])))
    frame = f.get_slot(selection, "MaskedSelection.descriptor")
    program = f.address_at(frame, BYTES_CONTENT_OFFSET)
    out = f.require_new(f.call("memory_for", POINTER, [f.get_slot(node, "Node.recipe")]))
    f.require(is_lock_free(f))
    f.require(f.is_object(f.get_slot(node, "Node.buffer"), "None"))  # only now, as Python may have run
    source_address, mask_address = (
        load_data_address(f, f.get_slot(source_node, "Node.buffer")).at(
            f.unbox_integer(f.get_slot(selection, f"MaskedSelection.{slot}")) * f.load_word(program, itemsize_offset), I8
        )
        for source_node, slot, itemsize_offset in ((x, "offset", TENSOR_ITEMSIZE_OFFSET), (mask, "mask_offset", KEY_ITEMSIZE_OFFSET))
    )
    f.call(
        "read_rows",
        I1,
        [load_data_address(f, out), source_address, f.null(), mask_address, frame, f.i64(0), f.load_word(program, ROW_BYTES_OFFSET)],
    )
    f.transfer_held(out)
    set_node_buffer(f, node, out)
    f.release_held(sources)
    f.emit_return(f.constant(I1, True))


def _emit_python_finish(f: FunctionBuilder) -> None:
    """Emit `finish_selected(node)`, called from Python: carry out the deferred mask selection of a node. Return the result of
    `selected_now` as a bool.
    """
    _, node = f.arguments
    f.return_if(f.call("selected_now", I1, [node]), lambda: f.incref(f.load_object("True")))
    f.propagate_error()
    f.emit_return(f.incref(f.load_object("False")))


def try_masked_update(f: FunctionBuilder, x: Value, key: Value, value: Value, descriptor: Value) -> Value:
    """Emit an attempt to do `x[key] = value` by one kernel that computes `value` under the mask `key` (`fused_masked_update.py`).

    Return an `i1`: whether the update was done. The update is tried only for a large mask and a pending tensor `value`. `descriptor` is the
    copy descriptor of the selected rows, a bytes object. The emitted function returns null or 0 if an error is set.
    """

    def is_value_pending() -> Value:
        storage = f.get_slot(value, "Tensor.storage")
        is_pending = lambda: f.is_object(f.get_slot(f.get_slot(storage, "Storage.node"), "Node.buffer"), "None")
        return f.and_then(f.is_instance(storage, "Storage"), is_pending)

    is_candidate = f.and_then(
        f.and_then(_is_large_mask(f, f.address_at(descriptor, BYTES_CONTENT_OFFSET)), lambda: f.is_instance(value, "Tensor")),
        is_value_pending,
    )
    is_written = f.and_then(is_candidate, lambda: f.call("written_where", I1, [x, key, value, descriptor]))
    f.require(f.or_else(is_written, lambda: f.is_null(f.call("PyErr_Occurred", POINTER, []))))
    return is_written


def _emit_compute_over(f: FunctionBuilder) -> None:
    """Emit `computed_over(node, reads, may_ask)`: run the pending update `node` in the memory that it overwrites; return whether it ran.

    The old content, source 0 of the update, must be in memory and have exactly `reads` references, all from the update. If `may_ask`,
    Python makes a missing launch record. False without an error means that a condition fails, or that Python has to run the update.
    """
    node, reads, may_ask = f.arguments
    f.require(f.is_object(f.get_slot(node, "Node.buffer"), "None"))
    old_node = f.tuple_item(f.get_slot(node, "Node.sources"), 0)
    buffer = f.get_slot(old_node, "Node.buffer")
    f.decline_if(f.is_object(buffer, "None"))
    f.require(f.load_refcount(old_node).cast("zext", I64).equals(reads))
    status = return_if_done_in_place(f, node, buffer)
    f.require(f.and_then(may_ask, lambda: status.equals(NO_RECORD)))
    request_record(f, "have_update_framed", node)
    f.emit_return(f.call("computed_over", I1, [node, reads, f.constant(I1, False)]))
