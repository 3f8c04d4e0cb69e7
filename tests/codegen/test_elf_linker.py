"""Object files are linked without LLVM; unknown ones are left to LLVM."""

from __future__ import annotations

import ctypes
import gc
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from weakref import ref

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen.llvm import compiler, elf_linker
from tenxor.codegen.llvm.compiler import Compiler
from tenxor.codegen.llvm.llvmlite_binding import compile_object
from tests.processes import python

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.uname().machine != "x86_64", reason="object files of another kind"
)

# A constant in memory, another function, one of the process, and a symbol that nobody has.
MODULE = """
@table = internal constant [4 x i64] [i64 11, i64 22, i64 33, i64 44]
declare i64 @labs(i64)
define internal i64 @twice(i64 %x) noinline {
  %y = add i64 %x, %x
  ret i64 %y
}
define i64 @first(i64 %k) {
  %at = getelementptr i64, ptr @table, i64 %k
  %x = load i64, ptr %at
  %y = call i64 @twice(i64 %x)
  ret i64 %y
}
define i64 @second(i64 %x) {
  %y = call i64 @labs(i64 %x)
  ret i64 %y
}
"""
UNRESOLVED = MODULE.replace("@labs", "@nobody_has_this")
WRITTEN = """
@count = global i64 40
@zeros = internal global [600 x i64] zeroinitializer, align 64
define i64 @first(i64 %k) {
  %before = load i64, ptr @count
  %now = add i64 %before, %k
  store i64 %now, ptr @count
  %at = getelementptr i64, ptr @zeros, i64 %k
  %x = load i64, ptr %at
  store i64 %now, ptr %at
  %y = add i64 %now, %x
  ret i64 %y
}
"""
PER_THREAD = WRITTEN.replace("@count = global", "@count = thread_local global")
Function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def image(text: str) -> bytes:
    return compile_object(text, compiler.compiler().target_machine)


def test_linked_code_reaches_constants_functions_and_process_symbols() -> None:
    linked = elf_linker.link_object(image(MODULE), ("first", "second"))
    assert linked is not None
    first, second = Function(linked["first"]), Function(linked["second"])
    assert [first(k) for k in range(4)] == [22, 44, 66, 88]
    assert second(-5) == 5


def test_linked_code_writes_its_globals() -> None:
    linked = elf_linker.link_object(image(WRITTEN), ("first", "count"))
    assert linked is not None
    first = Function(linked["first"])
    assert [first(2), first(2), first(5)] == [42, 44 + 42, 49]
    assert ctypes.c_int64.from_address(linked["count"]).value == 49


@pytest.mark.parametrize("text", [MODULE, WRITTEN])
def test_linked_code_is_executable_and_read_only(text: str) -> None:
    linked = elf_linker.link_object(image(text), ("first",))
    assert linked is not None
    lines = Path("/proc/self/maps").read_text().splitlines()
    spans = [(line.split()[0].split("-"), line.split()[1]) for line in lines]
    (rights,) = [r for (low, high), r in spans if int(low, 16) <= linked["first"] < int(high, 16)]
    assert rights == "r-xp"


def test_code_memory_is_freed_with_the_last_reference() -> None:
    linked = elf_linker.link_object(image(MODULE), ("first",))
    assert linked is not None
    memory, address = ref(linked), linked["first"]
    areas = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]  # neighbours may be one area
    assert [rights for area, rights, *_ in areas if int(area.split("-")[0], 16) <= address < int(area.split("-")[1], 16)] == ["r-xp"]
    del linked
    gc.collect()
    assert memory() is None


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


def for_another_machine(content: bytes) -> bytes:
    return content[:18] + struct.pack("<H", 183) + content[20:]


def with_unknown_relocation(content: bytes) -> bytes:
    """Return the object file with an unknown kind of relocation."""
    count, table = struct.unpack_from("<H", content, 60)[0], struct.unpack_from("<Q", content, 40)[0]
    changed = bytearray(content)
    for k in range(count):
        kind, begin, size = (struct.unpack_from("<" + f, content, table + 64 * k + o)[0] for f, o in (("I", 4), ("Q", 24), ("Q", 32)))
        if kind == 4:
            for entry in range(begin, begin + size, 24):
                struct.pack_into("<I", changed, entry + 8, 9)
    return bytes(changed)


@pytest.mark.parametrize("change", [truncated, for_another_machine, with_unknown_relocation, lambda content: b"no object file" * 9])
def test_unknown_object_files_are_left_to_llvm(change: Callable[[bytes], bytes]) -> None:
    assert elf_linker.link_object(change(image(MODULE)), ("first",)) is None


@pytest.mark.parametrize("text", [UNRESOLVED, PER_THREAD])
def test_unresolved_and_thread_local_symbols_are_left_to_llvm(text: str) -> None:
    assert elf_linker.link_object(image(text), ("first",)) is None


def test_missing_function_is_not_linked() -> None:
    assert elf_linker.link_object(image(MODULE), ("first", "third")) is None


def test_refused_executable_memory_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(nbytes: int, code: int, content: Callable[[int], bytes]) -> None:
        raise OSError("no")

    monkeypatch.setattr(elf_linker, "map_executable", refused)
    assert elf_linker.link_object(image(MODULE), ("first",)) is None


def test_code_linked_by_llvm_gives_equal_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """The values are those of the own linker."""
    x = tx.linspace(0.0, 5.0, 1000).realize()
    expected = np.sin(x.to_numpy()) * 3 - 1
    monkeypatch.setattr(compiler, "link_object", lambda image, symbols: None)
    native = Compiler()
    monkeypatch.setattr(compiler, "_compiler", native)
    tx.realize(tx.ones(3))
    actual = tx.sin(x) * 3 - 1
    np.testing.assert_allclose(actual.to_numpy(), expected, rtol=1e-14, atol=1e-14)
    assert native._linker.attempt_count > 0


def test_all_kernels_are_linked_without_llvm(tmp_path: Path) -> None:
    """A process that finds all kernels on disk, also products, reductions, tables and threads, does not load LLVM.

    The test uses its own cache folder: other processes may evict files from the shared one.
    """
    program = """
import sys
import tenxor as tx
tx.set_num_threads(2)
x = tx.arange(90000.0).reshape(300, 300)
for t in (x @ x.T, tx.softmax(x), tx.sin(x), tx.exp(x), x.T + 1, x.oindex[[1, 5]], tx.ones(1 << 22) * 3, tx.ones((1100, 1100)).sum()):
    t.realize()
print(sum(name == "llvmlite.binding" for name in sys.modules), tx.compile_counts()[0])
"""
    environment = {**os.environ, "TENXOR_CACHE_DIR": str(tmp_path)}
    processes = [python("-c", program, env=environment) for _ in range(2)]
    assert processes[1].stdout.split() == ["0", "0"]
