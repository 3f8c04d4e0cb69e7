"""Recording of calls that NumPy computed, as templates for direct calls. While the fast path records a call of a function, the package
reports each result that NumPy computed (`HostReport`). Often a C function of NumPy, or generated code, can compute the same directly on our
memory, without arrays: a direct call. This module turns a report into a result template (`ResultTemplate`) with a program
(`direct_call_programs.py`). The generated code runs the program at later calls with arguments of equal specs: equal shapes, strides and
dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from .._utils import upcalls
from .._utils.cache_registry import register
from .._utils.upcalls import get_size_generic_functions
from ..dtypes import DType, float32, float64, int64
from ..graph.node import DATA, intern_recipe
from ..graph.spec import DirectCallTemplate, InMemoryTemplate, NumpyCallTemplate, ResultTemplate, intern_spec
from ..layout import Layout
from ..layout.layout_key import layout_keys
from ..native.counting_ops import CountingOp
from ..native.direct_call import DirectCall
from ..native.ordering_ops import OrderingOp
from ..native.ufunc_loops import ByteLayout, UfuncLoop
from ..runtime.plan_tracing import SymbolicSizes
from ..tensor import Tensor
from .direct_call_programs import build_program, pack_program
from .host_reports import HostReport, collect_reports
from .size_generic import SplitCall, make_symbolic_argument, make_symbolic_arguments
from .sized_template import DIRECT_CALL_RECORD, SizedTemplate
from .template_builder import get_result_constructor, is_transient

MAX_SIZES_PER_DTYPE = 1 << 12  # templates per dtype for results with data-dependent sizes
_SCALAR_DTYPES = (float64, float32, int64)  # dtypes that the generated code reads scalar arguments in


def build_host_template(
    tensors: Sequence[Tensor], arguments: Sequence[Any], result: Any, report: HostReport
) -> NumpyCallTemplate | DirectCallTemplate | None:
    """Return the template of `result`, the result of a recorded function, if NumPy can compute it again; otherwise None.

    `report` says how NumPy computed the result. The template holds a direct call if possible, and otherwise a function of NumPy arrays.
    `arguments` are the arguments of the function after the first. `tensors` are the tensors among all arguments, each with a storage of its
    own. A function of arrays must read each tensor as a whole, and its arrays must be the results.
    """
    operands, results, compute, direct_call, _ = report
    if direct_call is not None:
        template = build_direct_template(direct_call, tensors, operands, results, result, get_scalars(arguments))
        if template is not None:
            return template
    if compute is None:
        return None
    result_tensors = result if isinstance(result, tuple) else (result,)
    operand_indices, result_indices = (
        [find_same_tensor(t, tensors) for t in operands],
        [find_same_tensor(t, results) for t in result_tensors],
    )
    if set(operand_indices) != set(range(len(tensors))) or result_indices != list(range(len(results))):
        return None  # the result may depend on the values of a tensor that NumPy did not receive
    shapes = [t.shape for t in operands]
    if operand_indices != list(range(len(tensors))) or shapes != [t.shape for t in tensors]:
        compute = reorder_arguments(compute, operand_indices, shapes)  # type: ignore[arg-type]
    element_templates = tuple([InMemoryTemplate(t.spec, t.storage.node.recipe) for t in result_tensors])
    return NumpyCallTemplate(tensors[0].spec, element_templates, get_result_constructor(result), compute)


def build_direct_template(
    direct_call: DirectCall,
    tensors: Sequence[Tensor],
    operands: Sequence[Tensor],
    results: Sequence[Tensor],
    result: Any,
    scalars: Sequence[Any] = (),
) -> DirectCallTemplate | None:
    """Return the result template for a direct call (of a C function on our memory); None if no direct call can compute the results.

    `direct_call` describes the computation of `results` from `operands`, as reported. `tensors` are the tensor arguments of the recorded
    call, and `result` is its result: None is returned unless `match_result_tensors` accepts it. A `CountingOp` must have results of one
    axis at offset 0. `scalars` are the scalar arguments of the call; the value searched for by `searchsorted` may be the only one of them.
    """
    result_tensors, location = match_result_tensors(result, results), locate_operands(direct_call, tensors, operands, scalars)
    if result_tensors is None or location is None:
        return None
    located_operands, number_dtype = location
    program = pack_program(
        direct_call,
        located_operands,
        [get_byte_layout(t) for t in results],
        count_real_floats(operands),
        [t.dtype.itemsize for t in results],
    )
    if program is None:
        return None
    if isinstance(direct_call, CountingOp):
        if any([t.ndim != 1 or t.offset for t in result_tensors]):
            return None
        templates_by_size = tuple([get_templates_by_size(t.dtype) for t in result_tensors])
        return DirectCallTemplate(tensors[0].spec, templates_by_size, get_result_constructor(result), program)
    element_templates = build_element_templates(result_tensors)
    return DirectCallTemplate(tensors[0].spec, element_templates, get_result_constructor(result), program, number_dtype)


def locate_operands(
    direct_call: DirectCall, tensors: Sequence[Tensor], operands: Sequence[Tensor], scalars: Sequence[Any] = ()
) -> tuple[list[tuple[int, int, ByteLayout]], DType | None] | None:
    """Return a list that says where each of `operands`, the operands of a direct call, is stored, and the dtype of the scalar argument; or
    None.

    `direct_call` describes the call, and `tensors` and `scalars` are the tensor and scalar arguments of the recorded function. Three items
    describe an operand: the index of the tensor argument with the same storage, the offset in bytes from the first element of this tensor,
    and the byte layout. A scalar argument has the index after the last tensor; without a scalar the dtype is None.

    Return None unless each operand belongs to exactly one tensor, and every tensor is read. A call that needs finite values must have a
    single contiguous operand.
    """
    read_tensors, located_operands, number_dtype = set[int](), list[tuple[int, int, ByteLayout]](), None
    has_scalar_operand = (
        isinstance(direct_call, OrderingOp)
        and direct_call.name == "searchsorted"
        and len(scalars) == 1
        and is_tensor_of_scalar(operands[-1], scalars[0])
    )
    for t in operands:
        if has_scalar_operand and t is operands[-1]:
            number_dtype = t.dtype
            located_operands.append((len(tensors), 0, ((), ())))
            continue
        tensor_indices = [k for k, x in enumerate(tensors) if x.storage is t.storage and x.dtype is t.dtype is x.storage.node.dtype]
        if len(tensor_indices) != 1 or t.spec.strides is None:
            return None
        read_tensors.add(tensor_indices[0])
        located_operands.append((tensor_indices[0], (t.offset - tensors[tensor_indices[0]].offset) * t.dtype.itemsize, get_byte_layout(t)))
    is_finite = isinstance(direct_call, UfuncLoop) and direct_call.needs_finite
    if read_tensors != set(range(len(tensors))) or (is_finite and not (operands[0].spec.is_contiguous and len(operands) == 1)):
        return None
    return located_operands, number_dtype


def count_real_floats(operands: Sequence[Tensor]) -> int:
    """Return the number of real floats in the first of `operands`: a complex element counts as two.

    Some direct calls test so many floats for infinities and NaN first.
    """
    return operands[0].size * (2 if operands[0].dtype.is_complex else 1)


def match_result_tensors(call_result: Any, results: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
    """Return `call_result`, the result of a recorded function, as a tuple of tensors if a replay can make it from `results`; else None.

    `results` are the tensors that NumPy computed, in the order in which the function reported them (`note_report`). `call_result` must be a
    tuple of as many tensors, or the single tensor. Tensor k must have the storage, the dtype and the number of elements of `results[k]`.
    Its layout must have strides, without offset tables, and must not be transient (`is_transient`).
    """
    result_tensors = call_result if isinstance(call_result, tuple) else (call_result,)
    if len(result_tensors) != len(results):
        return None
    for tensor, result in zip(result_tensors, results, strict=True):
        if type(tensor) is not Tensor or tensor.storage is not result.storage or tensor.dtype is not result.dtype:
            return None
        if tensor.spec.strides is None or is_transient(tensor.spec) or tensor.spec.size != result.spec.size:
            return None
    return result_tensors


def build_element_templates(tensors: Sequence[Tensor]) -> tuple[InMemoryTemplate, ...]:
    """Return a result template for each of `tensors`, as a tuple.

    A replay makes a tensor of the same spec in new memory, at the same offset from the start of the memory.
    """
    return tuple([InMemoryTemplate(t.spec, t.storage.node.recipe, t.offset) for t in tensors])


class TemplatesBySize(dict[int, InMemoryTemplate]):
    """A cache of result templates for contiguous one-dimensional tensors of `dtype` in memory, by element count.

    The generated code looks up the template after it has counted the elements of a result.
    """

    def __init__(self, dtype: DType) -> None:
        super().__init__()
        self.dtype = dtype

    def __missing__(self, size: int) -> InMemoryTemplate:
        """Create, store and return the template for `size` elements; if the cache is full, clear it first."""
        if len(self) >= MAX_SIZES_PER_DTYPE:
            self.clear()
        template = InMemoryTemplate(intern_spec(Layout.contiguous((size,)), self.dtype), intern_recipe(DATA, (size,), self.dtype))
        return self.setdefault(size, template)


@register("templates by size", "the result templates for one-dimensional results, by dtype", depends_on=(layout_keys,))
@cache
def get_templates_by_size(dtype: DType) -> TemplatesBySize:
    """Return the cache of templates for one-dimensional tensors of `dtype`: the same object at each call."""
    return TemplatesBySize(dtype)


def is_tensor_of_scalar(tensor: Tensor, scalar: Any) -> bool:
    """Return whether `tensor` is a 0-d tensor with the value of the Python scalar `scalar`. A pending tensor is computed for this.

    The dtype must be one that generated code reads scalars in, and `tensor` must not be on the autograd tape.
    """
    if tensor.shape or tensor.dtype not in _SCALAR_DTYPES or tensor.node.tape_node is not None:
        return False
    try:
        return bool(tensor.item() == tensor.dtype.numpy.type(scalar))
    except OverflowError:  # the dtype cannot represent the value
        return False


def get_byte_layout(tensor: Tensor) -> ByteLayout:
    """Return the byte layout of `tensor`: a pair of its shape, and its strides in bytes. The layout must have strides."""
    return tensor.shape, tuple([s * tensor.dtype.itemsize for s in tensor.layout.strides])


def reorder_arguments(compute: Callable[..., Any], array_indices: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> Callable[..., Any]:
    """Return a function that calls `compute`, a function of NumPy arrays, with its arrays reordered and reshaped.

    Argument k of `compute` is array `array_indices[k]` of the new function's arguments, reshaped to `shapes[k]`.
    """
    return lambda *arrays: compute(*[arrays[k].reshape(shape) for k, shape in zip(array_indices, shapes, strict=True)])


def find_same_tensor(x: Any, tensors: Sequence[Tensor]) -> int | None:
    """Return the index of the only tensor in `tensors` with the same elements in memory as `x`, in the same order.

    Return None if no tensor, or more than one, fits, or if `x` is not contiguous.
    """
    if type(x) is not Tensor or not x.spec.is_contiguous:
        return None
    indices = [
        k
        for k, t in enumerate(tensors)
        if t.storage is x.storage and t.dtype is x.dtype and t.offset == x.offset and t.spec.is_contiguous and t.spec.size == x.spec.size
    ]
    return indices[0] if len(indices) == 1 else None


def get_scalars(arguments: Sequence[Any]) -> list[Any]:
    """Return the Python floats and integers among the arguments `arguments`, in order and without booleans."""
    return [x for x in arguments if type(x) in (float, int)]


def build_template_key(key: tuple[Any, ...], arguments: Sequence[Any], template: ResultTemplate) -> tuple[Any, ...]:
    """Return the cache key for a result template, with the scalar argument replaced by its type if the template fits every scalar.

    `key` is the key with the scalar itself: one item for each of `arguments`, the arguments after the first, and maybe more. The
    template fits every scalar if it is a `DirectCallTemplate` with a `number_dtype`.
    """
    if type(template) is not DirectCallTemplate or template.number_dtype is None:
        return key
    (scalar_index,) = [k for k, x in enumerate(arguments) if type(x) in (float, int)]
    return (*key[:scalar_index], type(arguments[scalar_index]), *key[scalar_index + 1 :])


def build_announced_template(
    announcement: HostReport, name: str, arguments: Sequence[Any], keyword_names: tuple[str, ...], result: Any
) -> DirectCallTemplate | None:
    """Return the template of `result`, the result of the function `name`, which announced a direct call; None if no direct call can compute
    it.

    A function announces with `report_direct_call` (`api/host_calls.py`) how the generated code can compute its result. `announcement` is
    this report. `arguments` are the arguments of the function, the last of them by the keywords `keyword_names`. After a few calls of one
    signature, also trace a size-generic template, but only for a counting operation (`CountingOp`). Trace nothing with an integer argument,
    which may be a size.
    """
    tensors = [t for t in arguments if type(t) is Tensor]
    operands, results, _, direct_call, make_direct_call = announcement
    if direct_call is None:
        return None
    template = build_direct_template(direct_call, tensors, operands, results, result, get_scalars(arguments[1:]))
    if template is None or make_direct_call is None or not isinstance(direct_call, CountingOp):
        return template
    if int not in map(type, arguments):  # an integer argument may be a size
        split_call = SplitCall.of(name, arguments, keyword_names)
        if split_call is not None:
            split_call.trace_template(
                template, partial(_trace_announced_call, template, split_call.dims, tensors, operands, make_direct_call)
            )
    return template


def _trace_announced_call(
    template: DirectCallTemplate,
    numbers: Sequence[int],
    tensors: Sequence[Tensor],
    operands: Sequence[Tensor],
    make_direct_call: Callable[..., DirectCall | None],
) -> SizedTemplate | None:
    """Return the size-generic template of an announced direct call; None if the call is not size-generic.

    `template` is the template for these operands, and `numbers` are the sizes to become symbolic. `tensors` are the tensor arguments of the
    call, and `operands` the tensors that the direct call reads; each operand must be one of `tensors`, read as it is. `make_direct_call`
    returns the description of the direct call for symbolic operands, or None.
    """
    traced = SymbolicSizes(numbers)
    placeholders, operand_placeholders = [make_symbolic_argument(traced, t) for t in tensors], list[Tensor]()
    for t in operands:
        operand_placeholders += [
            s for x, s in zip(tensors, placeholders, strict=True) if (x.storage, x.spec, x.offset) == (t.storage, t.spec, t.offset)
        ]
    direct_call = make_direct_call(*operand_placeholders) if len(operand_placeholders) == len(operands) else None
    location = None if direct_call is None else locate_operands(direct_call, placeholders, operand_placeholders)
    words = (
        None
        if direct_call is None or location is None
        else build_program(direct_call, location[0], (), count_real_floats(operand_placeholders))
    )
    return (
        None
        if words is None
        else SizedTemplate(
            traced.trace,
            DirectCallTemplate(placeholders[0].spec, template.element_templates),
            template,
            [(DIRECT_CALL_RECORD, None, words, None)],
        )
    )


def trace_host_call(
    template: DirectCallTemplate, numbers: Sequence[int], fallback: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any]
) -> SizedTemplate | None:
    """Return the size-generic template of a direct call; None if the call is not size-generic.

    `template` is the template for the concrete sizes, and `numbers` are the sizes to become symbolic. The fallback `fallback` runs once
    with tensors of symbolic sizes in place of `args` and `keywords`. It computes nothing, and reports how it would call NumPy.
    """
    traced, observer = SymbolicSizes(numbers), upcalls.host_call_observer
    placeholders, keyword_placeholders, tensors = make_symbolic_arguments(traced, args, keywords)
    with get_size_generic_functions().disable_fast_path(), collect_reports() as reports:
        try:
            upcalls.host_call_observer = observer
            result = fallback(*placeholders, **keyword_placeholders)
        finally:
            upcalls.host_call_observer = None
    direct_call = reports[0].direct_call if len(reports) == 1 else None
    if direct_call is None:
        return None
    operands, results, *_ = reports[0]
    result_tensors, location = match_result_tensors(result, results), locate_operands(direct_call, tensors, operands)
    words = (
        None
        if location is None
        else build_program(direct_call, location[0], [get_byte_layout(t) for t in results], count_real_floats(operands))
    )
    if result_tensors is None or words is None:
        return None
    return SizedTemplate(
        traced.trace,
        DirectCallTemplate(tensors[0].spec, build_element_templates(result_tensors)),
        template,
        [(DIRECT_CALL_RECORD, None, words, None)],
    )
