"""Test that deallocation runs no Python code: an error that a signal raises there, such as KeyboardInterrupt, would be swallowed."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest
from llvmlite.binding import ffi

import tenxor as tx
from tenxor.codegen.llvm import elf_linker
from tenxor.codegen.llvm.code_image import LinkedCode
from tenxor.codegen.llvm.compiler import KERNEL_SYMBOL, Compiler, MachineCode, compiler
from tenxor.codegen.llvm.llvmlite_binding import LlvmLinker
from tests.lowering.helpers import kernel_of


def with_gradient() -> tx.Tensor:
    x = tx.ones(5)
    x.requires_grad = True
    (x * x).sum().backward()
    return x


def exported() -> tuple[tx.Tensor, Any]:
    x = tx.ones(5)
    return x, np.asarray(x)


def make_kernel() -> tuple[Compiler, MachineCode]:
    private_compiler = Compiler()
    code = private_compiler.get(kernel_of(tx.full(7, 0.5).realize() * 2 + 1))
    private_compiler.kernels.drop_recent()
    return private_compiler, code


def link_by_llvm() -> LinkedCode | None:
    current_compiler = compiler()
    image = current_compiler._compile_object(current_compiler.emit_llvm_ir(kernel_of(tx.full(7, 0.5).realize() * 2 + 1)))
    return current_compiler._linker.link(image, (KERNEL_SYMBOL,))


MAKERS: dict[str, Callable[[], object]] = {
    "a tensor": lambda: tx.ones(5).realize(),
    "a number": lambda: tx.asarray(5.0),
    "a large tensor": lambda: tx.ones(1 << 24).realize(),
    "a pending tensor": lambda: tx.ones(5) + tx.ones(5) * 2,
    "a view": lambda: tx.arange(12).reshape(3, 4).T[1:],
    "an exported tensor": exported,
    "a tensor of NumPy's memory": lambda: tx.asarray(np.ones(5)),
    "a leaf with its gradient": with_gradient,
    "a pending sum over a leaf": lambda: (with_gradient() * 3).sum(),
    "a kernel": make_kernel,
    "code linked by LLVM": link_by_llvm,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_deallocation_calls_no_python_function(make: Callable[[], object]) -> None:
    def listen(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_qualname if sys.version_info >= (3, 11) else frame.f_code.co_name)

    objects, called = [make()], list[str]()
    before = sys.getprofile()
    sys.setprofile(listen)
    try:
        objects.clear()
    finally:
        sys.setprofile(before)
    assert not called


@pytest.fixture
def llvm_deallocations(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Return a list that tells for each deallocated LLVM object whether this was in the main thread."""
    in_main_thread, die = list[bool](), ffi.ObjectRef.__del__

    def log_and_die(ref: Any) -> None:
        in_main_thread.append(threading.current_thread() is threading.main_thread())
        die(ref)

    gc.collect()  # objects of earlier tests, whose threads do not matter
    with monkeypatch.context() as patched:
        patched.setattr(ffi.ObjectRef, "__del__", log_and_die)
        yield in_main_thread


def test_llvm_objects_are_deallocated_outside_the_main_thread(llvm_deallocations: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENXOR_CACHE_DIR", "")
    private_compiler, kernel = Compiler(), kernel_of(tx.full(7, 0.5).realize() * 2 + 1)
    private_compiler.get(kernel)
    private_compiler.compile_assembly(kernel)
    monkeypatch.setattr(elf_linker, "link_object", lambda image, symbols: None)
    private_compiler.kernels.drop_recent()
    private_compiler.get(kernel)
    assert len(llvm_deallocations) >= 3 and not any(llvm_deallocations)


def test_code_linked_by_llvm_outlives_its_linker_and_is_freed_at_the_next_link(llvm_deallocations: list[bool]) -> None:
    """Code that is no longer needed stays loaded until its linker links again."""
    current_compiler = compiler()
    image = current_compiler._compile_object(current_compiler.emit_llvm_ir(kernel_of(tx.full(7, 0.5).realize() * 2 + 1)))
    gc.collect()
    llvm_deallocations.clear()
    linked = [LlvmLinker(current_compiler.target_machine).link(image, (KERNEL_SYMBOL,))]
    gc.collect()
    first = linked[0]
    assert first is not None and not llvm_deallocations
    linker: LlvmLinker = first._memory
    del first
    linked.clear()
    assert len(linker.loaded_libraries) == 1
    linked.append(linker.link(image, (KERNEL_SYMBOL,)))
    assert len(linker.loaded_libraries) == 1 and llvm_deallocations == [False]
