"""Batches of rows, optionally shuffled, and prepared ahead of time by threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .. import random
from ..api.argument_validation import NonNegativeInt, PositiveInt, describe_with_type, validate_arguments
from ..api.creation import asarray
from ..errors import ArgumentError, ShapeError
from ..random import Source

__all__ = ["Batches", "Dataset"]


class Dataset:
    """Tensors indexed together along their first axes.

    `dataset[indices]` returns a tuple with the rows of each tensor, or the result of `transform` for these rows. Rows of a slice are
    views, and rows of a list or a tensor of indices are new tensors. `len(dataset)` is the number of rows.

    Parameters
    ----------
    *tensors : Tensor
        Tensors of any dtype with the same size along their first axes.
    transform : Callable, optional
        A function of as many arguments as there are tensors, the rows of each.

    Raises
    ------
    ArgumentError
        If there are no tensors.
    ShapeError
        Unless the first axes have the same size.

    Examples
    --------
    >>> import tenxor as tx
    >>> rows, labels = tx.data.Dataset(tx.arange(6).reshape(3, 2), tx.asarray([7, 8, 9]))[[2, 0]]
    >>> rows.tolist(), labels.tolist()
    ([[4, 5], [0, 1]], [9, 7])
    """

    @validate_arguments
    def __init__(self, *tensors: Any, transform: Callable[..., Any] | None = None) -> None:
        if not tensors:
            raise ArgumentError("Dataset: give at least one tensor")
        self.tensors = [asarray(t) for t in tensors]
        self.transform = transform
        counts = [t.shape[0] if t.ndim else None for t in self.tensors]
        if None in counts or len(set(counts)) > 1:
            shapes = [t.shape for t in self.tensors]
            raise ShapeError(f"Dataset: tensors of shapes {shapes}; each must have a first axis, and their first axes must be equal")

    def __len__(self) -> int:
        return self.tensors[0].shape[0]

    def __getitem__(self, key: Any) -> Any:
        rows = tuple(t[key] for t in self.tensors)
        return rows if self.transform is None else self.transform(*rows)


class Batches:
    """An iterable over the rows of a dataset, `size` at a time; each iteration over it is one epoch.

    `len(batches)` is the number of batches of an epoch. An error in a thread is raised when its batch is reached.

    Parameters
    ----------
    dataset : Dataset
        An object with a length that can be indexed with a slice, or if `shuffle` with a tensor of indices.
    size : int, default 32
        The number of rows of a batch, 1 or more.
    shuffle : bool, default False
        If True, each epoch has a new random order.
    drop_last : bool, default False
        If True, a last batch of fewer rows is left out.
    workers : int, default 0
        The number of threads that prepare batches ahead of time, for datasets that read files.
    generator : Generator, optional
        The source of the random orders; by default the generator seeded by `tx.random.seed`.

    Raises
    ------
    ArgumentError
        If `dataset` has no length or cannot be indexed, or if a number is negative or `size` is 0.

    Examples
    --------
    >>> import tenxor as tx
    >>> batches = tx.data.Batches(tx.data.Dataset(tx.arange(5)), 2)
    >>> [rows.tolist() for rows, in batches], len(batches)
    ([[0, 1], [2, 3], [4]], 3)
    """

    @validate_arguments
    def __init__(
        self,
        dataset: Any,
        size: PositiveInt = 32,
        shuffle: bool = False,
        drop_last: bool = False,
        workers: NonNegativeInt = 0,
        generator: Source = None,
    ) -> None:
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__") or getattr(dataset, "shape", None) == ():
            raise ArgumentError(
                f"Batches: dataset is {describe_with_type(dataset)}; it must have a length and take indices, as tx.data.Dataset does"
            )
        self.dataset, self.size, self.shuffle, self.drop_last, self.workers = dataset, size, shuffle, drop_last, workers
        self.generator = generator

    def __len__(self) -> int:
        count = len(self.dataset)
        return count // self.size if self.drop_last else -(-count // self.size)

    def __iter__(self) -> Iterator[Any]:
        batch_indices = self._batch_indices()
        if not self.workers:
            return map(self.dataset.__getitem__, batch_indices)
        return self._prepare_ahead(batch_indices)

    def _batch_indices(self) -> Sequence[Any]:
        """Return the key of each batch of a new epoch: a slice, or a tensor of indices if shuffled."""
        count = len(self.dataset)
        starts = [k * self.size for k in range(len(self))]
        if not self.shuffle:
            return [slice(start, min(start + self.size, count)) for start in starts]
        order = (random if self.generator is None else self.generator).permutation(count)
        return [order[start : start + self.size] for start in starts]

    def _prepare_ahead(self, batch_indices: Sequence[Any]) -> Iterator[Any]:
        """Yield the batches for the keys `batch_indices` in order. Threads prepare up to twice as many ahead as there are workers.

        An error of a thread is raised when its batch is due. When the iterator is closed, batches not yet begun are cancelled.
        """
        with ThreadPoolExecutor(self.workers, "tenxor-batches") as pool:
            pending_batches: deque[Any] = deque()
            try:
                for indices in batch_indices:
                    pending_batches.append(pool.submit(self.dataset.__getitem__, indices))
                    if len(pending_batches) > 2 * self.workers:
                        yield pending_batches.popleft().result()
                while pending_batches:
                    yield pending_batches.popleft().result()
            finally:
                for batch in pending_batches:
                    batch.cancel()
