"""Calls of functions that have one name here and in another library, a peer, within the arguments that both take.

A function may refuse arguments that the peer takes, with an error of ours that says so. Where both give a result, the results are equal in
shape, dtype and values, except for the differences that the peer lists; a page in `docs/coming-from` gives their reasons.
"""

from __future__ import annotations

import copy
import inspect
import random
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tenxor as tx
from tenxor.errors import TenxorError

Array = np.ndarray[Any, Any]
Random = random.Random
Draw = Callable[..., Any]  # of a random source alone, or with the list of arguments drawn before
Arguments = list[Any]
Keywords = dict[str, Any]
Condition = Callable[[Arguments, Keywords], bool]
DTYPES = ("float64", "float64", "float32", "int64", "int32", "int8", "uint8", "bool", "complex128", "float16", "uint64", "complex64")
END = object()  # drawn in the place of an argument: there are no more


def array(rng: Random, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> Array:
    """Return an array of few elements, of any dtype: small integers, some fractions, and NaN or infinity among floats at times."""
    shape = tuple([rng.choice((0, 1, 2, 3, 4)) for _ in range(rng.randrange(4))]) if shape is None else shape
    dtype = rng.choice(DTYPES) if dtype is None else dtype
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    values = numbers.integers(0 if dtype[0] in "ub" else -6, 7, shape).astype(dtype)
    if values.dtype.kind in "fc" and rng.random() < 0.5:
        values = np.asarray(values / values.dtype.type(4))
    if values.dtype.kind == "f" and values.size and rng.random() < 0.15:
        values.flat[rng.randrange(values.size)] = rng.choice((np.nan, np.inf, -np.inf, -0.0))
    return values


def integer(rng: Random) -> int:
    return rng.choice((-3, -2, -1, 0, 0, 1, 1, 2, 3, 5))


def shape(rng: Random) -> Any:
    return rng.choice(((), (2,), (2, 3), 4, (0, 2), (3, 1)))


def positions(rng: Random) -> Array:
    return array(rng, rng.choice(((2,), (3,), (2, 2), ())), "int64") % 3


def several(rng: Random) -> list[Array]:
    """Return a few arrays, often of one shape."""
    first = array(rng)
    return [first, *[array(rng, first.shape if rng.random() < 0.8 else None) for _ in range(rng.randrange(3))]]


def alike(rng: Random, before: Arguments) -> Array:
    """Return an array that often fits the first argument in shape, and has its dtype half of the time."""
    first = before[0] if before and isinstance(before[0], np.ndarray) else None
    sizes = None if first is None else first.shape
    if sizes and rng.random() < 0.3:
        sizes = sizes[1:]
    dtype = str(first.dtype) if first is not None and rng.random() < 0.5 else None
    return array(rng, sizes if rng.random() < 0.85 else None, dtype)


def drawn_from(*choices: Any) -> Draw:
    return lambda rng: rng.choice(choices)


def perhaps(draw: Draw, probability: float = 0.5) -> Draw:
    """Return a draw that ends the positional arguments at times."""
    return lambda rng, before: _draw(draw, rng, before) if rng.random() < probability else END


def words(text: str) -> list[str]:
    return text.split()


def _draw(draw: Draw, rng: Random, before: Arguments) -> Any:
    takes_both = draw is not array and len(inspect.signature(draw).parameters) == 2
    return draw(rng, before) if takes_both else draw(rng)


class Peer(ABC):
    """Another library, with a table of draws for each function that has one name in both.

    `positional` maps a name to the draws of its positional arguments, `named` maps names of arguments to draws. `differences` maps a name
    to the condition under which results differ by design.
    """

    positional: Mapping[str, tuple[Draw, ...]]
    named: Mapping[str, Draw]
    differences: Mapping[str, Condition]

    @abstractmethod
    def find(self, name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return our function of this name, and the peer's."""

    @abstractmethod
    def parameter_names(self, name: str) -> list[str]:
        """Return the names of parameters of the peer's function, as far as they can be inspected."""

    def convert(self, x: Array | np.dtype[Any]) -> Any:
        """Return a new array of the peer with the elements of `x`, or the peer's dtype."""
        return copy.copy(x)

    def read(self, x: Any) -> Any:
        """Return an array of the peer as one of NumPy, and anything else as it is."""
        return x

    def dtype_is_equal(self, found: np.dtype[Any], expected: np.dtype[Any], args: Arguments) -> bool:
        """Return whether a result for the arguments `args` may have the dtype `found`, where the peer's has `expected`."""
        return found == expected

    def keywords(self, name: str, position: int) -> dict[str, bool]:
        """Return the names of arguments after `position` that both functions take and that can be drawn, and whether each is required."""
        parameters = list(inspect.signature(self.find(name)[0]).parameters.values())[position:]
        ours = {p.name: p.default is p.empty for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        return {n: ours[n] for n in self.parameter_names(name) if n in ours and n in self.named}

    def draw_name(self, seed: int) -> str:
        """Return the name of the function that `check(seed)` calls."""
        return random.Random(seed).choice(list(self.positional))

    def check(self, seed: int) -> bool:
        """Call one function of both libraries with the same arguments, and return whether results were compared."""
        rng = random.Random(seed)
        name = rng.choice(list(self.positional))
        args: Arguments = []
        for draw in self.positional[name]:
            value = _draw(draw, rng, args)
            if value is END:
                break
            args.append(value)
        chosen = {n: self.named[n](rng) for n, is_required in self.keywords(name, len(args)).items() if is_required or rng.random() < 0.4}
        call = f"{name}({', '.join([*map(show, args), *[f'{n}={show(v)}' for n, v in chosen.items()]])})"
        ours, theirs = self.find(name)
        with warnings.catch_warnings(action="ignore"):
            try:
                expected = map_arrays(theirs(*map_arrays(args, self.convert), **map_arrays(chosen, self.convert)), self.read, kind=object)
            except Exception:  # any error of the peer
                expected = None
            try:
                result = ours(*map_arrays(args, _convert), **map_arrays(chosen, _convert))
                found = map_arrays(result, tx.Tensor.to_numpy, kind=tx.Tensor)
            except TenxorError:
                return False
        differs = self.differences.get(name)
        if "empty" in name:
            found, expected = map_arrays((found, expected), np.zeros_like)  # their elements are undefined
        if expected is None or (differs is not None and differs(args, chosen)):
            return False
        self.compare(call, found, expected, args)
        return True

    def compare(self, call: str, found: Any, expected: Any, args: Arguments) -> None:
        """Raise AssertionError unless the results of one call are equal."""
        if isinstance(expected, tuple | list):
            assert isinstance(found, tuple | list), f"{call}: {type(found).__name__} for {type(expected).__name__}"
            assert len(found) == len(expected), f"{call}: {len(found)} results for {len(expected)}"
            for ours, theirs in zip(found, expected, strict=True):
                self.compare(call, ours, theirs, args)
            return
        expected, found = np.asarray(expected), np.asarray(found)
        assert found.shape == expected.shape, f"{call}: shape {found.shape} for {expected.shape}"
        assert self.dtype_is_equal(found.dtype, expected.dtype, args), f"{call}: dtype {found.dtype} for {expected.dtype}"
        if found.dtype != expected.dtype and expected.dtype.kind in "iu":
            return  # of mixed dtypes, or a sum of unsigned integers: the narrower integers wrap
        message = f"{call}: {found.tolist()} for {expected.tolist()}"
        if found.dtype.kind not in "fc" and expected.dtype.kind not in "fc":
            assert np.array_equal(found, expected), message
            return
        near = max(map(_tolerance, (found.dtype, expected.dtype)))
        with np.errstate(all="ignore"):
            assert np.allclose(found, expected, rtol=near, atol=near, equal_nan=True), message


def _tolerance(dtype: np.dtype[Any]) -> float:
    if dtype.kind not in "fc":
        return 0.0
    return {2: 4e-3, 4: 2e-5, 8: 1e-10 if dtype.kind == "f" else 2e-5, 16: 1e-10}[dtype.itemsize]


def map_arrays(x: Any, function: Callable[[Any], Any], kind: Any = (np.ndarray, np.dtype)) -> Any:
    """Return `x` with `function` applied to all objects of one kind, also within lists, tuples and dictionaries."""
    if isinstance(x, dict):
        return {key: map_arrays(value, function, kind) for key, value in x.items()}
    if isinstance(x, tuple | list):
        return (
            type(x)([map_arrays(k, function, kind) for k in x]) if type(x) in (list, tuple) else [map_arrays(k, function, kind) for k in x]
        )
    return function(x) if isinstance(x, kind) else copy.copy(x)


def _convert(x: Array | np.dtype[Any]) -> Any:
    return tx.asarray(x.copy()) if isinstance(x, np.ndarray) else x


def show(x: Any) -> str:
    """Return a short text of an argument, with all elements of a small array."""
    if isinstance(x, np.ndarray):
        return f"{x.dtype}{x.shape}{x.tolist() if x.size < 17 else ''}"
    return str([show(k) for k in x]) if isinstance(x, tuple | list) and x and isinstance(x[0], np.ndarray) else repr(x)


def are_integers(args: Arguments, named: Keywords) -> bool:
    """Return whether all operands are integers or booleans."""
    return all(x.dtype.kind in "iub" for x in args if isinstance(x, np.ndarray | np.generic))


def is_infinite(args: Arguments, named: Keywords) -> bool:
    return any(x.dtype.kind == "f" and not np.isfinite(x).all() for x in args if isinstance(x, np.ndarray))


def casts_beyond_integers(args: Arguments, named: Keywords) -> bool:
    """Return whether a number is cast that the integers of a dtype do not have, for which C has no rule."""
    dtype = named.get("dtype") or (args[1] if len(args) > 1 else None)
    x = args[0]
    return x.dtype.kind in "fc" and np.dtype(dtype).kind in "iu" and not (np.isfinite(x) & (x.real >= 0)).all()
