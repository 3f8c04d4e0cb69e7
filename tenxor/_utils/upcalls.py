"""Upcalls: calls from a lower package to a higher package, which imports the lower one. The lower package cannot import the higher one, and
reads the variables of this module instead.

Prefer an import, an argument, or a method of an object at hand. `tests/test_architecture.py` reports every further empty variable filled
by another module. Another thread may change a variable at any moment, so a caller reads the variable once for each task. While the variable
is None, the caller does the work in Python.

Most variables belong to the fast path. `installed` is None while the fast path is not built, switched off or disabled, and
`host_call_observer` is set and removed in the same step. `interning` and `size_generic` are set by the first installation for good. The
functions still work after the fast path was removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias
from weakref import ref

from .records import NamedTuple

# Types of higher packages, which this module cannot import
Arrange: TypeAlias = Any
CreationFunctions: TypeAlias = Any
DirectCall: TypeAlias = Any
DType: TypeAlias = Any
Node: TypeAlias = Any
PatchableFunction: TypeAlias = Any
Plan: TypeAlias = Any
Recipe: TypeAlias = Any
ResultTemplate: TypeAlias = Any
SizedTemplate: TypeAlias = Any
Spec: TypeAlias = Any
StepBytecode: TypeAlias = Any
TapeNode: TypeAlias = Any
Tensor: TypeAlias = Any


class TensorFactory(Protocol):
    """The function to make tensors of numbers and arrays: `asarray` of `api/creation.py`, set by `import tenxor`."""

    def __call__(self, value: Any, dtype: DType, /) -> Tensor:
        """Return a new tensor of `dtype` with the elements of `value`: a number, nested lists, an array or a tensor.

        Called by `DType.__call__`, as in `tx.float32(0.1)`. The function may run user code, such as `__array__` of `value`, and may raise
        the errors of `asarray`.
        """


class NodeObserver(Protocol):
    """An observer of new nodes: `check_nan` (`api/nan_check.py`), while a `check_nan` context is open in a thread.

    Each method may realize nodes, and may raise an error at the user's call, but must not write to a tensor. Without an observer, a caller
    reads one variable. With an observer, the fast path is disabled, and nodes of derivatives and batches are made anew, not replayed.
    """

    def observe_node(self, node: Node, /) -> None:
        """Observe `node`, made by an operation or a write. Called by `Tensor._from_node`, writes and optimizers before the node is used."""

    def observe_host_result(self, node: Node, name: str, operands: Sequence[Node], /) -> None:
        """Observe `node`, computed by NumPy from `operands` in the operation `name`. Called by `api/host_calls.py` for each result."""

    def observe_derivative(self, node: Node, tape_node: TapeNode, /) -> None:
        """Observe `node`, a cotangent or tangent made by the rule of `tape_node`. Called by the backward pass and by forward mode."""

    def observe_batch(self, batch: Node, node: Node, /) -> None:
        """Observe `batch`, the values of `node`, traced for a single batch element, for the whole batch. Called by `vmap`."""


class RefcountQueries(NamedTuple):
    """Functions that examine many nodes in less time than Python (`fastpath/emit/refcount_queries.py`).

    `count_pending` returns the number of pending nodes in a list, without UNFINISHED nodes (interrupted computations). `filter_pending`
    filters weak references: it returns the references to live, pending nodes. `find_externally_owned` does the work of
    `ownership.find_externally_owned`, for three lists.
    """

    count_pending: Callable[[list[Node]], int]
    filter_pending: Callable[[list[ref[Node]]], list[ref[Node]]]
    find_externally_owned: Callable[[list[Node], list[int], list[int]], list[int]]


class TapeReplay(NamedTuple):
    """Functions for derivatives (`fastpath/emit/tape_nodes.py`, `fastpath/emit/tape_segments.py`, `fastpath/emit/batch_key.py`).

    `make_nodes(nodes, steps)` appends the nodes of replay steps (`autodiff/replay.py`) to `nodes`, as far as possible. `collect_tape(roots,
    oldest)` collects a slice of the tape (`autodiff/reverse.py`). `encode_signature` encodes the signature of a tape segment
    (`autodiff/segment_signature.py`). `encode_trace(roots, placeholders, inputs, has_marks)` encodes how roots were computed from the
    placeholders of a traced function (`autodiff/batching.py`, `autodiff/scan_loop.py`). It appends the remaining inputs to `inputs`; with
    `has_marks`, it tells nodes with a tape node, constants and other nodes apart. `collect_tape`, `encode_signature` and `encode_trace`
    return None to decline.

    `find_replay_steps(signature, compute)` returns the replay steps of a new tape segment with the signature `signature`, if possible from
    a segment of different sizes (`fastpath/segment_templates.py`). `compute` is the argument of `SegmentSignature.replay_or_record`.
    """

    make_nodes: Callable[[list[Any], Sequence[Any]], None]
    collect_tape: Callable[[list[Node], int], tuple[list[Any], dict[Any, Node], bool] | None]
    encode_signature: Callable[[Sequence[Any], Any, Any, dict[Any, Node], list[Any]], tuple[bytes, list[Any], list[Any]] | None]
    encode_trace: Callable[[list[Node], list[Node], list[Any], bool], bytes | None]
    find_replay_steps: Callable[[Any, Callable[..., Any]], Any]


class CallReplay(NamedTuple):
    """Functions for the replay of recorded calls (`fastpath/emit/call_replay.py`).

    `replay` takes the name of a function, the positional arguments (a tensor first) and the keyword arguments; it returns the view or
    pending result of a recorded call, or None on a miss. `record_result` takes a name and a function, and returns a wrapper that calls
    the function and records the result, and the reports to `host_call_observer` during the call. `record_reports` returns a wrapper that
    records only these reports.
    """

    replay: Callable[..., Any]
    record_result: Callable[[str, Callable[..., Any]], Callable[..., Any]]
    record_reports: Callable[[str, Callable[..., Any]], Callable[..., Any]]


class CopyFunctions(NamedTuple):
    """Functions that copy the pieces of a join, a tuple of tensors (`fastpath/emit/concat_many.py`). Each returns whether the work was
    done.

    `write_spec_addresses(pieces, table)` writes the address of each piece's spec into the first column of the table at the address `table`.
    The function returns False unless each piece is in memory or a known scalar, and no tape has to record the copy. `copy_rows(pieces,
    table, row_count, stride)` copies each piece in `row_count` rows that are `stride` bytes apart in the destination. The columns of the
    table are the spec, the destination, the bytes of a row, and the bytes of an element. `copy_equal_specs(pieces, destination, row_bytes,
    itemsize, row_count, stride)` copies pieces of equal spec to the address `destination`, side by side in each row.
    """

    write_spec_addresses: Callable[[tuple[Any, ...], int], bool]
    copy_rows: Callable[[tuple[Any, ...], int, int, int], bool]
    copy_equal_specs: Callable[[tuple[Any, ...], int, int, int, int, int], bool]


class JoinFunctions(NamedTuple):
    """Functions that replay joins of a few small tensors (`fastpath/emit/concat_few.py`).

    `replay` takes the name of a function, and its positional (tuple) and keyword (dictionary) arguments. The first argument is a list or a
    tuple of tensors, or a single tensor. `replay` returns the result, or None for a call without a record. `record` records a call: the
    function's name, the pieces, the further positional and keyword arguments, the result, and the function that returns the arrangement for
    such arguments.
    """

    replay: Callable[..., Any]
    record: Callable[[str, Sequence[Any], tuple[Any, ...], Mapping[str, Any], Any, Arrange], None]


class InterningFunctions(NamedTuple):
    """Functions that look up specs and recipes of data in the tables of the generated code.

    Each takes a dtype, a shape, for a spec the strides, and the object to store on a miss, or None to make one. It returns the object
    stored, or None for one of a kind that is not stored.
    """

    intern_spec: Callable[[DType, tuple[int, ...], tuple[int, ...], Spec | None], Spec | None]
    intern_data_recipe: Callable[[DType, tuple[int, ...], Recipe | None], Recipe | None]


class SizeGenericFunctions(NamedTuple):
    """Functions for size-generic templates (`fastpath/size_generic.py`), and the switch that disables the fast path.

    `compute_signature(name, arguments, names, shapes, tape_mask)` returns the signature of a call and its dims, or None. The `names` belong
    to the last arguments, `shapes` are further shapes, and `tape_mask` is a bit mask of the arguments on the autograd tape.
    `compute_graph_signature(records, node)` returns the key, the signature and the dims of a graph, whose launch record belongs in
    `records`. `instantiate(rule, dims, specs)` returns the template for these sizes, or None if a guard fails.
    `run_bytecode(bytecode, dims)` returns the results of a size program, or None if a guard fails. `clear_signatures()` clears the
    generated code's cache of recent signatures. `disable_fast_path()` is a context manager that disables the fast path.
    """

    compute_signature: Callable[..., tuple[bytes, tuple[int, ...]] | None]
    compute_graph_signature: Callable[[object, Node], tuple[bytes, bytes, tuple[int, ...]] | None]
    instantiate: Callable[[SizedTemplate, tuple[int, ...], tuple[Spec, ...]], ResultTemplate | None]
    run_bytecode: Callable[[bytes, tuple[int, ...]], tuple[int, ...] | None]
    clear_signatures: Callable[[], object]
    disable_fast_path: Callable[[], AbstractContextManager[None]]


class HostCallObserver(Protocol):
    """The function to note computations by NumPy, for the recorder of the fast path (`fastpath/host_call_recorder.py`)."""

    def __call__(
        self,
        operands: Sequence[Tensor],
        results: Sequence[Tensor],
        compute: Callable[..., Any] | None,
        direct_call: DirectCall | None,
        make_direct_call: Callable[..., DirectCall | None] | None = None,
        /,
    ) -> None:
        """Note the computation of `results` from `operands`. Called by `api/host_calls.py` after each computation by NumPy.

        `compute` computes the arrays of the results from the arrays of the operands, `direct_call` describes a direct call, and
        `make_direct_call` returns the description for further operands; each may be None. The function keeps the arguments for the call
        under recording in this thread. No user code runs.
        """


class FastPathFunctions(Protocol):
    """The functions of an installed fast path."""

    refcount_queries: RefcountQueries
    tape_replay: TapeReplay
    call_replay: CallReplay
    copy_functions: CopyFunctions
    join_functions: JoinFunctions
    creation_functions: CreationFunctions
    numpy_substitutes: Mapping[str, int]  # addresses of functions that compute in place of NumPy, by name

    def compute(self, node: Node, /) -> bool:
        """Compute the small pending graph of `node`, and return True; or decline with False, before any change."""

    def compute_one_of_several(self, node: Node, /) -> bool:
        """Do the work of `compute` for `node`, one of several nodes that are asked for together: operands that they share are computed
        once.

        Return True, or decline with False before any change.
        """

    def capture_signature(self, *roots: Node) -> tuple[Any, ...] | None:
        """Return the arguments of `GraphSignature` for the graph of `roots`, or None to decline (`fastpath/emit/graph_walk.py`)."""

    def encode_steps(self, plan: Plan, /) -> StepBytecode:
        """Return the steps of `plan` encoded for `run_steps`: a `StepBytecode` (`runtime/plan_execution.py`), whose first item is the
        launch record.
        """

    def run_steps(self, launch_record: bytes, nodes: list[Any], offsets: list[int], scalars: list[Any], begin: int, end: int, /) -> int:
        """Run the encoded steps from `begin` to `end` (excluded) of a plan, and return the number of the first step not run: `end` after
        success.

        A smaller result means that the fast path declined this step; the caller runs it in Python. An error other than MemoryError is
        raised. `launch_record` is made by `encode_steps`. `nodes`, `offsets` and `scalars` are those of `LaunchValues`
        (`codegen/interface.py`): the contents of the plan's slots, and the offsets and numbers of its inputs. The results get their memory.
        """

    def set_vectorcall_entry(self, function: PatchableFunction, /) -> None:
        """Have the interpreter call `function`, a new patchable function, by its entry point in the generated code."""


class FastPathStarter(Protocol):
    """The function that builds a fast path whose code was not stored (`fastpath/__init__.py`)."""

    def count_requests(self, count: int) -> None:
        """Add `count` to the number of requests for values that found no fast path. After some of them, have the code compiled elsewhere,
        and build the fast path.
        """


make_tensor: TensorFactory  # set by `import tenxor`
node_observer: NodeObserver | None = None
installed: FastPathFunctions | None = None
host_call_observer: HostCallObserver | None = None
size_generic: SizeGenericFunctions | None = None
interning: InterningFunctions | None = None  # set at the first installation, and never removed: the generated code needs every spec
starter: FastPathStarter | None = None  # set by `import tenxor`; None again when the fast path is built, or found to be impossible


def is_expected() -> bool:
    """Return whether the fast path is installed, or may still be built."""
    return installed is not None or starter is not None


def get_size_generic_functions() -> SizeGenericFunctions:
    """Return the functions for size-generic templates, for code that runs only after the fast path was installed once."""
    assert size_generic is not None
    return size_generic


def request(count: int = 1) -> FastPathFunctions | None:
    """Return the installed fast path, or None. Without a fast path, count `count` requests for values, as a reason to build it."""
    if starter is not None:
        starter.count_requests(count)
    return installed
