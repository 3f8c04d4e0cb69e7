"""How elements are counted, and which there are, each once: results whose sizes nobody knows before."""

from __future__ import annotations

from ..dtypes import DType, float32, float64, int32, int64, uint8
from ..records import NamedTuple
from .orders import functions_to_sort

COUNTED = (int64, int32, uint8)  # of which machine code knows how often there is each
VALUES, COUNTS, INVERSE, ALL = range(4)  # what is wanted of elements that are there


class Count(NamedTuple):
    """How an operation, of this `name`, counts elements of a dtype: "bincount" gives so many counts at `least`, or sums of weights;
    "unique" has functions of C that sort elements and their places, and gives what is `wanted`.
    """

    name: str
    dtype: DType
    least: int = 0
    sort: int = 0
    argsort: int = 0
    wanted: int = VALUES


def counts_of(dtype: DType, least: int) -> Count | None:
    """How often there is each integer of a dtype."""
    return Count("bincount", dtype, least) if dtype in COUNTED else None


def each_once(dtype: DType, wanted: int, size: int) -> Count | None:
    """Which of so many elements of a dtype there are, and what else is wanted; None if that is not known."""
    if not (dtype.is_integer or dtype in (float64, float32)):
        return None
    sort, argsort = (functions_to_sort(name, dtype, size) for name in ("sort", "argsort"))
    return Count("unique", dtype, 0, sort, argsort, wanted) if sort and argsort else None
