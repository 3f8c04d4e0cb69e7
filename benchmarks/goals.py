"""What Tenxor sets out to reach, as conditions on what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

MOVING = 0.9  # of the time on one thread: who needs more than that for moving bytes on all threads is not compute-bound
LARGE = 2.0 * 1024**3  # flops
Rows = dict[str, dict[str, Any]]  # workloads by name, as `child.one` reports them


class Goal(NamedTuple):
    """Something measured for each workload of some families, and how much it should be."""

    what: str
    families: tuple[str, ...]
    measure: str
    value: Callable[[dict[str, Any]], float | None]
    least: float
    unit: str


def median(row: dict[str, Any], peer: str = "tenxor") -> float | None:
    """Seconds of one contender, None where it takes no part."""
    found = row["seconds"].get(peer)
    return None if found is None else found["median"]


def ratio(row: dict[str, Any], peer: str) -> float | None:
    """How many times as fast as the peer Tenxor is."""
    theirs, ours = median(row, peer), median(row)
    return None if theirs is None or ours is None else theirs / ours


def best_peer(row: dict[str, Any]) -> str | None:
    """The fastest of the others."""
    times = {peer: t["median"] for peer, t in row["seconds"].items() if peer != "tenxor"}
    return min(times, key=times.__getitem__) if times else None


def to_best(row: dict[str, Any]) -> float | None:
    """The ratio to the best peer."""
    best = best_peer(row)
    return None if best is None else ratio(row, best)


def of_limit(row: dict[str, Any]) -> float:
    """The fraction of what the machine can do."""
    found: float = row["limit"] / row["seconds"]["tenxor"]["median"]
    return found


def _to(peer: str) -> Callable[[dict[str, Any]], float | None]:
    return lambda row: ratio(row, peer)


def _of_peak_if_large(row: dict[str, Any]) -> float | None:
    return of_limit(row) if row["least"]["flops"] >= LARGE else None


def _of_memory(row: dict[str, Any]) -> float | None:
    own, theirs = (row["memory"].get(name) for name in ("tenxor", "torch"))
    return theirs / own if own and theirs else None


_REDUCTIONS = tuple(f"reductions, {axis}" for axis in ("first axis", "middle axis", "last axis", "all axes"))
GOALS = (
    Goal("fused chains in memory", ("chains in memory",), "× NumPy", _to("numpy"), 2.5, "×"),
    Goal("fused chains in memory", ("chains in memory",), "× PyTorch", _to("torch"), 2.0, "×"),
    Goal("fused chains in memory", ("chains in memory",), "× JAX", _to("jax"), 1.0, "×"),
    Goal("fused chains in memory", ("chains in memory",), "of the bandwidth", of_limit, 0.85, "%"),
    Goal("row-wise", ("row-wise",), "× PyTorch", _to("torch"), 2.0, "×"),
    Goal("row-wise", ("row-wise",), "× JAX", _to("jax"), 1.2, "×"),
    Goal("row-wise", ("row-wise",), "of the bandwidth", of_limit, 0.75, "%"),
    Goal("elementary functions in cache", ("functions in cache",), "× best peer", to_best, 1.0, "×"),
    Goal("reductions, any axis", _REDUCTIONS, "× best peer", to_best, 1.0, "×"),
    Goal("transposed, strided, gathered", ("movement",), "× best peer", to_best, 1.3, "×"),
    Goal("distances, broadcast-reduce", ("broadcast-reduce",), "× NumPy", _to("numpy"), 5.0, "×"),
    Goal("distances, broadcast-reduce", ("broadcast-reduce",), "× best peer", to_best, 1.0, "×"),
    Goal("products", ("products",), "× NumPy", _to("numpy"), 1.0, "×"),
    Goal("products", ("products",), "× PyTorch", _to("torch"), 0.95, "×"),
    Goal("products, 1024 and more", ("products",), "of the FMA peak", _of_peak_if_large, 0.85, "%"),
    Goal("products of views", ("products of views",), "× best peer", to_best, 1.2, "×"),
    Goal("small products by the thousand", ("small products",), "× best peer", to_best, 2.0, "×"),
    Goal("complex products", ("complex products",), "× NumPy", _to("numpy"), 1.0, "×"),
    Goal("integer products", ("integer products",), "× NumPy", _to("numpy"), 10.0, "×"),
    Goal("product, bias and GELU", ("products and more",), "× best peer", to_best, 1.1, "×"),
    Goal("convolutions", ("convolutions",), "× PyTorch", _to("torch"), 1.0, "×"),
    Goal("attention", ("attention",), "× PyTorch", _to("torch"), 1.0, "×"),
    Goal("sorting and searching", ("sorting", "searching", "counting"), "× NumPy", _to("numpy"), 1.0, "×"),
    Goal("matrices and transforms", ("linear algebra", "Fourier transforms"), "× NumPy", _to("numpy"), 1.0, "×"),
    Goal("max-plus product", ("max-plus",), "× NumPy", _to("numpy"), 20.0, "×"),
)
OF_PROGRAMS = (
    Goal("small programs", ("small programs",), "× NumPy", _to("numpy"), 1.0, "×"),
    Goal("large programs", ("large programs",), "× NumPy", _to("numpy"), 2.0, "×"),
    Goal("all programs", ("small programs", "large programs"), "× NumPy", _to("numpy"), 0.8, "×"),
    Goal("small programs", ("small programs",), "× PyTorch", _to("torch"), 2.0, "×"),
)
EPOCH = 5e-3  # seconds for one of three layers of 100 on 50 points
OF_TRAINING = (
    Goal("training steps", ("training steps",), "× PyTorch", _to("torch"), 1.0, "×"),
    Goal("gradient of a chain of ten operations", ("gradients",), "× PyTorch", _to("torch"), 2.0, "×"),
    Goal("gradient of a chain of ten operations", ("gradients",), "× JAX", _to("jax"), 1.0, "×"),
    Goal("Hessian of 100 parameters", ("Hessians",), "× JAX", _to("jax"), 1.0, "×"),
    Goal("an epoch on 50 points", ("toys",), "of 5 ms", lambda row: EPOCH / row["seconds"]["tenxor"]["median"], 1.0, "×"),
    Goal("memory of training steps", ("training steps",), "PyTorch's / Tenxor's", _of_memory, 1.0, "×"),
)


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Of those that are there."""
    there = [v for v in values if v is not None]
    return statistics.geometric_mean(there) if there else None


def table(counts: dict[str, Any], wanted: tuple[Goal, ...] = GOALS + OF_PROGRAMS + OF_TRAINING) -> list[list[str]]:
    """A row for each goal: the worst and the median of its workloads at each number of threads, and whether it is met.

    A goal is met if the worst of its workloads meets it; at how many workloads of all it is met is said too.
    """
    found = [
        [
            "goal",
            "at least",
            *[f"{h}, {n} thread{'s' * (n != '1')}" for n in counts for h in ("worst", "median")],
            "met",
        ]
    ]
    for goal in wanted:
        cells, met, total = [], 0, 0
        for result in counts.values():
            rows: Rows = result["workloads"] | result.get("programs", {}) | result.get("training", {})
            values = {w: v for w, r in rows.items() if r["family"] in goal.families and (v := goal.value(r)) is not None}
            if not values:
                cells += ["–", "–"]
                continue
            worst = min(values, key=values.__getitem__)
            cells += [
                f"{_shown(values[worst], goal.unit)} ({worst})",
                _shown(statistics.median(values.values()), goal.unit),
            ]
            met += sum(v >= goal.least for v in values.values())
            total += len(values)
        found.append([f"{goal.what}: {goal.measure}", _shown(goal.least, goal.unit), *cells, _verdict(met, total)])
    return found + _third_best(counts) + _by_size(counts) + _shapes(counts) + _passes(counts) + _scaling(counts)


def _third_best(counts: dict[str, Any]) -> list[list[str]]:
    """Three of the training steps are half as fast again as PyTorch's."""
    rows: Rows = next((result["training"] for result in counts.values() if result.get("training")), {})
    steps = {name: value for name, row in rows.items() if row["family"] == "training steps" and (value := ratio(row, "torch")) is not None}
    if len(steps) < 3:
        return []
    name = sorted(steps, key=steps.__getitem__)[-3]
    cells = [f"{steps[name]:.2f}× ({name})", f"{statistics.median(steps.values()):.2f}×", *["–", "–"] * (len(counts) - 1)]
    return [["training steps, the third best: × PyTorch", "1.50×", *cells, _verdict(min(3, sum(v >= 1.5 for v in steps.values())), 3)]]


def _by_size(counts: dict[str, Any]) -> list[list[str]]:
    """All that NumPy is known for is as fast as NumPy at every size."""
    rows = next((result["by size"] for result in counts.values() if result.get("by size")), {})
    values = {f"{name}, {size}": t["numpy"] / t["tenxor"] for name, row in rows.items() for size, t in row.items()}
    if not values:
        return []
    worst = min(values, key=values.__getitem__)
    cells = [f"{values[worst]:.2f}× ({worst})", f"{statistics.median(values.values()):.2f}×"]
    more = ["–", "–"] * (len(counts) - 1)
    met = sum(value >= 1 for value in values.values())
    return [["order, counts, matrices and transforms by size: × NumPy", "1.00×", *cells, *more, _verdict(met, len(values))]]


def _shapes(counts: dict[str, Any]) -> list[list[str]]:
    """100 new shapes are one compile, and far faster than where each is compiled."""
    all_shapes = {n: result["new shapes"] for n, result in counts.items() if "new shapes" in result}
    if not all_shapes:
        return []
    compiles, times, fine, quick = [], [], [], []
    for n in counts:
        shapes = all_shapes[n]
        compiled = shapes["compiles"]["tenxor"]
        compiles += [str(compiled), str(compiled)]
        fine.append(compiled <= 1)
        if "jax" in shapes["seconds"]:
            times_ = shapes["seconds"]["jax"] / shapes["seconds"]["tenxor"]
            quick.append(times_ >= 20)
            times += [_shown(times_, "×")] * 2
        else:
            times += ["–", "–"]
    return [
        ["100 new shapes: compiles", "1 at most", *compiles, _verdict(sum(fine), len(fine))],
        ["100 new shapes: × JAX", "20×", *times, _verdict(sum(quick), len(quick))],
    ]


def _passes(counts: dict[str, Any]) -> list[list[str]]:
    """What is met for the first time costs hardly more than the second time."""
    result = next(iter(counts.values())).get("passes")
    if not result:
        return []
    values = {name: row["tenxor"][1] / row["tenxor"][0] for name, row in result.items()}
    worst = min(values, key=values.__getitem__)
    cells = [f"{_shown(values[worst], '×')} ({worst})", _shown(statistics.median(values.values()), "×")]
    met = sum(value >= 1 / 1.3 for value in values.values())
    more = ["–", "–"] * (len(counts) - 1)
    return [["first pass over rows or sizes: × the second's speed", "0.77×", *cells, *more, _verdict(met, len(values))]]


def speed_up(counts: dict[str, Any], name: str) -> float | None:
    """How many times as fast a workload is on all threads as on one."""
    if "1" not in counts or len(counts) < 2:
        return None
    many = next(n for n in counts if n != "1")
    rows = [counts[n]["workloads"].get(name) for n in ("1", many)]
    if None in rows:
        return None
    one, all_ = (row["seconds"]["tenxor"]["median"] for row in rows)
    found: float = one / all_
    return found


def _scaling(counts: dict[str, Any]) -> list[list[str]]:
    """Twice the threads are worth 1.8 times the speed where arithmetic is what takes the time.

    It is not where all threads together need about as long to move the bytes: there the memory is what cannot be doubled.
    """
    if "1" not in counts or len(counts) < 2:
        return []
    many = next(n for n in counts if n != "1")
    alone = counts["1"]["workloads"]
    bound = [
        w
        for w, r in counts[many]["workloads"].items()
        if r["compute bound"] and w in alone and r["limit"] * int(many) <= MOVING * alone[w]["seconds"]["tenxor"]["median"]
    ]
    ups = {w: up for w in bound if (up := speed_up(counts, w)) is not None}
    if not ups:
        return []
    least = 0.9 * int(many)
    worst = min(ups, key=ups.__getitem__)
    cells = ["–", "–", f"{ups[worst]:.2f}× ({worst})", f"{statistics.median(ups.values()):.2f}×"]
    met = sum(up >= least for up in ups.values())
    return [[f"{many} threads against one, compute-bound", f"{least:.1f}×", *cells, _verdict(met, len(ups))]]


def _verdict(met: int, total: int) -> str:
    if not total:
        return "not measured"
    return f"{'yes' if met == total else 'no'}: {met} of {total}"


def _shown(value: float, unit: str) -> str:
    return f"{100 * value:.0f} %" if unit == "%" else f"{value:.2f}×"
