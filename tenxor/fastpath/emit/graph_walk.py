"""A walk through a pending graph that numbers nodes, offsets and scalars as `runtime/graph_signature.py` does, and writes a cache key. The
results stand in global tables (`_TABLE_LENGTHS`), the counts in the global `@walk_state`.

The keys of two graphs are equal if the same plan computes both. The tables hold addresses of borrowed objects. So from the start of a walk
until the results have been used, no Python code may run and no object tracked by the collector may be created.
"""

from __future__ import annotations

from collections.abc import Callable

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I64, POINTER, VOID
from ..graph_launch import MAX_KERNELS, MAX_NODES
from ..object_layout import SIZE_OFFSET, ObjectTable
from .function_builder import FunctionBuilder
from .tape_nodes import is_valueless

MAX_WALKED_NODES = 1 << 11  # most nodes of a graph for which Python code makes a plan; a launch record has at most `MAX_NODES`
MAX_WALK_DEPTH = 320  # depth of a graph: the walk recurses as deep on the thread's stack
MAX_READS, MAX_SCALARS = 1 << 12, 1 << 11  # most operands of a graph's nodes, and most scalars
MAX_KEY_WORDS = MAX_WALKED_NODES + 2 * MAX_READS  # of the cache key
# the hash table of visited nodes has four slots for each node; a slot holds the walk's number, the node, and the node's number
SLOTS_PER_NODE, SLOT_WORDS = 4, 3
HASH_SLOTS = MAX_WALKED_NODES * SLOTS_PER_NODE
HASH_MULTIPLIER = -7046029254386353131
MAX_BLOCKS = 2 * MAX_KERNELS  # memory blocks
_TABLE_LENGTHS = {
    "visited_slots": HASH_SLOTS * SLOT_WORDS,
    "key": MAX_KEY_WORDS,
    "nodes": MAX_WALKED_NODES,
    "addresses": MAX_WALKED_NODES,  # of the data of nodes in memory
    "first_reads": MAX_WALKED_NODES,  # the first of the node's entries in `reads`, or -1
    "offsets": MAX_READS,
    "scalars": MAX_SCALARS,
    "reads": 2 * MAX_READS,  # reads of memory: the offset, and the next entry of the same node, or -1
    "allocated_blocks": MAX_BLOCKS,
    "walk_state": 13,
}
# Words of `@walk_state`: the number of the walk; how many nodes it may visit, a power of two; the lengths of the tables; how many nodes are
# pending, and externally shared; a pending node on the way that has other references; how many recipes had no serial number yet, because no
# earlier walk visited them; and a pending node below the root that is marked as stored.
(
    WALK_NUMBER,
    VISIT_LIMIT,
    NODE_COUNT,
    KEY_WORD_COUNT,
    OFFSET_COUNT,
    SCALAR_COUNT,
    READ_COUNT,
    BLOCK_COUNT,
    PENDING_COUNT,
    SHARED_COUNT,
    HELD_NODE_ADDRESS,
    NEW_RECIPE_COUNT,
    MARKED_NODE_ADDRESS,
) = (8 * k for k in range(13))


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to walk through a pending graph, number its nodes, and write its cache key.

    The functions emitted include `begin_walk`, `visit_node`, `build_graph_key`, `capture_graph`, `python_capture`, `find_slot`,
    `find_read_entry` and `assign_recipe_number`.
    """
    for name, words in _TABLE_LENGTHS.items():
        module.define_global(name, f"internal global [{words} x i64] zeroinitializer, align 64")
    _emit_begin_walk(FunctionBuilder(module, objects, "begin_walk", [("visit_limit", I64)], VOID))
    _emit_find_slot(FunctionBuilder(module, objects, "find_slot", [("node", POINTER)]))
    _emit_assign_recipe_number(FunctionBuilder(module, objects, "assign_recipe_number", [("recipe", POINTER)], I64))
    _emit_find_read_entry(FunctionBuilder(module, objects, "find_read_entry", [("number", I64), ("offset", I64)], I64))
    _emit_visit_node(FunctionBuilder(module, objects, "visit_node", [("node", POINTER), ("depth", I64)], I1))
    _emit_build_graph_key(FunctionBuilder(module, objects, "build_graph_key", [("root", POINTER)]))
    _emit_capture_graph(FunctionBuilder(module, objects, "capture_graph", [("roots", POINTER), ("root_count", I64)]))
    _emit_python_capture(
        FunctionBuilder(module, objects, "python_capture", [("self", POINTER), ("roots", POINTER), ("root_count", I64)], is_exported=True)
    )


def load_recipe_number(f: FunctionBuilder, recipe: Value) -> Value:
    """Emit a call for the serial number of a recipe. Return the number, an `i64` above 0. No Python code runs.

    The emitted function returns null or 0 if memory runs out.
    """
    number = f.call("assign_recipe_number", I64, [recipe])
    f.require(number > 0)
    return number


def _emit_assign_recipe_number(f: FunctionBuilder) -> None:
    """Emit `assign_recipe_number(recipe)`: return the serial number of a recipe, an `i64`, assigned on the first call. Return 0 if memory
    runs out. The first calls are counted in the word `NEW_RECIPE_COUNT` of `@walk_state`.
    """
    (recipe,) = f.arguments
    known_number = f.get_slot(recipe, "Recipe._serial")
    f.return_if(~f.is_null(known_number), lambda: f.unbox_integer(known_number))
    next_number = f.call("next_recipe", I64, [])
    number = f.box_integer(next_number)
    f.set_slot(recipe, "Recipe._serial", number)
    f.transfer_held(number)
    _increment(f, NEW_RECIPE_COUNT)
    f.emit_return(next_number)


def get_table_address(f: FunctionBuilder, name: str, byte_offset: int = 0) -> Value:
    """Emit the address of byte `byte_offset` of the global table `name`, one of `_TABLE_LENGTHS`, and return the address. The walk through
    a graph keeps its results in these tables.
    """
    return f.define(POINTER, f"getelementptr i8, ptr @{name}, i64 {byte_offset}")


def load_walk_word(f: FunctionBuilder, word_offset: int) -> Value:
    """Emit a load of the word at byte `word_offset` of the global `@walk_state`: a count or an address noted by the walk, such as
    `NODE_COUNT`. Return the word, an `i64`.
    """
    return get_table_address(f, "walk_state", word_offset).load(I64)


def append_to_table(f: FunctionBuilder, name: str, length_offset: int, value: Value, max_length: Value | None = None) -> Value:
    """Emit the append of the word `value` to the global table `name`. Return the index of the word, an `i64`. `length_offset` is the byte
    offset of the table's length in `@walk_state`.

    The emitted function returns null or 0 if the table has `max_length` words already (None: its full size).
    """
    number = load_walk_word(f, length_offset)
    f.require(number < (_TABLE_LENGTHS[name] if max_length is None else max_length))
    _increment(f, length_offset)
    get_table_address(f, name).at(number, I64).store(value)
    return number


def _increment(f: FunctionBuilder, word_offset: int) -> None:
    """Emit an increment of the count at byte `word_offset` of the global `@walk_state`. Return None."""
    address = get_table_address(f, "walk_state", word_offset)
    address.store(address.load(I64) + 1)


def _emit_begin_walk(f: FunctionBuilder) -> None:
    """Emit `begin_walk(visit_limit)`: start a new walk, with empty tables, through a graph of up to `visit_limit` nodes. The function
    returns nothing.

    `visit_limit` is a power of two, at most `MAX_WALKED_NODES`.
    """
    (visit_limit,) = f.arguments
    for word_offset in (
        NODE_COUNT,
        KEY_WORD_COUNT,
        OFFSET_COUNT,
        SCALAR_COUNT,
        READ_COUNT,
        BLOCK_COUNT,
        PENDING_COUNT,
        SHARED_COUNT,
        HELD_NODE_ADDRESS,
        NEW_RECIPE_COUNT,
        MARKED_NODE_ADDRESS,
    ):
        get_table_address(f, "walk_state", word_offset).store(f.i64(0))
    _increment(f, WALK_NUMBER)
    get_table_address(f, "walk_state", VISIT_LIMIT).store(visit_limit)
    f.emit("ret void")


def _emit_find_slot(f: FunctionBuilder) -> None:
    """Emit `find_slot(node)`: return the address of the hash table slot of a node: the slot of the visited node, or the free slot to write
    the node to. `node` may be any object.

    A slot is occupied if its first word is the number of this walk. Then the address of the node and the number of the node follow.
    """
    (node,) = f.arguments
    walk, node_address, slot_mask = (
        load_walk_word(f, WALK_NUMBER),
        node.cast("ptrtoint", I64),
        load_walk_word(f, VISIT_LIMIT) * SLOTS_PER_NODE - 1,
    )
    slot_index = f.local(I64, (node_address * HASH_MULTIPLIER).logical_shift_right(64 - HASH_SLOTS.bit_length() + 1) & slot_mask)

    def slot() -> Value:
        return get_table_address(f, "visited_slots").at(slot_index.load(I64) * SLOT_WORDS, I64)

    def is_occupied() -> Value:
        return f.and_then(slot().load(I64).equals(walk), lambda: slot().at(1, I64).load(I64).differs(node_address))

    f.repeat_while(is_occupied, lambda: slot_index.store((slot_index.load(I64) + 1) & slot_mask))
    f.emit_return(slot())


def is_visited(f: FunctionBuilder, x: Value) -> Value:
    """Emit a test whether the object `x`, mostly a node, was visited since the last call of `begin_walk`. Return the result, an `i1`."""
    return f.call("find_slot", POINTER, [x]).load(I64).equals(load_walk_word(f, WALK_NUMBER))


def load_node_number(f: FunctionBuilder, x: Value) -> Value:
    """Emit a load of the number of the node `x`, which must have been visited since the last call of `begin_walk`. Return the number, an
    `i64`.
    """
    return f.call("find_slot", POINTER, [x]).at(2, I64).load(I64)


def mark_visited(f: FunctionBuilder, x: Value, number: Value) -> None:
    """Emit the marking of the object `x`, mostly a node, as visited, with the number `number`, an `i64`. `x` must not be marked yet; it
    becomes the next item of the table `nodes`. Return None.

    The emitted function returns null or 0 if the walk has visited as many nodes as it may.
    """
    itself = x.cast("ptrtoint", I64)
    append_to_table(f, "nodes", NODE_COUNT, itself, load_walk_word(f, VISIT_LIMIT))
    slot = f.call("find_slot", POINTER, [x])
    for k, word in enumerate((load_walk_word(f, WALK_NUMBER), itself, number)):
        slot.at(k, I64).store(word)


def key_to_bytes(f: FunctionBuilder) -> Value:
    """Emit the creation of a bytes object from the global table `key`, where the last walk (`begin_walk`) has written its cache key.

    Return a new reference, not held. It is null, with MemoryError set, if memory runs out.
    """
    return f.call("PyBytes_FromStringAndSize", POINTER, [get_table_address(f, "key"), load_walk_word(f, KEY_WORD_COUNT) * 8])


def _number_node(f: FunctionBuilder, node: Value, address: Value) -> None:
    """Emit the marking of `node` as visited, with the next number. Return None. `address` is the address of the node's data, or 0 for a
    pending node. The emitted function returns null or 0 where `mark_visited` does.
    """
    number = load_walk_word(f, NODE_COUNT)
    mark_visited(f, node, number)
    get_table_address(f, "addresses").at(number, I64).store(address)
    get_table_address(f, "first_reads").at(number, I64).store(f.i64(-1))


def _emit_find_read_entry(f: FunctionBuilder) -> None:
    """Emit `find_read_entry(number, offset)`: return the index of the entry in the table `reads` for a read of the node with the number
    `number`, in memory, at `offset` in elements. The first call for this pair adds the entry. `visit_node` and `sign_graph` call the
    function.
    """
    number, offset = f.arguments
    first_entry = get_table_address(f, "first_reads").at(number, I64)
    entry_index = f.local(I64, first_entry.load(I64))

    def get_entry(k: Value) -> Value:
        return get_table_address(f, "reads").at(k * 2, I64)

    def has_other_offset() -> Value:
        return f.and_then(entry_index.load(I64) >= 0, lambda: get_entry(entry_index.load(I64)).load(I64).differs(offset))

    f.repeat_while(has_other_offset, lambda: entry_index.store(get_entry(entry_index.load(I64)).at(1, I64).load(I64)))
    f.return_if(entry_index.load(I64) >= 0, lambda: entry_index.load(I64))
    new_entry = load_walk_word(f, READ_COUNT)  # the table has room for an entry for each read
    get_entry(new_entry).store(offset)
    get_entry(new_entry).at(1, I64).store(first_entry.load(I64))
    first_entry.store(new_entry)
    _increment(f, READ_COUNT)
    f.emit_return(new_entry)


def _emit_visit_node(f: FunctionBuilder) -> None:
    """Emit `visit_node(node, depth)`: visit the sources of a node not visited yet, then number the node and append it to the key and the
    tables. Return true.

    `depth` is the depth of the recursion. Return false if the fast path cannot run the graph: the graph is too large or too deep, or has
    traced or unfinished nodes. The tables are then incomplete. `build_graph_key` and `capture_graph` call the function.
    """
    node, depth = f.arguments
    f.require(depth < MAX_WALK_DEPTH)
    buffer = f.get_slot(node, "Node.buffer")

    def number_in_memory() -> Value:
        f.emit_if(~f.is_object(f.get_slot(buffer, "Buffer.externally_shared"), "0"), lambda: _increment(f, SHARED_COUNT))
        # No recipe number: distinguishes a node in memory from a pending node with the same readers
        append_to_table(f, "key", KEY_WORD_COUNT, f.i64(0))
        _number_node(f, node, f.unbox_address(f.get_slot(buffer, "Buffer.address")))
        return f.constant(I1, True)

    f.return_if(~f.is_object(buffer, "None"), number_in_memory)
    f.decline_if(is_valueless(f, f.get_slot(node, "Node.tape_node")))
    recipe, sources, offsets = (f.get_slot(node, f"Node.{slot}") for slot in ("recipe", "sources", "offsets"))
    f.decline_if(f.is_object(f.get_slot(recipe, "Recipe.op"), "UNFINISHED"))

    def visit_source(k: Value) -> None:
        source = f.tuple_item(sources, k)
        if_new = lambda: f.emit_if(~is_visited(f, source), lambda: f.require(f.call("visit_node", I1, [source, depth + 1])))
        f.emit_if(f.is_instance(source, "Node"), if_new)

    f.for_range(f.load_word(sources, SIZE_OFFSET), visit_source)
    is_marked = ~f.is_object(f.get_slot(node, "Node.is_stored"), "False")
    is_first_marked = is_marked & (depth > 0) & load_walk_word(f, MARKED_NODE_ADDRESS).equals(0)
    f.emit_if(is_first_marked, lambda: get_table_address(f, "walk_state", MARKED_NODE_ADDRESS).store(node.cast("ptrtoint", I64)))
    append_to_table(f, "key", KEY_WORD_COUNT, load_recipe_number(f, recipe) * 2 + is_marked.cast("zext", I64))
    f.for_range(
        f.load_word(offsets, SIZE_OFFSET), lambda k: append_to_table(f, "offsets", OFFSET_COUNT, f.unbox_integer(f.tuple_item(offsets, k)))
    )

    def read(k: Value) -> None:
        source = f.tuple_item(sources, k)

        def append_node_read() -> list[Value]:
            number = load_node_number(f, source)
            offset = f.unbox_integer(f.tuple_item(offsets, k))
            append_to_table(f, "key", KEY_WORD_COUNT, number)
            is_pending = f.is_object(f.get_slot(source, "Node.buffer"), "None")
            append_to_table(
                f,
                "key",
                KEY_WORD_COUNT,
                f.choose(is_pending, lambda: [offset], lambda: [f.call("find_read_entry", I64, [number, offset])])[0],
            )
            return []

        def append_scalar() -> list[Value]:
            append_to_table(f, "scalars", SCALAR_COUNT, source.cast("ptrtoint", I64))
            return []

        f.choose(f.is_instance(source, "Node"), append_node_read, append_scalar)

    f.for_range(f.load_word(sources, SIZE_OFFSET), read)
    _number_node(f, node, f.i64(0))
    _increment(f, PENDING_COUNT)
    f.emit_return(f.constant(I1, True))


def _emit_build_graph_key(f: FunctionBuilder) -> None:
    """Emit `build_graph_key(root)`: visit the graph of the pending node `root`, and return its cache key, a new bytes object; null if the
    fast path cannot run the graph (`visit_node`), or if memory runs out.
    """
    (root,) = f.arguments
    f.call("begin_walk", VOID, [f.i64(MAX_NODES)])
    f.require(f.call("visit_node", I1, [root, f.i64(0)]))
    f.emit_return(key_to_bytes(f))


def _emit_python_capture(f: FunctionBuilder) -> None:
    """Emit `python_capture(*roots)`, the entry for Python of `capture_graph`: it takes the root nodes as arguments, and returns None for
    null.
    """
    _, roots, root_count = f.arguments
    f.return_or_none(f.call("capture_graph", POINTER, [roots, root_count]))


def _emit_capture_graph(f: FunctionBuilder) -> None:
    """Emit `capture_graph(roots, root_count)`: return a new tuple of the arguments of `GraphSignature` for the graph below an array of
    pending roots.

    The items are the cache key, a bytes object; lists of the numbers of the roots, the nodes, the scalars, and the offsets with a 0 at the
    end; and the number of pending nodes. Return null if a root is in memory, the walk fails (`visit_node`), or memory runs out.
    """
    roots, root_count = f.arguments
    # before the walk, since an allocation can start a collection, which runs finalizers
    lists = [f.require_new(f.call("PyList_New", POINTER, [f.i64(0)])) for _ in range(4)]
    numbers, nodes, scalars, offsets = lists
    f.call("begin_walk", VOID, [f.i64(MAX_WALKED_NODES)])

    def visit(k: Value) -> None:
        root = roots.at(k, POINTER).load(POINTER)
        f.require(f.is_object(f.get_slot(root, "Node.buffer"), "None"))
        f.emit_if(~is_visited(f, root), lambda: f.require(f.call("visit_node", I1, [root, f.i64(0)])))
        append_to_table(f, "key", KEY_WORD_COUNT, load_node_number(f, root))
        _append_item(f, numbers, f.box_integer(load_node_number(f, root)))

    def append_all(name: str, length_offset: int, items: Value, build_item: Callable[[Value], Value]) -> None:
        f.for_range(load_walk_word(f, length_offset), lambda k: _append_item(f, items, build_item(get_table_address(f, name).at(k, I64))))

    f.for_range(root_count, visit)
    append_to_table(f, "key", KEY_WORD_COUNT, root_count)  # this separates the roots from the nodes in the key
    append_all("nodes", NODE_COUNT, nodes, lambda word_address: f.hold_borrowed(word_address.load(POINTER)))
    append_all("scalars", SCALAR_COUNT, scalars, lambda word_address: f.hold_borrowed(word_address.load(POINTER)))
    append_all("offsets", OFFSET_COUNT, offsets, lambda word_address: f.box_integer(word_address.load(I64)))
    _append_item(f, offsets, f.hold_borrowed(f.load_object("0")))
    waiting = f.box_integer(load_walk_word(f, PENDING_COUNT))
    key = f.require_new(key_to_bytes(f))
    f.emit_return(f.new_tuple(key, *lists, waiting))


def _append_item(f: FunctionBuilder, items: Value, item: Value) -> None:
    """Emit the append of `item` to the list `items`. Return None. The held reference to the item is consumed. The emitted function returns
    null or 0 if memory runs out.
    """
    f.append_to_list(items, item)
    f.release_held(item)
