"""Size-generic templates (`SizedTemplate`): results of a call for tensors of any sizes, packed as integers for the generated code
(`fastpath/emit/instantiate_templates.py`). Tracing the call with symbolic sizes (`SymInt`) gives guards, conditions on the sizes, and the
numbers of the result as expressions of the sizes. Both are bytecode. A spec is the shape, strides and dtype of a tensor. A step makes a
node of the result: a recipe (operation, shape, dtypes, layouts), its sources and offsets. A launch record is a packed description of a
kernel launch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from .._utils.records import NamedTuple
from .._utils.upcalls import get_size_generic_functions
from ..dtypes import DType
from ..graph.node import Scalar
from ..graph.spec import (
    CopyTemplate,
    DirectCallTemplate,
    InMemoryTemplate,
    NodeTemplate,
    OperandTemplate,
    RecipeTemplate,
    ResultTemplate,
    SegmentTemplate,
    Spec,
    StepOperands,
    StepsTemplate,
    TemplateStep,
    TupleTemplate,
    ViewTemplate,
    WriteTemplate,
)
from ..layout import Layout
from ..runtime.plan_execution import Plan
from ..symbolic.symint import FloatBySymInt, IntOrSymInt, SizeTrace, SymInt, Terms, terms_of
from .launch_records import SharedLaunchRecord, replace_element_counts

MAX_AXES = 4  # axes of a tensor
MAX_DIMS, MAX_ATOMS, MAX_RESULTS, MAX_SPECS = 128, 512, 4096, 256  # of a size-generic template
MAX_NOTED_SPECS = 8  # tensor arguments with specs noted by the generated code
# A launch record: the number of its step, the number of the product that this step sums, the words, and the plan with the kernel.
StepRecord = tuple[int, int | None, Sequence[IntOrSymInt], Plan | None]
RESULT_RECORD, DIRECT_CALL_RECORD = -1, -2  # instead of a step's number: the record of the result itself, or the program of a direct call


class SizeProgram:
    """A function of the sizes of tensors, as guards and results in bytecode (see `symbolic/guards.py`).

    `trace` holds the guards, and `results` are the results as expressions of symbolic sizes. `bytecode` holds both as packed integers.
    Raise TypeError if the trace exceeds the capacity of the evaluator in the generated code. `is_pinned` says that a guard fixes an input
    to a single value.
    """

    __slots__ = ("is_pinned", "bytecode")

    def __init__(self, trace: SizeTrace, results: Sequence[IntOrSymInt]) -> None:
        program = trace.encode(results)
        if len(results) > MAX_RESULTS or len(trace.atom_names) > MAX_ATOMS or len(trace.input_names) > MAX_DIMS:
            raise TypeError(
                f"{len(results)} results, {len(trace.atom_names)} numbers and {len(trace.input_names)} inputs exceed the evaluator of "
                f"size programs; it takes {MAX_RESULTS}, {MAX_ATOMS} and {MAX_DIMS}"
            )
        self.bytecode = struct.pack(f"={len(program)}q", *program)
        self.is_pinned = trace.is_pinned

    def evaluate(self, *dims: int) -> tuple[int, ...] | None:
        """Return the results for the sizes `dims`, the inputs of the trace in order, evaluated by the generated code.

        Return None if a guard fails, a value overflows 64 bits, or the program has no results.
        """
        return get_size_generic_functions().run_bytecode(self.bytecode, dims)


class PackedRecord(NamedTuple):
    """A launch record without sizes: `packed_words` is the packed record with 0 for each symbolic word.

    `symbolic_positions` are the indices of these words in the record. `plan` holds the kernels of the record, or is None.
    """

    packed_words: bytes
    symbolic_positions: tuple[int, ...]
    plan: Plan | None

    @classmethod
    def of(cls, words: Sequence[IntOrSymInt], plan: Plan | None, *, may_share: bool = False) -> PackedRecord:
        """Return the packed record of the integers `words`, some possibly symbolic. `plan` has the kernels of the record, or is None.

        If `may_share` is set and no word is symbolic, the packed words are a `SharedLaunchRecord`, used unchanged for every size.
        """
        symbolic_positions = tuple([k for k, word in enumerate(words) if isinstance(word, SymInt)])
        packed = struct.pack(f"={len(words)}q", *[0 if isinstance(word, SymInt) else word for word in words])
        if may_share and packed and plan is not None and not symbolic_positions:
            packed = SharedLaunchRecord(packed)
            packed.plan = plan
        return cls(packed, symbolic_positions, plan)


class SizedRecord(SizeProgram):
    """The size-generic launch record of a graph: the program gives the symbolic words of `record`.

    `trace` holds the guards on the sizes, `words` are the integers of the record, some of them symbolic, and `plan` holds the kernels.
    """

    __slots__ = ("record",)

    def __init__(self, trace: SizeTrace, words: Sequence[IntOrSymInt], plan: Plan) -> None:
        self.record = PackedRecord.of(words, plan)
        super().__init__(trace, [*[words[k] for k in self.record.symbolic_positions], 0])  # the 0 makes the results non-empty

    def instantiate(self, dims: Sequence[int]) -> bytes | None:
        """Return the launch record for the sizes `dims`, equal to the one made by the generated code; None if a guard fails or a value
        overflows.
        """
        symbolic_words = self.evaluate(*dims)
        if symbolic_words is None:
            return None
        words = list(struct.unpack(f"={len(self.record.packed_words) // 8}q", self.record.packed_words))
        for k, word in zip(self.record.symbolic_positions, symbolic_words, strict=False):
            words[k] = word
        return struct.pack(f"={len(words)}q", *words)


class NumberedSpecs:
    """The numbered specs of a size-generic template: first `given_specs`, the specs of the tensor arguments, then new ones.

    Equal specs share a number. `dtypes_and_ndims` lists the dtype and the number of axes of each new spec. `dims` lists their shapes and
    strides, one after another, with symbolic sizes.
    """

    def __init__(self, given_specs: Sequence[Spec]) -> None:
        self.dtypes_and_ndims: list[tuple[DType, int]] = []
        self.dims: list[IntOrSymInt] = []
        self._given_count = len(given_specs)
        self._number_by_key = {self._build_key(spec.layout, spec.dtype): k for k, spec in enumerate(given_specs)}

    def get_number(self, layout: Layout, dtype: DType) -> int:
        """Return the number of the spec of `layout`, whose offset is ignored, and `dtype`; a new spec is added to the list.

        Raise TypeError if the layout has offset tables or is a view chain, has too many axes, or if there are too many specs.
        """
        key = self._build_key(layout, dtype)
        number = self._number_by_key.get(key)
        if number is None:
            number = self._number_by_key[key] = self._given_count + len(self.dtypes_and_ndims)
            if number >= MAX_SPECS:
                raise TypeError(f"a size-generic template takes at most {MAX_SPECS} specs")
            self.dtypes_and_ndims.append((dtype, len(layout.shape)))
            self.dims += (*layout.shape, *layout.strides)
        return number

    @staticmethod
    def _build_key(layout: Layout, dtype: DType) -> tuple[DType, tuple[Terms, ...]]:
        """Return a hashable key of `dtype` and of the shape and strides of `layout`.

        Raise TypeError for offset tables, view chains and more than `MAX_AXES` axes.
        """
        if layout.tables is not None or layout.base is not None or len(layout.shape) > MAX_AXES:
            raise TypeError(f"a layout in a size-generic template must have no offset tables, no view chain and at most {MAX_AXES} axes")
        return dtype, tuple(map(terms_of, (*layout.shape, *layout.strides)))

    def get_contiguous_number(self, shape: tuple[int, ...], dtype: DType) -> int:
        """Return the number of the spec of a contiguous tensor of shape `shape` and `dtype`; a new spec is added to the list.

        Raise TypeError if the shape has too many axes, or if there are too many specs.
        """
        return self.get_number(Layout.contiguous(shape), dtype)


# The variants of result templates that generated code makes
VARIANTS = (
    NodeTemplate,
    StepsTemplate,
    OperandTemplate,
    ViewTemplate,
    TupleTemplate,
    DirectCallTemplate,
    CopyTemplate,
    WriteTemplate,
    SegmentTemplate,
)
VARIANT_NUMBERS: dict[type, int] = {cls: k for k, cls in enumerate(VARIANTS)}


class SizedTemplate(SizeProgram):
    """A size-generic template: the result of a call with tensors of one signature, for all sizes that satisfy its guards.

    The results of `bytecode` are the numbers of the template, in this order: shape and strides of each new spec; the shift of a view; if
    `fixed_step_operands` is None, the offsets of each step, and the scalars among its sources; the shift of each part; and the symbolic
    words of each launch record.

    `new_specs` are the dtype and number of axes of each new spec; specs are numbered, those of the `given_count` tensors first. The result
    has spec number `result_spec_number`. `element_specs` are the elements of a tuple, of type `result_constructor`. A launch record in
    `records` is a tuple: the number of its step, or `RESULT_RECORD`, or `DIRECT_CALL_RECORD`; the number of the product that the step sums,
    or None; and the fields of `PackedRecord`. A template with `is_single` set is a single recipe instead of steps, and Python integers
    among its operands lie between `low` and `high`. `variant` is the class of the templates that it makes, as an index of `VARIANTS`.

    `steps` describes the recipe of each step: operation, dtypes and spec numbers. `fixed_step_operands` has the operands of each step
    (`StepOperands`) if they are the same for all sizes, and is None otherwise. `step_operand_patterns` has the sources of each step with
    placeholders for symbolic scalars, the number of offsets, and whether derivatives record the step.
    """

    __slots__ = (
        "records",
        "given_count",
        "high",
        "is_single",
        "result_constructor",
        "low",
        "element_specs",
        "step_operand_patterns",
        "fixed_step_operands",
        "result_spec_number",
        "new_specs",
        "steps",
        "variant",
    )

    def __init__(
        self,
        trace: SizeTrace,
        symbolic: ResultTemplate,
        concrete: ResultTemplate,
        records: Iterable[StepRecord],
        given_specs: Sequence[Spec] = (),
    ) -> None:
        """Build the template from the symbolic template `symbolic`; `concrete` is the template of the same call with concrete sizes.

        `trace` holds the guards on the sizes, and `records` are the launch records of the steps. `given_specs` are the symbolic specs
        of the tensor arguments, if the generated code has them at hand. Raise TypeError if the result does not fit: transient recipes,
        parts with steps, too many specs or numbers.
        """
        self.variant = VARIANT_NUMBERS.get(type(concrete), -1)
        if self.variant < 0:
            raise TypeError(
                f"SizedTemplate: the result template is a {type(concrete).__name__}; it must be of one of the classes in VARIANTS"
            )
        self.is_single = isinstance(concrete, RecipeTemplate) and concrete.recipe is not None
        noted_specs = given_specs if len(given_specs) <= MAX_NOTED_SPECS else ()
        specs = NumberedSpecs(noted_specs)
        self.given_count, self.result_spec_number = len(noted_specs), specs.get_number(symbolic.spec.layout, symbolic.spec.dtype)
        shift = symbolic.shift if type(symbolic) is ViewTemplate else 0
        numbers, operand_values = list[Any]([shift]), list[Any]()
        steps, operand_patterns, element_specs, packed_records = [], [], [], []
        symbolic_steps = _list_steps(symbolic)
        for recipe, sources, offsets, is_recorded in symbolic_steps:
            if recipe.is_uncacheable:
                raise TypeError("an uncacheable recipe has no size-generic template")
            values = [get_symbolic_size(s) for s in sources if has_symbolic_value(s)]
            if values and self.is_single:
                raise TypeError("a template of a single operation must have no symbolic number as an operand")
            spec_number, dtypes = specs.get_contiguous_number(recipe.shape, recipe.dtype), (*recipe.dtypes, recipe.dtype)
            keys_and_dtypes = zip((*recipe.layout_keys, recipe.target), dtypes, strict=True)
            operand_spec_numbers = tuple(
                [-1 if layout_key is None else specs.get_number(layout_key.layout, dtype) for layout_key, dtype in keys_and_dtypes]
            )
            distinct_numbers = {k for k in operand_spec_numbers if k >= 0}
            only_number = distinct_numbers.pop() if len(distinct_numbers) == 1 else -1
            steps.append(
                (recipe.op, recipe.dtypes, recipe.keeps_order, spec_number, operand_spec_numbers, only_number, dict(recipe.residuals or ()))
            )
            operand_patterns.append(
                (tuple([get_scalar_pattern(s) if has_symbolic_value(s) else s for s in sources]), len(offsets), is_recorded)
            )
            operand_values += [*offsets, *values]
        if self.is_single:  # the caller knows sources and offsets
            self.fixed_step_operands: tuple[StepOperands, ...] | None = ()
        elif any([isinstance(number, SymInt) for number in operand_values]):
            self.fixed_step_operands = None
            numbers += operand_values
        else:
            self.fixed_step_operands = tuple([step[1:] for step in symbolic_steps])
        for element in symbolic.element_templates if isinstance(symbolic, TupleTemplate | SegmentTemplate) else ():
            if not isinstance(element, ResultTemplate):
                element_specs.append(element)
                continue
            memory_number = -1
            if isinstance(element, InMemoryTemplate):
                memory_number = specs.get_contiguous_number(element.recipe.shape, element.recipe.dtype)
                numbers.append(element.offset)
            elif isinstance(element, ViewTemplate):
                numbers.append(element.shift)
            else:
                raise TypeError(f"each part of a result must be a view or in memory, not a {type(element).__name__}")
            element_specs.append((specs.get_number(element.spec.layout, element.spec.dtype), memory_number))
        for step, product, words, plan in records:
            if step >= 0:
                words = replace_element_counts(words, symbolic_steps[step if product is None else product][0])
            packed_record = PackedRecord.of(words, plan, may_share=step >= 0)
            numbers += [words[k] for k in packed_record.symbolic_positions]
            packed_records.append((step, product, *packed_record))
        super().__init__(trace, [*specs.dims, *numbers])
        self.new_specs, self.steps, self.step_operand_patterns = tuple(specs.dtypes_and_ndims), tuple(steps), tuple(operand_patterns)
        self.records, self.element_specs = tuple(packed_records), tuple(element_specs)
        self.result_constructor = concrete.result_constructor if isinstance(concrete, TupleTemplate) else None
        self.low, self.high = (concrete.low, concrete.high) if isinstance(concrete, NodeTemplate | WriteTemplate) else (0, 0)


def _list_steps(template: ResultTemplate) -> tuple[TemplateStep, ...]:
    """Return the steps of `template`, each a recipe, sources, offsets, and whether derivatives record the node (`TemplateStep`).

    A copy has a single step without sources, for the data of the result; but none if the number of rows depends on a mask. Templates of
    other variants have no steps.
    """
    if type(template) is CopyTemplate:
        return () if template.recipe is None else ((template.recipe, (), (), True),)
    return template.steps if isinstance(template, StepsTemplate) else ()


def has_symbolic_value(source: object) -> bool:
    """Return whether `source`, a source of a step, is a scalar computed from symbolic sizes: a size, or a float divided by a size."""
    return isinstance(source, Scalar) and isinstance(source.value, (SymInt, FloatBySymInt))


def get_symbolic_size(source: Any) -> IntOrSymInt:
    """Return the symbolic size in `source`, a `Scalar` whose value is a size; for a quotient (a constant over a size), the divisor."""
    value = source.value
    size: IntOrSymInt = value.divisor if isinstance(value, FloatBySymInt) else value
    return size


def get_scalar_pattern(source: Any) -> DType | tuple[DType, float]:
    """Return the pattern that a template stores for `source`, a `Scalar` with a symbolic value: its dtype.

    For a quotient (a constant over a size), return the dtype and the constant.
    """
    return (source.dtype, source.value.dividend) if isinstance(source.value, FloatBySymInt) else source.dtype
