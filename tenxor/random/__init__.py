"""Random numbers from a counter: Philox 4x32-10, the same on any number of threads and however an expression is fused. Element `n` of draw
number `d` is a pure function of the seed, `d` and `n`. So a random tensor is an ordinary expression: lazy, fused into its readers, and not
stored unless necessary. A new seed needs no new kernel.

The layout of the counters is stable across versions, so that a seed always gives the same numbers. A Philox block has four words of
32 bits. The block of an element has `n` as words 0 and 1 of the counter, `d` as words 2 and 3, and the seed as the key, low words first.
Words 0 and 1 of the block are the element's 64 random bits, and the upper ones are used. Only normal numbers and integers in a range
take words 2 and 3, too. No two draws share a block.

Inside transforms of functions (`vmap`, `scan`, `checkpoint`) the seed, `d` and `n` pass through scopes (`api/draw_scopes.py`).

Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import nextafter, prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .._utils.aliases import argument_aliases
from .._utils.lazy import LazyFunctions, make_public_dir, make_public_getattr
from .._utils.locks import make_reentrant_lock
from ..api.argument_validation import register_argument_type
from ..api.creation import asarray, normalize_shape
from ..api.draw_scopes import Draw, next_draw, note_seeding
from ..dtypes import DEFAULT_FLOAT, DEFAULT_INT, DType, DTypeLike, float64
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, DTypeError, OutOfBounds, describe_value
from ..ops import OPS
from ..tensor import Tensor
from ..tensor.argument_parsing import check_flag, parse_ints
from ..tensor.core import Operand
from .draw_arguments import check_float_dtype, get_flat_indices, split_rows, to_float, to_integer

__all__ = [
    "Generator",
    "choice",
    "integers",
    "normal",
    "permutation",
    "rand",
    "randint",
    "randn",
    "random",
    "seed",
    "shuffle",
    "uniform",
]
__dir__ = make_public_dir(globals())
if not TYPE_CHECKING:
    __getattr__ = make_public_getattr(globals())

sorting = LazyFunctions("tenxor.api.sorting")

Shape = int | Sequence[int]

_draw_lock = make_reentrant_lock()  # threads that share a generator must never get the same draw


def _renew_draw_lock() -> None:
    """Replace the lock of all generators in a forked process."""
    global _draw_lock
    _draw_lock = make_reentrant_lock()  # a thread of the parent may hold the former lock


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_draw_lock)


@register_argument_type("a tx.random.Generator")
class Generator:
    """A source of random tensors: draws never overlap, and equal seeds give equal numbers.

    A copied or unpickled generator continues where the original stood. Methods accept `size` for `shape`, as in NumPy.

    Parameters
    ----------
    seed : int, optional
        From 0 to 2**64 - 1. None takes a random seed.

    Raises
    ------
    ArgumentError
        For any other seed.

    Examples
    --------
    >>> import tenxor as tx
    >>> first, again = tx.random.Generator(7), tx.random.Generator(7)
    >>> bool((first.random((3, 2)) == again.random((3, 2))).all())
    True
    """

    __slots__ = ("_draws", "_key")

    _key: int
    _draws: int

    def __init__(self, seed: int | None = None) -> None:
        self.seed(seed)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            from .._utils.foreign_names import make_attribute_error

            raise make_attribute_error("random", self, name)

    def __repr__(self) -> str:
        return f"Generator(seed={self._key}, after {self._draws} draws)"

    def seed(self, seed: int | None) -> None:
        """Restart from a seed.

        Parameters
        ----------
        seed : int or None
            An integer from 0 to 2**64 - 1. None takes a random seed.

        Raises
        ------
        ArgumentError
            For another seed.

        Examples
        --------
        >>> import tenxor as tx
        >>> g = tx.random.Generator(1); a = g.random(2).tolist(); g.seed(1); g.random(2).tolist() == a
        True
        """
        key = int.from_bytes(os.urandom(8), "little") if seed is None else to_integer("Generator", "seed", seed)
        if not 0 <= key < 2**64:
            raise ArgumentError(f"Generator: seed is {key}; it must be from 0 to 2**64 - 1")
        note_seeding(self, seed is not None)
        self._key, self._draws = key, 0

    def state_dict(self) -> dict[str, int]:
        """Return the state as a new dict for `load_state_dict`: "seed", and "draws", the number of draws taken from the seed."""
        return {"seed": self._key, "draws": self._draws}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Restore a state that `state_dict` of this or another generator returned.

        Raise ArgumentError unless `state` has the integers "seed" and "draws", both from 0 to 2**64 - 1.
        """
        if not isinstance(state, Mapping) or not all(type(state.get(name)) is int for name in ("seed", "draws")):
            raise ArgumentError(f"load_state_dict: {describe_value(state)} is not the state of a generator; give a result of state_dict()")
        for name in ("seed", "draws"):
            if not 0 <= state[name] < 2**64:
                raise ArgumentError(f"load_state_dict: {name} is {state[name]}; it must be from 0 to 2**64 - 1")
        note_seeding(self, True)
        self._key, self._draws = state["seed"], state["draws"]

    def __setstate__(self, state: tuple[None, dict[str, int]]) -> None:
        """Restore the state of the generator that was copied or pickled."""
        note_seeding(self, True)
        self._state = state[1]["_key"], state[1]["_draws"]

    @argument_aliases
    def random(self, shape: Shape = (), dtype: DTypeLike | None = None, *, size: Shape | None = None) -> Tensor:
        """Return a new tensor of uniform numbers in [0, 1): multiples of 2**-53 (float32: of 2**-24).

        Parameters
        ----------
        shape : int or Sequence[int], default ()
            The shape of the result; by default a 0-d tensor. NumPy's `size` is an alias.
        dtype : {float64, float32}, default float64
            The dtype of the result.

        Returns
        -------
        Tensor
            New tensor.

        Raises
        ------
        ShapeError
            For a negative size.
        DTypeError
            For another dtype.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.random.Generator(0).random(3).shape
        (3,)
        """
        return self._draw_unit(normalize_shape("random", shape), check_float_dtype("random", dtype))

    @argument_aliases
    def uniform(
        self,
        low: float = 0.0,
        high: float = 1.0,
        shape: Shape = (),
        *,
        dtype: DTypeLike | None = None,
        size: Shape | None = None,
    ) -> Tensor:
        """Return a new tensor of uniform numbers in [`low`, `high`).

        Parameters
        ----------
        low : float, default 0.0
            The lower bound, which may be drawn.
        high : float, default 1.0
            The upper bound, which is never drawn, unless it equals `low`.
        shape : int or Sequence[int], default ()
            The shape of the result; by default a 0-d tensor. NumPy's `size` is an alias.
        dtype : {float64, float32}, default float64
            The dtype of the result.

        Returns
        -------
        Tensor
            New tensor.

        Raises
        ------
        ArgumentError
            If `low` is above `high`, or either is not finite.
        OutOfBounds
            If the dtype cannot hold both or their difference.
        ShapeError, DTypeError
            For a negative size, and for another dtype.

        Examples
        --------
        >>> import tenxor as tx
        >>> x = tx.random.Generator(0).uniform(-1, 1, (100, 2))
        >>> bool(((x >= -1) & (x < 1)).all())
        True
        """
        sizes, d = normalize_shape("uniform", shape), check_float_dtype("uniform", dtype)
        low_value, high_value = to_float("uniform", "low", low), to_float("uniform", "high", high)
        if low_value > high_value:
            raise ArgumentError(f"uniform: low {low} is above high {high}; sizes come after them, or as shape=...")
        if max(abs(low_value), abs(high_value), high_value - low_value) > d.highest:
            raise OutOfBounds(f"uniform: {d} cannot hold low {low}, high {high} and their distance; scale the result")
        # Rounding may reach `high`, which is excluded.
        below = nextafter(high_value, low_value) if d is float64 else float(np.nextafter(d.numpy.type(high_value), d.numpy.type(low_value)))
        return (self._draw_unit(sizes, d) * (high_value - low_value) + low_value)._apply(OPS["minimum"], below)

    @argument_aliases
    def normal(
        self, mean: float = 0.0, std: float = 1.0, shape: Shape = (), *, dtype: DTypeLike | None = None, size: Shape | None = None
    ) -> Tensor:
        """Return a new tensor of normally distributed numbers.

        Parameters
        ----------
        mean : float, default 0.0
            Mean of the distribution.
        std : float, default 1.0
            Standard deviation, 0 or more.
        shape : int or Sequence[int], default ()
            The shape of the result; by default a 0-d tensor. NumPy's `size` is an alias.
        dtype : {float64, float32}, default float64
            The dtype of the result.

        Returns
        -------
        Tensor
            New tensor.

        Raises
        ------
        ArgumentError
            If `std` is negative, or if `mean` or `std` is not finite.
        ShapeError, DTypeError
            For a negative size, and for another dtype.

        Notes
        -----
        Numbers are computed by the Box-Muller transform in float64. Each one uses 53 bits for the radius and 53 for the angle, so its
        deviation is at most 8.6 `std`.

        Examples
        --------
        >>> import tenxor as tx
        >>> x = tx.random.Generator(0).normal(shape=10_000)
        >>> abs(x.mean().item()) < 0.05, abs(x.std().item() - 1) < 0.05
        (True, True)
        """
        sizes, d = normalize_shape("normal", shape), check_float_dtype("normal", dtype)
        loc, scale = to_float("normal", "mean", mean), to_float("normal", "std", std)
        if scale < 0:
            raise ArgumentError(f"normal: std is {std}; it must be 0 or more")
        values = self._draw_next("standard_normal", sizes)
        if (loc, scale) != (0, 1):
            values = values * scale + loc
        return values if d is float64 else values.astype(d)

    @argument_aliases
    def integers(
        self,
        low: int,
        high: int | None = None,
        shape: Shape = (),
        dtype: DTypeLike | None = None,
        endpoint: bool = False,
        *,
        size: Shape | None = None,
    ) -> Tensor:
        """Return a new tensor of uniform integers in [`low`, `high`), or in [0, `low`) without `high`.

        Parameters
        ----------
        low : int
            The least integer, or without `high` the upper end of a range from 0.
        high : int, optional
            The upper end, which is not drawn itself unless `endpoint`.
        shape : int or Sequence[int], default ()
            The shape of the result; by default a 0-d tensor. NumPy's `size` is an alias.
        dtype : dtype, default int64
            Any integer dtype.
        endpoint : bool, default False
            If True, the upper end may be drawn, too.

        Returns
        -------
        Tensor
            New tensor.

        Raises
        ------
        ArgumentError
            For an empty range, and for ends that are no integers.
        ShapeError
            For a negative size.
        OutOfBounds
            If the dtype cannot hold a choice.
        DTypeError
            If `dtype` is no integer dtype.

        Notes
        -----
        Each integer is the upper part of 128 random bits times the number of choices. So the probability of a choice differs from 1 /
        choices by less than 2**-128, a relative difference below 2**-64.

        Examples
        --------
        >>> import tenxor as tx
        >>> x = tx.random.Generator(0).integers(1, 7, 1000)
        >>> x.min().item(), x.max().item()
        (1, 6)
        """
        sizes, d = normalize_shape("integers", shape), dtype_of(DEFAULT_INT if dtype is None else dtype)
        if not d.is_integer:
            raise DTypeError(f"integers: dtype is {d}; it must be an integer dtype; cast the result with astype")
        lowest, end = (0, low) if high is None else (low, high)
        if isinstance(high, (tuple, list)):
            raise ArgumentError(f"integers: high must be an integer, not {high!r}; write tx.random.integers({low}, shape={high!r})")
        lowest, highest = (
            to_integer("integers", "low", lowest),
            to_integer("integers", "high", end) - (not check_flag("endpoint", endpoint)),
        )
        if lowest > highest:
            raise ArgumentError(
                f"integers: the range from {lowest} to {highest} (inclusive) is empty; its end must be above its start, or equal to it with"
                " endpoint=True"
            )
        if lowest < d.lowest or highest > d.highest:
            raise OutOfBounds(
                f"integers: {lowest} to {highest} (inclusive) do not fit {d}; they must be from {d.lowest} to {d.highest}; use"
                " another dtype"
            )
        count = highest - lowest + 1
        values = self._draw_next("random_bits", sizes) if count == 2**64 else self._draw_next("random_below", sizes, count)
        if lowest:
            values += lowest % 2**64  # arithmetic modulo 2**64 is exact for negative numbers
        return values.astype(d, copy=False)

    def permutation(self, x: Operand) -> Tensor:
        """Return a new tensor: the integers from 0 to `x` - 1 in random order, or the rows of a tensor (along axis 0) in random order.

        The order is found by sorting 64 random bits for each row, at the call.

        Parameters
        ----------
        x : int or Tensor
            A number of rows, or a tensor of at least one axis, or data for `tx.asarray`.

        Returns
        -------
        Tensor
            New tensor: int64 for a number of rows, else of the shape and dtype of `x`.

        Raises
        ------
        ShapeError
            For a negative number, and for a 0-d tensor, which has no rows.

        Examples
        --------
        >>> import tenxor as tx
        >>> sorted(tx.random.Generator(0).permutation(5).tolist())
        [0, 1, 2, 3, 4]
        """
        count, rows = split_rows("permutation", x)
        order = self._draw_order(count)
        return order if rows is None else rows[order]

    def shuffle(self, x: Tensor) -> None:
        """Permute the rows of a tensor (along axis 0) in place, at random, and return None.

        Parameters
        ----------
        x : Tensor
            A tensor of at least one axis. Views of its storage see the change.

        Raises
        ------
        ArgumentError
            If `x` is no tensor.
        ShapeError
            For a 0-d tensor, which has no rows.

        Examples
        --------
        >>> import tenxor as tx
        >>> t = tx.arange(6); tx.random.Generator(0).shuffle(t[:3]); sorted(t[:3].tolist()), t[3:].tolist()
        ([0, 1, 2], [3, 4, 5])
        """
        if not isinstance(x, Tensor):
            raise ArgumentError(f"shuffle: works in place on a tensor, not on {type(x).__name__}; use permutation(x)")
        count, _ = split_rows("shuffle", x)
        x[...] = x[self._draw_order(count)]

    @argument_aliases
    def choice(self, x: Operand, shape: Shape = (), replace: bool = True, *, size: Shape | None = None) -> Tensor:
        """Return a new tensor of uniformly chosen integers from 0 to `x` - 1, or rows of a tensor (along axis 0).

        Parameters
        ----------
        x : int or Tensor
            The number of integers to choose from, or a tensor of at least one axis, or data for `tx.asarray`.
        shape : int or Sequence[int], default ()
            The shape of the choices; the axes of a row follow. By default one choice. NumPy's `size` is an alias.
        replace : bool, default True
            If False, no element is chosen twice.

        Returns
        -------
        Tensor
            New tensor: int64 for a number, else of the dtype of `x`.

        Raises
        ------
        ArgumentError
            For more choices than elements without `replace`, and for a choice from nothing.
        ShapeError
            For a negative number, and for a 0-d tensor, which has no rows.

        Examples
        --------
        >>> import tenxor as tx
        >>> sorted(tx.random.Generator(0).choice([2, 3, 5], 3, replace=False).tolist())
        [2, 3, 5]
        """
        sizes = normalize_shape("choice", shape)
        count, rows = split_rows("choice", x)
        wanted, replace = prod(sizes), check_flag("replace", replace)
        if wanted > count and not (replace and count):
            hint = "; use replace=True" if count else ""
            raise ArgumentError(f"choice: there are {count} to choose from, and {wanted} are wanted{hint}")
        if replace:
            chosen = self.integers(max(count, 1), shape=sizes)
        else:
            chosen = self._draw_order(count)[:wanted].reshape(sizes)
        return chosen if rows is None else rows[chosen]

    # Implementation

    @property
    def _state(self) -> tuple[int, int]:
        """The seed, and the number of draws taken from it."""
        return getattr(self, "_key", 0), getattr(self, "_draws", 0)

    @_state.setter
    def _state(self, value: tuple[int, int]) -> None:
        self._key, self._draws = value

    def _reserve(self, count: int) -> Draw:
        """Take the next `count` draws, for this caller alone, and return the first of them."""
        with _draw_lock:
            key, first_draw = self._key, self._draws
            self._draws = first_draw + count
        return Draw(key, first_draw, 0)

    def _release(self, draw: Draw, count: int) -> None:
        """Give back the `count` draws from `draw` on, taken by `_reserve`. Do nothing if another draw or a new seed followed."""
        with _draw_lock:
            if (self._key, self._draws) == (draw.seed, draw.stream + count):
                self._draws -= count

    def _draw_next(self, op: str, shape: tuple[int, ...], *numbers: int) -> Tensor:
        """Return the next draw as a pending tensor of `shape`, computed by the operation `op` for each element.

        `op` is the name of an operation of the table, such as "random_bits", on the flat index, the stream, the key (the seed) and
        `numbers`. The last three are run-time arguments of the kernel.
        """
        key, stream, counter = next_draw(self, prod(shape))
        indices = get_flat_indices(shape)
        return (indices + counter if isinstance(counter, Tensor) else indices)._apply(OPS[op], stream, key, *numbers)

    def _draw_unit(self, shape: tuple[int, ...], dtype: DType) -> Tensor:
        """Return a pending tensor of `shape` of uniform numbers in [0, 1), in float64 or float32.

        `dtype` is one of both; the numbers have as many random bits as it has binary digits.
        """
        return self._draw_next("random_fraction" if dtype is float64 else "random_single", shape)

    def _draw_order(self, count: int) -> Tensor:
        """Return the integers from 0 to `count` - 1 in random order, as an int64 tensor, computed now unless traced."""
        keys = self._draw_next("random_bits", (count,))
        return sorting.argsort(keys) if keys.node.is_traced else asarray(np.argsort(keys.to_numpy(), kind="stable"))


Source: TypeAlias = Generator | None


# --- the module's own generator ---------------------------------------------------------------------------------------

_default = Generator()

seed = _default.seed
random = _default.random
uniform = _default.uniform
normal = _default.normal
integers = randint = _default.integers
permutation = _default.permutation
shuffle = _default.shuffle
choice = _default.choice


def rand(*shape: int | Sequence[int]) -> Tensor:
    """Return a new float64 tensor of uniform numbers in [0, 1).

    Parameters
    ----------
    *shape : int
        The sizes of the axes, as separate arguments, as in NumPy and PyTorch, or as one sequence. Without arguments the tensor is 0-d.

    Returns
    -------
    Tensor
        New float64 tensor.

    Raises
    ------
    ShapeError, ArgumentError
        If a size is negative, or no integer.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.random.rand(2, 3).shape
    (2, 3)
    """
    return _default._draw_unit(normalize_shape("rand", parse_ints("rand", "shape", shape)), DEFAULT_FLOAT)


def randn(*shape: int | Sequence[int]) -> Tensor:
    """Return a new float64 tensor of standard normal numbers.

    Parameters
    ----------
    *shape : int
        The sizes of the axes, as in `rand`.

    Returns
    -------
    Tensor
        New float64 tensor.

    Raises
    ------
    ShapeError, ArgumentError
        As in `rand`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.random.randn(2, 3).shape
    (2, 3)
    """
    return _default.normal(shape=parse_ints("randn", "shape", shape))
