"""Numbers as text: a whole array at a common precision, or a single value in little space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ArgumentError
from .print_options import current_options, formatter_of_kind
from .tensor_reading import Array

#: A printf format ("%7.2f"), a Python format spec (".3f"), a template ("{:.3f}"), or a function of one value.
Format = str | Callable[[Any], str]

_KINDS = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}  # of the dtypes of NumPy


def element_format(fmt: Format) -> Callable[[Any], str]:
    """Return a function that formats an element by `fmt`, and raises ArgumentError if the element does not fit the format."""
    write = _make_formatter(fmt)

    def write_checked(value: Any) -> str:
        try:
            return write(value)
        except (ValueError, TypeError, LookupError) as error:
            raise ArgumentError(
                f"to_string: fmt {fmt!r} cannot write the element {value!r} ({error}); "
                f'use a printf format such as "%7.2f", a format spec such as ".2f", or a function'
            ) from error

    return write_checked


def _make_formatter(fmt: Format) -> Callable[[Any], str]:
    """Return a function that formats an element by `fmt`: a printf format, a template, a format spec or a function."""
    if not isinstance(fmt, str):
        return fmt
    if "%" in fmt.rstrip("%"):  # a closing % alone is the percent type of a format spec
        return lambda value: fmt % (value,)
    if "{" in fmt:
        return lambda value: fmt.format(value)
    return lambda value: format(value, fmt)


def format_numbers(values: Array, dtype: str) -> list[str]:
    """Return the texts of the elements `values` in row-major order, padded to equal width.

    Each float has the fewest digits needed to distinguish it from its neighbours in the dtype, with at most as many decimals as the option
    `precision` says, and decimal points are aligned. If this precision is not enough, floats are written with exponents. A function in the
    option `formatter` writes elements of its kind. `dtype` is the name of the dtype of the tensor; values of bfloat16 come as float32.
    """
    flat = values.ravel()
    if dtype == "bfloat16":
        flat = _shortest_bfloat16(flat)
    kind = _KINDS[flat.dtype.kind]
    formatter = formatter_of_kind(kind) or (None if kind in ("float", "complex") else str)
    if formatter is not None:
        texts = [str(formatter(value)) for value in flat.tolist()]
    else:
        texts = _format_floats(flat, current_options().sign) if kind == "float" else _format_complex(flat)
    width = max(map(len, texts), default=0)
    return [text.rjust(width) for text in texts]


def _format_floats(values: Array, sign: str) -> list[str]:
    """Return the texts of floats, with aligned decimal points, or with exponents if a magnitude is too large or too small.

    `sign` is the option for floats that are not negative: "-" for no sign, "+" or " ".
    """
    precision = current_options().precision
    finite = values[np.isfinite(values)]
    positional = [np.format_float_positional(value, precision, trim=".") for value in finite]
    decimals = _count_decimals(positional)
    if _needs_exponent(finite, positional, decimals):
        scientific = [np.format_float_scientific(value, precision, trim=".") for value in finite]
        decimals = _count_decimals([text.split("e")[0] for text in scientific])
        texts = [_format_scientific(value, decimals) for value in values]
    else:
        texts = [_format_positional(value, decimals) for value in values]
    return texts if sign == "-" else [text if text.startswith("-") else sign + text for text in texts]


def _format_complex(values: Array) -> list[str]:
    """Return the texts of complex numbers: aligned real and imaginary parts, with the sign of the imaginary part in between."""
    reals, imags = _format_floats(values.real, current_options().sign), _format_floats(np.abs(values.imag), "-")
    width, widest = (max(map(len, texts), default=0) for texts in (reals, imags))
    signs = np.where(np.signbit(values.imag), "-", "+")
    return [
        f"{real.rjust(width)}{sign}{(imag.rstrip() + 'j').ljust(widest + 1)}" for real, sign, imag in zip(reals, signs, imags, strict=True)
    ]


def _count_decimals(texts: list[str]) -> int:
    """Return the largest number of digits after the point in the texts, 0 for no texts."""
    return max((len(text.partition(".")[2]) for text in texts), default=0)


def _needs_exponent(finite: Array, positional: list[str], decimals: int) -> bool:
    """Return whether some magnitude among the floats `finite` is too large or too small, or the range too wide, for positional notation.

    `positional` are the texts in positional notation, with at most `decimals` digits after the point. With the option `suppress`, only
    large magnitudes need an exponent.
    """
    options = current_options()
    magnitudes = np.abs(finite[finite != 0]).astype(np.float64)
    if not magnitudes.size:
        return False
    smallest, largest = magnitudes.min(), magnitudes.max()
    if largest >= 1e8 or options.suppress:
        return bool(largest >= 1e8)
    if smallest < 1e-4:
        return True
    whole_digits = max(len(text.partition(".")[0]) for text in positional)
    return bool(largest / smallest > 1000 and whole_digits + decimals > max(10, options.precision + 2))


def _format_positional(value: Any, decimals: int) -> str:
    """Format a float with at most `decimals` digits after the point, padded on the right to align decimal points."""
    if not np.isfinite(value):
        return _format_not_finite(value)
    text = np.format_float_positional(value, decimals, trim=".")
    return text + " " * (decimals - _count_decimals([text]))


def _format_scientific(value: Any, decimals: int) -> str:
    """Format a float with an exponent and exactly `decimals` digits after the point."""
    if not np.isfinite(value):
        return _format_not_finite(value)
    mantissa, exponent = np.format_float_scientific(value, decimals, trim=".").split("e")
    return f"{mantissa}{'0' * (decimals - _count_decimals([mantissa]))}e{exponent}"


def _format_not_finite(value: Any) -> str:
    """Return the text of NaN or of an infinity."""
    options = current_options()
    return options.nanstr if np.isnan(value) else ("-" if value < 0 else "") + options.infstr


def _shortest_bfloat16(values: Array) -> Array:
    """Return bfloat16 values, given as float32, as the doubles with the fewest digits that round to them."""
    result = values.astype(np.float64)
    pending = np.isfinite(values)
    for digits in range(1, 5):  # four significant digits always suffice for eight bits of precision
        rounded = np.array([float(f"{v:.{digits}g}") if p else v for v, p in zip(result, pending, strict=True)])
        is_exact = pending & (_round_to_bfloat16(rounded) == values)
        result[is_exact] = rounded[is_exact]
        pending &= ~is_exact
    return result


def _round_to_bfloat16(values: Array) -> Array:
    """Round values to bfloat16, to nearest with ties to even, and return them as float32."""
    with np.errstate(over="ignore"):
        bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    half = np.uint64(0x7FFF) + ((bits >> np.uint64(16)) & np.uint64(1))
    return (((bits + half) >> np.uint64(16)) << np.uint64(16)).astype(np.uint32).view(np.float32)


def format_short(value: Any) -> str:
    """Return a value as a text of about nine characters at most, for a cell of a figure. Complex numbers may take more."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        text = str(value)
        return text if len(text) <= 8 else f"{value:.2e}"
    if isinstance(value, complex):
        return f"{value:.2g}"
    return f"{value:.4g}"
