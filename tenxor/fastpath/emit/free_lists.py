"""Free lists of small objects: a deallocated object of the classes `REUSED_CLASSES` is kept, and becomes the next new object of the same
class.

CPython's own allocation and deallocation take as long as the rest of an operation. So an emitted function replaces the deallocator of each
class (`tp_dealloc`). Like CPython, this function untracks the object in the collector, clears the weak references and drops the slots. Then
it keeps the memory, with empty slots. For an instance of a subclass, the interpreter has already done its own part and expects the memory
to be freed.
"""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I64, POINTER, VOID
from ..object_layout import REFCOUNT_OFFSET, REUSED_CLASSES, UNTRACKED_CLASSES, ObjectTable
from .function_builder import FunctionBuilder

MAX_FREE_OBJECTS = 2048  # objects of each class


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to create (`new_CLASS`) and deallocate (`dealloc_CLASS`) objects of the classes with a free list.

    For further classes in `UNTRACKED_CLASSES`, `new_CLASS` allocates, and CPython deallocates.
    """
    for cls in REUSED_CLASSES:
        module.define_global(f"free_{cls}_objects", f"internal global [{1 + MAX_FREE_OBJECTS} x i64] zeroinitializer, align 64")
        _emit_new_object(FunctionBuilder(module, objects, f"new_{cls}", []), cls)
        _emit_dealloc(FunctionBuilder(module, objects, f"dealloc_{cls}", [("x", POINTER)], VOID, is_exported=True), cls)
    for cls in UNTRACKED_CLASSES:
        if cls not in REUSED_CLASSES:
            f = FunctionBuilder(module, objects, f"new_{cls}", [])
            f.emit_return(f.allocate_instance(cls))


def _get_free_list(f: FunctionBuilder, cls: str) -> tuple[Value, Value]:
    """Emit two addresses in the free list of the class named `cls`, and return both: of its length, and of its first item."""
    length_address = f.define(POINTER, f"getelementptr i64, ptr @free_{cls}_objects, i64 0")
    return length_address, length_address.at(1, I64)


def _emit_new_object(f: FunctionBuilder, cls: str) -> None:
    """Emit `new_CLASS()`: return a new object of the class named `cls`, with empty slots, from the free list or newly allocated, as a new
    reference; null if memory runs out. `FunctionBuilder.new_instance` emits the calls of the function.
    """
    length_address, items = _get_free_list(f, cls)
    count = length_address.load(I64)
    f.return_if(count.equals(0), lambda: f.allocate_instance(cls))
    x = items.at(count - 1, I64).load(POINTER)
    length_address.store(count - 1)
    f.address_at(x, REFCOUNT_OFFSET).store(f.i64(1))
    f.incref(f.load_object(cls))
    if cls not in UNTRACKED_CLASSES:
        f.call("PyObject_GC_Track", VOID, [x])
    f.emit_return(x)


def _emit_dealloc(f: FunctionBuilder, cls: str) -> None:
    """Emit `dealloc_CLASS(x)`, the deallocator (`tp_dealloc`) of the class named `cls`: clear weak references and drop the slots of an
    object after its last reference is gone. Then put the object on the free list, or free its memory if the list is full or the object is
    of a subclass. The function returns nothing.
    """
    (x,) = f.arguments
    f.call("PyObject_GC_UnTrack", VOID, [x])
    if f.objects.get_weakref_offset(cls):
        weak_references = f.address_at(x, f.objects.get_weakref_offset(cls)).load(POINTER)
        f.emit_if(~f.is_null(weak_references), lambda: f.call("PyObject_ClearWeakRefs", VOID, [x]))
    for slot in f.objects.get_slot_offsets(cls):
        address = f.address_at(x, slot)
        content = address.load(POINTER)
        address.store(f.null())
        f.emit_if(~f.is_null(content), lambda content=content: f.decref(content))  # type: ignore[misc]
    address, items = _get_free_list(f, cls)
    count = address.load(I64)  # read late: dropping the slots may have deallocated more objects of the class

    def put_on_free_list() -> list[Value]:
        items.at(count, I64).store(x)
        address.store(count + 1)
        return []

    def free_memory() -> list[Value]:
        f.call("PyObject_GC_Del", VOID, [x])
        return []

    kind = f.type_of(x)
    f.choose(f.and_then(f.is_object(kind, cls), lambda: count < MAX_FREE_OBJECTS), put_on_free_list, free_memory)
    f.decref(kind)  # only live objects refer to their type
    f.emit("ret void")
