"""LU decomposition in place: by whole steps with pivots, or row by row without."""

from __future__ import annotations

from typing import Any

import tenxor as tx

from .program import Array, Program, np, torch


def pivoted_numpy(a: Any) -> Any:
    a = np.copy(a)
    n = len(a)
    order = np.arange(n)
    for k in range(n - 1):
        p = k + int(np.abs(a[k:, k]).argmax())
        if p != k:
            a[[k, p]] = a[[p, k]]
            order[[k, p]] = order[[p, k]]
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[k, k + 1 :]
    return a, order


def pivoted_torch(a: Any) -> Any:
    a = torch.clone(a)
    n = len(a)
    order = torch.arange(n)
    for k in range(n - 1):
        p = k + int(torch.abs(a[k:, k]).argmax())
        if p != k:
            a[[k, p]] = a[[p, k]]
            order[[k, p]] = order[[p, k]]
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[k, k + 1 :]
    return a, order


def pivoted_tenxor(a: Any) -> Any:
    a = tx.Tensor.copy(a)
    n = len(a)
    order = tx.arange(n)
    for k in range(n - 1):
        p = k + int(tx.abs(a[k:, k]).argmax())
        if p != k:
            a[[k, p]] = a[[p, k]]
            order[[k, p]] = order[[p, k]]
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[k, k + 1 :]
    return a, order


def eliminated(a: Any) -> Any:
    """A row operation at a time: what all three libraries say alike."""
    n = len(a)
    for k in range(n - 1):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            a[i, k + 1 :] -= a[i, k] * a[k, k + 1 :]
    return a


def rows_numpy(a: Any) -> Any:
    return eliminated(np.copy(a))


def rows_torch(a: Any) -> Any:
    return eliminated(torch.clone(a))


def rows_tenxor(a: Any) -> Any:
    return eliminated(tx.Tensor.copy(a))


def matrix(rng: np.random.Generator, n: int) -> tuple[Array]:
    """It needs pivots, but can be decomposed without."""
    return (rng.normal(size=(n, n)) + 3 * np.eye(n),)


def programs() -> list[Program]:
    """With pivots, of two sizes; by rows, which is Python's work, of one."""
    pivoted = (pivoted_numpy, pivoted_torch, pivoted_tenxor)
    return [
        Program("LU with pivots, 50²", *pivoted, matrix, (50,), (7,)),
        Program("LU with pivots, 500²", *pivoted, matrix, (500,), (7,), large=True),
        Program("LU by rows, 50²", rows_numpy, rows_torch, rows_tenxor, matrix, (50,), (7,), tolerance=1e-6),
    ]
