"""One process with one number of threads, in which all contenders are measured side by side.

`python -m benchmarks.child` is started by `python -m benchmarks`: how many threads there are is settled before any
library is loaded.
"""

from __future__ import annotations

import gc
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from .timing import THROTTLES

SETTINGS = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    *("NUMEXPR_NUM_THREADS", "NUMEXPR_MAX_THREADS", "TENXOR_NUM_THREADS"),
)


def restrict(threads: int) -> None:
    """Let this process use so many CPUs; XLA makes as many threads as there are CPUs, the others do as they are told. Every
    peer is at its best: what slows one down is no setting of ours.
    """
    assert not {"numpy", "torch", "jax", "tenxor"} & set(sys.modules), "a library was loaded before it was restricted"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ.update(dict.fromkeys(SETTINGS, str(threads)))
    for name in THROTTLES:
        os.environ.pop(name, None)
    os.environ["TENXOR_CACHE_DIR"] = ""  # compile times are those of compiling
    os.environ.setdefault("JAX_PLATFORMS", "cpu")


def measure(threads: int, only: str, quick: bool) -> dict[str, Any]:
    """Everything that depends on the number of threads."""
    from . import overhead
    from .check import Reference
    from .limits import Limits, limit_seconds
    from .peers import installed
    from .programs import measure as programs
    from .sized import measure as sized
    from .timing import SPINNING, Pace
    from .training import measure as training
    from .workloads import workloads

    peers, missing = installed()
    machine = Limits(threads)
    limits = machine.measured()
    pace = Pace(0.3, 3, 15) if quick else Pace()
    pace = pace._replace(settle=SPINNING if threads > 1 else 0.0)
    found: dict[str, Any] = {
        "limits": limits,
        "versions": {peer.name: peer.version for peer in peers},
        "titles": {peer.name: peer.title for peer in peers},
        "missing": missing,
        "workloads": {},
    }
    reference = Reference()
    overhead.start(peers)
    chosen = [w for w in workloads() if re.search(only, w.name) or re.search(only, w.family)]
    for number, w in enumerate(chosen):
        row = one(w, peers, reference, pace)
        found["workloads"][w.name] = row
        row["limit"], row["limited by"] = limit_seconds(limits, **row["least"])
        print(f"{threads} threads {number + 1:3}/{len(chosen)}  {progress(w.name, row)}", file=sys.stderr, flush=True)
        gc.collect()
    for name, value in machine.measured().items():  # before and after: a limit is what was reached in the better moment
        limits[name] = max(limits[name], value)
    for row in found["workloads"].values():
        row["limit"], row["limited by"] = limit_seconds(limits, **row["least"])
    if re.search(only, "new shapes"):
        found["new shapes"] = overhead.new_shapes(peers)
    if re.search(only, "passes"):
        found["passes"] = overhead.passes(peers)
    if re.search(only, "small operations"):
        found["small operations"] = overhead.small_operations(peers, pace)
    if threads == 1:  # the libraries' threads are the matter of larger work
        found["by size"] = sized.measured(peers, only, sized.PACE._replace(seconds=0.05) if quick else sized.PACE)
        found["programs"] = programs.measured(peers, only, pace._replace(fewest=7))
        # The last, as it sets JAX to float64.
        found["training"] = training.measured(only, training.PACE._replace(fewest=3, most=3) if quick else training.PACE)
    return found


def one(w: Any, peers: list[Any], reference: Any, pace: Any) -> dict[str, Any]:
    """One workload: results checked equal, then timed in turns; then, apart, where Tenxor's time goes."""
    import numpy as np

    from . import inside
    from .check import check
    from .timing import fastest, first_and_warm, side_by_side

    arrays = w.inputs(np.random.default_rng(0))
    right = reference.result(w, arrays)
    right = right if isinstance(right, tuple) else (right,)
    contenders: dict[str, Any] = {}
    first: dict[str, Any] = {}
    written = 0
    for peer in peers:
        runs = peer.runs(w, [peer.array(a) for a in arrays])
        for run in runs:
            if peer.name in ("tenxor", "jax"):  # those who compile
                if peer.name == "tenxor":
                    inside.forget()
                before = inside.compiles()
                began, warm = first_and_warm(run)
                compiled = inside.compiles() - before if peer.name == "tenxor" else 1
                first.setdefault(peer.name, {"first": began, "warm": warm, "compiles": compiled})
            found = run()
            parts = [peer.numpy(part) for part in (found if isinstance(found, (tuple, list)) else (found,))]
            check(w, peer.title, parts, right, arrays)
            if peer.name == "tenxor":
                written = sum(part.nbytes for part in parts)
            del found, parts
        if runs:
            contenders[peer.name] = fastest(runs)
    del right
    kernel, python = inside.parts(contenders["tenxor"], hosted=w.hosted)
    timed = side_by_side(contenders, pace)
    least = {
        "read": sum(a.nbytes for a in arrays) if w.read is None else w.read,
        "written": written,
        "operand": max(written, *(a.nbytes for a in arrays)),
        "flops": w.flops,
        "dtype": "float64" if arrays[0].dtype in (np.float64, np.complex128) else "float32",
    }
    return {
        "family": w.family,
        "seconds": {name: t._asdict() for name, t in timed.items()},
        "absent": dict(w.absent),
        "kernel": kernel,
        "python": python,
        "first": first,
        "least": least,
        "compute bound": w.compute_bound,
        "tolerance": w.tolerance,
    }


def progress(name: str, row: dict[str, Any]) -> str:
    """A line for those who watch."""
    from .timing import shown

    times = {peer: t["median"] for peer, t in row["seconds"].items()}
    ours = times["tenxor"]
    others = ", ".join(f"{peer} {t / ours:.2f}" for peer, t in times.items() if peer != "tenxor")
    return f"{name}: {shown(ours)}, {100 * row['limit'] / ours:.0f} % of {row['limited by']}; as fast as {others}"


if __name__ == "__main__":
    count, pattern, hurried, path = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "quick", Path(sys.argv[4])
    restrict(count)
    path.write_text(json.dumps(measure(count, pattern, hurried)))
