"""Machine code that shares a loop of a kernel among threads, so that worker threads take part without Python. The module is LLVM IR as
text, with the functions `FUNCTION_NAMES`; `codegen/threads/work_queue.py` calls them.

The work queue of the caller and the workers is a block of memory. Workers wait for a token of a semaphore. To share a loop, the caller
writes the job down, opens the queue (`%door`), and releases a token for each worker. A worker with a token enters if the queue is open, and
takes chunks of the loop, like the caller, until no chunk is left. The caller then closes the queue, and waits for the workers still inside;
the last worker to leave posts a semaphore (`%news`). So a worker with a late wake-up delays no thread, and finds the queue closed. Every
thread polls for a while before it sleeps, since work often comes in quick succession, and a wake-up takes tens of microseconds. A worker
may be restricted to some CPUs for the wake-up (`_utils/process.py`); once awake, the worker removes the restriction.

Callers come in turn: Python code holds a lock (`codegen/threads/worker_pool.py`). Machine code without this lock
(`fastpath/emit/graph_evaluation.py`) first checks that the queue is free, and that all workers are awake. Of two callers at the same
moment, one waits.
"""

from __future__ import annotations

from string import Template

from ...target import Target

WORK_QUEUE_BYTES = 512  # bytes of the work queue, in lines of 64, so that writes by a thread do not slow down the others
IN_USE_OFFSET, SLEEPING_COUNT_OFFSET = 160, 328  # offsets: whether the queue is in use, and the number of sleeping workers
# Offsets: how often workers were placed on CPUs, and the CPUs allowed; bytes of the latter
PLACEMENT_COUNT_OFFSET, CPU_MASK_OFFSET, CPU_MASK_BYTES = 320, 384, 128
# The hint to the other hardware threads of a core
PAUSE_INTRINSICS = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32 1)"}
FUNCTION_NAMES = ("prepare", "share", "serve", "stop")
OPEN_FLAG, STOPPED_FLAG = 1 << 30, 1 << 29  # flags in `%door`, beside the number of workers inside


def build_parallel_for_ir(target: Target) -> str:
    """Return the LLVM module, as text, with the functions `FUNCTION_NAMES`, for the system and the processor of `target`.

    `prepare(queue)` initializes a work queue. `share(queue, kernel, arguments, begin, end, chunk, workers)` runs a loop. `serve(queue,
    worker)` is the work of a worker thread, and `stop(queue, workers)` ends the workers.
    """
    relax = PAUSE_INTRINSICS.get(target.processor.architecture)
    declaration = "define internal void @nothing() { ret void }" if relax is None else f"declare void {relax.replace(' 1', '')}"
    triple = target.processor.triple
    semaphores = next((code for system, code in _SEMAPHORES_BY_SYSTEM.items() if system in triple), _POSIX_SEMAPHORES)
    semaphores += _CPU_MASK_CODE if "linux" in triple else _NO_CPU_MASK_CODE
    return _TEMPLATE.substitute(semaphores=semaphores, known=declaration, relax=relax or "@nothing()", polls=target.thread_limits.max_polls)


# The semaphores of each operating system, within a process: `make` an empty one, `post` to it, and take from it, at once (`try`) or after a
# wait (`await`). The last two return 0 on success.
_POSIX_SEMAPHORES = """
declare i32 @sem_init(ptr, i32, i32)
declare i32 @sem_post(ptr)
declare i32 @sem_wait(ptr)
declare i32 @sem_trywait(ptr)

define internal void @make(ptr %semaphore) {
  call i32 @sem_init(ptr %semaphore, i32 0, i32 0)
  ret void
}

define internal void @post(ptr %semaphore) {
  call i32 @sem_post(ptr %semaphore)
  ret void
}

define internal i32 @try(ptr %semaphore) {
  %missing = call i32 @sem_trywait(ptr %semaphore)
  ret i32 %missing
}

define internal i32 @await(ptr %semaphore) {
  %interrupted = call i32 @sem_wait(ptr %semaphore)
  ret i32 %interrupted
}
"""
_CPU_MASK_CODE = f"""
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal void @roam(ptr %cpus) {{
  call i32 @sched_setaffinity(i32 0, i64 {CPU_MASK_BYTES}, ptr %cpus)
  ret void
}}
"""
_NO_CPU_MASK_CODE = """
define internal void @roam(ptr %cpus) {
  ret void
}
"""
_DARWIN_SEMAPHORES = """
declare ptr @dispatch_semaphore_create(i64)
declare i64 @dispatch_semaphore_signal(ptr)
declare i64 @dispatch_semaphore_wait(ptr, i64)

define internal void @make(ptr %semaphore) {
  %made = call ptr @dispatch_semaphore_create(i64 0)
  store ptr %made, ptr %semaphore
  ret void
}

define internal void @post(ptr %semaphore) {
  %made = load ptr, ptr %semaphore
  call i64 @dispatch_semaphore_signal(ptr %made)
  ret void
}

define internal i32 @taken(ptr %semaphore, i64 %until) {
  %made = load ptr, ptr %semaphore
  %missing = call i64 @dispatch_semaphore_wait(ptr %made, i64 %until)
  %is.missing = icmp ne i64 %missing, 0
  %found = zext i1 %is.missing to i32
  ret i32 %found
}

define internal i32 @try(ptr %semaphore) {
  %missing = call i32 @taken(ptr %semaphore, i64 0)
  ret i32 %missing
}

define internal i32 @await(ptr %semaphore) {
  %missing = call i32 @taken(ptr %semaphore, i64 -1)
  ret i32 %missing
}
"""
_WINDOWS_SEMAPHORES = """
declare ptr @CreateSemaphoreW(ptr, i32, i32, ptr)
declare i32 @ReleaseSemaphore(ptr, i32, ptr)
declare i32 @WaitForSingleObject(ptr, i32)

define internal void @make(ptr %semaphore) {
  %made = call ptr @CreateSemaphoreW(ptr null, i32 0, i32 2147483647, ptr null)
  store ptr %made, ptr %semaphore
  ret void
}

define internal void @post(ptr %semaphore) {
  %made = load ptr, ptr %semaphore
  call i32 @ReleaseSemaphore(ptr %made, i32 1, ptr null)
  ret void
}

define internal i32 @try(ptr %semaphore) {
  %made = load ptr, ptr %semaphore
  %missing = call i32 @WaitForSingleObject(ptr %made, i32 0)
  ret i32 %missing
}

define internal i32 @await(ptr %semaphore) {
  %made = load ptr, ptr %semaphore
  %missing = call i32 @WaitForSingleObject(ptr %made, i32 -1)
  ret i32 %missing
}
"""
_SEMAPHORES_BY_SYSTEM = {"darwin": _DARWIN_SEMAPHORES, "macos": _DARWIN_SEMAPHORES, "windows": _WINDOWS_SEMAPHORES}

_TEMPLATE = Template(f"""
%place = type {{
  i64, [56 x i8],                      ; 0: where the next piece begins
  i32, [60 x i8],                      ; 2: the door
  ptr, ptr, i64, i64,                  ; 4: the job: kernel, its arguments, where the loop ends, the length of a piece
  i64, [24 x i8],                      ; 8: whether there is one
  [64 x i8], [64 x i8],                ; 10: the tokens and 11: the news of the last one out, which are semaphores, or where they are
  i64, i64, [48 x i8],                 ; 12: how often helpers were placed, 13: how many sleep
  [{CPU_MASK_BYTES} x i8]                          ; 15: the CPUs on which they may run
}}

$semaphores
$known

define void @prepare(ptr %place) {{
  %tokens = getelementptr %place, ptr %place, i32 0, i32 10
  %news = getelementptr %place, ptr %place, i32 0, i32 11
  call void @make(ptr %tokens)
  call void @make(ptr %news)
  ret void
}}

; The caller: run kernel(arguments, b, e, 0) for pieces b..e of begin..end, with the help of others, who have other numbers.
define void @share(ptr %place, ptr %kernel, ptr %arguments, i64 %begin, i64 %end, i64 %piece, i64 %helpers) {{
entry:
  %next = getelementptr %place, ptr %place, i32 0, i32 0
  %door = getelementptr %place, ptr %place, i32 0, i32 2
  %tokens = getelementptr %place, ptr %place, i32 0, i32 10
  %news = getelementptr %place, ptr %place, i32 0, i32 11
  %job.kernel = getelementptr %place, ptr %place, i32 0, i32 4
  %job.arguments = getelementptr %place, ptr %place, i32 0, i32 5
  %job.end = getelementptr %place, ptr %place, i32 0, i32 6
  %job.piece = getelementptr %place, ptr %place, i32 0, i32 7
  %taken = getelementptr %place, ptr %place, i32 0, i32 8
  br label %come
come:
  %came = cmpxchg ptr %taken, i64 0, i64 1 acquire monotonic
  %first = extractvalue {{ i64, i1 }} %came, 1
  br i1 %first, label %begin.it, label %again
again:
  call void $relax
  br label %come
begin.it:
  store ptr %kernel, ptr %job.kernel
  store ptr %arguments, ptr %job.arguments
  store i64 %end, ptr %job.end
  store i64 %piece, ptr %job.piece
  store atomic i64 %begin, ptr %next monotonic, align 8
  store atomic i32 {OPEN_FLAG}, ptr %door release, align 4
  call void @give(ptr %tokens, i64 %helpers)
  call void @take_pieces(ptr %place, i64 0)
  %said = atomicrmw and ptr %door, i32 {~OPEN_FLAG} acq_rel
  %inside = xor i32 %said, {OPEN_FLAG}
  %alone = icmp eq i32 %inside, 0
  br i1 %alone, label %done, label %wait
wait:
  %at.once = call i1 @polled(ptr %news)
  br i1 %at.once, label %done, label %sleep
sleep:
  call void @slept(ptr %news)
  br label %done
done:
  store atomic i64 0, ptr %taken release, align 8
  ret void
}}

; A helper, number %worker: come in whenever the door is open, until all is stopped.
define void @serve(ptr %place, i64 %worker) {{
entry:
  %door = getelementptr %place, ptr %place, i32 0, i32 2
  %tokens = getelementptr %place, ptr %place, i32 0, i32 10
  %news = getelementptr %place, ptr %place, i32 0, i32 11
  %placed = getelementptr %place, ptr %place, i32 0, i32 12
  %asleep = getelementptr %place, ptr %place, i32 0, i32 13
  %cpus = getelementptr %place, ptr %place, i32 0, i32 15
  br label %again
again:
  %times = phi i64 [0, %entry], [%now, %look], [%now, %work], [%now, %tell]
  %at.once = call i1 @polled(ptr %tokens)
  br i1 %at.once, label %received, label %sleep
sleep:
  atomicrmw add ptr %asleep, i64 1 monotonic
  call void @slept(ptr %tokens)
  atomicrmw sub ptr %asleep, i64 1 monotonic
  br label %received
received:
  %now = load atomic i64, ptr %placed monotonic, align 8
  %was.placed = icmp ne i64 %now, %times
  br i1 %was.placed, label %roam, label %knock
roam:
  call void @roam(ptr %cpus)
  br label %knock
knock:
  %says = load atomic i32, ptr %door monotonic, align 4
  %stopped = icmp eq i32 %says, {STOPPED_FLAG}
  br i1 %stopped, label %done, label %look
look:
  %is.open = icmp sge i32 %says, {OPEN_FLAG}
  br i1 %is.open, label %enter, label %again
enter:
  %one.more = add i32 %says, 1
  %swap = cmpxchg ptr %door, i32 %says, i32 %one.more acquire monotonic
  %entered = extractvalue {{ i32, i1 }} %swap, 1
  br i1 %entered, label %work, label %knock
work:
  call void @take_pieces(ptr %place, i64 %worker)
  %said = atomicrmw sub ptr %door, i32 1 acq_rel
  %last.out = icmp eq i32 %said, 1
  br i1 %last.out, label %tell, label %again
tell:
  call void @post(ptr %news)
  br label %again
done:
  ret void
}}

; Send every helper home.
define void @stop(ptr %place, i64 %helpers) {{
entry:
  %door = getelementptr %place, ptr %place, i32 0, i32 2
  %tokens = getelementptr %place, ptr %place, i32 0, i32 10
  store atomic i32 {STOPPED_FLAG}, ptr %door release, align 4
  call void @give(ptr %tokens, i64 %helpers)
  ret void
}}

; Put out so many tokens.
define internal void @give(ptr %semaphore, i64 %count) {{
entry:
  br label %next
next:
  %given = phi i64 [0, %entry], [%more, %post]
  %enough = icmp sge i64 %given, %count
  br i1 %enough, label %done, label %post
post:
  call void @post(ptr %semaphore)
  %more = add i64 %given, 1
  br label %next
done:
  ret void
}}

define internal void @take_pieces(ptr %place, i64 %worker) {{
entry:
  %next = getelementptr %place, ptr %place, i32 0, i32 0
  %job.kernel = getelementptr %place, ptr %place, i32 0, i32 4
  %job.arguments = getelementptr %place, ptr %place, i32 0, i32 5
  %job.end = getelementptr %place, ptr %place, i32 0, i32 6
  %job.piece = getelementptr %place, ptr %place, i32 0, i32 7
  %kernel = load ptr, ptr %job.kernel
  %arguments = load ptr, ptr %job.arguments
  %end = load i64, ptr %job.end
  %piece = load i64, ptr %job.piece
  br label %take
take:
  %begin = atomicrmw add ptr %next, i64 %piece monotonic
  %is.left = icmp slt i64 %begin, %end
  br i1 %is.left, label %run, label %done
run:
  %further = add i64 %begin, %piece
  %is.whole = icmp slt i64 %further, %end
  %until = select i1 %is.whole, i64 %further, i64 %end
  call void %kernel(ptr %arguments, i64 %begin, i64 %until, i64 %worker)
  br label %take
done:
  ret void
}}

; Take one from a semaphore, if there is one within a while.
define internal i1 @polled(ptr %semaphore) {{
entry:
  br label %poll
poll:
  %polls = phi i64 [0, %entry], [%more, %poll.again]
  %missing = call i32 @try(ptr %semaphore)
  %got = icmp eq i32 %missing, 0
  br i1 %got, label %done, label %poll.again
poll.again:
  %more = add i64 %polls, 1
  call void $relax
  %enough = icmp sge i64 %more, $polls
  br i1 %enough, label %done, label %poll
done:
  ret i1 %got
}}

; Take one when there is one, and sleep until then.
define internal void @slept(ptr %semaphore) {{
entry:
  br label %sleep
sleep:
  %interrupted = call i32 @await(ptr %semaphore)
  %woken = icmp eq i32 %interrupted, 0
  br i1 %woken, label %done, label %sleep
done:
  ret void
}}
""")
