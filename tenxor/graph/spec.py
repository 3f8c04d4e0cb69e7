"""Tensor specs: interned descriptors of shape, strides and dtype, without storage and offset; and the cache of results keyed by specs. An
operation has results of equal specs for operands of equal specs. So such a result is recorded as a template (`ResultTemplate`) in the
tables of an operand's spec, and found again by identity. The fast path, machine code in place of Python methods, makes results by
templates. A recipe is an operation with shape, dtypes and layouts, without operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from types import MappingProxyType
from typing import Any, ParamSpec, Self, TypeVar

from .._utils import upcalls
from .._utils.cache_registry import CacheRecord
from .._utils.patchable import make_patchable
from ..dtypes import DType
from ..layout import Layout, LayoutKey, layout_key_of_dims
from ..layout.layout_key import layout_keys
from .node import Recipe, Scalar

P = ParamSpec("P")
T = TypeVar("T")
MAX_TEMPLATES = 1 << 15  # entries in the tables of all specs together
TEMPLATES_PER_REPORT = 1 << 10  # entries counted by the fast path before a report, including entries removed meanwhile
FLOAT64_EXACT_LIMIT = 1 << 53  # a float represents every smaller integer exactly
MAX_INT64, MAX_UINT64 = (1 << 63) - 1, (1 << 64) - 1  # the ranges of 64-bit integers


StepOperands = tuple[tuple[Scalar | int, ...], tuple[int, ...], bool]
TemplateStep = tuple[Recipe, tuple[Scalar | int, ...], tuple[int, ...], bool]


class ResultTemplate:
    """A template of the result of an operation for operands with given specs: a tensor with the spec `spec`. Each variant is a subclass.

    A template in the inline cache of a spec (`INLINE_CACHE_SLOTS`) has its key in `operation` (an operation, or the name of a method)
    and `other_key`. `launch_record` is read by generated code alone: the launch record of a write, the descriptor of a copy, or the
    description of the index tensors of a gather; empty without one.
    """

    __slots__ = ("spec", "operation", "other_key", "launch_record")

    def __init__(self, spec: Spec, launch_record: bytes = b"") -> None:
        self.spec, self.launch_record = spec, launch_record
        self.operation: object = None
        self.other_key: object = None


class RecipeTemplate(ResultTemplate):
    """A result with the recipe `recipe`: the base class of three variants. `spec` and `launch_record` are those of `ResultTemplate`."""

    __slots__ = ("recipe",)

    def __init__(self, spec: Spec, recipe: Recipe | None, launch_record: bytes = b"") -> None:
        super().__init__(spec, launch_record)
        self.recipe = recipe


class NodeTemplate(RecipeTemplate):
    """A pending node: `recipe` on the operands. A Python integer among the operands must lie between `low` and `high`.

    A recipe of None says that an in-place update is impossible.
    """

    __slots__ = ("high", "low")

    def __init__(self, spec: Spec, recipe: Recipe | None, low: int = 0, high: int = 0) -> None:
        super().__init__(spec, recipe)
        self.low, self.high = low, high


class CopyTemplate(RecipeTemplate):
    """Rows or pieces copied into new memory as `launch_record` describes; the empty record leaves the call to the fallback.

    `recipe` is data of the result's shape; None where the number of rows depends on a mask, and `spec` is then the spec of one row.
    """

    __slots__ = ()

    def __init__(self, spec: Spec, recipe: Recipe | None = None, launch_record: bytes = b"") -> None:
        super().__init__(spec, recipe, launch_record)


class InMemoryTemplate(RecipeTemplate):
    """A tensor in new memory, which begins `offset` elements after the start; `recipe` is data of the memory's shape."""

    __slots__ = ("offset",)
    recipe: Recipe

    def __init__(self, spec: Spec, recipe: Recipe, offset: int = 0) -> None:
        super().__init__(spec, recipe)
        self.offset = offset


class StepsTemplate(ResultTemplate):
    """Several pending nodes, the steps; the last one is the result, a tensor with the spec `spec`. Step k has the recipe `step_recipes[k]`.

    `step_operands[k]` has the sources of the step, the offsets, and whether derivatives record it, which is mostly equal for all sizes. A
    source is a `Scalar`, the number of an operand, or -1 - j for step j. The offset of an operand is added to the operand's own offset.
    Argument `steps` has a recipe and these three items for each step (`TemplateStep`).
    """

    __slots__ = ("step_operands", "step_recipes")

    def __init__(self, spec: Spec, steps: tuple[TemplateStep, ...]) -> None:
        super().__init__(spec)
        self.step_recipes = tuple([step[0] for step in steps])
        self.step_operands: tuple[StepOperands, ...] = tuple([step[1:] for step in steps])

    @property
    def steps(self) -> tuple[TemplateStep, ...]:
        """The steps, each a tuple of the recipe and the three items of `step_operands`."""
        return tuple([(recipe, *read) for recipe, read in zip(self.step_recipes, self.step_operands, strict=True)])


class SegmentTemplate(StepsTemplate):
    """The steps of a derivative, with the layouts of their results and the constants as views `element_templates`.

    `fastpath/segment_templates.py` makes such templates for a tape segment, consecutive recorded operations. `steps` are those of
    `StepsTemplate`.
    """

    __slots__ = ("element_templates",)

    def __init__(self, spec: Spec, steps: tuple[TemplateStep, ...] = (), element_templates: tuple[ViewTemplate, ...] = ()) -> None:
        super().__init__(spec, steps)
        self.element_templates = element_templates


class OperandTemplate(ResultTemplate):
    """The operand itself, for an operation that returns its operand: `contiguous` of a contiguous tensor, for example."""

    __slots__ = ()


class ViewTemplate(ResultTemplate):
    """A view of the operand, `shift` elements further."""

    __slots__ = ("shift",)

    def __init__(self, spec: Spec, shift: int) -> None:
        super().__init__(spec)
        self.shift = shift


class ChainViewTemplate(ResultTemplate):
    """A view chain over the memory of the operand, which begins at `offset`.

    The template is valid for operands at the offset `required_offset`, or at every offset if that is negative.
    """

    __slots__ = ("offset", "required_offset")

    def __init__(self, spec: Spec, required_offset: int, offset: int) -> None:
        super().__init__(spec)
        self.required_offset, self.offset = required_offset, offset


class WriteTemplate(ResultTemplate):
    """A write over a view of the spec `spec`, by the kernel of `launch_record`, which `plan` keeps in memory.

    The empty record leaves the call to the fallback. A Python integer as the value must lie between `low` and `high`.
    """

    __slots__ = ("high", "low", "plan")

    def __init__(self, spec: Spec, launch_record: bytes = b"", plan: object = None, low: int = 0, high: int = 0) -> None:
        super().__init__(spec, launch_record)
        self.plan, self.low, self.high = plan, low, high


class TupleTemplate(ResultTemplate):
    """Several results, one for each of `element_templates`: views of the operand and pending nodes.

    `result_constructor` makes the result of the tuple of them: `tuple`, a constructor of another tuple type, or None for a single result.
    """

    __slots__ = ("element_templates", "result_constructor")

    def __init__(
        self, spec: Spec, element_templates: tuple[Any, ...], result_constructor: Callable[[tuple[Any, ...]], Any] | None = None
    ) -> None:
        super().__init__(spec)
        self.element_templates, self.result_constructor = element_templates, result_constructor


class NumpyCallTemplate(TupleTemplate):
    """Results in memory that NumPy computes: `compute_arrays` takes the operands as arrays, and returns an array for each result.

    `element_templates` and `result_constructor` are those of `TupleTemplate`.
    """

    __slots__ = ("compute_arrays",)

    def __init__(
        self,
        spec: Spec,
        element_templates: tuple[InMemoryTemplate, ...],
        result_constructor: Callable[[tuple[Any, ...]], Any] | None,
        compute_arrays: Callable[..., Any],
    ) -> None:
        super().__init__(spec, element_templates, result_constructor)
        self.compute_arrays = compute_arrays


class DirectCallTemplate(TupleTemplate):
    """Results that generated code computes in our memory, by the bytecode `loop_bytecode` (`fastpath/direct_call_programs.py`).

    The only number among the arguments is read with the dtype `number_dtype`; None without one. Where sizes depend on values,
    `element_templates` are mappings from sizes to templates. `result_constructor` is that of `TupleTemplate`.
    """

    __slots__ = ("loop_bytecode", "number_dtype")

    def __init__(
        self,
        spec: Spec,
        element_templates: tuple[Any, ...],
        result_constructor: Callable[[tuple[Any, ...]], Any] | None = None,
        loop_bytecode: bytes = b"",
        number_dtype: DType | None = None,
    ) -> None:
        super().__init__(spec, element_templates, result_constructor)
        self.loop_bytecode, self.number_dtype = loop_bytecode, number_dtype


# Templates by operation and key; the operation determines the variant. None: the result cannot be replayed
TemplateTable = dict[object, dict[object, Any]]
NO_TEMPLATES: Mapping[object, Any] = MappingProxyType({})
# Slots of the inline cache of a spec, for templates outside the tables; the first one is filled first
INLINE_CACHE_SLOTS = ("inline_cache_0", "inline_cache_1")


class Spec:
    """An interned descriptor of tensors: a layout key (`layout_key`) with a dtype. Equal specs are the same object.

    `layout` is the layout at offset 0. `strides` is None where strides do not describe the layout: for offset tables and view chains.
    `is_writable` is true if each element is known to occur once, and `is_contiguous` if the elements are contiguous. The fast path
    makes specs without a layout key (`fastpath/emit/spec_table.py`); missing attributes are computed at the first request. `data` is
    the recipe of data of this shape, for the fast path alone.

    The tables have templates of results. `templates` is keyed by operation, then by the second operand: the spec of a tensor, the type
    of a number, or None for a unary operation. `number_first_templates` is for operations with a number as the first operand.
    `call_templates` is keyed by the name of a method, then by the remaining arguments. The fast path writes the first two templates
    into an inline cache (`INLINE_CACHE_SLOTS`), as most specs get no more; Python moves these to the tables before a look-up.
    `constant_spec` is the spec that replaces this spec where the value of a tensor is a known number.
    """

    __slots__ = (
        *("_call_templates", "_layout", "_layout_key", "_number_first_templates", "_templates", "constant_spec", "data", "dtype"),
        *("is_contiguous", "is_writable", "shape", "size", "strides", *INLINE_CACHE_SLOTS),
    )

    _templates: TemplateTable
    _call_templates: TemplateTable
    _number_first_templates: TemplateTable
    inline_cache_0: ResultTemplate | None
    inline_cache_1: ResultTemplate | None

    def __init__(self, layout_key: LayoutKey, dtype: DType) -> None:
        self._layout_key, self.dtype = layout_key, dtype
        layout: Layout = layout_key.layout
        self._layout, self.shape, self.size = layout, layout.shape, layout.size
        self.is_contiguous = layout.is_contiguous()
        self.strides = layout.strides if layout.tables is None and layout.base is None else None
        self.constant_spec: Spec | None = None
        self.is_writable = False
        self._add_tables()

    def _add_tables(self) -> None:
        """Set the tables and the inline cache to empty ones, where they are unset."""
        for slot in ("_templates", "_number_first_templates", "_call_templates"):
            if not hasattr(self, slot):
                setattr(self, slot, {})
        for slot in INLINE_CACHE_SLOTS:
            if not hasattr(self, slot):
                setattr(self, slot, None)

    # Attributes that may be unset at first. A `__getattr__` instead would slow every attribute down.

    @property
    def layout_key(self) -> LayoutKey:
        """The layout without its offset, interned."""
        try:
            return self._layout_key
        except AttributeError:
            assert self.strides is not None
            self._layout_key = layout_key_of_dims(self.shape, self.strides)
            self._layout_key.specs.setdefault(self.dtype, self)
            return self._layout_key

    @property
    def layout(self) -> Layout:
        """The layout at offset 0."""
        try:
            return self._layout
        except AttributeError:
            self._layout = self.layout_key.layout
            return self._layout

    @property
    def nbytes(self) -> int:
        """The bytes of all elements of a tensor: their number times the item size, also where elements share memory."""
        return self.size * self.dtype.itemsize

    @property
    def templates(self) -> TemplateTable:
        """The result templates by operation, and then by the second operand (see `Spec`). Templates of the inline cache are moved here
        first.
        """
        try:
            cached, table = self.inline_cache_0, self._templates
        except AttributeError:
            return self._flush_inline_cache()._templates
        return table if cached is None else self._flush_inline_cache()._templates

    @property
    def call_templates(self) -> TemplateTable:
        """The result templates by the name of a method, and then by the arguments. Templates of the inline cache are moved here first."""
        return self._flush_inline_cache()._call_templates

    @property
    def number_first_templates(self) -> TemplateTable:
        """The result templates, by operation, of operations with a number as the first operand and a tensor of this spec as the second."""
        try:
            return self._number_first_templates
        except AttributeError:
            self._add_tables()
            return self._number_first_templates

    def _flush_inline_cache(self) -> Self:
        """Move the templates of the inline cache to the tables, and return this spec. Several threads may do so at the same time."""
        self._add_tables()
        for template in (self.inline_cache_0, self.inline_cache_1):
            if template is not None:
                table = self._call_templates if type(template.operation) is str else self._templates
                if not table:
                    _used_tables.append(table)
                table.setdefault(template.operation, {})[template.other_key] = template
        self.clear()
        return self

    def clear(self) -> None:
        """Clear the inline cache; the tables stay. Templates of the inline cache are lost unless moved to the tables before."""
        self.inline_cache_0 = self.inline_cache_1 = None

    def __repr__(self) -> str:
        return f"Spec({self.layout}, {self.dtype})"


def intern_strided_spec(dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...]) -> Spec:
    """Return the spec of tensors of `dtype` with the shape `shape` and the strides `strides`, in elements: always the same object.

    The generated code calls this function for a spec that its own table lacks.
    """
    return intern_spec(layout_key_of_dims(shape, strides).layout, dtype)


def intern_spec(layout: Layout, dtype: DType) -> Spec:
    """Return the spec of tensors of `dtype` with the layout `layout`, at any offset: always the same object."""
    layout_key = layout._layout_key or layout.layout_key
    spec: Spec | None = layout_key.specs.get(dtype)
    if spec is None:
        spec = layout_key.specs[dtype] = _find_in_fast_path(layout_key, dtype) or Spec(layout_key, dtype)
    return spec


def _find_in_fast_path(layout_key: LayoutKey, dtype: DType) -> Spec | None:
    """Return the spec of `dtype` for the layout key `layout_key`, stored or made by the fast path.

    Return None while the fast path is not loaded, and for a layout with tables or a view chain. Also return None if the fast path has a
    spec with another layout key, equal but older.
    """
    layout = layout_key.layout
    if layout.tables is None and layout.base is None:
        interning = upcalls.interning
        spec: Spec | None = None if interning is None else interning.intern_spec(dtype, layout.shape, layout.strides, None)
        if spec is not None and spec.layout_key is layout_key:
            return spec
    return None


def get_constant_spec(spec: Spec) -> Spec:
    """Return the spec that stands for `spec` where the value of the tensor is a known number.

    This is an object of its own, made at the first request. Templates for operands of known value are found by this spec.
    """
    constant_spec = spec.constant_spec
    if constant_spec is None:
        constant_spec = spec.constant_spec = Spec(spec.layout_key, spec.dtype)
    return constant_spec


def locate_template(op: object, keys: list[object]) -> tuple[TemplateTable, object, object]:
    """Return the location of the template for the operation `op`: a table of a spec, and two keys.

    The table maps the first key, `op`, to a dict. The dict maps the second key, which stands for the remaining operands, to the template.
    `keys` has an item for each operand: the spec of a tensor, or the type of a number. At least one of the first two items is a spec.
    """
    first_key, second_key = keys[0], keys[1] if len(keys) > 1 else None
    if type(first_key) is Spec:
        table = first_key.templates
    else:
        assert type(second_key) is Spec
        table, second_key = second_key.number_first_templates, first_key
    return table, op, second_key if len(keys) < 3 else (second_key, *keys[2:])


_used_tables: list[TemplateTable | Spec] = []  # the tables with entries, and the specs with an inline cache in use
_fast_path_recipes: dict[object, Recipe] = {}  # recipes that the fast path made of specs without a template, by their fields
_template_count = 0


def record_template(table: TemplateTable, operation: object, other_key: object, template: ResultTemplate | None) -> None:
    """Record `template` in `table`, a table of a spec, under `operation` and `other_key`; None records a result that cannot be replayed.

    At `MAX_TEMPLATES` entries in all tables, clear every table first.
    """
    global _template_count
    if _template_count >= MAX_TEMPLATES:
        result_templates.evictions += 1
        clear_templates()
    if not table:
        _used_tables.append(table)
    table.setdefault(operation, {})[other_key] = template
    _template_count += 1


def count_new_templates() -> None:
    """Count `TEMPLATES_PER_REPORT` templates recorded by the fast path, which calls this function.

    From `MAX_TEMPLATES` entries on, clear every table.
    """
    global _template_count
    _template_count += TEMPLATES_PER_REPORT
    if _template_count >= MAX_TEMPLATES:
        result_templates.evictions += 1
        clear_templates()


def clear_templates() -> None:
    """Remove the result templates of every spec: the fast path then records results anew."""
    global _template_count
    _fast_path_recipes.clear()
    with suppress(IndexError):  # another thread took the last table
        while _used_tables:
            _used_tables.pop().clear()
    _template_count = 0


result_templates = CacheRecord(
    "result templates",
    "the outcome of an operation, by operation and specs of the operands",
    __name__,
    clear_templates,
    lambda: _template_count,
    max_entries=MAX_TEMPLATES,
    depends_on=(layout_keys,),
)


def memoized_external_calls(function: Callable[P, T]) -> Callable[P, T]:
    """Memoise `function` by the specs of tensor arguments and by the remaining arguments, and return the wrapped function.

    A call is replayed only if `function` announced a direct call for the result, by exactly one call of `report_direct_call`
    (`api/host_calls.py`). For tensors of equal specs and equal remaining arguments, the fast path then makes the direct call alone, without
    the Python code of `function`. The size of the result, and whether a result exists, may depend on values.
    """
    return _wrap_for_replay(function, lambda caller: caller.record_reports)


def memoized_call(function: Callable[P, T]) -> Callable[P, T]:
    """Memoise `function` by the specs of tensor arguments and by the remaining arguments, and return the wrapped function.

    The operations, specs and scalars of the result must depend on the arguments alone, on no value of a tensor and no setting. The fast
    path replays a recorded result without calling `function`. A call is memoised if the first argument is a tensor, and each other one a
    tensor, None, a number, a string, a type, a dtype or a tuple of integers, without `out`. Otherwise `function` runs each time.
    """
    return _wrap_for_replay(function, lambda caller: caller.record_result)


def _wrap_for_replay(original: Callable[P, T], wrapper_of: Callable[[upcalls.CallReplay], Callable[..., Any]]) -> Callable[P, T]:
    """Return `original` wrapped for replay by the fast path (`make_patchable`).

    Where the fast path declines, `wrapper_of(fast_path.call_replay)` returns the decorator to run and record the call: `record_result` or
    `record_reports`. Without the fast path, or without positional arguments, `original` is called.
    """
    name = f"{original.__module__}.{original.__qualname__}"

    @wraps(original)
    def function(*args: P.args, **kwargs: P.kwargs) -> T:
        """Call `original`, by the recorder of the fast path if the fast path is installed."""
        if args:
            fast_path = upcalls.installed
            if fast_path is not None:
                result: T = wrapper_of(fast_path.call_replay)(name, original)(*args, **kwargs)
                return result
        return original(*args, **kwargs)

    function.__annotations__ = original.__annotations__  # from CPython 3.14 on, `wraps` misses annotations that were set explicitly
    return make_patchable(function, "replay", name)
