"""Recording of operations: each gives a tensor with a new storage, which holds a new pending node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...codegen.llvm.builder import Module, Value, select
from ...codegen.llvm.types import I1, I32, I64, POINTER, array
from ...graph.node import HELD_BYTES_ANY_RESULT, HELD_BYTES_SMALL_RESULT, MAX_PENDING_NODES
from ...runtime.pending_limits import REFS_PER_CLEANUP, SMALL_RESULT_RATIO
from ..object_layout import SIZE_OFFSET, TUPLE_ITEMS_OFFSET, ObjectTable
from .function_builder import FunctionBuilder
from .node_evaluation import is_fusion_candidate, load_element_count
from .tape_nodes import is_valueless, record_on_tape
from .template_cache import CacheTable, find_cached_template, get_cache_table

NUMBERED_KINDS = ("node", "recipe")  # kinds of objects with serial numbers
MAX_OPERANDS = 8  # operands of a call, for a rule
PY_LE, PY_GE = 1, 5  # Py_LE and Py_GE
# Least and most nodes of a pending graph that is evaluated as a whole because it keeps memory alive
MIN_EAGER_NODES, MAX_EAGER_NODES = 16, 32
# Elements of the result of such a graph: with more, longer graphs pay, as fewer of their intermediates are stored
MAX_EAGER_ELEMENTS = 1 << 14


class Operand(NamedTuple):
    """An operand of an operation. The references are borrowed.

    `key` is the operand's key in cache tables: the spec of a tensor, the constant spec of a tensor with a known scalar, or the type of a
    Python number. `node_or_scalar` is a node if `is_node`, otherwise a Python number. `offset` is a Python integer, in elements.
    """

    key: Value
    node_or_scalar: Value
    is_node: Value
    offset: Value


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to record an operation as a pending node, and wrap the node in a tensor.

    The functions emitted include `pending`, `node_of`, `given`, `tensor`, `unary`, `binary` and `applied`.
    """
    for kind in NUMBERED_KINDS:
        module.define_global(f"number_of_{kind}", "global i64 0")
        _emit_next_number(FunctionBuilder(module, objects, f"next_{kind}", [], I64), kind)
        _emit_python_next_number(
            FunctionBuilder(module, objects, f"{kind}_number", [("self", POINTER), ("unused", POINTER)], is_exported=True), kind
        )
    module.define_global("pinned_reads", "internal global i64 0")
    module.define_global("patience", "global ptr null")  # address of the counter that is not 0 while nothing is evaluated early
    node_parameters = [("recipe", POINTER), ("sources", POINTER), ("offsets", POINTER)]
    _emit_new_user_node(FunctionBuilder(module, objects, "pending", [*node_parameters, ("is_followed", I1)]))
    _emit_new_pending_node(FunctionBuilder(module, objects, "node_of", [*node_parameters, ("is_bounded", I1), ("is_followed", I1)]))
    _emit_new_user_tensor(FunctionBuilder(module, objects, "given", [("node", POINTER), ("spec", POINTER), ("at_once", I1)]))
    _emit_new_tensor(FunctionBuilder(module, objects, "tensor", [("node", POINTER), ("spec", POINTER)]))
    _emit_unary(FunctionBuilder(module, objects, "unary", [("x", POINTER), ("op", POINTER)]))
    _emit_apply_operation(
        FunctionBuilder(module, objects, "applied", [("op", POINTER), ("x", POINTER), ("others", POINTER), ("count", I64)])
    )
    _emit_binary(FunctionBuilder(module, objects, "binary", [("x", POINTER), ("y", POINTER), ("op", POINTER), ("comes_last", I1)]))


def _emit_python_next_number(f: FunctionBuilder, kind: str) -> None:
    """Emit `KIND_number`, the entry for Python of `next_KIND`: return the serial number as a Python integer. KIND is "node" or "recipe"."""
    number = f.call(f"next_{kind}", I64, [])
    f.emit_return(f.call("PyLong_FromLongLong", POINTER, [number]))


def _emit_next_number(f: FunctionBuilder, kind: str) -> None:
    """Emit `next_KIND()`: return the serial number of the next node or recipe, as an `i64`. KIND is "node" or "recipe"."""
    counter = f.define(POINTER, f"getelementptr i64, ptr @number_of_{kind}, i64 0")
    number = counter.load(I64)
    counter.store(number + 1)
    f.emit_return(number)


def load_computed_slot(f: FunctionBuilder, x: Value, name: str) -> Value:
    """Emit a load of the slot `name`, "spec" or "offset", of the tensor `x`. If the slot is unset, Python code computes it first.

    The reference is borrowed. The emitted function declines if the Python code raises an error.
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

    The emitted function declines a node of another dtype than `x`. It also declines every known scalar while a call is recorded, and
    otherwise a known scalar of dtype bfloat16 or without a constant spec.
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

    def was_a_number() -> Value:
        """Emit a test for a `ScalarStorage` whose scalar was already replaced by a node."""
        is_element = f.is_instance(storage, "ScalarStorage")
        return f.and_then(is_element, lambda: f.is_object(f.get_slot(storage, "ScalarStorage._number"), "None"))

    has_node = f.or_else(has_node_content(f, storage), was_a_number)
    return Operand(*f.choose(has_node, a_node, a_number))


def has_node_content(f: FunctionBuilder, storage: Value) -> Value:
    """Emit a test for a storage of a class that always holds a node. A `ScalarStorage` may hold a scalar instead."""
    return f.or_else(f.is_instance(storage, "Storage"), lambda: f.is_instance(storage, "LeafStorage"))


def find_template(
    f: FunctionBuilder, table: CacheTable, operation: Value, other_key: Value, get_arguments: Callable[[], Sequence[Value]]
) -> Value:
    """Emit a lookup of a result template in a cache table; on a miss, a sized template builds one. Return the template, borrowed.

    `other_key` is the key of the further operands. `get_arguments` returns the operands as the signature of the call sees them
    (`get_signature_argument`). The emitted function declines if no sized template fits. Python code may run.
    """

    def instantiate() -> list[Value]:
        operands = get_arguments()
        operand_array = f.local(array(POINTER, len(operands)))
        for k, x in enumerate(operands):
            operand_array.at(k, POINTER).store(x)
        return [f.call("made_by_rule", POINTER, [*table, operation, other_key, operand_array, f.i64(len(operands)), f.null(), f.i64(0)])]

    return find_or_instantiate(f, table, operation, other_key, instantiate)


def get_signature_argument(f: FunctionBuilder, x: Value, operand: Operand) -> Value:
    """Emit the object that represents an operand in the signature of a call. A node, or a known scalar with axes, is represented by the
    tensor `x`; a known scalar without axes by its dtype; a Python number by its type.
    """

    def element() -> list[Value]:
        return [f.select_value(f.is_object(f.get_slot(operand.key, "Spec.shape"), "()"), f.get_slot(x, "Tensor.dtype"), x)]

    number = lambda: f.choose(f.has_type(x, "Tensor"), element, lambda: [operand.key])
    return f.choose(operand.is_node, lambda: [x], number)[0]


def find_or_instantiate(
    f: FunctionBuilder, table: CacheTable, operation: Value, other_key: Value, instantiate: Callable[[], Sequence[Value]]
) -> Value:
    """Emit a lookup of a result template in a cache table; on a miss, emit the code of `instantiate`. Return the template, borrowed.

    `other_key` is the key of the further operands. `instantiate` returns a list with a template, borrowed or null. The emitted function
    declines if both are null.
    """
    cached_template = find_cached_template(f, table, operation, other_key)
    (template,) = f.choose(f.is_null(cached_template), instantiate, lambda: [cached_template], (1, 1000))
    f.decline_if(f.is_null(template))
    return template


def _emit_unary(f: FunctionBuilder) -> None:
    """Emit `unary(x, op)`: return the result of the operation `op` on the tensor `x`, as a new reference; null to leave the call to the
    fallback.

    The result is mostly pending (`given`). Only `abs` or `negative` of a scalar, known or in memory, gives a known scalar at once.
    """
    x, op = f.arguments
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


def _emit_binary(f: FunctionBuilder) -> None:
    """Emit `binary(x, y, op, comes_last)`: return the result of the operation `op` on the tensor `x` and `y`, as a new reference; null to
    leave the call to the fallback.

    `y` is a tensor or a number. With `comes_last`, `y` must be a number, and is the first operand. The result is mostly pending (`given`).
    Only an operation of `SCALAR_OPS` on scalars, known or in memory, gives a known scalar at once.
    """
    x, y, op, comes_last = f.arguments
    f.require(f.is_instance(x, "Tensor"))
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


def _new_offsets(f: FunctionBuilder, are_zeros: Value, zeros: str, *offsets: Value) -> Value:
    """Emit the tuple of `offsets`, or the object `zeros` if `are_zeros` holds, or an early exit without memory. Return the tuple, held."""
    held = list(f._held)

    def build_tuple() -> list[Value]:
        result = f.new_tuple(*[f.incref(x) for x in offsets])
        f._held[:] = held
        return [result]

    return f.hold_owned(f.choose(are_zeros, lambda: [f.incref(f.load_object(zeros))], build_tuple)[0])


def _is_scalar(f: FunctionBuilder, x: Operand) -> Value:
    """Emit a test whether an operand is a number, a known scalar, or a tensor without axes."""
    return f.or_else(~x.is_node, lambda: f.is_object(f.get_slot(x.key, "Spec.shape"), "()"))


def _load_scalar(f: FunctionBuilder, x: Operand) -> Value:
    """Emit the Python number of an operand without axes, known or in memory. Return a new reference; null for a pending operand."""
    load_number = lambda: [f.call("number_in_memory", POINTER, [x.node_or_scalar, x.key, x.offset])]
    return f.choose(x.is_node, load_number, lambda: [f.incref(x.node_or_scalar)])[0]


def _return_if_known_scalars(
    f: FunctionBuilder, operation: Sequence[Value], operands: Sequence[Operand], is_reversed: Value | None = None
) -> None:
    """Emit an early return of the result of an operation on one or two scalars, known or in memory, as a tensor with a known scalar.

    The return is taken only if `of_number` or `of_numbers` covers the operation. `operation` is the operation, the recipe and the spec of
    the result. If `is_reversed` holds, the second operand comes first. The held references to the recipe, the spec and the operands are
    released before the return.
    """
    held, y = list(f._held), operands[-1]
    are_points = _is_scalar(f, operands[0]) if len(operands) == 1 else f.and_then(_is_scalar(f, operands[0]), lambda: _is_scalar(f, y))
    are_points = f.and_then(are_points, lambda: can_evaluate_early(f))

    def compute() -> list[Value]:
        numbers = [_load_scalar(f, x) for x in operands]
        are_missing = [f.is_null(x) for x in numbers]
        ordered = numbers if is_reversed is None else [select(is_reversed, *numbers[::-1]), select(is_reversed, *numbers)]
        name = "of_number" if is_reversed is None else "of_numbers"
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
    """Emit code to compute the spec and the offset of each tensor among `operands`. Python code may run, so borrowed references are invalid
    afterwards.
    """
    for x in operands:
        f.emit_if(f.has_type(x, "Tensor"), lambda x=x: (load_computed_slot(f, x, "spec"), load_computed_slot(f, x, "offset")))  # type: ignore[misc]


def read_second_operand(f: FunctionBuilder, y: Value) -> Operand:
    """Emit the reading of the second operand of an operation: a tensor, or a Python float or int. Return the operand.

    The emitted function declines other objects, for example a bool, and the cases of `read_operand`.
    """
    kind = f.type_of(y)

    def number() -> list[Value]:
        f.require(f.or_else(f.is_object(kind, "int"), lambda: f.is_object(kind, "float")))
        return [kind, y, f.constant(I1, False), f.load_object("0")]

    return Operand(*f.choose(f.is_instance(y, "Tensor"), lambda: list(read_operand(f, y)), number))


def _emit_apply_operation(f: FunctionBuilder) -> None:
    """Emit `applied(op, x, operands, count)`: return the result of the operation `op` on the tensor `x` and further operands.

    `operands` is the address of `count` tensors or numbers. The result is a new reference, mostly pending (`given`); null to leave the call
    to the fallback.
    """
    op, x, operands, count = f.arguments
    f.require(f.is_instance(x, "Tensor"))
    compute_specs(f, x)

    def load(k: Value) -> Value:
        return operands.at(k, POINTER).load(POINTER)

    f.for_range(count, lambda k: compute_specs(f, load(k)))
    keys = f.build_tuple(count, lambda k: f.incref(read_second_operand(f, load(k)).key))
    x_operand = read_operand(f, x)
    x_key = x_operand.key

    def instantiate() -> list[Value]:
        items = f.local(array(POINTER, MAX_OPERANDS))
        f.require(count < MAX_OPERANDS)
        items.store(get_signature_argument(f, x, x_operand))
        f.for_range(count, lambda k: items.at(k + 1, POINTER).store(get_signature_argument(f, load(k), read_second_operand(f, load(k)))))
        return [f.call("made_by_rule", POINTER, [*table, op, keys, items, count + 1, f.null(), f.i64(0)])]

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
    """Emit an early exit, returning null or 0, for a Python integer outside of the range of the result template `template`. The class
    `variant` of the template has the bounds in the slots `low` and `high`.
    """
    low, high = f.get_slot(template, f"{variant}.low"), f.get_slot(template, f"{variant}.high")

    def compare_bounds() -> None:
        """Emit a comparison with both bounds as Python does, since not every integer fits in 64 bits."""
        for bound, comparison in ((low, PY_GE), (high, PY_LE)):
            f.require(f.call("PyObject_RichCompareBool", I32, [integer, bound, f.constant(I32, comparison)]).equals(1))

    f.emit_if(~(f.has_one_digit(integer) & f.has_more_digits(low, is_negative=True) & f.has_more_digits(high)), compare_bounds)


def make_source(f: FunctionBuilder, node_or_scalar: Value, is_node: Value, dtype: Value) -> Value:
    """Emit a source of a recipe: the node `node_or_scalar` itself, or a `Scalar` of `dtype` with that number. Return the source.

    The source takes the place of `node_or_scalar` among the held references. The emitted function exits early if memory runs out.
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


def new_result(f: FunctionBuilder, recipe: Value, sources: Value, offsets: Value, spec: Value) -> Value:
    """Emit the tensor of a new pending node. Return a new reference, not held, or null.

    The held references to the recipe, sources, offsets and spec are consumed.
    """
    f.transfer_held(recipe, sources, offsets)
    old_read_count = load_shared_read_count(f)
    node = f.call("pending", POINTER, [recipe, sources, offsets, f.constant(I1, True)])
    f.decline_if(f.is_null(node))
    f.transfer_held(spec)
    return f.call("given", POINTER, [node, spec, load_shared_read_count(f).differs(old_read_count)])


def load_shared_read_count(f: FunctionBuilder) -> Value:
    """Emit the number of nodes made so far with an externally shared buffer as a source. Such a node must be evaluated at once."""
    return _get_shared_read_counter(f).load(I64)


def _get_shared_read_counter(f: FunctionBuilder) -> Value:
    """Return the address of the count that `load_shared_read_count` loads."""
    return f.define(POINTER, "getelementptr i8, ptr @pinned_reads, i64 0")


def _emit_new_user_node(f: FunctionBuilder) -> None:
    """Emit `pending(recipe, sources, offsets, is_followed)`: return a new node of the user's program, as a new reference.

    The function consumes the references. With `is_followed`, a node that depends on the tape gets a tape node. The function returns null
    under memory pressure, and where `node_of` with `is_bounded` does.
    """
    *references, is_followed = f.arguments
    for x in references:
        f.hold_owned(x)
    f.require(f.is_object(f.get_slot(f.load_object("pool"), "Pool.is_under_pressure"), "False"))
    f.transfer_held(*references)
    f.emit_return(f.call("node_of", POINTER, [*references, f.constant(I1, True), is_followed]))


def _emit_new_pending_node(f: FunctionBuilder) -> None:
    """Emit `node_of(recipe, sources, offsets, is_bounded, is_followed)`: return a new pending node. The function consumes the references.

    With `is_bounded`, the function returns null for a traced argument among the sources, and for a graph that the fallback in Python would
    evaluate or examine. Without, it returns null for an externally shared source. With `is_followed`, a node that depends on the tape gets
    a tape node.
    """
    *references, is_bounded, is_followed = f.arguments
    recipe, sources, offsets = [f.hold_owned(x) for x in references]
    count, has_tape_node = f.local(I64, f.i64(1)), f.local(I64, f.i64(0))
    number = f.call("next_node", I64, [])
    max_nbytes, lowest_serial = f.local(I64, f.i64(0)), f.local(I64, number)
    # the same two numbers as Python integers that some node has
    boxed_nbytes, boxed_lowest = f.local(POINTER, f.load_object("0")), f.local(POINTER, f.null())

    def examine_source(k: Value) -> None:
        source = f.tuple_item(sources, k)

        def examine_node() -> None:
            tape_node, buffer = f.get_slot(source, "Node.tape_node"), f.get_slot(source, "Node.buffer")

            def note_tape_node() -> None:
                has_tape_node.store(f.i64(1))
                f.require(f.or_else(~is_bounded, lambda: ~is_valueless(f, tape_node)))

            f.emit_if(~f.is_object(tape_node, "None"), note_tape_node)

            def examine_pending() -> list[Value]:
                count.store(count.load(I64) + f.unbox_integer(f.get_slot(source, "Node.graph_node_count")))
                boxed_serial = f.get_slot(source, "Node.oldest_serial")
                serial = f.unbox_integer(boxed_serial)

                def store_serial() -> None:
                    lowest_serial.store(serial)
                    boxed_lowest.store(boxed_serial)

                f.emit_if(serial < lowest_serial.load(I64), store_serial)
                return [f.get_slot(source, "Node.max_operand_nbytes")]

            def examine_buffer() -> list[Value]:
                is_pinned = ~f.is_object(f.get_slot(buffer, "Buffer.externally_shared"), "0")
                f.decline_if(is_pinned & ~is_bounded)
                f.emit_if(is_pinned, lambda: _get_shared_read_counter(f).store(_get_shared_read_counter(f).load(I64) + 1))
                return [f.get_slot(buffer, "Buffer.nbytes")]

            (nbytes,) = f.choose(f.is_object(buffer, "None"), examine_pending, examine_buffer)
            weight = f.unbox_integer(nbytes)

            def store_weight() -> None:
                max_nbytes.store(weight)
                boxed_nbytes.store(nbytes)

            f.emit_if(weight > max_nbytes.load(I64), store_weight)

        f.emit_if(f.is_instance(source, "Node"), examine_node)

    f.for_range(f.load_word(sources, SIZE_OFFSET), examine_source)
    serial_span = number - lowest_serial.load(I64) + 1
    nodes = select(serial_span < count.load(I64), serial_span, count.load(I64))
    weight = max_nbytes.load(I64)

    def is_within() -> Value:
        return f.and_then(nodes <= MAX_PENDING_NODES, lambda: f.or_else(weight < HELD_BYTES_ANY_RESULT, lambda: can_evaluate_early(f)))

    f.require(f.or_else(~is_bounded, is_within))
    boxed_numbers = boxed_nbytes.load(POINTER), boxed_lowest.load(POINTER)
    box_number = lambda: [f.call("PyLong_FromLongLong", POINTER, [number])]
    f.hold_borrowed(boxed_numbers[0])
    oldest_serial = f.require_new(f.choose(f.is_null(boxed_numbers[1]), box_number, lambda: [f.incref(boxed_numbers[1])])[0])
    numbers = f.box_integer(nodes), oldest_serial, boxed_numbers[0]
    node = f.new_instance(
        "Node",
        recipe=recipe,
        sources=sources,
        offsets=offsets,
        graph_node_count=numbers[0],
        oldest_serial=numbers[1],
        max_operand_nbytes=numbers[2],
    )
    for slot, value in (("buffer", "None"), ("_layouts", "None"), ("is_stored", "False"), ("tape_node", "None")):
        f.set_slot(node, f"Node.{slot}", f.incref(f.load_object(value)))
    f.emit_if(is_followed & has_tape_node.load(I64).differs(0), lambda: record_on_tape(f, node, number))
    f.transfer_held(node)
    f.emit_return(node)


def can_evaluate_early(f: FunctionBuilder) -> Value:
    """Emit a test whether results may be evaluated early. While a call is recorded, they must stay pending."""
    return f.define(POINTER, "load ptr, ptr @patience").load(I64).equals(0)


def _emit_new_user_tensor(f: FunctionBuilder) -> None:
    """Emit `given(node, spec, must_compute)`: return the tensor of a new node for the user, or null. The function consumes the references.

    With `must_compute`, the node is evaluated now. A small result that keeps much memory alive is evaluated early if it is a reduction or
    has at most one axis: its readers then add in the order of a fused kernel. Further nodes with much memory are noted (`note_pending`),
    and so are sums that the kernel of their reader may compute.
    """
    *references, must_compute = f.arguments
    node, spec = [f.hold_owned(x) for x in references]
    f.emit_if(must_compute, lambda: f.require(f.call("computed", I1, [node])))
    nodes, weight = f.unbox_integer(f.get_slot(node, "Node.graph_node_count")), f.unbox_integer(f.get_slot(node, "Node.max_operand_nbytes"))
    recipe = f.get_slot(node, "Node.recipe")
    nbytes, is_line = f.unbox_integer(f.get_slot(recipe, "Recipe.nbytes")), f.load_word(f.get_slot(recipe, "Recipe.shape"), SIZE_OFFSET) < 2
    waits = f.and_then(
        weight >= HELD_BYTES_SMALL_RESULT, lambda: f.and_then(weight >= nbytes * SMALL_RESULT_RATIO, lambda: can_evaluate_early(f))
    )

    def compute() -> None:
        """Emit the evaluation of the node by single kernels, or of a graph of `MIN_EAGER_NODES` to `MAX_EAGER_NODES` nodes with a small
        result as a whole. Failing both, the node is noted. Whole evaluation needs reductions that add in the same order as in a larger
        graph, since the operands probably have other readers.
        """
        is_long = f.and_then(
            (nodes >= MIN_EAGER_NODES) & (nodes <= MAX_EAGER_NODES), lambda: load_element_count(f, node) <= MAX_EAGER_ELEMENTS
        )
        keeps_order = f.or_else(is_line, lambda: ~f.is_instance(f.get_slot(recipe, "Recipe.op"), "Op"))

        def computed() -> Value:
            def as_a_whole() -> Value:
                may_be = f.and_then(is_long, lambda: f.is_null(f.call("PyErr_Occurred", POINTER, [])))
                is_order_stable = f.and_then(may_be, lambda: f.call("is_order_stable", I1, [node]))
                return f.and_then(is_order_stable, lambda: f.call("computed_whole", I1, [node]))

            return f.or_else(f.call("computed_alone", I1, [node]), as_a_whole)

        f.emit_if(~f.and_then(keeps_order & ~is_fusion_candidate(f, node), computed), lambda: note_pending(f, node))

    def compute_read_sources() -> None:
        f.emit_if(~f.call("compute_fused_sources", I1, [node]), lambda: f.require(f.is_null(f.call("PyErr_Occurred", POINTER, []))))

    f.emit_if(~must_compute & waits, compute_read_sources)
    f.emit_if(~must_compute & waits, compute)
    f.emit_if(~must_compute & ~waits & (weight >= HELD_BYTES_ANY_RESULT), lambda: note_pending(f, node))
    f.transfer_held(node, spec)
    f.emit_return(f.call("tensor", POINTER, [node, spec]))


def note_pending(f: FunctionBuilder, node: Value) -> None:
    """Emit code to note a pending node that keeps much memory alive, as `pending_limits.record_pending` does.

    The emitted function returns null or 0 if an error is set or memory runs out.
    """
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    reference = f.require_new(f.call("PyWeakref_NewRef", POINTER, [node, f.null()]))
    f.append_to_list(f.load_object("waiting"), reference)
    f.release_held(reference)
    f.emit_if((f.list_length(f.load_object("waiting")) & (REFS_PER_CLEANUP - 1)).equals(0), lambda: f.call_python("forget_gone"))


def _emit_new_tensor(f: FunctionBuilder) -> None:
    """Emit `tensor(node, spec)`: return a new tensor with its own storage and offset 0, or null. The function consumes the references."""
    node, spec = [f.hold_owned(x) for x in f.arguments]
    storage = f.new_instance("Storage", node=node)
    f.emit_return(
        f.new_instance(
            "Tensor", storage=storage, spec=spec, dtype=f.incref(f.get_slot(spec, "Spec.dtype")), offset=f.incref(f.load_object("0"))
        )
    )
