"""Machine code that shares a loop of a kernel among threads, so that worker threads take part without Python. The module is LLVM IR as
text, with the functions `FUNCTION_NAMES`; `codegen/threads/work_queue.py` calls them.

The work queue of the caller and the workers is a block of memory. Workers wait for a token of a semaphore. To share a loop, the caller
writes the job down, opens the queue (`%state`), and releases a token for each worker. A worker with a token enters if the queue is open,
and takes chunks of the loop, like the caller, until no chunk is left. The caller then closes the queue, and waits for the workers still
inside; the last worker to leave posts a semaphore (`%all.left`). So a worker with a late wake-up delays no thread, and finds the queue
closed. Every thread polls for a while before it sleeps, since work often comes in quick succession, and a wake-up takes tens of
microseconds. A worker may be restricted to some CPUs for the wake-up (`_utils/process.py`); once awake, the worker removes the restriction.

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
OPEN_FLAG, STOPPED_FLAG = 1 << 30, 1 << 29  # flags in `%state`, beside the number of workers inside


def build_parallel_for_ir(target: Target) -> str:
    """Return the LLVM module, as text, with the functions `FUNCTION_NAMES`, for the system and the processor of `target`.

    `prepare(queue)` initializes a work queue. `share(queue, kernel, arguments, begin, end, chunk, workers)` calls `kernel(arguments, b, e,
    thread)` for chunks of `chunk` iterations of `begin..end`, with the help of `workers` workers, and returns when all are done.
    `serve(queue, worker)` is the work of worker thread number `worker`. `stop(queue, workers)` tells the workers to end, and does not wait.
    """
    relax = PAUSE_INTRINSICS.get(target.processor.architecture)
    declaration = "define internal void @nothing() { ret void }" if relax is None else f"declare void {relax.replace(' 1', '')}"
    triple = target.processor.triple
    semaphores = next((code for system, code in _SEMAPHORES_BY_SYSTEM.items() if system in triple), _POSIX_SEMAPHORES)
    semaphores += _CPU_MASK_CODE if "linux" in triple else _NO_CPU_MASK_CODE
    return _TEMPLATE.substitute(
        semaphores=semaphores, pause_declaration=declaration, relax=relax or "@nothing()", polls=target.thread_limits.max_polls
    )


# The semaphores of each operating system, within a process: `create` an empty one, `post` to it, and take from it, at once (`try`) or after
# a wait (`await`). The last two return 0 on success.
_POSIX_SEMAPHORES = """
declare i32 @sem_init(ptr, i32, i32)
declare i32 @sem_post(ptr)
declare i32 @sem_wait(ptr)
declare i32 @sem_trywait(ptr)

define internal void @create(ptr %semaphore) {
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

define internal void @lift_placement(ptr %cpus) {{
  call i32 @sched_setaffinity(i32 0, i64 {CPU_MASK_BYTES}, ptr %cpus)
  ret void
}}
"""
_NO_CPU_MASK_CODE = """
define internal void @lift_placement(ptr %cpus) {
  ret void
}
"""
_DARWIN_SEMAPHORES = """
declare ptr @dispatch_semaphore_create(i64)
declare i64 @dispatch_semaphore_signal(ptr)
declare i64 @dispatch_semaphore_wait(ptr, i64)

define internal void @create(ptr %semaphore) {
  %handle = call ptr @dispatch_semaphore_create(i64 0)
  store ptr %handle, ptr %semaphore
  ret void
}

define internal void @post(ptr %semaphore) {
  %handle = load ptr, ptr %semaphore
  call i64 @dispatch_semaphore_signal(ptr %handle)
  ret void
}

define internal i32 @wait_until(ptr %semaphore, i64 %time) {
  %handle = load ptr, ptr %semaphore
  %missing = call i64 @dispatch_semaphore_wait(ptr %handle, i64 %time)
  %is.missing = icmp ne i64 %missing, 0
  %status = zext i1 %is.missing to i32
  ret i32 %status
}

define internal i32 @try(ptr %semaphore) {
  %missing = call i32 @wait_until(ptr %semaphore, i64 0)
  ret i32 %missing
}

define internal i32 @await(ptr %semaphore) {
  %missing = call i32 @wait_until(ptr %semaphore, i64 -1)
  ret i32 %missing
}
"""
_WINDOWS_SEMAPHORES = """
declare ptr @CreateSemaphoreW(ptr, i32, i32, ptr)
declare i32 @ReleaseSemaphore(ptr, i32, ptr)
declare i32 @WaitForSingleObject(ptr, i32)

define internal void @create(ptr %semaphore) {
  %handle = call ptr @CreateSemaphoreW(ptr null, i32 0, i32 2147483647, ptr null)
  store ptr %handle, ptr %semaphore
  ret void
}

define internal void @post(ptr %semaphore) {
  %handle = load ptr, ptr %semaphore
  call i32 @ReleaseSemaphore(ptr %handle, i32 1, ptr null)
  ret void
}

define internal i32 @try(ptr %semaphore) {
  %handle = load ptr, ptr %semaphore
  %missing = call i32 @WaitForSingleObject(ptr %handle, i32 0)
  ret i32 %missing
}

define internal i32 @await(ptr %semaphore) {
  %handle = load ptr, ptr %semaphore
  %missing = call i32 @WaitForSingleObject(ptr %handle, i32 -1)
  ret i32 %missing
}
"""
_SEMAPHORES_BY_SYSTEM = {"darwin": _DARWIN_SEMAPHORES, "macos": _DARWIN_SEMAPHORES, "windows": _WINDOWS_SEMAPHORES}

_TEMPLATE = Template(f"""
%WorkQueue = type {{
  i64, [56 x i8],                      ; 0: the begin of the next chunk
  i32, [60 x i8],                      ; 2: the state: flags, and the number of workers inside
  ptr, ptr, i64, i64,                  ; 4: the job: kernel, its arguments, the end of the loop, the length of a chunk
  i64, [24 x i8],                      ; 8: whether a caller has a job
  [64 x i8], [64 x i8],                ; 10: the tokens, 11: posted when all have left; these are semaphores, or pointers to semaphores
  i64, i64, [48 x i8],                 ; 12: how often workers were placed, 13: how many sleep
  [{CPU_MASK_BYTES} x i8]                          ; 15: the CPUs on which they may run
}}

$semaphores
$pause_declaration

define void @prepare(ptr %queue) {{
  %tokens = getelementptr %WorkQueue, ptr %queue, i32 0, i32 10
  %all.left = getelementptr %WorkQueue, ptr %queue, i32 0, i32 11
  call void @create(ptr %tokens)
  call void @create(ptr %all.left)
  ret void
}}

; The caller: run kernel(arguments, b, e, 0) for chunks b..e of begin..end; the workers pass their own numbers in place of 0.
define void @share(ptr %queue, ptr %kernel, ptr %arguments, i64 %begin, i64 %end, i64 %chunk, i64 %worker.count) {{
entry:
  %next = getelementptr %WorkQueue, ptr %queue, i32 0, i32 0
  %state = getelementptr %WorkQueue, ptr %queue, i32 0, i32 2
  %tokens = getelementptr %WorkQueue, ptr %queue, i32 0, i32 10
  %all.left = getelementptr %WorkQueue, ptr %queue, i32 0, i32 11
  %job.kernel = getelementptr %WorkQueue, ptr %queue, i32 0, i32 4
  %job.arguments = getelementptr %WorkQueue, ptr %queue, i32 0, i32 5
  %job.end = getelementptr %WorkQueue, ptr %queue, i32 0, i32 6
  %job.chunk = getelementptr %WorkQueue, ptr %queue, i32 0, i32 7
  %in.use = getelementptr %WorkQueue, ptr %queue, i32 0, i32 8
  br label %acquire
acquire:
  %exchange = cmpxchg ptr %in.use, i64 0, i64 1 acquire monotonic
  %acquired = extractvalue {{ i64, i1 }} %exchange, 1
  br i1 %acquired, label %start, label %retry
retry:
  call void $relax
  br label %acquire
start:
  store ptr %kernel, ptr %job.kernel
  store ptr %arguments, ptr %job.arguments
  store i64 %end, ptr %job.end
  store i64 %chunk, ptr %job.chunk
  store atomic i64 %begin, ptr %next monotonic, align 8
  store atomic i32 {OPEN_FLAG}, ptr %state release, align 4
  call void @post_tokens(ptr %tokens, i64 %worker.count)
  call void @take_chunks(ptr %queue, i64 0)
  %old.state = atomicrmw and ptr %state, i32 {~OPEN_FLAG} acq_rel
  %inside = xor i32 %old.state, {OPEN_FLAG}
  %alone = icmp eq i32 %inside, 0
  br i1 %alone, label %done, label %wait
wait:
  %received = call i1 @poll_semaphore(ptr %all.left)
  br i1 %received, label %done, label %sleep
sleep:
  call void @sleep_until_posted(ptr %all.left)
  br label %done
done:
  store atomic i64 0, ptr %in.use release, align 8
  ret void
}}

; The worker with the number %worker: enter whenever the queue is open, until the workers are stopped.
define void @serve(ptr %queue, i64 %worker) {{
entry:
  %state = getelementptr %WorkQueue, ptr %queue, i32 0, i32 2
  %tokens = getelementptr %WorkQueue, ptr %queue, i32 0, i32 10
  %all.left = getelementptr %WorkQueue, ptr %queue, i32 0, i32 11
  %placements = getelementptr %WorkQueue, ptr %queue, i32 0, i32 12
  %sleeping = getelementptr %WorkQueue, ptr %queue, i32 0, i32 13
  %cpus = getelementptr %WorkQueue, ptr %queue, i32 0, i32 15
  br label %wait
wait:
  %old.count = phi i64 [0, %entry], [%count, %test.open], [%count, %work], [%count, %announce]
  %received = call i1 @poll_semaphore(ptr %tokens)
  br i1 %received, label %wake, label %sleep
sleep:
  atomicrmw add ptr %sleeping, i64 1 monotonic
  call void @sleep_until_posted(ptr %tokens)
  atomicrmw sub ptr %sleeping, i64 1 monotonic
  br label %wake
wake:
  %count = load atomic i64, ptr %placements monotonic, align 8
  %was.placed = icmp ne i64 %count, %old.count
  br i1 %was.placed, label %lift, label %read.state
lift:
  call void @lift_placement(ptr %cpus)
  br label %read.state
read.state:
  %seen.state = load atomic i32, ptr %state monotonic, align 4
  %stopped = icmp eq i32 %seen.state, {STOPPED_FLAG}
  br i1 %stopped, label %done, label %test.open
test.open:
  %is.open = icmp sge i32 %seen.state, {OPEN_FLAG}
  br i1 %is.open, label %enter, label %wait
enter:
  %entered.state = add i32 %seen.state, 1
  %exchange = cmpxchg ptr %state, i32 %seen.state, i32 %entered.state acquire monotonic
  %entered = extractvalue {{ i32, i1 }} %exchange, 1
  br i1 %entered, label %work, label %read.state
work:
  call void @take_chunks(ptr %queue, i64 %worker)
  %old.state = atomicrmw sub ptr %state, i32 1 acq_rel
  %is.last = icmp eq i32 %old.state, 1
  br i1 %is.last, label %announce, label %wait
announce:
  call void @post(ptr %all.left)
  br label %wait
done:
  ret void
}}

; End all workers.
define void @stop(ptr %queue, i64 %worker.count) {{
entry:
  %state = getelementptr %WorkQueue, ptr %queue, i32 0, i32 2
  %tokens = getelementptr %WorkQueue, ptr %queue, i32 0, i32 10
  store atomic i32 {STOPPED_FLAG}, ptr %state release, align 4
  call void @post_tokens(ptr %tokens, i64 %worker.count)
  ret void
}}

; Post %count tokens.
define internal void @post_tokens(ptr %semaphore, i64 %count) {{
entry:
  br label %next
next:
  %posted = phi i64 [0, %entry], [%posted.next, %post]
  %is.done = icmp sge i64 %posted, %count
  br i1 %is.done, label %done, label %post
post:
  call void @post(ptr %semaphore)
  %posted.next = add i64 %posted, 1
  br label %next
done:
  ret void
}}

; Run the kernel on one chunk after the other, until no chunk is left.
define internal void @take_chunks(ptr %queue, i64 %worker) {{
entry:
  %next = getelementptr %WorkQueue, ptr %queue, i32 0, i32 0
  %job.kernel = getelementptr %WorkQueue, ptr %queue, i32 0, i32 4
  %job.arguments = getelementptr %WorkQueue, ptr %queue, i32 0, i32 5
  %job.end = getelementptr %WorkQueue, ptr %queue, i32 0, i32 6
  %job.chunk = getelementptr %WorkQueue, ptr %queue, i32 0, i32 7
  %kernel = load ptr, ptr %job.kernel
  %arguments = load ptr, ptr %job.arguments
  %end = load i64, ptr %job.end
  %chunk = load i64, ptr %job.chunk
  br label %take
take:
  %begin = atomicrmw add ptr %next, i64 %chunk monotonic
  %is.left = icmp slt i64 %begin, %end
  br i1 %is.left, label %run, label %done
run:
  %full.end = add i64 %begin, %chunk
  %is.full = icmp slt i64 %full.end, %end
  %chunk.end = select i1 %is.full, i64 %full.end, i64 %end
  call void %kernel(ptr %arguments, i64 %begin, i64 %chunk.end, i64 %worker)
  br label %take
done:
  ret void
}}

; Poll a semaphore for a while. Return whether a token was taken.
define internal i1 @poll_semaphore(ptr %semaphore) {{
entry:
  br label %poll
poll:
  %polls = phi i64 [0, %entry], [%polls.next, %pause]
  %missing = call i32 @try(ptr %semaphore)
  %received = icmp eq i32 %missing, 0
  br i1 %received, label %done, label %pause
pause:
  %polls.next = add i64 %polls, 1
  call void $relax
  %is.over = icmp sge i64 %polls.next, $polls
  br i1 %is.over, label %done, label %poll
done:
  ret i1 %received
}}

; Sleep until a token can be taken from a semaphore, and take the token.
define internal void @sleep_until_posted(ptr %semaphore) {{
entry:
  br label %sleep
sleep:
  %interrupted = call i32 @await(ptr %semaphore)
  %is.awake = icmp eq i32 %interrupted, 0
  br i1 %is.awake, label %done, label %sleep
done:
  ret void
}}
""")
