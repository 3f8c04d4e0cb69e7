"""Calls of functions that have one name here and in NumPy. `docs/coming-from/numpy.md` gives the reason of each difference."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import tenxor as tx

from .calls import (
    Arguments,
    Condition,
    Draw,
    Keywords,
    Peer,
    alike,
    are_integers,
    array,
    casts_beyond_integers,
    drawn_from,
    integer,
    is_infinite,
    positions,
    several,
    shape,
    words,
)

ONE: tuple[Draw, ...] = (array,)
TWO: tuple[Draw, ...] = (array, alike)

# The draws of positional arguments.
POSITIONAL: dict[str, tuple[Draw, ...]] = {
    **dict.fromkeys(
        words(
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
        words(
            "add allclose array_equal array_equiv atan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift copysign"
            " divide divmod dot equal floor_divide fmod greater greater_equal hypot inner isclose isin less less_equal logaddexp"
            " logical_and logical_or logical_xor matmul maximum minimum multiply nextafter"
            " not_equal outer pow remainder subtract tensordot vecdot"
        ),
        TWO,
    ),
    **dict.fromkeys(words("concat concatenate stack hstack vstack dstack column_stack"), (several,)),
    **dict.fromkeys(words("empty ones zeros"), (shape,)),
    **dict.fromkeys(words("bartlett blackman hamming hanning"), (drawn_from(0, 1, 2, 7),)),
    **dict.fromkeys(words("array_split hsplit vsplit dsplit split"), (array, drawn_from(1, 2, 3, [1], [1, 2], [0, 9]))),
    **dict.fromkeys(words("quantile"), (array, drawn_from(0.0, 0.25, 1.0, [0.1, 0.5]))),
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
# The draws of arguments that both functions take by name.
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


def _is_float16(args: Arguments, named: Keywords) -> bool:
    return args[0].dtype == np.float16


# Results for these arguments differ from NumPy's. The table in docs/coming-from/numpy.md gives the reasons.
FUNCTIONS_OF_REALS = words(
    "acos acosh asin asinh atan atan2 atanh copysign cos cosh exp exp2 expm1 hypot log log10 log1p log2 logaddexp nextafter reciprocal sin"
    " sinh sqrt tan tanh"
)
DIFFERENT: dict[str, Condition] = {
    **dict.fromkeys(FUNCTIONS_OF_REALS, are_integers),
    **dict.fromkeys(["histogram", "histogram_bin_edges"], _is_float16),
    **dict.fromkeys(words("astype array asarray sum prod cumsum cumprod cumulative_sum cumulative_prod"), casts_beyond_integers),
    "argsort": lambda args, named: not named.get("stable"),
    "arange": lambda args, named: named.get("dtype") == "int64" and 0.5 in args,
    **dict.fromkeys(["floor_divide", "divmod"], is_infinite),
    "indices": lambda args, named: "dtype" in named and named["dtype"] is None,
    "mean": lambda args, named: named.get("dtype") == "int64",
    "percentile": lambda args, named: args[0].dtype.itemsize < 8 or is_infinite(args, named),
    "quantile": lambda args, named: args[0].dtype.itemsize < 8 or is_infinite(args, named),
    "square": lambda args, named: args[0].dtype == bool,
}


class NumPy(Peer):
    """NumPy, beside the functions of `tx`."""

    positional, named, differences = POSITIONAL, NAMED, DIFFERENT

    def find(self, name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
        return getattr(tx, name), getattr(np, name)

    def parameter_names(self, name: str) -> list[str]:
        theirs = getattr(np, name)
        known = () if isinstance(theirs, np.ufunc) else inspect.signature(theirs).parameters
        extra = ("end_values", "stat_length", "reflect_type", "constant_values") if name == "pad" else ()
        return [*known, *extra]
