"""The fast path: the methods of `Tensor` as machine code, generated at run time with LLVM.

The fallback in Python is complete, and serves as the reference for results. Most calls are simple, and for these the fast path needs no
Python frame: it looks up the cached result template of the operation for the operands' specs and creates the result objects. When values
are asked for, it runs a kernel by its launch record. The fast path declines every other call before it has changed anything, and the
fallback then does the work.

`import tenxor` builds the fast path if its code is prebuilt or on disk, and only if the assumptions about the interpreter have been proved
(`self_test.py`). Otherwise, after a few results another process compiles the code (`machine_code.py`), and the fast path is built after
that. With "1" in the environment variable TENXOR_FAST_PATH the import compiles missing code. With "0", or with `TENXOR_DEBUG`, there is no
fast path.

The variable `state` is "not made yet", "being compiled by another process", the reason why the fast path is off, or "on".
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from .. import codegen
from .._utils import environment, upcalls
from .._utils.exclude_user_code import exclude_user_code
from .._utils.locks import is_owned_by_this_thread, make_reentrant_lock, try_acquire
from ..runtime.realize import compute_lock

if TYPE_CHECKING:
    from .install import FastPath
    from .machine_code import BackgroundCompilation, MachineCode
    from .object_layout import ObjectTable


def read_setting() -> str:
    """Return the value of the environment variable `TENXOR_FAST_PATH`, "0" or "1", or an empty text if the variable is unset or invalid.
    Warn about an invalid value.
    """
    return environment.read_choice("TENXOR_FAST_PATH", ("0", "1"), "machine code for small work is used where it can be")


SETTING = read_setting()
REQUESTS_BEFORE_COMPILATION = 16  # requests for values: a program with fewer ends sooner than the compilation
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
    """Return the reason why this process cannot have the fast path, as a text for `state`; an empty text if it can.

    Obstacles are the environment variables `TENXOR_FAST_PATH` (with 0) and `TENXOR_DEBUG`, a back end other than LLVM, and an interpreter
    other than CPython with a GIL. The object layouts are not tested here.
    """
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


def start() -> None:
    """Build the fast path now and install it. Afterwards `state` is "on", or says why the fast path is off.

    If the code is not stored, compile the code here, for some seconds. Do nothing if the fast path is on or disabled by `disabled`, or
    while another thread, or an outer call in this thread, is building it. Do nothing, either, while this thread holds the lock for
    computing, since other threads would wait for that lock.

    During the build, other threads, signal handlers and trace functions use the fallback in Python.
    """
    from .machine_code import compile_code

    _try_to_build(compile_code)


def start_at_import() -> None:
    """Build the fast path if its code is stored, or in any case if TENXOR_FAST_PATH is 1. `import tenxor` calls this function."""
    upcalls.starter = sys.modules[__name__]
    if SETTING == "1":
        start()
    else:
        _try_to_build(lambda object_table: None)


def count_requests(count: int) -> None:
    """Count `count` requests for values while there is no fast path. From request number `REQUESTS_BEFORE_COMPILATION` on, try to build the
    fast path, with code that another process compiles. The package calls this function at each request. Do nothing more while that process
    runs.
    """
    global _request_count
    _request_count += count
    if _request_count >= REQUESTS_BEFORE_COMPILATION and (_compilation is None or not _compilation.is_running()):
        _try_to_build(_compile_elsewhere)


def _compile_elsewhere(object_table: ObjectTable) -> MachineCode | None:
    """Begin to compile the code in another process, set `state`, and return None, so that no fast path is built now.

    `object_table` numbers the Python objects that the code refers to. If such a process was started before, or none can be started, compile
    the code here, for some seconds, and return the code. `_try_to_build` calls this function for `count_requests`, if the code is not
    stored.
    """
    global state, _compilation
    from .machine_code import BackgroundCompilation, compile_code

    if _compilation is None:
        with suppress(OSError, NotImplementedError):
            _compilation = BackgroundCompilation()
            state = "being compiled by another process"
            return None
    return compile_code(object_table)


def _try_to_build(compile_missing: Callable[[ObjectTable], MachineCode | None]) -> None:
    """Build the fast path and install it, but do nothing in the cases that `start` lists.

    `compile_missing` is called if the code is not stored. The function takes the object table and returns the code, or None to build no
    fast path now.
    """
    if state == "on" or _disabled_contexts or is_owned_by_this_thread(compute_lock) or not try_acquire(_build_lock):
        return
    try:
        if _build_lock._recursion_count() == 1:  # type: ignore[attr-defined]
            _build(compile_missing)
    finally:
        _build_lock.release()


def _build(compile_missing: Callable[[ObjectTable], MachineCode | None]) -> None:
    """Build the fast path, install it in one step, and test it. The caller holds `_build_lock`. `compile_missing` is as in `_try_to_build`.

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
            from .install import FastPath
            from .machine_code import find_code

            candidate = fast_path if fast_path is not None and fast_path.is_announced else FastPath()
            if not candidate.is_announced:
                code = find_code(candidate.object_table) or compile_missing(candidate.object_table)
                if code is None:
                    return
                candidate.link(code, disabled)
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
    """Return the table that numbers the Python objects to which the generated code refers, without generating code.

    The builder of prebuilt machine code (`aot/build.py`) compiles the code for this table. Return None if this process cannot have the fast
    path.
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
    """Return a context that disables the fast path while open: every method, in every thread, runs the fallback in Python.

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
