"""Values of NumPy, lists and Python numbers as tensors, and keys with NumPy's integers and arrays. A known scalar is a 0-d tensor whose
storage holds a Python number.
"""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I64, POINTER
from ..object_layout import SIZE_OFFSET, ObjectTable
from .function_builder import FunctionBuilder
from .pending_operations import is_number
from .scalar_arithmetic import new_known_scalar


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to convert values and keys: `convert_value`, `convert_key` and `convert_index`."""
    _emit_convert_value(FunctionBuilder(module, objects, "convert_value", [("value", POINTER)]))
    _emit_convert_index(FunctionBuilder(module, objects, "convert_index", [("item", POINTER)]))
    _emit_convert_key(FunctionBuilder(module, objects, "convert_key", [("key", POINTER)]))


def _emit_convert_value(f: FunctionBuilder) -> None:
    """Emit `convert_value(value)`: return a new tensor with the elements of a NumPy array, a NumPy scalar, a list, a tuple or a Python
    number. A scalar gives a known scalar. The result is a new reference.

    Return null for other values, also tensors, and for values that the fallback converts. These are arrays that are large
    (`MAX_SMALL_BLOCK_BYTES`), read-only or not C-contiguous, lists that `tensor_from_list` declines, and integers beyond 64 bits.
    Operations, assignments and conversions call the function.
    """
    (value,) = f.arguments
    kind = f.type_of(value)
    f.return_if(f.is_object(kind, "ndarray"), lambda: f.call("tensor_from_numpy", POINTER, [value, f.load_object("array recipes")]))
    f.return_if(f.is_object(kind, "list"), lambda: f.call("tensor_from_list", POINTER, [value, f.load_object("list recipes")]))

    def convert_tuple() -> Value:
        items = f.require_new(f.call("PySequence_List", POINTER, [value]))
        tensor = f.call("tensor_from_list", POINTER, [items, f.load_object("list recipes")])
        f.release_held(items)
        return tensor

    f.return_if(f.is_object(kind, "tuple"), convert_tuple)
    dtype = f.look_up(f.load_object("dtype of type"), kind)
    f.decline_if(f.is_null(dtype))
    f.require(f.or_else(~f.is_object(kind, "int"), lambda: f.unbox_checked(value)[1]))  # the fallback converts larger integers
    arguments = f.local(POINTER, value)
    call_item = lambda: [f.call("PyObject_VectorcallMethod", POINTER, [f.load_object("'item'"), arguments, f.i64(1), f.null()])]
    number = f.require_new(f.choose(is_number(f, value), lambda: [f.incref(value)], call_item)[0])
    scalar_spec = f.tuple_item(f.load_object("0-d specs"), f.unbox_integer(f.get_slot(dtype, "DType.rank")))
    f.emit_return(new_known_scalar(f, number, scalar_spec))


def _emit_convert_index(f: FunctionBuilder) -> None:
    """Emit `convert_index(item)`: return an item of an index key with a Python integer in place of a NumPy integer, a tensor in place of a
    NumPy array of indices or a mask, and any other item itself.

    Return a new reference, or null for an array that the fallback converts: a 0-d, large, read-only or not C-contiguous one, or one of a
    dtype that is no index. `convert_key` calls the function.
    """
    (item,) = f.arguments
    kind = f.type_of(item)

    def convert_array() -> Value:
        dtype = f.require_new(f.call("PyObject_GetAttr", POINTER, [item, f.load_object("'dtype'")]))
        f.decline_if(f.is_null(f.look_up(f.load_object("index dtypes"), dtype)))
        f.release_held(dtype)
        tensor = f.require_new(f.call("tensor_from_numpy", POINTER, [item, f.load_object("array recipes")]))
        f.decline_if(f.is_object(f.get_slot(f.get_slot(tensor, "Tensor.spec"), "Spec.shape"), "()"))
        f.transfer_held(tensor)
        return tensor

    f.return_if(f.is_object(kind, "ndarray"), convert_array)
    is_integer = f.look_up(f.load_object("integer types"), kind)
    f.return_if(~f.is_null(is_integer), lambda: f.call("PyNumber_Index", POINTER, [item]))
    f.emit_return(f.incref(item))


def _emit_convert_key(f: FunctionBuilder) -> None:
    """Emit `convert_key(key)`: return the index key `key`, a tuple or a single item, with its items converted by `convert_index`, as a new
    reference. Return null if no item changes, and also if an item cannot be converted. `get_item` and `set_item` call the function.
    """
    (key,) = f.arguments

    def convert_items() -> Value:
        held, is_changed = list(f._held), f.local(I64, f.i64(0))

        def convert(k: Value) -> Value:
            item = f.tuple_item(key, k)
            converted = f.call("convert_index", POINTER, [item])
            f.emit_if(converted.differs(item), lambda: is_changed.store(f.i64(1)))
            return converted

        items = f.build_tuple(f.load_word(key, SIZE_OFFSET), convert)
        f.decline_if(is_changed.load(I64).equals(0))
        f._held[:] = held
        return items

    f.return_if(f.is_instance(key, "tuple"), convert_items)
    converted = f.require_new(f.call("convert_index", POINTER, [key]))
    f.decline_if(converted.equals(key))
    f.transfer_held(converted)
    f.emit_return(converted)
