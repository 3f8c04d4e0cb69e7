"""Protocols of Python, NumPy, Arrow and notebooks, as methods of `Tensor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pickle import PickleBuffer
from types import EllipsisType
from typing import Any, Self

import numpy as np

from ..dtypes import dtype as dtype_of
from ..layout.interruptible_chunks import MAX_CHUNK_ELEMENTS
from .conversion_methods import FUNCTION_OF_UFUNC, is_numpy_value
from .core import UNINITIALIZED, is_initialized, is_traced
from .gradient_methods import GradientMethods


class ProtocolMethods(GradientMethods):
    """The special methods of `Tensor` for Python, NumPy, Arrow and notebooks."""

    __slots__ = ()

    # NumPy

    __array_priority__ = 10.0  # between NumPy arrays and Dask arrays, whose chunks may be tensors

    def _namespace(self) -> Any:
        """Return the module `tenxor`."""
        import sys

        return sys.modules["tenxor"]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: tuple[Any, ...] = (), **options: Any) -> Any:
        """Apply a NumPy ufunc to tensors.

        `array + tensor`, `numpy.sin(tensor)` and `numpy.add.reduce(tensor)` return tensors. `numpy.add.at(tensor, key, values)` and
        `np.add(x, y, out=tensor)` work in place.
        """
        ours = FUNCTION_OF_UFUNC.get(ufunc)
        if ours is not None and method == "__call__" and not out and not options:
            plain_types = (type(self), float, int)
            if all([type(x) in plain_types or is_numpy_value(x) for x in inputs]):
                return ours(*map(self._from_array_or_same, inputs))
        from .numpy_ufuncs import apply_ufunc

        return apply_ufunc(self._namespace(), ufunc, method, inputs, out, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Call our function in place of a NumPy function on tensors, and return a tensor. Raise DTypeError for a function without a
        counterpart here.
        """
        return self._namespace()._call_numpy_function(function, types, args, kwargs)

    # Arrow

    def __arrow_array__(self, type: Any = None) -> Any:
        """Return the tensor as a pyarrow array of the Arrow type `type`, for `pyarrow.array`: an array of numbers, or of lists of them."""
        from .arrow_export import to_arrow_array

        array = to_arrow_array("__arrow_array__", self.__array__())
        return array if type is None else array.cast(type)

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """Return the capsules of a schema and an array for Arrow's C interface, which polars uses, for example."""
        from .arrow_export import to_arrow_array

        capsules: tuple[Any, Any] = to_arrow_array("__arrow_c_array__", self.__array__()).__arrow_c_array__(requested_schema)
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
            return (self._read_element((k,)) for k in range(self.layout.shape[0]))
        return map(self._view, self.layout.along(0))

    def __contains__(self, value: Any) -> bool:
        value = self._to_operand(value, "in", is_operator=not isinstance(value, np.ndarray))
        return value is not NotImplemented and bool((self == value).any())

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Return the function and the arguments from which pickle restores the tensor, with the elements in row-major order.

        Large tensors are pickled in pieces. From protocol 5 on, the memory itself may travel out of band. A leaf that requires a gradient
        still requires one after unpickling.
        """
        source = self if self._unshareable_reason() is None and self.layout.is_contiguous() else self._copy_detached()
        elements = source._share_as_array()
        content: Any
        if protocol >= 5:
            content = PickleBuffer(elements.data)
        else:
            flat = elements.reshape(-1).view(np.uint8)
            starts = range(0, max(1, flat.size), MAX_CHUNK_ELEMENTS)
            content = (
                flat.tobytes() if len(starts) == 1 else tuple([_PickleChunk(flat[k : k + MAX_CHUNK_ELEMENTS], source) for k in starts])
            )
        arguments = (self.__class__, self.dtype.name, self.layout.shape, content)
        return (_unpickled_leaf if self._is_parameter() else _unpickled), arguments

    def __sizeof__(self) -> int:
        """Return the bytes of the object and of the visible elements. For repeated elements, no more than the storage's bytes are
        counted.
        """
        return object.__sizeof__(self) + min(self.nbytes, self.storage.nbytes)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.detach().copy().requires_grad_() if self._is_parameter() else self.copy()

    def _is_parameter(self) -> bool:
        """Return whether the tensor is a leaf that requires a gradient."""
        return self._is_on_tape() and self.requires_grad and self.is_leaf

    # Text and pictures

    def __str__(self) -> str:
        from .. import show

        return self._traced_text() or show.to_string(self)

    def __repr__(self) -> str:
        from .. import show

        return self._traced_text() or show.format_repr(self)

    def _traced_text(self) -> str | None:
        """Return the text of a tensor without values in a traced function; None for a tensor with values.

        Raise AttributeError if the tensor is not initialized.
        """
        if not is_initialized(self):
            raise AttributeError(UNINITIALIZED)
        if is_traced(self):
            return f"Tensor {self.layout.shape} {self.dtype}, traced: without values"
        return None

    def __format__(self, spec: str) -> str:
        if not spec or is_traced(self):
            return str(self)
        if self.layout.shape:
            raise TypeError(f"format {spec!r} is for one element; use to_string(fmt=...) for a tensor of shape {self.shape}")
        return format(self.item(), spec)

    def to_string(
        self,
        dims: Sequence[int | slice | None] | None = None,
        fmt: str | Callable[..., str] | None = None,
        edge: int | EllipsisType = ...,
        threshold: int | EllipsisType | None = ...,
        width: int | EllipsisType | None = ...,
    ) -> str:
        r"""Return the elements as text. See `tx.show.to_string`.

        Rows are on lines, matrices are separated by `---`, 3-D blocks by `===`, and so on for any rank.

        Parameters
        ----------
        dims : Sequence[int | slice | None], optional
            The positions of each axis to show: an int, a slice, or None for every position.
        fmt : str or Callable[..., str], optional
            The format of an element, for example `"%7.2f"`.
        edge : int, optional
            The number of positions shown at each end of an axis, if the tensor is shortened. By default the option `edgeitems` of
            `tx.set_printoptions`, 3.
        threshold : int or None, optional
            A tensor with more elements is shortened. None never shortens. By default the option `threshold`, 1000.
        width : int or None, optional
            The most characters of a line without `fmt`. None never breaks a row. By default the option `linewidth`, 80.

        Returns
        -------
        str

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.arange(4).reshape(2, 2).to_string(fmt="%2d")
        ' 0   1  \n 2   3  \n'
        """
        from .. import show

        return show.to_string(self, dims, fmt, edge, threshold, width)

    def _repr_html_(self) -> str:
        """Return the tensor as HTML, for notebooks."""
        from .. import show

        return show.repr_html(self)


class _PickleChunk:
    """A piece of a large tensor, pickled separately so that signals are handled between two pieces."""

    __slots__ = ("array", "owner")

    def __init__(self, array: np.ndarray[Any, Any], owner: object) -> None:
        self.array, self.owner = array, owner  # the owner keeps the memory of the array alive

    def __reduce__(self) -> Any:
        return _piece, (bytes(self.array),)


def _piece(content: bytes) -> bytes:
    """Return `content`, the bytes of a piece of a pickle. As a Python function, it lets signals be handled while a pickle is read."""
    return content


def _unpickled_leaf(*arguments: Any) -> Any:
    """Return the tensor of `_unpickled(*arguments)` as a leaf that requires a gradient: how a pickled parameter is read."""
    return _unpickled(*arguments).requires_grad_()


def _unpickled(cls: Any, dtype: str, shape: tuple[int, ...], content: Any) -> Any:
    """Return a tensor of the dtype named `dtype` with the bytes `content`, or a tuple of pieces of bytes.

    Immutable bytes, and aligned memory received out of band, are shared. A bytearray, pieces, and misaligned memory are copied.
    """
    d = dtype_of(dtype)
    if isinstance(content, tuple):
        joined, end = bytearray(sum(map(len, content))), 0
        for piece in content:
            joined[end : end + len(piece)] = piece
            end += len(piece)
        content = joined
    elements = np.frombuffer(content, d.numpy).reshape(shape) if 0 not in shape else np.empty(shape, d.numpy)
    must_copy = isinstance(content, bytearray) or not elements.flags.aligned  # memory received over a network may have any alignment
    return cls._from_copy(elements, d) if must_copy else cls._from_shared(elements, d)
