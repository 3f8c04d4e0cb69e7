"""General plans that came with the package: of what programs do first, for whatever sizes, caches and threads.

Such a plan is for other sizes, as those are that a process finds (`general.py`); but it was made for machines of which only the level of
instructions was known. So the sizes of caches and the number of threads (`Settings`) were numbers that remember what is asked of them, too.
What is written under the text of a structure is, of each plan, the function that says for which numbers and settings it holds, as Python's
source, as any interpreter may read it; whether it is for one number alone; and the plan.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from ..backend import backend
from ..late import LateModule
from ..records import NamedTuple
from ..target import Target
from . import kept
from .ready import packed
from .steps import Plan

zlib = LateModule("zlib")
KIND = "general, of any interpreter and machine of a level"  # what texts of structures begin with here


class Shipped(NamedTuple):
    """A plan as it is written: for numbers and settings, which the function is given one after the other. Its conditions are there in
    words, too, as of many plans of a structure one is wanted.
    """

    conditions: list[int]
    source: str
    is_pinned: bool
    words: bytes

    def found(self, settings: Iterable[int] = ()) -> Callable[..., tuple[Any, ...] | None]:
        """The function; or, of numbers alone, for these settings."""
        scope: dict[str, FunctionType] = {}
        exec(self.source, scope)
        found = scope["found"]
        found.__defaults__ = tuple(settings)
        return found

    def plan(self) -> Plan | None:
        """The plan without numbers; None if one of its kernels is not there."""
        return kept.plan_in(marshal.loads(self.words))


def written(plans: Iterable[Shipped]) -> bytes:
    """What is shipped for a structure."""
    content: bytes = zlib.compress(packed([tuple(each) for each in plans]), 9)
    return content


def of_structure(structure: object, target: Target) -> list[Shipped]:
    """What came with the package for a structure."""
    text = kept.text_of_structure(structure, KIND) if kept.looks() else None
    content = None if text is None else backend().shipped(text)
    if content is None or target.with_settings(target.settings) != target:
        return []  # a machine of which more than its settings is its own
    return [Shipped(*each) for each in marshal.loads(zlib.decompress(content))]
