"""Test debugging aids: `TENXOR_DEBUG` prints kernels while they run, `tenxor.explain` shows them before."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import tenxor as tx
from tenxor.codegen.llvm.compiler import compiler
from tenxor.runtime.planner import preview_kernels

from .processes import python

PROGRAM = """
import tenxor as tx
x = tx.arange(100, dtype=tx.float32).realize()
for n in (50, 100):
    y = x[:n] * 2 + 1
    y[1:3] = 7
    total = y.sum().item()
print(total)
"""
TIMED = re.compile(r"^tenxor: (\w+) \[(compiled|disk)\] (\d+\.\d) us$")


def run(level: str | None, **environment: str) -> tuple[str, str]:
    """Return the standard output and standard error of PROGRAM at a level of `TENXOR_DEBUG`."""
    environment = {**os.environ, "TENXOR_CACHE_DIR": "", **environment}
    environment.pop("TENXOR_DEBUG", None)
    if level is not None:
        environment["TENXOR_DEBUG"] = level
    process = python("-c", PROGRAM, env=environment)
    return process.stdout, process.stderr


@pytest.fixture(scope="module")
def debug_lines() -> dict[str, list[str]]:
    """Return the lines of standard error at each level."""
    return {level: run(level)[1].splitlines() for level in ("1", "2", "3")}


class TestDebug:
    @pytest.mark.parametrize("level", [None, "", "0"])
    def test_level_0_prints_nothing(self, level: str | None) -> None:
        assert run(level)[1] == ""

    @pytest.mark.parametrize("level", ["1", "3"])
    def test_debug_level_changes_no_result(self, level: str) -> None:
        assert run(level)[0] == run(None)[0]

    def test_level_1_prints_name_and_time_of_each_kernel(self, debug_lines: dict[str, list[str]]) -> None:
        matches = [TIMED.match(line) for line in debug_lines["1"]]
        assert all(matches), debug_lines["1"]
        names = [m[1] for m in matches if m]
        assert names[0] == "copy" and len(names) == 7  # arange, then twice: the sums, the store, the total
        assert names[1:4] == names[4:7] and {"multiply_add", "store"} < set(names)
        assert all(0 < float(m[3]) < 1e6 for m in matches if m)

    def test_level_1_tells_compiled_code_from_code_on_disk(self, tmp_path: Path) -> None:
        folder = str(tmp_path / "cache")
        first, second = (run("1", TENXOR_CACHE_DIR=folder)[1] for _ in range(2))
        assert "[compiled]" in first and "[disk]" not in first
        assert "[disk]" in second and "[compiled]" not in second

    def test_level_2_prints_the_loop_ir_too(self, debug_lines: dict[str, list[str]]) -> None:
        text = "\n".join(debug_lines["2"])
        assert "kernel multiply_add(out p0: float32, p1: float32, c0: float32, c1: float32)" in text
        assert "parallel vector for i in 0..s0:" in text
        assert [bool(TIMED.match(line)) for line in debug_lines["2"]].count(True) == 7
        assert not re.search(r"\b(ret|retq)\b", text)

    def test_level_3_prints_the_assembly_too(self, debug_lines: dict[str, list[str]]) -> None:
        text = "\n".join(debug_lines["3"])
        assert re.search(r"^kernel:", text, re.MULTILINE) and re.search(r"^\s+ret", text, re.MULTILINE)
        assert "kernel multiply_add(" in text
        assert [bool(TIMED.match(line)) for line in debug_lines["3"]].count(True) == 7

    def test_level_2_prints_each_kernel_before_its_time(self, debug_lines: dict[str, list[str]]) -> None:
        kinds = [line.split("(")[0].split()[1] for line in debug_lines["2"] if line.startswith("kernel ")]
        names = [m[1] for line in debug_lines["2"] if (m := TIMED.match(line))]
        assert kinds == names


class TestExplain:
    def test_tensor_in_memory_shows_its_layout_and_no_kernel(self) -> None:
        t = tx.arange(12).realize().reshape(3, 4).T
        text = tx.explain(t)
        assert text.startswith("Tensor (4, 3) int64, a view of 12 elements in memory\n")
        assert t.layout.explain() in text and "kernel" not in text.replace(t.layout.explain(), "")

    def test_pending_tensor_shows_its_kernel_and_stays_pending(self) -> None:
        x = tx.ones((4, 5)).realize()
        t = (x * 2 + 1).sum(axis=1)
        text = tx.explain(t)
        assert "20" not in text.splitlines()[0] and "to be computed" in text.splitlines()[0]
        assert "\n1 kernel:\n-- (4,) float64\n" in text
        (_, kernel) = preview_kernels([t.storage.node])[0]
        assert text.endswith(str(kernel))
        assert text == tx.explain(t), "to explain is to compute nothing"

    def test_several_kernels_are_shown_in_their_order(self) -> None:
        x = tx.ones((4, 5)).realize()
        t = tx.cumulative_sum(x, axis=1) * 2
        text = tx.explain(t)
        assert "\n2 kernels:\n" in text
        assert text.index("sum") < text.index("kernel multiply")

    @pytest.mark.usefixtures("plain")
    def test_concat_shows_empty_memory_and_two_stores(self) -> None:
        text = tx.explain(tx.concat([tx.ones(3), tx.zeros(2)]))
        assert "memory without content" in text and text.count("-- written in place") == 2

    def test_view_shows_the_whole_pending_tensor(self) -> None:
        text = tx.explain((tx.ones((6, 6)) + 1)[::2, 3])
        assert text.startswith("Tensor (3,) float64, a view of 36 elements to be computed")
        assert "-- (6, 6) float64" in text

    def test_empty_tensor_shows_memory_without_content(self) -> None:
        assert "memory without content" in tx.explain(tx.ones((0, 3)) + 1)

    def test_python_scalars_are_shown_as_arguments(self) -> None:
        x = tx.ones(7).realize()
        assert tx.explain(x * 2.5) == tx.explain(x * 3.5)

    def test_kernel_shows_its_operands_loops_and_operations(self) -> None:
        a, b = tx.ones((4, 3)).realize(), tx.ones((5, 3)).realize()
        text = tx.explain(((a[:, None] - b[None]) ** 2).sum(-1))
        for part in (
            "out p0: float64",
            "p1[",
            "p2[",
            "square(",
            " - ",
            "for i in 0..s",
            "for j in 0..s",
            "for k in 0..s",
        ):
            assert part in text, f"{part!r} is not in\n{text}"
        assert text.count("sum") >= 1 and text.count("kernel ") == 1


def test_llvm_ir_and_assembly_of_a_kernel_are_available() -> None:
    _, kernel = preview_kernels([(tx.ones(5).realize() * 3).storage.node])[0]
    assert kernel is not None
    assert "define void @" in compiler().emit_llvm_ir(kernel)
    assert "kernel:" in compiler().compile_assembly(kernel)


def test_compile_counts_starts_no_compiler() -> None:
    program = "import tenxor as tx; print(tx.compile_counts()); from tenxor.codegen.llvm import compiler as c; print(c._compiler)"
    assert python("-c", program, env={**os.environ, "TENXOR_FAST_PATH": "0"}).stdout == "(0, 0)\nNone\n"
