"""Small programs: distances and other reductions of broadcasts, Black–Scholes, and bodies that attract each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .elementwise import NO_ERF
from .workload import Line, Sizes, Workload, floats


def workloads(sizes: Sizes) -> Iterator[Workload]:
    """All of them."""
    yield from distances(sizes)
    for dtype in ("float32", "float64"):
        yield Workload(
            f"Black–Scholes, {dtype}",
            "Black–Scholes",
            black_scholes,
            floats(dtype, *[sizes.options] * 3, low=0.5, high=1.5),
            tolerance=1e-4 if dtype == "float32" else 1e-10,
            compute_bound=True,
            absent=NO_ERF,
        )
    for dtype in ("float32", "float64"):
        n = sizes.bodies
        yield Workload(
            f"n-body step, {dtype}",
            "n-body",
            attracted,
            floats(dtype, (3, n), (3, n), n),
            tolerance=1e-4 if dtype == "float32" else 1e-10,
            flops=18 * n * n,  # 3 differences, 6 for the square, 3 for the weight, 6 for the sum
            compute_bound=True,
        )


def distances(sizes: Sizes) -> Iterator[Workload]:
    """Of all points a to all points b; in PyTorch also by its own function, which may multiply matrices instead."""
    n, m, k = sizes.points
    p = sizes.product

    def row(name: str, line: Line, flops: float, *shapes: tuple[int, ...], **more: Any) -> Workload:
        inputs = floats("float32", *shapes)
        return Workload(name, "broadcast-reduce", line, inputs, tolerance=1e-4, flops=flops, compute_bound=True, **more)

    def euclidean(xp: Any, a: Any, b: Any) -> Any:
        return xp.sqrt(xp.sum((a[:, None] - b[None]) ** 2, axis=-1))

    def manhattan(xp: Any, a: Any, b: Any) -> Any:
        return xp.sum(xp.abs(a[:, None] - b[None]), axis=-1)

    points = ((n, k), (m, k))
    yield row(
        "Euclidean distances",
        euclidean,
        3 * n * m * k,
        *points,
        spelled={"torch": (euclidean, lambda xp, a, b: xp.cdist(a, b))},
    )
    yield row(
        "Manhattan distances",
        manhattan,
        3 * n * m * k,
        *points,
        spelled={"torch": (manhattan, lambda xp, a, b: xp.cdist(a, b, p=1.0))},
    )
    yield row(
        "longest paths (a[:, :, None] + b).max(1)",
        lambda xp, a, b: xp.max(a[:, :, None] + b, axis=1),
        2 * p**3,
        (p, p),
        (p, p),
    )


def black_scholes(xp: Any, price: Any, strike: Any, years: Any) -> Any:
    """What European options, to buy and to sell, are worth at an interest of 2 % and a volatility of 30 %."""
    spread = 0.3 * xp.sqrt(years)
    above = (xp.log(price / strike) + 0.065 * years) / spread  # 0.065 = 0.02 + 0.3**2 / 2
    below = above - spread
    discounted = strike * xp.exp(-0.02 * years)
    call = price * (0.5 + 0.5 * xp.erf(above * 0.5**0.5)) - discounted * (0.5 + 0.5 * xp.erf(below * 0.5**0.5))
    return call, call + discounted - price


def attracted(xp: Any, place: Any, velocity: Any, mass: Any) -> Any:
    """Places and velocities of bodies, both (3, n), after a hundredth of a second; softened, so that none divides by 0."""
    apart = place[:, None, :] - place[:, :, None]
    square = xp.sum(apart * apart, axis=0) + 1e-3
    weight = mass / (square * xp.sqrt(square))
    faster = velocity + 0.01 * xp.sum(apart * weight, axis=-1)
    return place + 0.01 * faster, faster
