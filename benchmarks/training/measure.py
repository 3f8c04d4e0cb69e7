"""The steps of all libraries by turns, and the most memory that they take."""

from __future__ import annotations

import re
import sys
from typing import Any

from ..timing import Pace, shown, side_by_side
from .lessons import Lesson, lessons
from .memory import peaks
from .tables import EPOCHS, PEERS

PACE = Pace(0.0, 9, 9, settle=0.03)  # steps of training follow one another: a library finds the caches as it left them


def measured(only: str = "", pace: Pace = PACE) -> dict[str, Any]:
    """What the report wants to know of each lesson whose name or family `only` finds."""
    wanted = [lesson for lesson in lessons() if re.search(only, lesson.name) or re.search(only, lesson.family)]
    found = {lesson.name: _one(lesson, pace) for lesson in wanted}
    return {name: row | {"memory": peaks(lesson)} for lesson, (name, row) in zip(wanted, found.items(), strict=True)}


def _one(lesson: Lesson, pace: Pace) -> dict[str, Any]:
    timed = side_by_side(lesson.checked(), pace)
    seconds = {name: t._asdict() for name, t in timed.items()}
    told = ", ".join([f"{PEERS[name]} {t.median / timed['tenxor'].median:.2f}" for name, t in timed.items() if name in PEERS])
    print(f"{lesson.name}: {shown(timed['tenxor'].median)}, as fast as {told}", file=sys.stderr, flush=True)
    return {"family": lesson.family, "seconds": seconds, "learnt": lesson.learnt(EPOCHS) if lesson.learnt else None}
