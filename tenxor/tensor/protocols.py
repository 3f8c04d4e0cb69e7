"""Protocols: what Python asks of a container, NumPy of an operand, and notebooks of an object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pickle import PickleBuffer
from typing import Any, Self

import numpy as np

from ..dtypes import dtype as dtype_of
from ..layout.portions import PORTION
from .core import UNINITIALIZED, is_initialized, is_traced
from .differentiating import Differentiating
from .exchange import UFUNCS, is_of_numpy


class Protocols(Differentiating):
    """What Python, NumPy and notebooks ask of an object."""

    __slots__ = ()

    # NumPy

    __array_priority__ = 10.0  # between NumPy's arrays and those of Dask, whose chunks tensors are

    def _namespace(self) -> Any:
        import sys

        return sys.modules["tenxor"]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: tuple[Any, ...] = (), **options: Any) -> Any:
        """`array + tensor`, `np.sin(tensor)` and `np.add.reduce(tensor)` are tensors, `np.add.at(tensor, key, values)` and
        `np.add(x, y, out=tensor)` work in place.
        """
        ours = UFUNCS.get(ufunc)
        if ours is not None and method == "__call__" and not out and not options:
            plain = (type(self), float, int)
            if all([type(x) in plain or is_of_numpy(x) for x in inputs]):
                return ours(*map(self._ours, inputs))
        from .ufuncs import applied

        return applied(self._namespace(), ufunc, method, inputs, out, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """NumPy's functions on tensors are ours, and give tensors; DTypeError names one that we have not."""
        return self._namespace()._for_numpy(function, types, args, kwargs)

    # Arrow

    def __arrow_array__(self, type: Any = None) -> Any:
        """What `pyarrow.array` makes of a tensor: an array of its numbers, or of lists of them."""
        from .arrow import arrow_array

        found = arrow_array("__arrow_array__", self.__array__())
        return found if type is None else found.cast(type)

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """The same for whoever speaks Arrow's C interface, such as polars: capsules of a schema and an array."""
        from .arrow import arrow_array

        capsules: tuple[Any, Any] = arrow_array("__arrow_c_array__", self.__array__()).__arrow_c_array__(requested_schema)
        return capsules

    # Containers

    def __len__(self) -> int:
        if not self.layout.shape:
            raise TypeError("len() of a 0-d tensor; it has no axes")
        return self.layout.shape[0]

    def __iter__(self) -> Iterator[Self]:
        if not self.layout.shape:
            raise TypeError("iteration over a 0-d tensor; it has no axes, use item()")
        if len(self.layout.shape) == 1:
            return (self._element((k,)) for k in range(self.layout.shape[0]))
        return map(self._view, self.layout.along(0))

    def __contains__(self, value: Any) -> bool:
        value = self._operand(value, "in", quietly=not isinstance(value, np.ndarray))
        return value is not NotImplemented and bool((self == value).any())

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Elements in row-major order go into pickles, large ones in pieces; from protocol 5 on they may go beside, as this very memory.
        What requires a gradient, and was computed from nothing that does, still does when it is read.
        """
        own = self if self._unshared() is None and self.layout.is_contiguous() else self._own()
        elements = own._shown()
        content: Any
        if protocol >= 5:
            content = PickleBuffer(elements.data)
        else:
            flat = elements.reshape(-1).view(np.uint8)
            starts = range(0, max(1, flat.size), PORTION)
            content = flat.tobytes() if len(starts) == 1 else tuple([_Piece(flat[k : k + PORTION], own) for k in starts])
        given = (self.__class__, self.dtype.name, self.layout.shape, content)
        return (_unpickled_leaf if self._is_parameter() else _unpickled), given

    def __sizeof__(self) -> int:
        """The memory of the elements that it sees, in bytes, with its own; as much as its storage has, where it sees some several times."""
        return object.__sizeof__(self) + min(self.nbytes, self.storage.nbytes)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.detach().copy().requires_grad_() if self._is_parameter() else self.copy()

    def _is_parameter(self) -> bool:
        """Whether it requires a gradient itself, as nothing that it was computed from does."""
        return self._has_past() and self.requires_grad and self.is_leaf

    # Text and pictures

    def __str__(self) -> str:
        from .. import show

        return self._traced_text() or show.to_string(self)

    def __repr__(self) -> str:
        from .. import show

        return self._traced_text() or show.format_repr(self)

    def _traced_text(self) -> str | None:
        """The text of a tensor that has no values, as a function is being traced; None for any other."""
        if not is_initialized(self):
            raise AttributeError(UNINITIALIZED)
        if is_traced(self):
            return f"Tensor {self.layout.shape} {self.dtype}, traced: without values"
        return None

    def __format__(self, spec: str) -> str:
        if not spec or is_traced(self):
            return str(self)
        if self.layout.shape:
            raise TypeError(
                f"format {spec!r} is for one element; use to_string(fmt=...) for a tensor of shape {self.shape}"
            )
        return format(self.item(), spec)

    def to_string(
        self,
        dims: Sequence[int | slice | None] | None = None,
        fmt: str | Callable[..., str] | None = None,
        edge: int = 3,
        threshold: int | None = 1000,
        width: int | None = 80,
    ) -> str:
        """The elements as text: rows on lines, matrices apart by `---`, cubes by `===`, and so on for any rank.

        `dims` picks a slice (an int or None an axis) and `fmt` formats an element, as `"%7.2f"`. Where an axis has more than `threshold`
        elements there are `edge` of each end; lines are `width` characters at the most. See `tx.show.to_string`.

        >>> import tenxor as tx
        >>> tx.arange(4).reshape(2, 2).to_string(fmt="%2d")
        ' 0   1  \\n 2   3  \\n'
        """
        from .. import show

        return show.to_string(self, dims, fmt, edge, threshold, width)

    def _repr_html_(self) -> str:
        from .. import show

        return show.repr_html(self)


class _Piece:
    """Some bytes of a large tensor, to be pickled: between two of them signals are heard."""

    __slots__ = ("array", "owner")

    def __init__(self, array: np.ndarray[Any, Any], owner: object) -> None:
        self.array, self.owner = array, owner  # which has the memory

    def __reduce__(self) -> Any:
        return _piece, (bytes(self.array),)


def _piece(content: bytes) -> bytes:
    """The bytes of a piece, by a function of Python's: so signals are heard when pickles are read, too."""
    return content


def _unpickled_leaf(*given: Any) -> Any:
    return _unpickled(*given).requires_grad_()


def _unpickled(cls: Any, dtype: str, shape: tuple[int, ...], content: Any) -> Any:
    """A tensor over memory that came beside a pickle; of what was in it, or lies at no multiple of an element, a copy."""
    d = dtype_of(dtype)
    if isinstance(content, tuple):
        joined, end = bytearray(sum(map(len, content))), 0
        for piece in content:
            joined[end : end + len(piece)] = piece
            end += len(piece)
        content = joined
    elements = np.frombuffer(content, d.numpy).reshape(shape) if 0 not in shape else np.empty(shape, d.numpy)
    its_own = isinstance(content, bytearray) or not elements.flags.aligned  # what came over a wire may lie anywhere
    return cls._copied(elements, d) if its_own else cls._shared(elements, d)
