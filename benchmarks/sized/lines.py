"""One function at several sizes: order, counts, matrices and transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..workloads.workload import Array, Line

VECTORS = (12, 1_000, 100_000, 1_000_000)
MATRICES = ((3, 3), (10, 10), (100, 100), (500, 500), (1_000, 3, 3), (1_000, 10, 10), (20, 100, 100))
IMAGES = ((10, 10), (100, 100), (1_000, 1_000))
NAMES = (  # that lines use
    *("sort", "argsort", "lexsort", "searchsorted", "digitize", "interp", "median", "quantile", "percentile", "bincount", "histogram"),
    *("unique_values", "unique_counts", "unique_inverse", "linalg", "fft"),
)
PAIRS = {"float64": "complex128", "float32": "complex64"}
Made = Callable[[np.random.Generator, Any, str], Sequence[Any]]  # arrays of a size and a dtype; Python numbers stay what they are


class Sized(NamedTuple):
    """A line, against a library, at several sizes and in several dtypes; NumPy's own where it is spelled otherwise. Results are to be
    `alike` element by element, unless one with another sign is as right.
    """

    name: str
    line: Line
    made: Made
    sizes: Sequence[Any] = VECTORS
    dtypes: Sequence[str] = ("float64", "float32")
    numpys: Line | None = None
    alike: bool = True


# --- what arrays are made -----------------------------------------------------------------------------------------------


def _floats(rng: np.random.Generator, size: Any, dtype: str) -> Sequence[Any]:
    return [rng.random(size).astype(dtype)]


def _counts(rng: np.random.Generator, size: int, dtype: str) -> Sequence[Any]:
    return [rng.integers(0, min(size, 1000), size).astype(dtype)]


def _weighed(rng: np.random.Generator, size: int, dtype: str) -> Sequence[Any]:
    return [rng.integers(0, min(size, 1000), size), rng.random(size).astype(dtype)]


def _two_keys(rng: np.random.Generator, size: int, dtype: str) -> Sequence[Any]:
    return [rng.random(size).astype(dtype), rng.integers(0, 10, size).astype(dtype)]


def _searched(rng: np.random.Generator, size: int, dtype: str) -> Sequence[Any]:
    return [np.sort(rng.random(size)).astype(dtype), rng.random(size).astype(dtype)]


def _searched_for_one(rng: np.random.Generator, size: int, dtype: str) -> Sequence[Any]:
    return [np.sort(rng.random(size)).astype(dtype), 0.3]


def _binned(rng: np.random.Generator, size: int, dtype: str) -> Sequence[Any]:
    return [rng.random(size).astype(dtype), np.linspace(0, 1, 11).astype(dtype)]


def _among_points(rng: np.random.Generator, size: int, dtype: str) -> Sequence[Any]:
    points = min(size, 1000)
    return [rng.random(size).astype(dtype), np.sort(rng.random(points)).astype(dtype), rng.random(points).astype(dtype)]


def _complexes(rng: np.random.Generator, size: Any, dtype: str) -> Sequence[Any]:
    return [(rng.random(size) + 1j * rng.random(size)).astype(PAIRS[dtype])]


def _matrices(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Sequence[Any]:
    """Symmetric matrices with eigenvalues from about 1 to 5."""
    x = rng.standard_normal(shape) / shape[-1] ** 0.5
    return [(x @ x.swapaxes(-1, -2) + np.eye(shape[-1])).astype(dtype)]


def _systems(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Sequence[Any]:
    return [*_matrices(rng, shape, dtype), rng.standard_normal((*shape[:-1], 2)).astype(dtype)]


def _tall(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Sequence[Any]:
    return [rng.standard_normal((3 * shape[0], shape[1])).astype(dtype), rng.standard_normal(3 * shape[0]).astype(dtype)]


# --- the lines ----------------------------------------------------------------------------------------------------------


def lines() -> Iterator[Sized]:
    """All of them."""
    yield from _of_order()
    yield from _of_counts()
    yield from _of_matrices()
    yield from _of_transforms()


def _of_order() -> Iterator[Sized]:
    yield Sized("sort", lambda xp, x: xp.sort(x), _floats)
    yield Sized("sort", lambda xp, x: xp.sort(x), _counts, dtypes=("int64", "int32"))
    yield Sized("argsort", lambda xp, x: xp.argsort(x, stable=True), _floats)
    yield Sized("argsort", lambda xp, x: xp.argsort(x, stable=True), _counts, dtypes=("int64",))
    yield Sized("lexsort of two", lambda xp, x, y: xp.lexsort((x, y)), _two_keys)
    yield Sized("searchsorted", lambda xp, x, y: xp.searchsorted(x, y), _searched)
    yield Sized("searchsorted of a number", lambda xp, x, y: xp.searchsorted(x, y), _searched_for_one)
    yield Sized("digitize", lambda xp, x, bins: xp.digitize(x, bins), _binned)
    yield Sized("interp", lambda xp, x, at, to: xp.interp(x, at, to), _among_points)
    yield Sized("median", lambda xp, x: xp.median(x), _floats)
    yield Sized("quantile", lambda xp, x: xp.quantile(x, 0.3), _floats)
    yield Sized("percentile, three", lambda xp, x: xp.percentile(x, (5, 50, 95)), _floats)


def _of_counts() -> Iterator[Sized]:
    integers = ("int64", "int32")
    yield Sized("unique", lambda xp, x: xp.unique_values(x), _floats, numpys=lambda xp, x: np.unique(x))
    yield Sized("unique, repeated", lambda xp, x: xp.unique_values(x), _counts, dtypes=integers, numpys=lambda xp, x: np.unique(x))
    yield Sized("unique, counted", lambda xp, x: xp.unique_counts(x), _counts, dtypes=integers, numpys=_unique_counts)
    yield Sized("unique, inverse", lambda xp, x: xp.unique_inverse(x), _counts, dtypes=integers, numpys=_unique_inverse)
    yield Sized("bincount", lambda xp, x: xp.bincount(x), _counts, dtypes=integers)
    yield Sized("bincount, weighed", lambda xp, x, w: xp.bincount(x, w), _weighed, dtypes=("float64",))
    yield Sized("histogram", lambda xp, x: xp.histogram(x)[0], _floats)
    yield Sized("histogram, 100 bins from 0 to 1", lambda xp, x: xp.histogram(x, 100, (0.0, 1.0))[0], _floats)
    yield Sized("histogram by edges", lambda xp, x, bins: xp.histogram(x, bins)[0], _binned)


def _unique_counts(xp: Any, x: Array) -> Any:
    return np.unique(x, return_counts=True)


def _unique_inverse(xp: Any, x: Array) -> Any:
    return np.unique(x, return_inverse=True)


def _of_matrices() -> Iterator[Sized]:
    def named(name: str, **more: Any) -> Sized:
        return Sized(name, lambda xp, x: getattr(xp.linalg, name)(x), _matrices, MATRICES, **more)

    yield from (named(name) for name in ("inv", "det", "slogdet", "cholesky", "eigvalsh", "svdvals", "cond", "pinv", "matrix_rank"))
    yield from (named(name, alike=False) for name in ("eigh", "eigvals", "eig", "svd", "qr"))
    yield Sized("solve", lambda xp, x, y: xp.linalg.solve(x, y), _systems, MATRICES)
    yield Sized("norm", lambda xp, x: xp.linalg.norm(x), _matrices, MATRICES[:4])
    yield Sized("lstsq", lambda xp, x, y: xp.linalg.lstsq(x, y)[0], _tall, MATRICES[:4], numpys=lambda xp, x, y: np.linalg.lstsq(x, y)[0])


def _of_transforms() -> Iterator[Sized]:
    for name in ("fft", "ifft"):
        yield Sized(name, lambda xp, x, name=name: getattr(xp.fft, name)(x), _complexes, VECTORS)  # type: ignore[misc]
    yield Sized("rfft", lambda xp, x: xp.fft.rfft(x), _floats)
    yield Sized("irfft", lambda xp, x: xp.fft.irfft(x), _complexes, VECTORS)
    yield Sized("fft of rows", lambda xp, x: xp.fft.fft(x), _complexes, IMAGES)
    yield Sized("fft of columns", lambda xp, x: xp.fft.fft(x, axis=0), _complexes, IMAGES)
    yield Sized("fft2", lambda xp, x: xp.fft.fft2(x), _complexes, IMAGES)
    yield Sized("rfft2", lambda xp, x: xp.fft.rfft2(x), _floats, IMAGES)
    yield Sized("fftshift", lambda xp, x: xp.fft.fftshift(x), _complexes, VECTORS)
