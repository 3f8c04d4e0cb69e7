"""The short way of small work: the methods of `Tensor` in machine code, made at run time.

Python's own methods are complete, and the oracle. What is plain, and most small work is, a method does without a frame of Python:
it looks up what the operation makes of tensors like these, makes the objects, and when values are asked for runs a kernel by its
frame. Whatever is not plain it leaves to Python's own method, before anything has been changed.

It is made when a process has computed a few things, or made many views, and only where what it takes for granted of the interpreter
has been proved. The environment variable TENXOR_SHORT_WAY says "0" for never and "1" for at once; with `TENXOR_DEBUG` it is not made.
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
    """Return the value of `TENXOR_SHORT_WAY`: empty where it is not set."""
    return environment.choice("TENXOR_SHORT_WAY", ("0", "1"), "machine code for small work is made after some results")


WANTED = wanted()
SOON = 1 if WANTED == "1" else 16  # times that values are asked for, until it is made
_asked = 0
_leaving: list[object] = []  # one for each who wants Python's own methods for a while
_left = 0  # how many have
_making = reentrant()  # held by the thread that makes it; no other waits for it
_deciding = reentrant()  # held while methods are put in place or taken out, undisturbed
state = "not made yet"  # or why not, or "on"
made: ShortWay | None = None  # once there is one it stays, also when it is off: blocks that it lent die by its code


def _reason() -> str:
    """Why there is none in this process; empty if there may be one."""
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
    """Make it, once values have been asked for a few times, and have it compute a node."""
    return _is_time() and any([way(node) for way in short_ways[:1]])


def first_of_several(node: Node) -> bool:
    """The same of a node that is not alone, as what it has in common with others is computed once."""
    return _is_time() and any([way(node) for way in short_ways[-1:]])


def _is_time() -> bool:
    """Whether it is there now: values are asked for once more."""
    global _asked
    _asked += 1
    if _asked < SOON:
        return False
    start()
    return state == "on"


def soon() -> None:
    """Make it, if nobody has tried: though no values were asked for, there is much that it does."""
    if state == "not made yet":
        start()


def start() -> None:
    """Make it now, unless it is there, is to stay aside, or is being made: by another thread, or further up in this one. It is not made
    while this thread holds the lock of those who compute, for which other threads would wait, but when it is asked for next.

    What a signal handler or a trace function computes meanwhile, and what other threads do, is done by Python's own methods.
    """
    if state == "on" or _leaving or is_owned(lock) or not taken_at_once(_making):
        return
    try:
        if _making._recursion_count() == 1:  # type: ignore[attr-defined]
            _make()
    finally:
        _making.release()


def _make() -> None:
    """Make it aside, put it in place in one step, and try it out."""
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
            is_refuted = before == _left  # else it was taken out while it was tried out, and is tried out again
            state = reason if is_refuted else "not made yet"
            short_ways[:] = [] if is_refuted else [first, first_of_several]


def _put_in_place(new: ShortWay) -> bool:
    """Have other modules use it from now on, unless somebody wants Python's own methods now: return whether they do."""
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
    """Return the objects that the machine code refers to, without making that code; None where this process can have none."""
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
    """Have an object outlive the interpreter: when that ends, it clears modules first and then objects whose last moments are
    machine code.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))


@contextmanager
def aside() -> Iterator[None]:
    """Leave all to Python's own methods meanwhile: for those who want to see what these do. Before all of them have left, none is made."""
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
    """A thread that was making it is not in this process."""
    global _making
    if not is_owned(_making):
        _making = reentrant()


if hasattr(os, "register_at_fork"):  # a process is forked before methods are put in place, or after
    os.register_at_fork(before=_deciding.acquire, after_in_parent=_deciding.release, after_in_child=_deciding.release)
    os.register_at_fork(after_in_child=_forked)
