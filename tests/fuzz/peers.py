"""Calls of functions that have one name here and in NumPy, within the arguments that both have: the results are equal.

A function may refuse what NumPy takes, with an error of ours that says so. Where both give a result it is the same: shape, dtype and
values; but for the differences in `DIFFERENT`, whose reasons `docs/coming-from/numpy.md` gives.
"""

from __future__ import annotations

import inspect
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import tenxor as tx
from tenxor.errors import TenxorError

Array = np.ndarray[Any, Any]
Random = random.Random
DTYPES = (
    "float64",
    "float64",
    "float32",
    "int64",
    "int32",
    "int8",
    "uint8",
    "bool",
    "complex128",
    "float16",
    "uint64",
    "complex64",
)


def array(rng: Random, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> Array:
    """Return an array of few elements, of any dtype: small integers, some fractions, and NaN or infinity among floats at times."""
    shape = tuple([rng.choice((0, 1, 2, 3, 4)) for _ in range(rng.randrange(4))]) if shape is None else shape
    dtype = rng.choice(DTYPES) if dtype is None else dtype
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    found = numbers.integers(0 if dtype[0] in "ub" else -6, 7, shape).astype(dtype)
    if found.dtype.kind in "fc" and rng.random() < 0.5:
        found = found / found.dtype.type(4)
    if found.dtype.kind == "f" and found.size and rng.random() < 0.15:
        found.flat[rng.randrange(found.size)] = rng.choice((np.nan, np.inf, -np.inf, -0.0))
    return found


def integer(rng: Random) -> int:
    return rng.choice((-3, -2, -1, 0, 0, 1, 1, 2, 3, 5))


def shape(rng: Random) -> Any:
    return rng.choice(((), (2,), (2, 3), 4, (0, 2), (3, 1)))


def positions(rng: Random) -> Array:
    return array(rng, rng.choice(((2,), (3,), (2, 2), ())), "int64") % 3


def several(rng: Random) -> list[Array]:
    """Return a few arrays, often of one shape."""
    first = array(rng)
    return [first, *[array(rng, first.shape if rng.random() < 0.8 else None) for _ in range(rng.randrange(3))]]


def alike(rng: Random, before: list[Any]) -> Array:
    """Return an array that often fits the one before."""
    like = before[0].shape if before and isinstance(before[0], np.ndarray) else None
    if like and rng.random() < 0.3:
        like = like[1:]
    return array(rng, like if rng.random() < 0.85 else None)


Draw = Callable[[Random], Any]
ONE: tuple[Any, ...] = (array,)
TWO: tuple[Any, ...] = (array, alike)


def drawn_from(*choices: Any) -> Draw:
    return lambda rng: rng.choice(choices)


def _words(text: str) -> list[str]:
    return text.split()


# What functions are given by place.
GIVEN: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        _words(
            "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp exp2 expm1 floor isfinite isinf isnan log log10"
            " log1p log2 logical_not negative positive reciprocal round sign signbit sin sinh sqrt square tan tanh trunc real imag all any"
            " amax amin argmax argmin argsort argwhere array asarray atleast_1d atleast_2d atleast_3d bincount count_nonzero"
            " cumprod cumsum cumulative_prod cumulative_sum diag diagonal diff empty_like flip gradient histogram histogram_bin_edges"
            " matrix_transpose max mean median min nonzero ones_like permute_dims prod ravel sort squeeze std sum transpose tril triu"
            " unique_all unique_counts unique_inverse unstack var zeros_like"
        ),
        ONE,
    ),
    **dict.fromkeys(
        _words(
            "add allclose array_equal array_equiv atan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift copysign"
            " divide divmod dot equal floor_divide fmod greater greater_equal hypot inner isclose isin less less_equal logaddexp"
            " logical_and logical_or logical_xor matmul maximum minimum multiply nextafter"
            " not_equal outer pow remainder subtract tensordot vecdot"
        ),
        TWO,
    ),
    **dict.fromkeys(_words("concat concatenate stack hstack vstack dstack column_stack"), (several,)),
    **dict.fromkeys(_words("empty ones zeros"), (shape,)),
    **dict.fromkeys(_words("bartlett blackman hamming hanning"), (drawn_from(0, 1, 2, 7),)),
    **dict.fromkeys(_words("array_split hsplit vsplit dsplit split"), (array, drawn_from(1, 2, 3, [1], [1, 2], [0, 9]))),
    **dict.fromkeys(_words("quantile"), (array, drawn_from(0.0, 0.25, 1.0, [0.1, 0.5]))),
    "percentile": (array, drawn_from(0, 25, 100, [10, 50.0])),
    "arange": (integer, integer, drawn_from(1, 2, -1, 0.5)),
    "astype": (array, drawn_from("float64", "int64", "bool", "float32", "uint8", "complex128")),
    "broadcast_to": (array, drawn_from((2, 3), (3, 2, 4), (4,), ())),
    "clip": (array, drawn_from(-1, 0, 1.5, None), drawn_from(2, 3.5, None)),
    "digitize": (array, drawn_from(np.array([-1.0, 0.0, 2.0]), np.array([3, 1, 0]))),
    "expand_dims": (array, drawn_from(0, -1, 1, (0, 1), (0, -1))),
    "eye": (drawn_from(0, 2, 4), drawn_from(None, 3, 1), drawn_from(0, 1, -1)),
    "full": (shape, drawn_from(0, 1.5, True, -3)),
    "full_like": (array, drawn_from(0, 1.5, True)),
    "geomspace": (drawn_from(1, 2.0), drawn_from(8, 1000.0), drawn_from(1, 4, 7)),
    "indices": (drawn_from((2, 3), (1,), (0, 2)),),
    "interp": (array, drawn_from(np.array([0.0, 1.0, 3.0])), drawn_from(np.array([1.0, -1.0, 4.0]))),
    "kaiser": (drawn_from(0, 1, 5), drawn_from(0.0, 14.0)),
    "lexsort": (lambda rng: [array(rng, (4,), "int64"), array(rng, (4,), "float64")],),
    "linspace": (integer, integer, drawn_from(0, 1, 2, 5)),
    "logspace": (drawn_from(0, 1), drawn_from(2, 3.5), drawn_from(1, 3)),
    "moveaxis": (array, drawn_from(0, -1, (0, 1)), drawn_from(1, 0, (1, 0))),
    "pad": (array, drawn_from(1, (1, 2), ((1, 0), (2, 2)), 0)),
    "repeat": (array, drawn_from(2, 0, 1, [1, 2])),
    "reshape": (array, drawn_from(-1, (1, -1), (2, -1), (-1, 3))),
    "roll": (array, drawn_from(1, -2, 7, (1, 2))),
    "searchsorted": (lambda rng: np.sort(array(rng, (5,), rng.choice(("float64", "int64")))), array),
    "swapaxes": (array, drawn_from(0, -1, 1), drawn_from(0, 1, -1)),
    "take": (array, positions),
    "take_along_axis": (array, lambda rng, before: np.zeros(before[0].shape, "int64")),
    "tile": (array, drawn_from(2, (2, 1), (1, 2, 2), 0)),
    "where": (lambda rng: array(rng, dtype="bool"), alike, alike),
}

AXIS = drawn_from(0, -1, 1, None, (0, 1), (0,), -2)
# What they are given by name, where both have the name.
NAMED: dict[str, Draw] = {
    "axis": AXIS,
    "keepdims": drawn_from(True, False),
    "dtype": drawn_from("float64", "int64", "float32", None),
    "ddof": drawn_from(0, 1, 2),
    "correction": drawn_from(0, 1),
    "initial": drawn_from(0, 1, 5),
    "include_initial": drawn_from(True, False),
    "decimals": drawn_from(0, 1, -1),
    "stable": drawn_from(True),
    "offset": drawn_from(0, 1, -2),
    "axis1": drawn_from(0, 1),
    "axis2": drawn_from(1, -1),
    "k": drawn_from(0, 1, -1, 5),
    "side": drawn_from("left", "right"),
    "right": drawn_from(True, False),
    "equal_nan": drawn_from(True, False),
    "rtol": drawn_from(1e-3, 0.5),
    "invert": drawn_from(True, False),
    "endpoint": drawn_from(True, False),
    "indexing": drawn_from("xy", "ij"),
    "sparse": drawn_from(True, False),
    "order": drawn_from("C", "F"),
    "mode": drawn_from(
        "clip",
        "wrap",
        "edge",
        "reflect",
        "symmetric",
        "constant",
        "linear_ramp",
        "mean",
        "maximum",
        "minimum",
        "median",
    ),
    "method": drawn_from("linear", "lower", "higher", "nearest", "midpoint", "median_unbiased"),
    "n": drawn_from(0, 1, 2),
    "minlength": drawn_from(0, 9),
    "bins": drawn_from(4, [0.0, 1.0, 3.0]),
    "density": drawn_from(True, False),
    "edge_order": drawn_from(1, 2),
    "left": drawn_from(-9.0),
    "base": drawn_from(2.0, 10.0),
    "axes": drawn_from(1, 2, 0, (1, 0), None),
    "end_values": drawn_from(3, 0),
    "stat_length": drawn_from(1, 2, 0),
    "reflect_type": drawn_from("even", "odd"),
    "constant_values": drawn_from(7, (1, 2)),
}


def _of_integers(args: list[Any], named: dict[str, Any]) -> bool:
    """Return whether all operands are integers or booleans."""
    return all(x.dtype.kind in "iub" for x in args if isinstance(x, np.ndarray | np.generic))


def _of_float16(args: list[Any], named: dict[str, Any]) -> bool:
    return args[0].dtype == np.float16


def _is_infinite(args: list[Any], named: dict[str, Any]) -> bool:
    return any(x.dtype.kind == "f" and not np.isfinite(x).all() for x in args if isinstance(x, np.ndarray))


def _to_integers(args: list[Any], named: dict[str, Any]) -> bool:
    """Return whether a number is cast that the integers of a dtype do not have, for which C has no rule."""
    dtype = named.get("dtype") or (args[1] if len(args) > 1 else None)
    x = args[0]
    return x.dtype.kind in "fc" and np.dtype(dtype).kind in "iu" and not (np.isfinite(x) & (x.real >= 0)).all()


# By name: for which arguments results differ from NumPy's. Each line of the table in docs/coming-from/numpy.md gives the reason.
FUNCTIONS_OF_REALS = _words(
    "acos acosh asin asinh atan atan2 atanh copysign cos cosh exp exp2 expm1 hypot log log10 log1p log2 logaddexp nextafter reciprocal sin"
    " sinh sqrt tan tanh"
)
DIFFERENT: dict[str, Callable[[list[Any], dict[str, Any]], bool]] = {
    **dict.fromkeys(FUNCTIONS_OF_REALS, _of_integers),
    **dict.fromkeys(["histogram", "histogram_bin_edges"], _of_float16),
    **dict.fromkeys(_words("astype array asarray sum prod cumsum cumprod cumulative_sum cumulative_prod"), _to_integers),
    "argsort": lambda args, named: not named.get("stable"),
    "arange": lambda args, named: named.get("dtype") == "int64" and 0.5 in args,
    **dict.fromkeys(["floor_divide", "divmod"], _is_infinite),
    "indices": lambda args, named: "dtype" in named and named["dtype"] is None,
    "mean": lambda args, named: named.get("dtype") == "int64",
    "percentile": lambda args, named: args[0].dtype.itemsize < 8 or _is_infinite(args, named),
    "quantile": lambda args, named: args[0].dtype.itemsize < 8 or _is_infinite(args, named),
    "square": lambda args, named: args[0].dtype == bool,
}


def names_of(name: str) -> list[str]:
    """Return the names of arguments that both libraries take, and that can be drawn."""
    theirs = getattr(np, name)
    parameters = list(inspect.signature(getattr(tx, name)).parameters.values())
    ours = {p.name for p in parameters[len(GIVEN[name]) :] if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    known = () if isinstance(theirs, np.ufunc) else inspect.signature(theirs).parameters
    extra = ("end_values", "stat_length", "reflect_type", "constant_values") if name == "pad" else ()
    return [n for n in (*known, *extra) if n in ours and n in NAMED]


def check(seed: int) -> None:
    """Call one function of both libraries with the same arguments."""
    rng = random.Random(seed)
    name = rng.choice(list(GIVEN))
    args: list[Any] = []
    for draw in GIVEN[name]:
        args.append(draw(rng, args) if len(inspect.signature(draw).parameters) == 2 and draw is not array else draw(rng))
    named = {n: NAMED[n](rng) for n in names_of(name) if rng.random() < 0.4}
    told = f"{name}({', '.join([*map(_shown, args), *[f'{n}={_shown(v)}' for n, v in named.items()]])})"
    with warnings.catch_warnings(action="ignore"):
        try:
            expected = getattr(np, name)(*_copied(args), **named)
        except Exception:  # whatever NumPy says of it
            expected = None
        try:
            result = getattr(tx, name)(*[_ours(x) for x in args], **{n: _ours(v) for n, v in named.items()})
            found = _read(result)
        except TenxorError:
            return
    differs = DIFFERENT.get(name)
    if expected is not None and "empty" not in name and not (differs is not None and differs(args, named)):
        _compare(told, found, expected)


def _copied(args: list[Any]) -> list[Any]:
    return [x.copy() if isinstance(x, np.ndarray) else x for x in args]


def _ours(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return tx.asarray(x)
    return [_ours(k) for k in x] if type(x) is list and x and isinstance(x[0], np.ndarray) else x


def _read(result: Any) -> Any:
    if isinstance(result, tuple | list):
        return [_read(x) for x in result]
    return result.to_numpy() if isinstance(result, tx.Tensor) else result


def _shown(x: Any) -> str:
    if isinstance(x, np.ndarray):
        return f"{x.dtype}{x.shape}{x.tolist() if x.size < 9 else ''}"
    return str([_shown(k) for k in x]) if type(x) is list and x and isinstance(x[0], np.ndarray) else repr(x)


def _compare(told: str, found: Any, expected: Any) -> None:
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected), f"{told}: {len(found)} results for {len(expected)}"
        for ours, theirs in zip(found, expected, strict=True):
            _compare(told, ours, theirs)
        return
    expected, found = np.asarray(expected), np.asarray(found)
    assert found.shape == expected.shape, f"{told}: shape {found.shape} for {expected.shape}"
    assert found.dtype == expected.dtype, f"{told}: dtype {found.dtype} for {expected.dtype}"
    if found.dtype.kind in "fc":
        near = {2: 4e-3, 4: 2e-5, 8: 1e-10 if found.dtype.kind == "f" else 2e-5, 16: 1e-10}[
            min(found.dtype.itemsize, expected.dtype.itemsize)
        ]
        with np.errstate(all="ignore"):
            assert np.allclose(found, expected, rtol=near, atol=near, equal_nan=True), f"{told}: {found.tolist()} for {expected.tolist()}"
    else:
        assert np.array_equal(found, expected), f"{told}: {found.tolist()} for {expected.tolist()}"
