"""Exact decisions about bounded linear sums: whether integer multiples of some steps can add up to a target.

A term `(step, most)` stands for `step * x` with any integer `0 <= x <= most`; steps are positive.
"""

from math import gcd

Term = tuple[int, int]


def merged(terms: list[Term]) -> list[Term]:
    """Return fewer terms that reach exactly the same sums, largest step first.

    A term extends a finer one if its step is a multiple of the finer step, and at most one finer step beyond the span of the finer term.
    """
    result: list[Term] = []
    for step, most in sorted(term for term in terms if term[1] > 0):
        for i, (fine, reach) in enumerate(result):
            times, rest = divmod(step, fine)
            if rest == 0 and times <= reach + 1:
                result[i] = (fine, reach + most * times)
                break
        else:
            result.append((step, most))
    result.reverse()
    return result


def reaches(target: int, terms: list[Term]) -> bool:
    """Return whether `target` is a sum of one multiple from each term.

    The search goes from the largest step down. Bounds and common divisors of the remainder leave few multiples to try, and decide the last
    two terms exactly.
    """
    steps = merged(terms)
    divisors = [0] * (len(steps) + 1)
    spans = [0] * (len(steps) + 1)
    for i in range(len(steps) - 1, -1, -1):
        step, most = steps[i]
        divisors[i] = gcd(step, divisors[i + 1])
        spans[i] = step * most + spans[i + 1]
    return _search(target, 0, steps, divisors, spans, set())


def _search(
    target: int,
    at: int,
    steps: list[Term],
    divisors: list[int],
    spans: list[int],
    failed: set[tuple[int, int]],
) -> bool:
    if not 0 <= target <= spans[at]:
        return False
    if at == len(steps):
        return True  # the last span is 0, so the target is 0
    if target % divisors[at] or (at, target) in failed:
        return False
    step, most = steps[at]
    least = max(0, -((spans[at + 1] - target) // step))
    most = min(most, target // step)
    every = 1
    if divisors[at + 1]:  # only these multiples leave a remainder that the gcd of the finer steps divides
        every = divisors[at + 1] // divisors[at]
        wanted = target // divisors[at] * pow(step // divisors[at], -1, every) if every > 1 else 0
        least += (wanted - least) % every
    for count in range(least, most + 1, every):
        if _search(target - count * step, at + 1, steps, divisors, spans, failed):
            return True
    failed.add((at, target))
    return False
