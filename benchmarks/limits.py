"""What this machine can do at all, measured by small kernels emitted for the purpose: bandwidths, and FMA peaks.

They are written as LLVM IR here, apart from Tenxor's own emitter, so that a weakness of that one is not hidden by being
the measure of itself.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding

BIG = 256 << 20  # bytes of each buffer: many times any cache
IN_CACHE = 256 << 10  # as the operands of the workloads in cache
UNROLL = 8  # vectors in a step, each with an accumulator of its own; FMA takes 16, as two units of latency 4 want 8
SECONDS = 0.02  # that one measurement takes, about
ROUNDS = 9

# void kernel(ptr a, ptr b, ptr c, i64 vectors, i64 repeats): `repeats` times over the first `vectors` of each buffer.
_FRAME = """
declare {v} @llvm.fma.{mangled}({v}, {v}, {v})
define void @kernel(ptr %a, ptr %b, ptr %c, i64 %vectors, i64 %repeats) {{
entry:
{before}
  br label %again
again:
  %r = phi i64 [0, %entry], [%r1, %over]
{enter}
  br label %step
step:
  %k = phi i64 [0, %again], [%k1, %step]
{phis}
{body}
  %k1 = add i64 %k, {unroll}
  %more = icmp slt i64 %k1, %vectors
  br i1 %more, label %step, label %over
over:
  %r1 = add i64 %r, 1
  %once = icmp slt i64 %r1, %repeats
  br i1 %once, label %again, label %done
done:
{after}
  ret void
}}
!0 = !{{i32 1}}
"""

Kernel = Callable[..., None]


class Limits:
    """Emits the kernels and measures them on `threads` threads at once."""

    def __init__(self, threads: int) -> None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        features = binding.get_host_cpu_features()
        self.bytes = 64 if features.get("avx512f") else 32 if features.get("avx2") else 16
        target = binding.Target.from_default_triple()
        self.machine = target.create_target_machine(cpu=binding.get_host_cpu_name(), features=features.flatten(), opt=2)
        self.jit = binding.create_lljit_compiler(self.machine)
        self.threads = threads
        self.libraries: list[Any] = []  # the code lives as long as these do

    def measured(self) -> dict[str, float]:
        """Bytes a second to read, write and triad (two reads, one write), in memory and in cache; flops a second."""
        found = {"fma float32": self.fma("float", 4), "fma float64": self.fma("double", 8)}
        found |= self.bandwidths("in memory", BIG // self.threads)
        found |= self.bandwidths("in cache", IN_CACHE)
        return found

    def bandwidths(self, where: str, nbytes: int) -> dict[str, float]:
        """Of buffers that large for each thread. What is written may pass the cache by, where that is faster."""
        buffers = [[_aligned(nbytes) for _ in range(3)] for _ in range(self.threads)]
        found: dict[str, float] = {}
        for name, variants in (
            ("read", [(1, self.read("a")), (3, self.read("abc"))]),
            ("write", [(1, self.write("")), (1, self.write(", !nontemporal !0"))]),
            ("triad", [(3, self.triad("")), (3, self.triad(", !nontemporal !0"))]),
        ):
            found[f"{name} {where}"] = max(
                moved * nbytes * self.threads / self._seconds(kernel, buffers, nbytes // self.bytes) for moved, kernel in variants
            )
        return found

    def fma(self, scalar: str, itemsize: int) -> float:
        """Flops a second, two for each FMA, of accumulators that wait for nobody but themselves."""
        lanes, count, steps = self.bytes // itemsize, 16, 1 << 12
        vector = f"<{lanes} x {scalar}>"
        one = "<" + ", ".join([f"{scalar} 0x3FEFFFF000000000"] * lanes) + ">"  # a little less than 1
        phis, body, after = [], [], []
        for i in range(count):
            phis.append(f"  %x{i} = phi {vector} [%e{i}, %again], [%y{i}, %step]")
            body.append(f"  %y{i} = call {vector} @llvm.fma.{self._mangled(vector)}({vector} %x{i}, {vector} {one}, {vector} %q)")
            after.append(f"  %at{i} = getelementptr {vector}, ptr %a, i64 {i}\n  store {vector} %y{i}, ptr %at{i}")
        enter = "\n".join(f"  %e{i} = phi {vector} [%q, %entry], [%y{i}, %over]" for i in range(count))
        text = _FRAME.format(
            v=vector,
            mangled=self._mangled(vector),
            before=f"  %q = load {vector}, ptr %b",
            enter=enter,
            phis="\n".join(phis),
            body="\n".join(body),
            unroll=1,
            after="\n".join(after),
        )
        buffers = [[_aligned(4096) for _ in range(3)] for _ in range(self.threads)]
        seconds = self._seconds(self._compiled(text), buffers, steps)
        return 2.0 * count * lanes * steps * self.threads / seconds

    def read(self, buffers: str) -> Kernel:
        """Reads one buffer, or several side by side, and joins all by `or`, so that nothing is left out."""
        v = self._vector

        def step(i: int) -> str:
            lines = []
            for k, p in enumerate(buffers):
                lines.append(f"  %l{p}{i} = load {v}, ptr %{p}{i}, align 64")
                old = f"%x{i}" if k == 0 else f"%j{buffers[k - 1]}{i}"
                new = f"%y{i}" if k == len(buffers) - 1 else f"%j{p}{i}"
                lines.append(f"  {new} = or {v} {old}, %l{p}{i}")
            return "\n".join(lines)

        return self._streaming(
            step,
            enter="\n".join(f"  %e{i} = phi {v} [zeroinitializer, %entry], [%y{i}, %over]" for i in range(UNROLL)),
            phis="\n".join(f"  %x{i} = phi {v} [%e{i}, %again], [%y{i}, %step]" for i in range(UNROLL)),
            after="\n".join(f"  store volatile {v} %y{i}, ptr %c" for i in range(UNROLL)),
        )

    def write(self, how: str) -> Kernel:
        """Writes `a`."""
        ones = "<" + ", ".join(["i64 1"] * (self.bytes // 8)) + ">"
        return self._streaming(lambda i: f"  store {self._vector} {ones}, ptr %a{i}, align 64{how}")

    def triad(self, how: str) -> Kernel:
        """a = b + s*c, in float32."""
        lanes = self.bytes // 4
        v = f"<{lanes} x float>"
        s = "<" + ", ".join(["float 0.5"] * lanes) + ">"

        def step(i: int) -> str:
            return f"""  %lb{i} = load {v}, ptr %b{i}, align 64
  %lc{i} = load {v}, ptr %c{i}, align 64
  %f{i} = call {v} @llvm.fma.{self._mangled(v)}({v} %lc{i}, {v} {s}, {v} %lb{i})
  store {v} %f{i}, ptr %a{i}, align 64{how}"""

        return self._streaming(step, vector=v)

    @property
    def _vector(self) -> str:
        return f"<{self.bytes // 8} x i64>"

    @staticmethod
    def _mangled(vector: str) -> str:
        lanes, _, scalar = vector[1:-1].partition(" x ")
        return f"v{lanes}{dict(float='f32', double='f64')[scalar]}"

    def _streaming(self, step: Callable[[int], str], enter: str = "", phis: str = "", after: str = "", vector: str = "") -> Kernel:
        """A kernel that does `step(i)` for UNROLL neighbours at a time."""
        v = vector or f"<{self.bytes // 4} x float>"
        body = []
        for i in range(UNROLL):
            body.append(f"  %i{i} = add i64 %k, {i}")
            body += [f"  %{p}{i} = getelementptr {v}, ptr %{p}, i64 %i{i}" for p in "abc"]
            body.append(step(i))
        return self._compiled(
            _FRAME.format(
                v=v,
                mangled=self._mangled(v),
                before="",
                enter=enter,
                phis=phis,
                body="\n".join(body),
                unroll=UNROLL,
                after=after,
            )
        )

    def _compiled(self, text: str) -> Kernel:
        image = self.machine.emit_object(binding.parse_assembly(text))
        builder = binding.JITLibraryBuilder().add_object_img(image).add_current_process().export_symbol("kernel")
        library = builder.link(self.jit, f"limit{len(self.libraries)}")
        self.libraries.append(library)
        pointer, count = ctypes.c_void_p, ctypes.c_int64
        found: Kernel = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, count, count)(library["kernel"])
        return found

    def _seconds(self, kernel: Kernel, buffers: list[list[np.ndarray[Any, Any]]], vectors: int) -> float:
        """The least time of one pass, on all threads at once: a limit is what can be reached, not what usually is."""
        addresses = [[b.ctypes.data for b in own] for own in buffers]
        start = time.perf_counter()
        kernel(*addresses[0], vectors, 1)
        repeats = max(1, int(SECONDS / max(time.perf_counter() - start, 1e-9)))
        kernel(*addresses[0], vectors, min(repeats, 1000))
        start = time.perf_counter()
        kernel(*addresses[0], vectors, min(repeats, 1000))
        once = (time.perf_counter() - start) / min(repeats, 1000)
        repeats = max(1, int(SECONDS / once))
        return min(self._round(kernel, addresses, vectors, repeats) for _ in range(ROUNDS)) / repeats

    @staticmethod
    def _round(kernel: Kernel, addresses: list[list[int]], vectors: int, repeats: int) -> float:
        barrier = threading.Barrier(len(addresses))
        began, ended = [], []

        def work(own: list[int]) -> None:
            barrier.wait()
            began.append(time.perf_counter())
            kernel(*own, vectors, repeats)
            ended.append(time.perf_counter())

        workers = [threading.Thread(target=work, args=(own,)) for own in addresses[1:]]
        for worker in workers:
            worker.start()
        work(addresses[0])
        for worker in workers:
            worker.join()
        return max(ended) - min(began)


def _aligned(nbytes: int) -> np.ndarray[Any, Any]:
    """Memory that begins at a cache line and has been touched."""
    raw = np.ones(nbytes + 4096, np.uint8)
    start = -raw.ctypes.data % 4096
    return raw[start : start + nbytes]


def limit_seconds(limits: dict[str, float], read: int, written: int, operand: int, flops: float, dtype: str) -> tuple[float, str]:
    """The least time a workload can take, and what bounds it.

    Bytes go at the bandwidth of the triad if more than a twentieth of them are written, else at that of reading; in cache if
    no operand is larger than those that were measured there. Flops go at the peak of FMA, which does two at a time.
    """
    where = "in cache" if operand <= IN_CACHE else "in memory"
    how = "triad" if written * 20 > read + written else "read"
    moving = (read + written) / limits[f"{how} {where}"]
    computing = flops / limits[f"fma {dtype}"]
    return (moving, f"{how} {where}") if moving >= computing else (computing, f"fma {dtype}")
