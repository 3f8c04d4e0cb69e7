"""Kernel calls: compiled kernels bound to their arguments, ready to be launched on the buffers and scalars of a pending graph."""

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
MAX_TABLE_BYTES = 1 << 16  # bytes of offset tables, above which a call is not serialised


class Call:
    """A compiled kernel with its arguments for one set of shapes; `run` launches the kernel.

    The first access to `run` binds the kernel to the arguments. Binding is lazy because the fast path (`shortcut/frames.py`) reads the
    arguments of small kernels and launches the kernels without `run`.
    """

    __slots__ = ("arguments", "compiled", "run")

    run: Launch

    def __init__(self, compiled: Compiled, arguments: Arguments) -> None:
        self.compiled, self.arguments = compiled, arguments

    @property
    def needs(self) -> list[int]:
        """The numbers of the slots that the kernel reads."""
        return [k for k, *_ in self.arguments.sources]

    @property
    def tables(self) -> Sequence[Table]:
        """The offset tables of gathered axes."""
        return self.arguments.tables

    @property
    def flagged(self) -> bool:
        """True if the kernel checks indices or exponents, so a launch may fail."""
        return self.compiled.kernel.flagged

    @property
    def work(self) -> int:
        """The work of a launch, in additions, about."""
        return self.arguments.work

    @property
    def table_bytes(self) -> int:
        """The size of the offset tables in bytes."""
        return sum([table.offsets.nbytes for table in self.tables])

    def in_words(self, of_plan: object = None) -> tuple[Any, ...] | None:
        """Return the call in serialisable form: facts about the kernel, the arguments, and the bytes of the offset tables.

        The result consists of tuples, lists, numbers, text and bytes. Return None if another process cannot find the kernel, or if the
        tables exceed `MAX_TABLE_BYTES` bytes. `of_plan` is unused: a call contains no plans.
        """
        facts = None if self.table_bytes > MAX_TABLE_BYTES else backend().facts(self.compiled)
        if facts is None:
            return None
        tables = [table.offsets.tobytes() for table in self.tables]
        return tuple(map(_encode_fact, facts)), tuple(self.arguments._replace(tables=())), tables

    @classmethod
    def of_words(cls, kernel: Sequence[Any], arguments: Sequence[Any], tables: Sequence[bytes]) -> Call | None:
        """Return the call serialised by `in_words`; None if the code of the kernel is neither shipped with the package nor on disk."""
        compiled = found(kernel)
        if compiled is None:
            return None
        decoded = Arguments(*arguments)
        return cls(compiled, decoded._replace(tables=[Table(np.frombuffer(t, np.int64)) for t in tables]) if tables else decoded)

    def __getattr__(self, name: str) -> Launch:
        if name != "run":
            raise AttributeError(name)
        launch = backend().bind(self.compiled, self.arguments)
        self.run = _add_debug_output(self.compiled, launch) if DEBUG else launch
        return self.run


# --- serialised calls, for other processes --------------------------------------------------------------------------------


def _encode_fact(fact: Any) -> object:
    if isinstance(fact, DType):
        return fact.name
    return tuple(map(_encode_fact, fact)) if isinstance(fact, tuple) else fact


def found(kernel: Sequence[Any]) -> Compiled | None:
    """Return the compiled kernel for serialised facts; None if the code is neither shipped with the package nor on disk."""
    facts = Facts(*kernel)
    product = None if facts.product is None else Twins(*facts.product)
    return backend().find(facts._replace(scalars=tuple(map(dtype, facts.scalars)), product=product))


# --- debug output of launches ---------------------------------------------------------------------------------------------


def _add_debug_output(compiled: Compiled, launch: Launch) -> Launch:
    """Wrap `launch` to print to stderr.

    `TENXOR_DEBUG` 1 prints the kernel's name, the origin of its code, and the time; 2 also prints the loop IR, and 3 the machine code.
    """
    kernel: Any = compiled.kernel  # a full `Kernel`, never bare `Facts`: with DEBUG set, plans on disk are not read (`kept.py`)

    def run(out: Buffer, given: Given, once: Once | None = None) -> bool:
        if DEBUG >= 3:
            print(backend().listing(kernel), file=sys.stderr)
        if DEBUG >= 2:
            print(kernel, file=sys.stderr)
        start = time.perf_counter()
        has_failed = launch(out, given, once)
        backend().synchronise()
        microseconds = (time.perf_counter() - start) * 1e6
        print(f"tenxor: {kernel.name} [{compiled.origin}] {microseconds:.1f} us", file=sys.stderr)
        return has_failed

    return run
