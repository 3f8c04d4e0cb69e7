"""Calls: kernels with their arguments, ready to be launched on whatever memory and numbers a pattern has."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import environment
from ..backend import backend
from ..backend.interface import Arguments, Compiled, Facts, Given, Launch, Once, Twins
from ..dtypes import DType, dtype
from ..layout import Table
from ..memory import Buffer


def debug_level() -> int:
    """Return the level that `TENXOR_DEBUG` sets, from 0 to 3."""
    return int(environment.choice("TENXOR_DEBUG", ("0", "1", "2", "3"), "no kernels are shown") or 0)


DEBUG = debug_level()
MOST_TABLES = 1 << 16  # bytes of the tables of a kernel that is described


class Call:
    """A kernel and what it takes for one set of shapes; `run` launches it. It is bound to these when that is asked for first: what
    small kernels take is also read here by who launches them otherwise (`shortcut/frames.py`).
    """

    __slots__ = ("arguments", "compiled", "run")

    run: Launch

    def __init__(self, compiled: Compiled, arguments: Arguments) -> None:
        self.compiled, self.arguments = compiled, arguments

    @property
    def needs(self) -> list[int]:
        """The numbers of the nodes that it reads."""
        return [k for k, *_ in self.arguments.sources]

    @property
    def tables(self) -> Sequence[Table]:
        """Those that gathered axes have in memory."""
        return self.arguments.tables

    @property
    def flagged(self) -> bool:
        """Whether it looks up indices, which may be out of range."""
        return self.compiled.kernel.flagged

    @property
    def work(self) -> int:
        """In additions, about."""
        return self.arguments.work

    @property
    def table_bytes(self) -> int:
        """What these take."""
        return sum([table.offsets.nbytes for table in self.tables])

    def in_words(self, of_plan: object = None) -> tuple[Any, ...] | None:
        """The kernel, the arguments, and the tables among these, in nothing but tuples, lists, numbers, text and bytes; None if that is of
        this process alone, or much.
        """
        facts = None if self.table_bytes > MOST_TABLES else backend().facts(self.compiled)
        if facts is None:
            return None
        tables = [table.offsets.tobytes() for table in self.tables]
        return tuple(map(_plain, facts)), tuple(self.arguments._replace(tables=())), tables

    @classmethod
    def of_words(cls, kernel: Sequence[Any], arguments: Sequence[Any], tables: Sequence[bytes]) -> Call | None:
        """What these words say; None if the kernel is neither shipped nor on disk."""
        code = found(kernel)
        if code is None:
            return None
        its = Arguments(*arguments)
        return cls(code, its._replace(tables=[Table(np.frombuffer(t, np.int64)) for t in tables]) if tables else its)

    def __getattr__(self, name: str) -> Launch:
        if name != "run":
            raise AttributeError(name)
        launch = backend().bind(self.compiled, self.arguments)
        self.run = _shown(self.compiled, launch) if DEBUG else launch
        return self.run


# --- calls in words, for other processes ----------------------------------------------------------------------------------


def _plain(fact: Any) -> object:
    if isinstance(fact, DType):
        return fact.name
    return tuple(map(_plain, fact)) if isinstance(fact, tuple) else fact


def found(kernel: Sequence[Any]) -> Compiled | None:
    """The kernel that was described; None if it is neither shipped nor on disk."""
    facts = Facts(*kernel)
    product = None if facts.product is None else Twins(*facts.product)
    return backend().find(facts._replace(scalars=tuple(map(dtype, facts.scalars)), product=product))


# --- calls that are shown -------------------------------------------------------------------------------------------------


def _shown(compiled: Compiled, launch: Launch) -> Launch:
    """A launch that says so: `TENXOR_DEBUG` 1 for names and times, 2 for the loop IR too, 3 for the machine's code."""
    kernel: Any = compiled.kernel  # never facts alone: plans on disk are not asked for (`kept.py`)

    def run(out: Buffer, given: Given, once: Once | None = None) -> bool:
        if DEBUG >= 3:
            print(backend().listing(kernel), file=sys.stderr)
        if DEBUG >= 2:
            print(kernel, file=sys.stderr)
        start = time.perf_counter()
        found = launch(out, given, once)
        backend().synchronise()
        spent = (time.perf_counter() - start) * 1e6
        print(f"tenxor: {kernel.name} [{compiled.origin}] {spent:.1f} us", file=sys.stderr)
        return found

    return run
