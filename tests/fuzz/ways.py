"""The same program in other ways. What is computed early, held longer or let go of sooner changes no meaning, but all that is decided
about memory: so what a program shows is known from its first way, and plans and kernels are found again.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

from .lines import Line, line
from .programs import Writer

WAYS = 16  # of each program
HOLDS = 8  # of those that compute the same early


def ways(program: Writer, seed: int) -> Iterator[tuple[list[Line], list[Any]]]:
    """Lines, and what each of them shows or raises: first the program as it was written."""
    yield program.lines, program.outcomes
    for number in range(1, WAYS):
        early = random.Random(f"{seed} {number // HOLDS}")
        yield way(program, early if number >= HOLDS else None, random.Random(f"{seed} {number}"))


def way(program: Writer, early: random.Random | None, rng: random.Random) -> tuple[list[Line], list[Any]]:
    """The program, with some of what was marked computed where it was, or held from there on, and some names deleted before the end."""
    more: dict[int, list[str]] = {}
    last: list[tuple[Line, Any]] = []
    for number, (lines, name, shown) in enumerate(program.marks):
        here = more.setdefault(lines, [])
        if rng.random() < 0.2:
            here.append(f"h{number} = hold({name})")
            if rng.random() < 0.6:
                last.append((line(f"show(h{number})"), shown))
            else:
                more.setdefault(rng.randint(lines, program.end), []).append(f"del h{number}")
        if early is not None and early.random() < 0.15:
            here.append(f"{name}.realize()")
    final = list(zip(program.lines, program.outcomes, strict=True))[program.end :]
    for shown in final.copy():
        if rng.random() < 0.3:
            final.remove(shown)
            name = shown[0].text[len("show(") : -1]
            more.setdefault(_last_use(program, more, name), []).append(f"del {name}")
    lines, outcomes = [], []
    for number in range(program.end + 1):
        for text in more.get(number, ()):
            lines.append(line(text))
            outcomes.append(None)
        if number < program.end:
            lines.append(program.lines[number])
            outcomes.append(program.outcomes[number])
    for shown in final + last:
        lines.append(shown[0])
        outcomes.append(shown[1])
    return lines, outcomes


def _last_use(program: Writer, more: dict[int, list[str]], name: str) -> int:
    """How many lines there are up to the last one that has this name, but for those that show all."""
    used = re.compile(rf"\b{name}\b").search
    own = [number for number, each in enumerate(program.lines[: program.end], 1) if used(each.text)]
    return max(own[-1], *(number for number, texts in more.items() if any(map(used, texts))), 0)
