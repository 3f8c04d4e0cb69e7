"""Generic plans shipped with the package: plans of common first computations, for any sizes, cache sizes and thread counts. A generic plan
has the kernels of a graph, but not the dims (shapes, strides, offsets). The guards are conditions on the dims: under them the plan is
valid. A structure is the signature of a graph without dims.

A shipped plan is like the generic plans of a process (`generic_plans.py`), but made for an instruction level instead of a machine. So the
settings of the machine, the cache sizes and the number of threads (`Settings`), were symbolic sizes, too.

The package stores the plans of a structure under the text of the structure. An entry has the guards in bytecode, a function that checks the
guards and computes the dims, a flag for guards that fix a dim, and the plan. The function is Python source, which every interpreter reads.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from .._utils.lazy import LazyModule
from .._utils.records import NamedTuple
from ..codegen import backend
from ..target import Target
from . import plan_disk_cache
from .plan_execution import Plan
from .shipped_op_plans import marshal_portably

zlib = LazyModule("zlib")
SHIPPED_NAMESPACE = "general, of any interpreter and machine of a level"  # prefix of the texts of structures


class ShippedPlan(NamedTuple):
    """A shipped generic plan in serialised form.

    `guard_program` has the guards as bytecode (`symbolic/guards.py`), for the dims followed by the settings. `evaluator_source` defines the
    function of dims and settings that returns the dims of the steps, or None if a guard fails. `is_pinned` tells whether a guard fixes a
    dim. `serialized_plan` is the plan without dims.
    """

    guard_program: list[int]
    evaluator_source: str
    is_pinned: bool
    serialized_plan: bytes

    def compile_evaluator(self, settings: Iterable[int] = ()) -> Callable[..., tuple[Any, ...] | None]:
        """Compile `evaluator_source`, and return the function from dims and settings to the dims of the steps, or None if a guard fails.

        `settings` (`Settings`) become the defaults of the last arguments, so the function takes the dims alone. Without `settings`, the
        function takes the dims and the settings.
        """
        scope: dict[str, FunctionType] = {}
        exec(self.evaluator_source, scope)
        function = scope["evaluate"]
        function.__defaults__ = tuple(settings)
        return function

    def deserialize(self) -> Plan | None:
        """Return the plan without dims; None if a kernel is missing."""
        return plan_disk_cache.deserialize_plan(marshal.loads(self.serialized_plan))


def serialize_generic_plans(plans: Iterable[ShippedPlan]) -> bytes:
    """Return the content to ship for `plans`, the plans of a structure, as compressed bytes for `find_shipped_plans`."""
    content: bytes = zlib.compress(marshal_portably([tuple(plan) for plan in plans]), 9)
    return content


def make_shipped_key(structure_text: str) -> str:
    """Return the key in the package under which the plans of a structure are shipped.

    `structure_text` is the text of the structure (`plan_disk_cache.encode_structure`).
    """
    return f"{SHIPPED_NAMESPACE} {structure_text}"


def find_shipped_plans(structure_text: str | None, target: Target) -> list[ShippedPlan]:
    """Return the plans shipped for a structure, whose text is `structure_text` (`plan_disk_cache.encode_structure`).

    The list is empty if none are shipped, if shipped plans are disabled, or if `structure_text` is None. It is also empty if constants of
    `target`, the machine, do not follow from its instruction level and settings, for which plans are made. The caller checks the guards.
    """
    if structure_text is None or not plan_disk_cache.can_use_shipped_plans():
        return []
    content = backend().read_shipped(make_shipped_key(structure_text))
    if content is None or target.with_settings(target.settings) != target:
        return []  # a machine with more differences than the settings
    return [ShippedPlan(*fields) for fields in marshal.loads(zlib.decompress(content))]
