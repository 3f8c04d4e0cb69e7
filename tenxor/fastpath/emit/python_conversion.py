"""Elements as Python numbers, lists or NumPy arrays, and the conversions of one-element tensors. A known scalar is a 0-d tensor whose
storage (`ScalarStorage`) holds a Python number.
"""

from __future__ import annotations

from collections.abc import Callable

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import DOUBLE, FLOAT, I1, I8, I16, I32, I64, POINTER, VOID, Type, array
from ...dtypes import boolean, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64
from ..limits import MAX_SMALL_BLOCK_BYTES
from ..object_layout import SIZE_OFFSET, TUPLE_ITEMS_OFFSET, ObjectTable
from .function_builder import FunctionBuilder
from .pending_operations import has_plain_node, load_computed_slot
from .spec_table import load_nbytes

PY_BUFFER_WORDS = 10  # words of a `Py_buffer`, which begins with the address of its data; its byte count is at `PY_BUFFER_LENGTH_OFFSET`
PY_BUFFER_LENGTH_OFFSET = 16
WRITABLE_AND_CONTIGUOUS = 0x1 | 0x38  # PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS
MAX_LISTED_ELEMENTS = 256  # elements converted singly to Python numbers: NumPy converts more elements faster
_NARROW_INTEGERS = ((int32, I32), (uint8, I8), (int16, I16), (int8, I8), (uint16, I16), (uint32, I32))


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to convert tensors to Python numbers, lists and NumPy arrays.

    The functions emitted include `load_number`, `load_only_element`, `realize_tensor`, `load_length`, `to_numpy`, `build_lists`, `to_list`,
    `iterate_tensor` and `to_bool`.
    """
    _emit_load_number(FunctionBuilder(module, objects, "load_number", [("buffer", POINTER), ("dtype", POINTER), ("offset", I64)]))
    _emit_load_only_element(FunctionBuilder(module, objects, "load_only_element", [("x", POINTER)]))
    _emit_realize_tensor(FunctionBuilder(module, objects, "realize_tensor", [("x", POINTER)]))
    _emit_load_length(FunctionBuilder(module, objects, "load_length", [("x", POINTER)]))
    _emit_to_numpy(FunctionBuilder(module, objects, "to_numpy", [("x", POINTER)]))
    list_parameters = [(name, POINTER) for name in ("buffer", "dtype", "shape", "strides")]
    _emit_build_lists(FunctionBuilder(module, objects, "build_lists", [*list_parameters, ("axis", I64), ("offset", I64)]))
    _emit_to_list(FunctionBuilder(module, objects, "to_list", [("x", POINTER)]))
    _emit_iterate_tensor(FunctionBuilder(module, objects, "iterate_tensor", [("x", POINTER)]))
    _emit_to_bool(FunctionBuilder(module, objects, "to_bool", [("x", POINTER)]))
    for name, convert, kind in (("to_float", "PyNumber_Float", "float"), ("to_int", "PyNumber_Long", "int")):
        _emit_to_number(FunctionBuilder(module, objects, name, [("x", POINTER)]), convert, kind)
    _emit_to_index(FunctionBuilder(module, objects, "to_index", [("x", POINTER)]))


def load_data_address(f: FunctionBuilder, buffer: Value) -> Value:
    """Emit a load of the address of the data of `buffer`, a `Buffer`. Return the address, a `ptr`."""
    return f.unbox_address(f.get_slot(buffer, "Buffer.address")).cast("inttoptr", POINTER)


def use_if_bytes(f: FunctionBuilder, x: Value, nbytes: Value, use: Callable[[Value], object]) -> Value:
    """Emit a test whether the writable, C-contiguous buffer of the object `x` has `nbytes` bytes. Return the result of the test, an `i1`.

    If the size fits, the code emitted by `use` runs first. `use(address)` gets the address of the data; its code must not run Python code.
    The emitted function returns null or 0, without an error, for an object without a writable, C-contiguous buffer.
    """
    view = f.local(array(I64, PY_BUFFER_WORDS))
    failed = f.call("PyObject_GetBuffer", I32, [x, view, f.constant(I32, WRITABLE_AND_CONTIGUOUS)]).differs(0)
    f.emit_if(failed, lambda: f.call("PyErr_Clear", VOID, []))  # a missing buffer is no error for the caller
    f.decline_if(failed)
    has_nbytes = f.address_at(view, PY_BUFFER_LENGTH_OFFSET).load(I64).equals(nbytes)
    f.emit_if(has_nbytes, lambda: use(view.load(POINTER)))
    f.call("PyBuffer_Release", VOID, [view])
    return has_nbytes


def _emit_load_number(f: FunctionBuilder) -> None:
    """Emit `load_number(buffer, dtype, offset)`: return an element of the `Buffer` `buffer` as a Python number. `dtype` is the `DType` of
    the elements, and `offset` the position of the element, in elements.

    The result is a new reference; null, without an error, for a dtype that is not covered, like bfloat16 or a complex dtype.
    """
    buffer, dtype, offset = f.arguments
    start = load_data_address(f, buffer)

    def case(name: str, make: object) -> None:
        f.return_if(dtype.equals(f.load_object(name)), make)  # type: ignore[arg-type]

    def load(kind: Type) -> Value:
        return start.at(offset, kind).load(kind)

    def integer(value: Value) -> Value:
        return f.call("PyLong_FromLongLong", POINTER, [value])

    case(float64.name, lambda: f.call("PyFloat_FromDouble", POINTER, [load(DOUBLE)]))
    case(float32.name, lambda: f.call("PyFloat_FromDouble", POINTER, [load(FLOAT).to_double()]))
    case(int64.name, lambda: integer(load(I64)))
    case(boolean.name, lambda: f.incref(f.select_value(load(I8).equals(0), f.load_object("False"), f.load_object("True"))))
    for d, kind in _NARROW_INTEGERS:
        case(d.name, lambda d=d, kind=kind: integer(load(kind).cast("zext" if d.kind == "uint" else "sext", I64)))
    case(uint64.name, lambda: f.call("PyLong_FromUnsignedLongLong", POINTER, [load(I64)]))
    f.decline()


def is_known_scalar(f: FunctionBuilder, storage: Value) -> Value:
    """Emit a test whether `storage` is a `ScalarStorage` with a known number and no node. Return the result, an `i1`."""
    return f.and_then(f.is_instance(storage, "ScalarStorage"), lambda: ~f.is_object(f.get_slot(storage, "ScalarStorage._number"), "None"))


def has_unrecorded_node(f: FunctionBuilder, storage: Value) -> Value:
    """Emit a test whether a storage holds a node without a tape node. Return the result, an `i1`: false for a known scalar, and for a leaf
    of derivatives.
    """
    has_none = lambda: f.is_object(f.get_slot(f.get_slot(storage, "Storage.node"), "Node.tape_node"), "None")
    return f.and_then(has_plain_node(f, storage), has_none)


def compute_tensor_node(f: FunctionBuilder, x: Value) -> Value:
    """Emit the evaluation of the node of the tensor `x`'s storage, or a new node for a known scalar. Return the node, in memory, which is
    held (see `FunctionBuilder.hold_owned`). Python code may run.

    The emitted function returns null or 0 for a leaf of derivatives, or if the node has another dtype than the tensor, or no value. It also
    does so if single kernels cannot evaluate a node of the operation `positive`: the node is probably an element of a pending tensor, and
    the fallback then evaluates the whole tensor.
    """
    storage, held = f.get_slot(x, "Tensor.storage"), list(f._held)

    def load_scalar() -> list[Value]:
        node = f.call("new_scalar_node", POINTER, [x])
        f.decline_if(f.is_null(node))
        return [node]

    def compute_node() -> list[Value]:
        f.require(has_plain_node(f, storage))
        node = f.hold_borrowed(f.get_slot(storage, "Storage.node"))
        f.require(f.get_slot(f.get_slot(node, "Node.recipe"), "Recipe.dtype").equals(f.get_slot(x, "Tensor.dtype")))
        is_computed = f.call("compute_unfused", I1, [node])

        def compute_by_plan() -> None:
            f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
            f.decline_if(f.is_object(f.get_slot(f.get_slot(node, "Node.recipe"), "Recipe.op"), "op positive"))
            f.require(f.call("compute_fused", I1, [node]))

        f.emit_if(~is_computed, compute_by_plan)
        f._held[:] = held
        return [node]

    return f.hold_owned(f.choose(is_known_scalar(f, storage), load_scalar, compute_node)[0])


def _emit_realize_tensor(f: FunctionBuilder) -> None:
    """Emit `realize_tensor(x)`: evaluate the tensor `x` and return `x`, as a new reference; null to leave the evaluation to the fallback. A
    known scalar stays as it is. The entry of `Tensor.realize` calls the function.
    """
    (x,) = f.arguments
    f.require(f.is_instance(x, "Tensor"))
    storage = f.get_slot(x, "Tensor.storage")
    f.return_if(is_known_scalar(f, storage), lambda: f.incref(x))
    node = compute_tensor_node(f, x)
    f.transfer_held(node)
    f.decref(node)
    f.emit_return(f.incref(x))


def _emit_load_only_element(f: FunctionBuilder) -> None:
    """Emit `load_only_element(x)`: return the only element of the tensor `x` as a Python number, a new reference. A pending tensor is
    evaluated first.

    The function returns null for a tensor with no or several elements, for a view chain, for a dtype that `load_number` does not cover, and
    where `compute_tensor_node` does.
    """
    (x,) = f.arguments
    f.require(f.is_instance(x, "Tensor"))
    storage = f.get_slot(x, "Tensor.storage")
    spec, offset = load_computed_slot(f, x, "spec"), load_computed_slot(f, x, "offset")
    f.require(f.get_slot(spec, "Spec.size").equals(f.load_object("1")))
    f.decline_if(f.is_object(f.get_slot(spec, "Spec.strides"), "None"))

    def load_known_scalar() -> Value:
        number = f.get_slot(storage, "ScalarStorage._number")
        f.decline_if(f.is_object(f.get_slot(spec, "Spec.dtype"), "bfloat16"))
        f.require(f.get_slot(storage, "ScalarStorage._dtype").equals(f.get_slot(spec, "Spec.dtype")))
        return f.incref(number)

    f.return_if(is_known_scalar(f, storage), load_known_scalar)
    dtype = f.get_slot(spec, "Spec.dtype")
    position = f.unbox_integer(offset)
    node = compute_tensor_node(f, x)
    element = f.call("load_number", POINTER, [f.get_slot(node, "Node.buffer"), dtype, position])
    f.transfer_held(node)
    f.decref(node)
    f.emit_return(element)


def _emit_to_numpy(f: FunctionBuilder) -> None:
    """Emit `to_numpy(x)`: return a new NumPy array with a copy of the elements of the contiguous tensor `x`, a new reference. A pending
    tensor is evaluated first.

    The function returns null for other tensors, for more than `MAX_SMALL_BLOCK_BYTES` bytes, without elements, for bfloat16, and where
    `compute_tensor_node` does.
    """
    (x,) = f.arguments
    f.require(f.is_instance(x, "Tensor"))
    spec, offset = load_computed_slot(f, x, "spec"), load_computed_slot(f, x, "offset")
    dtype, nbytes = f.get_slot(spec, "Spec.dtype"), load_nbytes(f, spec)
    f.require(f.is_object(f.get_slot(spec, "Spec.is_contiguous"), "True"))
    f.require((nbytes > 0) & (nbytes <= MAX_SMALL_BLOCK_BYTES))  # the fallback handles tensors without elements
    f.decline_if(f.is_object(dtype, "bfloat16"))
    skipped = f.unbox_integer(offset) * f.unbox_integer(f.get_slot(dtype, "DType.itemsize"))
    node = compute_tensor_node(f, x)
    call_arguments = f.local(array(POINTER, 2))
    call_arguments.store(f.get_slot(spec, "Spec.shape"))
    call_arguments.at(1, POINTER).store(f.get_slot(dtype, "DType.numpy"))
    numpy_array = f.require_new(f.call("PyObject_Vectorcall", POINTER, [f.load_object("empty array"), call_arguments, f.i64(2), f.null()]))
    start = load_data_address(f, f.get_slot(node, "Node.buffer")).at(skipped, I8)
    f.require(use_if_bytes(f, numpy_array, nbytes, lambda to: f.call("memcpy", POINTER, [to, start, nbytes])))
    f.release_held(node)
    f.transfer_held(numpy_array)
    f.emit_return(numpy_array)


def _emit_build_lists(f: FunctionBuilder) -> None:
    """Emit `build_lists(buffer, dtype, shape, strides, axis, offset)`: return the elements of the axes from `axis` on as nested lists, a
    new reference. The function calls itself for inner axes; `to_list` calls the function with axis 0.

    `shape` and `strides`, in elements, are tuples. `offset` is the position of the first element in the `Buffer` `buffer`, in elements.
    Without further axes the function returns a number. For a dtype that `load_number` does not cover, the function returns null without an
    error, and if memory runs out, null with the error set.
    """
    buffer, dtype, shape, strides, axis, offset = f.arguments

    def load_number(position: Value) -> Value:
        return f.call("load_number", POINTER, [buffer, dtype, position])

    f.return_if(f.load_word(shape, SIZE_OFFSET).equals(axis), lambda: load_number(offset))
    is_last = f.load_word(shape, SIZE_OFFSET).equals(axis + 1)
    count, step = [
        f.unbox_integer(f.address_at(numbers, TUPLE_ITEMS_OFFSET).at(axis, POINTER).load(POINTER)) for numbers in (shape, strides)
    ]
    items = f.require_new(f.call("PyList_New", POINTER, [count]))

    def set_item(k: Value) -> None:
        position = offset + k * step
        inner = lambda: [f.call("build_lists", POINTER, [buffer, dtype, shape, strides, axis + 1, position])]
        (x,) = f.choose(is_last, lambda: [load_number(position)], inner)
        f.decline_if(f.is_null(x))
        f.call("PyList_SetItem", I32, [items, k, x])

    f.for_range(count, set_item)
    f.transfer_held(items)
    f.emit_return(items)


def _emit_to_list(f: FunctionBuilder) -> None:
    """Emit `to_list(x)`: return the elements of the tensor `x` as nested lists, or the number of a 0-d tensor, a new reference; null to
    leave the call to the fallback. A pending tensor is evaluated first. The entry of `Tensor.tolist` calls the function.

    Null is the result for view chains, tensors without elements, more than `MAX_SMALL_BLOCK_BYTES` bytes, and where `compute_tensor_node`
    declines. More than `MAX_LISTED_ELEMENTS` elements, and dtypes that `load_number` does not cover, are converted by NumPy: then null also
    stands for a tensor that `to_numpy` declines.
    """
    (x,) = f.arguments
    f.require(f.is_instance(x, "Tensor"))
    spec, offset = load_computed_slot(f, x, "spec"), load_computed_slot(f, x, "offset")
    nbytes, strides = load_nbytes(f, spec), f.get_slot(spec, "Spec.strides")
    f.require((nbytes > 0) & (nbytes <= MAX_SMALL_BLOCK_BYTES))  # the fallback handles tensors without elements
    f.decline_if(f.is_object(strides, "None"))
    node = compute_tensor_node(f, x)
    list_arguments = [f.get_slot(node, "Node.buffer"), f.get_slot(spec, "Spec.dtype"), f.get_slot(spec, "Spec.shape"), strides]
    build_lists = lambda: [f.call("build_lists", POINTER, [*list_arguments, f.i64(0), f.unbox_integer(offset)])]
    (nested_lists,) = f.choose(f.unbox_integer(f.get_slot(spec, "Spec.size")) <= MAX_LISTED_ELEMENTS, build_lists, lambda: [f.null()])
    f.release_held(node)
    f.return_if(~f.is_null(nested_lists), lambda: nested_lists)
    f.decline_if(~f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    held = f.local(POINTER, f.require_new(f.call("to_numpy", POINTER, [x])))
    (array_,) = f._held
    name = f.load_object("'tolist'")
    nested_lists = f.require_new(f.call("PyObject_VectorcallMethod", POINTER, [name, held, f.i64(1), f.null()]))
    f.release_held(array_)
    f.transfer_held(nested_lists)
    f.emit_return(nested_lists)


def _emit_load_length(f: FunctionBuilder) -> None:
    """Emit `load_length(x)`, for the entry of `Tensor.__len__`: return the size of the first axis of the tensor `x`, as a Python integer, a
    new reference; null for a 0-d tensor.
    """
    (x,) = f.arguments
    f.require(f.is_instance(x, "Tensor"))
    shape = f.get_slot(load_computed_slot(f, x, "spec"), "Spec.shape")
    f.decline_if(f.load_word(shape, SIZE_OFFSET).equals(0))
    f.emit_return(f.incref(f.address_at(shape, TUPLE_ITEMS_OFFSET).load(POINTER)))


def _emit_iterate_tensor(f: FunctionBuilder) -> None:
    """Emit `iterate_tensor(x)`, for the entry of `Tensor.__iter__`: return a new iterator over `x[0]`, `x[1]`, and so on; null for a 0-d
    tensor.
    """
    (x,) = f.arguments
    f.require(f.is_instance(x, "Tensor"))
    f.decline_if(f.load_word(f.get_slot(load_computed_slot(f, x, "spec"), "Spec.shape"), SIZE_OFFSET).equals(0))
    f.emit_return(f.call("PySeqIter_New", POINTER, [x]))


def _emit_to_bool(f: FunctionBuilder) -> None:
    """Emit `to_bool(x)`, for the entry of `Tensor.__bool__`: return whether the only element of a tensor is true, as a Python bool, a
    new reference; null where `load_only_element` gives no number, as for several elements.
    """
    (x,) = f.arguments
    number = f.require_new(f.call("load_only_element", POINTER, [x]))
    truth = f.call("PyObject_IsTrue", I32, [number])
    f.transfer_held(number)
    f.decref(number)
    f.decline_if(truth < 0)
    f.emit_return(f.incref(f.select_value(truth.equals(0), f.load_object("False"), f.load_object("True"))))


def _emit_to_number(f: FunctionBuilder, convert: str, kind: str) -> None:
    """Emit `to_float(x)` or `to_int(x)`, for the entries of `Tensor.__float__` and `Tensor.__int__`: return the only element of a tensor as
    a Python float or int, a new reference; null where `load_only_element` gives no real number. A pending tensor is evaluated first.

    `convert` is the name of the C function that converts a number, such as "PyNumber_Float", and `kind` the name of the result's type. An
    element of this type is returned as it is. For an error of the conversion, as for the int of NaN, the function returns null with the
    error set, and the entry raises the error.
    """
    (x,) = f.arguments
    number = f.require_new(f.call("load_only_element", POINTER, [x]))
    is_one = f.is_instance(number, kind)
    f.transfer_held(number)
    f.return_if(is_one, lambda: number)
    f.hold_owned(number)
    f.require(
        f.or_else(
            f.is_instance(number, "int"), lambda: f.or_else(f.is_instance(number, "float"), lambda: f.is_instance(number, "bool type"))
        )
    )
    f.transfer_held(number)
    result = f.call(convert, POINTER, [number])
    f.decref(number)
    f.emit_return(result)


def _emit_to_index(f: FunctionBuilder) -> None:
    """Emit `to_index(x)`, for the entry of `Tensor.__index__`: return the number of a 0-d tensor of integers as a Python integer, a new
    reference; null for other tensors.
    """
    (x,) = f.arguments
    f.require(f.is_instance(x, "Tensor"))
    f.require(f.is_object(f.get_slot(load_computed_slot(f, x, "spec"), "Spec.shape"), "()"))
    number = f.require_new(f.call("load_only_element", POINTER, [x]))
    f.require(f.is_instance(number, "int"))
    f.transfer_held(number)
    f.emit_return(number)
