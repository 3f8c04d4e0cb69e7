"""Other machines than the present one, for kernels that are planned and made from now on."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tenxor.backend import backend, interpreter
from tenxor.backend.llvm import compiler as compilers
from tenxor.backend.llvm.compiler import Compiler, compiler
from tenxor.remembered import Remembered
from tenxor.target import MANY_REGISTERS, Target


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
    monkeypatch.setattr(interpreter, "_PLANNING_TARGET", target)
    realize = sys.modules["tenxor.realize"]
    plans = Remembered[Any](realize.MAX_PLANS, realize.MAX_TABLE_BYTES)
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
    registers = MANY_REGISTERS if nbytes == 64 else 16
    use(monkeypatch, current()._replace(vector_bytes=nbytes, registers=registers))


def without_semaphores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that has none of those that code of threads calls, for threads that start until the test ends."""

    def library(name: str, *others: Any) -> Any:
        if name == "sharing":
            raise RuntimeError("no such symbols")
        return Compiler._library(compiler(), name, *others)

    monkeypatch.setattr(compiler(), "_sharing", None)
    monkeypatch.setattr(compiler(), "_library", library)
