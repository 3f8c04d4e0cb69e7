"""Object files are linked to code images, which are loaded without LLVM; unknown object files are left to LLVM."""

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
from tenxor.codegen.llvm import code_image, compiler, elf_linker, kernel_disk_cache
from tenxor.codegen.llvm.code_image import LinkedCode, load_image
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
# Addresses in memory: of a function, of a constant and of a C function
POINTERS = """
@word = internal constant i64 70
@addresses = global [3 x ptr] [ptr @first, ptr @word, ptr @labs]
declare i64 @labs(i64)
define i64 @first(i64 %k) {
  %other = load ptr, ptr getelementptr ([3 x ptr], ptr @addresses, i64 0, i64 2)
  %x = call i64 %other(i64 %k)
  %at = load ptr, ptr getelementptr ([3 x ptr], ptr @addresses, i64 0, i64 1)
  %word = load i64, ptr %at
  %y = add i64 %x, %word
  ret i64 %y
}
"""
PER_THREAD = WRITTEN.replace("@count = global", "@count = thread_local global")
Function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def compile_text(text: str) -> bytes:
    return compile_object(text, compiler.compiler().target_machine)


def link_and_load(text: str, *symbols: str) -> LinkedCode | None:
    image = elf_linker.link_object(compile_text(text), symbols)
    assert image is not None
    return load_image(image.serialize())


def test_linked_code_reaches_constants_functions_and_process_symbols() -> None:
    linked = link_and_load(MODULE, "first", "second")
    assert linked is not None
    first, second = Function(linked["first"]), Function(linked["second"])
    assert [first(k) for k in range(4)] == [22, 44, 66, 88]
    assert second(-5) == 5


def test_linked_code_writes_its_globals() -> None:
    linked = link_and_load(WRITTEN, "first", "count")
    assert linked is not None
    first = Function(linked["first"])
    assert [first(2), first(2), first(5)] == [42, 44 + 42, 49]
    assert ctypes.c_int64.from_address(linked["count"]).value == 49


def test_linked_code_reads_addresses_from_its_variables() -> None:
    linked = link_and_load(POINTERS, "first", "addresses")
    assert linked is not None
    assert Function(linked["first"])(-5) == 75
    assert ctypes.c_int64.from_address(linked["addresses"]).value == linked["first"]


def test_copies_of_an_image_have_variables_of_their_own() -> None:
    image = elf_linker.link_object(compile_text(WRITTEN), ("first",))
    assert image is not None
    copies = [image.load(), image.load()]
    assert [Function(linked["first"])(2) for linked in copies if linked is not None] == [42, 42]


@pytest.mark.parametrize("text", [MODULE, WRITTEN])
def test_linked_code_is_executable_and_read_only(text: str) -> None:
    linked = link_and_load(text, "first")
    assert linked is not None
    lines = Path("/proc/self/maps").read_text().splitlines()
    spans = [(line.split()[0].split("-"), line.split()[1]) for line in lines]
    (rights,) = [r for (low, high), r in spans if int(low, 16) <= linked["first"] < int(high, 16)]
    assert rights == "r-xp"


def test_code_memory_is_freed_with_the_last_reference() -> None:
    linked = link_and_load(MODULE, "first")
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
                struct.pack_into("<I", changed, entry + 8, 99)
    return bytes(changed)


@pytest.mark.parametrize("change", [truncated, for_another_machine, with_unknown_relocation, lambda content: b"no object file" * 9])
def test_unknown_object_files_are_left_to_llvm(change: Callable[[bytes], bytes]) -> None:
    assert elf_linker.link_object(change(compile_text(MODULE)), ("first",)) is None


def test_thread_local_variables_are_left_to_llvm() -> None:
    assert elf_linker.link_object(compile_text(PER_THREAD), ("first",)) is None


def test_code_that_calls_a_missing_function_is_not_loaded() -> None:
    assert link_and_load(UNRESOLVED, "first") is None


def test_object_file_is_not_loaded_as_an_image() -> None:
    """A wheel built where LLVM links contains object files."""
    assert load_image(compile_text(MODULE)) is None


def test_missing_function_is_not_linked() -> None:
    assert elf_linker.link_object(compile_text(MODULE), ("first", "third")) is None


def test_refused_executable_memory_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(nbytes: int, code: int, content: Callable[[int], bytes]) -> None:
        raise OSError("no")

    monkeypatch.setattr(code_image, "map_executable", refused)
    assert link_and_load(MODULE, "first") is None


def test_code_linked_by_llvm_gives_equal_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """The values are those of the own linker."""
    x = tx.linspace(0.0, 5.0, 1000).realize()
    expected = np.sin(x.to_numpy()) * 3 - 1
    monkeypatch.setattr(elf_linker, "link_object", lambda object_file, symbols: None)
    monkeypatch.setattr(kernel_disk_cache, "read", lambda key: None)
    monkeypatch.setattr(kernel_disk_cache, "write", lambda key, content: None)
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


CODE_IN_MEMORY = """
import ctypes
import hashlib
import mmap
import tenxor as tx
from tenxor.codegen.llvm.code_image import CodeImage
from tenxor.codegen.llvm.compiler import compiler

images, load = {}, CodeImage.load

def load_and_note(image):
    linked = load(image)
    images[id(linked)] = image
    return linked

CodeImage.load = load_and_note
tx.set_num_threads(1)
x, layer = tx.arange(2048.0).reshape(4, 8, 8, 8), tx.nn.Conv2d(8, 8, 3, padding=1, dtype=tx.float64)
(layer(x) ** 2).mean().backward()
tx.realize(*[parameter.grad for parameter in layer.parameters()], tx.exp(x @ x.mT))
for text_hash, reference in sorted(compiler()._code_by_hash.items()):
    code = reference()
    image = images[id(code.library)]  # a KeyError if LLVM linked the code
    (offset,) = image.symbols.values()
    memory = bytearray(ctypes.string_at(code.address - offset, image.code_bytes))
    for position in (*image.pointers, *sum(image.externals.values(), [])):
        memory[position : position + 8] = bytes(8)  # addresses differ between processes
    print(text_hash, code.address % mmap.PAGESIZE, hashlib.sha256(memory).hexdigest(), code.origin)
"""


def test_kernel_from_disk_has_the_bytes_and_page_offset_of_the_compiled_one(tmp_path: Path) -> None:
    """So the process that compiles a kernel runs the kernel as fast as the processes that find it on disk."""
    environment = {**os.environ, "TENXOR_CACHE_DIR": str(tmp_path), "TENXOR_SHIPPED": ""}
    outputs = [python("-c", CODE_IN_MEMORY, env=environment).stdout.splitlines() for _ in range(2)]
    compiled, loaded = [{line.split()[0]: line.split()[1:] for line in lines} for lines in outputs]
    assert len(compiled) > 5
    assert {origin for *_, origin in compiled.values()} == {"compiled"} and {origin for *_, origin in loaded.values()} == {"disk"}
    assert {k: memory for k, (*memory, _) in compiled.items()} == {k: memory for k, (*memory, _) in loaded.items()}
