"""Machine code that runs a sequence of kernels repeatedly, without Python in between, for the loop of a scan (`launch.py: _LaunchLoop`)."""

from __future__ import annotations

LAUNCH_LOOP_SYMBOL = "repeat"


RECORD_WORDS = 5  # 64-bit words in the record of a kernel


def build_launch_loop_ir() -> str:
    """Return the LLVM module, as text, with the function `repeat`, which runs a sequence of kernels in each of several iterations.

    The iterations are those from `%first` up to, but without, `%last`. `%kernels` has a record of five 64-bit words for each of `%count`
    kernels. The first three words are the address of the code, the extent of the split loop, and the address of the arguments for iteration
    0. The fourth is the distance in bytes between the arguments of consecutive iterations, and the fifth the length of a chunk of the loop.

    With a length of 0, the calling thread runs the whole loop. Otherwise `%helpers` worker threads take chunks, too: by the function
    `share` of `parallel_for.py`, whose address is `%share`, with the work queue at the address `%place`.
    """
    return f"""
define void @repeat(ptr %kernels, i64 %count, i64 %first, i64 %last, ptr %share, ptr %place, i64 %helpers) {{
entry:
  %begins = icmp slt i64 %first, %last
  %has = icmp sgt i64 %count, 0
  %any = and i1 %begins, %has
  br i1 %any, label %turn, label %done
turn:
  %t = phi i64 [ %first, %entry ], [ %t.next, %turn.end ]
  br label %kernel
kernel:
  %k = phi i64 [ 0, %turn ], [ %k.next, %next ]
  %at = mul i64 %k, {RECORD_WORDS}
  %row = getelementptr i64, ptr %kernels, i64 %at
  %code = load ptr, ptr %row
  %split.at = getelementptr i64, ptr %row, i64 1
  %split = load i64, ptr %split.at
  %base.at = getelementptr i64, ptr %row, i64 2
  %base = load ptr, ptr %base.at
  %step.at = getelementptr i64, ptr %row, i64 3
  %step = load i64, ptr %step.at
  %piece.at = getelementptr i64, ptr %row, i64 4
  %piece = load i64, ptr %piece.at
  %skip = mul i64 %step, %t
  %block = getelementptr i8, ptr %base, i64 %skip
  %is.alone = icmp eq i64 %piece, 0
  br i1 %is.alone, label %alone, label %shared
alone:
  call void %code(ptr %block, i64 0, i64 %split, i64 0)
  br label %next
shared:
  call void %share(ptr %place, ptr %code, ptr %block, i64 0, i64 %split, i64 %piece, i64 %helpers)
  br label %next
next:
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %kernel, label %turn.end
turn.end:
  %t.next = add i64 %t, 1
  %again = icmp slt i64 %t.next, %last
  br i1 %again, label %turn, label %done
done:
  ret void
}}
"""
