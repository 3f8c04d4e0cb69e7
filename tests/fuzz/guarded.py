"""`python -m tests.fuzz.guarded FIRST COUNT`: random programs in memory that is watched.

Behind every block lies a page that nobody may touch, so whoever reads or writes behind it ends the process; the bytes before a block,
and those between its end and the 64 bytes to which it is aligned, are looked at when it goes. Threads share all loops, however
small, and work that would be alone elsewhere: whatever fuzz makes - gathers, stores, scatter, products - runs in pieces here.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

import tenxor as tx
from tenxor import memory
from tenxor.codegen.llvm.compiler import compiler
from tenxor.codegen.threads.work_queue import NativeWorkQueue
from tenxor.lowering import match_contraction, predict_contraction
from tenxor.memory.block_pool import Block, Pool
from tests.codegen.twins import PATTERN, Array, Fenced

from .running import check_seed, library_world
from .ways import WAYS

blocks = shared = 0


def fenced(pool: Pool, nbytes: int) -> Block:
    """In place of `Pool.make_block`: a block that ends where the process may go no further."""
    global blocks
    blocks += 1
    memory = Fenced(nbytes)
    weakref.finalize(memory.bytes, intact, memory.before)  # which holds no bytes of the block
    return memory.bytes, memory.address, nbytes


def intact(before: Array) -> None:
    """Nothing was written before a block."""
    if not (before == PATTERN).all():
        print("written before a block", file=sys.stderr, flush=True)
        os.abort()  # nothing that is raised here would be heard


def counted(place: NativeWorkQueue, *given: Any) -> Any:
    """In place of `NativeWorkQueue.bind_loop`."""
    global shared
    shared += 1
    return _loop(place, *given)


_loop = NativeWorkQueue.bind_loop


def watch() -> None:
    """From now on blocks are fenced, and loops shared."""
    Pool.make_block = fenced  # type: ignore[method-assign, assignment]
    NativeWorkQueue.bind_loop = counted  # type: ignore[method-assign]
    memory.capacity_of = lambda nbytes: (nbytes + 63) & -64 if nbytes else 64  # type: ignore[assignment]
    made = compiler()
    sharing = made.target.thread_limits._replace(
        max_gil_held_work=0, min_shared_work=0, min_donated_bytes=1, row_grain=1, step_grain=1, min_shared_scatter=1, min_scatter_block=1
    )
    made.target = made.target._replace(thread_limits=sharing)
    tx.set_num_threads(3)
    for module in (match_contraction, predict_contraction):
        module.LEAST = (2, 2, 2)  # type: ignore[attr-defined]  # tensors are small here


def in_new_blocks(log: Callable[[Any], None]) -> dict[str, Any]:
    """The library's world, in which those blocks that were used before are looked at, and not used again."""
    tx.release_memory()
    return library_world(log)


def main(first: int, count: int) -> None:
    """Run programs; what ends the process says where."""
    faulthandler.enable()
    watch()
    for seed in range(first, first + count):
        check_seed(seed, in_new_blocks)
    print(f"{count} programs, each in {WAYS} ways, in {blocks} fenced blocks; {shared} loops were shared by threads")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
