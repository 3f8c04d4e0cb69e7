"""Compare programs of symbolic sizes with the same programs of plain ints."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest

from tenxor.symbolic.guards import guards_hold
from tenxor.symbolic.symint import Condition, FloatBySymInt, IntOrSymInt, SizeTrace, SymInt

Program = Callable[[Sequence[int]], tuple[int, ...]]


def traced(program: Callable[..., tuple[object, ...]], *numbers: int) -> Callable[..., tuple[int, ...] | None]:
    """Trace `program` at `numbers` and return a function that evaluates it for other numbers, or returns None."""
    trace = SizeTrace()
    sizes = [trace.add_input(n) for n in numbers]
    return trace.compile_function(program(*sizes))


def a_program(seed: int) -> Program:
    """Return a program of arithmetic and comparisons, the same for each seed."""

    def run(sizes: Sequence[int]) -> tuple[int, ...]:
        rng, values = random.Random(seed), [*sizes, 2, 7]
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
def test_traced_program_gives_the_same_results_for_every_size_it_accepts(seed: int) -> None:
    program, rng = a_program(seed), random.Random(seed)
    sizes = [rng.choice((0, 1, 2, 3, 5, 8, 12, 30, -1, -4)) for _ in range(3)]
    trace = SizeTrace()
    results = program([trace.add_input(n) for n in sizes])  # type: ignore[misc]
    evaluate, words = trace.compile_function(results), trace.encode(())
    assert evaluate(*sizes) == program(sizes)
    for other_sizes in product((0, 1, 3, 4, 7, 24, -2), repeat=3):
        answer = evaluate(*other_sizes)
        assert guards_hold(words, other_sizes) == (answer is not None)
        if answer is not None:
            assert answer == program(other_sizes)


def test_most_traced_programs_accept_other_sizes() -> None:
    program = a_program(0)
    accepting_programs = 0
    for seed in range(100):
        program = a_program(seed)
        evaluate = traced(lambda *sizes, program=program: program(sizes), 5, 8, 12)
        accepting_programs += any(evaluate(*other_sizes) is not None for other_sizes in product((6, 7, 11, 13), repeat=3))
    assert accepting_programs > 60


def test_equal_expressions_compare_equal_without_recording_a_condition() -> None:
    trace = SizeTrace()
    n, m = trace.add_input(6), trace.add_input(4)
    assert n * m + m == m * (n + 1) and (n * m) % n == 0 and n * m // m == n and (n + m) * 2 - m - m == n + n
    assert {trace.format_guard(line) for line in trace.lines if isinstance(line, Condition)} <= {"n1 != 0", "n0 != 0"}


def test_expression_with_a_constant_value_is_an_int() -> None:
    trace = SizeTrace()
    n = trace.add_input(6)
    assert [type(x) for x in (n - n, n * 0, n // n, (n + 3) - n, n % n)] == [int] * 5


def test_division_records_a_condition_only_if_its_remainder_is_read() -> None:
    """A traced function may be traced again. Its result holds for sizes that do not divide, too, unless a remainder was read."""
    by_quotient = traced(lambda n: (n // 7 // 2,), 30)
    by_rest = traced(lambda n: (n // 7 - n % 7 // 2,), 30)
    for evaluate, of_31, of_28 in ((by_quotient, (2,), (2,)), (by_rest, (3,), None)):
        retraced = traced(lambda n, evaluate=evaluate: evaluate(n), 30)
        assert evaluate(31) == retraced(31) == of_31
        assert retraced(28) == evaluate(28) == of_28


def test_bounds_of_one_size_are_merged_into_one_condition() -> None:
    trace = SizeTrace()
    n, m = trace.add_input(100), trace.add_input(7)
    assert [n > 32, n * 8 <= 5000, n < 1 << 40, n != 40, n != 5, n * -3 < -5, m * 2 != 3, 3 * n != 1000, n > m, n * n > 6] == [True] * 10
    assert [trace.format_guard(line) for line in trace.merged_lines()] == ["33 <= n0 <= 625", "n0 != 40", "-1*n0 + n1 < 0", "-1*n0*n0 < -6"]
    assert n == 100 and m >= 7
    assert [trace.format_guard(line) for line in trace.merged_lines()[:2]] == ["100 <= n0 <= 100", "7 <= n1"]


def test_conversion_to_int_fixes_the_size() -> None:
    for convert in (range, lambda n: [0] * n, lambda n: "abcdefghij"[n], str, lambda n: n.bit_length(), lambda n: f"{n}", int):
        evaluate = traced(lambda n, convert=convert: (convert(n) and n,), 6)
        assert evaluate(6) == (6,) and evaluate(7) is None


def test_numpy_and_float_arithmetic_refuse_symbolic_sizes() -> None:
    n = SizeTrace().add_input(6)
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


def test_float_divided_by_a_size_can_be_stored_but_not_read() -> None:
    n = SizeTrace().add_input(6)
    quotient = 1.5 / n
    assert isinstance(quotient, FloatBySymInt) and (quotient.dividend, quotient.divisor) == (1.5, n) and repr(quotient) == "1.5 / (n0)"
    refused: list[Callable[[], object]] = [
        lambda: quotient == 0.25,
        lambda: quotient != 0,
        lambda: quotient < 1,
        lambda: bool(quotient),
        lambda: float(quotient),  # type: ignore[arg-type]
        lambda: {quotient},
        lambda: quotient * 2,  # type: ignore[operator]
        lambda: 2 + quotient,  # type: ignore[operator]
        lambda: 1 / n,  # type: ignore[operator]
    ]
    for refuse in refused:
        with pytest.raises(TypeError):
            refuse()


def test_size_never_equals_an_int_key_or_a_size_of_another_trace() -> None:
    n, other = SizeTrace().add_input(6), SizeTrace().add_input(6)
    known: dict[IntOrSymInt, str] = {6: "int", other: "other"}
    assert n not in known and n != other and isinstance(n, SymInt)
    same = n.trace.add_input(6)
    assert {n: 1}[same] == 1 and [n.trace.format_guard(line) for line in n.trace.lines] == ["n0 + -1*n1 == 0"]


def test_division_by_zero_raises_and_a_traced_one_rejects_zero() -> None:
    with pytest.raises(ZeroDivisionError):
        traced(lambda n, m: (n // m,), 6, 0)
    assert traced(lambda n, m: (n // m,), 6, 4)(6, 0) is None
