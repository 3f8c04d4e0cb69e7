"""The fast path: the methods of `Tensor` as machine code, generated at run time with LLVM.

The fallback in Python is complete, and serves as the reference for results. Most calls are simple, and for these the fast path needs no
Python frame: it looks up the cached result template of the operation for the operands' specs and creates the result objects. When values
are asked for, it runs a kernel by its launch record. The fast path declines every other call before it has changed anything, and the
fallback then does the work.

A process builds the fast path after a few results or many views, and only if the assumptions about the interpreter have been proved
(`self_test.py`). The environment variable TENXOR_FAST_PATH set to "0" means never, and "1" means at the first result. With
`TENXOR_DEBUG` the fast path is not built.

If the code is neither prebuilt nor on disk, another process compiles it (`machine_code.py`), and the fast path is built after that. The
variable `state` is "not made yet", "being compiled by another process", the reason why the fast path is off, or "on".
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .. import codegen
from .._utils import environment, upcalls
from .._utils.exclude_user_code import exclude_user_code
from .._utils.locks import is_owned_by_this_thread, make_reentrant_lock, try_acquire
from ..runtime.realize import compute_lock

if TYPE_CHECKING:
    from .install import FastPath
    from .machine_code import BackgroundCompilation
    from .object_layout import ObjectTable


def read_setting() -> str:
    """Return the value of the environment variable `TENXOR_FAST_PATH`, "0" or "1", or an empty text if the variable is unset or invalid."""
    return environment.read_choice("TENXOR_FAST_PATH", ("0", "1"), "machine code for small work is made after some results")


SETTING = read_setting()
BUILD_AT_REQUEST = 1 if SETTING == "1" else 16  # the number of the request for values that builds the fast path
_request_count = 0
_disabled_contexts: list[object] = []  # one entry for each open `disabled` context
_disable_count = 0  # `disabled` contexts opened so far
_build_lock = make_reentrant_lock()  # held by the thread that builds the fast path; never waited for
_switch_lock = make_reentrant_lock()  # held, with signals deferred, while methods are installed or removed
NOT_BUILT = "not made yet"
state = NOT_BUILT  # or the reason why the fast path is off or has to wait, or "on"
_compilation: BackgroundCompilation | None = None  # None until a process was started to compile the code
fast_path: FastPath | None = None  # kept for good, even when off: memory blocks in use are freed by its code


def _find_obstacle() -> str:
    """Return the reason why this process cannot have the fast path, as a text for `state`; an empty text if it can."""
    if SETTING == "0":
        return "off: TENXOR_FAST_PATH is 0"
    from ..runtime.kernel_call import DEBUG_LEVEL

    if DEBUG_LEVEL:
        return "off: TENXOR_DEBUG is set"
    if codegen.BACKEND_NAME != "llvm":
        return f"off: the back end is {codegen.BACKEND_NAME}"
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "off: this is not CPython with its lock"
    return ""


def count_requests(count: int) -> None:
    """Add `count` to the number of requests for values that found no fast path.

    From request number `BUILD_AT_REQUEST` on, build the fast path.
    """
    global _request_count
    _request_count += count
    if _request_count >= BUILD_AT_REQUEST:
        start(waits=SETTING == "1")


def build_if_untried() -> None:
    """Build the fast path unless an attempt was made before.

    The package calls this function after many views, or many elements read or written. The fast path speeds up these too, even if no values
    are asked for.
    """
    if state == NOT_BUILT:
        start(waits=SETTING == "1")


def start(waits: bool = True) -> None:
    """Build the fast path now and install it. Afterwards `state` is "on", or says why the fast path is off or has to wait.

    If the code is not stored, a caller that `waits` compiles the code, for some seconds. Without `waits`, a second process compiles the
    code; a call after its end builds the fast path.

    Do nothing if the fast path is on or disabled by `disabled`, or while another thread, or an outer call in this thread, is building it.
    Do nothing, either, while this thread holds the lock for computing, since other threads would wait for that lock; the next request tries
    again.

    During the build, other threads, signal handlers and trace functions use the fallback in Python.
    """
    if state == "on" or _disabled_contexts or is_owned_by_this_thread(compute_lock) or not try_acquire(_build_lock):
        return
    try:
        if _build_lock._recursion_count() == 1 and (waits or _compilation is None or not _compilation.is_running()):  # type: ignore[attr-defined]
            _build(waits)
    finally:
        _build_lock.release()


def _build(waits: bool) -> None:
    """Build the fast path, install it in one step, and test it. Unless the caller `waits`, only begin to compile code that is not stored.

    If an assumption about the interpreter turns out to be wrong, remove the fast path again and store the reason in `state`. If another
    thread disabled the fast path during the test, the test proves nothing: `state` becomes "not made yet", and a later request tries again.
    """
    global state
    reason = _find_obstacle()
    initial_disable_count = _disable_count
    try:
        if not reason:
            from .debug_offsets import check_debug_offsets
            from .self_test import check_installed_methods, check_object_layout

            check_debug_offsets()
            check_object_layout()
            from ..codegen.llvm.compiler import compiler
            from .install import FastPath
            from .machine_code import compile_code, find_code

            candidate = fast_path if fast_path is not None and fast_path.is_announced else FastPath()
            if not candidate.is_announced:
                code = find_code(candidate.object_table, compiler())
                if code is None and not waits and _begin_compilation():
                    return
                candidate.link(code or compile_code(candidate.object_table, compiler()), disabled)
            if _install(candidate):
                check_installed_methods()
    except (LookupError, RuntimeError, OSError, AttributeError) as error:
        reason = f"off: {error}"
    if reason:
        with exclude_user_code(), _switch_lock:
            if fast_path is not None and fast_path.is_announced:
                fast_path.remove()
            # If `disabled` removed the fast path during the test, a later request tests again.
            is_refuted = initial_disable_count == _disable_count
            state = reason if is_refuted else NOT_BUILT
            if is_refuted:
                upcalls.starter = None


def _begin_compilation() -> bool:
    """Begin to compile the code in another process, and return True.

    Return False if a process was started before or none can be started: the caller then compiles the code.
    """
    global state, _compilation
    from .machine_code import BackgroundCompilation

    if _compilation is not None:
        return False
    try:
        _compilation = BackgroundCompilation()
    except (OSError, NotImplementedError):
        return False
    state = "being compiled by another process"
    return True


def _install(candidate: FastPath) -> bool:
    """Install `candidate`, a linked fast path, for all modules, set `state` to "on", and return True.

    Return False, and install nothing, while the fast path is disabled with `disabled`.
    """
    global state, fast_path
    with exclude_user_code(), _switch_lock:
        if _disabled_contexts:
            return False
        _make_immortal(candidate)
        fast_path = candidate
        candidate.announce()
        candidate.install()
        upcalls.starter = None
        state = "on"
    return True


def get_object_table() -> ObjectTable | None:
    """Return the Python objects that the generated code refers to, without generating code; None if this process cannot have the fast path.

    The builder of prebuilt machine code (`aot/build.py`) uses these objects.
    """
    if _find_obstacle():
        return None
    from .install import FastPath
    from .self_test import check_object_layout

    try:
        check_object_layout()
        return FastPath().object_table
    except (LookupError, RuntimeError, OSError, AttributeError):
        return None


def _make_immortal(x: object) -> None:
    """Add a permanent reference to `x`, so `x` outlives the interpreter.

    At shutdown the interpreter clears modules first. Objects deallocated afterwards still need the generated deallocators.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))


@contextmanager
def disabled() -> Iterator[None]:
    """Disable the fast path while the context is open: every method runs the fallback in Python.

    Contexts may be nested and may be open in several threads. The fast path returns when the last one closes, and none is built before.
    """
    global _disable_count
    context = object()
    try:
        with exclude_user_code(), _switch_lock:
            _disable_count += 1
            _disabled_contexts.append(context)
            if state == "on" and len(_disabled_contexts) == 1:
                assert fast_path is not None
                fast_path.remove()
        yield
    finally:
        with exclude_user_code(), _switch_lock:
            if context in _disabled_contexts:
                _disabled_contexts.remove(context)
                if state == "on" and not _disabled_contexts:
                    assert fast_path is not None
                    fast_path.install()


def _reset_after_fork() -> None:
    """Forget the compiling process in a forked child, and replace the lock for building, unless the forking thread holds the lock.

    The other threads do not exist in the child, and a compiling process belongs to the parent.
    """
    global _build_lock, _compilation
    _compilation = None
    if not is_owned_by_this_thread(_build_lock):
        _build_lock = make_reentrant_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
