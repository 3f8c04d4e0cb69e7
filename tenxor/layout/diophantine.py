"""Exact decisions about bounded linear sums: whether integer multiples of some steps can add up to a target.

A term `(step, max_count)` stands for `step * x` with any integer `0 <= x <= max_count`; steps are positive.
"""

from math import gcd

BoundedTerm = tuple[int, int]


def merge_terms(terms: list[BoundedTerm]) -> list[BoundedTerm]:
    """Return as many terms as `terms` or fewer that reach exactly the same sums, largest step first.

    A term `(step, max_count)` stands for `step * x` with any integer x from 0 to `max_count`; steps are positive. A term extends a finer
    one if its step is a multiple of the finer step, and at most one finer step beyond the span of the finer term.
    """
    result: list[BoundedTerm] = []
    for step, max_count in sorted(term for term in terms if term[1] > 0):
        for i, (fine, reach) in enumerate(result):
            times, remainder = divmod(step, fine)
            if remainder == 0 and times <= reach + 1:
                result[i] = (fine, reach + max_count * times)
                break
        else:
            result.append((step, max_count))
    result.reverse()
    return result


def is_reachable(target: int, terms: list[BoundedTerm]) -> bool:
    """Return whether `target` is a sum of one multiple from each of `terms`; without terms, whether it is 0.

    A term `(step, max_count)` has the multiples `step * x` with an integer x from 0 to `max_count`; steps are positive. The search goes
    from the largest step down. Bounds and common divisors of the remainder leave few multiples to try, and decide the last two terms
    exactly.
    """
    steps = merge_terms(terms)
    divisors = [0] * (len(steps) + 1)
    spans = [0] * (len(steps) + 1)
    for i in range(len(steps) - 1, -1, -1):
        step, max_count = steps[i]
        divisors[i] = gcd(step, divisors[i + 1])
        spans[i] = step * max_count + spans[i + 1]
    return _search(target, 0, steps, divisors, spans, set())


def _search(
    target: int,
    k: int,
    steps: list[BoundedTerm],
    divisors: list[int],
    spans: list[int],
    failed: set[tuple[int, int]],
) -> bool:
    """Return whether `target` is a sum of one multiple from each term in `steps[k:]`, which are sorted by descending step.

    `divisors[k]` is the greatest common divisor of the steps of these terms, and `spans[k]` the largest sum. `failed` collects the pairs
    `(k, target)` for which the answer is False, so that none is searched twice.
    """
    if not 0 <= target <= spans[k]:
        return False
    if k == len(steps):
        return True  # the last span is 0, so the target is 0
    if target % divisors[k] or (k, target) in failed:
        return False
    step, max_count = steps[k]
    min_count = max(0, -((spans[k + 1] - target) // step))
    max_count = min(max_count, target // step)
    count_step = 1
    if divisors[k + 1]:  # only these multiples leave a remainder that the gcd of the finer steps divides
        count_step = divisors[k + 1] // divisors[k]
        residue = target // divisors[k] * pow(step // divisors[k], -1, count_step) if count_step > 1 else 0
        min_count += (residue - min_count) % count_step
    for count in range(min_count, max_count + 1, count_step):
        if _search(target - count * step, k + 1, steps, divisors, spans, failed):
            return True
    failed.add((k, target))
    return False
