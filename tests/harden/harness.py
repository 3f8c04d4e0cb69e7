"""Each program once for each call that may fail: what is said, what is left, and whether the same succeeds then."""

from __future__ import annotations

import gc
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import tenxor as tx
from tenxor.codegen.llvm import compiler as compilers
from tenxor.codegen.llvm.compiler import Compiler, compiler
from tenxor.codegen.threads import worker_pool
from tenxor.errors import OutOfMemory
from tenxor.runtime.realize import evict_plans

from . import failing as failures
from .failing import Failing, injected
from .programs import Array, Program

KINDS: dict[str, Callable[[Failing], None]] = {
    "memory": failures.memory,
    "mapping": failures.mapping,
    "compiling": failures.compiling,
    "linking": failures.linking,
    "threads": failures.threads,
    "cache": failures.cache,
}
SURVIVED = ("mapping", "threads", "cache")  # kinds of which one failure is made good, and nothing raised
CLEAR = {"memory": (OutOfMemory, "no memory for"), "compiling": (MemoryError, "LLVM had no memory"), "linking": (RuntimeError, "tenxor")}


@contextmanager
def fresh(identity: str) -> Iterator[None]:
    """Nothing is known of any plan or kernel in memory; those on disk are only found by the same identity."""
    before = compilers._compiler
    made = Compiler(compiler().full_target)
    made.identity += identity
    compilers._compiler = made
    evict_plans()
    worker_pool.stop_pool()
    tx.release_memory()
    try:
        yield
    finally:
        worker_pool.stop_pool()
        evict_plans()
        compilers._compiler = before


def values(tensors: dict[str, Any]) -> dict[str, Array]:
    return {name: t.to_numpy().copy() for name, t in tensors.items()}


def alike(found: Any, expected: Any) -> bool:
    return np.array_equal(np.asarray(found), np.asarray(expected))


class Run:
    """One program with one kind of failure, at one call after the other: at every `step`th, or all from it on if `lasting`."""

    def __init__(self, program: Program, kind: str, *, step: int = 1, lasting: bool = False) -> None:
        self.program, self.kind, self.step, self.lasting = program, kind, step, lasting
        self.outcomes: Counter[str] = Counter()
        tx.nn.Linear(1, 1).weight.realize()  # what draws by default stays once it is there
        self.old = program.given()
        self.new = program.given()
        self.expected = program.model(self.new)

    def all(self) -> Counter[str]:
        """What came of it, counted."""
        at = 1
        while True:
            failing = Failing(at, self.lasting)
            with fresh(f"{self.kind} {self.lasting}" if self.kind == "linking" else f"{self.kind} {self.lasting} {at}"):
                said = self.once(failing)
            if not failing.failed:
                return self.outcomes
            self.outcomes[said] += 1
            at += self.step

    def once(self, failing: Failing) -> str:
        """Run the program while something fails, and again while nothing does."""
        gc.collect()
        before = tx.memory().in_use
        said = self.tried(failing, f"{self.program.name}, {self.kind} {failing.at}")
        evict_plans()
        gc.collect()
        assert tx.memory().in_use == before, f"{self.program.name}, {self.kind} {failing.at}: memory is lost"
        return said

    def tried(self, failing: Failing, where: str) -> str:
        """What came of a program while something fails."""
        program, said = self.program, "succeeded"
        tensors = {name: tx.asarray(array.copy(), copy=True).realize() for name, array in self.old.items()}
        result: Any = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # threads that are not to be had are told of
            try:
                with injected(failing, KINDS[self.kind]):
                    result = program.run(tx, tensors)
                    found = result.to_numpy()
                    for t in tensors.values():
                        t.realize()
                assert alike(found, self.expected), f"{where}: succeeded with another result"
            except (MemoryError, RuntimeError, OSError) as error:
                kind, words = CLEAR.get(self.kind, (OutOfMemory, "no memory for"))
                assert type(error) is kind and words in str(error), f"{where}: {error!r} is not clear"
                assert self.kind not in SURVIVED or self.lasting, f"{where}: {error!r} should have been made good"
                said = type(error).__name__
        for name, array in values(tensors).items():
            old, new = self.old[name], self.new[name]
            fits = alike(array, new) or (said != "succeeded" and self.partly(array, old, new))
            assert fits, f"{where}: {name} is neither old nor new"
        if result is not None:  # what could not be computed can be asked for again
            assert alike(result.to_numpy(), self.expected), f"{where}: asked again, it is another"
        again = {name: tx.asarray(array, copy=True) for name, array in self.old.items()}
        assert alike(program.run(tx, again).to_numpy(), self.expected), f"{where}: the same does not succeed then"
        return said

    def partly(self, found: Array, old: Array, new: Array) -> bool:
        """Whether what a program left is that of before, or of after one of its statements."""
        states = [old.copy()]
        arrays = self.program.given()
        before = sys.gettrace()

        def line(frame: Any, event: str, arg: Any) -> Any:
            states.extend([a.copy() for a in arrays.values() if a.shape == old.shape])
            return line

        sys.settrace(lambda frame, event, arg: line)
        try:
            self.program.model(arrays)
        finally:
            sys.settrace(before)
        states.append(new)
        return any(alike(found, state) for state in states)
