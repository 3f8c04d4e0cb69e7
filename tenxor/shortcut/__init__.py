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

from .. import backend
from ..locking import reentrant, taken_at_once
from ..node import Node
from ..realize import short_ways

if TYPE_CHECKING:
    from .install import ShortWay

WANTED = os.environ.get("TENXOR_SHORT_WAY", "")
SOON = 1 if WANTED == "1" else 16  # times that values are asked for, until it is made
_asked = 0
_leaving: list[object] = []  # for those who want none, before there is one
_deciding = reentrant()  # held while it is made, or is to stay aside
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
    return _is_time() and short_ways[0](node)


def first_of_several(node: Node) -> bool:
    """The same of a node that is not alone, as what it has in common with others is computed once."""
    return _is_time() and short_ways[-1](node)


def _is_time() -> bool:
    """Whether it is there now: values are asked for once more."""
    global _asked
    _asked += 1
    if _asked < SOON:
        return False
    start()
    return state == "on" and bool(short_ways)


def soon() -> None:
    """Make it, if nobody has tried: though no values were asked for, there is much that it does."""
    if state == "not made yet":
        start()


def start() -> None:
    """Make it now, if it is not there, nor to stay aside: what stands in the place of methods must not be taken for Python's own."""
    if taken_at_once(_deciding):  # another thread that makes it may wait for this one
        try:
            if state != "on" and not _leaving:
                _make()
        finally:
            _deciding.release()


def _make() -> None:
    global state, made
    short_ways.clear()
    state = _reason() or "on"
    if state != "on":
        return
    try:
        from .debug_offsets import check_debug_offsets
        from .proof import prove_layout, prove_work

        check_debug_offsets()
        prove_layout()
        from .install import ShortWay

        made = ShortWay()
        _never_dies(made)
        made.install()
        prove_work()
    except (LookupError, RuntimeError, OSError, AttributeError) as error:
        state = f"off: {error}"
        if made is not None:
            made.remove()


def _never_dies(x: object) -> None:
    """Have an object outlive the interpreter: when that ends, it clears modules first and then objects whose last moments are
    machine code.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))


@contextmanager
def aside() -> Iterator[None]:
    """Leave all to Python's own methods meanwhile: for those who want to see what these do. Before all of them have left, none is made."""
    me = object()
    with _deciding:
        there = made if state == "on" else None
        if there is None:
            _leaving.append(me)
    if there is not None:
        with there.aside():
            yield
        return
    try:
        yield
    finally:
        _leaving.remove(me)


if hasattr(os, "register_at_fork"):  # a process is forked before it is made, or after
    os.register_at_fork(before=_deciding.acquire, after_in_parent=_deciding.release, after_in_child=_deciding.release)
