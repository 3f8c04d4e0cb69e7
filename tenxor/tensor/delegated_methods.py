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
        """Return the indices that sort the elements along an axis. See `tx.argsort`.

        Parameters
        ----------
        axis : int or None, default -1
            The axis to sort along; None sorts the flattened tensor. PyTorch's `dim` is an alias.
        descending : bool, default False
            The index of the largest element is first.
        stable : bool, default True
            Equal elements keep their order, also if `descending`.

        Returns
        -------
        Tensor
            New int64 tensor of the shape of this tensor, or 1-D for None.

        Raises
        ------
        AxisError
            If the axis does not exist.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.asarray([3, 1, 2]).argsort().tolist()
        [1, 2, 0]
        """
        result: Self = self._namespace().argsort(self, axis=axis, descending=descending, stable=stable)
        return result

    @argument_aliases
    def topk(self, k: int, axis: int = -1, largest: bool = True, sorted: bool = True, *, dim: int | None = None) -> _TopK[Self]:
        """Return the `k` largest elements along an axis, or the smallest, and their indices. See `tx.topk`.

        Parameters
        ----------
        k : int
            The number of elements, from 0 to the size of the axis.
        axis : int, default -1
            PyTorch's `dim` is an alias.
        largest : bool, default True
            False returns the smallest elements.
        sorted : bool, default True
            Has no effect: the largest (or smallest) element always comes first.

        Returns
        -------
        values, indices : Tensor
            A named tuple of new tensors of the shape of this tensor, with `k` in place of the axis. `indices` has dtype int64.

        Raises
        ------
        AxisError
            If the axis does not exist.
        ArgumentError
            If `k` is out of range.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.asarray([3, 1, 2]).topk(2).values.tolist()
        [3, 2]
        """
        result: _TopK[Self] = self._namespace().topk(self, k, axis=axis, largest=largest, sorted=sorted)
        return result

    def searchsorted(self, v: Operand, side: str = "left", sorter: Operand | None = None) -> Self:
        """Return the positions at which the elements of `v` would be inserted into this sorted 1-D tensor. See `tx.searchsorted`.

        Parameters
        ----------
        v : Tensor, array, sequence or number
            The elements to insert, of any shape.
        side : {"left", "right"}, default "left"
            Among equal elements, the position of the first for "left", and after the last for "right".
        sorter : Tensor, optional
            The indices that sort this tensor, if not sorted itself.

        Returns
        -------
        Tensor
            New int64 tensor of the shape of `v`.

        Raises
        ------
        ShapeError
            If this tensor is not 1-D.
        ArgumentError
            If `side` is another value, or `sorter` does not fit.
        DTypeError
            If the dtypes do not promote.

        Examples
        --------
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
        """Return the quantiles for the probabilities `q` over an axis. See `tx.quantile`, also for the methods and errors.

        Parameters
        ----------
        q : float or Tensor
            Probabilities from 0 to 1. The axes of a tensor come first in the result.
        axis : int or tuple of int, optional
            None means every axis. PyTorch's `dim` is an alias.
        method : str, default "linear"
            The rule for a quantile between two elements. PyTorch's `interpolation` is an alias.
        keepdims : bool, default False
            Keep the reduced axes, with size 1. PyTorch's `keepdim` is an alias.
        weights : Tensor, optional
            Weights of the elements, for the method "inverted_cdf" only.
        out : Tensor, optional
            Receives the result, and is returned.

        Returns
        -------
        Tensor
            New tensor. With `out`, `out` itself.

        Raises
        ------
        ArgumentError
            If `q`, `method` or a weight is out of range.
        ShapeError
            If a reduced axis has size 0.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.asarray([1.0, 2.0, 4.0]).quantile(0.5).item()
        2.0
        """
        result: Self = self._namespace().quantile(self, q, axis, method=method, keepdims=keepdims, weights=weights, out=out)
        return result

    def trace(self, offset: int = 0, *, dtype: DTypeLike | None = None, out: Self | None = None) -> Self:
        """Return the sum of the diagonal of each matrix. See `tx.linalg.trace`.

        Parameters
        ----------
        offset : int, default 0
            Elements (i, i + offset) are summed.
        dtype : dtype, optional
            The dtype of the sum.
        out : Tensor, optional
            Receives the result, and is returned.

        Returns
        -------
        Tensor
            New tensor without the last two axes. With `out`, `out` itself.

        Raises
        ------
        ShapeError
            For fewer than two axes.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.asarray([[1, 2], [3, 4]]).trace().item()
        5
        """
        result: Self = self._namespace().linalg.trace(self, offset=offset, dtype=dtype, out=out)
        return result
