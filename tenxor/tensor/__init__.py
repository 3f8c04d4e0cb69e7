"""`Tensor`: a storage seen through a layout."""

from __future__ import annotations

from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

from .._utils.lazy import LazyModule
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, UnknownAttribute
from ..ops import INTERNAL_OPS, OPS
from .argument_parsing import write_out
from .conversion_methods import ConversionMethods
from .core import LAZY_ATTRIBUTES, UNINITIALIZED, Operand, is_initialized, resolve_lazy_attribute
from .delegated_methods import DelegatedMethods
from .elementwise_methods import ElementwiseMethods
from .gather_methods import GatherMethods
from .gradient_methods import GradientMethods
from .indexed_write_methods import IndexedWriteMethods
from .indexing_methods import IndexingMethods
from .protocols import ProtocolMethods
from .reduction_methods import ReductionMethods
from .scatter_methods import ScatterMethods
from .view_methods import ViewMethods
from .write_methods import WriteMethods

contraction = LazyModule("tenxor.tensor.contraction")
reinterpretation = LazyModule("tenxor.tensor.reinterpretation")
API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")  # versions of the array API standard


class Tensor(  # the families of methods; the bases of a family are the families whose methods it calls
    DelegatedMethods,
    ProtocolMethods,
    GradientMethods,
    ReductionMethods,
    ElementwiseMethods,
    ScatterMethods,
    IndexingMethods,
    IndexedWriteMethods,
    GatherMethods,
    ViewMethods,
    ConversionMethods,
    WriteMethods,
):
    """An N-dimensional array: a `storage` of elements, seen through a `layout`.

    Movement returns views of the same storage. They are writable wherever no two positions share an element. Indexing with as many integers
    as axes returns the present element as a new 0-d tensor; an added Ellipsis, `t[i, j, ...]`, gives a 0-d view. Arithmetic returns new
    tensors, evaluated on demand. Results equal those of line-by-line execution.

    Tensors are created by `tx.asarray`, `tx.zeros` and similar functions.

    >>> import tenxor as tx
    >>> t = tx.arange(8).reshape(2, 2, 2)
    >>> t[1, 0, 1] = 12
    >>> t.reshape(4, 2)[2, 1].item()
    12
    """

    __slots__ = ()

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return the module `tenxor`, as the array API standard demands. Raise ArgumentError for an unknown version of the standard."""
        if api_version not in (None, *API_VERSIONS):
            raise ArgumentError(f"__array_namespace__: there is no version {api_version!r} here; there are {', '.join(API_VERSIONS)}")
        return self._namespace()

    def view(self, *shape: Any) -> Tensor:
        """Return a view of the same elements in another shape, or of the same bytes as another dtype.

        Parameters
        ----------
        *shape : int, Sequence[int] or dtype
            The sizes, as in `reshape`, or a dtype. For a dtype of another size, the elements must be contiguous along the last axis, whose
            size changes.

        Returns
        -------
        Tensor
            View.

        Raises
        ------
        ShapeError
            If the elements do not fit the shape or the dtype.
        DTypeError
            For an unknown dtype.

        Examples
        --------
        >>> import tenxor as tx
        >>> t = tx.asarray([1.0, -2.0], dtype=tx.float32)
        >>> bits = t.view(tx.uint32)
        >>> bits[0] = 0x40400000
        >>> t.tolist()
        [3.0, -2.0]
        """
        if len(shape) == 1 and not isinstance(shape[0], (int, tuple, list)):
            dtype = dtype_of(shape[0])
            return Tensor(self.storage, reinterpretation.reinterpreted_layout(self.layout, self.dtype, dtype), dtype)
        return self.reshape(*shape)

    def dot(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return the products summed over the last axis of this tensor and the last but one of `other`. See `tx.dot`.

        Parameters
        ----------
        other : Tensor, array, sequence or number
            A 1-D operand is summed over its only axis. A number or a 0-d operand multiplies this tensor instead.
        out : Tensor, optional
            Receives the result, and is returned.

        Returns
        -------
        Tensor
            New tensor of the promoted dtype, with the remaining axes of this tensor, then of `other`. With `out`, `out` itself.

        Raises
        ------
        ShapeError
            If the summed axes differ in size.
        DTypeError
            If the dtypes do not promote.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.asarray([1, 2, 3]).dot(tx.asarray([4, 5, 6])).item()
        32
        """
        result: Tensor = contraction.dot(self, self._to_operand(other, "dot"))
        return write_out("dot", out, result)

    def __matmul__(self, other: Operand) -> Tensor:
        right: Any = self._to_operand(other, "matmul", is_operator=True)
        return right if right is NotImplemented else contraction.matmul(self, right)

    def __rmatmul__(self, other: Operand) -> Tensor:
        left: Any = self._to_operand(other, "matmul", is_operator=True)
        return left if left is NotImplemented else contraction.matmul(left, self)

    def __imatmul__(self, other: Operand) -> Tensor:
        result = self.__matmul__(other)
        return (
            self._reject_operand(other, "matmul", "@") if result is NotImplemented else self._write_operator_result(result, "matmul", "@")
        )

    if not TYPE_CHECKING:  # a type checker would accept every attribute

        def __getattr__(self, name: str) -> Any:
            if name in LAZY_ATTRIBUTES:
                return resolve_lazy_attribute(self, name)
            if not is_initialized(self):
                raise AttributeError(UNINITIALIZED, name=name, obj=self)
            if not name.startswith("__") and name in migration_hints():
                raise missing_attribute_error(name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


@cache
def migration_hints() -> dict[str, str]:
    """Return a dict with advice by attribute name, for attributes of tensors in foreign libraries and for names of functions here."""
    import sys

    from .._utils.foreign_names import OUR_FUNCTION_BY_ALIAS, list_tensor_advice

    package = vars(sys.modules["tenxor"])
    functions = [n for n in package["__all__"] if n in package["_HOMES"] or isinstance(package.get(n), FunctionType)]
    return list_tensor_advice((*functions, *OUR_FUNCTION_BY_ALIAS), [*OPS.keys() - INTERNAL_OPS])


def missing_attribute_error(name: str) -> UnknownAttribute:
    """Return the error for the attribute `name`, a key of `migration_hints()`, with advice for the user."""
    return UnknownAttribute(lambda: f"a Tensor has no attribute {name!r}; use {migration_hints()[name]}")
