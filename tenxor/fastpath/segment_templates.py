"""Size-generic replay of tape segments: the backward steps recorded for a segment serve further segments of the same signature. The tape
records operations for derivatives; a segment is a number of consecutive tape nodes. The backward pass through a segment makes nodes by
steps: a recipe, and the operands. The signature of a segment is its outline (`autodiff/segment_signature.py`) without numbers. After a few
segments of one signature, the backward pass runs with symbolic sizes. The resulting steps become a template for all sizes that satisfy its
guards.

`size_generic.py` treats calls in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .._utils.upcalls import get_size_generic_functions
from ..autodiff.replay import RecordedOutput, Recording, ReplayStep, record_steps
from ..autodiff.segment_signature import SegmentSignature
from ..dtypes import DType, Number, int64
from ..graph.node import Scalar
from ..graph.spec import SegmentTemplate, ViewTemplate, intern_spec
from ..layout import Layout
from ..runtime.plan_tracing import SymbolicSizes
from ..symbolic.symint import FloatBySymInt, SizeTrace
from .size_generic import SplitCall, is_same_recipe, is_same_source
from .sized_template import SizedTemplate, has_symbolic_value

_SCALAR_SPEC = intern_spec(Layout.contiguous(()), int64)


class SizedSegment(SizedTemplate):
    """The size-generic steps of a tape segment, from `recording`, a recording with the symbolic sizes of `trace`.

    The steps are those of a result template. The layouts of the outputs are stored as parts of the template. A symbolic constant is stored
    as a part too: its value is the shift of a 0-d view. The remaining facts about constants and outputs are kept as they are, in
    `constants` and `outputs`. Raise TypeError if a constant is in memory or is a quotient of a size.
    """

    __slots__ = ("constants", "outputs")

    def __init__(self, trace: SizeTrace, recording: Recording) -> None:
        if any([type(x) is not Scalar for x in recording.constants]):
            raise TypeError("a constant of the tape segment is in memory; its value for other sizes is unknown")
        symbolic_constants = [x for x in recording.constants if has_symbolic_value(x)]
        if any([isinstance(x.value, FloatBySymInt) for x in symbolic_constants]):  # type: ignore[union-attr]
            raise TypeError("a constant of the tape segment is a float divided by a symbolic size; it must be a number or a symbolic size")
        steps = tuple([(recipe, sources, offsets, True) for recipe, sources, offsets in recording.steps])
        layouts = [layout for output in recording.outputs for layout in (output.layout, output.target) if layout is not None]
        element_templates = tuple([ViewTemplate(intern_spec(layout.at(0), int64), layout.offset) for layout in layouts])
        element_templates += tuple([ViewTemplate(_SCALAR_SPEC, x.value) for x in symbolic_constants])  # type: ignore[union-attr, arg-type]
        super().__init__(trace, SegmentTemplate(_SCALAR_SPEC, steps, element_templates), SegmentTemplate(_SCALAR_SPEC), ())
        self.constants, self.outputs = (
            recording.constants,
            [(k, number, target is None, is_injective) for k, number, _, target, is_injective in recording.outputs],
        )

    def instantiate(self, numbers: tuple[int, ...]) -> Recording | None:
        """Return the steps of the derivative for a segment with the sizes `numbers`, as a recording; None if a guard fails."""
        template = get_size_generic_functions().instantiate(self, numbers, ())
        if template is None:
            return None
        layouts = iter([element.spec.layout.at(element.shift) for element in template.element_templates])
        outputs = [
            RecordedOutput(k, number, next(layouts), None if has_no_target else next(layouts), is_injective)
            for k, number, has_no_target, is_injective in self.outputs
        ]
        constants = [Scalar(_cast_size(x.dtype, next(layouts).offset), x.dtype) if has_symbolic_value(x) else x for x in self.constants]
        steps = [ReplayStep(recipe, sources, offsets) for recipe, sources, offsets, _ in template.steps]
        return Recording(constants, steps, outputs)


def _cast_size(dtype: DType, number: int) -> Number:
    """Return the size `number` as a constant of `dtype`: an integer, or a float for dtypes that are not integer."""
    return number if dtype.is_integer else float(number)


def get_segment_steps(signature: SegmentSignature, run_backward: Callable[..., Any]) -> Recording:
    """Return the recorded steps of the derivative of a new tape segment, given its signature `signature`.

    The backward (or forward) pass calls this function for a segment that it has not recorded (`TapeReplay.find_replay_steps`). The steps
    come from a size-generic template, or from `run_backward`, which runs the pass through the segment. `run_backward` takes stand-ins for
    the inputs and, while a template is traced, the symbolic sizes. A template is traced after a few segments of one signature, but not for
    layouts with offset tables.
    """
    structure_and_dims = signature.split_structure()
    if structure_and_dims is None:
        return record_steps(signature.inputs, run_backward)
    call = SplitCall(*structure_and_dims, None)
    for template in call.get_templates():
        steps: Recording | None = template.instantiate(call.dims)
        if steps is not None:
            return steps
    steps = record_steps(signature.inputs, run_backward)
    call.trace_if_due(
        partial(_trace_segment, signature, run_backward, call.dims),
        lambda template: _is_same_replay(template.instantiate(call.dims), steps),
    )
    return steps


def _trace_segment(signature: SegmentSignature, run_backward: Callable[..., Any], numbers: tuple[int, ...]) -> SizedSegment:
    """Return the size-generic template of a tape segment with signature `signature`; `numbers` are the sizes to become symbolic.

    `run_backward` runs the backward (or forward) pass through the segment, here with symbolic sizes and with the fast path disabled. Raise
    TypeError if the steps are not size-generic (`SizedSegment`).
    """
    traced = SymbolicSizes(numbers)
    with get_size_generic_functions().disable_fast_path():
        recording = record_steps(signature.inputs, lambda inputs: run_backward(inputs, traced), traced)
    return SizedSegment(traced.trace, recording)


def _is_same_replay(replay: Recording | None, expected: Recording) -> bool:
    """Return whether two recordings compute the same outputs by the same steps from equal constants; False if `replay` is None.

    `replay` comes from a new size-generic template, and `expected` from the derivative itself.
    """
    if (
        replay is None
        or replay.outputs != expected.outputs
        or len(replay.steps) != len(expected.steps)
        or len(replay.constants) != len(expected.constants)
    ):
        return False
    has_same_constants = all([is_same_source(a, b) for a, b in zip(replay.constants, expected.constants, strict=True)])  # type: ignore[arg-type]
    return has_same_constants and all([_is_same_step(a, b) for a, b in zip(replay.steps, expected.steps, strict=True)])


def _is_same_step(step: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Return whether two replay steps make the same node: the same recipe (`is_same_recipe`), and equal sources and offsets.

    Each of `step` and `expected` is a recipe, followed by sources and offsets.
    """
    (recipe, *operands), (expected_recipe, *expected_operands) = step, expected
    return is_same_recipe(recipe, expected_recipe) and operands == expected_operands
