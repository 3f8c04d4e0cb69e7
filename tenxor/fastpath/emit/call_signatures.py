"""Signatures of calls and of graphs: operations, dtypes and arguments, without the sizes of the tensors. A signature is a sequence of
64-bit words in the global `@signature`, valid until the next signature is written there. Of shapes and strides it says only which entries
are equal, 0 or 1. The distinct entries, the dims, are listed beside the words, each once (`get_dim_addresses`).

Calls of one signature share size-generic templates (`instantiate_templates.py`). No Python code runs while a signature is written.
"""

from __future__ import annotations

from collections.abc import Callable

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I64, POINTER, array
from ..object_layout import BYTES_CONTENT_OFFSET, FLOAT_VALUE_OFFSET, SIZE_OFFSET, TUPLE_ITEMS_OFFSET, ObjectTable
from ..sized_template import MAX_AXES, MAX_NOTED_SPECS
from .function_builder import FunctionBuilder
from .graph_walk import NODE_COUNT, get_table_address, load_node_number, load_walk_word
from .pending_operations import has_node_content
from .spec_table import HASH_MULTIPLIERS, load_operand_spec

MAX_SIGNATURE_WORDS = 512  # 64-bit words of a signature
RECENT_SIGNATURES = 64  # entries of the cache of recent signatures
# Integer arguments below this number are part of the signature, unless a dimension of a tensor has the same value
MIN_REFERENCED_INTEGER = 16
REFERENCE_BITS = 5  # bits of a reference to a number: 0 and 1 stand for themselves, k + 2 for entry k of the list of numbers
MAX_SIGNATURE_DIMS = (1 << REFERENCE_BITS) - 2
# Tags of arguments. A `REFERENCE_TAG` refers to the list of dims
TENSOR_TAG, INTEGER_TAG, REFERENCE_TAG, TUPLE_TAG, FLOAT_TAG, OBJECT_TAG = range(6)
_IDENTITY_TYPES = ("NoneType", "DType", "str", "type")


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to write and look up the signatures of calls and graphs.

    The functions emitted include `sign_call`, `sign_graph`, `sign_write`, `python_sign_call`, `python_sign_graph` and `clear_signatures`.
    """
    module.define_global("signature", f"internal global [{2 + MAX_SIGNATURE_WORDS + MAX_SIGNATURE_DIMS} x i64] zeroinitializer, align 64")
    module.define_global("signature_specs", f"internal global [{1 + MAX_NOTED_SPECS} x i64] zeroinitializer, align 64")
    module.define_global("recent_signatures", f"internal global [{2 * RECENT_SIGNATURES} x ptr] zeroinitializer, align 64")
    _emit_find_signature_entry(FunctionBuilder(module, objects, "find_signature_entry", []))
    _emit_clear_signatures(FunctionBuilder(module, objects, "clear_signatures", [("self", POINTER), ("unused", POINTER)], is_exported=True))
    _emit_add_dim(FunctionBuilder(module, objects, "add_dim", [("number", I64), ("may_add", I1)], I64))
    _emit_add_view(FunctionBuilder(module, objects, "add_view", [("spec", POINTER), ("storage", POINTER)], I1))
    _emit_add_integer(FunctionBuilder(module, objects, "add_integer", [("x", POINTER)], I1))
    _emit_add_argument(FunctionBuilder(module, objects, "add_argument", [("x", POINTER)], I1))
    sign_parameters = [("name", POINTER), ("arguments", POINTER), ("count", I64), ("names", POINTER), ("tape_mask", I64)]
    _emit_sign_call(FunctionBuilder(module, objects, "sign_call", sign_parameters, I1))
    write_parameters = [("storage", POINTER), ("spec", POINTER), ("value", POINTER)]
    _emit_sign_write(FunctionBuilder(module, objects, "sign_write", write_parameters, I1))
    _emit_sign_graph(FunctionBuilder(module, objects, "sign_graph", [("records", POINTER)], I1))
    _emit_get_graph_signature(FunctionBuilder(module, objects, "get_graph_signature", [("records", POINTER), ("root", POINTER)]))
    entry_parameters = [("self", POINTER), ("args", POINTER), ("count", I64)]
    _emit_python_sign_graph(FunctionBuilder(module, objects, "python_sign_graph", entry_parameters, is_exported=True))
    call_parameters = [(name, POINTER) for name in ("name", "args", "names", "further_shapes", "tape_mask")]
    _emit_get_call_signature(FunctionBuilder(module, objects, "get_call_signature", call_parameters))
    _emit_python_sign_call(
        FunctionBuilder(module, objects, "python_sign_call", [("self", POINTER), ("args", POINTER), ("count", I64)], is_exported=True)
    )


def _get_signature_address(f: FunctionBuilder, word_index: int) -> Value:
    """Emit the address of 64-bit word `word_index` of the global `@signature`, and return the address. The words are the count of words,
    the count of dims, then the words of the signature, then the dims.
    """
    return f.define(POINTER, f"getelementptr i64, ptr @signature, i64 {word_index}")


def _get_word_addresses(f: FunctionBuilder) -> tuple[Value, Value]:
    """Emit two addresses in the global `@signature`, and return both: of the count of words of the signature, and of the first word."""
    return _get_signature_address(f, 0), _get_signature_address(f, 2)


def get_dim_addresses(f: FunctionBuilder) -> tuple[Value, Value]:
    """Emit two addresses in the global `@signature`, and return both: of the count of dims of the signature written last, and of the first
    dim, a 64-bit integer.
    """
    return _get_signature_address(f, 1), _get_signature_address(f, 2 + MAX_SIGNATURE_WORDS)


def get_spec_addresses(f: FunctionBuilder) -> tuple[Value, Value]:
    """Emit two addresses in the global `@signature_specs`, and return both: of the count of tensors in the signature written last, and of
    the first pointer to a spec.

    Only the first `MAX_NOTED_SPECS` specs are listed, though all tensors are counted. The tensors own the specs.
    """
    count_address = f.define(POINTER, "getelementptr i64, ptr @signature_specs, i64 0")
    return count_address, count_address.at(1, POINTER)


def sign_call(f: FunctionBuilder, name: Value, arguments: Value, count: Value, keyword_names: Value, tape_mask: Value) -> Value:
    """Emit a call of the emitted function `sign_call`: write the signature of a call of `name`, and the dims of the call's tensors, to the
    global `@signature`. Return an `i1`: whether both were written, as some calls have no signature.

    `arguments` is the address of all `count` arguments, of which the last have the keywords in the tuple `keyword_names`, or null. Bit k of
    `tape_mask`, an `i64`, is set if argument k is on the autograd tape. The specs of all tensors must be resolved.
    """
    return f.call("sign_call", I1, [name, arguments, count, keyword_names, tape_mask])


def find_signature_entry(f: FunctionBuilder) -> Value:
    """Emit the lookup of the signature written last among the known signatures. Return the `size_generic.SignatureTemplates` stored for it,
    borrowed. The emitted function returns null or 0 if the signature is unknown.
    """
    entry = f.call("find_signature_entry", POINTER, [])
    f.decline_if(f.is_null(entry))
    return entry


def _emit_find_signature_entry(f: FunctionBuilder) -> None:
    """Emit `find_signature_entry()`: look up the signature written last, and return the `size_generic.SignatureTemplates` stored for it,
    borrowed; null on a miss.

    A direct-mapped cache of `RECENT_SIGNATURES` recent signatures, indexed by a hash of the words, stands before the dictionary in Python.
    An entry is valid while the dictionary refers to the `SignatureTemplates` too. An entry owned by the cache alone counts as a miss, but
    is not replaced: releasing the `SignatureTemplates` might run Python code, and this code might write another signature.
    `clear_signatures` empties the cache.
    """
    count_address, words = _get_word_addresses(f)
    count = count_address.load(I64)
    multiplier = HASH_MULTIPLIERS[0]
    hash_value = f.fold_range(count, count, lambda k, accumulated: accumulated * multiplier + words.at(k, I64).load(I64))
    recent_addresses = _get_recent_addresses(f, (hash_value * multiplier).logical_shift_right(64 - (RECENT_SIGNATURES - 1).bit_length()))
    recent_signature, recent_entry = (address.load(POINTER) for address in recent_addresses)

    def matches_signature() -> Value:
        differs = f.load_word(recent_signature, SIZE_OFFSET) ^ (count * 8)
        compared_words = f.select_value(differs.equals(0), count, f.i64(0))
        word = lambda k, accumulated: (
            accumulated | (words.at(k, I64).load(I64) ^ f.address_at(recent_signature, BYTES_CONTENT_OFFSET).at(k, I64).load(I64))
        )
        return f.fold_range(compared_words, differs, word).equals(0)

    is_recent = f.and_then(~f.is_null(recent_signature), lambda: f.and_then(matches_signature(), lambda: f.load_refcount(recent_entry) > 1))
    f.return_if(is_recent, lambda: recent_entry)
    signature = signature_to_bytes(f)
    entry = f.look_up(f.load_object("templates_by_signature"), signature)
    f.decline_if(f.is_null(entry))
    must_stay = f.and_then(~f.is_null(recent_signature), lambda: f.load_refcount(recent_entry).equals(1))

    def replace_recent() -> list[Value]:
        for address, x in zip(recent_addresses, (signature, entry), strict=True):
            address.store(f.incref(x))
        for x in (recent_signature, recent_entry):
            f.emit_if(~f.is_null(x), lambda x=x: f.decref(x))  # type: ignore[misc]
        return []

    f.choose(must_stay, lambda: [], replace_recent)
    f.release_held(signature)
    f.emit_return(entry)


def _get_recent_addresses(f: FunctionBuilder, k: Value) -> list[Value]:
    """Emit the addresses of the two pointers of entry `k` in the cache of recent signatures, and return both in a list: of the signature as
    bytes, and of the `SignatureTemplates`.
    """
    key_address = f.define(POINTER, "getelementptr ptr, ptr @recent_signatures, i64 0").at(k * 2, POINTER)
    return [key_address, key_address.at(1, POINTER)]


def _emit_clear_signatures(f: FunctionBuilder) -> None:
    """Emit `clear_signatures()`, called from Python after clearing the table of signatures: empty the cache of recent signatures, and
    return None.
    """

    def clear_entry(k: Value) -> None:
        recent_addresses = _get_recent_addresses(f, k)
        old_objects = [address.load(POINTER) for address in recent_addresses]
        for address in recent_addresses:
            address.store(f.null())
        for x in old_objects:
            f.emit_if(~f.is_null(x), lambda x=x: f.decref(x))  # type: ignore[misc]

    f.for_range(f.i64(RECENT_SIGNATURES), clear_entry)
    f.emit_return(f.incref(f.load_object("None")))


def signature_to_bytes(f: FunctionBuilder) -> Value:
    """Emit the creation of a bytes object with the words of the signature written last. Return the object, which is held (see
    `FunctionBuilder.hold_owned`). The emitted function returns null or 0 if memory runs out.
    """
    count, words = _get_word_addresses(f)
    return f.require_new(f.call("PyBytes_FromStringAndSize", POINTER, [words, count.load(I64) * 8]))


def _add_word(f: FunctionBuilder, word: Value | int) -> None:
    """Emit the append of `word` to the signature written now (global `@signature`). Return None.

    A word beyond `MAX_SIGNATURE_WORDS` is counted, but not stored: the final count shows the overflow.
    """
    count_address, words = _get_word_addresses(f)
    count = count_address.load(I64)
    f.emit_if(count < MAX_SIGNATURE_WORDS, lambda: words.at(count, I64).store(f.i64(word) if isinstance(word, int) else word))
    count_address.store(count + 1)


def _add_object(f: FunctionBuilder, x: Value) -> None:
    """Emit the append of the address of the object `x` to the signature. The `SignatureTemplates` stored for a signature keep its objects
    alive.
    """
    _add_word(f, x.cast("ptrtoint", I64))


def _emit_add_dim(f: FunctionBuilder) -> None:
    """Emit `add_dim(number, may_add)`: return the reference to the `i64` `number` in the list of dims of the signature: 0 or 1 for these
    numbers, or k + 2 for entry k of the list.

    A missing number is appended to the list if `may_add` is true and the list has room; otherwise the result is -1.
    """
    number, may_add = f.arguments
    count_address, dims = get_dim_addresses(f)
    count, index = count_address.load(I64), f.local(I64, f.i64(0))
    f.return_if((number | 1).equals(1), lambda: number)
    f.repeat_while(
        lambda: f.and_then(index.load(I64) < count, lambda: dims.at(index.load(I64), I64).load(I64).differs(number)),
        lambda: index.store(index.load(I64) + 1),
    )
    f.return_if(index.load(I64) < count, lambda: index.load(I64) + 2)
    f.return_if(~f.and_then(may_add, lambda: count < MAX_SIGNATURE_DIMS), lambda: f.i64(-1))
    dims.at(count, I64).store(number)
    count_address.store(count + 1)
    f.emit_return(count + 2)


def _add_dim(f: FunctionBuilder, number: Value) -> Value:
    """Emit the reference to `number`, a Python integer, in the list of dims of the signature. Return the reference, an `i64` (see
    `add_dim`). A missing integer is appended.

    The emitted function returns null or 0 if the list is full.
    """
    reference = f.call("add_dim", I64, [f.unbox_integer(number), f.constant(I1, True)])
    f.decline_if(reference < 0)
    return reference


def _add_axes(f: FunctionBuilder, *tuples: Value) -> None:
    """Emit the append of one word to the signature: the number of axes, followed by a reference to each item of `tuples`, dims of equally
    many axes.

    The emitted function returns null or 0 for more than `MAX_AXES` axes, and if the list of dims is full.
    """
    word = ndim = f.load_word(tuples[0], SIZE_OFFSET)
    f.require(ndim <= MAX_AXES)
    for items in tuples:
        add = lambda k, packed, items=items: (packed << REFERENCE_BITS) | _add_dim(f, f.tuple_item(items, k))
        word = f.fold_range(ndim, word, add)
    _add_word(f, word)


def _add_tensor(f: FunctionBuilder, x: Value) -> None:
    """Emit the append of the tensor `x` to the signature by `add_view`. Return None. The emitted function returns null or 0
    if that fails.
    """
    f.require(f.call("add_view", I1, [f.get_slot(x, "Tensor.spec"), f.get_slot(x, "Tensor.storage")]))


def _emit_add_view(f: FunctionBuilder) -> None:
    """Emit `add_view(spec, storage)`: append a view with the spec `spec` of `storage` to the signature: its dtype, shape and strides. Also
    list the spec (`get_spec_addresses`). Return true.

    Return false, so that no signature exists, where `spec` is null or has no strides or too many axes, the list of dims is full, the
    storage has no node, or the node has another dtype.
    """
    spec, storage = f.arguments
    f.decline_if(f.is_null(spec))
    dtype, shape, strides = f.get_slot(spec, "Spec.dtype"), f.get_slot(spec, "Spec.shape"), f.get_slot(spec, "Spec.strides")
    f.decline_if(f.is_object(strides, "None"))
    f.require(has_node_content(f, storage))
    f.require(f.get_slot(f.get_slot(f.get_slot(storage, "Storage.node"), "Node.recipe"), "Recipe.dtype").equals(dtype))
    _add_object(f, dtype)
    _add_axes(f, shape, strides)
    count_address, specs = get_spec_addresses(f)
    count = count_address.load(I64)
    f.emit_if(count < MAX_NOTED_SPECS, lambda: specs.at(count, POINTER).store(spec))
    count_address.store(count + 1)
    f.emit_return(f.constant(I1, True))


def _emit_add_integer(f: FunctionBuilder) -> None:
    """Emit `add_integer(x)`: append an integer argument to the signature. Return true, or false, so that no signature exists, if the
    integer does not fit into 64 bits.

    A reference is appended if the list of dims has the integer, or if the integer is `MIN_REFERENCED_INTEGER` or more and there is room.
    Otherwise the value is appended, as the integer may be an axis or a repeat count. `add_argument` calls the function.
    """
    value, fits = f.unbox_checked(f.arguments[0])
    f.require(fits)
    reference = f.call("add_dim", I64, [value, value >= MIN_REFERENCED_INTEGER])
    is_number = reference > 1
    _add_word(f, f.select_value(is_number, f.i64(REFERENCE_TAG), f.i64(INTEGER_TAG)))
    _add_word(f, f.select_value(is_number, reference, value))
    f.emit_return(f.constant(I1, True))


def _emit_add_argument(f: FunctionBuilder) -> None:
    """Emit `add_argument(x)`: append the argument `x` to the signature: a tag (`TENSOR_TAG` to `OBJECT_TAG`) and a value; a tensor adds
    only its tag. Return true, or false, so that no signature exists, for other types than the following.

    Accepted are tensors, Python's floats, bools and 64-bit ints, None, dtypes, strings, types, and `NamedDefault`s. A tuple is accepted if
    it has only ints and such tuples.
    """
    (x,) = f.arguments
    kind = f.type_of(x)

    def accept(add: Callable[[], object]) -> Callable[[], Value]:
        def add_and_accept() -> Value:
            add()
            return f.constant(I1, True)

        return add_and_accept

    def add_float() -> None:
        _add_word(f, FLOAT_TAG)
        _add_word(f, f.load_word(x, FLOAT_VALUE_OFFSET))

    def make_object_adder(x: Value) -> Callable[[], None]:
        def add() -> None:
            _add_word(f, OBJECT_TAG)
            _add_object(f, x)

        return add

    f.return_if(f.is_instance(x, "Tensor"), accept(lambda: _add_word(f, TENSOR_TAG)))
    f.return_if(f.is_object(kind, "int"), lambda: f.call("add_integer", I1, [x]))
    f.return_if(f.is_object(kind, "float"), accept(add_float))
    f.return_if(f.or_else(f.is_object(x, "True"), lambda: f.is_object(x, "False")), accept(make_object_adder(x)))
    for name in _IDENTITY_TYPES:
        f.return_if(f.is_object(kind, name), accept(make_object_adder(x)))
    f.return_if(f.is_object(kind, "NamedDefault"), accept(make_object_adder(kind)))
    f.require(f.is_object(kind, "tuple"))
    _add_word(f, TUPLE_TAG)
    _add_word(f, f.load_word(x, SIZE_OFFSET))

    def add_item(k: Value) -> None:
        item = f.tuple_item(x, k)
        f.require(f.or_else(f.is_instance(item, "int"), lambda: f.is_instance(item, "tuple")))
        f.require(f.call("add_argument", I1, [item]))

    f.for_range(f.load_word(x, SIZE_OFFSET), add_item)
    f.emit_return(f.constant(I1, True))


def _begin_signature(f: FunctionBuilder, name: Value, count: Value | int) -> None:
    """Emit the start of a new signature, for a callee `name` with `count` arguments: the first two words. Words, dims and specs of the last
    signature are dropped. `name` is any object that stands for the callee.
    """
    for count_address in (_get_word_addresses(f)[0], get_dim_addresses(f)[0], get_spec_addresses(f)[0]):
        count_address.store(f.i64(0))
    _add_object(f, name)
    _add_word(f, count)


def _emit_sign_call(f: FunctionBuilder) -> None:
    """Emit `sign_call(name, arguments, count, names, tape_mask)`: write the signature of a call of `name` to the global `@signature`, and
    return whether the call has one.

    The words are the callee, the argument count and the tape mask; the views of the tensors; the arguments; and the keywords. `arguments`
    is the address of all `count` arguments, of which the last have the keywords in the tuple `names`, or null. Bit k of `tape_mask` is set
    if argument k is on the tape. The result is false for an argument that `add_argument` does not accept, and for more than
    `MAX_SIGNATURE_WORDS` words.
    """
    name, arguments, count, names, tape_mask = f.arguments
    _begin_signature(f, name, count)
    _add_word(f, tape_mask)

    def add_tensor(k: Value) -> None:
        x = arguments.at(k, POINTER).load(POINTER)
        f.emit_if(f.is_instance(x, "Tensor"), lambda: _add_tensor(f, x))

    f.for_range(count, add_tensor)

    def add_argument(k: Value) -> None:
        x = arguments.at(k, POINTER).load(POINTER)

        def add_other_argument() -> list[Value]:
            f.require(f.call("add_argument", I1, [x]))
            return []

        def add_tensor_tag() -> list[Value]:
            _add_word(f, TENSOR_TAG)
            return []

        f.choose(f.is_instance(x, "Tensor"), add_tensor_tag, add_other_argument)

    f.for_range(count, add_argument)
    f.emit_if(~f.is_null(names), lambda: f.for_range(f.load_word(names, SIZE_OFFSET), lambda k: _add_object(f, f.tuple_item(names, k))))
    f.emit_return(_get_word_addresses(f)[0].load(I64) <= MAX_SIGNATURE_WORDS)


def _emit_sign_graph(f: FunctionBuilder) -> None:
    """Emit `sign_graph(records)`: write the signature of the graph visited last (by `build_graph_key`) to the global `@signature`. Return
    whether the graph has one.

    The signature begins with the address of `records`, the dictionary that will hold the launch record of the graph. The result is false
    for layouts with offset tables or more than `MAX_AXES` axes, and for more than `MAX_SIGNATURE_DIMS` dims or `MAX_SIGNATURE_WORDS` words.
    """
    (records,) = f.arguments
    _begin_signature(f, records, load_walk_word(f, NODE_COUNT))

    def add_node(k: Value) -> None:
        node = get_table_address(f, "nodes").at(k, POINTER).load(POINTER)
        recipe = f.get_slot(node, "Node.recipe")
        is_in_memory = ~f.is_object(f.get_slot(node, "Node.buffer"), "None")
        _add_word(f, is_in_memory.cast("zext", I64))
        _add_object(f, f.get_slot(recipe, "Recipe.dtype"))
        _add_axes(f, f.get_slot(recipe, "Recipe.shape"))
        f.emit_if(~is_in_memory, lambda: _add_pending(f, node, recipe))

    f.for_range(load_walk_word(f, NODE_COUNT), add_node)
    f.emit_return(_get_word_addresses(f)[0].load(I64) <= MAX_SIGNATURE_WORDS)


def _add_pending(f: FunctionBuilder, node: Value, recipe: Value) -> None:
    """Emit the append of the pending node `node` with the recipe `recipe` to the signature. Return None.

    The words are the operation, whether the node is stored, each source with dtype and layout, and the target layout. The emitted function
    returns null or 0 for layouts without a place in a signature.
    """
    sources, offsets = f.get_slot(node, "Node.sources"), f.get_slot(node, "Node.offsets")
    _add_object(f, f.get_slot(recipe, "Recipe.op"))
    _add_word(f, (~f.is_object(f.get_slot(node, "Node.is_stored"), "False")).cast("zext", I64))
    _add_word(f, f.load_word(sources, SIZE_OFFSET))

    def add_source(k: Value) -> None:
        source = f.tuple_item(sources, k)
        is_node = f.is_instance(source, "Node")
        _add_object(f, f.tuple_item(f.get_slot(recipe, "Recipe.dtypes"), k))
        _add_operand_layout(f, recipe, k)
        _add_word(f, is_node.cast("zext", I64))
        f.emit_if(is_node, lambda: add_source_node(source, f.tuple_item(offsets, k)))

    def add_source_node(source: Value, offset: Value) -> None:
        number = load_node_number(f, source)
        _add_word(f, number)
        is_pending = f.is_object(f.get_slot(source, "Node.buffer"), "None")
        number_offset = lambda: [f.call("find_read_entry", I64, [number, f.unbox_integer(offset)])]
        _add_word(f, f.choose(is_pending, lambda: [_add_dim(f, offset)], number_offset)[0])

    f.for_range(f.load_word(sources, SIZE_OFFSET), add_source)
    _add_operand_layout(f, recipe, f.load_word(sources, SIZE_OFFSET))


def _add_operand_layout(f: FunctionBuilder, recipe: Value, k: Value) -> None:
    """Emit the append of the layout through which `recipe` reads source `k`, or of the target layout for k = number of sources. `k` is an
    `i64`. Return None.

    Layouts are taken from the specs of a recipe made by the fast path, otherwise from the layout keys.
    """
    layout_keys = f.get_slot(recipe, "Recipe._layout_keys")

    def add_from_spec() -> list[Value]:
        spec = load_operand_spec(f, recipe, k)

        def add_spec_axes() -> None:
            _add_word(f, 1)
            _add_axes(f, f.get_slot(spec, "Spec.shape"), f.get_slot(spec, "Spec.strides"))

        f.emit_if(~f.is_object(spec, "None"), add_spec_axes)
        _add_word(f, 0)
        return []

    def add_from_layout_key() -> list[Value]:
        is_target = k.equals(f.load_word(layout_keys, SIZE_OFFSET))
        layout_key = f.choose(is_target, lambda: [f.get_slot(recipe, "Recipe._target")], lambda: [f.tuple_item(layout_keys, k)])[0]
        _add_layout_key(f, layout_key)
        return []

    f.choose(f.is_null(f.get_slot(recipe, "Recipe.packed_specs")), add_from_layout_key, add_from_spec)


def _add_layout_key(f: FunctionBuilder, layout_key: Value) -> None:
    """Emit the append of `layout_key` to the signature: a 1 and the axes of each layout of its view chain, and a closing 0.

    In a chain of several layouts, the offset follows the axes of each. If `layout_key` is the object None, only the 0 is appended. The
    emitted function returns null or 0 if a layout has offset tables.
    """
    none_object = f.load_object("None")
    has_layout_key = ~f.is_object(layout_key, "None")
    first_layout = f.choose(has_layout_key, lambda: [f.get_slot(layout_key, "LayoutKey.layout")], lambda: [none_object])[0]
    is_chain = f.and_then(has_layout_key, lambda: ~f.is_object(f.get_slot(first_layout, "Layout.base"), "None"))
    next_layout = f.local(POINTER, first_layout)

    def add_layout() -> None:
        layout = next_layout.load(POINTER)
        f.require(f.is_object(f.get_slot(layout, "Layout.tables"), "None"))
        _add_word(f, 1)
        _add_axes(f, f.get_slot(layout, "Layout.shape"), f.get_slot(layout, "Layout.strides"))
        f.emit_if(is_chain, lambda: _add_word(f, _add_dim(f, f.get_slot(layout, "Layout.offset"))))
        next_layout.store(f.get_slot(layout, "Layout.base"))

    f.repeat_while(lambda: ~f.is_object(next_layout.load(POINTER), "None"), add_layout)
    _add_word(f, 0)


def _emit_get_graph_signature(f: FunctionBuilder) -> None:
    """Emit `get_graph_signature(records, root)`: return a new tuple for the graph of the pending node `root`: the cache key and the
    signature, both as bytes, and the tuple of dims.

    `records` is the dictionary that will hold the launch record of the graph. Return null if the fast path cannot run the graph, if the
    graph has no signature, or if memory runs out.
    """
    records, root = f.arguments
    key = f.require_new(f.call("build_graph_key", POINTER, [root]))
    f.require(f.call("sign_graph", I1, [records]))
    signature, dims = signature_to_bytes(f), _new_dims_tuple(f)
    result = f.new_tuple(key, signature, dims)
    f.transfer_held(result)
    f.emit_return(result)


def _emit_python_sign_graph(f: FunctionBuilder) -> None:
    """Emit `python_sign_graph(records, root)`, called from Python: return the result of `get_graph_signature`, a tuple of three items for
    the same arguments, or None for null.
    """
    args = f.arguments[1]
    f.return_or_none(f.call("get_graph_signature", POINTER, [args.at(k, POINTER).load(POINTER) for k in range(2)]))


def _new_dims_tuple(f: FunctionBuilder) -> Value:
    """Emit the creation of a tuple of the dims of the signature written last, as Python integers. Return the tuple, which is held (see
    `FunctionBuilder.hold_owned`).

    The dims are copied to a local array first: allocation may start the collector, which may run Python code that writes another signature.
    The emitted function returns null or 0 if memory runs out.
    """
    count_address, dims = get_dim_addresses(f)
    count, copied_dims = count_address.load(I64), f.local(array(I64, MAX_SIGNATURE_DIMS))
    f.for_range(count, lambda k: copied_dims.at(k, I64).store(dims.at(k, I64).load(I64)))
    return f.require_new(f.call("box_integers", POINTER, [copied_dims, count]))


def _add_shape(f: FunctionBuilder, shape: Value) -> None:
    """Emit the append of a shape, a tuple, to the signature: a word for the number of axes, and a word for the reference to each size. The
    emitted function returns null or 0 if the list of dims is full.
    """
    _add_word(f, f.load_word(shape, SIZE_OFFSET))
    f.for_range(f.load_word(shape, SIZE_OFFSET), lambda k: _add_word(f, _add_dim(f, f.tuple_item(shape, k))))


def _emit_sign_write(f: FunctionBuilder) -> None:
    """Emit `sign_write(storage, spec, value)`: put the signature of an assignment into the global `@signature`: `value`, a tensor or a
    number, is written through a view of `storage` with the spec `spec`. Return whether the assignment has a signature: false if a value or
    view has no place in one, or for more than `MAX_SIGNATURE_WORDS` words.

    After the views come the shapes of the whole storages, which are the shapes of the nodes of the assignment. `write_part` calls the
    function.
    """
    storage, spec, value = f.arguments
    is_tensor = f.is_instance(value, "Tensor")
    _begin_signature(f, f.load_object("'write_part'"), 2)
    _add_word(f, 0)
    f.require(f.call("add_view", I1, [spec, storage]))
    f.emit_if(is_tensor, lambda: _add_tensor(f, value))
    _add_word(f, TENSOR_TAG)
    f.require(f.call("add_argument", I1, [f.select_value(is_tensor, value, f.type_of(value))]))

    def load_stored_shape(storage: Value) -> list[Value]:
        return [f.get_slot(f.get_slot(f.get_slot(storage, "Storage.node"), "Node.recipe"), "Recipe.shape")]

    _add_shape(f, *load_stored_shape(storage))
    _add_shape(f, *f.choose(is_tensor, lambda: load_stored_shape(f.get_slot(value, "Tensor.storage")), lambda: [f.load_object("()")]))
    f.emit_return(_get_word_addresses(f)[0].load(I64) <= MAX_SIGNATURE_WORDS)


def _emit_get_call_signature(f: FunctionBuilder) -> None:
    """Emit `get_call_signature(name, args, names, further_shapes, tape_mask)`: return the signature of a call and its dims, as a new pair.

    The signature is a bytes object without sizes: it shows only which dims are equal, 0 or 1. The dims are a tuple of the distinct numbers
    left out: entries of shapes and strides of the tensors, and larger integer arguments. `name` names the function called. The tuple `args`
    has every argument; the last ones belong to the keywords in the tuple `names`. The shapes in the tuple `further_shapes` are appended to
    the signature. Bit k of the Python integer `tape_mask` is set if argument k is on the autograd tape. Return null if an argument cannot
    be part of a signature, or if the signature is too long.
    """
    name, args, names, further_shapes, tape_mask = f.arguments
    f.require(sign_call(f, name, f.address_at(args, TUPLE_ITEMS_OFFSET), f.load_word(args, SIZE_OFFSET), names, f.unbox_integer(tape_mask)))
    f.for_range(f.load_word(further_shapes, SIZE_OFFSET), lambda k: _add_shape(f, f.tuple_item(further_shapes, k)))
    f.require(_get_word_addresses(f)[0].load(I64) <= MAX_SIGNATURE_WORDS)
    signature, dims = signature_to_bytes(f), _new_dims_tuple(f)
    pair = f.new_tuple(signature, dims)
    f.transfer_held(pair)
    f.emit_return(pair)


def _emit_python_sign_call(f: FunctionBuilder) -> None:
    """Emit `python_sign_call(name, args, names, further_shapes, tape_mask)`, called from Python: return the result of `get_call_signature`,
    a pair for the same arguments, or None for null.
    """
    args = f.arguments[1]
    f.return_or_none(f.call("get_call_signature", POINTER, [args.at(k, POINTER).load(POINTER) for k in range(5)]))
