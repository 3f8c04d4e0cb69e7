"""The same answer from everybody, and then how long each takes for it."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import inside
from ..check import check
from ..peers import Peer
from ..timing import Pace, Run, first_and_warm, side_by_side
from .catalogue import programs
from .program import Array, Program

TAKING_PART = ("tenxor", "numpy", "torch")


def ready(program: Program, peer: Peer, given: Sequence[Any]) -> Run:
    """The program as a call that returns when its result is in memory."""
    line = getattr(program, peer.name)
    return peer.ready(line, [peer.array(each) if isinstance(each, np.ndarray) else each for each in given])


def answer(run: Run, peer: Peer) -> list[Array]:
    """All its parts, as NumPy sees them."""
    found: Any = run()
    return [np.asarray(peer.numpy(part)) for part in (found if isinstance(found, tuple) else (found,))]


def checked(program: Program, peers: Sequence[Peer], size: tuple[int, ...]) -> dict[str, Run]:
    """A call for each library, once all of them have given what NumPy gives. Two calls in a row give the same."""
    given = program.inputs(np.random.default_rng(0), *size)
    arrays = [each for each in given if isinstance(each, np.ndarray)]
    runs = {peer.name: ready(program, peer, given) for peer in peers}
    right = answer(runs["numpy"], next(peer for peer in peers if peer.name == "numpy"))
    for peer in peers:
        for _ in range(2):
            check(program, peer.title, answer(runs[peer.name], peer), right, arrays)
    return runs


def measured(peers: Sequence[Peer], only: str, pace: Pace) -> dict[str, Any]:
    """What the report wants to know of each program whose name or family `only` finds."""
    peers = [peer for peer in peers if peer.name in TAKING_PART]
    found: dict[str, Any] = {}
    for program in programs():
        if not (re.search(only, program.name) or re.search(only, program.family)):
            continue
        runs = checked(program, peers, program.size)
        inside.forget()
        first, _ = first_and_warm(runs["tenxor"])
        timed = side_by_side(runs, pace)
        found[program.name] = {
            "family": program.family,
            "first": first,
            "seconds": {name: t._asdict() for name, t in timed.items()},
        }
        times = {name: t.median for name, t in timed.items()}
        others = ", ".join(f"{name} {t / times['tenxor']:.2f}" for name, t in times.items() if name != "tenxor")
        print(f"{program.name}: as fast as {others}", file=sys.stderr, flush=True)
        gc.collect()
    return found
