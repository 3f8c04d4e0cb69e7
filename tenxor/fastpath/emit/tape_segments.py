"""Derivatives: the collection of the tape nodes that lead to given nodes, and the signature of a tape segment, consecutive tape nodes.
`autodiff/reverse.py` and `autodiff/segment_signature.py` do the same in Python.

Both are walks in the tables of `graph_walk.py`. So no Python code runs until their results are put together.
"""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I32, I64, POINTER, VOID
from ..object_layout import SIZE_OFFSET, ObjectTable
from .function_builder import FunctionBuilder
from .graph_walk import (
    KEY_WORD_COUNT,
    MAX_WALKED_NODES,
    append_to_table,
    is_visited,
    key_to_bytes,
    load_node_number,
    load_recipe_number,
    mark_visited,
)

# Forms in which a tape node keeps a source. `DEPENDS_FLAG` is added if derivatives depend on this source
NOT_KEPT, NODE_KEPT, SCALAR_KEPT, TAPE_NODE_KEPT, DEPENDS_FLAG = 0, 1, 2, 3, 4


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to collect tape nodes and write the signature of a tape segment.

    The functions emitted are `get_tape_node`, `collect_tape` and `build_segment_key`, and for Python `python_collect_tape` and
    `python_segment_key`, which return None for null.
    """
    _emit_get_tape_node(FunctionBuilder(module, objects, "get_tape_node", [("residual", POINTER)]))
    tape_parameters, key_parameters = ("roots", "first_serial"), ("segment", "depends", "requested", "nodes", "old_inputs")
    _emit_collect_tape(FunctionBuilder(module, objects, "collect_tape", [(name, POINTER) for name in tape_parameters]))
    _emit_build_segment_key(FunctionBuilder(module, objects, "build_segment_key", [(name, POINTER) for name in key_parameters]))
    for_python = [("self", POINTER), ("args", POINTER), ("count", I64)]
    for name, function, parameters in (
        ("python_collect_tape", "collect_tape", tape_parameters),
        ("python_segment_key", "build_segment_key", key_parameters),
    ):
        f = FunctionBuilder(module, objects, name, for_python, is_exported=True)
        f.return_or_none(f.call(function, POINTER, [f.arguments[1].at(k, POINTER).load(POINTER) for k in range(len(parameters))]))


def _emit_get_tape_node(f: FunctionBuilder) -> None:
    """Emit `get_tape_node(residual)`: return the content of the slot `tape_node` of the node `residual`, borrowed: a tape node, a mark or
    None.

    Another object, such as a tape node, is returned unchanged. `collect_tape` and `build_segment_key` call the function.
    """
    (residual,) = f.arguments
    f.return_if(f.is_instance(residual, "Node"), lambda: f.get_slot(residual, "Node.tape_node"))
    f.emit_return(residual)


def _emit_collect_tape(f: FunctionBuilder) -> None:
    """Emit `collect_tape(roots, first_serial)`: return the tape nodes that lead to the nodes in the list `roots`, in no order, with serial
    numbers from `first_serial` on.

    `first_serial` is a Python integer. Python calls the function as `python_collect_tape`. The result is a new tuple of three items: the
    list of tape nodes; a dictionary from a tape node to its node, for tape nodes that read the node's value; and a bool, whether the walk
    met older tape nodes. The function returns null, to leave the work to Python, if a tape node was freed by an earlier backward pass, and
    for more than `MAX_WALKED_NODES` tape nodes.
    """
    roots, first_serial = f.arguments
    # before the walk, since an allocation can start a collection, which runs finalizers
    order = f.require_new(f.call("PyList_New", POINTER, [f.i64(0)]))
    nodes = f.require_new(f.call("PyDict_New", POINTER, []))
    position, goes_on, lowest = f.local(I64, f.i64(0)), f.local(I64, f.i64(0)), f.unbox_integer(first_serial)
    f.call("begin_walk", VOID, [f.i64(MAX_WALKED_NODES)])

    def examine(residual: Value) -> None:
        tape_node = f.call("get_tape_node", POINTER, [residual])

        def add_tape_node() -> None:
            f.decline_if(f.is_object(f.get_slot(tape_node, "TapeNode.sources"), "FREED_SOURCES"))
            mark_visited(f, tape_node, f.i64(0))
            f.append_to_list(order, tape_node)
            reads = f.and_then(f.is_instance(residual, "Node"), lambda: f.is_object(f.get_slot(tape_node, "TapeNode.reads_result"), "True"))
            f.emit_if(reads, lambda: f.require(f.call("PyDict_SetItem", I32, [nodes, tape_node, residual]).equals(0)))

        def examine_tape_node() -> None:
            is_before = f.unbox_integer(f.get_slot(tape_node, "TapeNode.serial")) < lowest
            f.emit_if(is_before, lambda: goes_on.store(f.i64(1)))
            f.emit_if(~is_before, add_tape_node)

        f.emit_if(f.and_then(f.is_instance(tape_node, "TapeNode"), lambda: ~is_visited(f, tape_node)), examine_tape_node)

    def examine_sources() -> None:
        sources = f.get_slot(f.list_item(order, position.load(I64)), "TapeNode.sources")
        f.for_range(f.load_word(sources, SIZE_OFFSET), lambda k: examine(f.tuple_item(sources, k)))
        position.store(position.load(I64) + 1)

    f.for_range(f.list_length(roots), lambda k: examine(f.list_item(roots, k)))
    f.repeat_while(lambda: position.load(I64) < f.list_length(order), examine_sources)
    f.emit_return(f.new_tuple(order, nodes, f.hold_owned(f.box_bool(goes_on.load(I64).differs(0)))))


def _emit_build_segment_key(f: FunctionBuilder) -> None:
    """Emit `build_segment_key(segment, depends, requested, nodes, old_inputs)`: return a new tuple: the signature of a tape segment as
    bytes, a list of the new inputs of the segment, and a list of the outer tape nodes.

    Python calls the function as `python_segment_key`. `segment` is the list of its tape nodes; `depends` the set of the tape nodes that
    matter for the derivative; `requested` the set of the tape nodes asked about; `nodes` a dictionary from a tape node to the node with a
    value read by the derivative; and `old_inputs` the list of inputs so far. Outer tape nodes are outside of the segment, but read by it.
    The function returns null if a tape node of the segment is traced, or if the segment is too large.
    """
    segment, depends, requested, nodes, old_inputs = f.arguments
    new_inputs, outer = (f.require_new(f.call("PyList_New", POINTER, [f.i64(0)])) for _ in range(2))
    old_input_count = f.list_length(old_inputs)
    f.call("begin_walk", VOID, [f.i64(MAX_WALKED_NODES)])

    def put_word(value: Value) -> None:
        append_to_table(f, "key", KEY_WORD_COUNT, value)

    def put_input(x: Value) -> None:
        def add_input() -> None:
            mark_visited(f, x, old_input_count + f.list_length(new_inputs))
            f.append_to_list(new_inputs, x)

        f.emit_if(~is_visited(f, x), add_input)
        put_word(load_node_number(f, x))

    def put_tape_node(tape_node: Value) -> None:
        def add_outer() -> None:
            mark_visited(f, tape_node, f.i64(-1) - f.list_length(outer))
            f.append_to_list(outer, tape_node)

        f.emit_if(~is_visited(f, tape_node), add_outer)
        put_word(load_node_number(f, tape_node))
        recipe = f.get_slot(tape_node, "TapeNode.recipe")  # an equal call of a function has another recipe, with the same data recipe
        put_word(load_recipe_number(f, f.first_non_null(f.get_slot(recipe, "Recipe._data_recipe"), recipe)))

    def put_residual(residual: Value) -> None:
        tape_node = f.call("get_tape_node", POINTER, [residual])
        is_tape_node = f.is_instance(tape_node, "TapeNode")
        matters = f.choose(is_tape_node, lambda: [_is_in_set(f, depends, tape_node)], lambda: [f.i64(0)])[0]
        is_node, is_scalar = f.is_instance(residual, "Node"), f.is_instance(residual, "Scalar")
        kind = f.select_value(is_node, f.i64(NODE_KEPT), f.select_value(is_scalar, f.i64(SCALAR_KEPT), f.i64(TAPE_NODE_KEPT)))
        put_word(f.select_value(f.is_object(residual, "None"), f.i64(NOT_KEPT), kind) + matters * DEPENDS_FLAG)
        f.emit_if(matters.differs(0), lambda: put_tape_node(tape_node))
        f.emit_if(is_node, lambda: put_word(load_recipe_number(f, f.get_slot(residual, "Node.recipe"))))
        f.emit_if(f.or_else(is_node, lambda: is_scalar), lambda: put_input(residual))

    def put_segment_node(k: Value) -> None:
        tape_node = f.list_item(segment, k)
        f.require(f.is_object(f.get_slot(tape_node, "TapeNode.is_traced"), "False"))
        offsets, sources = (f.get_slot(tape_node, f"TapeNode.{slot}") for slot in ("offsets", "sources"))
        put_word(load_recipe_number(f, f.get_slot(tape_node, "TapeNode.recipe")))
        f.for_range(f.load_word(offsets, SIZE_OFFSET), lambda k: put_word(f.unbox_integer(f.tuple_item(offsets, k))))
        put_word(_is_in_set(f, requested, tape_node))
        node = f.look_up(nodes, tape_node)
        f.emit_if(f.is_null(node), lambda: put_word(f.i64(-1)))
        f.emit_if(~f.is_null(node), lambda: put_input(node))
        f.for_range(f.load_word(sources, SIZE_OFFSET), lambda k: put_residual(f.tuple_item(sources, k)))

    f.for_range(f.list_length(segment), lambda k: mark_visited(f, f.list_item(segment, k), k))
    f.for_range(old_input_count, lambda k: mark_visited(f, f.list_item(old_inputs, k), k))
    f.for_range(f.list_length(segment), put_segment_node)
    key = f.require_new(key_to_bytes(f))
    f.emit_return(f.new_tuple(key, new_inputs, outer))


def _is_in_set(f: FunctionBuilder, members: Value, x: Value) -> Value:
    """Emit a test whether the object `x` is in the set `members`. Return an `i64`: 1 if it is, else 0. The emitted function returns null or
    0 on an error.
    """
    is_member = f.call("PySet_Contains", I32, [members, x])
    f.require(is_member >= 0)
    return is_member.cast("sext", I64)
