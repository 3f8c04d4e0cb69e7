"""Symbolic sizes compared with plain ints in the same program."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest

from tenxor.known import holds
from tenxor.sizes import Condition, Number, Quotient, Size, Trace

Program = Callable[[Sequence[int]], tuple[int, ...]]


def traced(program: Callable[..., tuple[object, ...]], *numbers: int) -> Callable[..., tuple[int, ...] | None]:
    """Return a function that gives the results of a program for other numbers."""
    trace = Trace()
    sizes = [trace.size(n) for n in numbers]
    return trace.written(program(*sizes))


def random_program(seed: int) -> Program:
    """Return random arithmetic with comparisons, the same for each seed."""

    def run(given: Sequence[int]) -> tuple[int, ...]:
        rng, values = random.Random(seed), [*given, 2, 7]
        for _ in range(rng.randrange(2, 12)):
            a, b = rng.choice(values), rng.choice(values)
            kind = rng.randrange(12)
            if kind < 5:
                values.append((a + b, a - b, a * b, -a, abs(a))[kind])
            elif kind == 5 and b != 0:
                values += divmod(a, b)
            elif kind == 6 and b:
                values.append(a // b - 3 % b)
            elif kind == 7:
                values += sorted((a, b))
            elif kind == 8:
                values.append(max(values[-3:]))
            elif kind == 9:
                values.append(a if a == b or a >= 9 else b + 1)
            elif kind == 10:
                values.append(len({a, a + b - b}))
            elif kind == 11 and 0 <= a < 20:
                values.append(sum(range(a)))
        return tuple(values)

    return run


@pytest.mark.parametrize("seed", range(300))
def test_traced_program_gives_the_same_for_other_sizes(seed: int) -> None:
    program, rng = random_program(seed), random.Random(seed)
    given = [rng.choice((0, 1, 2, 3, 5, 8, 12, 30, -1, -4)) for _ in range(3)]
    trace = Trace()
    results = program([trace.size(n) for n in given])  # type: ignore[misc]
    found, words = trace.written(results), trace.words(())
    assert found(*given) == program(given)
    for other in product((0, 1, 3, 4, 7, 24, -2), repeat=3):
        answer = found(*other)
        assert holds(words, other) == (answer is not None)
        if answer is not None:
            assert answer == program(other)


def test_traced_programs_hold_for_many_other_sizes() -> None:
    program = random_program(0)
    suited = 0
    for seed in range(100):
        program = random_program(seed)
        found = traced(lambda *sizes, program=program: program(sizes), 5, 8, 12)
        suited += any(found(*other) is not None for other in product((6, 7, 11, 13), repeat=3))
    assert suited > 60


def test_equal_expressions_record_no_guard() -> None:
    trace = Trace()
    n, m = trace.size(6), trace.size(4)
    assert n * m + m == m * (n + 1) and (n * m) % n == 0 and n * m // m == n and (n + m) * 2 - m - m == n + n
    assert {trace.said(line) for line in trace.lines if isinstance(line, Condition)} <= {"n1 != 0", "n0 != 0"}


def test_constant_expressions_are_plain_ints() -> None:
    trace = Trace()
    n = trace.size(6)
    assert [type(x) for x in (n - n, n * 0, n // n, (n + 3) - n, n % n)] == [int] * 5


def test_unread_remainder_records_no_guard() -> None:
    """The replay may be traced, too, and holds whether sizes divide or not, unless a remainder was read."""
    by_quotient = traced(lambda n: (n // 7 // 2,), 30)
    by_rest = traced(lambda n: (n // 7 - n % 7 // 2,), 30)
    for found, of_31, of_28 in ((by_quotient, (2,), (2,)), (by_rest, (3,), None)):
        again = traced(lambda n, found=found: found(n), 30)
        assert found(31) == again(31) == of_31
        assert again(28) == found(28) == of_28


def test_bounds_of_one_size_are_merged_into_one_guard() -> None:
    trace = Trace()
    n, m = trace.size(100), trace.size(7)
    assert [n > 32, n * 8 <= 5000, n < 1 << 40, n != 40, n != 5, n * -3 < -5, m * 2 != 3, 3 * n != 1000, n > m, n * n > 6] == [True] * 10
    assert [trace.said(line) for line in trace.brief()] == ["33 <= n0 <= 625", "n0 != 40", "-1*n0 + n1 < 0", "-1*n0*n0 < -6"]
    assert n == 100 and m >= 7
    assert [trace.said(line) for line in trace.brief()[:2]] == ["100 <= n0 <= 100", "7 <= n1"]


def test_conversion_to_int_pins_the_size() -> None:
    for take in (range, lambda n: [0] * n, lambda n: "abcdefghij"[n], str, lambda n: n.bit_length(), lambda n: f"{n}", int):
        found = traced(lambda n, take=take: (take(n) and n,), 6)
        assert found(6) == (6,) and found(7) is None


def test_numpy_and_floats_refuse_symbolic_sizes() -> None:
    n = Trace().size(6)
    refused: list[Callable[[], object]] = [
        lambda: np.arange(n),  # type: ignore[call-overload]
        lambda: np.array([n, 1]),
        lambda: np.ones(3) * n,
        lambda: n * np.int64(3),  # type: ignore[operator]
        lambda: n - np.ones(3),  # type: ignore[operator]
        lambda: n * 1.5,  # type: ignore[operator]
        lambda: n / 2,  # type: ignore[operator]
        lambda: n < 1.5,  # type: ignore[operator]
        lambda: divmod(n, 0.5),  # type: ignore[operator]
    ]
    for refuse in refused:
        with pytest.raises(TypeError):
            refuse()
    assert n != 6.5 and n != "6"


def test_float_divided_by_a_size_supports_no_operation() -> None:
    n = Trace().size(6)
    found = 1.5 / n
    assert isinstance(found, Quotient) and (found.over, found.by) == (1.5, n) and repr(found) == "1.5 / (n0)"
    refused: list[Callable[[], object]] = [
        lambda: found == 0.25,
        lambda: found != 0,
        lambda: found < 1,
        lambda: bool(found),
        lambda: float(found),  # type: ignore[arg-type]
        lambda: {found},
        lambda: found * 2,  # type: ignore[operator]
        lambda: 2 + found,  # type: ignore[operator]
        lambda: 1 / n,  # type: ignore[operator]
    ]
    for refuse in refused:
        with pytest.raises(TypeError):
            refuse()


def test_symbolic_sizes_differ_from_ints_and_other_traces_as_keys() -> None:
    n, other = Trace().size(6), Trace().size(6)
    known: dict[Number, str] = {6: "int", other: "other"}
    assert n not in known and n != other and isinstance(n, Size)
    same = n.trace.size(6)
    assert {n: 1}[same] == 1 and [n.trace.said(line) for line in n.trace.lines] == ["n0 + -1*n1 == 0"]


def test_division_by_zero_raises_or_fails_the_guard() -> None:
    with pytest.raises(ZeroDivisionError):
        traced(lambda n, m: (n // m,), 6, 0)
    assert traced(lambda n, m: (n // m,), 6, 4)(6, 0) is None
