"""Emitters of queries on many nodes at once, called from Python, where each single query would take as long as a small kernel. A node is
pending until it has a buffer.
"""

from __future__ import annotations

from collections.abc import Callable

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I64, POINTER
from ..object_layout import ObjectTable
from .function_builder import FunctionBuilder


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the queries on many nodes, called from Python code.

    The functions emitted include `count_pending`, `filter_pending` and `find_owned`.
    """
    parameters = [("self", POINTER), ("args", POINTER), ("count", I64)]
    for name, look in (
        ("count_pending", _emit_count_pending),
        ("filter_pending", _emit_filter_pending),
        ("find_owned", _emit_find_owned),
    ):
        look(FunctionBuilder(module, objects, name, parameters, is_exported=True))


def _is_pending(f: FunctionBuilder, node: Value) -> Value:
    """Emit a test whether a node is pending. Return the result, an `i1`."""
    return f.is_object(f.get_slot(node, "Node.buffer"), "None")


def _emit_count_pending(f: FunctionBuilder) -> None:
    """Emit `count_pending(nodes)`, called from Python: return how many of the nodes in the list `nodes` are pending, as a Python integer.

    Nodes whose computation was interrupted (`UNFINISHED`) do not count.
    """
    nodes = f.arguments[1].load(POINTER)

    def add_node(k: Value, pending_count: Value) -> Value:
        node = f.list_item(nodes, k)
        is_whole = lambda: ~f.is_object(f.get_slot(f.get_slot(node, "Node.recipe"), "Recipe.op"), "UNFINISHED")
        return pending_count + f.and_then(_is_pending(f, node), is_whole).cast("zext", I64)

    f.emit_return(f.call("PyLong_FromLongLong", POINTER, [f.fold_range(f.list_length(nodes), f.i64(0), add_node)]))


def _emit_filter_pending(f: FunctionBuilder) -> None:
    """Emit `filter_pending(references)`, called from Python: return a new list of the weak references in the list `references` whose nodes
    are alive and pending. Raise MemoryError if memory runs out.
    """
    references = f.arguments[1].load(POINTER)

    def keep_if_pending(k: Value, keep: Callable[[Value], None]) -> None:
        reference = f.list_item(references, k)
        node = f.call("PyWeakref_GetObject", POINTER, [reference])
        f.emit_if(f.and_then(f.is_instance(node, "Node"), lambda: _is_pending(f, node)), lambda: keep(reference))

    _return_filtered(f, f.list_length(references), keep_if_pending)


def _emit_find_owned(f: FunctionBuilder) -> None:
    """Emit `find_owned(nodes, numbers, reads)`, called from Python: return a new list of those `numbers` whose nodes have further
    references, as from the user's tensors. Raise MemoryError if memory runs out.

    The arguments are lists. Node `nodes[numbers[k]]` has `reads[k]` references from nodes of the graph and one from the list `nodes`.
    """
    nodes, numbers, reads = (f.arguments[1].at(k, POINTER).load(POINTER) for k in range(3))

    def keep_if_owned(k: Value, keep: Callable[[Value], None]) -> None:
        number = f.list_item(numbers, k)
        owners = f.load_refcount(f.list_item(nodes, f.unbox_integer(number))).cast("zext", I64)
        f.emit_if(owners.differs(f.unbox_integer(f.list_item(reads, k)) + 1), lambda: keep(number))

    _return_filtered(f, f.list_length(numbers), keep_if_owned)


def _return_filtered(f: FunctionBuilder, count: Value, look: Callable[[Value, Callable[[Value], None]], None]) -> None:
    """Emit the return of a new list of the objects that `look(k, keep)` passes to `keep`, for k = 0 to `count` - 1. The code of the emitted
    function ends here; it returns null if memory runs out.

    `look` and `keep` emit code; `keep(x)` appends `x` to the list.
    """
    filtered = f.require_new(f.call("PyList_New", POINTER, [f.i64(0)]))
    f.for_range(count, lambda k: look(k, lambda item: f.append_to_list(filtered, item)))
    f.transfer_held(filtered)
    f.emit_return(filtered)
