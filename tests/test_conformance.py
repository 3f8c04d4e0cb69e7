"""The Python array API standard 2025.12, by tables: every name, how it is called, and which dtypes come of which.

The public tests (docs/conformance.md) draw examples for all that the standard says; these tables guard its surface without them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from math import inf, isnan, pi
from typing import Any

import numpy as np
import pytest

import tenxor as tx

P = inspect.Parameter
# By signature, in the standard's words.
CALLED: dict[str, dict[str, str]] = {
    "": {
        "start, /, stop=None, step=1, *, dtype=None, device=None": "arange",
        "obj, /, *, dtype=None, device=None, copy=None": "asarray",
        "shape, *, dtype=None, device=None": "empty ones zeros",
        "x, /, *, dtype=None, device=None": "empty_like ones_like zeros_like",
        "n_rows, n_cols=None, /, *, k=0, dtype=None, device=None": "eye",
        "x, /, *, device=None, copy=None": "from_dlpack",
        "shape, fill_value, *, dtype=None, device=None": "full",
        "x, /, fill_value, *, dtype=None, device=None": "full_like",
        "start, stop, /, num, *, dtype=None, device=None, endpoint=True": "linspace",
        "*arrays, indexing='xy'": "meshgrid",
        "x, /, *, k=0": "tril triu",
        "x, dtype, /, *, copy=True, device=None": "astype",
        "from_, to, /": "can_cast",
        "type, /": "finfo iinfo",
        "dtype, kind": "isdtype",
        "*arrays_and_dtypes": "result_type",
        "x, /": (
            "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log log1p"
            " log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh square sqrt tan tanh trunc"
            " matrix_transpose nonzero unique_all unique_counts unique_inverse unique_values"
        ),
        "x1, x2, /": (
            "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide"
            " greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply"
            " nextafter not_equal pow remainder subtract matmul"
        ),
        "x, /, min=None, max=None": "clip",
        "x, indices, /, *, axis=None": "take",
        "x, indices, /, *, axis=-1": "take_along_axis",
        "": "__array_namespace_info__",
        "x1, x2, /, *, axes=2": "tensordot",
        "x1, x2, /, *, axis=-1": "vecdot",
        "*arrays": "broadcast_arrays",
        "*shapes": "broadcast_shapes",
        "x, /, shape": "broadcast_to",
        "arrays, /, *, axis=0": "concat stack",
        "x, /, axis": "expand_dims squeeze",
        "x, /, *, axis=None": "flip",
        "x, source, destination, /": "moveaxis",
        "x, /, axes": "permute_dims",
        "x, repeats, /, *, axis=None": "repeat",
        "x, /, shape, *, copy=None": "reshape",
        "x, /, shift, *, axis=None": "roll",
        "x, repetitions, /": "tile",
        "x, /, *, axis=0": "unstack",
        "x, /, *, axis=None, keepdims=False": "argmax argmin count_nonzero max mean min all any",
        "x1, x2, /, *, side='left', sorter=None": "searchsorted",
        "condition, x1, x2, /": "where",
        "x1, x2, /, *, invert=False": "isin",
        "x, /, *, axis=-1, descending=False, stable=True": "argsort sort",
        "x, /, *, axis=None, dtype=None, include_initial=False": "cumulative_prod cumulative_sum",
        "x, /, *, axis=None, dtype=None, keepdims=False": "prod sum",
        "x, /, *, axis=None, correction=0.0, keepdims=False": "std var",
        "x, /, *, axis=-1, n=1, prepend=None, append=None": "diff",
    },
    "linalg": {
        "x, /, *, upper=False": "cholesky",
        "x1, x2, /, *, axis=-1": "cross vecdot",
        "x, /": "det eigh eigvalsh eig eigvals inv matrix_transpose slogdet svdvals",
        "x, /, *, offset=0": "diagonal",
        "x1, x2, /": "matmul outer solve",
        "x, /, *, keepdims=False, ord='fro'": "matrix_norm",
        "x, n, /": "matrix_power",
        "x, /, *, rtol=None": "matrix_rank pinv",
        "x, /, *, mode='reduced'": "qr",
        "x, /, *, full_matrices=True": "svd",
        "x1, x2, /, *, axes=2": "tensordot",
        "x, /, *, offset=0, dtype=None": "trace",
        "x, /, *, axis=None, keepdims=False, ord=2": "vector_norm",
    },
    "fft": {
        "x, /, *, n=None, axis=-1, norm='backward'": "fft ifft rfft irfft hfft ihfft",
        "x, /, *, s=None, axes=None, norm='backward'": "fftn ifftn rfftn irfftn",
        "n, /, *, d=1.0, dtype=None, device=None": "fftfreq rfftfreq",
        "x, /, *, axes=None": "fftshift ifftshift",
    },
    "__array_namespace_info__()": {
        "": "capabilities default_device devices",
        "*, device=None": "default_dtypes",
        "*, device=None, kind=None": "dtypes",
    },
}
ATTRIBUTES = "dtype device mT ndim shape size T"
METHODS = (
    "__abs__ __bool__ __complex__ __dlpack_device__ __float__ __index__ __int__ __invert__ __neg__ __pos__ __add__ __and__ __eq__"
    " __floordiv__ __ge__ __gt__ __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __or__ __pow__ __rshift__ __sub__"
    " __truediv__ __xor__ __array_namespace__ __dlpack__ __getitem__ __setitem__ to_device"
)
REFLECTED = "add and floordiv lshift matmul mod mul or pow rshift sub truediv xor"  # and in place


def functions() -> Iterator[Any]:
    for where, by_signature in CALLED.items():
        for signature, names in by_signature.items():
            for name in names.split():
                yield pytest.param(where, name, signature, id=f"{where}.{name}".lstrip("."))


def home(where: str) -> Any:
    return tx.__array_namespace_info__() if where.endswith("()") else getattr(tx, where) if where else tx


@pytest.mark.parametrize(("where", "name", "signature"), list(functions()))
def test_signature_accepts_the_calls_of_the_standard(where: str, name: str, signature: str) -> None:
    function: Callable[..., Any] = getattr(home(where), name)
    standard = list(inspect.signature(eval(f"lambda {signature}: None")).parameters.values())
    ours = list(inspect.signature(function).parameters.values())
    by_name = {p.name: p for p in ours if p.kind in (P.POSITIONAL_OR_KEYWORD, P.KEYWORD_ONLY)}
    for position, asked in enumerate(standard):
        if asked.kind is P.VAR_POSITIONAL:
            assert any(p.kind is P.VAR_POSITIONAL for p in ours)
            continue
        if asked.kind is P.KEYWORD_ONLY:
            parameter = by_name[asked.name]
        else:
            parameter = ours[position]
            assert parameter.kind in (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD)
            assert asked.kind is P.POSITIONAL_ONLY or (parameter.kind, parameter.name) == (asked.kind, asked.name)
        assert asked.default is P.empty or parameter.default == asked.default
    known_names = {p.name for p in standard} | {p.name for p in ours[: len(standard)]}
    assert all(p.default is not P.empty or p.kind is P.VAR_POSITIONAL for p in ours if p.name not in known_names)


POSITIONAL = "sort:1 argsort:1 searchsorted:2 linalg.qr:1 linalg.svd:1 fft.fftshift:1 fft.ifftshift:1 diff:2 round:1 take:2 repeat:2 roll:2"


@pytest.mark.parametrize("case", POSITIONAL.split())
def test_arguments_that_numpy_takes_by_position_can_be_given_by_position(case: str) -> None:
    """An argument that is keyword-only in the standard may be positional where NumPy programs write it so."""
    name, _, first = case.partition(":")
    where, _, name = name.rpartition(".")
    theirs = list(inspect.signature(getattr(getattr(np, where) if where else np, name)).parameters.values())
    ours = list(inspect.signature(getattr(home(where), name)).parameters.values())
    assert ours[int(first)].name == theirs[int(first)].name
    assert ours[int(first)].kind is P.POSITIONAL_OR_KEYWORD


def test_tensors_have_all_attributes_and_methods() -> None:
    t = tx.ones((2, 2))
    names = [*ATTRIBUTES.split(), *METHODS.split()]
    names += [f"__{prefix}{name}__" for name in REFLECTED.split() for prefix in ("r", "i")]
    assert [name for name in names if not hasattr(t, name)] == []


def test_constants_have_the_values_of_the_standard() -> None:
    assert (tx.pi, tx.inf, tx.newaxis) == (pi, inf, None) and isnan(tx.nan) and abs(tx.e - 2.718281828459045) < 1e-15


def test_linalg_and_fft_extensions_are_attributes() -> None:
    assert tx.linalg.inv and tx.fft.fft and {"linalg", "fft"} <= set(dir(tx))


INTEGERS = (tx.int8, tx.int16, tx.int32, tx.int64, tx.uint8, tx.uint16, tx.uint32, tx.uint64)
FLOATS, COMPLEX = (tx.float32, tx.float64), (tx.complex64, tx.complex128)
PART = {tx.complex64: tx.float32, tx.complex128: tx.float64}
WHOLE = {tx.float32: tx.complex64, tx.float64: tx.complex128}
SAME: Callable[[Any], Any] = lambda d: d
WIDE: Callable[[Any], Any] = lambda d: {"int": tx.int64, "uint": tx.uint64}.get(d.kind, d)
REAL: Callable[[Any], Any] = lambda d: PART.get(d, d)
TURNED: Callable[[Any], Any] = lambda d: WHOLE.get(d, d)
BOOL: Callable[[Any], Any] = lambda d: tx.bool
INDEX: Callable[[Any], Any] = lambda d: tx.int64
# By name: a function of a matrix, the dtypes that it takes, and the dtype of its result.
RESULT_DTYPES: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...], Callable[[Any], Any]]] = {
    "add": (lambda x: tx.add(x, x), (*INTEGERS, *FLOATS, *COMPLEX), SAME),
    "divide": (lambda x: tx.divide(x, x), (*FLOATS, *COMPLEX), SAME),
    "floor_divide": (lambda x: tx.floor_divide(x, x), (*INTEGERS, *FLOATS), SAME),
    "round": (tx.round, (*INTEGERS, *FLOATS, *COMPLEX), SAME),
    "abs": (tx.abs, (*INTEGERS, *FLOATS, *COMPLEX), REAL),
    "equal": (lambda x: x == x, (tx.bool, *INTEGERS, *FLOATS, *COMPLEX), BOOL),
    "less": (lambda x: x < x, (*INTEGERS, *FLOATS), BOOL),
    "isnan": (tx.isnan, (*INTEGERS, *FLOATS, *COMPLEX), BOOL),
    "sum": (tx.sum, (*INTEGERS, *FLOATS, *COMPLEX), WIDE),
    "prod": (tx.prod, (*INTEGERS, *FLOATS, *COMPLEX), WIDE),
    "cumulative_sum": (lambda x: tx.cumulative_sum(x, axis=0), (*INTEGERS, *FLOATS, *COMPLEX), WIDE),
    "mean": (tx.mean, (*FLOATS, *COMPLEX), SAME),
    "var": (tx.var, FLOATS, SAME),
    "max": (tx.max, (*INTEGERS, *FLOATS), SAME),
    "argmax": (tx.argmax, (*INTEGERS, *FLOATS), INDEX),
    "count_nonzero": (tx.count_nonzero, (tx.bool, *INTEGERS, *FLOATS, *COMPLEX), INDEX),
    "all": (tx.all, (tx.bool, *INTEGERS, *FLOATS, *COMPLEX), BOOL),
    "sort": (tx.sort, (*INTEGERS, *FLOATS), SAME),
    "argsort": (tx.argsort, (*INTEGERS, *FLOATS), INDEX),
    "searchsorted": (lambda x: tx.searchsorted(x[0], x), (*INTEGERS, *FLOATS), INDEX),
    "unique_values": (tx.unique_values, (tx.bool, *INTEGERS, *FLOATS, *COMPLEX), SAME),
    "unique_counts": (lambda x: tx.unique_counts(x).counts, (*INTEGERS, *FLOATS, *COMPLEX), INDEX),
    "unique_all": (lambda x: tx.unique_all(x).inverse_indices, (*INTEGERS, *FLOATS, *COMPLEX), INDEX),
    "matmul": (lambda x: x @ x, (*INTEGERS, *FLOATS, *COMPLEX), SAME),
    "vecdot": (lambda x: tx.vecdot(x, x), (*INTEGERS, *FLOATS, *COMPLEX), SAME),
    "cross": (lambda x: tx.linalg.cross(x, x), (*INTEGERS, *FLOATS, *COMPLEX), SAME),
    "trace": (tx.linalg.trace, (*INTEGERS, *FLOATS, *COMPLEX), WIDE),
    "inv": (tx.linalg.inv, (*FLOATS, *COMPLEX), SAME),
    "solve": (lambda x: tx.linalg.solve(x, x), (*FLOATS, *COMPLEX), SAME),
    "cholesky": (tx.linalg.cholesky, (*FLOATS, *COMPLEX), SAME),
    "qr": (lambda x: tx.linalg.qr(x).R, (*FLOATS, *COMPLEX), SAME),
    "svd": (lambda x: tx.linalg.svd(x).U, (*FLOATS, *COMPLEX), SAME),
    "svdvals": (tx.linalg.svdvals, (*FLOATS, *COMPLEX), REAL),
    "eigh": (lambda x: tx.linalg.eigh(x).eigenvectors, (*FLOATS, *COMPLEX), SAME),
    "eigvalsh": (tx.linalg.eigvalsh, (*FLOATS, *COMPLEX), REAL),
    "eig": (lambda x: tx.linalg.eig(x).eigenvectors, (*FLOATS, *COMPLEX), TURNED),
    "eigvals": (tx.linalg.eigvals, (*FLOATS, *COMPLEX), TURNED),
    "slogdet": (lambda x: tx.linalg.slogdet(x).logabsdet, (*FLOATS, *COMPLEX), REAL),
    "matrix_norm": (tx.linalg.matrix_norm, (*FLOATS, *COMPLEX), REAL),
    "vector_norm": (tx.linalg.vector_norm, (*FLOATS, *COMPLEX), REAL),
    "matrix_rank": (tx.linalg.matrix_rank, (*FLOATS, *COMPLEX), INDEX),
    "fft": (tx.fft.fft, (*FLOATS, *COMPLEX), TURNED),
    "ifftn": (tx.fft.ifftn, (*FLOATS, *COMPLEX), TURNED),
    "rfft": (tx.fft.rfft, FLOATS, TURNED),
    "irfft": (tx.fft.irfft, COMPLEX, REAL),
    "hfft": (tx.fft.hfft, COMPLEX, REAL),
    "ihfft": (tx.fft.ihfft, FLOATS, TURNED),
}


@pytest.mark.parametrize("name", RESULT_DTYPES)
def test_result_has_the_dtype_of_the_standard(name: str) -> None:
    function, dtypes, result = RESULT_DTYPES[name]
    for dtype in dtypes:
        x = tx.asarray([[4, 1, 1], [1, 5, 1], [1, 1, 6]]).astype(dtype)
        assert function(x).dtype is result(dtype), dtype


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (tx.unique_all, "values indices inverse_indices counts"),
        (tx.unique_counts, "values counts"),
        (tx.unique_inverse, "values inverse_indices"),
        (tx.linalg.eig, "eigenvalues eigenvectors"),
        (tx.linalg.eigh, "eigenvalues eigenvectors"),
        (tx.linalg.qr, "Q R"),
        (tx.linalg.slogdet, "sign logabsdet"),
        (tx.linalg.svd, "U S Vh"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_several_results_are_a_named_tuple(function: Callable[..., Any], names: str) -> None:
    results = function(tx.eye(3))
    assert isinstance(results, tuple) and results._fields == tuple(names.split())  # type: ignore[attr-defined]
