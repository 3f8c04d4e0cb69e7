"""Machine code shipped with the package: it is used on the machines that it was made for, with equal results."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from llvmlite import binding

import tenxor as tx
from tenxor.codegen.llvm import cpuid, host_info, kernel_disk_cache, shipped_code
from tenxor.codegen.llvm.compiler import Compiler
from tenxor.codegen.llvm.emit_kernel import emit_kernel
from tenxor.lowering.fingerprint import fingerprint
from tenxor.runtime import plan_disk_cache, shipped_op_plans
from tenxor.runtime.operand_axes import NUMBER, VECTOR
from tenxor.runtime.planner import preview_kernels
from tenxor.target import Caches, Target, named_targets
from tests.processes import make_cache_with_fast_path, python
from tests.test_start import HEAVY, loaded

MANY_REQUESTS = 5000  # for a graph, until its plan is due, even though LLVM must be loaded first
HERE = cpuid.detect_level()
on_a_level = pytest.mark.skipif(HERE is None, reason="nothing is made for this processor")

# What is shipped here: single operations, two creations, a product, a sum of rows.
MAKE = """
import sys
from pathlib import Path
import tenxor as tx
from tenxor.aot.build import build_level_files

def wanted():
    a, b = tx.empty(1000, dtype=tx.float32).realize(), tx.empty(1000, dtype=tx.float32).realize()
    m = tx.empty((40, 40)).realize()
    yield from (tx.arange(12.0), tx.full(12, 2, dtype=tx.float32), tx.full(12, 0.5, dtype=tx.float32), a * 2, tx.exp(a), a + b, a.sum())
    yield from (m @ m, (m @ m).sum(axis=1), m.sum(axis=1), m * 2)

for path, count in build_level_files(Path(sys.argv[1]), wanted, report=lambda line: print(line, file=sys.stderr)):
    print(path.name, count)
"""

# The first results of a process: in bits, how many kernels were compiled and found, and whether LLVM was loaded.
FIRST_PROGRAM = """
import sys
import tenxor as tx
results = []
a = tx.ones(1000, dtype=tx.float32)
results.append((a * 2 + tx.exp(a)).sum())
m = (tx.arange(1600.0) * 0.37).reshape(40, 40)
results.append((m @ m).sum(axis=1))
results.append(m.sum(axis=1))
bits = "".join([t.numpy().tobytes().hex() for t in results])
print(bits, *tx.compile_counts(), "llvmlite.binding" in sys.modules)
"""


@pytest.fixture(scope="module")
def shipped_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with shipped code for all levels."""
    folder = tmp_path_factory.mktemp("made") / "shipped"
    process = python("-c", MAKE, str(folder), env={**os.environ, "TENXOR_FAST_PATH": "0"})
    output, progress = process.stdout.split(), process.stderr.splitlines()
    assert [line.partition(" kernels")[0].rpartition(" ")[0] for line in progress] == [
        f"{x.name}: 1 of 1, wanted:" for x in cpuid.CPU_LEVELS
    ]
    assert output[::2] == ["x86-64-v4.objects", "x86-64-v3.objects"] and output[1] == output[3] and int(output[1]) >= 9
    return folder


@pytest.fixture
def folder(shipped_folder: Path, tmp_path: Path) -> Path:
    """Return a copy of the shipped code, to be changed."""
    return Path(shutil.copytree(shipped_folder, tmp_path / "shipped"))


def run_first(folder: Path | str, cache: Path | str = "") -> tuple[str, int, int, bool]:
    """Return the bits, compiled and loaded kernels, and whether LLVM was loaded, of a process with this shipped code and cache."""
    env = {**os.environ, "TENXOR_SHIPPED": str(folder), "TENXOR_CACHE_DIR": str(cache), "TENXOR_FAST_PATH": ""}
    bits, compiled, loaded, llvm = python("-c", FIRST_PROGRAM, env=env).stdout.split()
    return bits, int(compiled), int(loaded), llvm == "True"


@pytest.fixture(scope="module")
def expected_bits() -> str:
    """Return the bits of the first results without shipped code."""
    bits, compiled, loaded, llvm = run_first("")
    assert compiled > 0 and not loaded and llvm
    return bits


@on_a_level
class TestShippedCode:
    def test_shipped_code_runs_without_llvm_and_gives_equal_bits(self, shipped_folder: Path, expected_bits: str) -> None:
        bits, compiled, loaded, llvm = run_first(shipped_folder)
        assert bits == expected_bits
        assert (compiled, llvm) == (0, False) and loaded >= 7

    def test_shipped_code_avoids_slow_imports_with_an_empty_cache(self, shipped_folder: Path, tmp_path: Path) -> None:
        program = "import tenxor as tx; from tenxor.codegen import backend; tx.arange(12.0).realize()"
        program += "; assert backend().count_compilations() == (0, 1)"
        modules = loaded(program, TENXOR_SHIPPED=str(shipped_folder), TENXOR_CACHE_DIR=str(tmp_path / "missing"))
        assert not any(name.startswith("tenxor.lowering") for name in modules) and not modules & HEAVY
        assert not any(name.startswith("llvmlite.") and name != "llvmlite._version" for name in modules)

    def test_fused_kernel_on_disk_is_preferred_to_shipped_parts(self, shipped_folder: Path, tmp_path: Path) -> None:
        """A process that runs a graph often fills the cache; a second process takes the fused kernel from the cache."""
        tmp_path.chmod(0o700)
        program = """
import sys
import tenxor as tx
a = tx.full((50_000,), 0.37, dtype=tx.float32).realize()
for k in range(int(sys.argv[1])):
    (a * 2 + tx.exp(a) + a).realize()
print(*tx.compile_counts())
"""
        env = {**os.environ, "TENXOR_SHIPPED": str(shipped_folder), "TENXOR_CACHE_DIR": str(tmp_path), "TENXOR_FAST_PATH": "0"}
        runs = [python("-c", program, str(count), env=env).stdout.split() for count in (1, MANY_REQUESTS, 1)]
        compiled, loaded = ([int(run[k]) for run in runs] for k in range(2))
        assert compiled == [0, 1, 0] and loaded[2] < loaded[0]

    def test_shipped_parts_are_used_in_every_short_process(self, shipped_folder: Path, expected_bits: str, tmp_path: Path) -> None:
        tmp_path.chmod(0o700)
        runs = [run_first(shipped_folder, tmp_path) for _ in range(3)]
        assert [(bits, compiled, llvm) for bits, compiled, _, llvm in runs] == [(expected_bits, 0, False)] * 3

    @pytest.mark.parametrize("size", [1000, 50_000])
    def test_shipped_parts_are_used_until_a_graph_is_frequent(self, size: int, shipped_folder: Path, tmp_path: Path) -> None:
        """Small graphs are always computed node by node."""
        program = f"""
import sys
import tenxor as tx
a, found = tx.full(({size},), 0.37, dtype=tx.float32).realize(), set()
for k in range(int(sys.argv[1])):
    found.add((a * 2 + tx.exp(a) + a).numpy().tobytes())
    if k == 20:
        print(tx.compile_counts()[0])
print(tx.compile_counts()[0], len(found), found.pop().hex()[:64])
"""
        outputs = []
        for folder, count in ((str(shipped_folder), MANY_REQUESTS), ("", 30)):
            for fast_path in ("0", "1"):
                cache = make_cache_with_fast_path(tmp_path / f"{count} {fast_path}")
                env = {**os.environ, "TENXOR_SHIPPED": folder, "TENXOR_CACHE_DIR": str(cache), "TENXOR_FAST_PATH": fast_path}
                outputs.append(python("-c", program, str(count), env=env).stdout.split())
        assert {(count, bits) for *_, count, bits in outputs} == {("1", outputs[0][-1])}
        assert [int(after) - int(before) for before, after, *_ in outputs[:2]] == [1, int(size > 4096)]

    @pytest.mark.parametrize("fast_path", ["0", "1"])
    def test_shipped_parts_are_used_for_a_few_sizes_only(self, fast_path: str, shipped_folder: Path, tmp_path: Path) -> None:
        """A graph seen with more sizes is compiled for all sizes."""
        program = """
import tenxor as tx
a = tx.full((600_000,), 0.37, dtype=tx.float32).realize()
told = []
for n in range(500_000, 500_400):
    x = a[:n]
    assert (x * 2 + tx.exp(x)).realize()[n - 1].item() == (a * 2 + tx.exp(a))[:1].item()
    told.append(tx.compile_counts()[0])
print(told[2] - told[0], told[-1] - told[0])
"""
        cache = make_cache_with_fast_path(tmp_path / "cache")
        env = {**os.environ, "TENXOR_SHIPPED": str(shipped_folder), "TENXOR_CACHE_DIR": str(cache), "TENXOR_FAST_PATH": fast_path}
        assert python("-c", program, env=env).stdout.split() == ["0", "1"]

    def test_product_fused_with_tanh_on_disk_has_the_bits_of_a_separate_product(self, shipped_folder: Path, tmp_path: Path) -> None:
        """The graph is computed by parts, and an earlier process has compiled one part with the product in it."""
        tmp_path.chmod(0o700)
        m = "import tenxor as tx; m = ((tx.arange(1600.0) * 0.37) % 1.7).reshape(40, 40).realize(); "
        env = {**os.environ, "TENXOR_CACHE_DIR": str(tmp_path), "TENXOR_FAST_PATH": "0"}
        python("-c", m + "tx.tanh(m @ m).realize()", env={**env, "TENXOR_SHIPPED": ""})
        program = m + "p = m @ m; (tx.tanh(p) + 1).realize(); print(p.numpy().tobytes() == (m @ m).numpy().tobytes())"
        assert python("-c", program, env={**env, "TENXOR_SHIPPED": str(shipped_folder)}).stdout == "True\n"

    def test_shipped_plans_cover_elementwise_operations(self, shipped_folder: Path, tmp_path: Path) -> None:
        """Single operations and sequences of them are not planned, also in a second process, and give equal values."""
        tmp_path.chmod(0o700)
        program = """
import sys
import tenxor as tx
from tenxor.codegen import backend
a = tx.arange(1000.0, dtype=tx.float32) if {planned} else tx.asarray(__import__("numpy").arange(1000, dtype="f4"))
bits = [x.numpy().tobytes().hex() for x in (tx.exp(a * 0.01), (a * 2 + tx.exp(a * 0.03)).reshape(20, 50), a[:700] + a[300:])]
print(*bits, *backend().count_compilations(), "tenxor.runtime.planner" in sys.modules)
"""
        env = {**os.environ, "TENXOR_CACHE_DIR": str(tmp_path), "TENXOR_FAST_PATH": ""}
        expected = python("-c", program.format(planned=True), env={**env, "TENXOR_SHIPPED": ""}).stdout.split()
        for _ in range(2):
            output = python("-c", program.format(planned=False), env={**env, "TENXOR_SHIPPED": str(shipped_folder)}).stdout.split()
            assert output[:3] == expected[:3]
            assert output[3:] == ["0", "3", "False"]
        assert expected[-1] == "True"

    def test_shipped_plans_of_another_planner_are_ignored(self, shipped_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TENXOR_SHIPPED", str(shipped_folder))
        compiler, a = Compiler(), tx.empty(1000, dtype=tx.float32).realize()
        text = shipped_op_plans.encode_op_key((a * 2).storage.node.recipe, (VECTOR, NUMBER))
        assert compiler.shipped_objects is not None and compiler.shipped_objects.read_plan(text)
        monkeypatch.setattr(shipped_code, "get_planner_hashes", lambda: "of other sources")
        assert compiler.shipped_objects.read_plan(text) is None

    def test_shipped_code_of_another_level_is_not_used(self, folder: Path, expected_bits: str) -> None:
        ours, other = sorted(folder.glob("*.objects"), key=lambda path: path.name != f"{HERE and HERE.name}{shipped_code.FILE_SUFFIX}")
        other.replace(ours)
        bits, compiled, loaded, _ = run_first(folder)
        assert bits == expected_bits and compiled > 0 and not loaded

    @pytest.mark.parametrize("damage", ["other sources", "another format", "cut short", "only a head", "empty", "a folder", "missing"])
    def test_damaged_or_foreign_file_is_ignored_as_a_whole(self, folder: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TENXOR_SHIPPED", str(folder))
        assert shipped_code.find_shipped() is not None
        assert HERE is not None
        path = folder / (HERE.name + shipped_code.FILE_SUFFIX)
        content = path.read_bytes()
        if damage in ("missing", "a folder"):
            path.unlink()
            if damage == "a folder":
                path.mkdir()
        else:
            size = shipped_code._HEADER_FORMAT.size
            changed = {
                "other sources": content[:20] + b"f" * 8 + content[28:],
                "another format": b"Tenxor" + content[6:],
                "cut short": content[: size + 40],
                "only a head": content[:size],
                "empty": b"",
            }
            path.write_bytes(changed[damage])
        assert shipped_code.find_shipped() is None

    def test_kernels_whose_shipped_objects_are_damaged_are_compiled(self, folder: Path, expected_bits: str) -> None:
        """One byte of each object is changed; each damage is detected, and the kernel compiled."""
        assert HERE is not None
        path = folder / (HERE.name + shipped_code.FILE_SUFFIX)
        content = bytearray(path.read_bytes())
        _, _, count = shipped_code._HEADER_FORMAT.unpack_from(content)
        for k in range(count):
            _, begin, size = shipped_code._ENTRY_FORMAT.unpack_from(
                content, shipped_code._HEADER_FORMAT.size + k * shipped_code._ENTRY_FORMAT.size
            )
            content[begin + size // 2] ^= 1
        path.write_bytes(content)
        bits, compiled, loaded, _ = run_first(folder)
        assert bits == expected_bits and compiled > 0 and not loaded

    def test_keys_of_shipped_code_depend_on_text_level_version_and_sources(self, monkeypatch: pytest.MonkeyPatch) -> None:
        names = {
            shipped_code.make_key_from_hash(text, level, sources) for text in "ab" for level in cpuid.CPU_LEVELS for sources in ("1", "2")
        }
        assert len(names) == 8
        monkeypatch.setattr(shipped_code, "__version__", "0.0.0")
        assert shipped_code.make_key_from_hash("a", cpuid.CPU_LEVELS[0], "1") not in names

    def test_shipped_code_is_not_used_on_another_machine(self, shipped_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TENXOR_SHIPPED", str(shipped_folder))
        assert Compiler().shipped_objects is not None
        assert Compiler(named_targets.SSE).shipped_objects is None
        monkeypatch.setattr(cpuid, "_ask_cpuid", lambda: frozenset())
        with pytest.warns(RuntimeWarning, match=r"TENXOR_SHIPPED .* has nothing for this machine and version"):
            assert Compiler().shipped_objects is None

    def test_shipped_code_coexists_with_code_for_the_exact_processor(self, shipped_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The compiler describes the same machine to LLVM, and uses the same cache keys, without querying LLVM first."""
        plain = Compiler()
        monkeypatch.setenv("TENXOR_SHIPPED", str(shipped_folder))
        ours = Compiler()
        assert ours.shipped_objects is not None and plain.shipped_objects is None and ours.target != plain.target
        for compiler in (ours, Compiler(ours.target)):
            assert (compiler.full_target, compiler.identity) == (plain.target, plain.identity)
            assert compiler.target_machine.triple == plain.target_machine.triple

    def test_kernel_reports_the_origin_shipped(self, shipped_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TENXOR_SHIPPED", str(shipped_folder))
        compiler = Compiler()
        (_, kernel), *_ = preview_kernels([tx.exp(tx.empty(1000, dtype=tx.float32).realize()).storage.node])
        assert kernel is not None and compiler.get(kernel).origin == "shipped"
        assert (compiler.compiled_count, compiler.loaded_count) == (0, 1)
        assert (
            compiler.shipped_objects is not None
            and compiler.shipped_objects.read(kernel_disk_cache.hash_text(fingerprint(kernel))) is not None
        )
        assert compiler.shipped_objects.read("another kernel") is None


class TestNothingShipped:
    def test_missing_folder_of_shipped_code_is_like_no_shipped_code(self, expected_bits: str, tmp_path: Path) -> None:
        assert run_first(tmp_path / "missing")[:3] == (expected_bits, *run_first("")[1:3])
        assert not (Path(shipped_code.__file__).parent / "shipped").exists() or shipped_code.find_shipped()


class TestLevels:
    def test_detected_features_match_llvm(self) -> None:
        if os.uname().machine != "x86_64":
            assert cpuid.detect_features() == frozenset() and cpuid.detect_level() is None
            return
        theirs = binding.get_host_cpu_features()
        names = {*cpuid._LEAF_1_ECX, *cpuid._LEAF_7_EBX, *cpuid._EXTENDED_ECX} - {"osxsave"}
        assert names & set(theirs) == names, "each is a name of LLVM's"
        assert cpuid.detect_features() - {"osxsave"} == {name for name in names if theirs[name]}

    @pytest.mark.parametrize(
        ("without", "expected"),
        [
            (set(), "x86-64-v4"),
            ({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}, "x86-64-v3"),
            ({"avx512vl"}, None),  # between two levels: its code differs from both
            ({"avx2"}, None),
            ({"fma"}, None),
            ({"osxsave"}, None),
        ],
    )
    def test_processor_level_requires_all_of_its_features(
        self, without: set[str], expected: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        all_features = frozenset({*cpuid._LEAF_1_ECX, *cpuid._LEAF_7_EBX, *cpuid._EXTENDED_ECX})
        monkeypatch.setattr(cpuid, "detect_features", lambda: all_features - without)
        level = cpuid.detect_level()
        assert (level and level.name) == expected

    def test_processor_level_accepts_machines_for_which_equal_code_is_emitted(self) -> None:
        """Other cache sizes change the plans, not the emitted code."""
        a, m = tx.empty(1000).realize(), tx.empty((300, 300), dtype=tx.float32).realize()
        nodes = [x.storage.node for x in (tx.exp(a) + a, a.sum(), m @ m, m @ m.T, tx.softmax(m), m.T + m, m.sum(axis=0), m.argmax())]
        kernels = [kernel for node in nodes for _, kernel in preview_kernels([node]) if kernel is not None]
        for level in cpuid.CPU_LEVELS:
            plain = level.target
            for caches in (Caches(1 << 15, 1 << 18, 1 << 22), Caches(3 << 14, 1 << 21, 1 << 28)):
                host = plain._replace(page_bytes=1 << 14).with_caches(caches).with_threads(8)
                assert level.can_serve(host)
                assert [emit_kernel(kernel, host) for kernel in kernels] == [emit_kernel(kernel, plain) for kernel in kernels]

    def test_processor_level_rejects_machines_for_which_different_code_is_emitted(self) -> None:
        for level in cpuid.CPU_LEVELS:
            plain = level.target
            others: list[Target] = [
                plain._replace(features=plain.features - {"f16c"}),
                plain._replace(vector_bytes=16),
                plain._replace(register_count=8),
                plain.with_caches(Caches(line_bytes=128)),
                plain.with_caches(Caches(l1_bytes=1 << 13)),
                plain._replace(thread_limits=plain.thread_limits._replace(max_polls=1)),
                plain._replace(blocks=plain.blocks._replace(panels_per_pack=2)),
            ]
            assert level.can_serve(plain) and not any(map(level.can_serve, others))


@pytest.fixture
def llvm_not_started(shipped_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give this process a compiler with the shipped code that has not started LLVM."""
    from tenxor.codegen.llvm import compiler
    from tenxor.runtime.realize import evict_plans

    monkeypatch.setenv("TENXOR_SHIPPED", str(shipped_folder))
    monkeypatch.setenv("TENXOR_CACHE_DIR", "")
    monkeypatch.setattr(compiler, "_compiler", Compiler())
    monkeypatch.setattr("tenxor.codegen.llvm.compiler.has_host_info", lambda: False)
    monkeypatch.setattr(plan_disk_cache, "_is_disabled", False)
    for clear in (evict_plans, shipped_op_plans._matches.clear):
        clear()
    yield
    for clear in (evict_plans, shipped_op_plans._matches.clear):
        clear()


@on_a_level
@pytest.mark.usefixtures("llvm_not_started", "plain")
class TestBeforeLLVMStarts:
    def test_small_work_uses_shipped_parts(self) -> None:
        a = tx.asarray(np.linspace(-2, 2, 1000, dtype=np.float32))
        x = (a * 2 + tx.exp(a) + a).sum()
        np.testing.assert_allclose(x.item(), np.sum(a.numpy() * 3.0 + np.exp(a.numpy(), dtype=float)), rtol=1e-5)
        from tenxor.codegen.llvm.compiler import compiler

        assert (compiler().compiled_count, compiler().loaded_count) == (0, 4) and "machine" not in vars(compiler())

    def test_missing_kernel_is_compiled_and_other_work_uses_shipped_parts(self) -> None:
        from tenxor.codegen.llvm.compiler import compiler

        a = tx.asarray(np.linspace(0, 1, 1000, dtype=np.float32))
        np.testing.assert_allclose(tx.cos(a).numpy(), np.cos(a.numpy()), rtol=1e-6)
        assert compiler().compiled_count == 1
        (a * 2 + tx.exp(a) + a).sum().item()
        assert (compiler().compiled_count, compiler().loaded_count) == (1, 4)

    def test_large_work_is_compiled_as_one_kernel(self) -> None:
        from tenxor.codegen.llvm.compiler import compiler

        a = tx.ones(1 << 25, dtype=tx.float32).realize()
        (tx.exp(a) + a * 2).realize()
        assert compiler().compiled_count >= 1


def test_shipped_file_contains_the_emitter_text(shipped_folder: Path) -> None:
    for path in shipped_folder.glob("*.objects"):
        magic, text, count = shipped_code._HEADER_FORMAT.unpack_from(path.read_bytes())
        assert (magic, text.decode()) == (shipped_code._MAGIC, kernel_disk_cache.hash_emitter_sources()) and count > 0
    assert host_info.get_emitter_hash() == kernel_disk_cache.hash_emitter_sources()


# Ships sums of what memory grows after, and tells how many there were, and how many of them were computed.
GROWING = """
import sys
from pathlib import Path
import tenxor as tx
from tenxor.aot.build import build_level_files
made = []
def wanted():
    for n in (1 << 20, 1 << 21):
        made.append(tx.empty(n, dtype=tx.float64).realize().sum())
        yield made[-1]
        tx.empty(8 * n, dtype=tx.float64).realize()
levels = len(list(build_level_files(Path(sys.argv[1]), wanted)))
print(levels, len(made), sum(x.storage.node.buffer is not None for x in made))
"""


def test_shipping_code_runs_no_kernel(tmp_path: Path) -> None:
    """The kernels may need instructions that this machine lacks. The test covers small results that wait for memory growth."""
    env = {**os.environ, "TENXOR_CACHE_DIR": "", "TENXOR_FAST_PATH": "0"}  # the fast path would be compiled for each level
    said = python("-c", GROWING, str(tmp_path), env=env).stdout.split()
    assert said == [str(len(cpuid.CPU_LEVELS)), str(2 * len(cpuid.CPU_LEVELS)), "0"]
