"""Machine code that runs a kernel for vectors, or for matrices, on every row or matrix of arrays with several axes and any strides.

A row is the part of an operand that one call of the kernel takes. A shipped kernel for vectors thus serves arrays of any number of axes.
"""

from __future__ import annotations

MAX_OUTER_AXES, MAX_INNER_SIZES, SCRATCH_WORDS = 8, 12, 2
STRIDED_ROWS_SYMBOL = "rows"


def build_strided_rows_ir(pointers: int, scalars: int, *, has_scratch: bool) -> str:
    """Return the LLVM module, as text, with the function `rows`, which runs a kernel on the rows from `begin` up to, but without, `end`.

    The inner kernel has `pointers` operands and `scalars` scalar parameters. `rows` has the signature of a kernel: `rows(arguments, begin,
    end, worker)`. The first `pointers` words of its arguments are addresses in row 0, and the next `scalars` words are numbers. Then
    follow the address of the inner kernel, the elements of a row, the number of the inner kernel's sizes, and these sizes. After these
    follows the number of outer axes. For each of these axes, innermost first, follow the extent and the strides of the pointers in bytes.

    There are at most `MAX_OUTER_AXES` outer axes and `MAX_INNER_SIZES` sizes. With `has_scratch`, the address and the bytes of the scratch
    memory follow, as in the arguments of the inner kernel.
    """
    head = pointers + scalars
    return f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @rows(ptr %arguments, i64 %begin, i64 %end, i64 %worker) {{
entry:
  %kernel.arguments = alloca i64, i64 {head + MAX_INNER_SIZES + 1 + SCRATCH_WORDS}
  %counts = alloca i64, i64 {MAX_OUTER_AXES}
  %kernel.at = getelementptr i64, ptr %arguments, i64 {head}
  %kernel = load ptr, ptr %kernel.at
  %n.at = getelementptr i64, ptr %arguments, i64 {head + 1}
  %n = load i64, ptr %n.at
  %size.count.at = getelementptr i64, ptr %arguments, i64 {head + 2}
  %size.count = load i64, ptr %size.count.at
  %sizes = getelementptr i64, ptr %arguments, i64 {head + 3}
  %axis.count.at = getelementptr i64, ptr %sizes, i64 %size.count
  %axis.count = load i64, ptr %axis.count.at
  %axes = getelementptr i64, ptr %axis.count.at, i64 1
{"".join([_copy_word(k) for k in range(head)])}
  %kernel.sizes = getelementptr i64, ptr %kernel.arguments, i64 {head}
  br label %size
size:
  %s = phi i64 [ 0, %entry ], [ %s.next, %size.copy ]
  %s.more = icmp slt i64 %s, %size.count
  br i1 %s.more, label %size.copy, label %start
size.copy:
  %s.from = getelementptr i64, ptr %sizes, i64 %s
  %s.word = load i64, ptr %s.from
  %s.to = getelementptr i64, ptr %kernel.sizes, i64 %s
  store i64 %s.word, ptr %s.to
  %s.next = add i64 %s, 1
  br label %size
start:
  %stop.at = getelementptr i64, ptr %kernel.sizes, i64 %size.count
  store i64 0, ptr %stop.at
{_copy_scratch_words(pointers) if has_scratch else ""}
  br label %seek
seek:
  %k = phi i64 [ 0, %start ], [ %k.next, %seek.axis ]
  %rest = phi i64 [ %begin, %start ], [ %rest.next, %seek.axis ]
  %k.more = icmp slt i64 %k, %axis.count
  br i1 %k.more, label %seek.axis, label %row
seek.axis:
  %k.first = mul i64 %k, {pointers + 1}
  %k.axis = getelementptr i64, ptr %axes, i64 %k.first
  %k.extent = load i64, ptr %k.axis
  %k.count = urem i64 %rest, %k.extent
  %rest.next = udiv i64 %rest, %k.extent
  %k.count.at = getelementptr i64, ptr %counts, i64 %k
  store i64 %k.count, ptr %k.count.at
{"".join([_move_pointer("k", p, "%k.count") for p in range(pointers)])}
  %k.next = add i64 %k, 1
  br label %seek
row:
  %r = phi i64 [ %begin, %seek ], [ %r.next, %step.end ]
  %r.more = icmp slt i64 %r, %end
  br i1 %r.more, label %run, label %done
run:
  call void %kernel(ptr %kernel.arguments, i64 0, i64 %n, i64 %worker)
  %r.next = add i64 %r, 1
  br label %step
step:
  %a = phi i64 [ 0, %run ], [ %a.next, %wrap ]
  %a.more = icmp slt i64 %a, %axis.count
  br i1 %a.more, label %step.axis, label %step.end
step.axis:
  %a.first = mul i64 %a, {pointers + 1}
  %a.axis = getelementptr i64, ptr %axes, i64 %a.first
  %a.extent = load i64, ptr %a.axis
  %a.count.at = getelementptr i64, ptr %counts, i64 %a
  %a.before = load i64, ptr %a.count.at
  %a.count = add i64 %a.before, 1
  store i64 %a.count, ptr %a.count.at
{"".join([_move_pointer("a", p, "1") for p in range(pointers)])}
  %a.inside = icmp slt i64 %a.count, %a.extent
  br i1 %a.inside, label %step.end, label %wrap
wrap:
  store i64 0, ptr %a.count.at
  %back = sub i64 0, %a.extent
{"".join([_move_pointer("w", p, "%back", "a") for p in range(pointers)])}
  %a.next = add i64 %a, 1
  br label %step
step.end:
  br label %row
done:
  ret void
}}
"""


def _copy_word(k: int) -> str:
    """Return the text of the instructions that copy word `k` of the arguments of `rows` to the arguments of the inner kernel."""
    return f"""
  %word{k}.from = getelementptr i64, ptr %arguments, i64 {k}
  %word{k} = load i64, ptr %word{k}.from
  %word{k}.to = getelementptr i64, ptr %kernel.arguments, i64 {k}
  store i64 %word{k}, ptr %word{k}.to"""


def _copy_scratch_words(pointers: int) -> str:
    """Return the text of the instructions that copy the two words about the scratch memory to the arguments of the inner kernel.

    In the arguments of `rows` they follow the axes, each of which has `pointers` + 1 words. In those of the kernel they follow the stop
    flag.
    """
    return f"""
  %axis.words = mul i64 %axis.count, {pointers + 1}
  %scratch.from = getelementptr i64, ptr %axes, i64 %axis.words
  %scratch.to = getelementptr i64, ptr %stop.at, i64 1
  call void @llvm.memcpy.p0.p0.i64(ptr %scratch.to, ptr %scratch.from, i64 {8 * SCRATCH_WORDS}, i1 false)"""


def _move_pointer(prefix: str, p: int, steps: str, axis: str = "") -> str:
    """Return the text of the instructions that move the inner kernel's pointer number `p` by `steps` steps along an axis.

    `steps` is an operand in LLVM IR, such as `%back`. The words of the axis begin at `%<axis>.axis`; an empty `axis` stands for `prefix`.
    The names of the new values begin with `prefix`.
    """
    return f"""
  %{prefix}.stride{p}.at = getelementptr i64, ptr %{axis or prefix}.axis, i64 {p + 1}
  %{prefix}.stride{p} = load i64, ptr %{prefix}.stride{p}.at
  %{prefix}.distance{p} = mul i64 %{prefix}.stride{p}, {steps}
  %{prefix}.pointer{p}.at = getelementptr i64, ptr %kernel.arguments, i64 {p}
  %{prefix}.pointer{p} = load i64, ptr %{prefix}.pointer{p}.at
  %{prefix}.moved{p} = add i64 %{prefix}.pointer{p}, %{prefix}.distance{p}
  store i64 %{prefix}.moved{p}, ptr %{prefix}.pointer{p}.at"""
