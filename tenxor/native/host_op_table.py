"""The table of operations that NumPy computes for us. An entry describes the operation on one matrix, row or signal. Its signature has a
letter for each core axis at the end of each operand and result, and `_` for no core axes, as in `"mn -> mk k kn"`. Earlier axes are a
batch.

Operands broadcast over the batch; an operand marked with `=` has no batch. The caller gives the sizes of letters missing in the operands.
Capital letters are sizes known only after the computation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import DEFAULT_INT, DType, complex_dtype_of
from .determinants import cofactor_cotangents, cofactors, det, slogdet
from .lu_factorization import lu
from .qr_and_lstsq import lstsq, qr
from .selection import select_topk, select_topk_positions

Array = np.ndarray[Any, Any]


NO_LIMIT_NS = 1 << 62  # nanoseconds


class HostOp:
    """An operation of NumPy's on the last axes of arrays, described by `signature` (see the module).

    `operand_axes` and `result_axes` are the letters of each operand and result. `compute` takes arrays, and options by name, and returns an
    array or a tuple of arrays. With `takes_out`, `compute` also takes `out`, the array or the tuple of arrays for the results. With
    `overwrites_operand`, the operand is a row-major copy, overwritten with the result. `dtype_rules` gives the dtype of each result: "same"
    as the first operand, "part" for its real component type, "complex", or "index". The argument has the rules of all results, separated by
    spaces.

    A matrix, row or signal takes about `unit_ns` nanoseconds times the sizes of the letters in `cost_axes`. Up to `max_shared_ns`
    nanoseconds our threads share a batch; beyond, NumPy's own threads share each batch element. `has_unsized_results` says that sizes of
    results depend on the values. An operation with `is_quiet` emits no warnings: it does no arithmetic, or suppresses them. An operation
    that `may_fail` may raise LinAlgError for a matrix. Operations that overwrite their operand, fail or give indices are always quiet.
    """

    __slots__ = (
        *("_result_dtypes", "compute", "unit_ns", "dtype_rules", "may_fail", "has_unsized_results", "overwrites_operand", "takes_out"),
        *("max_shared_ns", "name", "operand_axes", "is_quiet", "result_axes", "cost_axes"),
    )

    def __init__(
        self,
        name: str,
        signature: str,
        dtype_rules: str,
        compute: Callable[..., Any],
        unit_ns: int,
        cost_axes: str,
        max_shared_ns: float = NO_LIMIT_NS,
        *,
        takes_out: bool = False,
        overwrites_operand: bool = False,
        may_fail: bool = False,
        is_quiet: bool = False,
    ) -> None:
        operands, results = [tuple(["" if x == "_" else x for x in side.split()]) for side in signature.split("->")]
        self.name, self.operand_axes, self.result_axes, self.dtype_rules = name, operands, results, tuple(dtype_rules.split())
        self.compute, self.unit_ns, self.cost_axes, self.max_shared_ns, self.takes_out, self.overwrites_operand = (
            compute,
            unit_ns,
            cost_axes,
            int(min(max_shared_ns, NO_LIMIT_NS)),
            takes_out,
            overwrites_operand,
        )
        self.may_fail = may_fail
        self.is_quiet = is_quiet or overwrites_operand or may_fail or set(self.dtype_rules) == {"index"}  # these set NumPy's error state
        self._result_dtypes: dict[DType, list[DType]] = {}
        self.has_unsized_results = any(letter.isupper() for letters in results for letter in letters)

    def infer_dtypes(self, operand: DType) -> list[DType]:
        """Return the dtypes of the results for a first operand of dtype `operand`."""
        dtypes = self._result_dtypes.get(operand)
        if dtypes is None:
            dtypes = self._result_dtypes[operand] = [_DTYPE_RULES[name](operand) for name in self.dtype_rules]
        return dtypes


def is_unbatched(letters: str) -> bool:
    """Return whether an operand with the letters `letters` in the signature never has a batch: the mark `=` comes first, as in "=n"."""
    return letters.startswith("=")


_DTYPE_RULES: dict[str, Callable[[DType], DType]] = {
    "same": lambda d: d,
    "part": lambda d: d.part,
    "complex": lambda d: d if d.is_complex else complex_dtype_of(d),
    "index": lambda d: DEFAULT_INT,
}
HOST_OPS: dict[str, HostOp] = {}


def add_entry(name: str, *arguments: Any, **options: Any) -> None:
    """Add the operation `name` to the table; `arguments` and `options` are the further parameters of `HostOp`."""
    HOST_OPS[name] = HostOp(name, *arguments, **options)


# --- sorting ----------------------------------------------------------------------------------------------------------


def _sort(x: Array, *, kind: Any) -> None:
    """Sort the rows of `x` in place; `kind` is the name of NumPy's algorithm."""
    x.sort(axis=-1, kind=kind)


def _partition(x: Array, *, positions: list[int]) -> None:
    """Partition the rows of `x` in place, so that the elements at the given `positions` are those of the sorted row."""
    x.partition(positions, axis=-1)


def find_unique(x: Array) -> Array:
    """Return the distinct elements of `x`, a 1-D array, ascending, by sorting. Each NaN counts as distinct.

    NumPy's own function uses a hash table for integers, which is slower for many elements.
    """
    ordered = np.sort(x)
    is_first = np.ones(len(x), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


add_entry("sort", "n -> n", "same", _sort, 8, "n", overwrites_operand=True)
add_entry("argsort", "n -> n", "index", lambda x, *, kind: x.argsort(axis=-1, kind=kind), 20, "n")
add_entry("partition", "n -> n", "same", _partition, 20, "n", overwrites_operand=True)
add_entry("topk", "n -> k k", "same index", select_topk, 8, "n", is_quiet=True)
add_entry("argtopk", "n -> k", "index", select_topk_positions, 8, "n")
add_entry("searchsorted", "=n _ -> _", "index", lambda x, v, *, side: x.searchsorted(v, side), 100, "")
add_entry("interp", "_ =n =n -> _", "same", lambda x, xp, fp, *, left, right: np.interp(x, xp, fp, left, right), 100, "", is_quiet=True)
add_entry("unique_values", "n -> U", "same", find_unique, 20, "n", is_quiet=True)
add_entry(
    "unique_all",
    "n -> U U n U",
    "same index index index",
    lambda x: np.unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False),
    100,
    "n",
)

# --- matrices ---------------------------------------------------------------------------------------------------------

_MAX_SHARED_MATRIX_NS = 3e4  # nanoseconds for a matrix: above, LAPACK starts threads, and these would compete with ours

add_entry(
    "cholesky", "nn -> nn", "same", lambda x, *, upper: np.linalg.cholesky(x, upper=upper), 1, "nnn", _MAX_SHARED_MATRIX_NS, may_fail=True
)
add_entry("det", "nn -> _", "same", det, 1, "nnn", _MAX_SHARED_MATRIX_NS)
add_entry("cofactors", "nn -> nn", "same", cofactors, 2, "nnn", _MAX_SHARED_MATRIX_NS, is_quiet=True)
add_entry("cofactor_cotangents", "nn nn -> nn", "same", cofactor_cotangents, 20, "nnn", _MAX_SHARED_MATRIX_NS, is_quiet=True)
add_entry("slogdet", "nn -> _ _", "same part", slogdet, 1, "nnn", _MAX_SHARED_MATRIX_NS)
add_entry("inv", "nn -> nn", "same", np.linalg.inv, 3, "nnn", _MAX_SHARED_MATRIX_NS, may_fail=True)
add_entry("solve", "nn nk -> nk", "same", np.linalg.solve, 1, "nnn", _MAX_SHARED_MATRIX_NS, may_fail=True)
add_entry(
    "solve_triangular", "nn nk -> nk", "same", np.linalg.solve, 1, "nnn", _MAX_SHARED_MATRIX_NS, may_fail=True
)  # LAPACK does not pivot in a triangle
add_entry("eig", "nn -> n nn", "complex complex", np.linalg.eig, 20, "nnn", _MAX_SHARED_MATRIX_NS, may_fail=True)
add_entry("eigvals", "nn -> n", "complex", np.linalg.eigvals, 12, "nnn", _MAX_SHARED_MATRIX_NS, may_fail=True)
add_entry("eigh", "nn -> n nn", "part same", np.linalg.eigh, 10, "nnn", _MAX_SHARED_MATRIX_NS, may_fail=True)
add_entry("eigvalsh", "nn -> n", "part", np.linalg.eigvalsh, 4, "nnn", _MAX_SHARED_MATRIX_NS, may_fail=True)
add_entry("qr", "mn -> mp pn", "same same", qr, 4, "mnp", _MAX_SHARED_MATRIX_NS, takes_out=True, may_fail=True)
add_entry("lu", "mn -> mk kn m", "same same index", lu, 4, "mnk", _MAX_SHARED_MATRIX_NS, is_quiet=True)
for _name in ("lstsq", "lstsq_wide"):  # `lstsq` is for at least as many rows as columns
    add_entry(_name, "mn mk -> nk k _ p", "same part index part", lstsq, 5, "mnp", _MAX_SHARED_MATRIX_NS, may_fail=True)
add_entry(
    "svd",
    "mn -> mp k qn",
    "same part same",
    lambda x, *, full_matrices: np.linalg.svd(x, full_matrices),
    12,
    "mnk",
    _MAX_SHARED_MATRIX_NS,
    may_fail=True,
)
add_entry("svdvals", "mn -> k", "part", lambda x: np.linalg.svd(x, compute_uv=False), 4, "mnk", _MAX_SHARED_MATRIX_NS, may_fail=True)

# --- frequencies ------------------------------------------------------------------------------------------------------

add_entry("fft", "n -> k", "complex", lambda x, *, n, norm, out=None: np.fft.fft(x, n, norm=norm, out=out), 10, "k", takes_out=True)
add_entry("ifft", "n -> k", "complex", lambda x, *, n, norm, out=None: np.fft.ifft(x, n, norm=norm, out=out), 10, "k", takes_out=True)
add_entry("rfft", "n -> k", "complex", lambda x, *, n, norm, out=None: np.fft.rfft(x, n, norm=norm, out=out), 10, "k", takes_out=True)
add_entry("irfft", "n -> k", "part", lambda x, *, n, norm, out=None: np.fft.irfft(x, n, norm=norm, out=out), 10, "k", takes_out=True)
