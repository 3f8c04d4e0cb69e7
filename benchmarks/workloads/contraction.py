"""Products of matrices: of views, small ones by the thousand, of complex numbers and integers, and with more to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .workload import Array, Line, Sizes, Workload, complexes, floats


def workloads(sizes: Sizes) -> Iterator[Workload]:
    """All of them."""
    for dtype in ("float32", "float64"):
        for n in sizes.matrices:
            yield product(f"{n}×{n}", "products", dtype, (n, n), (n, n))
        for m, k, n in sizes.rectangles:
            yield product(f"{m}×{k} by {k}×{n}", "products", dtype, (m, k), (k, n))
    yield from views(sizes)
    yield from small(sizes)
    yield from others(sizes)
    yield from layers(sizes)


def product(name: str, family: str, dtype: str, *shapes: tuple[int, ...], **more: Any) -> Workload:
    """`a @ b`, or another line of two matrices."""
    tolerance = 1e-5 if dtype in ("float32", "complex64") else 1e-13
    (*batch, m, k), (*_, n) = shapes
    given: dict[str, Any] = {
        "line": lambda xp, a, b: a @ b,
        "inputs": floats(dtype, *shapes, low=-1.0),
        "flops": 2.0 * m * k * n * (batch[0] if batch else 1),
        "compute_bound": True,
    }
    return Workload(f"{name}, {dtype}", family, tolerance=tolerance, **(given | more))


def views(sizes: Sizes) -> Iterator[Workload]:
    """Operands that do not lie in rows, or not next to one another."""
    n = sizes.view
    flops = 2.0 * n**3

    def row(name: str, line: Line, *shapes: tuple[int, ...], **more: Any) -> Workload:
        inputs = more.pop("inputs", floats("float32", *shapes, low=-1.0))
        return Workload(name, "products of views", line, inputs, 1e-5, flops=flops, compute_bound=True, **more)

    def with_rows(rng: np.random.Generator) -> tuple[Array, ...]:
        return (*floats("float32", (n, n), (n, n), low=-1.0)(rng), rng.permutation(n))

    square = (n, n)
    yield row("a.T @ b", lambda xp, a, b: a.T @ b, square, square)
    yield row("a @ b.T", lambda xp, a, b: a @ b.T, square, square)
    yield row("a[::2] @ b[:, ::2]", lambda xp, a, b: a[::2] @ b[:, ::2], (2 * n, n), (n, 2 * n))
    yield row("a[:, ::2] @ b[::2]", lambda xp, a, b: a[:, ::2] @ b[::2], (n, 2 * n), (2 * n, n))
    yield row(
        "a[::-1] @ b[:, ::-1]",
        lambda xp, a, b: a[::-1] @ b[:, ::-1],
        square,
        square,
        spelled={"torch": (lambda xp, a, b: xp.flip(a, 0) @ xp.flip(b, 1),)},
    )
    yield row("a[rows] @ b", lambda xp, a, b, rows: a[rows] @ b, inputs=with_rows)
    yield row(
        "a[0] broadcast to (8, n, n / 8) @ b",
        lambda xp, a, b: xp.broadcast_to(a[0], (8, n, n // 8)) @ b,
        (1, n, n // 8),
        (8, n // 8, n),
    )


def small(sizes: Sizes) -> Iterator[Workload]:
    """Thousands of them at once."""
    for count, n in sizes.batches:
        yield product(f"{count} products of {n}×{n}", "small products", "float32", (count, n, n), (count, n, n))


def others(sizes: Sizes) -> Iterator[Workload]:
    """Complex numbers, integers, more to do with the result, and another addition and multiplication."""
    n = sizes.view
    for dtype in ("complex64", "complex128"):
        for size in (n // 4, n):
            yield product(
                f"{size}×{size}",
                "complex products",
                dtype,
                (size, size),
                (size, size),
                inputs=complexes(dtype, (size, size), (size, size)),
                flops=8.0 * size**3,
            )

    def integers(rng: np.random.Generator) -> tuple[Array, ...]:
        a, b = (rng.integers(-1000, 1000, (n, n)) for _ in range(2))
        return a, b

    yield product(f"{n}×{n}", "integer products", "int64", (n, n), (n, n), inputs=integers, absent={"jax": "takes minutes"})
    yield product(
        f"gelu(a @ b + c), {n}×{n}",
        "products and more",
        "float32",
        (n, n),
        (n, n),
        line=lambda xp, a, b, c: xp.gelu(a @ b + c),
        inputs=floats("float32", (n, n), (n, n), n, low=-0.05, high=0.05),
        absent={"numpy": "has no erf"},
    )
    p = sizes.path
    yield product(
        f"max-plus, {p}³",
        "max-plus",
        "float32",
        (p, p),
        (p, p),
        line=lambda xp, a, b: xp.max(a[:, :, None] + b, axis=1),
    )


def layers(sizes: Sizes) -> Iterator[Workload]:
    """Convolutions and attention, as neural networks have them."""
    images, channels, side = sizes.images
    heads, length, width = sizes.heads
    absent = {"numpy": "has no convolution"}

    def convolution(name: str, window: int, groups: int) -> Workload:
        return product(
            f"{name}, {images}×{channels}×{side}×{side}",
            "convolutions",
            "float32",
            (images, channels, side, side),
            (channels, channels // groups, window, window),
            line=lambda xp, x, w: xp.conv2d(x, w, window // 2, groups),
            flops=2.0 * images * channels * side**2 * channels // groups * window**2,
            absent=absent,
        )

    yield convolution("3×3", 3, 1)
    yield convolution("1×1", 1, 1)
    yield convolution("depthwise 3×3", 3, channels)
    for causal in (True, False):
        yield Workload(
            f"attention{', causal' * causal}, {heads} heads, {length}×{width}",
            "attention",
            lambda xp, q, k, v, causal=causal: xp.attention(q, k, v, causal),
            floats("float32", *[(1, heads, length, width)] * 3, low=-1.0),
            tolerance=1e-4,
            flops=4.0 * heads * length * length * width * (0.5 if causal else 1.0),
            compute_bound=True,
            absent={"numpy": "has no attention"},
        )
