"""Kernel calls: compiled kernels with arguments, ready to be launched on the buffers and scalars of a pending graph. The arguments name
buffers, scalars and offsets by numbers, so a call serves each graph of a signature. A slot is the number of a buffer in a plan
(`plan_execution.py`). Sizes are numbers for a single set of shapes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._utils import environment
from ..codegen import backend
from ..codegen.interface import Compiled, ContractionFacts, KernelArguments, KernelFacts, Launch, LaunchValues, ResumableLaunch
from ..dtypes import DType, dtype
from ..layout import Table
from ..memory.buffer import Buffer


def read_debug_level() -> int:
    """Return the level in `TENXOR_DEBUG`, from 0 to 3, and 0 for an unset variable. Warn about an invalid value, and return 0."""
    return int(environment.read_choice("TENXOR_DEBUG", ("0", "1", "2", "3"), "no kernels are shown") or 0)


DEBUG_LEVEL = read_debug_level()
MAX_STORED_TABLE_BYTES = 1 << 16  # bytes of offset tables, above which a call is not serialised


class SingleKernelCall:
    """A compiled kernel (`compiled`) with `arguments` (`KernelArguments`) for one set of shapes.

    A slot is the number of a node or an intermediate result of the plan (`plan_execution.py`).
    """

    __slots__ = ("_launch", "arguments", "compiled")

    def __init__(self, compiled: Compiled, arguments: KernelArguments) -> None:
        self.compiled, self.arguments = compiled, arguments
        self._launch: Launch | None = None

    @property
    def run(self) -> Launch:
        """A `Launch` that runs the kernel, bound to the arguments at the first access.

        Binding is lazy because the fast path (`fastpath/launch_records.py`) reads the arguments of small kernels and launches the kernels
        without `run`.
        """
        if self._launch is None:
            launch = backend().bind(self.compiled, self.arguments)
            self._launch = _add_debug_output(self.compiled, launch) if DEBUG_LEVEL else launch
        return self._launch

    @property
    def input_slots(self) -> list[int]:
        """The numbers of the slots read by the kernel."""
        return [k for k, *_ in self.arguments.sources]

    @property
    def tables(self) -> Sequence[Table]:
        """The offset tables of gathered axes: axes with a table of offsets in place of a constant step."""
        return self.arguments.tables

    @property
    def can_fail(self) -> bool:
        """True if the kernel checks indices or exponents, so a launch may fail."""
        return self.compiled.kernel.can_fail

    @property
    def work(self) -> int:
        """The approximate work of a launch, in additions."""
        return self.arguments.work

    @property
    def table_bytes(self) -> int:
        """The size of the offset tables in bytes."""
        return sum([table.offsets.nbytes for table in self.tables])

    def serialize(self, serialize_plan: object = None) -> tuple[Any, ...] | None:
        """Return the call in serialisable form: facts about the kernel, the arguments, and the bytes of the offset tables.

        The result consists of tuples, lists, numbers, text and bytes. Return None if another process cannot find the kernel, or if the
        tables exceed `MAX_STORED_TABLE_BYTES` bytes. `serialize_plan` is unused: a call contains no plans.
        """
        facts = None if self.table_bytes > MAX_STORED_TABLE_BYTES else backend().get_facts(self.compiled)
        if facts is None:
            return None
        tables = [table.offsets.tobytes() for table in self.tables]
        return tuple(map(_encode_fact, facts)), tuple(self.arguments._replace(tables=())), tables

    @classmethod
    def deserialize(cls, serialized_facts: Sequence[Any], arguments: Sequence[Any], tables: Sequence[bytes]) -> SingleKernelCall | None:
        """Return the call serialised by `serialize`, whose result has the items `serialized_facts`, `arguments` and `tables`.

        Return None if the code of the kernel is neither shipped with the package nor on disk.
        """
        compiled = find_kernel(serialized_facts)
        if compiled is None:
            return None
        decoded = KernelArguments(*arguments)
        return cls(compiled, decoded._replace(tables=[Table(np.frombuffer(t, np.int64)) for t in tables]) if tables else decoded)


# --- serialised calls, for other processes --------------------------------------------------------------------------------


def _encode_fact(fact: Any) -> object:
    """Return `fact`, a field of `KernelFacts`, in serialisable form: the name of a dtype, a tuple with its items in this form, or `fact`
    itself.
    """
    if isinstance(fact, DType):
        return fact.name
    return tuple(map(_encode_fact, fact)) if isinstance(fact, tuple) else fact


def find_kernel(serialized_facts: Sequence[Any]) -> Compiled | None:
    """Return the compiled kernel for `serialized_facts`, the first item of a result of `SingleKernelCall.serialize`.

    Return None if the code is neither shipped with the package nor on disk.
    """
    facts = KernelFacts(*serialized_facts)
    product = None if facts.contraction is None else ContractionFacts(*facts.contraction)
    return backend().find_compiled(facts._replace(scalar_dtypes=tuple(map(dtype, facts.scalar_dtypes)), contraction=product))


# --- debug output of launches ---------------------------------------------------------------------------------------------


def _add_debug_output(compiled: Compiled, launch: Launch) -> Launch:
    """Return a launch that calls `launch`, the launch of `compiled`, and prints to stderr as requested by `TENXOR_DEBUG`.

    Level 1 prints the kernel's name, the origin of its code, and the time; level 2 also prints the loop IR, and level 3 the machine code.
    """
    # A full `Kernel`, never bare `KernelFacts`: with `TENXOR_DEBUG` set, plans on disk are not read (`plan_disk_cache.py`)
    kernel: Any = compiled.kernel

    def run(out: Buffer, launch_values: LaunchValues, in_place_launch: ResumableLaunch | None = None) -> bool:
        """Launch the kernel, and print. The arguments and the result are those of `Launch`."""
        if DEBUG_LEVEL >= 3:
            print(backend().listing(kernel), file=sys.stderr)
        if DEBUG_LEVEL >= 2:
            print(kernel, file=sys.stderr)
        start = time.perf_counter()
        has_failed = launch(out, launch_values, in_place_launch)
        backend().synchronise()
        microseconds = (time.perf_counter() - start) * 1e6
        print(f"tenxor: {kernel.name} [{compiled.origin}] {microseconds:.1f} us", file=sys.stderr)
        return has_failed

    return run
