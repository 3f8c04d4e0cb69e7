"""Inspection of this namespace, for programs that support any array library (Python array API 2025.12, inspection)."""

from __future__ import annotations

from typing import Any

from ..dtypes import ALL_DTYPES, DEFAULT_COMPLEX, DEFAULT_FLOAT, DEFAULT_INT, DType, bfloat16, float16, isdtype
from ..tensor.core import check_device

__all__ = ["__array_namespace_info__"]

CPU = "cpu"
_NONSTANDARD_DTYPES = (float16, bfloat16)  # dtypes beyond the standard


class NamespaceInfo:
    """Inspection of capabilities, devices and dtypes, in the form of the array API standard."""

    __slots__ = ()

    def capabilities(self) -> dict[str, Any]:
        """Return a dict of the standard's optional features, by name. All are supported; None means no limit.

        >>> import tenxor as tx
        >>> tx.__array_namespace_info__().capabilities()
        {'boolean indexing': True, 'data-dependent shapes': True, 'max dimensions': None}
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """Return the device of tensors made without a device: "cpu"."""
        return CPU

    def devices(self) -> tuple[str, ...]:
        """Return all valid values of the argument `device` of creation functions: only "cpu"."""
        return (CPU,)

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """Return the default dtypes as a dict with keys "real floating", "complex floating", "integral" and "indexing".

        Raise ArgumentError for a `device` other than "cpu" or None.

        >>> import tenxor as tx
        >>> tx.__array_namespace_info__().default_dtypes()["real floating"]
        tenxor.float64
        """
        check_device("default_dtypes", CPU if device is None else device)
        return {
            "real floating": DEFAULT_FLOAT,
            "complex floating": DEFAULT_COMPLEX,
            "integral": DEFAULT_INT,
            "indexing": DEFAULT_INT,
        }

    def dtypes(self, *, device: str | None = None, kind: object = None) -> dict[str, DType]:
        """Return the standard's dtypes, as a dict by name.

        `kind` is None for every dtype, a kind of `tx.isdtype`, or a tuple of kinds for their union. float16 and bfloat16 are missing, since
        the standard does not have them. Raise ArgumentError for an unknown kind, and for a `device` other than "cpu" or None.

        >>> import tenxor as tx
        >>> list(tx.__array_namespace_info__().dtypes(kind=("bool", "real floating")))
        ['bool', 'float32', 'float64']
        """
        check_device("dtypes", CPU if device is None else device)
        standard = [d for d in ALL_DTYPES if d not in _NONSTANDARD_DTYPES]
        return {d.name: d for d in standard if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> NamespaceInfo:
    """Return an object for inspection of this library. (Array API 2025.12, inspection.)

    Returns
    -------
    NamespaceInfo
        Its methods are `capabilities`, `default_device`, `default_dtypes`, `devices` and `dtypes`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.__array_namespace_info__().devices()
    ('cpu',)
    """
    return NamespaceInfo()
