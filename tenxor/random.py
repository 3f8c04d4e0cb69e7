"""Random numbers from a counter: Philox 4x32-10, the same on any number of threads and however an expression is fused.

Element `n` of a draw is a pure function of a key (the seed), a stream (which draw it is) and `n`. So a random tensor is
an expression like any other: lazy, fused into what reads it, never stored if it need not be; and a new seed compiles
nothing.

Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import pi
from typing import Any

import numpy as np

from .creation import asarray, positions
from .dtypes import DEFAULT_FLOAT, DEFAULT_INT, DType, float64, uint64
from .dtypes import dtype as dtype_of
from .errors import ArgumentError, DTypeError, ShapeError
from .layout import Layout
from .node import Node, Scalar
from .ops import OPS, Op
from .tensor import Tensor
from .tensor.arguments import ints

__all__ = ["Generator", "integers", "normal", "permutation", "rand", "randint", "randn", "random", "seed", "uniform"]

Shape = int | Sequence[int]


class Generator:
    """A source of random tensors: draws that never overlap, the same for the same seed (0 to 2**64 - 1; None for any).

    >>> import tenxor as tx
    >>> first, again = tx.random.Generator(7), tx.random.Generator(7)
    >>> bool((first.uniform((3, 2)) == again.uniform((3, 2))).all())
    True
    """

    __slots__ = ("_key", "_stream")

    def __init__(self, seed: int | None = None) -> None:
        if seed is None:
            seed = int.from_bytes(os.urandom(8), "little")
        if not 0 <= seed < 2**64:
            raise ArgumentError(f"Generator: seed {seed} is not from 0 to 2**64 - 1")
        self._key = seed
        self._stream = 0

    def _next_stream(self) -> int:
        self._stream += 1
        return self._stream - 1

    def _bits(self, op: Op, shape: tuple[int, ...], stream: int) -> Tensor:
        """64 random bits for each element."""
        counter = positions(shape).astype(uint64)
        sources = (counter.node, Scalar(stream, uint64), Scalar(self._key, uint64))
        return Tensor.of(Node(op, shape, uint64, sources, (Layout.contiguous(shape), None, None)))

    def _unit(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """Multiples of 2**-53 (2**-24 for float32) in [0, 1)."""
        digits = 53 if dtype is float64 else 24
        bits = self._bits(OPS["random_bits"], shape, self._next_stream())
        return (bits >> (64 - digits)).astype(dtype) * 2.0**-digits

    def random(self, shape: Shape = (), *, dtype: object = None) -> Tensor:
        """New tensor of numbers from 0 on and below 1, each equally likely.

        >>> import tenxor as tx
        >>> tx.random.Generator(0).random(3).shape
        (3,)
        """
        return self.uniform(shape, dtype=dtype)

    def uniform(self, shape: Shape = (), low: float = 0.0, high: float = 1.0, *, dtype: object = None) -> Tensor:
        """New tensor of numbers from `low` on and below `high`, each equally likely.

        >>> import tenxor as tx
        >>> x = tx.random.Generator(0).uniform((100, 2), -1.0, 1.0)
        >>> bool(((x >= -1) & (x < 1)).all())
        True
        """
        sizes, d = _shape("uniform", shape), _float("uniform", dtype)
        if not low <= high:
            raise ArgumentError(f"uniform: low {low} is above high {high}")
        found = self._unit(sizes, d)
        if (low, high) != (0.0, 1.0):
            below = np.nextafter(d.numpy.type(high), d.numpy.type(low))  # rounding may reach the end, which is not in
            found = Tensor.compute(OPS["minimum"], found * (float(high) - float(low)) + float(low), float(below))
        result: Tensor = found
        return result

    def normal(self, shape: Shape = (), mean: float = 0.0, std: float = 1.0, *, dtype: object = None) -> Tensor:
        """New tensor of normally distributed numbers, by the Box-Muller transform of 128 bits each.

        >>> import tenxor as tx
        >>> x = tx.random.Generator(0).normal(10_000)
        >>> abs(x.mean().item()) < 0.05, abs(x.std().item() - 1) < 0.05
        (True, True)
        """
        sizes, d = _shape("normal", shape), _float("normal", dtype)
        if std < 0:
            raise ArgumentError(f"normal: std {std} is negative")
        stream = self._next_stream()
        radius: Any = self._bits(OPS["random_bits"], sizes, stream)
        angle: Any = self._bits(OPS["random_bits_high"], sizes, stream)
        radius = (((radius >> 11).astype(float64) + 1.0) * 2.0**-53).log()  # of numbers in (0, 1]
        angle = (angle >> 11).astype(float64) * (2.0**-53 * 2.0 * pi)
        found: Tensor = ((radius * -2.0).sqrt() * angle.cos() * float(std) + float(mean)).astype(d, copy=False)
        return found

    def integers(
        self, low: int, high: int | None = None, shape: Shape = (), *, dtype: object = None, endpoint: bool = False
    ) -> Tensor:
        """New tensor of integers from `low` on and below `high` (from 0 and below `low` if there is no `high`).

        With `endpoint` the last may be `high` itself. Each is the upper half of 64 random bits times the count of
        choices, so no choice is likelier than another by more than that count times 2**-64.

        >>> import tenxor as tx
        >>> x = tx.random.Generator(0).integers(1, 7, 1000)
        >>> x.min().item(), x.max().item()
        (1, 6)
        """
        if high is None:
            low, high = 0, low
        sizes, d = _shape("integers", shape), dtype_of(dtype or DEFAULT_INT)
        count = high - low + bool(endpoint)
        if not d.is_integer:
            raise DTypeError(f"integers: {d} is not an integer dtype")
        if count < 1:
            raise ArgumentError(f"integers: there is no integer from {low} on and below {high}")
        if low < d.lowest or low + count - 1 > d.highest:
            raise ArgumentError(f"integers: {low} to {low + count - 1} does not fit {d} ({d.lowest} to {d.highest})")
        bits = self._bits(OPS["random_bits"], sizes, self._next_stream())
        found: Any = Tensor.compute(OPS["multiply_high"], bits, count) if count < 2**64 else bits
        found = found + low % 2**64 if low else found  # modulo 2**64, so that negative numbers come out right
        result: Tensor = found.astype(d, copy=False)
        return result

    def permutation(self, x: int | Tensor) -> Tensor:
        """New tensor: the integers below `x` in random order, or the rows of a tensor (its axis 0) in random order.

        >>> import tenxor as tx
        >>> sorted(tx.random.Generator(0).permutation(5).tolist())
        [0, 1, 2, 3, 4]
        """
        if isinstance(x, Tensor) and x.ndim == 0:
            raise ShapeError("permutation: a 0-d tensor has no rows; give an int or a tensor with at least one axis")
        n = x.shape[0] if isinstance(x, Tensor) else x
        keys = self._bits(OPS["random_bits"], _shape("permutation", n), self._next_stream()).to_numpy()
        order = np.argsort(keys, kind="stable")
        return x[order] if isinstance(x, Tensor) else asarray(order)


def _shape(op: str, shape: Shape) -> tuple[int, ...]:
    sizes = ints(op, (shape,))
    if any(n < 0 for n in sizes):
        raise ShapeError(f"{op}: shape {sizes} has a negative size; sizes are 0 or more")
    return sizes


def _float(op: str, dtype: object) -> DType:
    d = dtype_of(dtype or DEFAULT_FLOAT)
    if d.kind != "float" or d.bits < 32:
        raise DTypeError(f"{op}: draws float32 or float64, not {d}; cast the result with astype")
    return d


_default = Generator()


def seed(value: int | None) -> None:
    """Start the module's own generator anew, from a seed.

    >>> import tenxor as tx
    >>> tx.random.seed(1); a = tx.random.uniform(2).tolist(); tx.random.seed(1); tx.random.uniform(2).tolist() == a
    True
    """
    global _default
    _default = Generator(value)


def random(shape: Shape = (), *, dtype: object = None) -> Tensor:
    """`Generator.random` of the module's own generator."""
    return _default.random(shape, dtype=dtype)


def uniform(shape: Shape = (), low: float = 0.0, high: float = 1.0, *, dtype: object = None) -> Tensor:
    """`Generator.uniform` of the module's own generator."""
    return _default.uniform(shape, low, high, dtype=dtype)


def normal(shape: Shape = (), mean: float = 0.0, std: float = 1.0, *, dtype: object = None) -> Tensor:
    """`Generator.normal` of the module's own generator."""
    return _default.normal(shape, mean, std, dtype=dtype)


def integers(
    low: int, high: int | None = None, shape: Shape = (), *, dtype: object = None, endpoint: bool = False
) -> Tensor:
    """`Generator.integers` of the module's own generator."""
    return _default.integers(low, high, shape, dtype=dtype, endpoint=endpoint)


def permutation(x: int | Tensor) -> Tensor:
    """`Generator.permutation` of the module's own generator."""
    return _default.permutation(x)


def rand(*shape: Any) -> Tensor:
    """Uniform numbers in [0, 1), the sizes given one by one as in NumPy and PyTorch."""
    return _default.uniform(ints("rand", shape))


def randn(*shape: Any) -> Tensor:
    """Standard normal numbers, the sizes given one by one as in NumPy and PyTorch."""
    return _default.normal(ints("randn", shape))


def randint(low: int, high: int | None = None, size: Shape = ()) -> Tensor:
    """Integers from `low` on and below `high`, as in NumPy."""
    return _default.integers(low, high, size)
