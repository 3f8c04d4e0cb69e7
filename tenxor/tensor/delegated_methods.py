"""Methods of `Tensor` that call a function of the namespace, for methods of NumPy and PyTorch with the same meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeVar

from .._utils.aliases import argument_aliases
from ..dtypes import DTypeLike
from .argument_parsing import Axes
from .core import Operand
from .protocols import ProtocolMethods

if TYPE_CHECKING:
    T = TypeVar("T")

    class _TopK(tuple[T, T]):
        """The result of `tx.topk`, a named tuple."""

        @property
        def values(self) -> T: ...
        @property
        def indices(self) -> T: ...

else:
    _TopK = tuple


class DelegatedMethods(ProtocolMethods):
    """The methods of `Tensor` for order among elements, through `__array_namespace__()`."""

    __slots__ = ()

    @argument_aliases
    def argsort(self, axis: int | None = -1, *, descending: bool = False, stable: bool = True, dim: int | None = None) -> Self:
        """Return the indices that sort the elements along an axis, as a new int64 tensor. See `tx.argsort`.

        >>> import tenxor as tx
        >>> tx.asarray([3, 1, 2]).argsort().tolist()
        [1, 2, 0]
        """
        result: Self = self._namespace().argsort(self, axis=axis, descending=descending, stable=stable)
        return result

    @argument_aliases
    def topk(self, k: int, axis: int = -1, largest: bool = True, sorted: bool = True, *, dim: int | None = None) -> _TopK[Self]:
        """Return the `k` largest elements along an axis, or the smallest, and their indices, as new tensors. See `tx.topk`.

        The result is the named tuple (`values`, `indices`).

        >>> import tenxor as tx
        >>> tx.asarray([3, 1, 2]).topk(2).values.tolist()
        [3, 2]
        """
        result: _TopK[Self] = self._namespace().topk(self, k, axis=axis, largest=largest, sorted=sorted)
        return result

    def searchsorted(self, v: Operand, side: str = "left", sorter: Operand | None = None) -> Self:
        """Return the positions at which the elements of `v` would be inserted into this sorted tensor, as a new int64 tensor.

        See `tx.searchsorted`.

        >>> import tenxor as tx
        >>> tx.asarray([1, 3, 5]).searchsorted(4).item()
        2
        """
        result: Self = self._namespace().searchsorted(self, v, side=side, sorter=sorter)
        return result

    @argument_aliases
    def quantile(
        self,
        q: Operand,
        axis: Axes = None,
        *,
        method: str = "linear",
        keepdims: bool = False,
        dim: Axes = None,
        keepdim: bool | None = None,
        interpolation: str | None = None,
        weights: Operand | None = None,
        out: Self | None = None,
    ) -> Self:
        """Return the quantiles for the probabilities `q` over an axis, as a new tensor. See `tx.quantile`.

        >>> import tenxor as tx
        >>> tx.asarray([1.0, 2.0, 4.0]).quantile(0.5).item()
        2.0
        """
        result: Self = self._namespace().quantile(self, q, axis, method=method, keepdims=keepdims, weights=weights, out=out)
        return result

    def trace(self, offset: int = 0, *, dtype: DTypeLike | None = None, out: Self | None = None) -> Self:
        """Return the sum of the diagonal of each matrix, as a new tensor. See `tx.linalg.trace`.

        >>> import tenxor as tx
        >>> tx.asarray([[1, 2], [3, 4]]).trace().item()
        5
        """
        result: Self = self._namespace().linalg.trace(self, offset=offset, dtype=dtype, out=out)
        return result
