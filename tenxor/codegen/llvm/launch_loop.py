"""Machine code that runs a sequence of kernels repeatedly, without Python in between, for the loop of a scan (`launch.py: _LaunchLoop`)."""

from __future__ import annotations

LAUNCH_LOOP_SYMBOL = "repeat"


RECORD_WORDS = 5  # 64-bit words in the record of a kernel


def build_launch_loop_ir() -> str:
    """Return the LLVM module, as text, with the function `repeat`, which runs a sequence of kernels in each of several iterations.

    The iterations are those from `%first` up to, but without, `%last`. `%kernels` has a record of five 64-bit words for each of `%count`
    kernels. The first three words are the address of the code, the extent of the split loop, and the address of the arguments for iteration
    0. The fourth is the distance in bytes between the arguments of consecutive iterations, and the fifth the length of a chunk of the loop.

    With a length of 0, the calling thread runs the whole loop. Otherwise `%worker.count` worker threads take chunks, too: by the function
    `share` of `parallel_for.py`, whose address is `%share`, with the work queue at the address `%queue`.
    """
    return f"""
define void @repeat(ptr %kernels, i64 %count, i64 %first, i64 %last, ptr %share, ptr %queue, i64 %worker.count) {{
entry:
  %has.iterations = icmp slt i64 %first, %last
  %has.kernels = icmp sgt i64 %count, 0
  %has.work = and i1 %has.iterations, %has.kernels
  br i1 %has.work, label %iteration, label %done
iteration:
  %t = phi i64 [ %first, %entry ], [ %t.next, %iteration.end ]
  br label %kernel
kernel:
  %k = phi i64 [ 0, %iteration ], [ %k.next, %next ]
  %record.offset = mul i64 %k, {RECORD_WORDS}
  %record = getelementptr i64, ptr %kernels, i64 %record.offset
  %code = load ptr, ptr %record
  %split.at = getelementptr i64, ptr %record, i64 1
  %split = load i64, ptr %split.at
  %base.at = getelementptr i64, ptr %record, i64 2
  %base = load ptr, ptr %base.at
  %stride.at = getelementptr i64, ptr %record, i64 3
  %stride = load i64, ptr %stride.at
  %chunk.at = getelementptr i64, ptr %record, i64 4
  %chunk = load i64, ptr %chunk.at
  %distance = mul i64 %stride, %t
  %arguments = getelementptr i8, ptr %base, i64 %distance
  %is.alone = icmp eq i64 %chunk, 0
  br i1 %is.alone, label %alone, label %shared
alone:
  call void %code(ptr %arguments, i64 0, i64 %split, i64 0)
  br label %next
shared:
  call void %share(ptr %queue, ptr %code, ptr %arguments, i64 0, i64 %split, i64 %chunk, i64 %worker.count)
  br label %next
next:
  %k.next = add i64 %k, 1
  %more.kernels = icmp slt i64 %k.next, %count
  br i1 %more.kernels, label %kernel, label %iteration.end
iteration.end:
  %t.next = add i64 %t, 1
  %more.iterations = icmp slt i64 %t.next, %last
  br i1 %more.iterations, label %iteration, label %done
done:
  ret void
}}
"""
