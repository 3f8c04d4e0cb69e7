"""Bounded sums against all of them written out."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tenxor.layout.diophantine import merged, reaches

from . import examples

terms = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 4)), max_size=4)


def sums(given: list[tuple[int, int]]) -> set[int]:
    ranges = [range(0, step * most + 1, step) for step, most in given]
    return {sum(choice) for choice in product(*ranges)}


@examples(500)
@given(terms)
def test_reaches_every_sum_and_nothing_else(given):
    reached = sums(given)
    for target in range(-2, max(reached) + 3):
        assert reaches(target, given) == (target in reached)


@examples(300)
@given(terms)
def test_merged_terms_reach_the_same_sums(given):
    assert sums(merged(given)) == sums(given)


def test_rows_of_a_matrix_merge_into_one_term():
    assert merged([(20, 2), (5, 3), (1, 4)]) == [(1, 59)]


def test_large_numbers_cost_no_more():
    assert reaches(3 * 10**15 + 7, [(10**15, 5), (7, 10**9)])
    assert not reaches(3 * 10**15 + 6, [(10**15, 5), (7, 1)])
