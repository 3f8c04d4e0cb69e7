"""The fast path: the methods of `Tensor` as machine code, generated at run time with LLVM.

The fallback in Python is complete, and serves as the reference for results. Most calls are simple, and for these the fast path needs no
Python frame: it looks up the cached result template of the operation for the operands' specs and creates the result objects. When values
are asked for, it runs a kernel by its launch record. The fast path declines every other call before it has changed anything, and the
fallback then does the work.

A process builds the fast path after a few results or many views, and only if the assumptions about the interpreter have been proved
(`proof.py`). The environment variable TENXOR_SHORT_WAY set to "0" means never, and "1" means at the first result. With `TENXOR_DEBUG` the
fast path is not built.

The variable `state` is "not made yet", the reason why the fast path is off, or "on".
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .. import backend, environment
from ..locking import is_owned, reentrant, taken_at_once
from ..node import Node
from ..realize import lock, short_ways
from ..undisturbed import undisturbed

if TYPE_CHECKING:
    from .install import ShortWay
    from .objects import Objects



def wanted() -> str:
    """Return the value of the environment variable `TENXOR_SHORT_WAY`, or an empty text if it is not set."""
    return environment.choice("TENXOR_SHORT_WAY", ("0", "1"), "machine code for small work is made after some results")


WANTED = wanted()
SOON = 1 if WANTED == "1" else 16  # the number of the request for values that builds the fast path
_asked = 0
_leaving: list[object] = []  # one entry for each open `aside` context
_left = 0  # `aside` contexts opened so far
_making = reentrant()  # held by the thread that builds the fast path; never waited for
_deciding = reentrant()  # held, with signals deferred, while methods are installed or removed
state = "not made yet"  # or the reason why the fast path is off, or "on"
made: ShortWay | None = None  # kept for good, even when off: memory blocks in use are freed by its code


def _reason() -> str:
    """Return the reason why this process cannot have the fast path, as a text for `state`; an empty text if it can."""
    if WANTED == "0":
        return "off: TENXOR_SHORT_WAY is 0"
    from ..plans.call import DEBUG

    if DEBUG:
        return "off: TENXOR_DEBUG is set"
    if backend.NAME != "llvm":
        return f"off: the back end is {backend.NAME}"
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "off: this is not CPython with its lock"
    return ""


def first(node: Node) -> bool:
    """Compute a pending node by the fast path, and return whether the fast path did so.

    This function is called for each request for values until the fast path is on. It counts the requests, and builds the fast path at
    number `SOON`.
    """
    return _is_time() and any([way(node) for way in short_ways[:1]])


def first_of_several(node: Node) -> bool:
    """Compute one of several pending nodes by the fast path, and return whether the fast path did so.

    Subgraphs shared by the nodes are computed once. This function is called until the fast path is on. It counts the requests for values,
    and builds the fast path at number `SOON`.
    """
    return _is_time() and any([way(node) for way in short_ways[-1:]])


def _is_time() -> bool:
    """Count a request for values, build the fast path from request number `SOON` on, and return whether the fast path is on."""
    global _asked
    _asked += 1
    if _asked < SOON:
        return False
    start()
    return state == "on"


def soon() -> None:
    """Build the fast path unless an attempt was made before.

    The package calls this function after many views, or many elements read or written. The fast path speeds up these too, even if no values
    are asked for.
    """
    if state == "not made yet":
        start()


def start() -> None:
    """Build the fast path now and install it.

    Do nothing if the fast path is on or disabled by `aside`, or while another thread, or an outer call in this thread, is building it. Do
    nothing, either, while this thread holds the lock for computing, since other threads would wait for that lock; the next request tries
    again.

    During the build, other threads, signal handlers and trace functions use the fallback in Python.
    """
    if state == "on" or _leaving or is_owned(lock) or not taken_at_once(_making):
        return
    try:
        if _making._recursion_count() == 1:  # type: ignore[attr-defined]
            _make()
    finally:
        _making.release()


def _make() -> None:
    """Build the fast path, install it in one step, and test it.

    If an assumption about the interpreter turns out to be wrong, remove the fast path again and store the reason in `state`. If another
    thread disabled the fast path during the test, the test proves nothing: `state` becomes "not made yet", and a later request tries again.
    """
    global state
    reason = _reason()
    before = _left
    try:
        if not reason:
            from .debug_offsets import check_debug_offsets
            from .proof import prove_layout, prove_work

            check_debug_offsets()
            prove_layout()
            from .install import ShortWay

            new = made if made is not None and made.begun else ShortWay().linked(aside)
            if _put_in_place(new):
                prove_work()
    except (LookupError, RuntimeError, OSError, AttributeError) as error:
        reason = f"off: {error}"
    if reason:
        with undisturbed(), _deciding:
            if made is not None and made.begun:
                made.remove()
            is_refuted = before == _left  # else `aside` removed the fast path during the test, so a later request tests again
            state = reason if is_refuted else "not made yet"
            short_ways[:] = [] if is_refuted else [first, first_of_several]


def _put_in_place(new: ShortWay) -> bool:
    """Install the fast path for all modules and set `state` to "on".

    Return False, and install nothing, while the fast path is disabled with `aside`.
    """
    global state, made
    with undisturbed(), _deciding:
        if _leaving:
            return False
        _never_dies(new)
        made = new
        new.begin()
        new.install()
        state = "on"
    return True


def objects_to_ship() -> Objects | None:
    """Return the Python objects that the generated code refers to, without generating code; None if this process cannot have the fast path.

    The builder of prebuilt machine code (`shipping.py`) uses these objects.
    """
    if _reason():
        return None
    from .install import ShortWay
    from .proof import prove_layout

    try:
        prove_layout()
        return ShortWay().objects
    except (LookupError, RuntimeError, OSError, AttributeError):
        return None


def _never_dies(x: object) -> None:
    """Add a permanent reference to `x`, so `x` outlives the interpreter.

    At shutdown the interpreter clears modules first. Objects deallocated afterwards still need the generated deallocators.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))


@contextmanager
def aside() -> Iterator[None]:
    """Disable the fast path while the context is open: every method runs the fallback in Python.

    Contexts may be nested and may be open in several threads. The fast path returns when the last one closes, and none is built before.
    """
    global _left
    me = object()
    try:
        with undisturbed(), _deciding:
            _left += 1
            _leaving.append(me)
            if state == "on" and len(_leaving) == 1:
                assert made is not None
                made.remove()
        yield
    finally:
        with undisturbed(), _deciding:
            if me in _leaving:
                _leaving.remove(me)
                if state == "on" and not _leaving:
                    assert made is not None
                    made.install()


def _forked() -> None:
    """Replace the lock for building in a forked child, unless the forking thread holds it. No other holder of the lock exists in the child.
    """
    global _making
    if not is_owned(_making):
        _making = reentrant()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
