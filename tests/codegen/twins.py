"""Kernels run by both back ends on copies of the same memory: LLVM's machine code, and the interpreter as the reference.

Each operand of the machine code ends directly before a page without rights, and the bytes before it are checked. A kernel
that reads behind an operand crashes, and a write outside of the result is detected.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tenxor.codegen import interpreter
from tenxor.codegen.llvm.compiler import compiler
from tenxor.dtypes import DType, bfloat16, decode_elements
from tenxor.graph.node import EMPTY, REINTERPRET, Node, Scalar, is_write
from tenxor.lowering.fuse import collect_pending, fuse
from tenxor.lowering.ir import Kernel
from tenxor.lowering.lower import lower
from tenxor.lowering.parameterize import KernelBinding
from tenxor.memory.buffer import allocate
from tests.lowering.helpers import scalars_of

Array = np.ndarray[Any, Any]
Compare = Callable[[Array, Array], None]
PATTERN = 0xA5  # fills what a kernel must not touch
PAGE = mmap.PAGESIZE

_protect = ctypes.CDLL(None, use_errno=True).mprotect
_protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Fenced:
    """Memory of `nbytes` bytes directly before a page without rights, with checked guard bytes before it."""

    def __init__(self, nbytes: int) -> None:
        size = -(-(nbytes + 64) // PAGE) * PAGE
        self.map = mmap.mmap(-1, size + PAGE)
        self.all = np.frombuffer(self.map, np.uint8)
        start = self.all.ctypes.data
        assert _protect(start + size, PAGE, 0) == 0
        self.before = self.all[: size - nbytes]
        self.bytes = self.all[size - nbytes : size]
        self.all[:size] = PATTERN
        self.address = self.bytes.ctypes.data if nbytes else start + size

    def fill(self, content: Array) -> Fenced:
        """Set the content, and return the memory itself."""
        self.bytes[:] = content.view(np.uint8)
        return self

    def is_intact(self) -> bool:
        """Return whether no guard byte was written."""
        return bool((self.before == PATTERN).all())


def content(node: Node) -> Array:
    """Return the elements of a node in memory, in row-major order, as stored (`bfloat16` as bits)."""
    assert node.buffer is not None
    return node.buffer.typed_view(node.dtype)[: node.size]


def pack_arguments(kernel: Kernel, binding: KernelBinding, addresses: Sequence[int]) -> bytes:
    """Return the argument block of a kernel, as `lowering/ir` lays it out."""
    origins = [origin for _, origin in binding.operands] + [0] * kernel.can_fail
    addresses_in_block = [a + origin * o.dtype.itemsize for a, origin, o in zip(addresses, origins, kernel.operands, strict=True)]
    addresses_in_block += [int(t.offsets.ctypes.data) for t in binding.tables]
    block = struct.pack(f"={len(addresses_in_block)}q", *addresses_in_block)
    for dtype, scalar in zip(kernel.scalar_dtypes, scalars_of(binding), strict=True):
        code = {"float": "d", "uint": "Q"}.get(dtype.kind, "q")
        block += struct.pack(f"={code}", scalar)
    return block + struct.pack(f"={len(binding.sizes)}q", *binding.sizes) + bytes(8) * kernel.is_interruptible


def initial_content(node: Node) -> Array:
    """Return the content of a node's result memory before its kernel runs."""
    if is_write(node.op):
        old = node.sources[0]
        assert type(old) is Node
        return content(old).copy()
    return np.full(node.size * node.dtype.itemsize, PATTERN, np.uint8).view(node.dtype.numpy)


def interpreted(node: Node, kernel: Kernel, binding: KernelBinding) -> Array:
    """Return the result of a kernel by the interpreter."""
    return flagged(node, kernel, binding)[0]


def flagged(node: Node, kernel: Kernel, binding: KernelBinding) -> tuple[Array, int]:
    """Return the result of a kernel by the interpreter, and its flag: 1 if an index was out of range."""
    out, flag = initial_content(node), np.zeros(1, np.int64)
    operands = [out if source is None else content(source) for source, _ in binding.operands]
    origins = [origin for _, origin in binding.operands]
    if kernel.can_fail:
        operands.append(flag)
        origins.append(0)
    tables = [table.offsets for table in binding.tables]
    interpreter.run_kernel(kernel, operands, tables, scalars_of(binding), binding.sizes, origins)
    return out, int(flag[0])


def emitted(node: Node, kernel: Kernel, binding: KernelBinding, cuts: Sequence[int] | None = None, flag: int = 0) -> Array:
    """Return the result of a kernel by its machine code: in one call, or with the split loop cut at the indices `cuts`.

    The kernel must report `flag`, 1 for an index out of range.
    """
    initial = initial_content(node)
    out, flag_memory = Fenced(initial.nbytes).fill(initial), Fenced(8).fill(np.zeros(1, np.int64))
    memory = [out if source is None else Fenced(content(source).nbytes).fill(content(source)) for source, _ in binding.operands]
    block = pack_arguments(kernel, binding, [m.address for m in memory + [flag_memory] * kernel.can_fail])
    scratch = Fenced(binding.scratch_bytes)
    block += struct.pack("=2q", scratch.address, 0)
    code = compiler().get(kernel)
    if cuts is None:
        code.call_with_gil(block, *map(ctypes.c_int64, (0, binding.split_extent, 0)))
    else:
        for begin, end in pairwise([0, *cuts, binding.split_extent]):
            code.call_without_gil(block, begin, end, 0)
    for m in (*memory, flag_memory, scratch):
        assert m.is_intact(), f"written before an operand\n{kernel}"
    for (source, _), m in zip(binding.operands, memory, strict=True):
        if source is not None:
            assert bytes(m.bytes) == content(source).tobytes(), f"{source} should not look like that\n{kernel}"
    assert flag_memory.bytes.view(np.int64)[0] == flag, f"the flag should be {flag}\n{kernel}"
    return out.bytes.view(node.dtype.numpy).copy()


def as_real(elements: Array) -> Array:
    """Return complex elements as twice as many real ones."""
    return np.ascontiguousarray(elements).reshape(-1).view(elements.real.dtype)


def assert_same(actual: Array, expected: Array) -> None:
    """Check that elements have equal bits; all NaN are equal."""
    if expected.dtype.kind == "c":
        actual, expected = as_real(actual), as_real(expected)
    if expected.dtype.kind == "f":
        both_nan = np.isnan(actual) & np.isnan(expected)
        actual, expected = np.where(both_nan, 0, actual), np.where(both_nan, 0, expected)
    bits = f"u{expected.itemsize}"
    wrong = np.flatnonzero(actual.view(bits) != expected.view(bits))
    assert not wrong.size, f"element {wrong[0]}: {actual[wrong[0]]!r} is not {expected[wrong[0]]!r}; wrong: {wrong[:20]}"


def check(*roots: Node, compare: Compare = assert_same) -> list[Kernel]:
    """Compute pending nodes by both back ends, kernel by kernel, which must agree, and return the kernels."""
    order = collect_pending(roots)
    target = compiler().target
    nodes = fuse(order, roots, target)
    kernels: list[Kernel] = []
    for node in nodes:
        out = allocate(node.size * node.dtype.itemsize)
        if node.op is REINTERPRET:
            source = node.sources[0]
            assert type(source) is Node and source.buffer is not None
            node.set_buffer(source.buffer)
            continue
        if node.op is not EMPTY and node.size:
            kernel, binding = lower(node, set(nodes), target)
            kernels.append(kernel)
            out.typed_view(node.dtype)[:] = check_kernel(node, kernel, binding, compare)
        node.set_buffer(out)
    return kernels


def check_kernel(node: Node, kernel: Kernel, binding: KernelBinding, compare: Compare = assert_same) -> Array:
    """Run one kernel by both back ends, and by LLVM also in pieces, which must give equal bits. Return the interpreter's result."""
    expected, flag = flagged(node, kernel, binding)
    actual = emitted(node, kernel, binding, flag=flag)
    try:
        compare(_numbers(actual, node.dtype), _numbers(expected, node.dtype))
        if kernel.split_axis >= 0 and binding.split_extent > 1:
            third, half = binding.split_extent // 3, binding.split_extent // 2 + 1
            pieces = emitted(node, kernel, binding, sorted({third, half}), flag)
            assert pieces.tobytes() == actual.tobytes(), f"cut at {third} and {half}, the bits are others"
    except AssertionError as error:
        raise AssertionError(f"{error}\n{kernel}\nsizes {binding.sizes}, split {binding.split_extent}") from None
    return expected


def _numbers(elements: Array, dtype: DType) -> Array:
    return decode_elements(elements, dtype) if dtype is bfloat16 else elements


def number(value: float, dtype: DType) -> Scalar:
    """Return a scalar that a recipe reads."""
    return Scalar(value, dtype)
