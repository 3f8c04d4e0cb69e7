"""Kernels for many kinds of machines, given as a `Target`.

If this processor has the instructions, both back ends run the kernels and must agree; else LLVM only assembles the code,
which is inspected. The test ids say which.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from llvmlite import binding

import tenxor as tx
from tenxor.codegen.llvm import parallel_for
from tenxor.codegen.llvm.emit_kernel import emit_kernel
from tenxor.codegen.llvm.llvmlite_binding import create_target_machine
from tenxor.dtypes import ALL_DTYPES, boolean, complex64, complex128, float16, float32, float64, int8
from tenxor.graph.node import EMPTY, REINTERPRET, Node
from tenxor.lowering.fuse import collect_pending, fuse
from tenxor.lowering.ir import Kernel
from tenxor.lowering.lower import lower
from tenxor.runtime.realize import realize
from tenxor.target import Target
from tenxor.target.named_targets import TARGETS_BY_NAME
from tenxor.tensor import Tensor
from tests.lowering.helpers import compute, elementwise, tensor
from tests.machines import use

from .assembled import assembled
from .pairs import integers
from .test_agreement import CASES, ELEMENTARY, check_equal, check_near, operand_pairs, order_of
from .test_emit_scatters import Case
from .twins import Array, Compare, assert_same, check

pytestmark = pytest.mark.usefixtures("plain")  # how plans compute what is small, too

HAS = {name for name, has in binding.get_host_cpu_features().items() if has}
NEEDS = {  # the features that identify the level of each machine
    "scalar": {"sse2"},
    "sse": {"sse2"},
    "avx2": {"avx2", "bmi2", "f16c", "fma", "lzcnt", "movbe"},
    "avx512": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}
RUN = [name for name, needs in NEEDS.items() if needs <= HAS]
ASSEMBLED = [name for name in TARGETS_BY_NAME if name not in RUN]
each_run = pytest.mark.parametrize("name", RUN, ids=[f"{name} run" for name in RUN])
each_assembled = pytest.mark.parametrize("name", ASSEMBLED, ids=[f"{name} assembled" for name in ASSEMBLED])


def near(actual: Array, expected: Array) -> None:
    """Check that results differ by at most four units in the last place, two for the elementary functions of each back end."""
    if actual.dtype.kind == "c":
        check_near(actual, expected, 20)
        return
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    steps = np.abs(order_of(np.nan_to_num(actual)) - order_of(np.nan_to_num(expected)))
    assert steps.max() <= 4, (actual[steps > 4][:5], expected[steps > 4][:5])


def softmaxes() -> list[Tensor]:
    x = integers(9, 37)
    return [tx.softmax(x, axis=axis) for axis in (0, 1)] + [tx.logsumexp(x, axis=1), x.astype(float64).var(axis=0)]


def reductions() -> Iterator[Tensor]:
    for dtype in ALL_DTYPES:
        x = integers(11, 19, dtype=dtype)
        yield from (x.sum(axis=0), x.sum(axis=1), x.sum())
        if not dtype.is_complex:
            yield from (x.max(axis=0), x.argmax(axis=1), x.argmin(axis=0))
    yield tx.cumulative_sum(integers(7, 20), axis=0)
    yield tx.cumulative_sum(integers(7, 20), axis=1)


def products() -> Iterator[Tensor]:
    for k, dtype in enumerate(ALL_DTYPES):
        rows, columns, steps = (4, 6, 13, 15)[k % 4], (8, 17, 21)[k % 3], (4, 9)[k % 2]
        a, b = integers(rows, steps, dtype=dtype), integers(steps, columns, dtype=dtype, seed=1)
        if dtype is not boolean:
            yield a @ b
    yield (integers(4, 259)[:, ::-1] @ integers(259, 9, seed=1)).T + integers(9, 1)  # in two chunks of steps
    a, b = integers(13, 5), integers(5, 100, seed=1)  # packed
    yield from (a @ b + integers(100), b.T @ a.T)
    yield tx.abs(a[:, None] - b.T[None, :17]).sum(axis=-1)
    yield tx.contract(a[:, :9], b[:9], [(1, 0)], multiply=lambda x, y: x + y, add=tx.maximum)
    yield tx.conv2d(integers(2, 3, 6, 20), integers(5, 3, 2, 3, seed=1))


def elements() -> Iterator[Tensor]:
    for dtype in ALL_DTYPES:
        x, y = integers(71, dtype=dtype), integers(71, dtype=dtype, seed=1)
        yield tx.where(x == y, x, y) if dtype is boolean else x * y + x
        yield from (x.astype(d) for d in (float16, float32, int8) if not dtype.is_complex)


def moved() -> Iterator[Tensor]:
    for dtype in (int8, float16, float64, complex64):
        x, y = integers(66, 70, dtype=dtype), integers(70, 66, dtype=dtype, seed=1)
        yield from (x + y.T, x[:, ::-1] + x, x[:, ::2] + x[:, 1::2], x[:, ::7] + 1, x.T.reshape(-1) + 1)
        yield x[tx.asarray([3, -1, 0, 60])] + x[:4]
        yield x[:9, tx.asarray([3, -1, 0, 60])] + y[:4, 0]
        target = integers(20, 60, dtype=dtype) + 0
        target[:, ::2] = x[:20, :30]
        yield target


def complexes() -> Iterator[Tensor]:
    for dtype in (complex64, complex128):
        z = integers(37, dtype=dtype) + 0.5
        yield from (z * z.conj() + 1, z / (z + 4), abs(z), z.real * z.imag)


def functions() -> Iterator[Tensor]:
    for dtype in (float16, float32, float64):
        x = Tensor._from_node(tensor(np.linspace(-3, 9, 71).astype(dtype.numpy)))
        yield from (f(x) for f in (tx.exp, tx.sin, tx.tanh, tx.erf, tx.log1p, tx.gelu, tx.floor))
        yield tx.abs(x) ** x


WORK: dict[str, tuple[Callable[[], Sequence[Tensor] | Iterator[Tensor]], Compare]] = {
    "elements": (elements, assert_same),
    "reductions": (reductions, assert_same),
    "products": (products, assert_same),
    "views and indices": (moved, assert_same),
    "softmax": (softmaxes, near),
    "complex": (complexes, near),
    "functions": (functions, near),
}


def kernels_for(target: Target, roots: Sequence[Node]) -> Iterator[Kernel]:
    """Return the kernels that compute pending nodes on a machine."""
    nodes = fuse(collect_pending(roots), roots, target)
    for node in nodes:
        if node.op not in (EMPTY, REINTERPRET):
            yield lower(node, set(nodes), target)[0]


@each_run
@pytest.mark.parametrize("work", WORK)
def test_kernels_run_on_each_machine(work: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, compare = WORK[work]
    use(monkeypatch, TARGETS_BY_NAME[name])
    for t in make():
        check(t.storage.node, compare=compare)


@each_assembled
def test_kernels_assemble_for_each_machine(name: str, tmp_path: Path) -> None:
    tensors = [t for make, _ in WORK.values() for t in make()]
    kernels = dict.fromkeys(k for t in tensors for k in kernels_for(TARGETS_BY_NAME[name], [t.storage.node]))
    assembled(name, [emit_kernel(k, TARGETS_BY_NAME[name]) for k in kernels], tmp_path)


@pytest.mark.parametrize("name", ["avx512", "neon"])
def test_thread_code_assembles_for_each_processor(name: str, tmp_path: Path) -> None:
    text = parallel_for.build_parallel_for_ir(TARGETS_BY_NAME[name])
    assert {"avx512": "@llvm.x86.sse2.pause()", "neon": "@llvm.aarch64.hint(i32 1)"}[name] in text
    assert assembled(name, [text], tmp_path, b"take_chunks")
    assert "@nothing()" in parallel_for.build_parallel_for_ir(Target(16))  # on a machine that nobody named


CHOSEN = [(op, dtype) for k, (op, dtype) in enumerate(CASES) if k % 11 == 0 or (op.name in ELEMENTARY and dtype is float32)]


def operation_node(k: int) -> Node:
    op, dtype = CHOSEN[k]
    return elementwise(op.name, *(tensor(x, dtype) for x in operand_pairs(op, dtype)))


@cache
def oracle(k: int) -> Node:
    """Return the result of an operation by the interpreter, equal for all machines."""
    node = operation_node(k)
    compute(node)
    return node


@each_run
def test_operations_agree_on_each_machine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, TARGETS_BY_NAME[name])
    for k, (op, dtype) in enumerate(CHOSEN):
        ulps = 0 if op.name not in ELEMENTARY and op.formula is None else 3 if op.formula else 2
        if dtype.is_complex and (op.name in ELEMENTARY or op.cost > 3):
            ulps = 500 if op.name == "pow" else 20
        ours = operation_node(k)
        realize(ours)
        try:
            check_equal(ours, oracle(k), ulps)
        except AssertionError as error:
            raise AssertionError(f"{op.name} of {dtype}: {error}") from None


@each_run
def test_scatters_on_each_machine_agree_with_the_interpreter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, TARGETS_BY_NAME[name])
    for seed in range(2000, 2012):
        check(Case(seed).node())


@each_run
def test_float16_conversions_round_trip_on_each_machine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test takes all float16, the midpoints between them and their neighbours, also without conversion instructions."""
    use(monkeypatch, TARGETS_BY_NAME[name])
    all_float16 = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide = tx.asarray(all_float16).astype(float32).to_numpy()
    with np.errstate(all="ignore"):
        expected = all_float16.astype(np.float32)
        halfway = (expected[1:] + expected[:-1]) / 2
        floats = np.concatenate([halfway, *(np.nextafter(halfway, np.float32(end)) for end in (-np.inf, np.inf))])
        floats = np.append(floats, np.float32([65519.996, 65520, 1e9, np.inf, -np.inf, np.nan, 2**-25, 1e-30]))
        narrow = floats.astype(np.float16)
    np.testing.assert_array_equal(wide, expected)
    np.testing.assert_array_equal(np.signbit(wide), np.signbit(expected))
    actual = tx.asarray(floats).astype(float16).to_numpy()
    np.testing.assert_array_equal(actual, narrow)
    np.testing.assert_array_equal(np.signbit(actual), np.signbit(narrow))


def text_for(name: str, t: Tensor) -> str:
    return "\n".join(emit_kernel(k, TARGETS_BY_NAME[name]) for k in kernels_for(TARGETS_BY_NAME[name], [t.storage.node]))


def test_scalar_machine_gets_no_vectors() -> None:
    """Only the tiles of products hold vectors, of one lane."""
    x, flat = integers(70, 130), integers(1000)
    for t in (x + 1, x.sum(axis=0), x.sum(axis=1), tx.softmax(x), x.argmax(axis=1), x + x.T[:70, :70].sum(), flat[::2]):
        assert " x float>" not in text_for("scalar", t + 0)
    assert set(re.findall(r"<(\d+) x ", text_for("scalar", integers(20, 30) @ integers(30, 40)))) == {"1"}


def test_code_uses_the_instructions_of_the_machine() -> None:
    """The code permutes tables in registers and prefetches cache lines on machines with such instructions."""
    t, p = tx.tanh(integers(70)), integers(40, 300) @ integers(300, 200)
    assert [("vpermi2var" in text_for(name, t), "avx2.permps" in text_for(name, t)) for name in ("avx512", "avx2", "sse")] == [
        (True, False),
        (False, True),
        (False, False),
    ]
    assert ["llvm.prefetch" in text_for(name, p) for name in ("avx2", "neon", "ptx", "spirv")] == [True, True, False, False]
    for name, target in TARGETS_BY_NAME.items():
        assert f'target triple = "{target.processor.triple}"' in text_for(name, p)
    assert ["define ptx_kernel void @kernel(" in text_for("ptx", p), "spir_kernel" in text_for("spirv", p)] == [True, True]


def test_gpu_code_accesses_global_memory_directly() -> None:
    """A generic access would look up the address space of each pointer."""
    machine, x = create_target_machine(TARGETS_BY_NAME["ptx"]), integers(70, 30)
    for t in (x + integers(30), x.sum(axis=1), x[:, tx.asarray([3, 1])]):
        code: str = machine.emit_assembly(binding.parse_assembly(text_for("ptx", t)))
        assert set(re.findall(r"\t(ld|st)\.([a-z]+)", code)) == {("ld", "global"), ("st", "global"), ("ld", "param")}


def test_product_tile_fits_the_neon_registers() -> None:
    """Twelve rows of two vectors are 24 products per step, without spills to the stack."""
    machine = create_target_machine(TARGETS_BY_NAME["neon"])
    code: str = machine.emit_assembly(binding.parse_assembly(text_for("neon", integers(40, 300) @ integers(300, 200))))
    loop = max(re.split(r"\n(?=\.L)", code), key=lambda block: block.count("fmla"))
    assert loop.count("fmla") == 24 and "[sp" not in loop


def test_steps_through_windows_use_no_masks() -> None:
    """A vector of columns within one run is loaded directly; others are packed."""
    machine = create_target_machine(TARGETS_BY_NAME["avx512"])
    code: str = machine.emit_assembly(binding.parse_assembly(text_for("avx512", tx.conv2d(integers(2, 3, 12, 58), integers(16, 3, 3, 3)))))
    steps = [block for block in re.split(r"\n(?=\.L)", code) if block.count("vfmadd") == 24]
    assert len(steps) == 2 and not any("{%k" in block or "vpcmp" in block for block in steps)
