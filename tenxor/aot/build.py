"""The builder of prebuilt machine code (`codegen/llvm/shipped_code.py`): kernels and plans for the first and most frequent operations of
programs.

Nothing is computed here. The operations are planned for the generic machine of each level of x86-64, and the kernels of the plans are
compiled, independently of the present processor. The remaining operations of a program are compiled when they first run.
"""

from __future__ import annotations

import marshal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import tenxor as tx

from ..codegen import backend
from ..codegen.llvm.cpuid import CPU_LEVELS, CpuLevel
from ..codegen.llvm.level_compiler import LevelCompiler, describe_sources
from ..errors import TenxorError
from ..fastpath import disabled, get_object_table
from ..fastpath.machine_code import compile_code
from ..graph.node import POSITION, STORE, Node, Scalar, Scatter, intern_gather, intern_scatter
from ..layout import Layout
from ..ops import OPS
from ..ops.reductions import REDUCTIONS as REDUCTIONS_BY_NAME
from ..runtime import plan_disk_cache, shipped_op_plans
from ..runtime.generic_plans import split_plan_dims, split_structure
from ..runtime.graph_signature import GraphSignature, capture_in_python, make_placeholders
from ..runtime.operand_axes import ELEMENT, NUMBER, STRIDED, VECTOR
from ..runtime.pending_limits import forget_pending_refs
from ..runtime.plan_tracing import trace_shipped_plan
from ..runtime.planner import make_plan, make_symbolic_plan
from ..runtime.realize import evict_plans
from ..runtime.shipped_generic_plans import ShippedPlan, make_shipped_key, serialize_generic_plans
from ..runtime.unfused_plans import list_pieces
from ..symbolic.guards import guards_hold
from ..target import Caches

DTYPES = (tx.float32, tx.float64, tx.int64)
VECTOR_SIZES = (12, 100, 1000, 100_000)  # elements of vectors: few, several registers, in a cache, and shared by threads
REDUCTION_SIZES = (300_000, 1_000_000)  # elements of reductions in blocks, for threads and caches
# Shapes of small matrices
SMALL_MATRIX_SHAPES = ((2, 3), (3, 16), (20, 8), (50, 4), (10, 100), (100, 100), (100, 10), (20, 20), (60, 50), (50, 60))
MATRIX_SHAPES = (*SMALL_MATRIX_SHAPES, (300, 300), (3, 500), (500, 3), (500, 50), (50, 500))
# Caches of the target machines: as measured, smaller, and with a distant last level
CACHES = (Caches(), Caches(l2_bytes=1 << 18, last_level_bytes=1 << 23), Caches(l2_bytes=1 << 21))
THREAD_COUNTS = (1, 8)  # thread counts of the target machines
# Rows, steps and columns of products for the planner: a few steps, and large matrices
CONTRACTION_SHAPES = ((4, 4, 4), (3, 3, 3), (2, 2, 2), (300, 300, 300), (64, 784, 128), (128, 1000, 10))
LARGE_CONTRACTION_SHAPES = ((500, 500, 500), (1000, 1000, 1000))
# Points of two sets, and coordinates, for distances of all pairs
DISTANCE_SHAPES = (*CONTRACTION_SHAPES, *LARGE_CONTRACTION_SHAPES, (100, 3, 100), (1000, 20, 5), (20, 10, 100))

UNARY = ("negative", "abs", "square", "sign")
FLOAT_UNARY = ("exp", "log", "sqrt", "tanh", "sin", "cos", "expm1", "log1p", "reciprocal", "floor", "round", "isnan", "isfinite")
BINARY = ("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "maximum", "minimum")
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
REDUCTIONS = ("sum", "mean", "max", "min")
ARITHMETIC = ("add", "subtract", "multiply", "divide")


def build_level_files(
    folder: Path,
    make_tensors: Callable[[], Iterable[tx.Tensor]] | None = None,
    levels: Iterable[CpuLevel] = CPU_LEVELS,
    report: Callable[[str], object] | None = None,
) -> Iterator[tuple[Path, int]]:
    """Write a file of prebuilt code into `folder` for each of `levels`, the levels of x86-64. Yield the path of the file and a count.

    The count is the number of objects in the file, code images and plans. `python -m tenxor ship` iterates over this generator. A file has
    the plans and kernels to compute the pending tensors from `make_tensors`, by default those of `list_sections`. It also has the
    code of the fast path, if this process can have it. `report`, if given, is called with a line of text after each section. After the last
    level, the file with the hashes of the sources is written (`describe_sources`).
    """
    folder.mkdir(parents=True, exist_ok=True)
    objects = get_object_table()
    for level in levels:
        level_compiler, begin = LevelCompiler(level), time.monotonic()
        evict_plans()  # plans and kernels of the machine before
        with level_compiler.use_for_process(), disabled():
            plans, all_sections = _PlanCollection(), [("wanted", make_tensors)] if make_tensors else list_sections()
            for k, (title, tensors) in enumerate(all_sections, 1):
                for tensor in tensors():
                    plans.add(tensor)
                    forget_pending_refs()  # else memory pressure would run kernels for another processor
                if report:
                    seconds = time.monotonic() - begin
                    count = f"{len(level_compiler.objects):,} kernels in all"
                    report(f"{level.name}: {k} of {len(all_sections)}, {title}: {count}, {seconds:.0f} s")
            for entry in plans.iter_entries():
                level_compiler.add_plan(*entry)
            level_compiler.load_parallel_for()
            for operands in range(1, MAX_ARITY + 1):
                for numbers in range(operands + 1):
                    level_compiler.load_row_loop(1 + operands - numbers, numbers)
            level_compiler.load_row_loop(3, 0, has_scratch=True)  # products of stacks of matrices
            level_compiler.load_row_loop(5, 0)  # gathers and scatters along two axes
            if objects is not None:
                compile_code(objects, level_compiler)
        path = folder / level_compiler.file_name
        path.write_bytes(level_compiler.build_content())
        yield path, len(level_compiler.objects)
    name, content = describe_sources()
    folder.joinpath(name).write_text(content, encoding="utf-8")
    evict_plans()


class _PlanCollection:
    """A collection of prebuilt plans for the present compiler's target, for each cache size in `CACHES` and number in `THREAD_COUNTS`.

    The kernels of a plan are compiled while it is made. `single_operations` has the serialised kernels for single operations, by text key.
    `generic_plans` has the size-generic plans, by the text key of their structure.
    """

    def __init__(self) -> None:
        target = backend().target
        self.targets = [target.with_caches(caches).with_threads(threads) for caches in CACHES for threads in THREAD_COUNTS]
        self.single_operations: dict[str, bytes] = {}
        self.generic_plans: dict[str, list[ShippedPlan]] = {}

    def add(self, x: tx.Tensor) -> None:
        """Add plans for the graph of the pending tensor `x`, and for the single operations of the graph (`_list_unfused`).

        The plans serve all sizes. If no such plan can be made, plan the graph for its own sizes, so that at least the kernels are compiled.
        """
        root = x.storage.node
        for signature in (capture_in_python([root]), *_list_unfused(root)):
            if not (self._add_compact(signature) or self._add_generic(signature)):
                make_plan(signature)

    def _add_compact(self, signature: GraphSignature) -> bool:
        """Add the kernel for `signature`, if it is a single operation and its kernel is missing. Return whether the collection serves it.

        A process builds the plan of the operation from the kernel (`shipped_op_plans.py`). Nothing is added if that plan would differ from
        the planner's plan, or if `signature` is another graph.
        """
        keys = shipped_op_plans.list_op_keys(signature)
        if not keys or keys[0] in self.single_operations:
            return len(keys) > 0
        plan = make_plan(signature)
        compact = shipped_op_plans.serialize_op_kernel(signature, plan)
        if compact is None or plan_disk_cache.serialize_plan(compact[2]) != plan_disk_cache.serialize_plan(plan):
            return any([key in self.single_operations for key in keys])
        self.single_operations[compact[0]] = compact[1]
        return True

    def _add_generic(self, signature: GraphSignature) -> bool:
        """Add size-generic plans for the structure of `signature`, so that one is valid for its sizes on each of `self.targets`.

        Return whether this succeeded: False if a plan cannot be size-generic, or differs from the planner's plan.
        """
        structure, sizes = split_structure(signature) or (None, ())
        structure_text = None if structure is None else plan_disk_cache.encode_structure(structure)
        if structure_text is None:
            return False
        plans = self.generic_plans.setdefault(make_shipped_key(structure_text), [])
        for target in self.targets:
            inputs = *sizes, *target.settings
            if not any([guards_hold(plan.guard_program, inputs) for plan in plans]):
                new_plan = trace_shipped_plan(signature, sizes, target.settings)
                if new_plan is None:
                    return False
                outline, expected = split_plan_dims(make_symbolic_plan(signature, make_placeholders(signature), target))
                if new_plan.compile_evaluator()(*inputs) != expected or marshal.loads(
                    new_plan.serialized_plan
                ) != plan_disk_cache.serialize_plan(outline):
                    return False
                plans.append(new_plan)
        return True

    def iter_entries(self) -> Iterator[tuple[str, bytes]]:
        """Yield the text key and the content of each entry, the arguments of `LevelCompiler.add_plan`."""
        yield from self.single_operations.items()
        yield from ((text, serialize_generic_plans(plans)) for text, plans in self.generic_plans.items() if plans)


def _list_unfused(root: Node) -> Iterator[GraphSignature]:
    """Yield the graph signatures of the pieces that an unfused plan computes for `root` (`list_pieces`).

    Yield nothing for a graph with a single piece.
    """
    pieces = list_pieces(capture_in_python([root]))
    yield from (piece.capture() for piece in pieces if len(pieces) > 1)


def list_sections() -> list[tuple[str, Callable[[], Iterator[tx.Tensor]]]]:
    """Return the sections of the prebuilt code: pairs of a title and a function.

    The function takes no arguments, and yields pending tensors. The build makes plans and kernels for them, and computes none.
    """
    table: list[tuple[str, Callable[[], Iterator[tx.Tensor]]]] = [
        ("operations", _operations),
        ("reductions", _op_reductions),
        ("gathers", _gathers),
        ("scatters", _scatters),
        ("derivatives", _derivatives),
        ("random numbers", _random_numbers),
        ("bool", _booleans),
    ]
    for dtype in DTYPES:
        table.append((f"{dtype} creation", partial(_creations, dtype)))
        table += [(f"{dtype} vectors of {size:,}", partial(_vectors, dtype, size)) for size in VECTOR_SIZES]
        table += [(f"{dtype} reductions of {size:,}", partial(_reductions, dtype, size)) for size in REDUCTION_SIZES]
        table.append((f"{dtype} scalars", partial(_scalars, dtype)))
        table.append((f"{dtype} matrices", partial(_iter_shapes, _matrices, dtype, MATRIX_SHAPES)))
        if dtype.is_float:
            table.append((f"{dtype} distances", partial(_iter_shapes, _distances, dtype, DISTANCE_SHAPES)))
        table.append(
            (
                f"{dtype} products",
                partial(_iter_shapes, _products, dtype, (*CONTRACTION_SHAPES, *(LARGE_CONTRACTION_SHAPES if dtype.is_float else ()))),
            )
        )
    return table


def _iter_shapes(make: Callable[..., Iterator[tx.Tensor]], dtype: tx.DType, shapes: Iterable[tuple[int, ...]]) -> Iterator[tx.Tensor]:
    """Yield the tensors from `make(dtype, shape)` for each of `shapes`, in order."""
    for shape in shapes:
        yield from make(dtype, shape)


def _in_memory(shape: tuple[int, ...], dtype: tx.DType) -> tx.Tensor:
    """Return an uninitialized tensor with memory, as an operand: only the operations on it are pending."""
    return tx.empty(shape, dtype=dtype).realize()


def _iter_functions(names: Sequence[str]) -> Iterator[Callable[..., Any]]:
    """Yield the public functions of the package with the names `names`, like `tx.exp`."""
    return (getattr(tx, name) for name in names)


def _creations(dtype: tx.DType) -> Iterator[tx.Tensor]:
    """Yield tensors of `dtype` created from numbers (`arange`, `full`, ...), arithmetic with them, and sums and matrix products."""
    number = 2 if dtype.is_integer else 2.0
    for size in (12, 1000):
        steps = tx.arange(size, dtype=dtype), tx.arange(float(size), dtype=dtype), tx.linspace(0, 1, size).astype(dtype)
        fulls = [tx.full((size,), value, dtype=dtype) for value in ((2, 2.0) if dtype.is_float else (2,))]
        for x in (*steps, *fulls):
            values = [x, x * number, x + x, x * number + number]
            if dtype.is_float:
                values += [tx.exp(x), x * number + tx.exp(x), tx.sqrt(x) + x]
            yield from values
            yield from (value.sum() for value in values)
    for rows, columns in SMALL_MATRIX_SHAPES:
        x, y = tx.ones((rows, columns), dtype=dtype), tx.ones((columns, rows), dtype=dtype)
        yield from (x, x * number, x + x, x * number + number, x.sum(), x.sum(axis=0), x.sum(axis=1), x.mean(axis=0), x @ y, x @ x.T)
        yield from ((x @ x, (x @ x).sum()) if rows == columns else ())


def _vectors(dtype: tx.DType, size: int) -> Iterator[tx.Tensor]:
    """Yield elementwise operations on vectors of `size` elements and on scalars, some of them nested, and a few reductions."""
    number = 2 if dtype.is_integer else 2.0
    a, b, c = [_in_memory((size,), dtype) for _ in range(3)]
    mask = _in_memory((size,), tx.bool)
    values = [f(a) for f in _iter_functions((*UNARY, *(FLOAT_UNARY if dtype.is_float else ())))]
    for f in _iter_functions((*BINARY, *COMPARISONS)):
        values += [f(a, b), f(a, a), f(a, number), f(number, a)]
    values += [a.astype(d) for d in (*DTYPES, tx.bool) if d is not dtype]
    values += [tx.where(mask, a, b), tx.where(mask, a, number), tx.where(mask, number, a), tx.clip(a, 0, 1)]
    values += [a * number + number, a * b + c, a * number + b, (a - b) * number, (a - b) ** 2, (a + b) * (a - b)]
    if dtype.is_float:
        values += [a**number, a**3, a**0.5, a**b]
        values += [1 / (1 + tx.exp(-a)), tx.sqrt(a * a + b * b), a * number + tx.exp(a), (a * number + tx.exp(a)).sum()]
    yield from values
    yield a.std()


def _reductions(dtype: tx.DType, size: int) -> Iterator[tx.Tensor]:
    """Yield reductions of vectors of `size` elements, and of simple expressions of them."""
    a, b = _in_memory((size,), dtype), _in_memory((size,), dtype)
    yield from (f(x) for x in (a, a * a, a * b, a - b, (a - b) ** 2) for f in _iter_functions(REDUCTIONS))
    yield from (a.argmax(), a.argmin())


def _scalars(dtype: tx.DType) -> Iterator[tx.Tensor]:
    """Yield operations with 0-d tensors, such as the results of reductions."""
    number = 2 if dtype.is_integer else 2.0
    a, p, q = _in_memory((1000,), dtype), _in_memory((), dtype), _in_memory((), dtype)
    for f in _iter_functions((*ARITHMETIC, "maximum", "minimum")):
        yield from (f(a, p), f(p, a), f(p, q), f(p, p), f(p, number), f(number, p))
    yield from (f(p) for f in _iter_functions((*UNARY, *(FLOAT_UNARY if dtype.is_float else ()))))
    yield from (p.astype(d) for d in DTYPES if d is not dtype)


def _matrices(dtype: tx.DType, shape: tuple[int, int]) -> Iterator[tx.Tensor]:
    """Yield operations on a matrix of `shape` with a matrix, a row, a column or the transpose; softmax and standard deviations."""
    a, b = _in_memory(shape, dtype), _in_memory(shape, dtype)
    row, column = _in_memory(shape[1:], dtype), _in_memory((shape[0], 1), dtype)
    yield from (f(a, operand) for f in _iter_functions(ARITHMETIC) for operand in (b, row, column, a[0], a[:, :1], b[0], b[:, :1]))
    yield from (a.T + 1, a.T * a.T, tx.add(a, a.T) if shape[0] == shape[1] else a.T * 2)
    if dtype.is_float:
        yield from (tx.softmax(a, axis=-1), tx.softmax(tx.full(shape, 2, dtype=dtype), axis=-1))
        yield from ((a - a.mean(axis=0)) / a.std(axis=0), a.std(), a.std(axis=0), a.std(axis=1))


def _products(dtype: tx.DType, shape: tuple[int, int, int]) -> Iterator[tx.Tensor]:
    """Yield products of matrices with matrices and vectors, some with a bias, a maximum or a sum.

    `shape` has the rows of the left matrix, the length of the sums, and the columns of the right matrix.
    """
    m, k, n = shape
    a, b, c, d, e = [_in_memory(shape, dtype) for shape in ((m, k), (k, n), (n, k), (k, m), (m, k))]
    x, row = _in_memory((k,), dtype), _in_memory((n,), dtype)
    yield from (a @ b, a @ x, b.T @ x, a @ c.T, d.T @ b, a @ b + row, x @ b, (x * x).sum(), (a @ b).sum(), a @ a.T, a.T @ a)
    yield from (tx.maximum(a @ b + row, 0), a @ e.T, a.T @ e, a @ e[0], a @ b + row[None, :])
    if m == k:
        yield from (a @ a, (a @ a).sum())


def _distances(dtype: tx.DType, shape: tuple[int, int, int]) -> Iterator[tx.Tensor]:
    """Yield the squared distances of each point of a set to each point of another. `shape` has points, coordinates and points."""
    m, k, n = shape
    yield ((_in_memory((m, k), dtype)[:, None] - _in_memory((n, k), dtype)[None]) ** 2).sum(axis=-1)


COMMON_DTYPES = (tx.float32, tx.float64, tx.int64, tx.bool)  # dtypes with all operations
COMPLEX_DTYPES = (tx.complex64, tx.complex128)
OPERATION_DTYPES = (*COMMON_DTYPES, tx.int32, tx.uint8, *COMPLEX_DTYPES)  # dtypes with the common operations
COMMON_OPERATIONS = (*ARITHMETIC, *COMPARISONS, "maximum", "minimum", "negative", "positive", "where", "where_seen")
# Further operations on complex numbers: the code of others is long, and they are seldom used
COMPLEX_OPERATIONS = (
    *("conj", "real", "imag", "abs", "squared_abs", "square", "reciprocal", "divide_by_real"),
    *("sqrt", "exp", "log", "sin", "cos"),
)
MIXED_DTYPES = (
    *((tx.float64, tx.bool), (tx.float32, tx.bool), (tx.int64, tx.bool), (tx.float64, tx.int64)),
    *((tx.float32, tx.float64), (tx.complex64, tx.float32), (tx.complex128, tx.float64)),
)
# Kinds of operands, by the arity of the operation; further ones for the common operations
OPERAND_KINDS = {1: ("v", "s"), 2: ("vv", "vn", "nv", "ss"), 3: ("vvv", "vnn", "sss", "snn")}
COMMON_OPERAND_KINDS = {2: ("ve", "ev", "sn", "ns"), 3: ("vvn", "vnv", "ssn", "sns")}
CAST = OPS["cast"]
MAX_ARITY = 3
# Kinds of the data and of the indices of gathers: rows of a matrix, elements of a vector and of a matrix, and any elements
GATHER_KINDS = (("v", "es"), ("e", "vv"), ("s", "ss"), ("e", "vs", "vv"), ("s", "ss", "ss"))
# Steps in scatters: from value to value in the target and in the values; then, for each indexed axis, in the indices and along the axis.
# First elements of a vector, then with any steps; rows, and rows of one value; any steps for distinct targets; and two indexed axes
SCATTER_STEPS = (
    *(((0, 1), (1, 1)), ((0, 41), (43, 37)), ((1, 1), (0, 14_009)), ((1, 0), (0, 14_009)), ((14_009, 41), (43, 37))),
    *(((0, 41), (43, 37), (47, 859)), ((14_009, 41), (43, 37), (47, 859))),
)
SCATTER_SHAPE = (1009, 23, 13)  # values, and the extents of the indexed axes
STEPS = (37, 41, 43)  # steps of the operands, in elements: unusual primes
VECTOR_LENGTH = 1009
OP_REDUCTIONS = ("sum", "prod", "max", "min", "argmax", "argmin", "any", "all")
OP_SCANS = ("cumulative_sum", "cumulative_prod", "cummax", "cummin")
BOOLEAN_REDUCTIONS = ("sum", "any", "all", "count_nonzero", "argmax", "max", "min")
# Unusual numbers for reductions: enough elements for the blocks of a sum of columns, and of a sum of narrow integers
REDUCED_SHAPE, SHORT_SHAPE = (263, 331), (263, 3)  # results, and elements reduced for each
RESULT_STEPS = (14_009, 16_007)  # steps between the elements of neighbouring results, by operand
BLOCK_SHAPE = (31, 23, 331)  # results, and rows of elements reduced for each: no more than the planner reduces in one kernel
BLOCK_STEPS, COLUMN_BLOCK_STEPS = ((RESULT_STEPS[0], 347, 1), (RESULT_STEPS[1], 353, 1)), (1, RESULT_STEPS[0], 37)
MATRIX_ROWS, MATRIX_COLUMNS, MATRIX_STEPS = 251, 17, 257  # a block of rows and a chunk of steps, with a remainder of each
# Steps of both operands of a sum of products: between neighbouring results, and along the sum
PRODUCT_STEPS = (
    *(((RESULT_STEPS[0], 1), (RESULT_STEPS[1], 1)), ((RESULT_STEPS[0], 1), (0, 1)), ((0, 1), (RESULT_STEPS[1], 1))),
    *(((RESULT_STEPS[0], STEPS[0]), (RESULT_STEPS[1], STEPS[1])), ((1, RESULT_STEPS[0]), (1, RESULT_STEPS[1]))),
    *(((1, RESULT_STEPS[0]), (0, STEPS[1])), ((0, STEPS[0]), (1, RESULT_STEPS[1]))),
)


def _operations() -> Iterator[tx.Tensor]:
    """Yield the operations of the op table on vectors, for each dtype and each kind of operands; also casts, constants and stores.

    Operations that raise an error for the dtypes are left out.
    """
    for op in [op for op in OPS.values() if op is not CAST]:
        is_common = op.name in COMMON_OPERATIONS
        kinds_of_operands = OPERAND_KINDS.get(op.arity, ()) + (COMMON_OPERAND_KINDS.get(op.arity, ()) if is_common else ())
        dtypes = [(dtype,) * op.arity for dtype in (OPERATION_DTYPES if is_common else COMMON_DTYPES)]
        if op.name in COMPLEX_OPERATIONS:
            dtypes += [(dtype,) * op.arity for dtype in COMPLEX_DTYPES]
        if op.name in ("where", "where_seen"):
            dtypes = [(tx.bool, dtype, dtype) for dtype in OPERATION_DTYPES]
        if op.name.startswith("bitwise"):
            dtypes += [(dtype,) * op.arity for dtype in (tx.int32, tx.uint8)]
        if op.name in (*ARITHMETIC, *COMPARISONS, "divide_by_real"):
            dtypes += [pair for left, right in MIXED_DTYPES for pair in ((left, right), (right, left))]
        for operand_dtypes in dtypes:
            for kinds in kinds_of_operands:
                operands = [_operand(dtype, kind, step) for dtype, kind, step in zip(operand_dtypes, kinds, STEPS, strict=False)]
                vector = next(x for x in operands if isinstance(x, tx.Tensor))
                with suppress(TenxorError, TypeError):
                    yield tx.Tensor._compute(op, *[vector._to_operand(x, op.name) for x in operands])
    yield tx.Tensor._from_node(Node.of(POSITION, (VECTOR_LENGTH,), tx.int64))
    for dtype in OPERATION_DTYPES:
        for result_dtype in OPERATION_DTYPES:
            if result_dtype is not dtype and (result_dtype.is_complex or not dtype.is_complex):
                yield from (_operand(dtype, kind, STEPS[0]).astype(result_dtype) for kind in OPERAND_KINDS[1])
        number = _operand(dtype, NUMBER, 0)
        yield tx.full((VECTOR_LENGTH,), number, dtype=dtype)
        yield from (_store(dtype, _operand(dtype, STRIDED, STEPS[1])), _store(dtype, number))


def _store(dtype: tx.DType, value: Any) -> tx.Tensor:
    """Return the pending store of `value`, a vector or a number, in elements with a step."""
    target = Layout((VECTOR_LENGTH,), STEPS[:1])
    size = 1 + (VECTOR_LENGTH - 1) * STEPS[0]
    source, layout = (value.storage.node, value.layout) if isinstance(value, tx.Tensor) else (Scalar(value, dtype), None)
    sources = _in_memory((size,), dtype).storage.node, source
    return tx.Tensor._from_node(Node.of(STORE, (size,), dtype, sources, (Layout.contiguous((size,)), layout), target))


def list_reduction_names(dtype: tx.DType) -> tuple[str, ...]:
    """Return the names of the reductions of elements of `dtype` that have kernels in the package.

    A product of complex numbers has none: the sign of a zero depends on how many factors of 1 a kernel begins with.
    """
    return BOOLEAN_REDUCTIONS if dtype is tx.bool else ("sum",) if dtype.is_complex else OP_REDUCTIONS


def _op_reductions() -> Iterator[tx.Tensor]:
    """Yield reductions of rows, of strided elements and of columns; sums of products, products of matrices, and running reductions."""
    for dtype in OPERATION_DTYPES:
        for name in list_reduction_names(dtype):
            for steps in ((RESULT_STEPS[0], 1), (RESULT_STEPS[0], STEPS[0]), (1, RESULT_STEPS[0])):
                yield getattr(tx, name)(_strided_operand(dtype, REDUCED_SHAPE, steps), axis=1)
            if not name.startswith("arg"):  # reductions of rows that are not joined
                for block_steps in (BLOCK_STEPS[0], COLUMN_BLOCK_STEPS):
                    yield getattr(tx, name)(_strided_operand(dtype, BLOCK_SHAPE, block_steps), axis=(1, 2))
        if dtype.is_float or dtype.is_complex:
            x, y = [_strided_operand(dtype, SHORT_SHAPE, steps) for steps in zip(RESULT_STEPS, STEPS)]  # noqa: B905
            yield from (x.sum(axis=1), *((x.prod(axis=1),) if dtype.is_float else ()), (x * y).sum(axis=1))
            x, y = [_strided_operand(dtype, BLOCK_SHAPE, steps) for steps in BLOCK_STEPS]
            yield (x * y).sum(axis=(1, 2))
    for dtype in (*DTYPES, *COMPLEX_DTYPES):
        for left, right in PRODUCT_STEPS:
            yield (_strided_operand(dtype, REDUCED_SHAPE, left) * _strided_operand(dtype, REDUCED_SHAPE, right)).sum(axis=1)
        for column_step, count in ((1, MATRIX_STEPS), (STEPS[2], MATRIX_STEPS - 2), (STEPS[2], MATRIX_STEPS)):
            left_matrix = _strided_operand(dtype, (MATRIX_ROWS, count), STEPS[:2])
            yield left_matrix @ _strided_operand(dtype, (count, MATRIX_COLUMNS), (RESULT_STEPS[0], column_step))
    for dtype in COMMON_DTYPES:
        for name in OP_SCANS:
            for steps, result_steps in (
                ((RESULT_STEPS[0], STEPS[0]), (RESULT_STEPS[1], STEPS[1])),
                ((1, RESULT_STEPS[0]), (1, RESULT_STEPS[1])),
            ):
                yield _running_reduction(name, _strided_operand(dtype, REDUCED_SHAPE, steps), result_steps)


def _gathers() -> Iterator[tx.Tensor]:
    """Yield gathers along one axis and two axes: of rows, of elements in memory order, and of elements with any steps."""
    for dtype in OPERATION_DTYPES:
        for kinds in GATHER_KINDS:
            data_step, *index_steps = [{VECTOR: 1, ELEMENT: 0}.get(kind[0], step) for kind, step in zip(kinds, STEPS, strict=False)]
            sizes, axes = REDUCED_SHAPE[: len(index_steps)], tuple(range(len(index_steps)))
            steps = [1 if kind[1] == VECTOR else step for kind, step in zip(kinds[1:], RESULT_STEPS, strict=False)]
            data = _strided_operand(dtype, (VECTOR_LENGTH, *sizes), (data_step, *steps))
            indices = [_strided_operand(tx.int64, (VECTOR_LENGTH,), (step,)) for step in index_steps]
            sources, layouts = zip(*[(x.storage.node, x.layout) for x in (data, *indices)], strict=True)
            yield tx.Tensor._from_node(Node.of(intern_gather("take", axes), (VECTOR_LENGTH,), dtype, sources, layouts))


def _scatters() -> Iterator[tx.Tensor]:
    """Yield scatters along one axis and two axes: of elements and of rows, which replace elements or are added to them."""
    added = REDUCTIONS_BY_NAME["sum_in_width"]
    for dtype in OPERATION_DTYPES:
        for reduction in (None, added) if dtype in DTYPES or dtype.is_complex else (None,):
            for steps in SCATTER_STEPS:
                yield _scatter(dtype, intern_scatter("assignment", reduction, tuple(range(len(steps) - 1)), True), steps)


def _scatter(dtype: tx.DType, op: Scatter, steps: Sequence[tuple[int, int]]) -> tx.Tensor:
    """Return the pending scatter `op` of a vector of values. `steps` is an item of `SCATTER_STEPS`."""
    (target_step, value_step), *index_steps = steps
    target = Layout(SCATTER_SHAPE[: len(steps)], (target_step, *[step for _, step in index_steps]))
    size = 1 + sum([(n - 1) * step for n, step in zip(target.shape, target.strides, strict=True)])
    operands = [
        _strided_operand(dtype, SCATTER_SHAPE[:1], (value_step,)),
        *[_strided_operand(tx.int64, SCATTER_SHAPE[:1], (step,)) for step, _ in index_steps],
    ]
    sources = _in_memory((size,), dtype).storage.node, *[x.storage.node for x in operands]
    layouts = Layout.contiguous((size,)), *[x.layout for x in operands]
    return tx.Tensor._from_node(Node.of(op, (size,), dtype, sources, layouts, target))


def _derivatives() -> Iterator[tx.Tensor]:
    """Yield derivatives of the operations of the op table, times a vector, a vector with a step, and a single element."""
    for op in [op for op in OPS.values() if op.arity <= 2]:
        if not hasattr(tx, op.name):
            continue
        function = getattr(tx, op.name)
        for dtype in DTYPES[:2]:
            for kind in (VECTOR, STRIDED, ELEMENT):
                operands = [_operand(dtype, VECTOR if kind == ELEMENT else kind, step) for step in STEPS[: op.arity]]
                with suppress(TenxorError, TypeError):
                    _, pull_back = tx.vjp(function, *operands)
                    cotangents = pull_back(_operand(dtype, kind, STEPS[2]))
                    yield from cotangents if isinstance(cotangents, tuple) else (cotangents,)


def _random_numbers() -> Iterator[tx.Tensor]:
    """Yield vectors of random numbers, uniform, normal and integer."""
    generator = tx.random.Generator(0)
    for dtype in DTYPES[:2]:
        yield from (generator.random((VECTOR_LENGTH,), dtype), generator.normal(shape=(VECTOR_LENGTH,), dtype=dtype))
        yield from (generator.uniform(2.0, 3.0, (VECTOR_LENGTH,), dtype=dtype), generator.normal(2.0, 3.0, (VECTOR_LENGTH,), dtype=dtype))
    yield generator.integers(0, 100, (VECTOR_LENGTH,))


def _running_reduction(name: str, x: tx.Tensor, steps: tuple[int, int]) -> tx.Tensor:
    """Return the pending running reduction `name` ("cummax", ...) of `x`, of shape `REDUCED_SHAPE`, along the last axis.

    The result is stored with the strides `steps`, in elements. So the kernel serves results with any strides.
    """
    scan = (getattr(tx, name)(x, axis=1) if name.startswith("cumulative") else getattr(tx, name)(x, 1)[0]).storage.node
    size = 1 + sum([(n - 1) * step for n, step in zip(REDUCED_SHAPE, steps, strict=True)])
    return tx.Tensor._from_node(Node.of(scan.op, (size,), scan.dtype, scan.sources, scan.layouts[:1], Layout(REDUCED_SHAPE, steps)))


def _strided_operand(dtype: tx.DType, shape: tuple[int, ...], steps: tuple[int, ...]) -> tx.Tensor:
    """Return an uninitialized tensor of `shape` with the strides `steps`, in elements, on new memory."""
    size = 1 + sum([(n - 1) * step for n, step in zip(shape, steps, strict=True)])
    return tx.Tensor(_in_memory((size,), dtype).storage, Layout(shape, steps), dtype)


def _operand(dtype: tx.DType, kind: str, step: int) -> Any:
    """Return an operand for operations on vectors, of the kind `kind` (`runtime/operand_axes.py`).

    `NUMBER` is a Python number, and `ELEMENT` a broadcast element. `STRIDED` is a vector with `step` elements from one element to the next;
    any other kind is a contiguous vector.
    """
    if kind == NUMBER:
        return True if dtype is tx.bool else 2.0 if dtype.is_float else 2.0 + 0j if dtype.is_complex else 2
    if kind == ELEMENT:
        return tx.broadcast_to(_in_memory((), dtype), (VECTOR_LENGTH,))
    return _in_memory((VECTOR_LENGTH, step), dtype)[:, 0] if kind == STRIDED else _in_memory((VECTOR_LENGTH,), dtype)


def _booleans() -> Iterator[tx.Tensor]:
    """Yield logical operations, comparisons and casts of vectors and matrices of booleans."""
    for shape in (*((size,) for size in VECTOR_SIZES), (10, 100)):
        a, b = _in_memory(shape, tx.bool), _in_memory(shape, tx.bool)
        yield from (a & b, a | b, a ^ b, ~a)
        yield from (f(a, b) for f in _iter_functions((*LOGICAL, "equal", "not_equal")))
        yield from (tx.logical_not(a), *(a.astype(d) for d in DTYPES), tx.full(shape, True))
