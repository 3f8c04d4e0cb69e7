"""Small tensors computed as large ones are: where sizes decide, as of memory that is taken over, programs would never come to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from tenxor import codegen
from tenxor.lowering import match_contraction, predict_contraction
from tenxor.target import Target
from tests.machines import tuned

BLOCK = 500  # seeds whose programs run under the same rules

plans = import_module("tenxor.runtime.realize")  # `tenxor.runtime.realize` is the function


def blocks(seeds: range) -> list[range]:
    """The seeds, cut where rules change."""
    return [range(k, min(k + BLOCK - k % BLOCK, seeds.stop)) for k in seeds if k == seeds.start or k % BLOCK == 0]


@contextmanager
def as_large(seed: int) -> Iterator[None]:
    """Meanwhile products of two rows are products; in every other block an operand of any size may donate its memory to the result."""
    least, in_place = match_contraction.MIN_CONTRACTION_SIZES, Target(0).thread_limits.min_donated_bytes
    _set((2, 2, 2), 1 if seed // BLOCK % 2 else in_place)
    try:
        yield
    finally:
        _set(least, in_place)


def _set(least: tuple[int, int, int], in_place: int) -> None:
    match_contraction.MIN_CONTRACTION_SIZES = predict_contraction.MIN_CONTRACTION_SIZES = least  # type: ignore[attr-defined]
    if codegen.BACKEND_NAME == "llvm":
        from tenxor.codegen.llvm.compiler import compiler

        compiler().target = tuned(compiler().target, thread_limits={"min_donated_bytes": in_place})
    else:
        from tenxor.codegen import interpreter

        interpreter._LOOP_PLANNING_TARGET = tuned(interpreter._LOOP_PLANNING_TARGET, thread_limits={"min_donated_bytes": in_place})
    plans.evict_plans()  # they were made by other rules
