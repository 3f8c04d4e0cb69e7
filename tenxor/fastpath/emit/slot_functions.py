"""Functions for the type slots of `Tensor`, as machine code. The interpreter calls them for operators (`fastpath/type_slots.py`). Each
function calls the fast path of a method. It passes operands outside of this path to the function that was in the slot before. The operands
are `f.arguments`.
"""

from __future__ import annotations

from typing import Any

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I32, I64, POINTER, array
from ..object_layout import SIZE_OFFSET, TUPLE_ITEMS_OFFSET, ObjectTable
from ..type_slots import BINARY_SLOT_OFFSETS, COMPARISON_METHODS, IN_PLACE_SLOT_OFFSETS, SLOT_INDICES, SLOT_LOCATIONS, UNARY_SLOT_OFFSETS
from .function_builder import FunctionBuilder
from .pending_operations import load_computed_slot


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions for the type slots of `Tensor`, such as `slot_getitem`, `slot_setitem`, `slot_bool` and
    `slot_compare`.
    """
    module.define_global("original_slot_functions", f"global [{len(SLOT_LOCATIONS)} x ptr] zeroinitializer")

    def function(name: str, *parameters: Any, result: Any = POINTER) -> FunctionBuilder:
        return FunctionBuilder(module, objects, name, parameters, result, is_exported=True)

    two = ("x", POINTER), ("y", POINTER)
    _emit_getitem(function("slot_getitem", *two))
    _emit_setitem(function("slot_setitem", *two, ("value", POINTER), result=I32))
    _emit_sequence_item(function("slot_item", ("x", POINTER), ("k", I64)))
    _emit_bool(function("slot_bool", ("x", POINTER), result=I32))
    _emit_compare(function("slot_compare", *two, ("comparison", I32)))
    for name in UNARY_SLOT_OFFSETS:
        _emit_unary(function(f"slot_{name}", ("x", POINTER)), name)
    for name in IN_PLACE_SLOT_OFFSETS:
        _emit_in_place(function(f"slot_{name}", *two), name)
    for name in BINARY_SLOT_OFFSETS:
        _emit_binary(function(f"slot_{name}", *two), name)


def _call_original(f: FunctionBuilder, name: str, result: Any = POINTER) -> Value:
    """Emit a call of the function that was in the type slot `name` (a key of `SLOT_INDICES`) before the fast path, with the arguments of
    the emitted function.

    Return its result, of LLVM type `result`.
    """
    slot_address = f.define(POINTER, f"getelementptr ptr, ptr @original_slot_functions, i64 {SLOT_INDICES[name]}")
    arguments = ", ".join([f"{x.type.text} {x.text}" for x in f.arguments])
    return f.define(result, f"call {result.text} {slot_address.load(POINTER).text}({arguments})")


def _call_method(f: FunctionBuilder, method: str, *arguments: Value) -> Value:
    """Emit a call of the fast path of the `Tensor` method named `method`, which falls back to the method in Python itself. `arguments` are
    those of the method's entry, by the calling convention of the method: the tensor first.

    Return the result, a new reference, or null with an error set.
    """
    return f.call(f"Tensor.{method}", POINTER, list(arguments))


def _emit_getitem(f: FunctionBuilder) -> None:
    """Emit the slot function of `x[key]`: return a new reference, or null with an exception set. For a subclass of Tensor, the
    function that was in the slot before is called.
    """
    x, key = f.arguments
    f.return_if(f.has_type(x, "Tensor"), lambda: _call_method(f, "__getitem__", x, key))
    f.emit_return(_call_original(f, "slot_getitem"))


def _emit_setitem(f: FunctionBuilder) -> None:
    """Emit the slot function of `x[key] = value`; a null `value` means `del x[key]`. The function returns 0, or -1 with an error set. For a
    subclass of Tensor, and for `del`, the function that was in the slot before is called.
    """
    x, key, value = f.arguments
    plain = f.and_then(f.has_type(x, "Tensor"), lambda: ~f.is_null(value))
    f.return_if(~plain, lambda: _call_original(f, "slot_setitem", I32))
    args = f.local(array(POINTER, 2))
    args.store(key)
    args.at(1, POINTER).store(value)
    result = _call_method(f, "__setitem__", x, args, f.i64(2))
    f.return_if(f.is_null(result), lambda: f.constant(I32, -1))
    f.decref(result)
    f.emit_return(f.constant(I32, 0))


def _emit_sequence_item(f: FunctionBuilder) -> None:
    """Emit the slot function of `x[k]` for iteration; `k` is an `i64`. The function returns the item as a new reference, or null with an
    error set. For a subclass of Tensor, or a tensor without storage or dtype, the function that was in the slot before is called.

    Beyond the last element the function raises an IndexError; its message is never read.
    """
    x, k = f.arguments
    f.return_if(~f.is_instance(x, "Tensor"), lambda: _call_original(f, "slot_item"))
    shape = f.get_slot(load_computed_slot(f, x, "spec"), "Spec.shape")
    is_one = f.and_then(
        f.load_word(shape, SIZE_OFFSET) > 0, lambda: f.unbox_integer(f.address_at(shape, TUPLE_ITEMS_OFFSET).load(POINTER)) > k
    )
    f.return_if(~f.and_then(k >= 0, lambda: is_one), lambda: _set_index_error(f))
    key = f.box_integer(k)
    item = f.require_new(_call_method(f, "__getitem__", x, key))
    f.release_held(key)
    f.transfer_held(item)
    f.emit_return(item)


def _set_index_error(f: FunctionBuilder) -> Value:
    """Emit the setting of an IndexError without a message. Return the null pointer."""
    f.call("PyErr_SetNone", I32, [f.load_object("IndexError")])
    return f.null()


def _emit_bool(f: FunctionBuilder) -> None:
    """Emit the slot function of `bool(x)`: return 1, 0, or -1 with an error set. The usual operand is the result of comparing two elements.
    For a subclass of Tensor, or a tensor without storage or dtype, the function that was in the slot before is called.
    """
    (x,) = f.arguments
    f.return_if(~f.is_instance(x, "Tensor"), lambda: _call_original(f, "slot_bool", I32))
    is_one = f.and_then(
        f.is_object(f.get_slot(x, "Tensor.spec"), "0-d spec bool"), lambda: f.is_instance(f.get_slot(x, "Tensor.storage"), "ScalarStorage")
    )

    def return_known_scalar() -> None:
        number = f.get_slot(f.get_slot(x, "Tensor.storage"), "ScalarStorage._number")
        f.return_if(f.is_object(number, "True"), lambda: f.constant(I32, 1))
        f.return_if(f.is_object(number, "False"), lambda: f.constant(I32, 0))

    f.emit_if(is_one, return_known_scalar)
    truth = _call_method(f, "__bool__", x, f.null())
    f.return_if(f.is_null(truth), lambda: f.constant(I32, -1))
    f.decref(truth)  # True and False are never deallocated, so the comparison below is safe
    f.emit_return(f.is_object(truth, "True").cast("zext", I32))


def _emit_compare(f: FunctionBuilder) -> None:
    """Emit the slot function of the six comparisons, like `x < y`: return a new reference, or null with an exception set. Its argument
    `comparison` numbers them in the order of `COMPARISON_METHODS`.

    For a subclass of Tensor as `x`, the function that was in the slot before is called.
    """
    x, y, comparison = f.arguments
    f.return_if(~f.has_type(x, "Tensor"), lambda: _call_original(f, "slot_compare"))
    for k, name in enumerate(COMPARISON_METHODS):
        f.return_if(comparison.equals(k), lambda name=name: _call_method(f, f"__{name}__", x, y))  # type: ignore[misc]
    f.emit_return(_call_original(f, "slot_compare"))


def _emit_in_place(f: FunctionBuilder, name: str) -> None:
    """Emit the slot function of an in-place operator, like `x += y`: return a new reference, or null with an exception set. `name` is the
    name of the operator without underscores, such as "iadd". For a subclass of Tensor, the function that was in the slot before is called.
    """
    x, y = f.arguments
    f.return_if(f.has_type(x, "Tensor"), lambda: _call_method(f, f"__{name}__", x, y))
    f.emit_return(_call_original(f, f"slot_{name}"))


def _emit_unary(f: FunctionBuilder, name: str) -> None:
    """Emit the slot function of a unary operator, like `-x`: return a new reference, or null with an exception set. `name` is the name of
    the operator without underscores, such as "neg". For a subclass of Tensor, the function that was in the slot before is called.
    """
    (x,) = f.arguments
    f.return_if(f.has_type(x, "Tensor"), lambda: _call_method(f, f"__{name}__", x, f.null()))
    f.emit_return(_call_original(f, f"slot_{name}"))


def _emit_binary(f: FunctionBuilder, name: str) -> None:
    """Emit the slot function of a binary operator, like `x + y`, with a tensor on at least one side. The function returns a new reference,
    or null with an exception set. `name` is the name of the operator without underscores, such as "add".

    If `x` is of `Tensor` or of a subclass, the entry of the method of `Tensor` is called, such as `__add__`. Otherwise the entry of the
    reflected method, such as `__radd__`, is called for `y`.
    """
    x, y = f.arguments
    is_first = f.or_else(
        f.has_type(x, "Tensor"), lambda: f.call("PyType_IsSubtype", I32, [f.type_of(x), f.load_object("Tensor")]).differs(0)
    )
    f.return_if(is_first, lambda: _call_method(f, f"__{name}__", x, y))
    f.emit_return(_call_method(f, f"__r{name}__", y, x))
