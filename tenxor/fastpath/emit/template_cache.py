"""Result caches of specs: nested tables by operation or method name, then by the second operand or the arguments. A spec is the interned
shape, strides and dtype of a tensor; a result template (`ResultTemplate`) is the recorded outcome of an operation for given specs.

The first two results that the fast path caches stand in the spec itself, as an inline cache (`spec.INLINE_CACHE_SLOTS`). With many sizes,
two dictionaries for each spec would take more memory than everything else.
"""

from __future__ import annotations

from typing import NamedTuple

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I32, I64, POINTER
from ...graph.spec import INLINE_CACHE_SLOTS, TEMPLATES_PER_REPORT
from ..object_layout import SIZE_OFFSET, ObjectTable
from .function_builder import FunctionBuilder

PY_EQ = 2  # Py_EQ


class CacheTable(NamedTuple):
    """A cache table of a spec, at run time: the spec, and the byte offset, an `i64`, of a slot in the spec. The slot refers to the table, a
    dictionary. The slot is null until the table is first filled.
    """

    spec: Value
    slot: Value


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to look up and cache result templates.

    The functions emitted include `find_cached`, `cache_template`, `write_inline_cache`, `get_table` and `is_same_key`.
    """
    _emit_get_table(FunctionBuilder(module, objects, "get_table", [("spec", POINTER), ("slot", I64)]))
    module.define_global("new_template_count", "internal global i64 0")
    lookup_parameters = [("spec", POINTER), ("slot", I64), ("operation", POINTER), ("other_key", POINTER)]
    _emit_find_cached(FunctionBuilder(module, objects, "find_cached", lookup_parameters))
    _emit_is_same_key(FunctionBuilder(module, objects, "is_same_key", [("key", POINTER), ("other_key", POINTER)], I1))
    template_parameters = [("spec", POINTER), ("slot", I64), *[(name, POINTER) for name in ("operation", "other_key", "template")]]
    _emit_cache_template(FunctionBuilder(module, objects, "cache_template", template_parameters, I1))
    _emit_write_inline_cache(FunctionBuilder(module, objects, "write_inline_cache", [template_parameters[0], *template_parameters[2:]], I1))


def get_cache_table(f: FunctionBuilder, spec: Value, name: str) -> CacheTable:
    """Return the cache table of the spec `spec` that is called `name`: "templates", "number_first_templates" or "call_templates". No code
    is emitted.
    """
    return CacheTable(spec, f.i64(f.objects.get_slot_offset(f"Spec._{name}")))


def find_operation_entries(f: FunctionBuilder, cache_table: CacheTable, operation: Value) -> Value:
    """Emit a lookup of the entries for `operation`, an operation or a method's name, in the dictionary of `cache_table`. Return the
    dictionary from the key of the further operands to the template, borrowed; null on a miss.

    The inline cache is not searched.
    """
    table = _get_slot_address(f, cache_table).load(POINTER)
    return f.choose(f.is_null(table), lambda: [f.null()], lambda: [f.look_up(table, operation)])[0]


def find_cached_template(f: FunctionBuilder, cache_table: CacheTable, operation: Value, other_key: Value) -> Value:
    """Emit a lookup of the result template for `operation`, an operation or a method's name, in the inline cache and in `cache_table`.
    Return the template, borrowed.

    The result is null on a miss, and Python's None for a call recorded as not replayable. `other_key` is the key of the second operand, or
    a tuple with the keys of all further operands.
    """
    return f.call("find_cached", POINTER, [*cache_table, operation, other_key])


def _emit_find_cached(f: FunctionBuilder) -> None:
    """Emit `find_cached(spec, slot, operation, other_key)`: return a cached result template, borrowed, or null on a miss.

    `slot` is the byte offset of the table in `spec`, `operation` an operation or a method's name, and `other_key` the key of the further
    operands. The inline cache is searched first. The result is Python's None for a call recorded as not replayable. Emitters call the
    function by `find_cached_template`.
    """
    spec, slot, operation, other_key = f.arguments
    may_be_near = _can_use_inline_cache(f, slot)
    for cache_slot in INLINE_CACHE_SLOTS:
        template = f.get_slot(spec, f"Spec.{cache_slot}")

        def is_cached(template: Value = template) -> Value:
            is_operation = f.get_slot(template, "ResultTemplate.operation").equals(operation)
            return f.and_then(is_operation, lambda: _is_same_key(f, f.get_slot(template, "ResultTemplate.other_key"), other_key))

        is_there = f.and_then(may_be_near, lambda slot=cache_slot: ~_is_entry_free(f, spec, slot))  # type: ignore[misc]
        f.return_if(f.and_then(is_there, is_cached), lambda template=template: template)  # type: ignore[misc]
    entries = find_operation_entries(f, CacheTable(spec, slot), operation)
    f.emit_return(f.choose(f.is_null(entries), lambda: [f.null()], lambda: [f.look_up(entries, other_key)])[0])


def _can_use_inline_cache(f: FunctionBuilder, slot: Value) -> Value:
    """Emit a test whether the table at byte offset `slot` of a spec uses the inline cache. Return the result, an `i1`. The table
    `number_first_templates`, of operations with a scalar first, does not.
    """
    return slot.differs(f.objects.get_slot_offset("Spec._number_first_templates"))


def _is_same_key(f: FunctionBuilder, key: Value, other_key: Value) -> Value:
    """Emit a test whether two keys are one object, or equal integers or tuples. Return the result, an `i1`."""
    return f.or_else(key.equals(other_key), lambda: f.call("is_same_key", I1, [key, other_key]))


def _emit_is_same_key(f: FunctionBuilder) -> None:
    """Emit `is_same_key(key, other_key)`: return whether two distinct objects are equal keys: both integers, or both tuples. No Python code
    runs. The result is false for other types. `find_cached` calls the function.
    """
    key, other_key = f.arguments
    kind = f.type_of(key)
    f.require(f.type_of(other_key).equals(kind))
    f.emit_if(f.is_object(kind, "tuple"), lambda: f.require(f.load_word(key, SIZE_OFFSET).equals(f.load_word(other_key, SIZE_OFFSET))))
    f.require(f.or_else(f.is_object(kind, "tuple"), lambda: f.is_object(kind, "int")))
    f.emit_return(f.call("PyObject_RichCompareBool", I32, [key, other_key, f.constant(I32, PY_EQ)]) > 0)


def _get_slot_address(f: FunctionBuilder, table: CacheTable) -> Value:
    """Emit the address of the slot, in the spec, that refers to the dictionary of a cache table. Return the address."""
    return f.define(POINTER, f"getelementptr i8, ptr {table.spec.text}, i64 {table.slot.text}")


def _emit_get_table(f: FunctionBuilder) -> None:
    """Emit `get_table(spec, slot)`: return the cache table (a dictionary) in the slot at byte `slot` of a spec, created if necessary, as a
    new reference; null if memory runs out. `cache_template` calls the function.
    """
    slot_address = _get_slot_address(f, CacheTable(*f.arguments))
    f.return_if(~f.is_null(slot_address.load(POINTER)), lambda: f.incref(slot_address.load(POINTER)))
    new_table = f.require_new(f.call("PyDict_New", POINTER, []))
    f.untrack(new_table)  # from CPython 3.14 on, the collector also tracks empty dictionaries
    f.emit_if(
        f.is_null(slot_address.load(POINTER)), lambda: slot_address.store(f.incref(new_table))
    )  # Python code may have run and created the table
    table = f.incref(slot_address.load(POINTER))
    f.release_held(new_table)
    f.emit_return(table)


def _emit_cache_template(f: FunctionBuilder) -> None:
    """Emit `cache_template(spec, slot, operation, other_key, template)`: cache a result template, as `spec.record_template` does. The
    arguments before `template` are those of `find_cached`.

    The template goes into the inline cache if an entry is free and the template has no key yet. The function returns true, or false if an
    error is set. Python code may run, which may clear all tables first. `instantiate_cached` and `cache_rows_template` call the function.
    """
    spec, slot, operation, other_key, template = f.arguments
    count = f.define(POINTER, "getelementptr i64, ptr @new_template_count, i64 0")

    def report_count() -> None:
        count.store(f.i64(0))
        f.call_python("count_new_templates")

    f.emit_if(count.load(I64) >= TEMPLATES_PER_REPORT, report_count)
    count.store(count.load(I64) + 1)
    is_new = lambda: f.is_object(f.get_slot(template, "ResultTemplate.operation"), "None")
    may_be_near = f.and_then(_can_use_inline_cache(f, slot), lambda: f.and_then(_has_free_entry(f, spec), is_new))
    is_near = f.and_then(may_be_near, lambda: f.call("write_inline_cache", I1, [spec, operation, other_key, template]))
    f.return_if(is_near, lambda: f.constant(I1, True))
    table = f.require_new(f.call("get_table", POINTER, [spec, slot]))
    f.emit_if(f.call("PyDict_Size", I64, [table]).equals(0), lambda: f.append_to_list(f.load_object("used_tables"), table))
    known_entries = f.look_up(table, operation)

    def add_entries() -> list[Value]:
        entries = f.require_new(f.call("PyDict_New", POINTER, []))
        f.require(f.call("PyDict_SetItem", I32, [table, operation, entries]).equals(0))
        f.untrack(table)
        f.release_held(entries)
        return [entries]

    (entries,) = f.choose(f.is_null(known_entries), add_entries, lambda: [known_entries])
    f.require(f.call("PyDict_SetItem", I32, [entries, other_key, template]).equals(0))
    f.untrack(entries)
    f.emit_if(f.is_instance(other_key, "tuple"), lambda: f.untrack(other_key))
    f.release_held(table)
    f.emit_return(f.constant(I1, True))


def _has_free_entry(f: FunctionBuilder, spec: Value) -> Value:
    """Emit a test whether one of the two inline cache entries of the spec `spec` is free. Return the result, an `i1`."""
    return _is_entry_free(f, spec, INLINE_CACHE_SLOTS[0]) | _is_entry_free(f, spec, INLINE_CACHE_SLOTS[1])


def _is_entry_free(f: FunctionBuilder, spec: Value, slot: str) -> Value:
    """Emit a test whether the inline cache entry in the slot `slot` of a spec is free: never written (null), or cleared by Python code
    (None). Return the result, an `i1`.
    """
    entry = f.get_slot(spec, f"Spec.{slot}")
    return f.is_null(entry) | f.is_object(entry, "None")


def _emit_write_inline_cache(f: FunctionBuilder) -> None:
    """Emit `write_inline_cache(spec, operation, other_key, template)`: write `template`, a result template, into a free inline cache entry
    of `spec`, and the key (`operation`, `other_key`) into the template.

    The caller has checked that an entry is free and that the template has no key. The function returns true, or false if memory runs out.
    Clearing the result caches also clears this entry. `cache_template` calls the function.
    """
    spec, operation, other_key, template = f.arguments
    is_first = _is_entry_free(f, spec, INLINE_CACHE_SLOTS[0])
    f.emit_if(is_first, lambda: f.append_to_list(f.load_object("used_tables"), spec))
    f.emit_if(f.is_instance(other_key, "tuple"), lambda: f.untrack(other_key))
    for slot, x in (("operation", operation), ("other_key", other_key)):
        f.decref(f.load_object("None"))
        f.set_slot(template, f"ResultTemplate.{slot}", f.incref(x))

    def write_entry(slot: str) -> list[Value]:
        old_entry = f.get_slot(spec, f"Spec.{slot}")
        f.set_slot(spec, f"Spec.{slot}", f.incref(template))
        f.emit_if(~f.is_null(old_entry), lambda: f.decref(old_entry))
        return []

    f.choose(is_first, lambda: write_entry(INLINE_CACHE_SLOTS[0]), lambda: write_entry(INLINE_CACHE_SLOTS[1]))
    f.emit_return(f.constant(I1, True))
