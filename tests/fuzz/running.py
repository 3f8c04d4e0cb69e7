"""Runs programs in the model's world and in the library's, and makes a failing one small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from . import model
from .programs import Line, write_program

Outcome = Any
World = Callable[[Callable[[Any], None]], dict[str, Any]]

PREAMBLE = """\
import numpy as np
import tenxor as tx

def show(value):
    print(value.tolist() if hasattr(value, "tolist") else value)
"""


def model_world(log: Callable[[Any], None]) -> dict[str, Any]:
    """What a program's names mean in the model."""

    def show(value: Any) -> None:
        described = isinstance(value, model.Tensor)
        log((value.dtype, value.shape, value.tolist()) if described else value)

    return {"tx": model, "np": model.numpy_face, "show": show}


def library_world(log: Callable[[Any], None]) -> dict[str, Any]:
    """What a program's names mean in Tenxor and NumPy."""
    import tenxor

    def show(value: Any) -> None:
        described = isinstance(value, tenxor.Tensor | numpy.ndarray)
        log((value.dtype.name, value.shape, value.tolist()) if described else value)

    return {"tx": tenxor, "np": numpy, "show": show}


def run(program: list[Line], world: World) -> list[Outcome]:
    """What each line shows or raises."""
    shown: list[Any] = []
    names = world(shown.append)
    outcomes: list[Outcome] = []
    for line in program:
        shown.clear()
        try:
            exec(line.code, names)
        except Exception as error:
            outcomes.append(error)
        else:
            outcomes.append(shown[0] if shown else None)
    return outcomes


def same(expected: Outcome, got: Outcome) -> bool:
    """Whether both worlds agree on one line; errors agree by the name of their class."""
    if isinstance(expected, Exception) or isinstance(got, Exception):
        return type(expected).__name__ == type(got).__name__
    return type(expected) is type(got) and expected == got


def disagreement(program: list[Line], world: World = library_world) -> tuple[int, Outcome, Outcome] | None:
    """The first line on which the world leaves the model: its number, what was expected, and what came."""
    expected, got = run(program, model_world), run(program, world)
    for number, (want, have) in enumerate(zip(expected, got, strict=True)):
        if not same(want, have):
            return number, want, have
    return None


def shrink(program: list[Line], world: World = library_world) -> list[Line]:
    """The program without every line that the disagreement can do without."""
    found = disagreement(program, world)
    smaller = True
    while smaller and found is not None:
        smaller = False
        program = program[: found[0] + 1]
        for number in range(len(program) - 2, -1, -1):
            candidate = without(program, number)
            found_again = disagreement(candidate, world)
            if found_again is not None and len(candidate) < len(program):
                program, found, smaller = candidate, found_again, True
                break
    return program


def without(program: list[Line], number: int) -> list[Line]:
    """The program without one line and without the lines that then no longer make sense."""
    program = program[:number] + program[number + 1 :]
    outcomes = run(program, model_world)
    return [
        line
        for line, outcome in zip(program, outcomes, strict=True)
        if not isinstance(outcome, Exception) or isinstance(outcome, model.ReadOnlyError)
    ]


def describe(program: list[Line], world: World = library_world) -> str:
    """The program as Python that a person can run, with the disagreement as a comment."""
    expected = run(program, model_world)
    lines = [PREAMBLE]
    for line, outcome in zip(program, expected, strict=True):
        refused = isinstance(outcome, Exception)
        lines.append(f"try: {line.text}\nexcept tx.errors.ReadOnlyError: pass" if refused else line.text)
    found = disagreement(program, world)
    if found is not None:
        number, want, have = found
        lines.append(f"# line {program[number].text!r}\n# expected: {want!r}\n# got:      {have!r}")
    return "\n".join(lines)


def check_seed(seed: int, world: World = library_world) -> None:
    """Fails with the smallest program that shows the disagreement."""
    program = write_program(seed)
    if disagreement(program, world) is not None:
        small = shrink(program, world)
        raise AssertionError(f"seed {seed}: the tensors and the model disagree\n\n{describe(small, world)}\n")
