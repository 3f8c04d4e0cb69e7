"""Objects are freed without running Python code: Python would swallow an error that a signal (Ctrl-C) raises there."""

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
from tenxor.backend.llvm import compiler as module
from tenxor.backend.llvm.compiler import ENTRY, Compiler, MachineCode, compiler
from tenxor.backend.llvm.linking import Linked
from tenxor.backend.llvm.machine import Linker
from tests.kernel.helpers import kernel_of


def with_gradient() -> tx.Tensor:
    x = tx.ones(5)
    x.requires_grad = True
    (x * x).sum().backward()
    return x


def exported() -> tuple[tx.Tensor, Any]:
    x = tx.ones(5)
    return x, np.asarray(x)


def make_kernel() -> tuple[Compiler, MachineCode]:
    own = Compiler()
    made = own.get(kernel_of(tx.full(7, 0.5).realize() * 2 + 1))
    own.kernels.forget()
    return own, made


def linked_by_llvm() -> Linked | None:
    made = compiler()
    image = made._image(made.llvm_ir(kernel_of(tx.full(7, 0.5).realize() * 2 + 1)))
    return made._linker.link(image, (ENTRY,))


DYING: dict[str, Callable[[], object]] = {
    "a tensor": lambda: tx.ones(5).realize(),
    "a number": lambda: tx.asarray(5.0),
    "a large tensor": lambda: tx.ones(1 << 24).realize(),
    "what is pending": lambda: tx.ones(5) + tx.ones(5) * 2,
    "a view": lambda: tx.arange(12).reshape(3, 4).T[1:],
    "what is exported": exported,
    "a tensor of NumPy's memory": lambda: tx.asarray(np.ones(5)),
    "a leaf with its gradient": with_gradient,
    "what a gradient needs": lambda: (with_gradient() * 3).sum(),
    "a kernel": make_kernel,
    "what LLVM linked": linked_by_llvm,
}


@pytest.mark.parametrize("make", DYING.values(), ids=DYING.keys())
def test_deallocation_calls_no_python_function(make: Callable[[], object]) -> None:
    def listen(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_qualname if sys.version_info >= (3, 11) else frame.f_code.co_name)

    held, called = [make()], list[str]()
    before = sys.getprofile()
    sys.setprofile(listen)
    try:
        held.clear()
    finally:
        sys.setprofile(before)
    assert not called


@pytest.fixture
def llvm_deallocations(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """For each LLVM object freed during the test, whether that happened in the main thread."""
    found, die = list[bool](), ffi.ObjectRef.__del__

    def noted(thing: Any) -> None:
        found.append(threading.current_thread() is threading.main_thread())
        die(thing)

    with monkeypatch.context() as patched:
        patched.setattr(ffi.ObjectRef, "__del__", noted)
        yield found


def test_llvm_objects_are_freed_outside_the_main_thread(llvm_deallocations: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENXOR_CACHE_DIR", "")
    own, kernel = Compiler(), kernel_of(tx.full(7, 0.5).realize() * 2 + 1)
    own.get(kernel)
    own.assembly(kernel)
    monkeypatch.setattr(module, "link", lambda image, symbols: None)
    own.kernels.forget()
    own.get(kernel)
    assert len(llvm_deallocations) >= 3 and not any(llvm_deallocations)


def test_linked_code_lives_as_long_as_it_is_needed(llvm_deallocations: list[bool]) -> None:
    """The linker may be deallocated first; unused code is freed when more is linked."""
    made = compiler()
    image = made._image(made.llvm_ir(kernel_of(tx.full(7, 0.5).realize() * 2 + 1)))
    gc.collect()
    llvm_deallocations.clear()
    linked = [Linker(made.machine).link(image, (ENTRY,))]
    gc.collect()
    first = linked[0]
    assert first is not None and not llvm_deallocations
    linker: Linker = first._memory
    del first
    linked.clear()
    assert len(linker.loaded) == 1
    linked.append(linker.link(image, (ENTRY,)))
    assert len(linker.loaded) == 1 and llvm_deallocations == [False]
