"""Size-generic replay of tape segments: the backward steps recorded for a segment serve further segments of the same signature.

The signature of a tape segment is its outline (`derivatives/outline.py`) without numbers. After a few segments of one signature, the
backward pass runs through a segment with symbolic sizes, and the resulting steps become a size-generic template. `likewise.py` treats calls
in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..derivatives.again import Output, Step, Steps, steps_for
from ..derivatives.outline import Outline
from ..dtypes import DType, Number, int64
from ..layout import Layout
from ..node import Scalar
from ..plans.tracing import Traced
from ..sizes import Quotient, Trace
from ..spec import Made, spec_of
from . import likewise
from .likewise import Call, are_equal, is_same
from .rule import Rule, is_of_sizes

_POINT = spec_of(Layout.contiguous(()), int64)


class StretchRule(Rule):
    """The size-generic steps of a tape segment.

    The steps are those of a result template. The layouts of the outputs are stored as parts of the template. A symbolic constant is stored
    as a part too: its value is the shift of a 0-d view. The remaining facts about constants and outputs are kept as they are.
    """

    __slots__ = ("constants", "outputs")

    def __init__(self, trace: Trace, sized: Steps) -> None:
        if any([type(x) is not Scalar for x in sized.constants]):
            raise TypeError("what is in memory is not known in other sizes")
        of_sizes = [x for x in sized.constants if is_of_sizes(x)]
        if any([isinstance(x.value, Quotient) for x in of_sizes]):  # type: ignore[union-attr]
            raise TypeError("constants are where points begin")
        steps = tuple([(recipe, sources, offsets, True) for recipe, sources, offsets in sized.steps])
        layouts = [layout for output in sized.outputs for layout in (output.layout, output.place) if layout is not None]
        parts = tuple([Made(spec_of(layout.at(0), int64), shift=layout.offset) for layout in layouts])
        parts += tuple([Made(_POINT, shift=x.value) for x in of_sizes])  # type: ignore[union-attr, arg-type]
        super().__init__(trace, Made(_POINT, steps=steps, parts=parts), Made(_POINT), ())
        self.constants, self.outputs = sized.constants, [(k, number, place is None, apart) for k, number, _, place, apart in sized.outputs]

    def made(self, numbers: tuple[int, ...]) -> Steps | None:
        """Return the steps for a segment with these numbers; None if a guard fails."""
        found = likewise.machine[0].made_by(self, numbers, ())
        if found is None:
            return None
        layouts = iter([part.spec.layout.at(part.shift or 0) for part in found.parts])
        outputs = [Output(k, number, next(layouts), None if alone else next(layouts), apart) for k, number, alone, apart in self.outputs]
        constants = [Scalar(_as(x.dtype, next(layouts).offset), x.dtype) if is_of_sizes(x) else x for x in self.constants]
        steps = [Step(recipe, sources, offsets) for recipe, sources, offsets, _ in found.steps]  # type: ignore[arg-type]  # not one is a number
        return Steps(constants, steps, outputs)


def _as(dtype: DType, number: int) -> Number:
    """Return a size as a constant of this dtype."""
    return number if dtype.is_integer else float(number)


def found(outline: Outline, make: Callable[..., Any]) -> Steps:
    """Return the recorded backward steps for a new tape segment, given its signature `outline`.

    The steps come from a size-generic template, or from `make`, which runs the backward pass through the segment. After a few segments of
    one signature, also trace a template.
    """
    kind = outline.kind()
    if kind is None:
        return steps_for(outline.given, make)
    call = Call(*kind, None)
    for rule in call.rules():
        steps: Steps | None = rule.made(call.numbers)
        if steps is not None:
            return steps
    steps = steps_for(outline.given, make)
    call.learn_by(partial(_rule, outline, make, call.numbers), lambda rule: _are_alike(rule.made(call.numbers), steps))
    return steps


def _rule(outline: Outline, make: Callable[..., Any], numbers: tuple[int, ...]) -> StretchRule:
    """Return the size-generic template of a tape segment with signature `outline`; `numbers` are the sizes to become symbolic.

    `make` runs the backward pass through the segment. It is called with symbolic sizes and with the fast path disabled.
    """
    traced = Traced(numbers)
    with likewise.machine[0].aside():
        sized = steps_for(outline.given, lambda given: make(given, traced), traced)
    return StretchRule(traced.trace, sized)


def _are_alike(one: Steps | None, other: Steps) -> bool:
    """Return whether two lists of steps compute the same outputs from equal constants; False if `one` is None."""
    if one is None or one.outputs != other.outputs or len(one.steps) != len(other.steps) or len(one.constants) != len(other.constants):
        return False
    same = all([is_same(a, b) for a, b in zip(one.constants, other.constants, strict=True)])  # type: ignore[arg-type]
    return same and all([_is_alike(a, b) for a, b in zip(one.steps, other.steps, strict=True)])


def _is_alike(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether two steps make the same node: equal recipes, and the same sources and offsets."""
    (recipe, *rest), (its, *others) = one, other
    return are_equal(recipe, its) and rest == others
