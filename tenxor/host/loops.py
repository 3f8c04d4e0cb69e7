"""Direct calls of the C functions inside NumPy's ufuncs, on memory, without arrays around them.

NumPy's ufunc objects, whose fields are public (`ufuncobject.h`), hold C functions that compute a batch: `function(arguments, dimensions,
steps, data)`. Results equal NumPy's to the bit, and are written where they belong. Each function is first tried on a few numbers. If the
function does not give NumPy's results, NumPy is called instead.
"""

from __future__ import annotations

import ctypes
import importlib
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from inspect import signature
from itertools import pairwise
from math import prod
from re import findall
from typing import Any

import numpy as np

from ..dtypes import DType, complex64, complex128, float32, float64
from ..records import NamedTuple
from .interface import other_interface, refused
from .table import HOST, Array, HostOp

Seen = tuple[tuple[int, ...], tuple[int, ...]]  # a shape and strides in bytes
Geometry = tuple[tuple[int, ...], tuple[int, ...]]  # the arguments `dimensions` and `steps` of a loop
TRIED = 5  # elements of a signal in a trial


class Loop(NamedTuple):
    """A C function of a ufunc for operands of certain dtypes.

    `letters` name the core axes of each argument: first `operands` operands, then, if `between` is not empty, a constant with these bytes,
    then the results. If the function `fails` on a batch element, result number `failed` is NaN there. Result number `counts`, if not
    negative, holds 32-bit integers. Operands that must be `finite` are checked before the call. If `wider`, operands in single precision
    are converted to double precision and the results back, as in NumPy. With `lets_in`, the fast path releases the GIL for the call.
    """

    function: int
    data: int
    letters: tuple[tuple[str, ...], ...]
    operands: int
    between: bytes = b""
    fails: bool = False
    finite: bool = False
    wider: bool = False
    failed: int = 0
    counts: int = -1
    lets_in: bool = False


def loop_of(op: HostOp, dtypes: Sequence[DType], options: Mapping[str, Any]) -> Loop | None:
    """Return the loop of an operation on operands of these dtypes, or None if no function is known to give NumPy's results."""
    first, *others = dtypes
    if op.name not in _FINDERS or any([d is not first for d in others]) or other_interface():
        return None
    # Signals of even and of odd length have different functions.
    tried = tuple([(name, TRIED + (value - TRIED) % 2 if name == "n" else value) for name, value in options.items()])
    if not _is_proved(op, first, tried):
        return None
    return _found(op.name, first, tuple(options.items()))


def try_all() -> None:
    """Try a function of each operation, so that `refused` is complete."""
    some = {"n": TRIED, "norm": None, "upper": False, "full_matrices": False, "rcond": 1e-15}
    for name, find in _FINDERS.items():
        options = {option: some[option] for option in signature(find).parameters if option in some}
        for dtype in (float64, complex128, float32, complex64):
            loop_of(HOST[name], [dtype], options)


@lru_cache(maxsize=1024)
def _found(name: str, dtype: DType, options: tuple[tuple[str, Any], ...]) -> Loop | None:
    """Return the loop of an operation by name, or None."""
    return _FINDERS[name](dtype.numpy, **dict(options))


@lru_cache(maxsize=1024)
def _is_proved(op: HostOp, dtype: DType, options: tuple[tuple[str, Any], ...]) -> bool:
    """Return whether a loop exists and gives NumPy's results on a few numbers."""
    try:
        loop = _found(op.name, dtype, options)
    except (AttributeError, ImportError, LookupError) as error:  # NumPy has moved or changed it
        refused[op.name] = str(error)
        return False
    if loop is None:
        return False
    given = [_some(len(letters), dtype) for letters in loop.letters[: loop.operands]]
    wanted: Any = op.call(*given, **dict(options))
    every = wanted if isinstance(wanted, tuple) else (wanted,)
    found = [np.empty(x.shape, d.numpy) for x, d in zip(every, op.dtypes_of(dtype), strict=True)]
    if call(loop, given, found) and all([np.array_equal(x, y.astype(x.dtype)) for x, y in zip(found, every, strict=True)]):
        return True
    refused[op.name] = "it does not give what NumPy gives"
    return False


def _some(axes: int, dtype: DType) -> Array:
    """Return a batch of two signals (`axes` 1) or two positive definite matrices (`axes` 2), with elements that are not contiguous."""
    made: Array = np.zeros((2, *(6, 9)[:axes]) if axes == 2 else (2, 2 * TRIED), dtype.numpy)
    seen = made[:, ::-2, ::3] if axes == 2 else made[:, ::2]
    real = np.array([[9, 2, 1], [2, 8, 3], [1, 3, 7]] if axes == 2 else [9, 2, 6, 5, 7])
    other = np.array([[0, 1, -1], [-1, 0, 2], [1, -2, 0]] if axes == 2 else [1, 0, -2, 4, 3])
    seen[0] = real + other * 1j if dtype.is_complex else real
    seen[1] = seen[0] * 2 + (np.eye(3) if axes == 2 else 1)
    return seen


# --- layouts of arguments ---------------------------------------------------------------------------------------------


def geometry(loop: Loop, seen: Sequence[Seen]) -> Geometry | None:
    """Return the dimensions and steps for calling a loop on operands and results with the given shapes and strides.

    Return None if a single loop cannot walk the batch, if an array is empty, or if sizes do not match.
    """
    between = [((), ())] if loop.between else []
    every = [*seen[: loop.operands], *between, *seen[loop.operands :]]
    sizes: dict[str, int] = {}  # in the order of first occurrence, as ufuncs number their core dimensions
    leads = [len(shape) - len(own) for own, (shape, _) in zip(loop.letters, every, strict=True)]
    for own, (shape, _), lead in zip(loop.letters, every, leads, strict=True):
        for letter, size in zip(own, shape[lead:], strict=True):
            if sizes.setdefault(letter, size) != size:
                return None
    whole = every[-1][0][: leads[-1]]
    if 0 in sizes.values() or 0 in whole:
        return None
    outer = []
    for (shape, strides), lead in zip(every, leads, strict=True):
        known = [0 if n == 1 else s for n, s in zip(shape[:lead], strides[:lead], strict=True)]
        step = one_step(whole, [0] * (len(whole) - lead) + known)
        if step is None:
            return None
        outer.append(step)
    core = [s for (_, strides), lead in zip(every, leads, strict=True) for s in strides[lead:]]
    return (prod(whole), *sizes.values()), (*outer, *core)


def one_step(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """Return the constant distance between neighbours in row-major order, 0 for a single element; None if the distance varies."""
    axes = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    if any([outer != n * inner for (_, outer), (n, inner) in pairwise(axes)]):
        return None
    return axes[-1][1] if axes else 0


def call(loop: Loop, operands: Sequence[Array], results: Sequence[Array]) -> bool:
    """Call a loop on arrays without the GIL, and return whether the call succeeded.

    The call fails if one loop cannot walk the arrays, if an operand must be finite and is not, or if a batch element has no result.
    """
    if loop.wider:
        return _call_wider(loop, operands, results)
    every = [*operands, *results]
    found = geometry(loop, [(x.shape, x.strides) for x in every])
    if found is None or (loop.finite and not all([np.isfinite(x).all() for x in operands])):
        return False
    if loop.counts >= 0:
        results[loop.counts].fill(0)  # the loop writes only the lower half of each
    places = [x.__array_interface__["data"][0] for x in every]
    between = ctypes.create_string_buffer(loop.between, len(loop.between) or 1)
    if loop.between:
        places.insert(loop.operands, ctypes.addressof(between))
    dimensions, steps = found
    words = [(ctypes.c_int64 * len(some))(*some) for some in (places, dimensions, steps)]
    _function(loop.function)(*words, loop.data)
    corner: Any = (..., *[0] * len(loop.letters[loop.failed - len(results)]))  # a failed batch element is NaN everywhere
    return not (loop.fails and np.isnan(results[loop.failed][corner]).any())


def _call_wider(loop: Loop, operands: Sequence[Array], results: Sequence[Array]) -> bool:
    """Call a loop on copies in double precision, round the results, and return whether the call succeeded."""
    wide = [np.empty(x.shape, WIDER.get(x.dtype.char, x.dtype)) for x in results]
    with np.errstate(all="ignore"):  # values too large for single precision become infinite
        if not call(loop._replace(wider=False), [x.astype(WIDER[x.dtype.char]) for x in operands], wide):
            return False
        for x, y in zip(results, wide, strict=True):
            np.copyto(x, y, casting="same_kind")
    return True


@cache
def _function(address: int) -> Callable[..., None]:
    """Return a ufunc's C function as a ctypes function."""
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


def _of_ufunc(ufunc: Any, types: str, **more: Any) -> Loop:
    """Return the loop of a ufunc for types like "d->d". Raise LookupError if the ufunc lacks the loop or has another memory layout."""
    if types not in ufunc.types:
        raise LookupError(f"{ufunc.__name__} has no {types}")
    said = _UFunc.from_address(id(ufunc) + object.__basicsize__)
    facts = (ufunc.nin, ufunc.nout, ufunc.nargs, len(ufunc.types))
    if (said.nin, said.nout, said.nargs, said.ntypes) != facts or said.name != ufunc.__name__.encode():
        raise LookupError("its parts are not where they are looked for")
    k = ufunc.types.index(types)
    function, data = [table and (ctypes.c_void_p * said.ntypes).from_address(table)[k] for table in (said.functions, said.data)]
    if not function:
        raise LookupError("it has no function of C")
    letters = tuple([tuple(findall(r"\w+", part)) for part in findall(r"\((.*?)\)", ufunc.signature)])
    return Loop(function, data or 0, letters, said.nin - bool(more.get("between")), **more)


def _of_matrices(name: str, types: Mapping[str, str], **more: Any) -> Callable[..., Loop | None]:
    """Return a finder of the loop `name` of `linalg`. `types` maps the dtype of the operands to the types of the loop.

    Matrices in single precision use the loop for double precision, as in NumPy.
    """

    def find(dtype: Any, **_: Any) -> Loop | None:
        """Return the loop for a dtype, or None."""
        wide = WIDER.get(dtype.char, dtype.char)
        if wide not in types:
            return None
        return _of_ufunc(getattr(np.linalg._umath_linalg, name), types[wide], fails=True, wider=wide != dtype.char, **more)

    return find


def loop_of_matrices(name: str, types: str) -> Loop:
    """Return a loop of `linalg` for an operation without failures. Raise LookupError or AttributeError if NumPy lacks the loop."""
    return _of_ufunc(getattr(np.linalg._umath_linalg, name), types)


def _of_signal(name: str, backward: bool) -> Callable[..., Loop | None]:
    """Return a finder of the loop of a Fourier transform, with the scaling factor of the results as the loop's constant.

    NumPy's factor is an integer if nothing is scaled, so NumPy then computes in double precision.
    """

    def find(dtype: Any, n: int, norm: str | None) -> Loop | None:
        """Return the loop for a dtype, a length and a normalization, or None."""
        if dtype.char not in ("df" if name == "rfft" else "DF"):
            return None
        transforms = importlib.import_module("numpy.fft._pocketfft_umath")
        own = {"rfft": "rfft_n_odd" if n % 2 else "rfft_n_even"}.get(name, name)
        plain = (norm or "backward") == ("forward" if backward else "backward")
        given = WIDER.get(dtype.char, dtype.char) if plain else dtype.char
        part = given.lower()
        scale = 1.0 if plain else np.reciprocal(np.sqrt(n, dtype=part) if norm == "ortho" else n, dtype=part)
        types = f"{given}{part}->{part if name == 'irfft' else part.upper()}"
        return _of_ufunc(getattr(transforms, own), types, between=struct.pack(f"={part}", scale), wider=given != dtype.char)

    return find


def _of_least_squares(dtype: Any, rcond: float) -> Loop | None:
    """Return the loop for least squares with at least as many rows as columns.

    The residuals of a rank-deficient matrix are NaN, which counts as a failure.
    """
    wide = WIDER.get(dtype.char, dtype.char)
    types = {"d": "ddd->ddid", "D": "DDd->Ddid"}.get(wide)
    if types is None or sys.byteorder != "little":
        return None
    more = {"fails": True, "failed": 1, "counts": 2, "wider": wide != dtype.char}
    return _of_ufunc(np.linalg._umath_linalg.lstsq, types, between=struct.pack("=d", rcond), **more)


WIDER = {"f": "d", "F": "D"}
_SAME = {"d": "d->d", "D": "D->D"}
_FINDERS: dict[str, Callable[..., Loop | None]] = {
    "inv": _of_matrices("inv", _SAME),
    "det": _of_matrices("det", _SAME),
    "slogdet": _of_matrices("slogdet", {"d": "d->dd", "D": "D->Dd"}),
    "solve": _of_matrices("solve", {"d": "dd->d", "D": "DD->D"}),
    "solve_triangular": _of_matrices("solve", {"d": "dd->d", "D": "DD->D"}),
    "eig": _of_matrices("eig", {"d": "d->DD", "D": "D->DD"}, finite=True),
    "eigvals": _of_matrices("eigvals", {"d": "d->D", "D": "D->D"}, finite=True),
    "eigh": _of_matrices("eigh_lo", {"d": "d->dd", "D": "D->dD"}),
    "eigvalsh": _of_matrices("eigvalsh_lo", {"d": "d->d", "D": "D->d"}),
    "lstsq": lambda dtype, rcond: _of_least_squares(dtype, rcond),
    "svdvals": _of_matrices("svd", {"d": "d->d", "D": "D->d"}),
    "svd": lambda dtype, full_matrices: _of_matrices("svd_f" if full_matrices else "svd_s", {"d": "d->ddd", "D": "D->DdD"})(dtype),
    "cholesky": lambda dtype, upper: _of_matrices("cholesky_up" if upper else "cholesky_lo", _SAME)(dtype),
    "fft": _of_signal("fft", False),
    "ifft": _of_signal("ifft", True),
    "rfft": _of_signal("rfft", False),
    "irfft": _of_signal("irfft", True),
}


# --- bytecode for the fast path --------------------------------------------------------------------------------------

HEAD, MOST = 14, 8  # words of the header of a program, and maximal number of arguments
OPERAND, RESULT, CONSTANT, APART = range(4)  # the kinds of an argument
CALL = 0  # the opcode of such a program


def program(
    loop: Loop, operands: Sequence[tuple[int, int, Seen]], results: Sequence[Seen], floats: int, apart: Sequence[int] = ()
) -> bytes | None:
    """Return the bytecode for a call of a loop by generated code (`shortcut/code/looping.py`), or None if the call is not possible.

    An operand is given as the number of a tensor, an offset in bytes from the tensor's beginning, and the shape and strides. The first
    operand has `floats` floats to check, if the loop needs finite operands. `apart` lists offsets in scratch memory for arguments that are
    no tensors: for every operand, and then for as many results as entries remain.
    """
    words = words_of(loop, operands, results, floats, apart)
    return None if words is None else struct.pack(f"={len(words)}q", *words) + loop.between


def words_of(
    loop: Loop, operands: Sequence[tuple[int, int, Seen]], results: Sequence[Seen], floats: int, apart: Sequence[int] = ()
) -> list[int] | None:
    """Return the 64-bit words of `program`, without the constant after them; None if the call is not possible."""
    found = geometry(loop, [*[seen for *_, seen in operands], *results])
    if found is None:
        return None
    dimensions, steps = found
    arguments = [(OPERAND, which, start) for which, start, _ in operands]
    arguments += [(RESULT, k, 0) for k in range(len(results))]
    arguments[: len(apart)] = [(APART, 0, start) for start in apart]
    if loop.between:
        arguments.insert(len(operands), (CONSTANT, 0, 0))
    if len(arguments) > MOST:
        return None
    at_dimensions = HEAD + 3 * len(arguments)
    at_steps = at_dimensions + len(dimensions)
    at_constant = at_steps + len(steps)
    looked_at, first = dimensions[0] if loop.fails else 0, len(operands) + bool(loop.between)
    head = (CALL, loop.function, loop.data, len(arguments), *[8 * k for k in (at_dimensions, at_steps, at_constant)])
    head += (looked_at, steps[first + loop.failed] if loop.fails else 0, floats if loop.finite else 0, first + loop.failed)
    head += (first + loop.counts, dimensions[0] if loop.counts >= 0 else 0, int(loop.lets_in))
    return [*head, *[word for argument in arguments for word in argument], *dimensions, *steps]
