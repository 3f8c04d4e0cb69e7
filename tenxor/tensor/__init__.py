"""`Tensor`: a storage seen through a layout."""

from __future__ import annotations

from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, UnknownAttribute
from ..late import LateModule
from ..ops import INTERNAL, OPS
from .arguments import into
from .core import FOUND_OUT, UNINITIALIZED, Operand, found_out, is_initialized
from .movement import resized
from .ordering import Ordering

contraction = LateModule("tenxor.tensor.contraction")
API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")  # versions of the array API standard


class Tensor(Ordering):
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
        if api_version not in (None, *API_VERSIONS):
            raise ArgumentError(
                f"__array_namespace__: there is no version {api_version!r} here; there are {', '.join(API_VERSIONS)}"
            )
        return self._namespace()

    def view(self, *shape: Any) -> Tensor:
        """Return a view: the same elements in another shape, as `reshape`, or the same bytes as another dtype.

        For a dtype of another size, the elements must be contiguous along the last axis, whose size changes.

        >>> import tenxor as tx
        >>> t = tx.asarray([1.0, -2.0], dtype=tx.float32)
        >>> bits = t.view(tx.uint32)
        >>> bits[0] = 0x40400000
        >>> t.tolist()
        [3.0, -2.0]
        """
        if len(shape) == 1 and not isinstance(shape[0], (int, tuple, list)):
            dtype = dtype_of(shape[0])
            return Tensor(self.storage, resized(self.layout, self.dtype, dtype), dtype)
        return self.reshape(*shape)

    def dot(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return a new tensor: the products summed over the last axis of this tensor and the last but one of `other`. See `tx.dot`.

        >>> import tenxor as tx
        >>> tx.asarray([1, 2, 3]).dot(tx.asarray([4, 5, 6])).item()
        32
        """
        result: Tensor = contraction.dot(self, self._operand(other, "dot"))
        return into("dot", out, result)

    def __matmul__(self, other: Operand) -> Tensor:
        right: Any = self._operand(other, "matmul", quietly=True)
        return right if right is NotImplemented else contraction.matmul(self, right)

    def __rmatmul__(self, other: Operand) -> Tensor:
        left: Any = self._operand(other, "matmul", quietly=True)
        return left if left is NotImplemented else contraction.matmul(left, self)

    def __imatmul__(self, other: Operand) -> Tensor:
        result = self.__matmul__(other)
        return self._declined(other, "matmul", "@") if result is NotImplemented else self._hold(result, "matmul", "@")

    if not TYPE_CHECKING:  # a type checker would accept every attribute

        def __getattr__(self, name: str) -> Any:
            if name in FOUND_OUT:
                return found_out(self, name)
            if not is_initialized(self):
                raise AttributeError(UNINITIALIZED, name=name, obj=self)
            if not name.startswith("__") and name in elsewhere():
                raise no_attribute(name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


@cache
def elsewhere() -> dict[str, str]:
    """Return advice by attribute name, for attributes of tensors in other libraries and for names that are functions here."""
    import sys

    from ..spellings import SAME, of_tensors

    package = vars(sys.modules["tenxor"])
    functions = [n for n in package["__all__"] if n in package["_HOMES"] or isinstance(package.get(n), FunctionType)]
    return of_tensors((*functions, *SAME), [*OPS.keys() - INTERNAL])


def no_attribute(name: str) -> UnknownAttribute:
    """Return the error for an attribute of tensors in other libraries, with advice for the user."""
    return UnknownAttribute(f"a Tensor has no attribute {name!r}; use {elsewhere()[name]}")
