"""What this namespace is, for programs that are written for any array library (Python array API 2025.12, inspection)."""

from __future__ import annotations

from typing import Any

from ..dtypes import ALL, DEFAULT_COMPLEX, DEFAULT_FLOAT, DEFAULT_INT, DType, bfloat16, float16, isdtype
from ..tensor.core import check_device

__all__ = ["__array_namespace_info__"]

CPU = "cpu"
_BEYOND = (float16, bfloat16)  # dtypes that the standard does not have


class Info:
    """What there is: capabilities, devices, dtypes."""

    __slots__ = ()

    def capabilities(self) -> dict[str, Any]:
        """What of the standard's optional behaviour there is: all of it.

        >>> import tenxor as tx
        >>> tx.__array_namespace_info__().capabilities()
        {'boolean indexing': True, 'data-dependent shapes': True, 'max dimensions': None}
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """The device of tensors that are made without naming one: "cpu"."""
        return CPU

    def devices(self) -> tuple[str, ...]:
        """All devices: each is what creation functions take as `device`."""
        return (CPU,)

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The dtypes of numbers that come without one, by kind: "real floating", "complex floating", "integral", "indexing".

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
        """The standard's dtypes by name: all, or those of a kind, or of any of a tuple of kinds, as `tx.isdtype` has them.

        float16 and bfloat16 are not among them: the standard does not have these two. ArgumentError for what is no kind.

        >>> import tenxor as tx
        >>> list(tx.__array_namespace_info__().dtypes(kind=("bool", "real floating")))
        ['bool', 'float32', 'float64']
        """
        check_device("dtypes", CPU if device is None else device)
        standard = [d for d in ALL if d not in _BEYOND]
        return {d.name: d for d in standard if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> Info:
    """What this library offers of the Python array API standard: `capabilities`, `default_device`, `default_dtypes`,
    `devices` and `dtypes`. (Array API 2025.12, inspection.)

    >>> import tenxor as tx
    >>> tx.__array_namespace_info__().devices()
    ('cpu',)
    """
    return Info()
