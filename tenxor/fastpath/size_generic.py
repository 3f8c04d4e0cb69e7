"""Size-generic templates: calls recorded for some sizes are replayed for further sizes without the fallback, the method in Python. A
template says how to make the result of a call. The signature of a call consists of the specs (shape, strides, dtype) and arguments without
their numbers. It also tells which numbers are equal, 0 or 1. After a few calls of one signature, the fallback runs once with placeholders,
whose sizes are symbolic: this is a trace. Every comparison with a symbolic size (`SymInt`) is recorded as a guard. The result with symbolic
sizes becomes a template for all sizes that satisfy the guards.

The generated code computes signatures (`fastpath/emit/call_signatures.py`), and makes results by the templates, which are `SizedTemplate`s
(`fastpath/emit/instantiate_templates.py`). Nothing is guessed: numbers that fail a guard are recorded for their exact sizes
(`recorder.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from .._utils import upcalls
from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import register
from .._utils.locks import try_acquire
from .._utils.records import NamedTuple
from .._utils.upcalls import get_size_generic_functions
from ..autodiff.tape import TapeNode
from ..graph.node import DATA, Gather, Node, Recipe, Scalar, intern_recipe, next_serial
from ..graph.spec import (
    ChainViewTemplate,
    CopyTemplate,
    DirectCallTemplate,
    InMemoryTemplate,
    NodeTemplate,
    NumpyCallTemplate,
    OperandTemplate,
    ResultTemplate,
    SegmentTemplate,
    Spec,
    StepsTemplate,
    TupleTemplate,
    ViewTemplate,
    WriteTemplate,
    result_templates,
)
from ..graph.storage import ScalarStorage, Storage
from ..layout.coords import Shape
from ..memory.buffer import META_BUFFER
from ..ops import OPS
from ..runtime import graph_signature
from ..runtime.graph_signature import GraphSignature
from ..runtime.plan_tracing import SymbolicSizes
from ..runtime.realize import compute_lock
from ..runtime.unfused_plans import MULTIPLY, SUM
from ..symbolic.guards import GuardedCache
from ..symbolic.symint import IntOrSymInt
from ..tensor import Tensor
from .launch_records import NO_LAUNCH_RECORD, RECORD_SOURCES, StandaloneNode, SymbolicRecord, node_launch_records, trace_node_record
from .sized_template import RESULT_RECORD, SizedRecord, SizedTemplate, SizeProgram, StepRecord
from .template_builder import build_steps_template, build_tuple_template, build_view_template

MAX_SIGNATURES = 1024
MAX_SIGNATURE_TEMPLATES = 48  # size-generic templates of one signature
CALLS_BEFORE_TRACING = 3  # calls of one signature recorded for exact sizes before tracing: many programs have no more sizes
MAX_TRACES = 400 if sys.version_info >= (3, 13) else 4000  # per process; from 3.13 on, a class changed often gets slow for good
_trace_count = 0
NO_KEYWORDS: Mapping[str, Any] = {}
ProgramType = TypeVar("ProgramType", bound=SizeProgram)


class SignatureTemplates(GuardedCache[SizeProgram]):
    """The size-generic templates of one signature of calls or graphs.

    The signature refers to objects by address. `referenced_objects` holds these objects, so no new object gets an old address.
    """

    __slots__ = ("referenced_objects",)

    def __init__(self, referenced_objects: object) -> None:
        super().__init__(MAX_SIGNATURE_TEMPLATES, CALLS_BEFORE_TRACING)
        self.referenced_objects = referenced_objects


class SplitCall(NamedTuple):
    """A call of a method, or a graph or tape segment, split into a signature `signature` and the remaining `dims`: the sizes and integers,
    each listed once.

    `referenced_objects` are the objects that the signature refers to by address, and `specs` the specs of the tensors.
    """

    signature: Hashable
    dims: tuple[int, ...]
    referenced_objects: object
    specs: tuple[Spec, ...] = ()

    @classmethod
    def of(
        cls,
        name: object,
        arguments: Sequence[Any],
        keyword_names: Sequence[str] = (),
        further_shapes: Sequence[Shape] = (),
        tape_mask: int = 0,
    ) -> SplitCall | None:
        """Return the split call of `name`, a method's name or an operation; None for arguments that no signature can hold.

        `arguments` are the positional arguments, then the values of the keyword arguments `keyword_names`. `further_shapes` are shapes with
        further numbers. `tape_mask` is a bit mask of the arguments on the autograd tape (bit k: argument k), if the method then makes
        different nodes. A scalar whose value does not matter is given as its type.
        """
        signature_and_dims = get_size_generic_functions().compute_signature(
            name, tuple(arguments), tuple(keyword_names), tuple(further_shapes), tape_mask
        )
        if signature_and_dims is None:
            return None
        objects, specs = (
            [x for x in (*arguments, *keyword_names) if type(x) is not Tensor],
            [x.spec for x in arguments if type(x) is Tensor],
        )
        return cls(*signature_and_dims, (name, *objects), tuple(specs))

    def get_templates(self) -> Sequence[Any]:
        """Return the size-generic templates of this signature, the last traced first: `SizedTemplate`s for a call, `SizedRecord`s for the
        launch record of a node or a graph, `SizedSegment`s for a tape segment; empty without any. The list is the cache's own, and must not
        be changed.
        """
        templates = _templates_by_signature.get(self.signature)
        return () if templates is None else templates.entries

    def can_have_templates(self) -> bool:
        """Return whether this signature has, or may get, size-generic templates: no trace of this signature has failed."""
        templates = _templates_by_signature.get(self.signature)
        return templates is None or templates.max_entries > 0

    def instantiate(self) -> Any:
        """Return the result template for the dims of this call, or None if no size-generic template of the signature holds for them.

        The templates are tried in the order of `get_templates`. Nothing is recorded or traced.
        """
        for sized_template in self.get_templates():
            template = get_size_generic_functions().instantiate(sized_template, self.dims, self.specs)
            if template is not None:
                return template
        return None

    def trace_call(
        self,
        template: ResultTemplate | None,
        fallback: Callable[..., Any],
        args: Sequence[Any],
        keywords: Mapping[str, Any] = NO_KEYWORDS,
        describe_call: Callable[..., Sequence[IntOrSymInt] | None] | None = None,
    ) -> None:
        """Trace a size-generic template, if the trace is due (`trace_if_due`), and store the template.

        For the trace, the fallback `fallback` runs once with symbolic sizes in `args` and `keywords`. `template` is the template just
        recorded for the same arguments; do nothing if `template` is None. `describe_call`, if given, takes the same arguments and returns
        integers to store with the template.
        """
        if template is not None:
            self.trace_template(template, lambda: _trace_template(template, self.dims, fallback, args, keywords, describe_call))

    def trace_operation(self, template: ResultTemplate | None, fallback: Callable[..., Any], args: Sequence[Any]) -> None:
        """Trace a size-generic template of an operation, if the trace is due (`trace_if_due`), and store the template.

        For the trace, the fallback `fallback` runs once with symbolic sizes in the tensors of `args`. `template` is the template just
        recorded for the same arguments; do nothing if `template` is None. Scalars are never symbolic here, even if a tensor has a size of
        the same value.
        """
        tensors = [x for x in args if can_get_symbolic_sizes(x)]

        def call_fallback(*placeholders: Any) -> Any:
            """Call the fallback with `placeholders` in place of the tensors of `args`."""
            iterator = iter(placeholders)
            return fallback(*[next(iterator) if can_get_symbolic_sizes(x) else x for x in args])

        self.trace_call(template, call_fallback, tensors)

    def trace_template(self, template: ResultTemplate, trace: Callable[[], SizedTemplate | None]) -> None:
        """Trace a size-generic template with `trace`, if the trace is due (`trace_if_due`), and store the template.

        `trace` returns the template, or None for a call that is not size-generic. `template` is the template recorded for the exact sizes
        of this call. Accept the new template only if it gives `template` for the numbers of this call.
        """

        def is_right(sized_template: SizedTemplate) -> bool:
            """Return whether `sized_template`, a new size-generic template, gives `template` for the dims of this call."""
            instance = get_size_generic_functions().instantiate(sized_template, self.dims, self.specs)
            return instance is not None and is_same_template(instance, template)

        self.trace_if_due(trace, is_right)

    def trace_launch_record(
        self,
        record: bytes,
        get_signature: Callable[[], GraphSignature],
        trace: Callable[[GraphSignature, GraphSignature], SymbolicRecord | None],
    ) -> None:
        """Trace a size-generic launch record with `trace`, if the trace is due (`trace_if_due`), and store the record.

        `get_signature` returns the graph's signature. `trace` takes this signature and the same signature with symbolic sizes, and returns
        the record, or None. Accept the record only if it gives `record` for the numbers of this graph.
        """

        def trace_sized_record() -> SizedRecord | None:
            """Return the size-generic record traced with symbolic sizes, or None."""
            signature, traced = get_signature(), SymbolicSizes(self.dims)
            nodes = graph_signature.make_placeholders(signature, traced)
            symbolic_record = trace(signature, graph_signature.capture_in_python([nodes[k] for k in signature.root_slots]))
            return None if symbolic_record is None else SizedRecord(traced.trace, *symbolic_record)

        self.trace_if_due(trace_sized_record, lambda sized_record: sized_record.instantiate(self.dims) == record)

    def trace_if_due(self, trace: Callable[[], ProgramType | None], is_right: Callable[[ProgramType], bool]) -> None:
        """Trace a size-generic template with `trace`, if a trace is due, and store the template if `is_right` accepts it. Return None.

        `trace` returns the template, or None if the call is not size-generic; None and an exception count as failures. A trace is due once
        this method was called `CALLS_BEFORE_TRACING` times for the signature, and later if earlier templates hold for a single value of a
        dim only. After a failure, calls of the signature are traced no more; after `MAX_TRACES` traces in a process each further trace
        fails. While another thread is computing, tracing is postponed. A signature has at most `MAX_SIGNATURE_TEMPLATES` templates.
        """
        global _trace_count
        templates = _templates_by_signature.get(self.signature)
        if templates is None:
            templates = SignatureTemplates(self.referenced_objects)
            _templates_by_signature.put(self.signature, templates)
        # No records are built while another thread computes: the trace stays due.
        if not templates.should_generalize() or not try_acquire(compute_lock):
            return
        try:
            program = None
            if _trace_count < MAX_TRACES:
                _trace_count += 1
                program = trace()
            templates.insert(program if program is not None and is_right(program) else None, self.dims)
        except Exception:  # code without support for symbolic sizes
            templates.insert(None, self.dims)
        finally:
            compute_lock.release()


def is_known_scalar(x: Tensor) -> bool:
    """Return whether the tensor `x` is a known scalar: its storage has a Python number of the dtype of `x` and no node. `x` may have axes,
    as a broadcast view.
    """
    return type(x.storage) is ScalarStorage and x.storage.get_known_number(x.dtype) is not None


def can_get_symbolic_sizes(x: Any) -> bool:
    """Return whether `make_symbolic_argument` may replace the argument `x` by a tensor of symbolic sizes: a tensor, but no known scalar."""
    return type(x) is Tensor and not is_known_scalar(x)


def _trace_template(
    concrete_template: ResultTemplate,
    dims: Iterable[int],
    fallback: Callable[..., Any],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    describe_call: Callable[..., Sequence[IntOrSymInt] | None] | None,
) -> SizedTemplate | None:
    """Run a fallback with symbolic sizes, and return the size-generic template of its result, or None.

    `fallback` is called with `args` and `keywords`, whose numbers become symbolic as far as they are among `dims`. `concrete_template`
    is the template for the concrete sizes. `describe_call`, or None, takes the same arguments and returns integers to store with the
    template, or None. The traced result must be of the same variant as `concrete_template`, and a single step for a `NodeTemplate`;
    otherwise return None.
    """
    traced = SymbolicSizes(dims)
    placeholders, keyword_placeholders, tensors = make_symbolic_arguments(traced, args, keywords)
    with get_size_generic_functions().disable_fast_path():
        first_node_number = next_serial()
        result = fallback(*placeholders, **keyword_placeholders)
        if isinstance(result, tuple):
            symbolic_template: ResultTemplate | None = build_tuple_template(
                tensors[0], placeholders, keyword_placeholders, result, first_node_number
            )
        else:
            symbolic_template = (build_view_template(tensors[0], result) if len(tensors) == 1 else None) or build_steps_template(
                tensors, result, first_node_number
            )
    if symbolic_template is None or symbolic_template.spec.strides is None:
        return None
    if type(concrete_template) is NodeTemplate:
        if type(symbolic_template) is not StepsTemplate or len(symbolic_template.steps) != 1:
            return None
    elif type(symbolic_template) is not type(concrete_template):
        return None
    records = _trace_records(concrete_template, symbolic_template, [x for x in (*args, *keywords.values()) if type(x) is Tensor], tensors)
    words = None if describe_call is None else describe_call(*placeholders, **keyword_placeholders)
    if words is not None:
        records.append((RESULT_RECORD, None, words, None))
    return SizedTemplate(traced.trace, symbolic_template, concrete_template, records, [t.spec for t in tensors])


def _trace_records(
    concrete_template: ResultTemplate, symbolic_template: ResultTemplate, tensors: Sequence[Tensor], placeholders: Sequence[Tensor]
) -> list[StepRecord]:
    """Return the size-generic launch records of the nodes of a result, as a list of `StepRecord`s.

    `concrete_template` is the template with concrete sizes, of the arguments `tensors`. `symbolic_template` is the symbolic template, of
    `placeholders`, the tensors of symbolic sizes. A product under a sum has no record, since the kernel of the sum computes both. Nodes
    that can fail at run time get `NO_LAUNCH_RECORD`. Nodes are left out if their record is not size-generic.
    """
    records = list[StepRecord]()
    if not isinstance(symbolic_template, StepsTemplate):
        return records
    concrete_data = [t.storage.node.recipe.data_recipe for t in tensors]
    symbolic_data = [t.storage.node.recipe for t in placeholders]
    steps = [(r, sources) for r, sources, *_ in symbolic_template.steps]
    assert isinstance(concrete_template, StepsTemplate | NodeTemplate)
    concrete_recipes: Any = (concrete_template.recipe,) if isinstance(concrete_template, NodeTemplate) else concrete_template.step_recipes
    sum_operands = {
        k: -1 - sources[0] for k, (r, sources) in enumerate(steps) if r.op is SUM and type(sources[0]) is int and sources[0] < 0
    }
    products = {k: p for k, p in sum_operands.items() if steps[p][0].op is MULTIPLY}

    def build_standalone(k: int, recipes: Sequence[Recipe], data_recipes: Sequence[Recipe]) -> StandaloneNode:
        """Return the description of step `k` as a node by itself, from the recipes of the steps and of the arguments."""
        p = products.get(k)
        sources = steps[k if p is None else p][1]
        operand_recipes = [None if isinstance(s, Scalar) else data_recipes[s] if s >= 0 else recipes[-1 - s].data_recipe for s in sources]
        return StandaloneNode(recipes[k], None if p is None else recipes[p], operand_recipes)

    for k in range(len(steps)):
        if k not in products.values():
            step = steps[k][0]
            if step.target is not None or type(step.op) is Gather or (step.op is OPS["pow"] and step.dtype.is_integer):  # can fail
                records.append((k, None, NO_LAUNCH_RECORD, None))
                continue
            record = trace_node_record(
                build_standalone(k, concrete_recipes, concrete_data), build_standalone(k, [r for r, _ in steps], symbolic_data)
            )
            if record is not None:
                records.append((k, products.get(k), *record))
    return records


def make_symbolic_arguments(
    symbolic_sizes: SymbolicSizes, args: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any], list[Tensor]]:
    """Return the positional arguments `args` and the keyword arguments `keywords` with symbolic sizes, and the tensors among them as a
    list.

    Shapes, strides and integers become symbolic sizes of `symbolic_sizes` (`make_symbolic_argument`).
    """
    placeholders, keyword_placeholders = (
        [make_symbolic_argument(symbolic_sizes, x) for x in args],
        {name: make_symbolic_argument(symbolic_sizes, x) for name, x in keywords.items()},
    )
    return placeholders, keyword_placeholders, [x for x in (*placeholders, *keyword_placeholders.values()) if type(x) is Tensor]


def make_symbolic_argument(symbolic_sizes: SymbolicSizes, x: Any) -> Any:
    """Return `x`, an argument of a traced call, with the symbolic sizes of `symbolic_sizes` in place of the numbers being traced.

    An integer becomes a symbolic size, and the items of a tuple are replaced alike. A tensor becomes a tensor of symbolic shape and
    strides, without memory; it has a tape node if `x` is on the autograd tape. Equal numbers get one symbolic size; 0 and 1 stay. Untraced
    integers, and arguments of other types, such as floats and bools, stay as well. Raise KeyError for a tensor with an untraced size or
    stride.
    """
    if type(x) is Tensor:
        layout, storage_shape = symbolic_sizes.symbolize_layout(x.spec.layout), symbolic_sizes.symbolize_dims(x.storage.node.shape)
        node = Node(intern_recipe(DATA, storage_shape, x.dtype), buffer=META_BUFFER)  # type: ignore[arg-type]
        if x.storage.node.tape_node is not None:
            node.tape_node = TapeNode(node.recipe)
        return Tensor(Storage(node), layout, x.dtype)
    if type(x) is tuple:
        return tuple([make_symbolic_argument(symbolic_sizes, k) for k in x])
    return symbolic_sizes.symbolize_dims((x,))[0] if type(x) is int else x


def is_same_template(template: ResultTemplate, expected: ResultTemplate) -> bool:
    """Return whether two result templates make the same result, by equal recipes and with the same numbers and launch record.

    `template` comes from a new size-generic template, and `expected` from the fallback: a size-generic template is used only if both agree.
    """
    spec, expected_spec = template.spec, expected.spec
    if type(template) is not type(expected) or template.launch_record != expected.launch_record:
        return False
    if spec.dtype is not expected_spec.dtype or spec.layout != expected_spec.layout:
        return False
    return all([_is_same_slot(name, getattr(template, name), getattr(expected, name)) for name in _COMPARED_SLOTS[type(template)]])


# The slots compared by `is_same_template`, beside the spec and the launch record, by variant
_COMPARED_SLOTS: dict[type, tuple[str, ...]] = {
    NodeTemplate: ("recipe", "low", "high"),
    CopyTemplate: ("recipe",),
    InMemoryTemplate: ("recipe", "offset"),
    StepsTemplate: ("steps",),
    SegmentTemplate: ("steps", "element_templates"),
    OperandTemplate: (),
    ViewTemplate: ("shift",),
    ChainViewTemplate: ("offset", "required_offset"),
    WriteTemplate: ("low", "high"),
    TupleTemplate: ("element_templates",),
    NumpyCallTemplate: ("element_templates",),
    DirectCallTemplate: ("element_templates", "loop_bytecode"),
}


def _is_same_slot(name: str, value: Any, expected: Any) -> bool:
    """Return whether the slot `name` of two templates of one variant has the same meaning for both.

    `value` and `expected` are the contents of the slot. Recipes, steps and element templates may be equal without being one object.
    """
    if value is None or expected is None:
        return value is expected
    if name == "recipe":
        return is_same_recipe(value, expected)
    if name in ("steps", "element_templates"):
        is_same = _is_same_step if name == "steps" else _is_same_element
        return len(value) == len(expected) and all([is_same(a, b) for a, b in zip(value, expected, strict=True)])
    return bool(value == expected)


def _is_same_element(element: Any, expected: Any) -> bool:
    """Return whether two items of `element_templates` are one mapping from sizes to templates, or templates of the same result.

    `element` and `expected` are these items, compared with `is_same_template`.
    """
    return element is expected or (isinstance(element, ResultTemplate) and is_same_template(element, expected))


def _is_same_step(step: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    """Return whether two template steps make the same node.

    Each of `step` and `expected` is a tuple: the recipe, the sources, the offsets, and whether derivatives record the node. All must be
    equal.
    """
    (recipe, sources, offsets, is_recorded), (expected_recipe, expected_sources, expected_offsets, expected_is_recorded) = step, expected
    if (
        not is_same_recipe(recipe, expected_recipe)
        or offsets != expected_offsets
        or is_recorded != expected_is_recorded
        or len(sources) != len(expected_sources)
    ):
        return False
    return all([is_same_source(a, b) for a, b in zip(sources, expected_sources, strict=True)])


def is_same_recipe(recipe: Recipe, expected: Recipe) -> bool:
    """Return whether `recipe` and `expected` compute the same from the same sources: equal operation, shape, dtypes and layouts.

    The recipes may be two objects: if the fast path made one, or if the cache evicted the first.
    """
    if recipe.op is not expected.op or (recipe.shape, recipe.dtype, recipe.dtypes) != (expected.shape, expected.dtype, expected.dtypes):
        return False
    layout_key_pairs = zip((*recipe.layout_keys, recipe.target), (*expected.layout_keys, expected.target), strict=True)
    return all([a is b or (a is not None and b is not None and a.layout == b.layout) for a, b in layout_key_pairs])


def is_same_source(source: Scalar | int, expected: Scalar | int) -> bool:
    """Return whether two operands of a step are the same: equal operand numbers, or scalars that are equal to the bit.

    `source` and `expected` are the operands. An integer and a float of the same value are equal where the dtype is a float: kernels receive
    both as a float.
    """
    if type(source) is not Scalar or type(expected) is not Scalar:
        return source == expected
    values = [float(x.value) if source.dtype.is_float and type(x.value) is int else x.value for x in (source, expected)]
    return source.dtype is expected.dtype and repr(values[0]) == repr(values[1])


class _SignatureCache(BoundedCache[SignatureTemplates]):
    """A bounded cache from signatures to size-generic templates."""

    __slots__ = ()

    def remove_entries(self) -> None:
        """Clear the cache, and the generated code's cache of recent signatures."""
        super().remove_entries()
        if upcalls.size_generic is not None:
            upcalls.size_generic.clear_signatures()


_templates_by_signature = register(
    "size-generic templates",
    "the templates for all sizes, by signature of calls or graphs",
    depends_on=RECORD_SOURCES,
)(_SignatureCache(MAX_SIGNATURES))
_templates_by_signature.record.feed(result_templates, node_launch_records)
