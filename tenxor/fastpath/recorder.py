"""Recording of calls: the result of a method in Python is stored as a template, so that the generated code can replay the call. The
fallback is the original method in Python. A template (`ResultTemplate`) says how to make the result for arguments of equal specs: equal
shapes, strides and dtypes. It is stored in the spec of the first tensor argument, under the method's name and a key of the other arguments.
A signature is a call without its sizes; a size-generic template serves all sizes of a signature that satisfy its guards.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from inspect import unwrap
from typing import Any

from .._utils.aliases import get_parameter_names
from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import register
from .._utils.lazy import LazyModule
from ..autodiff.tape import clone_unshared
from ..dtypes import NUMBER_TYPES, DType
from ..errors import EVALUATION_ERRORS, TenxorError
from ..graph.node import MAX_PENDING_NODES, UNFINISHED, Node, is_externally_shared, make_data_node, next_serial, tape_mode
from ..graph.spec import (
    DirectCallTemplate,
    NumpyCallTemplate,
    ResultTemplate,
    StepsTemplate,
    get_constant_spec,
    locate_template,
    record_template,
)
from ..graph.storage import ScalarStorage, Storage
from ..ops import Op
from ..runtime.call_recording import open_context_count, recording_call
from ..runtime.pending_limits import cap_graph_size, count_pending
from ..runtime.realize import realize
from ..symbolic.symint import IntOrSymInt
from ..tensor import Tensor
from ..tensor.argument_parsing import NamedDefault
from ..tensor.conversion_methods import is_numpy_value
from . import update_recipes
from .host_reports import HostReport, collect_reports
from .limits import MAX_SMALL_BLOCK_BYTES, MAX_TUPLE_DEPTH, RECORDED_BIT, TRACED_BIT
from .size_generic import SplitCall, can_get_symbolic_sizes, is_known_scalar
from .template_builder import build_steps_template, build_tuple_template, build_view_template, is_transient
from .write_recorder import compute_if_small, is_part_of_storage, record_write, retry_in_fast_path

host_call_recorder = LazyModule("tenxor.fastpath.host_call_recorder")  # imported with the first report of NumPy
MAX_OPERAND_NODES = MAX_PENDING_NODES - 24  # pending nodes of an operand that leave room for those of a recorded call
MAX_FLOAT_CALLS = 64  # recorded calls of a method with float arguments: more floats are data, not constants
_first_dims: BoundedCache[tuple[int, ...]] = register(
    "first calls", "the dims of the first call with floats, which is not recorded, by call signature"
)(BoundedCache(1 << 10))
TRUE_KEY, FALSE_KEY = object(), object()  # stand for booleans in keys, where True would equal 1
TAPE_MASK_MARKER = object()  # in keys: the next item is a bit mask of the arguments that derivatives follow
_SELF_KEYED_TYPES = frozenset((int, str, type, DType, type(None)))


def wrap_recording(
    name: str,
    fallback: Callable[..., Any],
    describe_call: Callable[..., Sequence[IntOrSymInt] | None] | None = None,
    generated_method: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Return a method that calls the fallback `fallback`, returns its result, and records the result under `name` for replay.

    A new call is recorded for exact sizes. After a few calls of one signature, a size-generic template is traced too. Nothing is recorded
    for transient layouts and calls with an `out` argument. Calls with floats are not recorded beyond `MAX_FLOAT_CALLS` records.

    `describe_call`, if given, takes the same arguments and returns integers to store with the template for the generated code, or None to
    prevent recording. `generated_method` is the generated method of this name, or None. The method calls `generated_method` instead of the
    fallback if the generated code has declined a recorded call because of long pending graphs. The method computes these graphs first.
    """

    def method(*args: Any, **keywords: Any) -> Any:
        """Call the fallback, and record the result if the call is new, as `wrap_recording` says."""
        x, *arguments = (*args, *keywords.values())
        key = _build_call_key(x, arguments, keywords) if type(x) is Tensor else None
        templates = () if key is None else x.spec.call_templates.get(name, ())
        if key is None or key in templates:
            if not open_context_count.value and _compute_long_graphs((x, *arguments)) and generated_method is not None:
                return generated_method(*args, **keywords)
            return fallback(*args, **keywords)
        if (
            is_transient(x.spec)
            or _has_out_argument(fallback, args, keywords)
            or (len(templates) > MAX_FLOAT_CALLS and float in map(type, arguments))
        ):
            return fallback(*args, **keywords)
        words = () if describe_call is None else describe_call(*args, **keywords)
        if words is None:
            return fallback(*args, **keywords)
        with recording_call():
            first_node_number = next_serial()
            with collect_reports() as reports:
                result = fallback(*args, **keywords)
            host_template = _build_host_template(fallback, args, keywords, result, reports)
            if host_template is not None:
                record_template(
                    x.spec.call_templates, name, host_call_recorder.build_template_key(key, arguments, host_template), host_template
                )
                if type(host_template) is DirectCallTemplate and host_template.number_dtype is None and TAPE_MASK_MARKER not in key:
                    _trace_host_call_if_due(host_template, SplitCall.of(name, (x, *arguments), tuple(keywords)), fallback, args, keywords)
                return result
            if type(result) is Tensor:
                record_call(name, key, args, keywords, result, fallback, first_node_number, struct.pack(f"={len(words)}q", *words))
            elif isinstance(result, tuple):
                results = result
                if any(map(_is_small_shared, (x, *arguments))):
                    _, results, first_node_number = _call_unshared(fallback, args, keywords)
                record_template(x.spec.call_templates, name, key, build_tuple_template(x, args, keywords, results, first_node_number))
            tape_mask = _get_tape_mask(key)
            split_call = None if tape_mask & TRACED_BIT else SplitCall.of(name, (x, *arguments), tuple(keywords), tape_mask=tape_mask)
            if split_call is not None:
                split_call.trace_call(x.spec.call_templates.get(name, {}).get(key), fallback, args, keywords, describe_call)
        if not open_context_count.value:
            _cut_long_results(result, (x, *arguments))
        return result

    return method


def _cut_long_results(result: Any, arguments: Sequence[Any]) -> None:
    """Compute a part of the graph of `result`, the result of a call recorded now, if its pending graph has more than `MAX_PENDING_NODES`
    nodes.

    First compute the tensors of `arguments` with long pending graphs, as a replay of the call would do. If the graph of `result` is then
    still too long, shorten it (`cap_graph_size`). So the call and a replay leave equal graphs, and share plans.
    """
    results = _list_pending_nodes(result if isinstance(result, tuple) else (result,))
    if any([node.graph_node_count > MAX_PENDING_NODES and count_pending(node) > MAX_PENDING_NODES for node in results]):
        _compute_long_graphs(arguments)
        for node in results:
            if node.buffer is None and count_pending(node) > MAX_PENDING_NODES:
                cap_graph_size(node)


def _compute_long_graphs(arguments: Sequence[Any]) -> bool:
    """Compute the tensors of `arguments` with long pending graphs. Return whether the generated code can make the result now.

    The recording methods call this function for a call that is recorded already, but was declined. The generated code makes no graph of
    more than `MAX_PENDING_NODES` nodes, and the fallback would make the nodes one by one. If one of the long graphs has a large result,
    larger than every operand, nothing is computed and False is returned. Nothing is computed either, and True is returned, if an exact
    count shows that the graphs are short enough. Without long graphs, return False.
    """
    nodes = _list_pending_nodes(arguments)
    is_full = any([node.graph_node_count > MAX_OPERAND_NODES for node in nodes])
    counts = {node: count_pending(node) for node in nodes if node.graph_node_count > MAX_PENDING_NODES // 2}
    if is_full and max(counts.values()) <= MAX_OPERAND_NODES:
        return True
    long_nodes = [node for node, count in counts.items() if count > MAX_PENDING_NODES // 2]
    are_small = all([node.recipe.nbytes <= max(node.max_operand_nbytes, MAX_SMALL_BLOCK_BYTES) for node in long_nodes])
    return bool(long_nodes) and are_small and all([compute_if_possible(node) for node in long_nodes])


def _list_pending_nodes(arguments: Sequence[Any]) -> list[Node]:
    """Return the pending nodes of the tensors in `arguments`, without nodes that depend on an argument of a traced function, and without
    leaves of derivatives.
    """
    nodes = [x.storage.node for x in arguments if type(x) is Tensor and type(x.storage) is Storage]
    return [node for node in nodes if node.buffer is None and not node.is_traced]


def wrap_announcing(name: str, fallback: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that calls the fallback `fallback`, returns its result, and records under `name` how generated code can compute the
    result.

    The result size of `fallback` may depend on values, so no template can describe the result. Instead `fallback` announces a direct call
    with `report_direct_call` (`api/host_calls.py`). A call without exactly one announcement is recorded as impossible to replay. Calls with
    an `out` argument are not recorded.
    """

    def method(*args: Any, **keywords: Any) -> Any:
        """Call the fallback, and record the direct call that it announces, as `wrap_announcing` says."""
        x, *arguments = (*args, *keywords.values())
        key = _build_call_key(x, arguments, keywords) if type(x) is Tensor else None
        if key is None or key in x.spec.call_templates.get(name, ()) or is_transient(x.spec) or _has_out_argument(fallback, args, keywords):
            return fallback(*args, **keywords)
        with collect_reports() as reports:
            result = fallback(*args, **keywords)
        tensors = [t for t in (x, *arguments) if type(t) is Tensor]
        announcements = [report for report in reports if report.compute is None and report.direct_call is not None]
        template = None
        if len(announcements) == 1 and not has_shared_storage(tensors):
            template = host_call_recorder.build_announced_template(announcements[0], name, (x, *arguments), tuple(keywords), result)
        if template is not None:
            key = host_call_recorder.build_template_key(key, arguments, template)
        record_template(x.spec.call_templates, name, key, template)
        return result

    return method


def _has_out_argument(fallback: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any]) -> bool:
    """Return whether the call `fallback(*args, **keywords)` has an `out` argument other than None, by name or by position.

    Such a call writes into another tensor, and is not replayed.
    """
    if keywords.get("out") is not None:
        return True
    positional_names = _get_positional_names(fallback)[: len(args)]
    return "out" in positional_names and args[positional_names.index("out")] is not None


@register("names of parameters", "the parameters of a function that the fast path records, by function")
@lru_cache(maxsize=1024)
def _get_positional_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the positional parameters of `function`, with decorators unwrapped."""
    return get_parameter_names(unwrap(function)).positional_names


def _build_host_template(
    fallback: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any], result: Any, reports: Sequence[HostReport]
) -> NumpyCallTemplate | DirectCallTemplate | None:
    """Return the template of `result`, the result of `fallback(*args, **keywords)`, if NumPy computed it; else None.

    `reports` has the reports of computations by NumPy during the call; there must be one. If arguments share a storage, the call is
    repeated with a storage for each, since a report does not tell the arguments apart.
    """
    tensors = [t for t in (*args, *keywords.values()) if type(t) is Tensor]
    if len(reports) == 1 and has_shared_storage(tensors):
        with collect_reports() as reports:
            tensors, result, _ = _call_unshared(fallback, args, keywords)
    if len(reports) != 1:  # an inner function may be replayed by now, and generated code sends no reports
        return None
    template: NumpyCallTemplate | DirectCallTemplate | None
    template = host_call_recorder.build_host_template(tensors, (*args[1:], *keywords.values()), result, reports[0])
    return template


def _trace_host_call_if_due(
    template: DirectCallTemplate, split_call: SplitCall | None, fallback: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any]
) -> None:
    """Trace the size-generic template of a direct call after a few calls of one signature; do nothing if `split_call` is None.

    `template` is the template for these sizes, `split_call` the signature of the call, and `fallback` the fallback, called with
    `args` and `keywords`.
    """
    if split_call is not None:
        split_call.trace_template(template, lambda: host_call_recorder.trace_host_call(template, split_call.dims, fallback, args, keywords))


def _build_call_key(x: Tensor, arguments: Sequence[Any], keywords: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return the cache key of `arguments`, the arguments of a call after its first argument, the tensor `x`; None if no key can hold one.

    `arguments` ends with the values of the keyword arguments `keywords`; a tuple of their names follows in the key. If a tape is recorded
    with an argument on it, the key ends with `TAPE_MASK_MARKER` and a bit mask of such arguments (bit 0: `x`), since the method may then
    make different nodes. With a traced argument the key ends likewise: the mask then has `TRACED_BIT`, and `RECORDED_BIT` if a tape is
    recorded.
    """
    keys = build_keys(arguments)
    if keys is None:
        return None
    tape_bits = sum([1 << k for k, t in enumerate((x, *arguments)) if _is_on_tape(t)])
    is_recording = tape_mode.get() is True
    if tape_bits and any([_is_on_tape(t) and t.storage.node.is_traced for t in (x, *arguments)]):
        tape_bits |= TRACED_BIT | RECORDED_BIT * is_recording
    elif not is_recording:
        tape_bits = 0
    return (*keys, *[tuple(keywords)] * bool(keywords), *[TAPE_MASK_MARKER, tape_bits] * bool(tape_bits))


def _get_tape_mask(key: tuple[Any, ...]) -> int:
    """Return the bit mask, stored in the cache key `key`, of the arguments on the autograd tape (bit k: argument k); 0 without any. The
    mask may also have `TRACED_BIT` and `RECORDED_BIT` (`_build_call_key`).
    """
    return int(key[-1]) if TAPE_MASK_MARKER in key else 0


def _is_on_tape(x: Any) -> bool:
    """Return whether the argument `x` is a tensor on the autograd tape, so that derivatives follow it.

    The test makes no node for a known scalar, a 0-d tensor of a Python number.
    """
    return type(x) is Tensor and x._is_on_tape()


def build_creation_key(name: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Return the cache key of a call that makes a tensor, such as `zeros(3)`: the name, the keys of the arguments, and the keywords' names.

    `name` names the function, called as `name(*args, **keywords)`. Return None if an argument is a tensor, or if no key can hold it. The
    creation functions call this function (`tensor/creation_cache.py`).
    """
    arguments = (*args, *keywords.values())
    keys = None if any([isinstance(x, Tensor) for x in arguments]) else build_keys(arguments)
    return keys if keys is None else (name, *keys, tuple(keywords)) if keywords else (name, *keys)


def is_worth_recording(name: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Return whether the call `name(*args, **keywords)`, without tensor arguments, is worth recording.

    The creation functions ask before they run a call without a record. Each call may bring new floats. So a call with floats is recorded
    from the second call of its signature on, and this function notes the first. A call without floats, or without a signature, is always
    recorded. If the signature can have no size-generic template, only a repetition with the very same numbers is recorded.
    """
    arguments = (*args, *keywords.values())
    split_call = SplitCall.of(name, arguments, tuple(keywords)) if float in map(type, arguments) else None
    if split_call is None:
        return True
    key = split_call.signature if split_call.can_have_templates() else (split_call.signature, split_call.dims)
    is_known = key in _first_dims
    if not is_known:
        _first_dims.put(key, split_call.dims)
    return is_known


def trace_creation(
    name: str, template: StepsTemplate, fallback: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]
) -> None:
    """Trace a size-generic template for the creation function `name`, called with `args` and `keywords`, if it is time
    (`SplitCall.trace_if_due`).

    Do nothing if this call has the same numbers as the first call of its signature. `template` is the template recorded for this call, and
    `fallback` is the fallback.
    """
    split_call = SplitCall.of(name, (*args, *keywords.values()), tuple(keywords))
    if split_call is not None and _first_dims.get(split_call.signature) != split_call.dims:
        split_call.trace_call(template, fallback, args, keywords)


def build_keys(arguments: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the cache keys of `arguments` as a tuple (`build_key`); None if no key can hold one of them."""
    keys = tuple([build_key(x) for x in arguments])
    return None if any([k is None and x is not None for k, x in zip(keys, arguments, strict=True)]) else keys


def _is_small_shared(x: Any) -> bool:
    """Return whether `x`, an argument of a recorded call, is a tensor in externally shared memory, which other libraries may write, of at
    most `MAX_SMALL_BLOCK_BYTES` bytes in all.

    The call is then recorded with a copy of the tensor (`_unshare_arguments`).
    """
    return (
        type(x) is Tensor
        and type(x.storage) is not ScalarStorage
        and is_externally_shared(x.storage.node)
        and x.storage.node.recipe.nbytes <= MAX_SMALL_BLOCK_BYTES
    )


def _call_unshared(fallback: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any]) -> tuple[list[Tensor], Any, int]:
    """Call `fallback(*args, **keywords)` with separate storages, so that no two tensor arguments share a storage (see
    `_unshare_arguments`).

    Return a triple: the tensors among the new arguments, the result, and the serial number of the next node before the call. Every node
    made by the call has this number or a larger one.
    """
    arguments, first_node_number = _unshare_arguments((*args, *keywords.values())), next_serial()
    result = fallback(*arguments[: len(args)], **dict(zip(keywords, arguments[len(args) :], strict=True)))
    return [t for t in arguments if type(t) is Tensor], result, first_node_number


def _unshare_arguments(arguments: Sequence[Any]) -> list[Any]:
    """Return `arguments` with tensors in separate storages: new ones for shared storages, and for small externally shared memory.

    Contents are copied only from externally shared memory: a result computed from that memory is computed at once, so it would have no
    recipe.
    """
    unshared, storage_ids = [], set[int]()
    for x in arguments:
        if type(x) is Tensor and (id(x.storage) in storage_ids or _is_small_shared(x)):
            node = x.storage.node
            new_node = Node(node.recipe, node.sources, node.offsets)
            if node.buffer is not None:  # read last, since another thread may compute the node at any time
                new_node = clone_unshared(node) if node.buffer.externally_shared else make_data_node(node.buffer, node.shape, node.dtype)
            new_node.tape_node = node.tape_node
            x = Tensor(Storage(new_node), x.layout, x.dtype)
        if type(x) is Tensor:
            storage_ids.add(id(x.storage))
        unshared.append(x)
    return unshared


def has_shared_storage(tensors: Sequence[Tensor]) -> bool:
    """Return whether two of `tensors`, arguments of a call, share a storage. Then a report does not tell from which argument an operand
    comes.
    """
    return len({id(t.storage) for t in tensors}) < len(tensors)


def record_call(
    name: str,
    key: tuple[Any, ...],
    args: Sequence[Any],
    keywords: dict[str, Any],
    result: Tensor,
    fallback: Callable[..., Any],
    first_node_number: int,
    packed_words: bytes = b"",
) -> None:
    """Record `result`, the result of the fallback `fallback(*args, **keywords)`, or record that the call cannot be replayed.

    The first argument is a tensor, and the record is stored in its spec, under `name` and `key`. `first_node_number` is the number of the
    next node before the call: nodes with this number or a larger one may be part of the result. `packed_words` holds packed integers to
    store with the template.

    If arguments share a storage, or lie in small externally shared memory, the call is repeated with a separate storage for each. Nothing
    is recorded if the computation of one of them was interrupted (`UNFINISHED`).
    """
    tensors = [t for t in (*args, *keywords.values()) if type(t) is Tensor]
    if has_shared_storage(tensors) or any(map(_is_small_shared, tensors)):
        if any([t.storage.node.op is UNFINISHED for t in tensors]):
            return
        tensors, result, first_node_number = _call_unshared(fallback, args, keywords)
    template: ResultTemplate | None = build_view_template(tensors[0], result) if len(tensors) == 1 else None
    if template is None:
        template = build_steps_template(tensors, result, first_node_number)
    if template is not None:
        template.launch_record = packed_words
    record_template(args[0].spec.call_templates, name, key, template)


def build_key(x: object) -> object:
    """Return the cache key of the argument `x`; None for an argument that no key can hold, and for None itself.

    The key of a tensor is its spec. Equal values that are different arguments get different keys: 1, True and 1.0, or zeros of both signs.
    No key can hold other objects than numbers, strings, types, dtypes, named defaults, and tuples of integers.
    """
    if type(x) is Tensor:
        return x.spec
    if type(x) is bool:
        return TRUE_KEY if x else FALSE_KEY
    if type(x) is float:
        return struct.pack("=d", x)  # equal floats may be zeros of different signs, or equal an int
    if type(x) is NamedDefault:
        return NamedDefault  # the default of an argument, which is not the same as the number itself
    if type(x) is tuple:
        return x if _is_integer_tuple(x) else None
    return x if type(x) in _SELF_KEYED_TYPES else None


def _is_integer_tuple(x: tuple[Any, ...], depth: int = 0) -> bool:
    """Return whether the tuple `x` consists of integers, or of nested tuples of integers, with at most `MAX_TUPLE_DEPTH` levels of tuples
    in all.

    `depth` is the depth of `x` in the outermost tuple, from 0.
    """
    nested = [k for k in x if type(k) is not int]
    return depth < MAX_TUPLE_DEPTH and all([type(k) is tuple and _is_integer_tuple(k, depth + 1) for k in nested])


def wrap_operation(op: Op, fallback: Callable[..., Any], comes_last: bool = False) -> Callable[..., Any]:
    """Return a method that applies `op` by the fallback `fallback`, and traces a size-generic template after a few calls of one signature.

    If `comes_last`, the tensor is the last operand, as in `__radd__`. `fallback` records the result for concrete sizes by itself.
    """

    def method(*args: Any) -> Any:
        """Apply the operation to the operands `args`, the tensor first, and trace a template if due."""
        return _apply_and_trace(op, args[::-1] if comes_last else args, fallback, args)

    return method


def wrap_any_operation(fallback: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method `(x, op, *operands)` that calls the fallback `fallback`, and traces a size-generic template after a few calls.

    `fallback` applies the operation `op` to the operands, and records the result for concrete sizes by itself.
    """

    def method(x: Any, op: Op, *operands: Any) -> Any:
        """Apply `op` to `x` and the further operands, and trace a template if due."""
        return _apply_and_trace(op, (x, *operands), fallback, (x, op, *operands))

    return method


def _apply_and_trace(op: Op, operands: Sequence[Any], fallback: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Return the result of `op` on `operands`. Trace a size-generic template after `CALLS_BEFORE_TRACING` calls of one signature.

    `fallback(*args)` computes the result and records it for these exact sizes. `args` are the operands in the order that `fallback` takes
    them, possibly with further arguments. With a NumPy array or scalar among the operands, each becomes a tensor, and the operation goes to
    the fast path again instead. Nothing is traced if the result is recorded already, without a tensor among the operands, or for operands
    other than tensors, floats and integers.
    """
    signature_arguments, keys = list[object](), list[object]()
    for x in operands:
        kind = type(x)
        if is_numpy_value(x):
            tensor, *other_operands = map(Tensor._from_array_or_same, operands)
            return tensor._apply(op, *other_operands)
        if kind is not Tensor and kind not in NUMBER_TYPES:
            return fallback(*args)
        keys.append(_build_operand_key(x))
        signature_arguments.append(kind if kind is not Tensor else x if x.ndim or can_get_symbolic_sizes(x) else x.dtype)
    if Tensor not in map(type, signature_arguments):
        return fallback(*args)
    table, outer_key, inner_key = locate_template(op, keys)
    if inner_key in table.get(outer_key, ()):
        return fallback(*args)
    result = fallback(*args)
    split_call = SplitCall.of(op, signature_arguments)
    if split_call is not None:
        split_call.trace_operation(table.get(outer_key, {}).get(inner_key), fallback, args)
    return result


def _build_operand_key(x: Any) -> object:
    """Return the key of the operand `x` in the caches of templates: the type of a Python number, or the spec of a tensor.

    For a tensor that is a known scalar, the key is the constant spec (`get_constant_spec`).
    """
    if type(x) is not Tensor:
        return type(x)
    return get_constant_spec(x.spec) if is_known_scalar(x) else x.spec


def wrap_in_place(op: Op, fallback: Callable[[Any, Any], Any], generated_method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return an in-place operator, such as `x += y`, by the fallback `fallback`, or by the generated code once the write is recorded.

    If `x` is a part of a storage, up to `update_recipes.MAX_UPDATE_BYTES` bytes, record how a result of `op` is written over the part. Then
    call `generated_method`, the generated method of the same operator, which does the write. In any other case call `fallback`. A NumPy
    operand becomes a tensor first.
    """

    def method(x: Any, y: Any) -> Any:
        """Write the result of the operation on `x` and `y` over `x`, and return the result of the operator, as `wrap_in_place` says."""
        if is_numpy_value(y):
            return generated_method(x, Tensor._from_array(y))
        if is_part_of_storage(x, update_recipes.MAX_UPDATE_BYTES):
            compute_if_small(x.storage)
            if type(y) in (Tensor, float, int) and _can_record_in_place(op, x, y) and _record_in_place(op, x, y):
                return retry_in_fast_path(generated_method, x, y)
        return fallback(x, y)

    return method


def _record_in_place(op: Op, x: Tensor, y: Any) -> bool:
    """Prepare generated code to write `op(x, y)` over `x`, without writing. Return whether generated code can now try the write.

    For a part of up to `MAX_SMALL_BLOCK_BYTES` bytes, record the write. A larger part needs no record: generated code writes it as an
    update in one kernel. Return False if `op(x, y)` raises an error, or has another shape or dtype than `x`, or if no write was recorded.
    """
    try:
        result = _apply_and_trace(op, (x, y), partial(Tensor._compute, op), (x, y))
    except TenxorError:  # raised by the fallback, with a better message
        return False
    return result.shape == x.shape and result.dtype is x.dtype and (x.spec.nbytes > MAX_SMALL_BLOCK_BYTES or record_write(x, result))


def _can_record_in_place(op: Op, x: Tensor, y: Any) -> bool:
    """Return whether generated code may write `op(x, y)` over `x`, and no such write was recorded before, not even as impossible.

    For a write already recorded as impossible, a new attempt would cost as much as the operation. A part of more than
    `MAX_SMALL_BLOCK_BYTES` bytes counts as recorded as soon as the result of `op` is: generated code then finds the update by itself.
    """
    node = x.storage.node
    if is_externally_shared(node) or node.tape_node is not None or not x.layout.is_injective():
        return False
    template = x.spec.templates.get(op, {}).get(_build_operand_key(y))
    return template is None or (x.spec.nbytes <= MAX_SMALL_BLOCK_BYTES and template.spec not in x.spec.call_templates.get("write_part", ()))


def compute_if_possible(node: Node) -> bool:
    """Compute `node` if possible, and return whether the node is in memory.

    An error of the computation is suppressed here, and raised again when values are asked for.
    """
    with suppress(*EVALUATION_ERRORS):  # reported when values are asked for
        realize(node)
    return node.buffer is not None
