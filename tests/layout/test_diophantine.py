"""Decisions about bounded sums, compared with enumeration."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tenxor.layout.diophantine import is_reachable, merge_terms

from . import examples

terms = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 4)), max_size=4)


def sums(drawn_terms: list[tuple[int, int]]) -> set[int]:
    ranges = [range(0, step * max_count + 1, step) for step, max_count in drawn_terms]
    return {sum(choice) for choice in product(*ranges)}


@examples(500)
@given(terms)
def test_is_reachable_accepts_exactly_the_possible_sums(drawn_terms):
    reached = sums(drawn_terms)
    for target in range(-2, max(reached) + 3):
        assert is_reachable(target, drawn_terms) == (target in reached)


@examples(300)
@given(terms)
def test_merged_terms_reach_the_same_sums(drawn_terms):
    assert sums(merge_terms(drawn_terms)) == sums(drawn_terms)


def test_terms_of_contiguous_rows_merge_into_one():
    assert merge_terms([(20, 2), (5, 3), (1, 4)]) == [(1, 59)]


def test_is_reachable_is_exact_for_large_numbers():
    assert is_reachable(3 * 10**15 + 7, [(10**15, 5), (7, 10**9)])
    assert not is_reachable(3 * 10**15 + 6, [(10**15, 5), (7, 1)])
