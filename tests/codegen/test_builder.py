"""The builder: the text that it writes is parsed, verified and run by LLVM, and its constants are compared bit by bit."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from llvmlite import binding

import tenxor as tx
from tenxor.codegen.llvm.builder import Builder, Module, Value, fma, intrinsic, select, select_larger, select_smaller
from tenxor.codegen.llvm.dtype_conversions import make_constant
from tenxor.codegen.llvm.elementary import FUNCTIONS
from tenxor.codegen.llvm.emit_kernel import emit_kernel
from tenxor.codegen.llvm.emitter import Emitter
from tenxor.codegen.llvm.types import DOUBLE, FLOAT, HALF, I1, I8, I16, I32, I64, POINTER, Type, array, int_type, vector
from tenxor.dtypes import bfloat16, float16, float32, float64
from tenxor.target import Target
from tests.lowering.helpers import kernel_of

KINDS = {
    HALF: np.float16,
    FLOAT: np.float32,
    DOUBLE: np.float64,
    I8: np.int8,
    I16: np.int16,
    I32: np.int32,
    I64: np.int64,
}
FLOATS = [
    *(0.0, -0.0, 1.0, -2.5, 0.1, 1 / 3, 65504.0, 65519.9, 65520.0, 3.4028235e38, 1.7976931348623157e308),
    *(2.0**-24, 2.0**-25, 3 * 2.0**-26, 2.0**-149, 3 * 2.0**-150, 2.0**-126 - 2.0**-149, 5e-324, 2.0**-1022, 6.1e-5),
    *(inf, -inf, nan, 1e300, -1e300, 16777217.0, 2049.0),
]


def run(make: Callable[[Builder, Value], object], size: int, *, vector_bytes: int = 16) -> bytes:
    """Return the bytes written by a function whose body `make` emits; `make` receives the address of the output."""
    b = Builder(Module(Target(vector_bytes)), "run", [("out", POINTER)])
    make(b, b.arguments[0])
    b.emit("ret void")
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = binding.parse_assembly(str(b.module))
    module.verify()
    engine = binding.create_mcjit_compiler(module, binding.Target.from_default_triple().create_target_machine())
    engine.finalize_object()
    out = ctypes.create_string_buffer(size)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.get_function_address("run"))(ctypes.addressof(out))
    return out.raw


def numbers(make: Callable[[Builder], list[Value]], kind: Type) -> np.ndarray[Any, Any]:
    """Return the scalars that `make` emits."""

    def body(b: Builder, out: Value) -> None:
        for k, x in enumerate(values := make(b)):
            out.at(k, kind).store(x)
        counts.append(len(values))

    counts: list[int] = []
    return np.frombuffer(run(body, 4096), KINDS[kind])[: counts[0]]


class TestConstants:
    @pytest.mark.parametrize("kind", [HALF, FLOAT, DOUBLE], ids=repr)
    def test_float_constants_are_rounded_to_nearest(self, kind: Type) -> None:
        with np.errstate(over="ignore"):
            expected = np.array(FLOATS).astype(KINDS[kind])
        values = numbers(lambda b: [b.constant(kind, x) for x in FLOATS], kind)
        is_nan = np.isnan(expected)
        assert np.array_equal(np.isnan(values), is_nan)
        assert values[~is_nan].tobytes() == expected[~is_nan].tobytes()

    @pytest.mark.parametrize("kind", [I8, I16, I32, I64], ids=repr)
    def test_integer_constants_keep_their_bits_signed_or_unsigned(self, kind: Type) -> None:
        mask = (1 << kind.bits) - 1
        integers = [0, 1, -1, mask, mask >> 1, -(mask >> 1) - 1, 7]
        values = numbers(lambda b: [b.constant(kind, x) for x in integers], kind)
        assert [int(x) & mask for x in values] == [x & mask for x in integers]

    def test_vector_constants_repeat_or_list_values(self) -> None:
        def body(b: Builder, out: Value) -> None:
            out.store(b.constant(vector(FLOAT, 4), 0.1))
            out.at(16, I8).store(b.constants(vector(I32, 4), [3, -1, 2, 0]))
            out.at(32, I8).store(b.iota(I64, 3))
            out.at(56, I8).store(b.constant(vector(I1, 8), True).bitcast(I8))
            out.at(57, I8).store(b.constants(vector(I1, 8), [True, False] * 4).bitcast(I8))
            out.at(58, I8).store(b.zeros(vector(HALF, 3)))

        values = run(body, 64)
        assert values[:16] == struct.pack("<f", 0.1) * 4
        assert struct.unpack("<4i3q", values[16:56]) == (3, -1, 2, 0, 0, 1, 2)
        assert values[56:64] == b"\xff\x55" + bytes(6)

    def test_constants_of_narrow_dtypes_are_float32(self) -> None:
        b = Builder(Module(32), "run", [])
        assert make_constant(b, bfloat16, 0.1640625).text == make_constant(b, float16, 0.1640625).text == "0x3FC5000000000000"
        assert repr(make_constant(b, float32, -0.0, 8)) == "<8 x float> splat (float 0x8000000000000000)"
        assert repr(make_constant(b, float64, nan)) == "double 0x7FF8000000000000"

    def test_global_constants_are_stored_once_in_memory(self) -> None:
        def body(b: Builder, out: Value) -> None:
            kind = array(DOUBLE, 3)
            for _ in range(2):  # the same again is the same
                b.module.define_constant("table", kind, kind.literals([0.1, -0.0, inf]))
            for k in range(3):
                out.at(k, DOUBLE).store(Value(b, POINTER, "@table").at(k, DOUBLE).load(DOUBLE))

        assert run(body, 24) == struct.pack("<3d", 0.1, -0.0, inf)


class TestInstructions:
    def test_integer_instructions_respect_signs(self) -> None:
        def build(b: Builder) -> list[Value]:
            x, y = b.constant(I32, -7), b.constant(I32, 3)
            arithmetic = [
                x + y,
                x - y,
                x * y,
                -x,
                ~x,
                x & 5,
                x | 8,
                x ^ y,
                x << 2,
                x >> 1,
                x.logical_shift_right(28),
                10 - y,
                2 * y,
            ]
            chosen = [select(x < y, x, 9), select(x.compare("ult", y), 1, y), select_smaller(x, y), select_larger(x, 4)]
            return [*arithmetic, *chosen, b.binary("sdiv", x, y), b.binary("srem", x, 2)]

        expected = [-4, -10, -21, 7, 6, 1, -7, -6, -28, -4, 15, 7, 6, -7, 3, -7, 4, -2, -1]
        assert numbers(build, I32).tolist() == expected

    def test_float_instructions_follow_ieee_754(self) -> None:
        def build(b: Builder) -> list[Value]:
            x, missing = b.constant(DOUBLE, 2.25), b.constant(DOUBLE, nan)
            values = [x + 1, x - 1, 1 - x, x * x, x / 2, 9 / x, -x, (-x).abs(), x.sqrt(), x.floor(), fma(x, x, -5.0)]
            comparisons = [
                x < 3,
                x.equals(2.25),
                missing.differs(missing),
                missing.equals(missing),
                missing < 1,
                missing.is_nan(),
            ]
            values += [select(t, x.constant(1), 0) for t in comparisons]
            return [
                *values,
                (x.constant(3)).with_sign_of(-x),
                intrinsic("maximum", x, missing),
                x.to_single().to_double(),
            ]

        values = numbers(build, DOUBLE).tolist()
        assert values[:11] == [3.25, 1.25, -1.25, 5.0625, 1.125, 4.0, -2.25, 2.25, 1.5, 2.0, 0.0625]
        assert values[11:17] == [1, 1, 1, 0, 0, 1] and values[17] == -3 and np.isnan(values[18]) and values[19] == 2.25

    def test_vector_instructions_shuffle_and_replace_lanes(self) -> None:
        def body(b: Builder, out: Value) -> None:
            x = b.constants(vector(I32, 4), [10, 11, 12, 13])
            y = b.constant(I32, 5).splat(4)
            out.store(x.shuffle([3, 0, 4, 7], y).with_lane(1, x.lane(2)))
            out.at(4, I32).store(x.lane(b.constant(I64, 3)))

        assert struct.unpack("<5i", run(body, 20)) == (13, 12, 5, 5, 13)

    def test_conversions_keep_bits_or_values(self) -> None:
        def build(b: Builder) -> list[Value]:
            x = b.constant(DOUBLE, -0.5)
            return [x.as_bits(), x.as_bits().as_float().as_bits(), b.constant(I64, 3).to_float().as_bits()]

        bits = struct.unpack("<2q", struct.pack("<2d", -0.5, 3.0))
        assert numbers(build, I64).tolist() == [bits[0], *bits]

    def test_bool_of_an_emitted_comparison_raises(self) -> None:
        x = Builder(Module(16), "run", [("x", I64)]).arguments[0]
        with pytest.raises(TypeError, match="known when the kernel runs"):
            bool(x < 3)


class TestBranches:
    def test_branches_join_in_phi_instructions(self) -> None:
        def body(b: Builder, out: Value) -> None:
            for k, x in enumerate((3, 30)):
                small, large, after = (b.block(name) for name in ("small", "large", "after"))
                b.branch_if(b.constant(I64, x) < 10, small, large, (1, 7))
                b.cursor.block = small
                doubled = b.constant(I64, x) * 2
                b.branch(after)
                b.cursor.block = large
                incremented = b.constant(I64, x) + 1
                b.branch(after)
                b.cursor.block = after
                out.at(k, I64).store(b.merge((doubled, small), (incremented, large)))

        assert struct.unpack("<2q", run(body, 16)) == (6, 31)

    def test_code_under_only_if_unlikely_runs_only_if_its_condition_holds(self) -> None:
        def body(b: Builder, out: Value) -> None:
            for k, x in enumerate((3, 30)):
                slot = out.at(k, I64)
                slot.store(b.constant(I64, 1))
                b.only_if_unlikely(b.constant(I64, x) > 10, lambda slot=slot: slot.store(b.constant(I64, 2)))  # type: ignore[misc]

        assert struct.unpack("<2q", run(body, 16)) == (1, 2)


def emitter() -> Emitter:
    """Return the emitter of a kernel with one axis, before anything is emitted."""
    return Emitter(kernel_of(tx.zeros(5).realize() + 1), Target(32), {}, {})


def blocks(text: str) -> dict[str, list[str]]:
    """Return the lines of each block, by its name."""
    lines_by_block: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.endswith(":"):
            lines = lines_by_block[line[:-1]] = []
        elif line.startswith("  "):
            lines.append(line.strip())
    return lines_by_block


class TestScopes:
    def test_loop_invariant_values_are_emitted_once_in_the_outermost_possible_loop(self) -> None:
        em = emitter()
        zero, ten = (em.builder.constant(I64, n) for n in (0, 10))
        out = em.arguments

        def outer(i: Value) -> Value:
            def inner(j: Value) -> Value:
                for _ in range(2):
                    loaded = em.emit_once(0, "given", lambda: out.load(I64, "given"))
                    row = em.emit_once(1, "row", lambda loaded=loaded: loaded * i)  # type: ignore[misc]
                    out.at(row + j, I64).store(j)
                return j + 1

            em.emit_loop(1, zero, ten, inner)
            em.continue_innermost()
            return i + 1

        em.emit_loop(0, zero, ten, outer)
        em.builder.emit("ret void")
        binding.parse_assembly(str(em.module)).verify()
        lines_by_block = blocks(str(em.module))
        assert [line.split(" = ")[0] for line in lines_by_block["entry"]] == ["%given", "br label %i.head"]
        assert [line for line in lines_by_block["i.body"] if " mul " in line] and len(lines_by_block["i.body"]) == 2
        assert sum(" mul " in line or " load " in line for line in lines_by_block["j.body"]) == 0
        assert sum("store" in line for line in lines_by_block["j.body"]) == 2

    def test_value_needed_after_a_loop_is_emitted_there_unless_known_before(self) -> None:
        em = emitter()
        zero, ten = (em.builder.constant(I64, n) for n in (0, 10))
        values: list[Value] = []

        def body(i: Value) -> Value:
            values.append(em.emit_once(0, "given", lambda: em.arguments.load(I64)))
            return i + 1

        em.emit_loop(0, zero, ten, body)
        values.append(em.emit_once(0, "given", lambda: em.arguments.load(I64)))
        values.append(em.emit_once(0, "other", lambda: em.arguments.load(I64)))
        em.builder.emit("ret void")
        binding.parse_assembly(str(em.module)).verify()
        assert values[0] is values[1]
        lines_by_block = blocks(str(em.module))
        assert [sum("load" in line for line in lines_by_block[name]) for name in ("entry", "i.body", "i.done")] == [1, 0, 1]

    def test_accumulator_values_are_carried_through_nested_loops(self) -> None:
        em = emitter()
        b, result = em.builder, em.arguments
        zero, one = b.constant(I64, 0), b.constant(I64, 1)
        em.states[0] = [[one]]

        def outer(i: Value) -> Value:
            def inner(j: Value) -> Value:
                em.states[0] = [[em.states[0][0][0] * 3 + j]]
                return j + 1

            em.emit_loop(1, zero, b.constant(I64, 2), inner, accumulators=[0])
            em.only_if(i > 1, lambda: result.at(1, I64).store(i))
            em.continue_innermost()
            return i + 1

        em.emit_loop(0, zero, b.constant(I64, 3), outer, accumulators=[0])
        result.store(em.states[0][0][0])
        b.emit("ret void")
        module = binding.parse_assembly(str(em.module))
        module.verify()
        engine = binding.create_mcjit_compiler(module, binding.Target.from_default_triple().create_target_machine())
        engine.finalize_object()
        out = (ctypes.c_int64 * 2)()
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)
        kind(engine.get_function_address("kernel"))(ctypes.addressof(out), 0, 0, 0)
        expected = 1
        for _ in range(3):
            expected = (expected * 3) * 3 + 1
        assert list(out) == [expected, 2]

    def test_stack_memory_is_allocated_in_the_entry_block(self) -> None:
        em = emitter()
        zero = em.builder.constant(I64, 0)

        def body(i: Value) -> Value:
            for name in ("row", "tile"):
                em.allocate_on_stack(FLOAT, 8, name).at(i, FLOAT).store(em.builder.constant(FLOAT, 0))
            return i + 1

        em.emit_loop(0, zero, zero, body)
        em.builder.emit("ret void")
        binding.parse_assembly(str(em.module)).verify()
        entry = blocks(str(em.module))["entry"]
        assert sum("alloca [8 x float], align 64" in line for line in entry) == 2


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("dtype", [tx.float32, tx.float64], ids=str)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_elementary_functions_for_avx2_targets_use_no_avx512_instructions(name: str, dtype: tx.DType, vector_bytes: int) -> None:
    """Singles computed in doubles fill vectors twice as wide as the registers. These vectors alone do not imply AVX-512."""
    x = tx.ones(5, dtype=dtype).realize()
    y = getattr(tx, name)(*(x,) * (2 if name in ("atan2", "hypot", "logaddexp", "pow") else 1))
    text = emit_kernel(kernel_of(y), Target(vector_bytes, frozenset({"avx2"})))
    assert "avx512" not in text
    binding.parse_assembly(text).verify()


def test_llvm_types_are_interned() -> None:
    assert int_type(64) is I64 and vector(I64, 4) is vector(int_type(64), 4) and vector(FLOAT, 0) is FLOAT
    assert (vector(FLOAT, 8).mangled, vector(I1, 4).text, array(DOUBLE, 2).text) == (
        "v8f32",
        "<4 x i1>",
        "[2 x double]",
    )
    assert (vector(FLOAT, 8).bytes, array(DOUBLE, 2).bytes, vector(POINTER, 4).mangled) == (32, 16, "v4p0")
