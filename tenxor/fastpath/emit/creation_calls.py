"""Functions that create tensors: replays of recorded calls, and tensors from Python lists and NumPy arrays. A blank tensor has
uninitialized memory.
"""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import DOUBLE, I1, I8, I32, I64, POINTER, array
from ...tensor.creation_cache import LIST_KINDS, MAX_CACHE_ENTRIES
from ..limits import MAX_SMALL_BLOCK_BYTES
from ..object_layout import TUPLE_ITEMS_OFFSET, ObjectTable
from .call_replay import count_arguments, return_keyword_call, spread_arguments
from .call_signatures import sign_call
from .function_builder import FunctionBuilder
from .instantiate_templates import find_data_recipe, instantiate_signature
from .node_creation import can_evaluate_early
from .node_evaluation import new_node_in_memory
from .python_conversion import is_known_scalar, load_data_address, use_if_bytes
from .spec_table import load_nbytes

FLOAT_KIND, BOOLEAN_KIND = LIST_KINDS[float], LIST_KINDS[bool]
MAX_ROWS = 1 << 31  # limit of rows, and of elements in a row, in the 31-bit fields of the key of a list


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to create tensors: replayed creation calls, blank tensors, and tensors from lists and arrays.

    The functions emitted include `replay_creation`, `create_tensor`, `python_new_blank`, `python_from_list`, `python_from_array`,
    `python_fill_rows` and `python_copy_buffer`.
    """
    called = [("self", POINTER), ("args", POINTER), ("count", I64)]
    parameters = [("args", POINTER), ("count", I64), ("names", POINTER), ("name", POINTER), ("table", POINTER)]
    _emit_create_tensor(FunctionBuilder(module, objects, "create_tensor", parameters))
    named_call_parameters = [("args", POINTER), ("count", I64), ("keyword_count", I64), ("name", POINTER), ("table", POINTER)]
    rule_parameters = [*[(name, POINTER) for name in ("table", "key", "name", "args")], ("argument_count", I64), ("names", POINTER)]
    _emit_instantiate_creation(FunctionBuilder(module, objects, "instantiate_creation", rule_parameters))
    _emit_keyword_creation(FunctionBuilder(module, objects, "keyword_creation", named_call_parameters))
    _emit_new_blank(FunctionBuilder(module, objects, "new_blank", [("recipe", POINTER), ("spec", POINTER)]))
    _emit_load_element(FunctionBuilder(module, objects, "load_element", [("item", POINTER)]))
    _emit_fill_row(FunctionBuilder(module, objects, "fill_row", [("numbers", POINTER), ("to", POINTER), ("count", I64), ("kind", I64)], I1))
    rows_and_kind = [("rows", I64), ("count", I64), ("kind", I64)]
    _emit_fill_rows(FunctionBuilder(module, objects, "fill_rows", [("numbers", POINTER), ("to", POINTER), *rows_and_kind], I1))
    list_parameters = [("numbers", POINTER), ("table", POINTER)]
    _emit_tensor_of_kind(FunctionBuilder(module, objects, "tensor_of_kind", [*list_parameters, *rows_and_kind]))
    _emit_copy_buffer(FunctionBuilder(module, objects, "copy_buffer", [("source", POINTER), ("to", POINTER), ("nbytes", I64)], I1))
    _emit_replay_creation(FunctionBuilder(module, objects, "replay_creation", called, is_exported=True))
    _emit_python_new_blank(FunctionBuilder(module, objects, "python_new_blank", called, is_exported=True))
    _emit_python_from_list(FunctionBuilder(module, objects, "python_from_list", called, is_exported=True))
    _emit_python_from_array(FunctionBuilder(module, objects, "python_from_array", called, is_exported=True))
    _emit_cache_blank(FunctionBuilder(module, objects, "cache_blank", [(name, POINTER) for name in ("table", "key", "dtype", "shape")]))
    _emit_tensor_from_list(FunctionBuilder(module, objects, "tensor_from_list", list_parameters))
    _emit_tensor_from_numpy(FunctionBuilder(module, objects, "tensor_from_numpy", [("array", POINTER), ("table", POINTER)]))
    _emit_python_fill_rows(FunctionBuilder(module, objects, "python_fill_rows", called, is_exported=True))
    _emit_python_copy_buffer(FunctionBuilder(module, objects, "python_copy_buffer", called, is_exported=True))


def _load_arguments(f: FunctionBuilder, count: int) -> list[Value]:
    """Emit loads of the first `count` arguments of the function being emitted, an entry for Python: its second argument is the address of
    these arguments. Return the objects, borrowed.
    """
    return [f.arguments[1].at(k, POINTER).load(POINTER) for k in range(count)]


def _emit_replay_creation(f: FunctionBuilder) -> None:
    """Emit `replay_creation(name, args, named, table)`, called from Python: replay a creation call as recorded in the dictionary `table`.
    Return the tensor, or None to decline.

    `name` is the name of the function, `args` the tuple of positional arguments, and `named` the dictionary of keyword arguments.
    """
    name, args, named, table = _load_arguments(f, 4)

    def call(positional: Value, count: Value, keyword_count: Value) -> Value:
        create_positional = lambda: [f.call("create_tensor", POINTER, [positional, count, f.null(), name, table])]
        return f.choose(
            keyword_count.equals(0),
            create_positional,
            lambda: [f.call("keyword_creation", POINTER, [positional, count, keyword_count, name, table])],
        )[0]

    f.return_or_none(spread_arguments(f, args, named, call, first_item=0))


def _emit_keyword_creation(f: FunctionBuilder) -> None:
    """Emit `keyword_creation(args, count, keyword_count, name, table)`: return the result of `create_tensor` for a call with keywords: a
    new tensor, or null to decline.

    `args` is the address of `count` positional arguments, then `keyword_count` keyword values, then the keywords. `replay_creation` calls
    the function.
    """
    args, count, keyword_count, name, table = f.arguments
    return_keyword_call(f, args, count, keyword_count, lambda names: f.call("create_tensor", POINTER, [args, count, names, name, table]))


def _emit_create_tensor(f: FunctionBuilder) -> None:
    """Emit `create_tensor(args, count, names, name, table)`: return a new tensor, the pending result of a call of the creation function
    `name`, such as "zeros"; null to decline, as for an argument without a key (`build_key`).

    The template is taken from the dictionary `table`, or made by a size-generic template; without either, the call is declined. `args` is
    the address of `count` positional arguments, then the values for the keywords in the tuple `names`, or null. A tensor without content
    (`empty`) is pending only if it has more than `MAX_SMALL_BLOCK_BYTES` bytes, because all of its memory may never be needed.
    `replay_creation` calls the function.
    """
    args, count, names, name, table = f.arguments
    no_names, argument_count = f.is_null(names), count_arguments(f, count, names)
    key = f.require_new(f.call("PyTuple_New", POINTER, [argument_count + f.select_value(no_names, f.i64(1), f.i64(2))]))
    f.address_at(key, TUPLE_ITEMS_OFFSET).store(f.incref(name))

    def store_item_key(k: Value) -> None:
        item_key = f.call("build_key", POINTER, [args.at(k, POINTER).load(POINTER)])
        f.decline_if(f.is_null(item_key))
        f.address_at(key, TUPLE_ITEMS_OFFSET).at(k + 1, POINTER).store(item_key)

    f.for_range(argument_count, store_item_key)
    f.emit_if(~no_names, lambda: f.address_at(key, TUPLE_ITEMS_OFFSET).at(argument_count + 1, POINTER).store(f.incref(names)))
    cached = f.look_up(table, key)
    instantiate_rule = lambda: [f.call("instantiate_creation", POINTER, [table, key, name, args, argument_count, names])]
    (template,) = f.choose(f.is_null(cached), instantiate_rule, lambda: [f.incref(cached)], (1, 1000))
    f.require_new(template)
    f.release_held(key)
    spec, first_recipe = f.get_slot(template, "ResultTemplate.spec"), f.tuple_item(f.get_slot(template, "StepsTemplate.step_recipes"), 0)
    has_content = ~f.is_object(f.get_slot(first_recipe, "Recipe.op"), "EMPTY")
    new_in_memory = lambda: [f.call("new_blank", POINTER, [f.get_slot(first_recipe, "Recipe._data_recipe"), spec])]
    is_pending = f.or_else(has_content, lambda: load_nbytes(f, spec) > MAX_SMALL_BLOCK_BYTES)
    (tensor,) = f.choose(is_pending, lambda: [f.call("replay_steps", POINTER, [template, f.null()])], new_in_memory, (1000, 1))
    f.require_new(tensor)
    f.release_held(template)
    f.transfer_held(tensor)
    f.emit_return(tensor)


def _emit_instantiate_creation(f: FunctionBuilder) -> None:
    """Emit `instantiate_creation(table, key, name, args, argument_count, names)`: make the template of a creation call by a size-generic
    template, and record it in the dictionary `table` under `key`.

    `args` is the address of the `argument_count` arguments, of which the last have the keywords in the tuple `names`, or null. Return the
    template as a new reference; null without a size-generic template, or if `table` is full. `create_tensor` calls the function.
    """
    table, key, name, args, argument_count, names = f.arguments
    f.require(f.call("PyDict_Size", I64, [table]) < MAX_CACHE_ENTRIES)
    f.require(sign_call(f, name, args, argument_count, names, f.i64(0)))
    template = instantiate_signature(f)
    f.require(f.call("PyDict_SetItem", I32, [table, key, template]).equals(0))
    f.untrack(key)
    f.transfer_held(template)
    f.emit_return(template)


def _emit_python_new_blank(f: FunctionBuilder) -> None:
    """Emit `python_new_blank(recipe, spec)`, called from Python: return the new, uninitialized tensor of `new_blank` for the same
    arguments, or None to decline.
    """
    f.return_or_none(f.call("new_blank", POINTER, _load_arguments(f, 2)))


def _emit_new_blank(f: FunctionBuilder) -> None:
    """Emit `new_blank(recipe, spec)`: return a new tensor of the spec `spec` in new, uninitialized memory of any size; null if memory is
    short.

    `recipe` is the recipe of data in memory, with the size of this memory. The references to both are not taken over.
    """
    recipe, spec = f.arguments
    node = new_node_in_memory(f, recipe, f.require_new(f.call("allocate_result", POINTER, [recipe])))
    f.hold_borrowed(spec)
    f.transfer_held(node, spec)
    f.emit_return(f.call("new_tensor", POINTER, [node, spec]))


def _emit_python_from_list(f: FunctionBuilder) -> None:
    """Emit `python_from_list(numbers, table)`, called from Python: return the tensor of `tensor_from_list` for the same arguments, or None
    to decline.
    """
    f.return_or_none(f.call("tensor_from_list", POINTER, _load_arguments(f, 2)))


def _emit_python_from_array(f: FunctionBuilder) -> None:
    """Emit `python_from_array(array, table)`, called from Python: return a new tensor with a copy of the elements of a NumPy array.

    Return None to decline: for an array that is large, read-only or not C-contiguous, or of another dtype (`tensor_from_numpy`). The
    dictionary `table` caches recipe and spec by shape and dtype.
    """
    f.return_or_none(f.call("tensor_from_numpy", POINTER, _load_arguments(f, 2)))


def _emit_tensor_from_list(f: FunctionBuilder) -> None:
    """Emit `tensor_from_list(numbers, table)`: return a new tensor with the numbers of a list, or of a list of equally long lists; null to
    decline.

    The dtype is float64 if one of the numbers is a float, int64 for integers, and bool if all are bools. A 0-d tensor with a known number,
    such as an element of another tensor, is a number, too. Other contents are declined, and so are empty lists and more than
    `MAX_SMALL_BLOCK_BYTES` bytes. The dictionary `table` caches recipe and spec by the sizes; new sizes are declined if it is full. The
    result is a new reference. `convert_value` and `python_from_list` call the function.
    """
    numbers, table = f.arguments
    size = f.list_length(numbers)
    f.require(size > 0)
    first_item = f.list_item(numbers, f.i64(0))

    def measure_rows() -> list[Value]:
        count = f.list_length(first_item)
        f.require(count > 0)
        return [size, count, f.list_item(first_item, f.i64(0))]

    rows, count, first_number = f.choose(f.is_instance(first_item, "list"), measure_rows, lambda: [f.i64(0), size, first_item])
    first_number = f.call("load_element", POINTER, [first_number])
    f.decline_if(f.is_null(first_number))
    is_float, is_bool = f.is_instance(first_number, "float"), f.is_instance(first_number, "bool type")
    f.require(is_float | is_bool | f.is_instance(first_number, "int"))
    f.require(f.and_then(rows < MAX_ROWS, lambda: count < MAX_ROWS))
    kind = f.select_value(is_float, f.i64(FLOAT_KIND), f.select_value(is_bool, f.i64(BOOLEAN_KIND), f.i64(LIST_KINDS[int])))
    tensor = f.call("tensor_of_kind", POINTER, [numbers, table, rows, count, kind])
    f.return_if(~f.is_null(tensor), lambda: tensor)
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    f.require(kind.equals(LIST_KINDS[int]))  # a float among integers
    f.emit_return(f.call("tensor_of_kind", POINTER, [numbers, table, rows, count, f.i64(FLOAT_KIND)]))


def _emit_tensor_of_kind(f: FunctionBuilder) -> None:
    """Emit `tensor_of_kind(numbers, table, rows, count, kind)`: return a new tensor, a new reference, of a list of `count` numbers, or of
    `rows` such lists if `rows` is not 0. Return null if a number has no value of the kind `kind` (`LIST_KINDS`), or a list another length.
    `table` is the cache of `tensor_from_list`. `tensor_from_list` calls the function.
    """
    numbers, table, rows, count, kind = f.arguments
    key = f.box_integer((((rows << 31) | count) << 2) | kind)
    (shape,) = f.choose(rows.equals(0), lambda: [_new_size_tuple(f, count)], lambda: [_new_size_tuple(f, rows, count)])
    f.require_new(shape)
    integer_or_bool = f.select_value(kind.equals(BOOLEAN_KIND), f.load_object("bool"), f.load_object("int64"))
    dtype = f.select_value(kind.equals(FLOAT_KIND), f.load_object("float64"), integer_or_bool)
    tensor = _new_cached_blank(f, table, key, dtype, shape)
    f.release_held(shape)
    node = f.get_slot(f.get_slot(tensor, "Tensor.storage"), "Storage.node")
    f.require(f.call("fill_rows", I1, [numbers, load_data_address(f, f.get_slot(node, "Node.buffer")), rows, count, kind]))
    f.transfer_held(tensor)
    f.emit_return(tensor)


def _emit_load_element(f: FunctionBuilder) -> None:
    """Emit `load_element(item)`: return the known number of a 0-d tensor of float64, int64 or bool, or any other object itself; null for
    other tensors, and while a call is recorded. The reference is borrowed, and no Python code runs. `fill_row` and `tensor_from_list` call
    the function.
    """
    (item,) = f.arguments
    f.return_if(~f.has_type(item, "Tensor"), lambda: item)
    f.require(f.is_instance(item, "Tensor"))
    spec, storage = f.get_slot(item, "Tensor.spec"), f.get_slot(item, "Tensor.storage")
    f.require(f.is_object(spec, "0-d spec float64") | f.is_object(spec, "0-d spec int64") | f.is_object(spec, "0-d spec bool"))
    f.require(f.and_then(can_evaluate_early(f), lambda: is_known_scalar(f, storage)))
    f.require(f.get_slot(storage, "ScalarStorage._dtype").equals(f.get_slot(item, "Tensor.dtype")))
    f.emit_return(f.get_slot(storage, "ScalarStorage._number"))


def _emit_tensor_from_numpy(f: FunctionBuilder) -> None:
    """Emit `tensor_from_numpy(array, table)`: return a new tensor with a copy of the elements of a C-contiguous, writable array of at most
    `MAX_SMALL_BLOCK_BYTES` bytes. Return null for other arrays, and for a dtype without a counterpart.

    The dictionary `table` caches recipe and spec by shape and dtype. The result is a new reference. `convert_value`, `convert_index` and
    `python_from_array` call the function.
    """
    values, table = f.arguments
    shape, dtype = (f.require_new(f.call("PyObject_GetAttr", POINTER, [values, f.load_object(f"'{name}'")])) for name in ("shape", "dtype"))
    tensor_dtype = f.look_up(f.load_object("dtype of NumPy dtype"), dtype)
    f.decline_if(f.is_null(tensor_dtype))
    tensor = _new_cached_blank(f, table, f.new_tuple(shape, dtype), tensor_dtype, shape)
    nbytes = load_nbytes(f, f.get_slot(tensor, "Tensor.spec"))
    node = f.get_slot(f.get_slot(tensor, "Tensor.storage"), "Storage.node")
    f.require(f.call("copy_buffer", I1, [values, load_data_address(f, f.get_slot(node, "Node.buffer")), nbytes]))
    f.transfer_held(tensor)
    f.emit_return(tensor)


def _new_size_tuple(f: FunctionBuilder, *sizes: Value) -> Value:
    """Emit the creation of a tuple of Python integers from `sizes`. Return a new reference that is not held; null if memory runs out."""
    size_array = f.local(array(I64, len(sizes)))
    for k, size in enumerate(sizes):
        size_array.at(k, I64).store(size)
    return f.call("box_integers", POINTER, [size_array, f.i64(len(sizes))])


def _new_cached_blank(f: FunctionBuilder, table: Value, key: Value, dtype: Value, shape: Value) -> Value:
    """Emit the creation of an uninitialized tensor with the recipe and spec in `table[key]`, which are made for `dtype` and `shape` if
    missing. Return the tensor, which is held (see `FunctionBuilder.hold_owned`).

    The held reference to `key` is released. The emitted function returns null or 0 where `cache_blank` or `new_blank` gives null.
    """
    cached_pair = f.look_up(table, key)
    make_pair = lambda: [f.call("cache_blank", POINTER, [table, key, dtype, shape])]
    (pair,) = f.choose(f.is_null(cached_pair), make_pair, lambda: [f.incref(cached_pair)], (1, 1000))
    f.require_new(pair)
    f.release_held(key)
    tensor = f.require_new(f.call("new_blank", POINTER, [f.tuple_item(pair, 0), f.tuple_item(pair, 1)]))
    f.release_held(pair)
    return tensor


def _emit_cache_blank(f: FunctionBuilder) -> None:
    """Emit `cache_blank(table, key, dtype, shape)`: store the recipe and the spec of an uninitialized, contiguous tensor of `dtype` and the
    tuple `shape` in the dictionary `table`.

    The pair of recipe and spec becomes `table[key]`, and is returned as a new reference. Return null if the table is full, or if the tensor
    has more than `MAX_SMALL_BLOCK_BYTES` bytes.
    """
    table, key, dtype, shape = f.arguments
    f.require(f.call("PyDict_Size", I64, [table]) < MAX_CACHE_ENTRIES)
    spec = f.require_new(f.call("find_dense_spec", POINTER, [dtype, shape]))
    f.require(load_nbytes(f, spec) <= MAX_SMALL_BLOCK_BYTES)
    recipe = find_data_recipe(f, spec)
    pair = f.new_tuple(recipe, spec)
    f.require(f.call("PyDict_SetItem", I32, [table, key, pair]).equals(0))
    f.transfer_held(pair)
    f.emit_return(pair)


def _emit_python_fill_rows(f: FunctionBuilder) -> None:
    """Emit `python_fill_rows(numbers, buffer, rows, count, kind)`, called from Python: write the numbers of a list into the memory of a
    `Buffer`. `numbers` is a list of `count` numbers, or, if `rows` > 0, `rows` lists of `count` numbers.

    Return a bool: whether every list has its length, and every number has a value of the kind `kind`, one of `LIST_KINDS`. After False,
    some numbers may be written.
    """
    numbers, buffer, *boxed_numbers = _load_arguments(f, 5)
    rows, count, kind = (f.unbox_integer(x) for x in boxed_numbers)
    success = f.call("fill_rows", I1, [numbers, load_data_address(f, buffer), rows, count, kind])
    f.emit_return(f.box_bool(success))


def _emit_fill_rows(f: FunctionBuilder) -> None:
    """Emit `fill_rows(numbers, to, rows, count, kind)`: write a list of `count` numbers, or of `rows` such lists, to the address `to`,
    contiguously. Return true, or false for other contents; then some numbers may be written.

    `rows` is 0 for a flat list. `kind`, a value of `LIST_KINDS`, is the kind of the numbers, as in `fill_row`. `tensor_of_kind` and
    `python_fill_rows` call the function.
    """
    numbers, to, rows, count, kind = f.arguments
    f.return_if(rows.equals(0), lambda: f.call("fill_row", I1, [numbers, to, count, kind]))
    f.require(f.is_instance(numbers, "list"))
    row_bytes = count * f.select_value(kind.equals(BOOLEAN_KIND), f.i64(1), f.i64(8))

    def fill_row(k: Value) -> None:
        line = f.list_item(numbers, k)
        f.require(f.call("fill_row", I1, [line, to.at(k * row_bytes, I8), count, kind]))

    f.require(f.list_length(numbers).equals(rows))
    f.for_range(rows, fill_row)
    f.emit_return(f.constant(I1, True))


def _emit_fill_row(f: FunctionBuilder) -> None:
    """Emit `fill_row(numbers, to, count, kind)`: write a list of `count` numbers to the address `to`. Return true, or false for other
    contents; then some numbers may be written.

    `kind` is a value of `LIST_KINDS`: the numbers are stored as float64, int64 or bool. Floats may be given as integers of 64 bits, and
    numbers as 0-d tensors (`load_element`). No Python code runs. `fill_rows` calls the function.
    """
    numbers, to, count, kind = f.arguments
    f.require(f.is_instance(numbers, "list"))
    f.require(f.list_length(numbers).equals(count))

    def load_number(k: Value) -> Value:
        number = f.call("load_element", POINTER, [f.list_item(numbers, k)])
        f.decline_if(f.is_null(number))
        return number

    def unbox_integer(x: Value) -> Value:
        f.require(f.is_instance(x, "int"))
        value, fits = f.unbox_checked(x)
        f.require(fits)
        return value

    def store_float(k: Value) -> None:
        x = load_number(k)
        load_float = lambda: [f.call("PyFloat_AsDouble", DOUBLE, [x])]
        convert_integer = lambda: [unbox_integer(x).cast("sitofp", DOUBLE)]
        to.at(k, DOUBLE).store(f.choose(f.is_instance(x, "float"), load_float, convert_integer)[0])

    def store_integer(k: Value) -> None:
        to.at(k, I64).store(unbox_integer(load_number(k)))

    def store_boolean(k: Value) -> None:
        x = load_number(k)
        f.require(f.is_instance(x, "bool type"))
        to.at(k, I8).store(f.is_object(x, "True").cast("zext", I8))

    for number_kind, store in ((float, store_float), (int, store_integer), (bool, store_boolean)):
        f.emit_if(kind.equals(LIST_KINDS[number_kind]), lambda store=store: f.for_range(count, store))  # type: ignore[misc]
    f.emit_return(f.constant(I1, True))


def _emit_python_copy_buffer(f: FunctionBuilder) -> None:
    """Emit `python_copy_buffer(source, buffer, nbytes)`, called from Python: copy the bytes of another object's buffer into a `Buffer`.
    Return a bool: whether the buffer of `source` is C-contiguous and writable, and has exactly `nbytes` bytes.
    """
    source, buffer, nbytes = _load_arguments(f, 3)
    success = f.call("copy_buffer", I1, [source, load_data_address(f, buffer), f.unbox_integer(nbytes)])
    f.emit_return(f.box_bool(success))


def _emit_copy_buffer(f: FunctionBuilder) -> None:
    """Emit `copy_buffer(source, to, nbytes)`: copy the buffer of the object `source` to the address `to`. Return true, or false unless that
    buffer is C-contiguous and writable, and has `nbytes` bytes.
    """
    source, to, nbytes = f.arguments
    f.emit_return(use_if_bytes(f, source, nbytes, lambda start: f.call("memcpy", POINTER, [to, start, nbytes])))
