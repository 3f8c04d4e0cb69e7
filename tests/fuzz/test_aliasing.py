"""The aliasing fuzz: random programs mean what they say, line by line, whatever is realised first.

`pytest tests/fuzz --fuzz 100000` runs more of them; `python -m tests.fuzz SEED` runs and prints one.
"""

from __future__ import annotations

import time

import pytest

from tenxor.kernel import footprint, pairs

from .running import check_seed

CHUNK = 250


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Cuts the seeds into chunks, which pytest-xdist can run side by side."""
    if "seeds" not in metafunc.fixturenames:
        return
    chunks = cut(metafunc.config.getoption("--fuzz"))
    metafunc.parametrize("seeds", chunks, ids=[f"{seeds.start}-{seeds.stop - 1}" for seeds in chunks])


def cut(count: int) -> list[range]:
    return [range(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]


def test_programs_mean_what_they_say(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pairs, footprint):
        monkeypatch.setattr(module, "LEAST", (2, 2, 2))  # tensors are small here
    began = time.perf_counter()
    for seed in seeds:
        check_seed(seed)
    print(f"{len(seeds) / (time.perf_counter() - began):.0f} programs per second")


def test_the_chunks_cover_every_seed() -> None:
    assert [seed for seeds in cut(1234) for seed in seeds] == list(range(1234))
