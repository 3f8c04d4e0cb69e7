"""Other machines than the present one, for kernels that are planned and made from now on."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tenxor._utils.bounded_cache import BoundedCache
from tenxor.codegen import backend, interpreter
from tenxor.codegen.llvm import compiler as compilers
from tenxor.codegen.llvm.compiler import Compiler, compiler
from tenxor.target import MANY_REGISTER_COUNT, Target


def current() -> Target:
    """What kernels are planned and made for now."""
    return backend().target


def use(monkeypatch: pytest.MonkeyPatch, target: Target, unlike: str = "") -> None:
    """Plan and make kernels for a target, whatever runs them, until the test ends. They run here, so this processor needs its instructions.

    No kernel on disk is theirs that was made when something was otherwise that `unlike` names.
    """
    made = Compiler(target)
    made.identity += unlike
    monkeypatch.setattr(compilers, "_compiler", made)
    monkeypatch.setattr(interpreter, "_LOOP_PLANNING_TARGET", target)
    realize = sys.modules["tenxor.runtime.realize"]
    plans = BoundedCache[Any](realize.MAX_PLANS, realize.MAX_TABLE_BYTES)
    monkeypatch.setattr(realize, "_plans", plans)
    monkeypatch.setattr(realize, "_look_up_plan", plans.get)


def tuned(target: Target, **groups: dict[str, Any]) -> Target:
    """A target with other numbers in some of its groups: `blocks={"left": 64}`."""
    return target._replace(**{name: getattr(target, name)._replace(**numbers) for name, numbers in groups.items()})


def tune(monkeypatch: pytest.MonkeyPatch, **groups: dict[str, Any]) -> None:
    """The present machine with other numbers in some groups, until the test ends."""
    use(monkeypatch, tuned(current(), **groups))


def vectors(monkeypatch: pytest.MonkeyPatch, nbytes: int) -> None:
    """The present machine with vectors of so many bytes, whatever instructions these become."""
    registers = MANY_REGISTER_COUNT if nbytes == 64 else 16
    use(monkeypatch, current()._replace(vector_bytes=nbytes, register_count=registers))


def without_semaphores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that has none of those that code of threads calls, for threads that start until the test ends."""

    def library(name: str, *others: Any) -> Any:
        if name == "sharing":
            raise RuntimeError("no such symbols")
        return Compiler._load_or_compile(compiler(), name, *others)

    monkeypatch.setattr(compiler(), "_parallel_for_code", None)
    monkeypatch.setattr(compiler(), "_load_or_compile", library)
