"""Direct calls of the C functions inside NumPy's ufuncs, on memory, without arrays around them. A loop (`UfuncLoop`) is a C function
`function(arguments, dimensions, steps, data)` that computes a batch. A finder returns the loop of an operation for a dtype of NumPy's.

NumPy's ufunc objects, whose fields are public (`ufuncobject.h`), hold the loops. Results equal NumPy's to the bit, and are written where
they belong. Each function is first tried on a few numbers. If the function does not give NumPy's results, NumPy is called instead.
"""

from __future__ import annotations

import ctypes
import importlib
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from inspect import signature
from math import prod
from re import findall
from typing import Any

import numpy as np

from .._utils.cache_registry import register
from .._utils.records import NamedTuple
from ..dtypes import DType, complex64, complex128, float32, float64
from ..layout.coords import find_constant_step
from .host_op_table import HOST_OPS, Array, HostOp
from .numpy_abi import explain_abi_mismatch, refusal_reasons

ByteLayout = tuple[tuple[int, ...], tuple[int, ...]]  # a shape and strides in bytes
Geometry = tuple[tuple[int, ...], tuple[int, ...]]  # the arguments `dimensions` and `steps` of a loop
TRIAL_ELEMENTS = 5  # elements of a signal in a trial


class UfuncLoop(NamedTuple):
    """A C function of a ufunc for operands of certain dtypes.

    `core_axes` name the core axes of each argument: first `operand_count` operands, then, if `constant_bytes` is not empty, a constant
    with these bytes, then the results. With `may_fail`, the function may have no result for a batch element; result number
    `nan_result_index` is NaN there. Result number `int32_result_index`, if not negative, holds 32-bit integers. With `needs_finite`,
    operands are checked for infinities and NaN before the call. If `is_widened`, operands in single precision are converted to double
    precision and the results back, as in NumPy. With `releases_gil`, the fast path releases the GIL for the call.
    """

    function_address: int
    data_address: int
    core_axes: tuple[tuple[str, ...], ...]
    operand_count: int
    constant_bytes: bytes = b""
    may_fail: bool = False
    needs_finite: bool = False
    is_widened: bool = False
    nan_result_index: int = 0
    int32_result_index: int = -1
    releases_gil: bool = False


def find_verified_loop(op: HostOp, dtypes: Sequence[DType], options: Mapping[str, Any]) -> UfuncLoop | None:
    """Return the C function of NumPy that computes `op` on operands of dtypes `dtypes`, with the options `options` of `op.compute`.

    The function was tried on a few numbers. Return None if the dtypes differ, or if no function is known to give NumPy's results.
    """
    operand_dtype, *other_dtypes = dtypes
    if op.name not in _FINDERS or any([d is not operand_dtype for d in other_dtypes]) or explain_abi_mismatch():
        return None
    # Signals of even and of odd length have different functions.
    trial_options = tuple(
        [(name, TRIAL_ELEMENTS + (value - TRIAL_ELEMENTS) % 2 if name == "n" else value) for name, value in options.items()]
    )
    if not _is_verified(op, operand_dtype, trial_options):
        return None
    return _find_loop(op.name, operand_dtype, tuple(options.items()))


def try_ufunc_loops() -> None:
    """Find the C function of each operation for four float and complex dtypes, and compare its results with NumPy's on a few numbers.

    The reason of each refusal is then in `refusal_reasons`, by the operation's name.
    """
    trial_values = {"n": TRIAL_ELEMENTS, "norm": None, "upper": False, "full_matrices": False, "rcond": 1e-15}
    for name, find in _FINDERS.items():
        options = {option: trial_values[option] for option in signature(find).parameters if option in trial_values}
        for dtype in (float64, complex128, float32, complex64):
            find_verified_loop(HOST_OPS[name], [dtype], options)


@register("loops of ufuncs", "a C function of NumPy, by operation and dtype")
@lru_cache(maxsize=1024)
def _find_loop(name: str, dtype: DType, options: tuple[tuple[str, Any], ...]) -> UfuncLoop | None:
    """Return the loop of the operation `name` for operands of `dtype`, without a trial; None if no loop is known for the dtype.

    `options` holds pairs of an option of the operation and a value. Raise AttributeError, ImportError or LookupError if NumPy's functions
    have changed.
    """
    return _FINDERS[name](dtype.numpy, **dict(options))


@register("tests of ufunc loops", "whether a C function gave NumPy's results in a test, by operation and dtype")
@lru_cache(maxsize=1024)
def _is_verified(op: HostOp, dtype: DType, options: tuple[tuple[str, Any], ...]) -> bool:
    """Return whether a loop for `op` and operands of `dtype` exists, and gives NumPy's results on a few numbers.

    `options` holds pairs of an option of the operation and a value. The reason of a refusal is put into `refusal_reasons`.
    """
    try:
        loop = _find_loop(op.name, dtype, options)
    except (AttributeError, ImportError, LookupError) as error:  # NumPy has moved or changed it
        refusal_reasons[op.name] = str(error)
        return False
    if loop is None:
        return False
    operands = [_make_trial_operand(len(letters), dtype) for letters in loop.core_axes[: loop.operand_count]]
    expected: Any = op.compute(*operands, **dict(options))
    expected_results = expected if isinstance(expected, tuple) else (expected,)
    results = [np.empty(x.shape, d.numpy) for x, d in zip(expected_results, op.infer_dtypes(dtype), strict=True)]
    if call_loop(loop, operands, results) and all(
        [np.array_equal(x, y.astype(x.dtype)) for x, y in zip(results, expected_results, strict=True)]
    ):
        return True
    refusal_reasons[op.name] = "it does not give what NumPy gives"
    return False


def _make_trial_operand(axes: int, dtype: DType) -> Array:
    """Return an array of `dtype` to try a loop on: a batch of two signals (`axes` 1) or two positive definite matrices (`axes` 2).

    `axes` is the number of core axes. The elements are not contiguous.
    """
    memory: Array = np.zeros((2, *(6, 9)[:axes]) if axes == 2 else (2, 2 * TRIAL_ELEMENTS), dtype.numpy)
    view = memory[:, ::-2, ::3] if axes == 2 else memory[:, ::2]
    real = np.array([[9, 2, 1], [2, 8, 3], [1, 3, 7]] if axes == 2 else [9, 2, 6, 5, 7])
    imaginary = np.array([[0, 1, -1], [-1, 0, 2], [1, -2, 0]] if axes == 2 else [1, 0, -2, 4, 3])
    view[0] = real + imaginary * 1j if dtype.is_complex else real
    view[1] = view[0] * 2 + (np.eye(3) if axes == 2 else 1)
    return view


# --- layouts of arguments ---------------------------------------------------------------------------------------------


def compute_geometry(loop: UfuncLoop, layouts: Sequence[ByteLayout]) -> Geometry | None:
    """Return the arguments `dimensions` and `steps` for calling `loop`: the sizes of batch and core axes, and the strides along them in
    bytes.

    `layouts` are pairs of a shape and strides in bytes, of the operands and then of the results. Return None if a single loop cannot walk
    the batch, if an array is empty, or if sizes do not match.
    """
    between = [((), ())] if loop.constant_bytes else []
    arguments = [*layouts[: loop.operand_count], *between, *layouts[loop.operand_count :]]
    sizes: dict[str, int] = {}  # in the order of first occurrence, as ufuncs number their core dimensions
    batch_ndims = [len(shape) - len(core_letters) for core_letters, (shape, _) in zip(loop.core_axes, arguments, strict=True)]
    for core_letters, (shape, _), batch_ndim in zip(loop.core_axes, arguments, batch_ndims, strict=True):
        for letter, size in zip(core_letters, shape[batch_ndim:], strict=True):
            if sizes.setdefault(letter, size) != size:
                return None
    batch_shape = arguments[-1][0][: batch_ndims[-1]]
    if 0 in sizes.values() or 0 in batch_shape:
        return None
    outer = []
    for (shape, strides), batch_ndim in zip(arguments, batch_ndims, strict=True):
        batch_strides = [0 if n == 1 else s for n, s in zip(shape[:batch_ndim], strides[:batch_ndim], strict=True)]
        step = find_constant_step(batch_shape, [0] * (len(batch_shape) - batch_ndim) + batch_strides)
        if step is None:
            return None
        outer.append(step)
    core = [s for (_, strides), batch_ndim in zip(arguments, batch_ndims, strict=True) for s in strides[batch_ndim:]]
    return (prod(batch_shape), *sizes.values()), (*outer, *core)


def call_loop(loop: UfuncLoop, operands: Sequence[Array], results: Sequence[Array]) -> bool:
    """Call `loop` on `operands` without the GIL, write into `results`, and return whether the call succeeded.

    The call fails if a single loop cannot walk the arrays, if an operand must be finite and is not, or if a batch element has no result.
    After a failure the contents of `results` are undefined.
    """
    if loop.is_widened:
        return _call_widened(loop, operands, results)
    arrays = [*operands, *results]
    loop_geometry = compute_geometry(loop, [(x.shape, x.strides) for x in arrays])
    if loop_geometry is None or (loop.needs_finite and not all([np.isfinite(x).all() for x in operands])):
        return False
    if loop.int32_result_index >= 0:
        results[loop.int32_result_index].fill(0)  # the loop writes only the lower half of each
    addresses = [x.__array_interface__["data"][0] for x in arrays]
    between = ctypes.create_string_buffer(loop.constant_bytes, len(loop.constant_bytes) or 1)
    if loop.constant_bytes:
        addresses.insert(loop.operand_count, ctypes.addressof(between))
    dimensions, steps = loop_geometry
    words = [(ctypes.c_int64 * len(values))(*values) for values in (addresses, dimensions, steps)]
    _make_function(loop.function_address)(*words, loop.data_address)
    corner: Any = (..., *[0] * len(loop.core_axes[loop.nan_result_index - len(results)]))  # a failed batch element is NaN everywhere
    return not (loop.may_fail and np.isnan(results[loop.nan_result_index][corner]).any())


def _call_widened(loop: UfuncLoop, operands: Sequence[Array], results: Sequence[Array]) -> bool:
    """Call `loop` on copies of `operands` in double precision, round into `results`, and return whether the call succeeded."""
    wide_results = [np.empty(x.shape, WIDER_CHARS.get(x.dtype.char, x.dtype)) for x in results]
    with np.errstate(all="ignore"):  # values too large for single precision become infinite
        if not call_loop(loop._replace(is_widened=False), [x.astype(WIDER_CHARS[x.dtype.char]) for x in operands], wide_results):
            return False
        for x, y in zip(results, wide_results, strict=True):
            np.copyto(x, y, casting="same_kind")
    return True


@register("C functions of ufuncs", "a callable C function, by address")
@cache
def _make_function(address: int) -> Callable[..., None]:
    """Return the C function of a ufunc at `address` as a ctypes function of four pointers without a result."""
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(address)


# --- addresses of functions -------------------------------------------------------------------------------------------


class _UFunc(ctypes.Structure):
    """The fields of a ufunc object (`PyUFuncObject`) after the object header, up to its name."""

    _fields_ = (
        *[(name, ctypes.c_int) for name in ("nin", "nout", "nargs", "identity")],
        *[(name, ctypes.c_void_p) for name in ("functions", "data")],
        *[(name, ctypes.c_int) for name in ("ntypes", "reserved")],
        ("name", ctypes.c_char_p),
    )


def _make_loop(ufunc: Any, types: str, **loop_fields: Any) -> UfuncLoop:
    """Return the loop of a ufunc of NumPy for `types` like "d->d"; `loop_fields` are further fields of the `UfuncLoop`.

    Raise LookupError if the ufunc lacks the loop or has another memory layout.
    """
    if types not in ufunc.types:
        raise LookupError(f"{ufunc.__name__} has no {types}")
    fields = _UFunc.from_address(id(ufunc) + object.__basicsize__)
    expected = (ufunc.nin, ufunc.nout, ufunc.nargs, len(ufunc.types))
    if (fields.nin, fields.nout, fields.nargs, fields.ntypes) != expected or fields.name != ufunc.__name__.encode():
        raise LookupError(f"the memory of the ufunc {ufunc.__name__} is not laid out as expected")
    k = ufunc.types.index(types)
    function, data = [table and (ctypes.c_void_p * fields.ntypes).from_address(table)[k] for table in (fields.functions, fields.data)]
    if not function:
        raise LookupError(f"{ufunc.__name__} has no C function for {types}")
    letters = tuple([tuple(findall(r"\w+", core)) for core in findall(r"\((.*?)\)", ufunc.signature)])
    return UfuncLoop(function, data or 0, letters, fields.nin - bool(loop_fields.get("constant_bytes")), **loop_fields)


class _MatrixLoop:
    """The loop `name` of NumPy's `linalg` for the dtypes in `types`, which maps the type character of the operands to the types of the
    loop, for example "d" to "d->dd". `fields` are further fields of the `UfuncLoop`.
    """

    def __init__(self, name: str, types: Mapping[str, str], **fields: Any) -> None:
        self.name, self.types, self.fields = name, types, fields

    def __call__(self, dtype: Any, **_: Any) -> UfuncLoop | None:
        """Return the loop for a NumPy dtype, or None. Matrices in single precision use the loop for double precision, as in NumPy."""
        wide_char = WIDER_CHARS.get(dtype.char, dtype.char)
        if wide_char not in self.types:
            return None
        ufunc = getattr(np.linalg._umath_linalg, self.name)
        return _make_loop(ufunc, self.types[wide_char], may_fail=True, is_widened=wide_char != dtype.char, **self.fields)


def _find_svd(dtype: Any, full_matrices: bool) -> UfuncLoop | None:
    """Return the loop of the singular value decomposition for a NumPy dtype; None for a dtype without a loop.

    The loop computes square factors with `full_matrices`, and otherwise the reduced ones.
    """
    return _MatrixLoop("svd_f" if full_matrices else "svd_s", {"d": "d->ddd", "D": "D->DdD"})(dtype)


def _find_cholesky(dtype: Any, upper: bool) -> UfuncLoop | None:
    """Return the loop of the Cholesky decomposition for a NumPy dtype; None for a dtype without a loop.

    The loop computes the upper factor if `upper`, else the lower one.
    """
    return _MatrixLoop("cholesky_up" if upper else "cholesky_lo", _SAME_TYPES)(dtype)


def find_linalg_loop(name: str, types: str) -> UfuncLoop:
    """Return the loop `name` of NumPy's `linalg` for `types` like "d->d", for an operation without failures.

    Raise LookupError or AttributeError if NumPy lacks the loop.
    """
    return _make_loop(getattr(np.linalg._umath_linalg, name), types)


class _SignalLoop:
    """The loop of the Fourier transform `name`; `is_backward` marks an inverse transform. The scaling factor of the results is the constant
    of the loop.
    """

    def __init__(self, name: str, is_backward: bool) -> None:
        self.name, self.is_backward = name, is_backward

    def __call__(self, dtype: Any, n: int, norm: str | None) -> UfuncLoop | None:
        """Return the loop for a NumPy dtype, `n` samples and a normalization `norm` as in `numpy.fft`; None for a dtype without a loop.

        NumPy's factor is an integer if nothing is scaled, so NumPy then computes in double precision.
        """
        if dtype.char not in ("df" if self.name == "rfft" else "DF"):
            return None
        transforms = importlib.import_module("numpy.fft._pocketfft_umath")
        loop_name = {"rfft": "rfft_n_odd" if n % 2 else "rfft_n_even"}.get(self.name, self.name)
        is_unscaled = (norm or "backward") == ("forward" if self.is_backward else "backward")
        char = WIDER_CHARS.get(dtype.char, dtype.char) if is_unscaled else dtype.char
        real_char = char.lower()
        scale = 1.0 if is_unscaled else np.reciprocal(np.sqrt(n, dtype=real_char) if norm == "ortho" else n, dtype=real_char)
        types = f"{char}{real_char}->{real_char if self.name == 'irfft' else real_char.upper()}"
        return _make_loop(
            getattr(transforms, loop_name), types, constant_bytes=struct.pack(f"={real_char}", scale), is_widened=char != dtype.char
        )


def _find_least_squares(dtype: Any, rcond: float) -> UfuncLoop | None:
    """Return the loop for least squares with at least as many rows as columns; None for dtypes without a loop, or on a big-endian machine.

    Singular values up to `rcond` times the largest count as 0. The residuals of a rank-deficient matrix are NaN, counted as a failure.
    """
    wide_char = WIDER_CHARS.get(dtype.char, dtype.char)
    types = {"d": "ddd->ddid", "D": "DDd->Ddid"}.get(wide_char)
    if types is None or sys.byteorder != "little":
        return None
    loop_fields = {"may_fail": True, "nan_result_index": 1, "int32_result_index": 2, "is_widened": wide_char != dtype.char}
    return _make_loop(np.linalg._umath_linalg.lstsq, types, constant_bytes=struct.pack("=d", rcond), **loop_fields)


WIDER_CHARS = {"f": "d", "F": "D"}
_SAME_TYPES = {"d": "d->d", "D": "D->D"}
_FINDERS: dict[str, Callable[..., UfuncLoop | None]] = {
    "inv": _MatrixLoop("inv", _SAME_TYPES),
    "det": _MatrixLoop("det", _SAME_TYPES),
    "slogdet": _MatrixLoop("slogdet", {"d": "d->dd", "D": "D->Dd"}),
    "solve": _MatrixLoop("solve", {"d": "dd->d", "D": "DD->D"}),
    "solve_triangular": _MatrixLoop("solve", {"d": "dd->d", "D": "DD->D"}),
    "eig": _MatrixLoop("eig", {"d": "d->DD", "D": "D->DD"}, needs_finite=True),
    "eigvals": _MatrixLoop("eigvals", {"d": "d->D", "D": "D->D"}, needs_finite=True),
    "eigh": _MatrixLoop("eigh_lo", {"d": "d->dd", "D": "D->dD"}),
    "eigvalsh": _MatrixLoop("eigvalsh_lo", {"d": "d->d", "D": "D->d"}),
    "lstsq": _find_least_squares,
    "svdvals": _MatrixLoop("svd", {"d": "d->d", "D": "D->d"}),
    "svd": _find_svd,
    "cholesky": _find_cholesky,
    "fft": _SignalLoop("fft", False),
    "ifft": _SignalLoop("ifft", True),
    "rfft": _SignalLoop("rfft", False),
    "irfft": _SignalLoop("irfft", True),
}


# --- bytecode for the fast path --------------------------------------------------------------------------------------

HEADER_WORDS, MAX_ARGUMENTS = 14, 8  # words of the header of a program, and maximal number of arguments
ARGUMENT_OPERAND, ARGUMENT_RESULT, ARGUMENT_CONSTANT, ARGUMENT_SCRATCH = range(4)  # the kinds of an argument
CALL_OPCODE = 0  # the opcode of such a program


def encode_call(
    loop: UfuncLoop,
    operands: Sequence[tuple[int, int, ByteLayout]],
    results: Sequence[ByteLayout],
    checked_floats: int,
    scratch_offsets: Sequence[int] = (),
) -> bytes | None:
    """Return the bytecode for a call of `loop` by generated code (`fastpath/emit/direct_calls.py`).

    Each of `operands` is the number of a tensor, an offset in bytes from the tensor's beginning, and the shape and strides; `results` have
    only the latter. The first operand has `checked_floats` floats to check, if the loop needs finite operands. `scratch_offsets` lists
    offsets in scratch memory for arguments without a tensor: for every operand, and then for as many results as entries remain.

    Return None if a single loop cannot walk the arrays, or for more than `MAX_ARGUMENTS` arguments.
    """
    words = encode_call_words(loop, operands, results, checked_floats, scratch_offsets)
    return None if words is None else struct.pack(f"={len(words)}q", *words) + loop.constant_bytes


def encode_call_words(
    loop: UfuncLoop,
    operands: Sequence[tuple[int, int, ByteLayout]],
    results: Sequence[ByteLayout],
    checked_floats: int,
    scratch_offsets: Sequence[int] = (),
) -> list[int] | None:
    """Return the bytecode for a call of `loop` by generated code as 64-bit words, without the constant of the loop, which follows the
    words.

    `operands`, `results`, `checked_floats` and `scratch_offsets` are those of `encode_call`. Return None if a single loop cannot walk the
    arrays, or for more than `MAX_ARGUMENTS` arguments.
    """
    loop_geometry = compute_geometry(loop, [*[layout for *_, layout in operands], *results])
    if loop_geometry is None:
        return None
    dimensions, steps = loop_geometry
    arguments = [(ARGUMENT_OPERAND, tensor, start) for tensor, start, _ in operands]
    arguments += [(ARGUMENT_RESULT, k, 0) for k in range(len(results))]
    arguments[: len(scratch_offsets)] = [(ARGUMENT_SCRATCH, 0, start) for start in scratch_offsets]
    if loop.constant_bytes:
        arguments.insert(len(operands), (ARGUMENT_CONSTANT, 0, 0))
    if len(arguments) > MAX_ARGUMENTS:
        return None
    at_dimensions = HEADER_WORDS + 3 * len(arguments)
    at_steps = at_dimensions + len(dimensions)
    at_constant = at_steps + len(steps)
    checked_count, first_result = dimensions[0] if loop.may_fail else 0, len(operands) + bool(loop.constant_bytes)
    head = (CALL_OPCODE, loop.function_address, loop.data_address, len(arguments), *[8 * k for k in (at_dimensions, at_steps, at_constant)])
    head += (
        checked_count,
        steps[first_result + loop.nan_result_index] if loop.may_fail else 0,
        checked_floats if loop.needs_finite else 0,
        first_result + loop.nan_result_index,
    )
    head += (first_result + loop.int32_result_index, dimensions[0] if loop.int32_result_index >= 0 else 0, int(loop.releases_gil))
    return [*head, *[word for argument in arguments for word in argument], *dimensions, *steps]
