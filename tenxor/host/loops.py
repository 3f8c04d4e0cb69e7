"""The functions of C that NumPy's own come down to, called where elements lie, without arrays around them.

NumPy's ufuncs and generalised ufuncs say in their objects, whose parts are public (`ufuncobject.h`), which function of C computes how many
members of a batch: `function(arguments, dimensions, steps, data)`. Results are NumPy's to the bit, and written where they belong. What is
not as it is believed to be is not used: each function is tried on a few numbers first, and where it does not give what NumPy gives NumPy is
called.
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

Seen = tuple[tuple[int, ...], tuple[int, ...]]  # a shape, and strides in bytes
Geometry = tuple[tuple[int, ...], tuple[int, ...]]  # the dimensions that a loop is told, and the steps
TRIED = 5  # elements of a signal


class Loop(NamedTuple):
    """A function of C for operands of certain dtypes. `letters` are what the axes of one member of each argument are called: first so many
    `operands`, then, if there is one, a number that lies in memory as it is `between`, then the results. What `fails` gives NaN then, in
    the result that is the `failed` one; one result may be `counts`, integers of 32 bits. The operand of one that is to be `finite` is
    looked at before. If it is `wider`, it computes in double precision, as NumPy does, what is in single precision before and after.
    If it takes long it `lets_in` other threads of Python's.
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
    """The loop of an operation on operands of these dtypes; None if there is none that is known to do what NumPy does."""
    first, *others = dtypes
    if op.name not in _FINDERS or any([d is not first for d in others]) or other_interface():
        return None
    # Signals of even and of odd lengths have functions of their own.
    tried = tuple([(name, TRIED + (value - TRIED) % 2 if name == "n" else value) for name, value in options.items()])
    if not _is_proved(op, first, tried):
        return None
    return _found(op.name, first, tuple(options.items()))


def try_all() -> None:
    """Try a function of each operation, so that `refused` tells of all."""
    some = {"n": TRIED, "norm": None, "upper": False, "full_matrices": False, "rcond": 1e-15}
    for name, find in _FINDERS.items():
        options = {option: some[option] for option in signature(find).parameters if option in some}
        for dtype in (float64, complex128, float32, complex64):
            loop_of(HOST[name], [dtype], options)


@lru_cache(maxsize=1024)
def _found(name: str, dtype: DType, options: tuple[tuple[str, Any], ...]) -> Loop | None:
    """What there is."""
    return _FINDERS[name](dtype.numpy, **dict(options))


@lru_cache(maxsize=1024)
def _is_proved(op: HostOp, dtype: DType, options: tuple[tuple[str, Any], ...]) -> bool:
    """Whether there is a loop, and it gives of a few numbers what NumPy gives."""
    try:
        loop = _found(op.name, dtype, options)
    except (AttributeError, ImportError, LookupError) as error:  # NumPy has moved it, or has it otherwise
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
    """A batch of two signals or matrices, positive definite ones, whose elements are not neighbours."""
    made: Array = np.zeros((2, *(6, 9)[:axes]) if axes == 2 else (2, 2 * TRIED), dtype.numpy)
    seen = made[:, ::-2, ::3] if axes == 2 else made[:, ::2]
    real = np.array([[9, 2, 1], [2, 8, 3], [1, 3, 7]] if axes == 2 else [9, 2, 6, 5, 7])
    other = np.array([[0, 1, -1], [-1, 0, 2], [1, -2, 0]] if axes == 2 else [1, 0, -2, 4, 3])
    seen[0] = real + other * 1j if dtype.is_complex else real
    seen[1] = seen[0] * 2 + (np.eye(3) if axes == 2 else 1)
    return seen


# --- where arguments lie ----------------------------------------------------------------------------------------------


def geometry(loop: Loop, seen: Sequence[Seen]) -> Geometry | None:
    """The dimensions and steps for operands and results that lie so; None if no single loop walks the batch, there is no element, or sizes
    do not fit.
    """
    between = [((), ())] if loop.between else []
    every = [*seen[: loop.operands], *between, *seen[loop.operands :]]
    sizes: dict[str, int] = {}  # in the order in which letters are first met, as loops are told them
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
    """How far apart neighbours in row-major order lie, if that is the same for all; 0 if there is one element."""
    axes = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    if any([outer != n * inner for (_, outer), (n, inner) in pairwise(axes)]):
        return None
    return axes[-1][1] if axes else 0


def call(loop: Loop, operands: Sequence[Array], results: Sequence[Array]) -> bool:
    """Call a loop without Python's lock; False if it cannot walk these arrays, or failed."""
    if loop.wider:
        return _call_wider(loop, operands, results)
    every = [*operands, *results]
    found = geometry(loop, [(x.shape, x.strides) for x in every])
    if found is None or (loop.finite and not all([np.isfinite(x).all() for x in operands])):
        return False
    if loop.counts >= 0:
        results[loop.counts].fill(0)  # of which the lower half is written
    places = [x.__array_interface__["data"][0] for x in every]
    between = ctypes.create_string_buffer(loop.between, len(loop.between) or 1)
    if loop.between:
        places.insert(loop.operands, ctypes.addressof(between))
    dimensions, steps = found
    words = [(ctypes.c_int64 * len(some))(*some) for some in (places, dimensions, steps)]
    _function(loop.function)(*words, loop.data)
    corner: Any = (..., *[0] * len(loop.letters[loop.failed - len(results)]))  # what failed is NaN all over
    return not (loop.fails and np.isnan(results[loop.failed][corner]).any())


def _call_wider(loop: Loop, operands: Sequence[Array], results: Sequence[Array]) -> bool:
    """The same by way of arrays in double precision."""
    wide = [np.empty(x.shape, WIDER.get(x.dtype.char, x.dtype)) for x in results]
    with np.errstate(all="ignore"):  # what is too large for single precision is infinite
        if not call(loop._replace(wider=False), [x.astype(WIDER[x.dtype.char]) for x in operands], wide):
            return False
        for x, y in zip(results, wide, strict=True):
            np.copyto(x, y, casting="same_kind")
    return True


@cache
def _function(address: int) -> Callable[..., None]:
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(address)


# --- where functions are ----------------------------------------------------------------------------------------------


class _UFunc(ctypes.Structure):  # what comes behind the head of every object
    _fields_ = (
        *[(name, ctypes.c_int) for name in ("nin", "nout", "nargs", "identity")],
        *[(name, ctypes.c_void_p) for name in ("functions", "data")],
        *[(name, ctypes.c_int) for name in ("ntypes", "reserved")],
        ("name", ctypes.c_char_p),
    )


def _of_ufunc(ufunc: Any, types: str, **more: Any) -> Loop:
    """The loop that a ufunc has for some types; LookupError if it is made otherwise."""
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
    """Matrices in double precision: NumPy computes with others in it, too, and rounds the results."""

    def find(dtype: Any, **_: Any) -> Loop | None:
        wide = WIDER.get(dtype.char, dtype.char)
        if wide not in types:
            return None
        return _of_ufunc(getattr(np.linalg._umath_linalg, name), types[wide], fails=True, wider=wide != dtype.char, **more)

    return find


def loop_of_matrices(name: str, types: str) -> Loop:
    """One that finds nothing with which it cannot go on; LookupError or AttributeError if there is none."""
    return _of_ufunc(getattr(np.linalg._umath_linalg, name), types)


def _of_signal(name: str, backward: bool) -> Callable[..., Loop | None]:
    """Transforms, with the number by which results are multiplied. NumPy has an integer where that is 1, so it computes in double precision
    then.
    """

    def find(dtype: Any, n: int, norm: str | None) -> Loop | None:
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
    """Equations of as many rows as columns at least. Where a matrix has less than its full rank NumPy does not tell what is left: NaN."""
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


# --- for machine code -------------------------------------------------------------------------------------------------

HEAD, MOST = 14, 8  # words at the beginning of a program, and arguments at the most
OPERAND, RESULT, CONSTANT, APART = range(4)  # what an argument is
CALL = 0  # with which programs of this kind begin


def program(
    loop: Loop, operands: Sequence[tuple[int, int, Seen]], results: Sequence[Seen], floats: int, apart: Sequence[int] = ()
) -> bytes | None:
    """How machine code (`shortcut/code/looping.py`) calls a loop, in words; None if it cannot. Of each operand: which of the given
    tensors it reads, how many bytes beyond where that begins, and how it lies. The first has so many `floats`, where these are to be
    finite. Those that lie in memory `apart`, so many bytes from its beginning, are no tensors: all operands, and then as many results as
    it tells of.
    """
    words = words_of(loop, operands, results, floats, apart)
    return None if words is None else struct.pack(f"={len(words)}q", *words) + loop.between


def words_of(
    loop: Loop, operands: Sequence[tuple[int, int, Seen]], results: Sequence[Seen], floats: int, apart: Sequence[int] = ()
) -> list[int] | None:
    """The words of that, but for a constant that a loop has behind them."""
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
