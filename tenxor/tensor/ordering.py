"""Methods that are the namespace's functions of a tensor: what NumPy and PyTorch have as methods with the same meaning."""

from __future__ import annotations

from typing import Any

from .arguments import LAST_AXIS, NO, Axes
from .protocols import Protocols


class Ordering(Protocols):
    """Order among elements, by the functions of `__array_namespace__()`."""

    __slots__ = ()

    def argsort(self, axis: int | None = LAST_AXIS, *, descending: bool = False, stable: bool = True, dim: int | None = None) -> Any:
        """New int64 tensor: the indices along an axis that put the elements in order; see `tx.argsort`.

        >>> import tenxor as tx
        >>> tx.asarray([3, 1, 2]).argsort().tolist()
        [1, 2, 0]
        """
        return self._namespace().argsort(self, axis=axis, descending=descending, stable=stable, dim=dim)

    def topk(self, k: int, axis: int = LAST_AXIS, largest: bool = True, sorted: bool = True, *, dim: int | None = None) -> Any:
        """New tensors, by the names `values` and `indices`: the `k` largest elements along an axis, or the smallest; see `tx.topk`.

        >>> import tenxor as tx
        >>> tx.asarray([3, 1, 2]).topk(2).values.tolist()
        [3, 2]
        """
        return self._namespace().topk(self, k, axis=axis, largest=largest, sorted=sorted, dim=dim)

    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> Any:
        """New int64 tensor: before which of these sorted elements each of `v` belongs; see `tx.searchsorted`.

        >>> import tenxor as tx
        >>> tx.asarray([1, 3, 5]).searchsorted(4).item()
        2
        """
        return self._namespace().searchsorted(self, v, side=side, sorter=sorter)

    def quantile(
        self,
        q: Any,
        axis: Axes = None,
        *,
        method: str = "linear",
        keepdims: bool = NO,
        dim: Axes = None,
        keepdim: bool | None = None,
        interpolation: str | None = None,
    ) -> Any:
        """New tensor: the numbers that the parts `q` of the elements over `axis` are below; see `tx.quantile`.

        >>> import tenxor as tx
        >>> tx.asarray([1.0, 2.0, 4.0]).quantile(0.5).item()
        2.0
        """
        kept = {"keepdims": keepdims, "dim": dim, "keepdim": keepdim, "interpolation": interpolation}
        return self._namespace().quantile(self, q, axis, method=method, **kept)

    def trace(self, offset: int = 0, *, dtype: object = None) -> Any:
        """New tensor: the sum of the diagonal of each matrix; see `tx.linalg.trace`.

        >>> import tenxor as tx
        >>> tx.asarray([[1, 2], [3, 4]]).trace().item()
        5
        """
        return self._namespace().linalg.trace(self, offset=offset, dtype=dtype)
