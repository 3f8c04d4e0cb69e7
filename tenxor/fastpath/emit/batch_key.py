"""The batch key: bytes that tell how nodes depend on the placeholders of a function traced by `vmap` or `scan`. A placeholder is a node
without a value, in place of an argument; a traced node is one that depends on it.

Under this key `autodiff/batching.py` records the nodes of a batch, and `autodiff/scan_loop.py` compiled iterations.

The code is a walk as in `graph_walk.py`, on the same tables, so no Python code runs until the result is put together.
"""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I64, POINTER, VOID
from ..object_layout import SIZE_OFFSET, ObjectTable
from .function_builder import FunctionBuilder
from .graph_walk import (
    KEY_WORD_COUNT,
    MAX_WALK_DEPTH,
    MAX_WALKED_NODES,
    append_to_table,
    is_visited,
    key_to_bytes,
    load_node_number,
    load_recipe_number,
    mark_visited,
)
from .tape_nodes import is_valueless

# Nodes have numbers from 0 on if they are placeholders or depend on one, and below 0 if they are further inputs. This number marks a
# visited node that depends on no placeholder, and so is the same for all batch elements.
INDEPENDENT_NODE_NUMBER = -1 << 40


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to build the key of traced nodes from a walk through them.

    The functions emitted include `is_traced`, `append_to_batch_key`, `build_batch_key` and its entry for Python, `python_batch_key`.
    """
    _emit_is_traced(FunctionBuilder(module, objects, "is_traced", [("x", POINTER)], I1))
    parameters = [("node", POINTER), ("next_number", POINTER), ("inputs", POINTER), ("depth", I64), ("has_marks", I1)]
    _emit_append_to_batch_key(FunctionBuilder(module, objects, "append_to_batch_key", parameters, I1))
    key_parameters = [(name, POINTER) for name in ("roots", "placeholders", "inputs", "marks_flag")]
    _emit_build_batch_key(FunctionBuilder(module, objects, "build_batch_key", key_parameters))
    f = FunctionBuilder(module, objects, "python_batch_key", [("self", POINTER), ("args", POINTER), ("count", I64)], is_exported=True)
    f.return_or_none(f.call("build_batch_key", POINTER, [f.arguments[1].at(k, POINTER).load(POINTER) for k in range(len(key_parameters))]))


def _emit_is_traced(f: FunctionBuilder) -> None:
    """Emit `is_traced(x)`: return whether the object `x` is a node that depends on a placeholder, without being one. `append_to_batch_key`
    and `build_batch_key` call the function.
    """
    (x,) = f.arguments
    f.require(f.is_instance(x, "Node"))
    tape_node = f.get_slot(x, "Node.tape_node")
    f.decline_if(f.is_object(f.get_slot(f.get_slot(x, "Node.recipe"), "Recipe.op"), "PLACEHOLDER"))
    f.emit_return(is_valueless(f, tape_node))


def _visit_if_traced(f: FunctionBuilder, node: Value, *further_arguments: Value) -> None:
    """Emit a visit of `node` by `append_to_batch_key`, if `node` depends on a placeholder and was not visited yet.

    `further_arguments` are the further arguments of `append_to_batch_key`. The emitted function returns null or 0 if the visit fails.
    """
    is_new = f.and_then(f.call("is_traced", I1, [node]), lambda: ~is_visited(f, node))
    f.emit_if(is_new, lambda: f.require(f.call("append_to_batch_key", I1, [node, *further_arguments])))


def _load_mark(f: FunctionBuilder, node: Value, has_marks: Value) -> Value:
    """Emit the mark of `node`, a traced node or placeholder: an `i64` that the key adds to four times the number of the recipe. The mark is
    1 with a tape node, 2 for a constant, otherwise 0. If the `i1` `has_marks` is false, the mark is 0.

    The emitted function returns null or 0 for a constant without `has_marks`, and for a tape node with a hook if `has_marks`.
    """
    tape_node = f.get_slot(node, "Node.tape_node")
    is_constant, is_recorded = f.is_object(tape_node, "CONSTANT"), f.is_instance(tape_node, "TapeNode")
    f.require(has_marks | ~is_constant)
    f.emit_if(has_marks & is_recorded, lambda: f.require(f.is_object(f.get_slot(tape_node, "TapeNode.grad_hook"), "None")))
    return f.select_value(has_marks, is_recorded.cast("zext", I64) + is_constant.cast("zext", I64) * 2, f.i64(0))


def _depends_on_placeholder(f: FunctionBuilder, x: Value) -> Value:
    """Emit a test whether `x`, a node or a scalar, was visited in this walk, and is a placeholder or depends on one. Return the result, an
    `i1`.
    """
    return f.and_then(is_visited(f, x), lambda: load_node_number(f, x) >= 0)


def _emit_append_to_batch_key(f: FunctionBuilder) -> None:
    """Emit `append_to_batch_key(node, next_number, inputs, depth, has_marks)`: append the traced node `node` to the key, after the nodes
    that it reads, and give it a number. The function calls itself for these nodes. Return true.

    A node independent of the placeholders is only marked (`INDEPENDENT_NODE_NUMBER`). `next_number` is the address of the number that the
    next node gets, `inputs` the list of further inputs, and `depth` the depth of the recursion. With `has_marks`, the key tells nodes with
    a tape node, constants and other nodes apart. The function returns false if the recipe of a node does not determine its value, if
    `depth` is too large, and where `_load_mark` declines.
    """
    node, next_number, inputs, depth, has_marks = f.arguments
    f.require(depth < MAX_WALK_DEPTH)
    tape_node, recipe, sources, offsets = (f.get_slot(node, f"Node.{slot}") for slot in ("tape_node", "recipe", "sources", "offsets"))
    mark = _load_mark(f, node, has_marks)
    f.decline_if(f.is_instance(f.get_slot(recipe, "Recipe.op"), "ExternalOp"))
    # The result of a function with its own derivative has a tape node with sources and of another recipe.
    is_leaf = lambda: f.load_word(f.get_slot(tape_node, "TapeNode.sources"), SIZE_OFFSET).equals(0)
    has_matching_recipe = lambda: f.or_else(f.get_slot(tape_node, "TapeNode.recipe").equals(recipe), is_leaf)
    f.require(f.or_else(~f.is_instance(tape_node, "TapeNode"), has_matching_recipe))
    f.for_range(
        f.load_word(sources, SIZE_OFFSET),
        lambda k: _visit_if_traced(f, f.tuple_item(sources, k), next_number, inputs, depth + 1, has_marks),
    )
    depends = f.fold_range(
        f.load_word(sources, SIZE_OFFSET),
        f.i64(0),
        lambda k, has_dependency: has_dependency | _depends_on_placeholder(f, f.tuple_item(sources, k)).cast("zext", I64),
    )

    def mark_independent() -> Value:
        mark_visited(f, node, f.i64(INDEPENDENT_NODE_NUMBER))
        return f.constant(I1, True)

    f.return_if(depends.equals(0), mark_independent)
    append_to_table(f, "key", KEY_WORD_COUNT, load_recipe_number(f, recipe) * 4 + mark)
    f.for_range(
        f.load_word(offsets, SIZE_OFFSET), lambda k: append_to_table(f, "key", KEY_WORD_COUNT, f.unbox_integer(f.tuple_item(offsets, k)))
    )
    f.for_range(f.load_word(sources, SIZE_OFFSET), lambda k: _append_source(f, f.tuple_item(sources, k), inputs))
    number = next_number.load(I64)
    mark_visited(f, node, number)
    next_number.store(number + 1)
    f.emit_return(f.constant(I1, True))


def _append_source(f: FunctionBuilder, source: Value, inputs: Value) -> None:
    """Emit the append of the number of `source`, a node or a scalar that a node of the batch reads, to the key. Return None.

    A source independent of the placeholders is appended to the list `inputs` when first read, and numbered -1, -2, and so on. Then the key
    first gets the serial number of the recipe of data in memory for the source, or 0 for a scalar. The emitted function returns null or 0
    if memory runs out.
    """
    was_visited = is_visited(f, source)

    def append_input() -> None:
        number = f.i64(-1) - f.list_length(inputs)
        f.append_to_list(inputs, source)

        def load_number() -> list[Value]:
            recipe = f.get_slot(source, "Node.recipe")
            return [load_recipe_number(f, f.first_non_null(f.get_slot(recipe, "Recipe._data_recipe"), recipe))]

        append_to_table(f, "key", KEY_WORD_COUNT, f.choose(f.is_instance(source, "Node"), load_number, lambda: [f.i64(0)])[0])
        f.emit_if(was_visited, lambda: f.call("find_slot", POINTER, [source]).at(2, I64).store(number))
        f.emit_if(~was_visited, lambda: mark_visited(f, source, number))

    f.emit_if(f.or_else(~was_visited, lambda: load_node_number(f, source).equals(INDEPENDENT_NODE_NUMBER)), append_input)
    append_to_table(f, "key", KEY_WORD_COUNT, load_node_number(f, source))


def _emit_build_batch_key(f: FunctionBuilder) -> None:
    """Emit `build_batch_key(roots, placeholders, inputs, marks_flag)`: return the key of traced nodes, a new bytes object; null to decline.
    Python calls the function as `python_batch_key`. The key tells how the roots depend on the placeholders.

    `roots`, `placeholders` and `inputs` are lists; `marks_flag`, True or False, is `has_marks` of `append_to_batch_key`.
    The nodes and scalars read besides the placeholders are appended to `inputs`. After null, `inputs` may have grown.
    """
    roots, placeholders, inputs, marks_flag = f.arguments
    has_marks = f.is_object(marks_flag, "True")
    f.call("begin_walk", VOID, [f.i64(MAX_WALKED_NODES)])
    next_number = f.local(I64, f.list_length(placeholders))

    def append_placeholder(k: Value) -> None:
        placeholder = f.list_item(placeholders, k)
        number = load_recipe_number(f, f.get_slot(placeholder, "Node.recipe"))
        append_to_table(f, "key", KEY_WORD_COUNT, number * 4 + _load_mark(f, placeholder, has_marks))
        mark_visited(f, placeholder, k)

    def append_root(k: Value) -> None:
        for number in (k, load_node_number(f, f.list_item(roots, k))):
            append_to_table(f, "key", KEY_WORD_COUNT, number)

    f.for_range(f.list_length(placeholders), append_placeholder)
    f.for_range(f.list_length(roots), lambda k: _visit_if_traced(f, f.list_item(roots, k), next_number, inputs, f.i64(0), has_marks))
    f.for_range(f.list_length(roots), lambda k: f.emit_if(_depends_on_placeholder(f, f.list_item(roots, k)), lambda: append_root(k)))
    f.emit_return(key_to_bytes(f))
