"""Generic plans shipped with the package: plans of common first computations, for any sizes, cache sizes and thread counts.

A shipped plan is like the generic plans of a process (`general.py`), but made for an instruction level instead of a machine. So the
settings of the machine, the cache sizes and the number of threads (`Settings`), were symbolic sizes, too.

The package stores the plans of a structure under the text of the structure. An entry has the guards in bytecode, a function that checks the
guards and computes the dims, a flag for guards that fix a dim, and the plan. The function is Python source, which every interpreter reads.
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
KIND = "general, of any interpreter and machine of a level"  # prefix of the texts of structures


class Shipped(NamedTuple):
    """A shipped generic plan in serialised form.

    `conditions` is the guard program. `source` defines the function of dims and settings that returns the dims of the steps, or None if a
    guard fails. `is_pinned` tells whether a guard fixes a dim. `words` is the plan without dims.
    """

    conditions: list[int]
    source: str
    is_pinned: bool
    words: bytes

    def found(self, settings: Iterable[int] = ()) -> Callable[..., tuple[Any, ...] | None]:
        """Compile `source` and return the function. `settings` become the defaults of the last arguments, so the function takes the dims
        alone.
        """
        scope: dict[str, FunctionType] = {}
        exec(self.source, scope)
        function = scope["found"]
        function.__defaults__ = tuple(settings)
        return function

    def plan(self) -> Plan | None:
        """Return the plan without dims; None if a kernel is missing."""
        return kept.plan_in(marshal.loads(self.words))


def written(plans: Iterable[Shipped]) -> bytes:
    """Return the content to ship for the plans of a structure."""
    content: bytes = zlib.compress(packed([tuple(plan) for plan in plans]), 9)
    return content


def of_structure(structure: object, target: Target) -> list[Shipped]:
    """Return the plans shipped for a structure; an empty list if `target` differs from the instruction level in more than the settings."""
    text = kept.text_of_structure(structure, KIND) if kept.looks() else None
    content = None if text is None else backend().shipped(text)
    if content is None or target.with_settings(target.settings) != target:
        return []  # a machine with more differences than the settings
    return [Shipped(*fields) for fields in marshal.loads(zlib.decompress(content))]
