"""The aliasing fuzz: random programs mean what they say, line by line, whatever is realised first and whoever holds what.

`pytest tests/fuzz --fuzz 100000` runs more of them; `python -m tests.fuzz SEED` runs and prints one.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from . import model
from .programs import written
from .running import check_seed, run
from .small import as_large, blocks
from .ways import WAYS, ways


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Cuts the seeds into blocks, which pytest-xdist can run side by side."""
    if "seeds" not in metafunc.fixturenames:
        return
    every = blocks(range(metafunc.config.getoption("--fuzz")))
    metafunc.parametrize("seeds", every, ids=[f"{seeds.start}-{seeds.stop - 1}" for seeds in every])


def test_random_programs_of_views_and_writes_match_the_model(seeds: range) -> None:
    began = time.perf_counter()
    with as_large(seeds.start):
        for seed in seeds:
            check_seed(seed)
    print(f"{len(seeds) * WAYS / (time.perf_counter() - began):.0f} programs per second")


def test_blocks_of_seeds_cover_every_seed_once() -> None:
    assert [seed for seeds in blocks(range(37, 1234)) for seed in seeds] == list(range(37, 1234))


def test_all_variants_of_a_random_program_have_the_results_of_the_model() -> None:
    """What is known of the first way is what the model says of the others."""
    for seed in range(60):
        for program, expected in ways(written(seed), seed):
            shown = run(program, model.world)
            assert list(map(repr, shown)) == list(map(repr, expected)), [text for text, _ in program]


def test_difference_that_does_not_recur_is_still_reported() -> None:
    """A difference that depends on what ran before is not seen again when the program is made small, and yet it is printed."""
    times = 0

    def moody(log: Any) -> dict[str, Any]:
        nonlocal times
        times += 1
        names = model.world(log)
        return names if times > 1 else {**names, "show": lambda value: log("wrong")}

    with pytest.raises(AssertionError) as raised:
        check_seed(3, moody)
    told = str(raised.value)
    assert "seed 3, way 0" in told and "got:      'wrong'" in told and "it may need what ran before" in told
    assert all(text in told for text, _ in written(3).lines)
