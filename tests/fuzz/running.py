"""Runs programs in the model's world and in the library's, and makes a failing one small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from . import model
from .lines import Line
from .programs import written
from .ways import ways

Outcome = Any
World = Callable[[Callable[[Any], None]], dict[str, Any]]


class Disagreement(NamedTuple):
    """A line's number, what was expected of it, and what came."""

    number: int
    want: Outcome
    have: Outcome


PREAMBLE = """\
import numpy as np
import tenxor as tx

def show(value):
    print(value.tolist() if hasattr(value, "tolist") else value)

def hold(tensor):  # what it is now: no copy, but another that holds the same
    pinned = tx.node.is_pinned(tensor.node)
    return tensor.copy() if pinned else tx.Tensor(tx.storage.Storage(tensor.node), tensor.layout, tensor.dtype)
"""


def library_world(log: Callable[[Any], None]) -> dict[str, Any]:
    """What a program's names mean in Tenxor and NumPy."""
    import tenxor
    from tenxor.graph.node import is_externally_shared
    from tenxor.graph.storage import Storage

    def show(value: Any) -> None:
        described = isinstance(value, tenxor.Tensor | numpy.ndarray)
        log((value.dtype.name, value.shape, value.tolist()) if described else value)

    def hold(tensor: tenxor.Tensor) -> tenxor.Tensor:
        if is_externally_shared(tensor.node):
            return tensor.copy()
        return tenxor.Tensor(Storage(tensor.node), tensor.layout, tensor.dtype)

    return {"tx": tenxor, "np": numpy, "show": show, "hold": hold}


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
            outcomes.append(error.with_traceback(None))  # whose frames would hold tensors
        else:
            outcomes.append(shown[0] if shown else None)
    return outcomes


def same(expected: Outcome, got: Outcome) -> bool:
    """Whether both worlds agree on one line; errors agree by the name of their class."""
    if isinstance(expected, Exception) or isinstance(got, Exception):
        return type(expected).__name__ == type(got).__name__
    return type(expected) is type(got) and expected == got


def disagreement(program: list[Line], world: World = library_world) -> Disagreement | None:
    """Where the world leaves the model."""
    return difference(program, run(program, model.world), world)


def difference(program: list[Line], expected: list[Outcome], world: World) -> Disagreement | None:
    """The first line that shows or raises something else."""
    got = run(program, world)
    for number, (want, have) in enumerate(zip(expected, got, strict=True)):
        if not same(want, have):
            return Disagreement(number, want, have)
    return None


def shrink(program: list[Line], world: World = library_world) -> list[Line]:
    """The program without every line that the disagreement can do without."""
    found = disagreement(program, world)
    smaller = True
    while smaller and found is not None:
        smaller = False
        program = program[: found.number + 1]
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
    outcomes = run(program, model.world)
    return [
        line
        for line, outcome in zip(program, outcomes, strict=True)
        if not isinstance(outcome, Exception) or isinstance(outcome, model.ReadOnlyError)
    ]


def describe(program: list[Line], found: Disagreement | None) -> str:
    """The program as Python that a person can run, with the disagreement as a comment."""
    lines = [PREAMBLE]
    for line, outcome in zip(program, run(program, model.world), strict=True):
        refused = isinstance(outcome, Exception)
        lines.append(f"try: {line.text}\nexcept tx.errors.ReadOnlyError: pass" if refused else line.text)
    if found is not None:
        lines.append(f"# line {program[found.number].text!r}\n# expected: {found.want!r}\n# got:      {found.have!r}")
    return "\n".join(lines)


def check_seed(seed: int, world: World = library_world) -> None:
    """Fails with a program that shows the disagreement: the whole one, and a small one if that does, too.

    What came before, in the same process, may have its part in it. Then a smaller one may do no wrong, nor the same one again.
    """
    for number, (program, expected) in enumerate(ways(written(seed), seed)):
        found = difference(program, expected, world)
        if found is not None:
            told = f"seed {seed}, way {number}: the tensors and the model disagree\n\n{describe(program, found)}\n"
            small = shrink(program, world)
            again = disagreement(small, world)
            if again is None:
                told += "\nRun again, it is not seen: it may need what ran before.\n"
            elif len(small) < len(program):
                told += f"\nThe small of it:\n\n{describe(small, again)}\n"
            raise AssertionError(told)
