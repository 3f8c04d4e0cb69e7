"""Random programs say the same with the short way and without. `python -m tests.shortcut FIRST COUNT` runs more of them."""

import pytest

from tenxor import shortcut

from .programs import Program, in_last_bits

PROGRAMS = 300
BATCH = 50
VALUES = 3  # times that each is run, with other values


def differences(seed: int) -> list[tuple[object, object]]:
    """What a program saw with the short way, and without, where these are not the same."""
    found = []
    for values in range(VALUES):
        short = Program(seed, values).run()
        with shortcut.aside():
            own = Program(seed, values).run()
        first = [(a, b) for a, b in zip(short, own, strict=True) if a != b][:1]
        found += [(a, b) for a, b in first if not in_last_bits(a, b)]  # what comes after the first may follow from it
    return found


@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_programs(first: int) -> None:
    assert shortcut.state == "on"
    for seed in range(first, first + BATCH):
        assert differences(seed) == [], f"python -m tests.shortcut {seed}"
