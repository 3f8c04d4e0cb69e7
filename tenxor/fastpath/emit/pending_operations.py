"""Recording of operations: each gives a tensor with a new storage, which holds a new pending node. A known scalar is a 0-d tensor whose
storage (`ScalarStorage`) holds a Python number instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...codegen.llvm.builder import Module, Value, select
from ...codegen.llvm.types import I1, I32, I64, POINTER, array
from ..object_layout import TUPLE_ITEMS_OFFSET, ObjectTable
from .function_builder import FunctionBuilder
from .node_creation import can_evaluate_early, new_result
from .template_cache import CacheTable, find_cached_template, get_cache_table

MAX_OPERANDS = 8  # operands of a call, for a size-generic template
PY_LE, PY_GE = 1, 5  # Py_LE and Py_GE


class Operand(NamedTuple):
    """An operand of an operation, as `Value`s of run time. The references are borrowed.

    `key` stands for the operand in the cache tables of result templates. It is the spec of a tensor, the constant spec of a tensor with a
    known scalar, or the type of a Python number. `node_or_scalar` is a node if `is_node`, otherwise a Python number. `offset` is a Python
    integer, in elements.
    """

    key: Value
    node_or_scalar: Value
    is_node: Value
    offset: Value


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions that record operations as pending nodes: `apply_unary`, `apply_binary` and `apply_operation`."""
    _emit_apply_unary(FunctionBuilder(module, objects, "apply_unary", [("x", POINTER), ("op", POINTER)]))
    _emit_apply_operation(
        FunctionBuilder(module, objects, "apply_operation", [("op", POINTER), ("x", POINTER), ("operands", POINTER), ("count", I64)])
    )
    _emit_apply_binary(
        FunctionBuilder(module, objects, "apply_binary", [("x", POINTER), ("y", POINTER), ("op", POINTER), ("comes_last", I1)])
    )


def load_computed_slot(f: FunctionBuilder, x: Value, name: str) -> Value:
    """Emit a load of the slot `name`, "spec" or "offset", of the tensor `x`. If the slot is unset, Python code computes it first. Return
    the content, borrowed.

    The emitted function returns null or 0 if the Python code raises an error.
    """
    slot = f"Tensor.{name}"
    slot_value = f.get_slot(x, slot)

    def compute_slot() -> list[Value]:
        value = f.call("PyObject_GetAttr", POINTER, [x, f.load_object(f"'{name}'")])
        f.decline_if(f.is_null(value))
        f.decref(value)  # the slot refers to the object now
        return [f.get_slot(x, slot)]

    return f.choose(f.is_null(slot_value), compute_slot, lambda: [slot_value])[0]


def read_operand(f: FunctionBuilder, x: Value) -> Operand:
    """Emit the reading of the tensor `x` as an operand: its node, or its known scalar. Return the operand. Python code may run.

    The emitted function returns null or 0 for a node of another dtype than `x`. While a call is recorded, it does so for every known
    scalar. Otherwise it does so for a known scalar of dtype bfloat16, of another dtype than `x`, or without a constant spec.
    """
    spec, offset, storage = load_computed_slot(f, x, "spec"), load_computed_slot(f, x, "offset"), f.get_slot(x, "Tensor.storage")
    dtype = f.get_slot(spec, "Spec.dtype")

    def a_node() -> list[Value]:
        node = f.get_slot(storage, "Storage.node")
        f.require(f.get_slot(f.get_slot(node, "Node.recipe"), "Recipe.dtype").equals(dtype))
        return [spec, node, f.constant(I1, True), offset]

    def a_number() -> list[Value]:
        f.require(f.is_instance(storage, "ScalarStorage"))
        f.require(can_evaluate_early(f))  # while a call is recorded, the fallback in Python must see that the scalar is read
        number, key = f.get_slot(storage, "ScalarStorage._number"), f.get_slot(spec, "Spec.constant_spec")
        f.decline_if(f.is_object(number, "None"))
        f.require(f.get_slot(storage, "ScalarStorage._dtype").equals(dtype))
        f.decline_if(f.is_object(dtype, "bfloat16"))
        f.decline_if(f.is_object(key, "None"))
        return [key, number, f.constant(I1, False), f.load_object("0")]

    return Operand(*f.choose(has_node_content(f, storage), a_node, a_number))


def has_node_content(f: FunctionBuilder, storage: Value) -> Value:
    """Emit a test whether a storage holds a node, rather than a known scalar (`ScalarStorage`). Return the result, an `i1`."""
    return f.or_else(has_plain_node(f, storage), lambda: f.is_instance(storage, "LeafStorage"))


def has_plain_node(f: FunctionBuilder, storage: Value) -> Value:
    """Emit a test whether the storage `storage` holds a node, and is no leaf of derivatives (`LeafStorage`). Return the result, an `i1`."""

    def was_a_number() -> Value:
        """Emit a test for a `ScalarStorage` whose scalar was already replaced by a node."""
        is_element = f.is_instance(storage, "ScalarStorage")
        return f.and_then(is_element, lambda: f.is_object(f.get_slot(storage, "ScalarStorage._number"), "None"))

    return f.or_else(f.is_instance(storage, "Storage"), was_a_number)


def find_template(
    f: FunctionBuilder, table: CacheTable, operation: Value, other_key: Value, get_arguments: Callable[[], Sequence[Value]]
) -> Value:
    """Emit a lookup of a result template in a cache table; on a miss, a sized template builds one, which is cached. Return the template,
    borrowed.

    The template is cached in `table` under `operation`, an `Op`, and `other_key`: the key of the second operand (`Operand.key`), a tuple of
    keys, or None. `get_arguments` returns the operands as the signature of the call sees them (`get_signature_argument`). The emitted
    function returns null or 0 if no sized template fits. Python code may run.
    """

    def instantiate() -> list[Value]:
        operands = get_arguments()
        operand_array = f.local(array(POINTER, len(operands)))
        for k, x in enumerate(operands):
            operand_array.at(k, POINTER).store(x)
        return [
            f.call("instantiate_call", POINTER, [*table, operation, other_key, operand_array, f.i64(len(operands)), f.null(), f.i64(0)])
        ]

    return find_or_instantiate(f, table, operation, other_key, instantiate)


def get_signature_argument(f: FunctionBuilder, x: Value, operand: Operand) -> Value:
    """Emit a choice of the object that represents an operand in the signature of a call, and return the object, borrowed. `operand` is the
    reading of `x` (`read_second_operand`). A node, or a known scalar with axes, is represented by the tensor `x`; a known scalar without
    axes by its dtype; a Python number by its type.
    """

    def element() -> list[Value]:
        return [f.select_value(f.is_object(f.get_slot(operand.key, "Spec.shape"), "()"), f.get_slot(x, "Tensor.dtype"), x)]

    number = lambda: f.choose(f.has_type(x, "Tensor"), element, lambda: [operand.key])
    return f.choose(operand.is_node, lambda: [x], number)[0]


def find_or_instantiate(
    f: FunctionBuilder, table: CacheTable, operation: Value, other_key: Value, instantiate: Callable[[], Sequence[Value]]
) -> Value:
    """Emit a lookup of a result template in a cache table; on a miss, emit the code of `instantiate`. Return the template, borrowed.

    The template is cached in `table` under `operation`, an operation or a name, and `other_key`, the key of the further operands.
    `instantiate` emits the making and caching of a template, and returns a list with the template, borrowed or null. The emitted function
    returns null or 0 if both are null.
    """
    cached_template = find_cached_template(f, table, operation, other_key)
    (template,) = f.choose(f.is_null(cached_template), instantiate, lambda: [cached_template], (1, 1000))
    f.decline_if(f.is_null(template))
    return template


def _emit_apply_unary(f: FunctionBuilder) -> None:
    """Emit `apply_unary(x, op)`: return the result of the operation `op` on `x`, a tensor or a value for `convert_value`, as a new
    reference; null to leave the call to the fallback.

    The result is pending, or evaluated at once where `new_user_tensor` does so. Only `abs` or `negative` of a scalar, known or in memory,
    gives a known scalar. Entries of methods and functions call the function.
    """
    x, op = f.arguments
    f.return_if(~f.has_type(x, "Tensor"), lambda: _call_with_tensor(f, x, lambda tensor: f.call("apply_unary", POINTER, [tensor, op])))
    f.require(f.is_instance(x, "Tensor"))
    key, node_or_scalar, is_node, offset = read_operand(f, x)
    f.hold_borrowed(node_or_scalar)
    template = find_template(f, get_cache_table(f, key, "templates"), op, f.load_object("None"), lambda: [x])
    recipe, spec = (
        f.hold_borrowed(f.get_slot(template, "RecipeTemplate.recipe")),
        f.hold_borrowed(f.get_slot(template, "ResultTemplate.spec")),
    )
    _return_if_known_scalars(f, (op, recipe, spec), (Operand(key, node_or_scalar, is_node, offset),))
    source = make_source(f, node_or_scalar, is_node, f.tuple_item(f.get_slot(recipe, "Recipe.dtypes"), 0))
    sources = f.new_tuple(source)
    offsets = _new_offsets(f, f.is_object(offset, "0"), "(0,)", offset)
    f.emit_return(new_result(f, recipe, sources, offsets, spec))


def _emit_apply_binary(f: FunctionBuilder) -> None:
    """Emit `apply_binary(x, y, op, comes_last)`: return the result of the operation `op` on the tensor `x` and `y`, as a new reference;
    null to leave the call to the fallback.

    `y` is a tensor, a number or a value for `convert_value`. With `comes_last`, `y` is the first operand, and no tensor. The result is
    pending, or evaluated at once where `new_user_tensor` does so. Only an operation of `SCALAR_OPS` on scalars, known or in memory, gives a
    known scalar. Entries of methods and functions call the function.
    """
    x, y, op, comes_last = f.arguments
    f.require(f.is_instance(x, "Tensor"))

    def apply_to_tensor(tensor: Value) -> Value:
        operands = select(comes_last, tensor, x), select(comes_last, x, tensor)
        return f.call("apply_binary", POINTER, [*operands, op, f.constant(I1, False)])

    f.return_if(~is_operand(f, y), lambda: _call_with_tensor(f, y, apply_to_tensor))
    f.decline_if(f.and_then(comes_last, lambda: f.has_type(y, "Tensor")))
    compute_specs(f, x, y)
    key, node_or_scalar, is_node, offset = x_operand = read_operand(f, x)
    y_operand = read_second_operand(f, y)
    f.hold_borrowed(node_or_scalar), f.hold_borrowed(y_operand.node_or_scalar)

    def get_arguments() -> list[Value]:
        x_argument, y_argument = get_signature_argument(f, x, x_operand), get_signature_argument(f, y, y_operand)
        return [select(comes_last, y_argument, x_argument), select(comes_last, x_argument, y_argument)]

    table = CacheTable(
        key, select(comes_last, get_cache_table(f, key, "number_first_templates").slot, get_cache_table(f, key, "templates").slot)
    )
    template = find_template(f, table, op, y_operand.key, get_arguments)
    f.emit_if(f.is_instance(y, "int"), lambda: require_in_range(f, y, template))
    recipe, spec = (
        f.hold_borrowed(f.get_slot(template, "RecipeTemplate.recipe")),
        f.hold_borrowed(f.get_slot(template, "ResultTemplate.spec")),
    )
    _return_if_known_scalars(f, (op, recipe, spec), (Operand(key, node_or_scalar, is_node, offset), y_operand), comes_last)
    dtypes = f.get_slot(recipe, "Recipe.dtypes")
    dtype_indices = select(comes_last, f.i64(1), f.i64(0)), select(comes_last, f.i64(0), f.i64(1))
    x_source = make_source(f, node_or_scalar, is_node, f.tuple_item(dtypes, dtype_indices[0]))
    y_source = make_source(f, y_operand.node_or_scalar, y_operand.is_node, f.tuple_item(dtypes, dtype_indices[1]))
    sources = f.new_tuple(select(comes_last, y_source, x_source), select(comes_last, x_source, y_source))
    f.transfer_held(x_source, y_source)
    first_offset, second_offset = select(comes_last, y_operand.offset, offset), select(comes_last, offset, y_operand.offset)
    are_zeros = f.and_then(f.is_object(first_offset, "0"), lambda: f.is_object(second_offset, "0"))
    f.emit_return(new_result(f, recipe, sources, _new_offsets(f, are_zeros, "(0, 0)", first_offset, second_offset), spec))


def _call_with_tensor(f: FunctionBuilder, value: Value, call: Callable[[Value], Value]) -> Value:
    """Emit the conversion of `value` to a new tensor (`convert_value`), and the code of `call` for that tensor. Return the result of
    `call`, a new reference or null. The emitted function returns null for a value that cannot be converted.
    """
    tensor = f.require_new(f.call("convert_value", POINTER, [value]))
    result = call(tensor)
    f.release_held(tensor)
    return result


def _new_offsets(f: FunctionBuilder, are_zeros: Value, zeros: str, *offsets: Value) -> Value:
    """Emit the tuple of a node's offsets: a new tuple of `offsets`, Python integers. If the `i1` `are_zeros` holds, it is the shared tuple
    named `zeros` in the object table. Return the tuple, which is held. The emitted function returns null or 0 if memory runs out.
    """
    held = list(f._held)

    def build_tuple() -> list[Value]:
        result = f.new_tuple(*[f.incref(x) for x in offsets])
        f._held[:] = held
        return [result]

    return f.hold_owned(f.choose(are_zeros, lambda: [f.incref(f.load_object(zeros))], build_tuple)[0])


def _is_scalar(f: FunctionBuilder, x: Operand) -> Value:
    """Emit a test whether an operand is a number, a known scalar, or a tensor without axes. Return the result, an `i1`."""
    return f.or_else(~x.is_node, lambda: f.is_object(f.get_slot(x.key, "Spec.shape"), "()"))


def _load_scalar(f: FunctionBuilder, x: Operand) -> Value:
    """Emit the Python number of an operand without axes, known or in memory. Return a new reference, not held; null for a pending operand,
    for one on the tape, and for a dtype that `load_number` does not cover.
    """
    load_number = lambda: [f.call("load_scalar", POINTER, [x.node_or_scalar, x.key, x.offset])]
    return f.choose(x.is_node, load_number, lambda: [f.incref(x.node_or_scalar)])[0]


def _return_if_known_scalars(
    f: FunctionBuilder, operation: Sequence[Value], operands: Sequence[Operand], is_reversed: Value | None = None
) -> None:
    """Emit an early return of the result of an operation on one or two scalars, `operands`, known or in memory, as a tensor with a known
    scalar. Return None.

    The return is taken only if `compute_unary` or `compute_binary` covers the operation, and not while a call is recorded. `operation` has
    three `Value`s: the `Op`, the recipe and the spec of the result. If the `i1` `is_reversed` holds, the second operand comes first; None
    stands for one operand. The held references to the recipe, the spec and the operands are released before the return.
    """
    held, y = list(f._held), operands[-1]
    are_points = _is_scalar(f, operands[0]) if len(operands) == 1 else f.and_then(_is_scalar(f, operands[0]), lambda: _is_scalar(f, y))
    are_points = f.and_then(are_points, lambda: can_evaluate_early(f))

    def compute() -> list[Value]:
        numbers = [_load_scalar(f, x) for x in operands]
        are_missing = [f.is_null(x) for x in numbers]
        ordered = numbers if is_reversed is None else [select(is_reversed, *numbers[::-1]), select(is_reversed, *numbers)]
        name = "compute_unary" if is_reversed is None else "compute_binary"
        call_operation = lambda: [f.call(name, POINTER, [*operation, *ordered])]
        (tensor,) = f.choose(are_missing[0] | are_missing[-1], lambda: [f.null()], call_operation)
        for x, is_missing in zip(numbers, are_missing, strict=True):
            f.emit_if(~is_missing, lambda x=x: f.decref(x))  # type: ignore[misc]
        f.emit_if(f.is_null(tensor), lambda: f.require(f.is_null(f.call("PyErr_Occurred", POINTER, []))))
        return [tensor]

    (tensor,) = f.choose(are_points, compute, lambda: [f.null()])

    def release_operands() -> Value:
        f.release_held(*operation[1:], *[x.node_or_scalar for x in operands])
        return tensor

    f.return_if(~f.is_null(tensor), release_operands)
    f._held[:] = held


def compute_specs(f: FunctionBuilder, *operands: Value) -> None:
    """Emit code to compute the spec and the offset of each tensor among `operands`. Return None. Python code may run, so borrowed
    references are invalid afterwards. If the Python code raises an error, the emitted function returns null or 0.
    """
    for x in operands:
        f.emit_if(f.has_type(x, "Tensor"), lambda x=x: (load_computed_slot(f, x, "spec"), load_computed_slot(f, x, "offset")))  # type: ignore[misc]


def is_number(f: FunctionBuilder, x: Value) -> Value:
    """Emit a test whether `x` is a Python number: exactly a float, int, bool or complex. Return the result, an `i1`."""
    kind = f.type_of(x)
    return f.or_else(
        f.is_object(kind, "float") | f.is_object(kind, "int"), lambda: f.is_object(kind, "bool type") | f.is_object(kind, "complex")
    )


def is_operand(f: FunctionBuilder, x: Value) -> Value:
    """Emit a test whether `x` is a tensor or a Python number, of no subclass. Return the result, an `i1`."""
    return f.or_else(f.has_type(x, "Tensor"), lambda: is_number(f, x))


def read_second_operand(f: FunctionBuilder, y: Value) -> Operand:
    """Emit the reading of `y` as the second operand of an operation: a tensor, or a Python number. Return the operand.

    The emitted function returns null or 0 for other objects, and in the cases of `read_operand`.
    """

    def number() -> list[Value]:
        f.require(is_number(f, y))
        return [f.type_of(y), y, f.constant(I1, False), f.load_object("0")]

    return Operand(*f.choose(f.is_instance(y, "Tensor"), lambda: list(read_operand(f, y)), number))


def _emit_apply_operation(f: FunctionBuilder) -> None:
    """Emit `apply_operation(op, x, operands, count)`: return the result of the operation `op` on the tensor `x` and further operands.

    `operands` is the address of `count` tensors, numbers or values for `convert_value`. The result is a new reference, mostly pending
    (`new_user_tensor`); null to leave the call to the fallback. Entries of methods and functions call the function, and `set_masked`.
    """
    op, x, operands, count = f.arguments
    f.require(f.is_instance(x, "Tensor"))

    def load(k: Value) -> Value:
        return operands.at(k, POINTER).load(POINTER)

    def convert_operand(k: Value) -> Value:
        y = load(k)
        return f.choose(is_operand(f, y), lambda: [f.incref(y)], lambda: [f.call("convert_value", POINTER, [y])])[0]

    def apply_to_tensors() -> Value:
        tensors = f.build_tuple(count, convert_operand)
        result = f.call("apply_operation", POINTER, [op, x, f.address_at(tensors, TUPLE_ITEMS_OFFSET), count])
        f.release_held(tensors)
        return result

    are_operands = f.fold_range(count, f.constant(I1, True), lambda k, are_operands: are_operands & is_operand(f, load(k)))
    f.return_if(~are_operands, apply_to_tensors)
    compute_specs(f, x)
    f.for_range(count, lambda k: compute_specs(f, load(k)))
    keys = f.build_tuple(count, lambda k: f.incref(read_second_operand(f, load(k)).key))
    x_operand = read_operand(f, x)
    x_key = x_operand.key

    def instantiate() -> list[Value]:
        items = f.local(array(POINTER, MAX_OPERANDS))
        f.require(count < MAX_OPERANDS)
        items.store(get_signature_argument(f, x, x_operand))
        f.for_range(count, lambda k: items.at(k + 1, POINTER).store(get_signature_argument(f, load(k), read_second_operand(f, load(k)))))
        return [f.call("instantiate_call", POINTER, [*table, op, keys, items, count + 1, f.null(), f.i64(0)])]

    table = get_cache_table(f, x_key, "templates")
    template = f.hold_borrowed(find_or_instantiate(f, table, op, keys, instantiate))
    f.for_range(count, lambda k: f.emit_if(f.is_instance(load(k), "int"), lambda: require_in_range(f, load(k), template)))
    recipe, spec = (
        f.hold_borrowed(f.get_slot(template, "RecipeTemplate.recipe")),
        f.hold_borrowed(f.get_slot(template, "ResultTemplate.spec")),
    )
    dtypes = f.get_slot(recipe, "Recipe.dtypes")
    sources, offsets = (f.require_new(f.call("PyTuple_New", POINTER, [count + 1])) for _ in range(2))

    def read(operand: Operand, k: Value, key: Value) -> None:
        """Emit the reading of operand `k`. Python code may have run while the previous operand was built, so the operand's key is checked
        again.
        """
        f.require(operand.key.equals(key))
        f.address_at(offsets, TUPLE_ITEMS_OFFSET).at(k, POINTER).store(f.incref(operand.offset))
        source = make_source(f, f.hold_borrowed(operand.node_or_scalar), operand.is_node, f.tuple_item(dtypes, k))
        f.address_at(sources, TUPLE_ITEMS_OFFSET).at(k, POINTER).store(source)
        f.transfer_held(source)

    read(read_operand(f, x), f.i64(0), x_key)
    f.for_range(count, lambda k: read(read_second_operand(f, load(k)), k + 1, f.tuple_item(keys, k)))
    f.release_held(keys, template)
    f.emit_return(new_result(f, recipe, sources, offsets, spec))


def require_in_range(f: FunctionBuilder, integer: Value, template: Value, variant: str = "NodeTemplate") -> None:
    """Emit an early exit, returning null or 0, for a Python integer `integer` outside of the range of the result template `template`.
    Return None. `variant` is the name of the template's class, which has the bounds, both allowed, in the slots `low` and `high`, as Python
    integers of any size.
    """
    low, high = f.get_slot(template, f"{variant}.low"), f.get_slot(template, f"{variant}.high")

    def compare_bounds() -> None:
        """Emit a comparison with both bounds as Python does, since not every integer fits in 64 bits."""
        for bound, comparison in ((low, PY_GE), (high, PY_LE)):
            f.require(f.call("PyObject_RichCompareBool", I32, [integer, bound, f.constant(I32, comparison)]).equals(1))

    f.emit_if(~(f.has_one_digit(integer) & f.has_more_digits(low, is_negative=True) & f.has_more_digits(high)), compare_bounds)


def make_source(f: FunctionBuilder, node_or_scalar: Value, is_node: Value, dtype: Value) -> Value:
    """Emit the making of a source of a new node: the node `node_or_scalar` itself if the `i1` `is_node` holds, or a `Scalar` of `dtype`
    with that number. Return the source, which is held.

    The source takes the place of `node_or_scalar` among the held references. The emitted function returns null or 0 if memory runs out.
    """
    f.transfer_held(node_or_scalar)
    held = list(f._held)

    def new_scalar() -> list[Value]:
        f.hold_owned(node_or_scalar)
        scalar = f.new_instance("Scalar", value=node_or_scalar, dtype=f.incref(dtype))
        f._held[:] = held
        return [scalar]

    (source,) = f.choose(is_node, lambda: [node_or_scalar], new_scalar)
    return f.hold_owned(source)
