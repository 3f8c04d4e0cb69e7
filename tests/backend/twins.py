"""Kernels run by both back ends on copies of the same memory: LLVM's machine code, and the interpreter that is its oracle.

The memory that machine code sees ends where the process may read no further: a page without rights lies behind every
operand, and the bytes before it are checked. So a kernel that reads behind an operand crashes, and one that writes
outside of its result is told.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tenxor.backend import interpreter
from tenxor.backend.llvm.compiler import compiler
from tenxor.dtypes import DType, bfloat16, decoded
from tenxor.kernel.bind import Binding
from tenxor.kernel.fuse import fuse, pending
from tenxor.kernel.ir import Kernel
from tenxor.kernel.lower import lower
from tenxor.memory import allocate
from tenxor.node import EMPTY, REINTERPRET, Node, Scalar, writes
from tests.kernel.helpers import scalars_of

Array = np.ndarray[Any, Any]
Compare = Callable[[Array, Array], None]
PATTERN = 0xA5  # fills what a kernel must not touch
PAGE = mmap.PAGESIZE

_protect = ctypes.CDLL(None, use_errno=True).mprotect
_protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Fenced:
    """Memory for `nbytes` bytes right before a page that nobody may touch, and untouched bytes before them."""

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
        """The memory with this content."""
        self.bytes[:] = content.view(np.uint8)
        return self

    def is_intact(self) -> bool:
        """Whether nothing was written before the memory."""
        return bool((self.before == PATTERN).all())


def content(node: Node) -> Array:
    """The elements of a node in memory, in row-major order, as its memory has them (`bfloat16` as bits)."""
    assert node.buffer is not None
    return node.buffer.typed(node.dtype)[: node.size]


def packed(kernel: Kernel, binding: Binding, addresses: Sequence[int]) -> bytes:
    """The argument block of a kernel, as `kernel/ir` lays it out."""
    origins = [at for _, at in binding.operands] + [0] * kernel.flagged
    places = [a + at * o.dtype.itemsize for a, at, o in zip(addresses, origins, kernel.operands, strict=True)]
    places += [int(t.offsets.ctypes.data) for t in binding.tables]
    block = struct.pack(f"={len(places)}q", *places)
    for dtype, scalar in zip(kernel.scalars, scalars_of(binding), strict=True):
        code = {"float": "d", "uint": "Q"}.get(dtype.kind, "q")
        block += struct.pack(f"={code}", scalar)
    return block + struct.pack(f"={len(binding.sizes)}q", *binding.sizes) + bytes(8) * kernel.listens


def before(node: Node) -> Array:
    """What the memory of a node's result holds before its kernel runs."""
    if writes(node.op):
        old = node.sources[0]
        assert type(old) is Node
        return content(old).copy()
    return np.full(node.size * node.dtype.itemsize, PATTERN, np.uint8).view(node.dtype.numpy)


def interpreted(node: Node, kernel: Kernel, binding: Binding) -> Array:
    """The result of a kernel by the interpreter."""
    return flagged(node, kernel, binding)[0]


def flagged(node: Node, kernel: Kernel, binding: Binding) -> tuple[Array, int]:
    """The same, and its flag: whether it met an index out of range."""
    out, flag = before(node), np.zeros(1, np.int64)
    operands = [out if source is None else content(source) for source, _ in binding.operands]
    origins = [origin for _, origin in binding.operands]
    if kernel.flagged:
        operands.append(flag)
        origins.append(0)
    tables = [table.offsets for table in binding.tables]
    interpreter.run(kernel, operands, tables, scalars_of(binding), binding.sizes, origins)
    return out, int(flag[0])


def emitted(node: Node, kernel: Kernel, binding: Binding, cuts: Sequence[int] | None = None, flag: int = 0) -> Array:
    """The result of a kernel by its machine code: whole, or with the split loop in pieces, cut at the given indices.

    It must tell of an index out of range if `flag` is 1.
    """
    first = before(node)
    out, told = Fenced(first.nbytes).fill(first), Fenced(8).fill(np.zeros(1, np.int64))
    memory = [
        out if source is None else Fenced(content(source).nbytes).fill(content(source))
        for source, _ in binding.operands
    ]
    block = packed(kernel, binding, [m.address for m in memory + [told] * kernel.flagged])
    scratch = Fenced(binding.scratch)
    block += struct.pack("=2q", scratch.address, 0)
    code = compiler().get(kernel)
    if cuts is None:
        code.call(block, *map(ctypes.c_int64, (0, binding.split, 0)))
    else:
        for begin, end in pairwise([0, *cuts, binding.split]):
            code.call_free(block, begin, end, 0)
    for m in (*memory, told, scratch):
        assert m.is_intact(), f"written before an operand\n{kernel}"
    for (source, _), m in zip(binding.operands, memory, strict=True):
        if source is not None:
            assert bytes(m.bytes) == content(source).tobytes(), f"{source} should not look like that\n{kernel}"
    assert told.bytes.view(np.int64)[0] == flag, f"the flag should be {flag}\n{kernel}"
    return out.bytes.view(node.dtype.numpy).copy()


def in_parts(elements: Array) -> Array:
    """Complex elements as twice as many real ones."""
    return np.ascontiguousarray(elements).reshape(-1).view(elements.real.dtype)


def assert_same(found: Array, expected: Array) -> None:
    """Equal bits; but any NaN is as good as another."""
    if expected.dtype.kind == "c":
        found, expected = in_parts(found), in_parts(expected)
    if expected.dtype.kind == "f":
        both = np.isnan(found) & np.isnan(expected)
        found, expected = np.where(both, 0, found), np.where(both, 0, expected)
    bits = f"u{expected.itemsize}"
    wrong = np.flatnonzero(found.view(bits) != expected.view(bits))
    assert not wrong.size, f"element {wrong[0]}: {found[wrong[0]]!r} is not {expected[wrong[0]]!r}; wrong: {wrong[:20]}"


def check(*roots: Node, compare: Compare = assert_same) -> list[Kernel]:
    """Compute pending nodes by both back ends, kernel by kernel; they must agree. The kernels that it took."""
    order = pending(roots)
    target = compiler().target
    nodes = fuse(order, roots, target)
    kernels: list[Kernel] = []
    for node in nodes:
        out = allocate(node.size * node.dtype.itemsize)
        if node.op is REINTERPRET:
            source = node.sources[0]
            assert type(source) is Node and source.buffer is not None
            node.settle(source.buffer)
            continue
        if node.op is not EMPTY and node.size:
            kernel, binding = lower(node, set(nodes), target)
            kernels.append(kernel)
            out.typed(node.dtype)[:] = check_kernel(node, kernel, binding, compare)
        node.settle(out)
    return kernels


def check_kernel(node: Node, kernel: Kernel, binding: Binding, compare: Compare = assert_same) -> Array:
    """One kernel by both back ends, and by LLVM in pieces too, which must give the very bits; the interpreter's result."""
    expected, flag = flagged(node, kernel, binding)
    found = emitted(node, kernel, binding, flag=flag)
    try:
        compare(_numbers(found, node.dtype), _numbers(expected, node.dtype))
        if kernel.split >= 0 and binding.split > 1:
            third, half = binding.split // 3, binding.split // 2 + 1
            pieces = emitted(node, kernel, binding, sorted({third, half}), flag)
            assert pieces.tobytes() == found.tobytes(), f"cut at {third} and {half}, the bits are others"
    except AssertionError as error:
        raise AssertionError(f"{error}\n{kernel}\nsizes {binding.sizes}, split {binding.split}") from None
    return expected


def _numbers(elements: Array, dtype: DType) -> Array:
    return decoded(elements, dtype) if dtype is bfloat16 else elements


def number(value: float, dtype: DType) -> Scalar:
    """A number that a recipe reads."""
    return Scalar(value, dtype)
