"""Small memory: blocks of up to `MAX_SMALL_BLOCK_BYTES` bytes, Python objects that return to the free list of their size when deallocated.
The data of a block stand behind its header.

Blocks are counted apart from the pool. `@block_byte_counters` has the bytes in use, the peak of these, the bytes kept for reuse, and the
bytes allowed. Beyond the allowed bytes no block is given here, and Python decides (`Pool.raise_small_allowance`).
"""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I32, I64, POINTER, VOID
from ...memory.block_pool import MIN_STAGGERED_BYTES, PAGE_BYTES, START_STAGGER_BYTES
from ..limits import BLOCK_COUNTER_WORDS, MAX_SMALL_BLOCK_BYTES
from ..object_layout import REFCOUNT_OFFSET, TYPE_OFFSET, ObjectTable
from .function_builder import FunctionBuilder

UNIT_BYTES = 64  # bytes; sizes are multiples of a unit, and the data of a block are aligned to it
SIZE_CLASS_COUNT = MAX_SMALL_BLOCK_BYTES // UNIT_BYTES + 1
# Sizes up to `MAX_EXACT_UNITS` are exact. Larger sizes keep `SIZE_MANTISSA_BITS` bits after the first and are rounded up, as in the pool
MAX_EXACT_UNITS, SIZE_MANTISSA_BITS = 64, 3
MAX_FREE_BYTES = 1 << 25  # maximal bytes kept for reuse
# Offsets in a block. At `ADDRESS_OBJECT_OFFSET` is the address of the data as a Python integer
UNITS_OFFSET, ADDRESS_OBJECT_OFFSET, NEXT_BLOCK_OFFSET, RAW_ADDRESS_OFFSET, BLOCK_DATA_OFFSET = 16, 24, 32, 40, UNIT_BYTES
BYTES_IN_USE_OFFSET, PEAK_BYTES_OFFSET, POOLED_BYTES_OFFSET, ALLOWED_BYTES_OFFSET = 0, 8, 16, 24  # offsets in `@block_byte_counters`


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to allocate and free small blocks of memory.

    The functions emitted include `allocate_block`, `new_block`, `dealloc_block`, `release_blocks` and `get_block_buffer`.
    """
    module.define_global("free_blocks", f"internal global [{SIZE_CLASS_COUNT} x ptr] zeroinitializer")
    module.define_global("start_stagger", "internal global i64 0")
    module.define_global("block_byte_counters", f"global [{BLOCK_COUNTER_WORDS} x i64] zeroinitializer")
    _emit_allocate_block(FunctionBuilder(module, objects, "allocate_block", [("nbytes", I64)]))
    _emit_new_block(FunctionBuilder(module, objects, "new_block", [("units", I64)]))
    _emit_dealloc_block(FunctionBuilder(module, objects, "dealloc_block", [("block", POINTER)], VOID, is_exported=True))
    _emit_release_blocks(FunctionBuilder(module, objects, "release_blocks", [], VOID, is_exported=True))
    _emit_get_block_buffer(
        FunctionBuilder(module, objects, "get_block_buffer", [("block", POINTER), ("view", POINTER), ("flags", I32)], I32, is_exported=True)
    )


def _emit_allocate_block(f: FunctionBuilder) -> None:
    """Emit `allocate_block(nbytes)`: return a block object with at least `nbytes` bytes of data, a new reference; null beyond the allowed
    bytes, for more than `MAX_SMALL_BLOCK_BYTES`, without an error, or if memory runs out.

    `nbytes` must be at most `MAX_SMALL_BLOCK_BYTES`, which is not checked: there are no free lists of larger sizes. The block comes from
    the free list of its size, or is newly allocated. The data are not initialized.
    """
    (nbytes,) = f.arguments
    f.require(nbytes <= MAX_SMALL_BLOCK_BYTES)
    units = (nbytes + (UNIT_BYTES - 1)).logical_shift_right(6)
    units = _round_up_units(f, f.select_value(units.equals(0), f.i64(1), units))
    size = units * UNIT_BYTES
    in_use = get_counter_address(f, BYTES_IN_USE_OFFSET).load(I64) + size
    pooled = get_counter_address(f, POOLED_BYTES_OFFSET).load(I64)
    list_head = _get_free_list_head(f, units)
    block = list_head.load(POINTER)
    is_new = f.is_null(block)
    after = f.select_value(is_new, pooled, pooled - size)
    f.require(in_use + after <= get_counter_address(f, ALLOWED_BYTES_OFFSET).load(I64))

    def reuse() -> list[Value]:
        list_head.store(f.address_at(block, NEXT_BLOCK_OFFSET).load(POINTER))
        get_counter_address(f, POOLED_BYTES_OFFSET).store(after)
        f.address_at(block, REFCOUNT_OFFSET).store(f.i64(1))
        return [block]

    (allocated_block,) = f.choose(is_new, lambda: [f.call("new_block", POINTER, [units])], reuse)
    f.decline_if(f.is_null(allocated_block))
    get_counter_address(f, BYTES_IN_USE_OFFSET).store(in_use)
    f.emit_if(in_use > get_counter_address(f, PEAK_BYTES_OFFSET).load(I64), lambda: get_counter_address(f, PEAK_BYTES_OFFSET).store(in_use))
    f.emit_return(allocated_block)


def _round_up_units(f: FunctionBuilder, units: Value) -> Value:
    """Emit the rounding up of a size, `units` times `UNIT_BYTES` bytes, to a size for which there is a free list. Return the number of
    units. Sizes up to `MAX_EXACT_UNITS` units stay.

    With fewer sizes, a block still in a processor cache is reused for slightly larger or smaller requests.
    """
    step = f.i64(1) << (f.i64(63 - SIZE_MANTISSA_BITS) - f.call("llvm.ctlz.i64", I64, [units, f.constant(I1, True)]))
    return f.choose(units <= MAX_EXACT_UNITS, lambda: [units], lambda: [(units + step - 1) & -step])[0]


def _emit_new_block(f: FunctionBuilder) -> None:
    """Emit `new_block(units)`: return a newly allocated block with `units` times `UNIT_BYTES` bytes of data, a new reference; null if
    memory runs out. `allocate_block` calls the function.

    The block holds no reference to its type, which is immortal. Large blocks begin at different offsets in their pages (see
    `block_pool.START_STAGGER_BYTES`).
    """
    (units,) = f.arguments
    stagger = f.define(POINTER, "getelementptr i8, ptr @start_stagger, i64 0")
    period = f.select_value(units < MIN_STAGGERED_BYTES // UNIT_BYTES, f.i64(UNIT_BYTES), f.i64(PAGE_BYTES))
    raw = f.call("PyMem_RawMalloc", POINTER, [units * UNIT_BYTES + period + BLOCK_DATA_OFFSET])
    f.decline_if(f.is_null(raw))
    stagger.store((stagger.load(I64) + START_STAGGER_BYTES) & (PAGE_BYTES - 1))
    start = raw.cast("ptrtoint", I64)
    block = (start + ((stagger.load(I64) - start - BLOCK_DATA_OFFSET) & (period - 1))).cast("inttoptr", POINTER)
    number = f.call("PyLong_FromLongLong", POINTER, [block.cast("ptrtoint", I64) + BLOCK_DATA_OFFSET])
    f.address_at(block, REFCOUNT_OFFSET).store(f.i64(1))
    f.address_at(block, TYPE_OFFSET).store(f.load_object("Block"))
    f.address_at(block, UNITS_OFFSET).store(units)
    f.address_at(block, ADDRESS_OBJECT_OFFSET).store(number)
    f.address_at(block, RAW_ADDRESS_OFFSET).store(raw)
    is_out_of_memory = f.is_null(number)
    f.emit_if(is_out_of_memory, lambda: f.call("PyMem_RawFree", VOID, [raw]))
    f.emit_return(f.select_value(is_out_of_memory, f.null(), block))


def _emit_dealloc_block(f: FunctionBuilder) -> None:
    """Emit `dealloc_block(block)`, the deallocator of a block: put the block into the free list of its size. CPython calls the function; it
    returns nothing. If more than `MAX_FREE_BYTES` bytes would be kept, all free blocks are released first, as other sizes are needed now.
    """
    (block,) = f.arguments
    units = f.load_word(block, UNITS_OFFSET)
    size = units * UNIT_BYTES
    get_counter_address(f, BYTES_IN_USE_OFFSET).store(get_counter_address(f, BYTES_IN_USE_OFFSET).load(I64) - size)
    f.emit_if(get_counter_address(f, POOLED_BYTES_OFFSET).load(I64) + size > MAX_FREE_BYTES, lambda: f.call("release_blocks", VOID, []))
    list_head = _get_free_list_head(f, units)
    f.address_at(block, NEXT_BLOCK_OFFSET).store(list_head.load(POINTER))
    list_head.store(block)
    get_counter_address(f, POOLED_BYTES_OFFSET).store(get_counter_address(f, POOLED_BYTES_OFFSET).load(I64) + size)
    f.emit("ret void")


def _emit_get_block_buffer(f: FunctionBuilder) -> None:
    """Emit `get_block_buffer(block, view, flags)`, the buffer protocol of a block: fill the `Py_buffer` at `view`; return 0, or -1 for an
    error.

    The view is writable, and keeps the block alive. `flags` are those of `PyObject_GetBuffer`.
    """
    block, view, flags = f.arguments
    size = f.load_word(block, UNITS_OFFSET) * UNIT_BYTES
    f.emit_return(f.call("PyBuffer_FillInfo", I32, [view, block, f.address_at(block, BLOCK_DATA_OFFSET), size, f.constant(I32, 0), flags]))


def _emit_release_blocks(f: FunctionBuilder) -> None:
    """Emit `release_blocks()`: return the memory of all free blocks to the system. Python and `dealloc_block` call the function. The
    function returns nothing.
    """
    f.for_range(f.i64(SIZE_CLASS_COUNT), lambda units: _release_size_class(f, units))
    get_counter_address(f, POOLED_BYTES_OFFSET).store(f.i64(0))
    f.emit("ret void")


def _release_size_class(f: FunctionBuilder, units: Value) -> None:
    """Emit the return of the free blocks of a single size, `units` times `UNIT_BYTES` bytes, to the system. The counters are
    not changed.
    """
    next_block = f.local(POINTER, _get_free_list_head(f, units).load(POINTER))
    _get_free_list_head(f, units).store(f.null())

    def release_block() -> None:
        block = next_block.load(POINTER)
        next_block.store(f.address_at(block, NEXT_BLOCK_OFFSET).load(POINTER))
        _free_memory(f, block)

    f.repeat_while(lambda: ~f.is_null(next_block.load(POINTER)), release_block)


def _free_memory(f: FunctionBuilder, block: Value) -> None:
    """Emit the return of the memory of the free block `block` to the system."""
    f.decref(f.address_at(block, ADDRESS_OBJECT_OFFSET).load(POINTER))
    f.call("PyMem_RawFree", VOID, [f.address_at(block, RAW_ADDRESS_OFFSET).load(POINTER)])


def get_counter_address(f: FunctionBuilder, counter_offset: int) -> Value:
    """Emit the address of the counter at byte `counter_offset` of `@block_byte_counters` (`BYTES_IN_USE_OFFSET` to `ALLOWED_BYTES_OFFSET`),
    a 64-bit integer. Return the address.
    """
    return f.define(POINTER, f"getelementptr i8, ptr @block_byte_counters, i64 {counter_offset}")


def get_data_address(f: FunctionBuilder, block: Value) -> Value:
    """Emit the address of the data of the block object `block`. Return the address."""
    return f.address_at(block, BLOCK_DATA_OFFSET)


def _get_free_list_head(f: FunctionBuilder, units: Value) -> Value:
    """Emit the address of the pointer to the first free block of `units` times `UNIT_BYTES` bytes. Return the address. The pointer is null
    for an empty list.
    """
    return f.define(POINTER, f"getelementptr ptr, ptr @free_blocks, i64 {units.text}")
