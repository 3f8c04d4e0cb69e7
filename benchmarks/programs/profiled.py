"""Where Tenxor's time goes in a program, function by function."""

from __future__ import annotations

import cProfile
import pstats
import re
import time

from ..peers import Peer
from .catalogue import programs
from .measure import checked

SECONDS = 1.0  # of each program


def profiled(numpy: Peer, tenxor: Peer, only: str, most: int) -> None:
    """Print, for each program, the `most` functions with the most time of their own."""
    for program in programs():
        if not (re.search(only, program.name) or re.search(only, program.family)):
            continue
        run = checked(program, [numpy, tenxor], program.size)["tenxor"]
        profile, runs = cProfile.Profile(), 0
        until = time.perf_counter() + SECONDS
        while time.perf_counter() < until:
            profile.runcall(run)
            runs += 1
        print(f"\n{program.name}, {runs} runs")
        pstats.Stats(profile).sort_stats("tottime").print_stats(most)
