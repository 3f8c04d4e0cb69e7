"""Recording of writes over parts of storages: a write is done by a launch record, for exact or for symbolic sizes. A storage is the memory
cell that a tensor and its views share; a write such as `x[1:3] = y` goes over a view. A launch record is a packed description of a kernel
launch. It is stored in a `WriteTemplate` in the spec of the view: its shape, strides and dtype. The generated code of the fast path then
does later writes with equal specs.
"""

from __future__ import annotations

from _thread import get_ident  # `threading` provides the same function, but imports more
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from .._utils.records import NamedTuple
from ..dtypes import DType
from ..errors import EVALUATION_ERRORS, TenxorError
from ..graph.node import STORE, Node, Scalar, make_data_node
from ..graph.spec import FLOAT64_EXACT_LIMIT, MAX_INT64, Spec, WriteTemplate, intern_spec, record_template
from ..graph.storage import Storage
from ..layout import Layout
from ..layout.coords import Shape
from ..layout.queries import compute_offset_range
from ..memory.buffer import allocate
from ..ops import OPS
from ..runtime.plan_tracing import SymbolicSizes
from ..runtime.realize import realize
from ..tensor import Tensor
from ..tensor.indexing_methods import known_scalar
from ..tensor.write_methods import broadcast_layout
from .launch_records import NO_LAUNCH_RECORD, build_write_record, trace_write_record
from .limits import MAX_SMALL_BLOCK_BYTES
from .size_generic import SplitCall
from .sized_template import RESULT_RECORD, SizedTemplate
from .template_builder import is_transient

_retrying_threads: set[int] = set()  # ids of the threads inside `retry_in_fast_path`


def is_part_of_storage(x: Any, max_bytes: int = MAX_SMALL_BLOCK_BYTES) -> bool:
    """Return whether `x` is a tensor of at most `max_bytes` bytes, with fewer elements than its storage.

    Return False for known scalars (numbers without a node), and for leaves of derivatives.
    """
    return type(x) is Tensor and type(x.storage) is Storage and x.spec.nbytes <= max_bytes and x.spec.size < x.storage.node.size


def unwrap_scalar(x: Any, value: Any) -> Any:
    """Return `value`, to be written over a part of `x`, as a Python number if it is a known scalar of the dtype of `x`.

    Otherwise return `value` itself. A known scalar is a 0-d tensor of a Python number without a node.
    """
    number = known_scalar(value, x.dtype) if type(x) is Tensor else None
    return value if number is None else number


def wrap_fill(fallback: Callable[..., Any], write: Callable[[Tensor, Any, Any], object]) -> Callable[..., Any]:
    """Return a method `fill_` that writes a Python number by `write(x, ..., number)`, as in `x[...] = number`, and returns the tensor.

    For other arguments, or if `write` raises an error of the package, the method calls the fallback `fallback`.
    """

    def method(x: Tensor, *args: Any, **keywords: Any) -> Any:
        """Fill `x` with a Python number by the recorded write, or call the fallback `fill_`; return `x`."""
        if type(x) is Tensor and len(args) == 1 and type(args[0]) in (float, int, bool) and not keywords:
            with suppress(TenxorError):
                write(x, ..., args[0])
                return x
        return fallback(x, *args, **keywords)

    return method


def record_masked_write(x: Tensor, mask: Tensor, value: Any) -> None:
    """Record how `where(mask, value, x)` is written over `x`, without writing. `x[mask] = value` calls this function after the fallback.

    `value` is a Python number. Do nothing for another `value`, if `x` is not a part of its storage, or if the result of this `where` has
    not been recorded.
    """
    template = mask.spec.templates.get(OPS["where"], {}).get((type(value), x.spec)) if is_part_of_storage(x) else None
    if template is not None and template.recipe is not None:
        node = make_data_node(allocate(0), template.recipe.shape, template.spec.dtype)
        record_write(x, Tensor(Storage(node), template.spec.layout, template.spec.dtype))


def can_write(view: Tensor, value: Any) -> bool:
    """Return whether no two elements of `view` share memory, so that `value` may be written over the view.

    If no elements share memory, but the shape or dtype of `value` does not fit, raise the error of an assignment.
    """
    if not view.layout.is_injective():
        return False
    view._resolve_source(value, "assignment")
    return True


def may_overlap(written: Tensor, read: Tensor) -> bool:
    """Return whether two different views of a storage, `written` and `read`, may share memory: whether their ranges of offsets meet.

    Return False for equal views: each element is then read before it is overwritten. The generated code tests the same.
    """
    if (written.spec, written.offset) == (read.spec, read.offset):
        return False
    written_range, read_range = compute_offset_range(written.layout), compute_offset_range(read.layout)
    return written_range is None or read_range is None or not (written_range[1] < read_range[0] or read_range[1] < written_range[0])


def compute_if_small(storage: Storage) -> None:
    """Compute the content of `storage` if it is pending, small and not traced, so that writes over parts of the storage are done at once.

    An error in the computation is suppressed here, and raised when values are asked for.
    """
    node = storage.node
    if node.buffer is None and node.recipe.nbytes <= MAX_SMALL_BLOCK_BYTES and not node.is_traced:
        with suppress(*EVALUATION_ERRORS):  # reported when values are asked for
            realize(node)


def record_write(view: Tensor, value: Any, can_write: Callable[[], bool] = lambda: True) -> bool:
    """Record how to write a value like `value` over a view like `view`, without writing, or record that no launch record can do the write.

    Return whether the generated code may do the write now, by the new record. Return False, too, if a record existed, for a layout too
    large to cache, or within `retry_in_fast_path`. The record is for storages without other readers. `can_write` checks whether the value
    may be written over the view; if the check fails, nothing is recorded. The check is skipped if a size-generic template gives the record.
    """
    spec = view.spec
    key = value.spec if type(value) is Tensor else type(value)
    if key in spec.call_templates.get("write_part", ()) or is_transient(spec):
        return False
    write = WriteDescription.of(view, value)
    template = WriteTemplate(spec)
    if write is not None:
        split_call = SplitCall.of(
            "write_part", (view, value if type(value) is Tensor else key), further_shapes=(write.storage_shape, write.source.storage_shape)
        )
        instance = None if split_call is None else split_call.instantiate()
        if instance is None and not can_write():
            return False
        template = instance or write.build_template(spec)
        if split_call is not None and instance is None:
            split_call.trace_template(template, lambda: write.trace_sized_template(split_call.dims, template))
    elif not can_write():
        return False
    record_template(spec.call_templates, "write_part", key, template)
    return template.launch_record != NO_LAUNCH_RECORD and get_ident() not in _retrying_threads


def retry_in_fast_path(generated_method: Callable[..., Any], *arguments: Any) -> Any:
    """Return `generated_method(*arguments)`, the call of a generated method whose operation has just been recorded.

    If the generated method cannot do the work, it calls the fallback again. The fallback then must not record and retry, since records may
    have been dropped meanwhile.
    """
    thread_id = get_ident()
    try:
        _retrying_threads.add(thread_id)
        return generated_method(*arguments)
    finally:
        _retrying_threads.discard(thread_id)


class WriteSource(NamedTuple):
    """The value to write: a `number`, or, if `number` is None, a view through `layout` of a node of shape `storage_shape`.

    `dtype` is the dtype of the node; a number is converted to it.
    """

    number: float | int | None
    layout: Layout
    storage_shape: Shape
    dtype: DType


class WriteDescription(NamedTuple):
    """A write of `source` through `layout` into a node of shape `storage_shape` and `dtype`."""

    layout: Layout
    storage_shape: Shape
    dtype: DType
    source: WriteSource

    @classmethod
    def of(cls, view: Tensor, value: Any) -> WriteDescription | None:
        """Return the write of `value`, a tensor or a Python number, over `view`; None if no launch record can do the write.

        Return None for a view that is empty, has no strides, or has another dtype than its storage. Also return None for a tensor that is a
        known scalar or a leaf of derivatives. Return None for a bool, too, and for a number over another kind of dtype: floats are written
        over floats, ints over floats and integers.
        """
        spec, node, kind = view.spec, view.storage.node, type(value)
        if spec.strides is None or not spec.size or node.dtype is not spec.dtype or node.recipe.is_uncacheable:
            return None
        if kind is Tensor:
            if value.spec.strides is None or is_transient(value.spec) or type(value.storage) is not Storage:
                return None
            source_node = value.storage.node
            if source_node.dtype is not value.dtype:
                return None
            source = WriteSource(None, value.spec.layout, source_node.shape, value.dtype)
        elif (kind is float and spec.dtype.is_float) or (kind is int and (spec.dtype.is_integer or spec.dtype.is_float)):
            source = WriteSource(value, Layout.contiguous(()), (), spec.dtype)
        else:
            return None
        return cls(spec.layout, node.shape, spec.dtype, source)

    def build_store_node(self) -> tuple[Node, Node | Scalar]:
        """Return a pair: a store node like the node of the write, on nodes without memory, and the source with the value to write.

        The source, which the store node reads, is a node, or a `Scalar` for a number.
        """
        dtype, shape, (number, layout, source_shape, source_dtype) = self.dtype, self.layout.shape, self.source
        storage_node = make_data_node(allocate(0), self.storage_shape, dtype)
        source: Node | Scalar = Scalar(number, dtype) if number is not None else make_data_node(allocate(0), source_shape, source_dtype)
        operand_layout = broadcast_layout(layout, shape, "assignment") if number is None else None
        storage_layout = Layout.contiguous((storage_node.size,))
        return Node.of(STORE, (storage_node.size,), dtype, (storage_node, source), (storage_layout, operand_layout), self.layout), source

    def build_template(self, spec: Spec) -> WriteTemplate:
        """Return the template of the write, with its launch record. `spec` is the spec of the view written to.

        The record is empty if no record can do the write.
        """
        record, plan = build_write_record(*self.build_store_node())
        low, high = self._get_integer_bounds()
        return WriteTemplate(spec, record, plan, low, high)

    def _get_integer_bounds(self) -> tuple[int, int]:
        """Return the lowest and the highest integer accepted by the launch record, both included; (0, 0) if the value is not an integer."""
        if type(self.source.number) is not int:
            return 0, 0
        return (
            (int(self.dtype.lowest), min(int(self.dtype.highest), MAX_INT64))
            if self.dtype.is_integer
            else (-FLOAT64_EXACT_LIMIT, FLOAT64_EXACT_LIMIT)
        )

    def trace_sized_template(self, dims: Sequence[int], template: WriteTemplate) -> SizedTemplate | None:
        """Return the size-generic template of writes of this signature; None if one cannot be made.

        `dims` are the sizes to become symbolic, and `template` is the template for these sizes.
        """
        traced = SymbolicSizes(dims)
        number, layout, source_shape, dtype = self.source
        source = WriteSource(number, traced.symbolize_layout(layout), traced.symbolize_dims(source_shape), dtype)
        symbolic_write = WriteDescription(
            traced.symbolize_layout(self.layout), traced.symbolize_dims(self.storage_shape), self.dtype, source
        )
        if not symbolic_write.layout.is_injective():
            return None
        record = trace_write_record(*self.build_store_node(), symbolic_write.build_store_node()[0])
        return (
            None
            if record is None
            else SizedTemplate(
                traced.trace, WriteTemplate(intern_spec(symbolic_write.layout, self.dtype)), template, [(RESULT_RECORD, None, *record)]
            )
        )
