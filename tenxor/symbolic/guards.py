"""A cache of results for many sizes, and the bytecode of guards, the conditions on sizes under which a result is valid.

A plan or a call traced with symbolic sizes (`symint.SizeTrace`) is valid for all sizes that give the same answers to the comparisons
made during the trace. These answers are the guards of the entry (in PyTorch: the guards of a graph compiled with dynamic shapes).

A guard program is a flat sequence of integers, written by `symint.SizeTrace.encode` and read by `guards_hold` and by the fast path
(`fastpath/emit/size_eval.py`). Its grammar::

    program  = input_count line_count line* result_count result*
    line     = comparison sum               -- compares the sum with 0; comparison is an index into COMPARISONS
             | OP_DIVISION sum sum          -- appends two atoms: quotient, rounded down, and remainder
             | OP_BOUNDS atom lower upper   -- lower <= atom <= upper
    sum      = product_count product*
    product  = factor atom_count atom*      -- factor * atom * atom * ...
    result   = sum | RESULT_CONSTANT value | RESULT_ATOM atom

An atom is an index into the inputs, followed by the quotients and remainders of the divisions so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from operator import eq, ge, lt, ne
from typing import Any, Generic, Protocol, TypeVar

COMPARISONS = ("==", "!=", "<", ">=")  # the opcodes 0 to 3: compare a sum with 0
OP_DIVISION, OP_BOUNDS = len(COMPARISONS), len(COMPARISONS) + 1  # the opcodes after the comparisons
RESULT_CONSTANT, RESULT_ATOM = -1, -2  # tags of short results; a sum cannot begin with a negative number, its product count
_COMPARE = eq, ne, lt, ge


def guards_hold(program: Iterable[int], inputs: Iterable[int]) -> bool:
    """Return whether every guard of `program` holds for `inputs`, the values of the program's inputs in order.

    `program` is bytecode in the grammar of this module. Interpreting the bytecode once is faster than compiling a Python function from the
    trace. Results are not evaluated.
    """
    atoms, codes = list(inputs), iter(program)
    _, line_count = next(codes), next(codes)

    def read_sum() -> int:
        """Read a sum from the bytecode, and return its value."""
        return sum([next(codes) * prod([atoms[next(codes)] for _ in range(next(codes))]) for _ in range(next(codes))])

    for _ in range(line_count):
        opcode = next(codes)
        if opcode == OP_BOUNDS:
            atom, lower, upper = next(codes), next(codes), next(codes)
            if not lower <= atoms[atom] <= upper:
                return False
        elif opcode == OP_DIVISION:
            atoms += divmod(read_sum(), read_sum())
        elif not _COMPARE[opcode](read_sum(), 0):
            return False
    return True


class GuardedEntry(Protocol):
    """An entry of a `GuardedCache`: a result for all sizes that satisfy its guards.

    `evaluate` is a function of the sizes that returns the result, a tuple, or None if a guard fails. `is_pinned` is true if a guard fixes
    an input to a single value, so the result is valid for this value only.
    """

    @property
    def evaluate(self) -> Callable[..., tuple[Any, ...] | None]:
        """A function of the sizes: it returns the result, or None if a guard fails."""
        ...

    @property
    def is_pinned(self) -> bool:
        """True if a guard fixes an input to a single value."""
        ...


Entry = TypeVar("Entry", bound=GuardedEntry)


class GuardedCache(Generic[Entry]):
    """A cache of the results for one structure, each with guards on the sizes, most recently used first: at most `max_entries` results.

    Tracing with symbolic sizes takes longer than handling concrete sizes, and pays only if further sizes follow. So the first `patience`
    misses are handled concretely: their result is for exactly these sizes. This patience doubles whenever a trace pins an input to a single
    value, until an entry is reused.
    """

    __slots__ = ("patience", "entries", "initial_patience", "max_entries", "concrete_count")

    def __init__(self, max_entries: int, patience: int = 1) -> None:
        self.entries: list[Entry] = []
        self.max_entries = max_entries  # limit on the entries; 0 after a failed trace, so that no later miss is traced
        self.patience = self.initial_patience = patience  # patience: misses handled concretely before the first trace
        self.concrete_count = 0  # misses handled concretely so far

    def match(self, sizes: Iterable[int]) -> tuple[Entry, tuple[Any, ...]] | None:
        """Return the first entry whose guards hold for `sizes`, with the entry evaluated at `sizes`, as a pair; None on a miss.

        A hit moves the entry to the front and restores the initial patience. A miss changes nothing.
        """
        entries = self.entries
        for k, entry in enumerate(entries):
            result = entry.evaluate(*sizes)
            if result is not None:
                self.patience = self.initial_patience  # other sizes do share entries
                if k:
                    entries.insert(0, entries.pop(k))
                return entry, result
        return None

    def should_generalize(self) -> bool:
        """Return whether the present miss should be traced with symbolic sizes; if not, count the miss as handled concretely.

        Each pinned entry delays the next trace by a further miss. A full cache traces no more.
        """
        is_due = (
            self.concrete_count >= self.patience + sum([entry.is_pinned for entry in self.entries]) and len(self.entries) < self.max_entries
        )
        self.concrete_count += not is_due
        return is_due

    def insert(self, entry: Entry | None, sizes: Iterable[int]) -> tuple[Entry, tuple[Any, ...]] | None:
        """Insert `entry`, traced for `sizes`, at the front, and return the same pair as a hit: the entry, and the entry evaluated at
        `sizes`.

        If the entry pins an input, the patience doubles. If `entry` is None, the trace failed: return None, and handle every later miss
        concretely.
        """
        if entry is None:
            self.max_entries = 0
            self.concrete_count += 1
            return None
        result = entry.evaluate(*sizes)
        assert result is not None, "the guards hold for the numbers that they were recorded with"
        self.entries.insert(0, entry)
        if entry.is_pinned:
            self.patience *= 2  # sizes of this structure may never share an entry
        return entry, result
