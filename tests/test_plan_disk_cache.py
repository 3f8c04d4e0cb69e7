"""Test plans on disk: a second process reads the plans that a first one wrote, and gives equal results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen import backend
from tenxor.codegen.llvm import compiler, host_info, kernel_disk_cache
from tenxor.codegen.llvm.code_image import IMAGE_MAGIC
from tenxor.codegen.llvm.compiler import Compiler
from tenxor.graph.node import Node
from tenxor.runtime import generic_plans, plan_disk_cache, plan_tracing
from tenxor.runtime.blockwise_call import BlockwiseCall
from tenxor.runtime.graph_signature import GraphSignature, capture_in_python
from tenxor.runtime.plan_execution import Plan
from tenxor.runtime.planner import make_plan
from tests.processes import make_cache_with_fast_path, python

A = np.linspace(-1, 1, 60 * 70).reshape(60, 70)
PERMUTATION = np.random.default_rng(1).permutation(60).tolist()

# Compute results whose plans are stored on disk, and print their bits.
PROGRAM = """
import sys
import numpy as np
import tenxor as tx
a = tx.asarray(np.linspace(-1, 1, 60 * 70).reshape(60, 70))
results = [
    (a * 2 + tx.exp(a)).sum(),
    tx.arange(12.0) + 1,
    tx.softmax(a, axis=-1),
    (a @ a.T).sum(axis=0),
    (a.T @ a)[::2, 1],
    tx.where(a > 0, a, 0).max(axis=1),
    a.astype(tx.complex64) * 1j,
    tx.full((3, 4), True),
]
if len(sys.argv) > 1:
    x = tx.zeros(9)
    x[1:4] = tx.arange(3.0)
    x[3:] = x[:-3] + 1
    x[tx.asarray([0, 5])] += 3
    results += [x, x.cumsum(), x[tx.asarray([7, 2, 2])] * 2, x[1:].view(tx.int64)[2:] + 1]
    q = tx.asarray(np.linspace(-1, 1, 2 * 600 * 16).reshape(2, 600, 16))
    images = tx.asarray(np.linspace(-1, 1, 2 * 3 * 144).reshape(2, 3, 12, 12))
    results += [tx.softmax(q @ q.mT * 3, axis=-1) @ q, tx.conv2d(images, tx.ones((8, 3, 3, 3)))]  # block by block, and by tables
print("".join([t.numpy().tobytes().hex() for t in results]), *tx.compile_counts(), "tenxor.runtime.planner" in sys.modules)
"""

# Print how many launch records Python made, how many size-generic templates were found, and how many kernels were compiled.
RULES_PROGRAM = """
import numpy as np
import tenxor as tx
from tenxor.fastpath import size_generic, graph_launch
from tenxor.fastpath.sized_template import SizedRecord
x = tx.asarray(np.arange(20_000.0))
for n in range(10_000, 10_040):
    (x[:n] * 2 + x[1 : n + 1]).realize()
rules = [rule for kind in size_generic._templates_by_signature.values() for rule in kind.entries]
print(len(graph_launch.plans_in_use), sum([isinstance(rule, SizedRecord) for rule in rules]), tx.compile_counts()[0])
"""

# Compute results of the sizes given as arguments. Print whether anything was planned for that, and how many kernels were compiled.
SIZES_PROGRAM = """
import sys
import numpy as np
import tenxor as tx
a = np.linspace(-1, 1, 9000)
t = tx.asarray(a)
for n in map(int, sys.argv[1:]):
    x, y = t[:n], a[:n]
    pairs = [(x * 2 + t[1 : n + 1], y * 2 + a[1 : n + 1]), (x.sum(), y.sum()), (x @ t[1 : n + 1], y @ a[1 : n + 1])]
    pairs += [(x.cumsum(), y.cumsum()), (t[: 3 * n].reshape(n, 3).max(axis=0), a[: 3 * n].reshape(n, 3).max(axis=0))]
    for found, expected in pairs:
        assert np.allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12), n
print(int("tenxor.runtime.planner" in sys.modules), *tx.compile_counts())
"""

# Train a model for three steps, with a user function in the loss, and print the bits of a weight.
TRAINING_PROGRAM = """
import sys
import numpy as np
import tenxor as tx
from tenxor import nn
generator = tx.random.Generator(0)
model = nn.Sequential(nn.Linear(20, 40, generator=generator), nn.LayerNorm(40), tx.gelu, nn.Linear(40, 7, generator=generator))
optimizer = tx.optim.AdamW(model.parameters(), lr=1e-2)
rng = np.random.default_rng(0)
x, classes = tx.asarray(rng.normal(size=(50, 20)).astype(np.float32)), tx.asarray(rng.integers(0, 7, 50))
for _ in range(3):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), classes)
    (loss + 1e-3 * tx.map(lambda w: w * w / (1 + w * w), model[0].weight).sum()).backward()
    optimizer.step()
print(model[0].weight.numpy().tobytes().hex(), *tx.compile_counts(), "tenxor.runtime.planner" in sys.modules)
"""


def run(folder: Path, *more: str, **environment: str) -> tuple[str, int, int, bool]:
    env = {**os.environ, "TENXOR_CACHE_DIR": str(folder), "TENXOR_FAST_PATH": "0", **environment}
    return parse_output(python("-c", PROGRAM, *more, env=env).stdout)


def parse_output(output: str) -> tuple[str, int, int, bool]:
    """Return the bits that a process printed, how many kernels it compiled and loaded, and whether it planned anything."""
    bits, compiled, loaded, planned = output.split()
    return bits, int(compiled), int(loaded), planned == "True"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


class TestSecondProcess:
    def test_second_process_reads_all_plans_from_disk_and_gives_equal_bits(self, folder: Path) -> None:
        first, second = run(folder), run(folder)
        assert first[3] and first[1] > 0
        assert second[0] == first[0]
        assert second[1:] == (0, first[1] + first[2], False)

    def test_second_process_finds_as_many_size_generic_rules_as_the_first_process(self, folder: Path) -> None:
        """The plans for the first sizes come from disk, with kernels of which only the facts are stored."""
        cache = make_cache_with_fast_path(folder / "cache")
        env = {**os.environ, "TENXOR_CACHE_DIR": str(cache), "TENXOR_FAST_PATH": "1", "TENXOR_NUM_THREADS": "1"}
        first, second = ([int(n) for n in python("-c", RULES_PROGRAM, env=env).stdout.split()] for _ in range(2))
        assert first[:2] == second[:2] and first[1] > 0
        assert first[2] > 0 and second[2] == 0

    def test_second_process_plans_again_with_another_thread_count_or_in_debug_mode(self, folder: Path) -> None:
        first = run(folder, TENXOR_NUM_THREADS="1")
        assert run(folder, TENXOR_NUM_THREADS="1")[3] is False
        for environment in ({"TENXOR_NUM_THREADS": "3"}, {"TENXOR_NUM_THREADS": "1", "TENXOR_DEBUG": "1"}):
            again = run(folder, **environment)
            assert (again[0], again[1], again[3]) == (first[0], 0, True)

    def test_second_process_reads_plans_of_writes_gathers_scans_and_blockwise_kernels(self, folder: Path) -> None:
        first = run(folder, "and written")
        again = run(folder, "and written")
        assert (again[0], again[1], again[3]) == (first[0], 0, False)

    @pytest.mark.parametrize("fast_path", ["0", "1"])
    def test_second_process_reads_generic_plans_for_sizes_that_are_new(self, folder: Path, fast_path: str) -> None:
        cache = make_cache_with_fast_path(folder / "cache")
        (fast_path_file,) = cache.iterdir()
        env = {**os.environ, "TENXOR_CACHE_DIR": str(cache), "TENXOR_FAST_PATH": fast_path, "TENXOR_NUM_THREADS": "1"}

        def run(*sizes: int) -> list[int]:
            return [int(n) for n in python("-c", SIZES_PROGRAM, *map(str, sizes), env=env).stdout.split()]

        assert run(40, 41, 42)[0] and run(43, 44)[:2] == [False, 0]
        assert run(2000)[0], "sums of so many are computed by other kernels"
        for path in cache.iterdir():
            if path != fast_path_file and IMAGE_MAGIC in path.read_bytes()[:100]:
                path.unlink()
        assert run(45, 46)[0], "without the kernels"

    @pytest.mark.parametrize("fast_path", ["0", "", "1"])
    def test_second_process_reads_all_plans_of_training_steps(self, folder: Path, fast_path: str) -> None:
        """Most of these plans are for derivatives, which no table lists."""
        cache = make_cache_with_fast_path(folder / "cache")
        env = {**os.environ, "TENXOR_CACHE_DIR": str(cache), "TENXOR_FAST_PATH": fast_path}
        first, second = (parse_output(python("-c", TRAINING_PROGRAM, env=env).stdout) for _ in range(2))
        assert first[3] and first[1] > 0
        assert (second[0], second[1], second[3]) == (first[0], 0, False)

    def test_second_process_plans_again_if_the_files_are_damaged(self, folder: Path) -> None:
        first = run(folder)
        damaged = 0
        for path in folder.iterdir():
            content = path.read_bytes()
            if plan_disk_cache.PLAN_FILE_MAGIC in content:
                path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
                damaged += 1
        assert damaged >= 8
        again = run(folder)
        assert (again[0], again[1], again[3]) == (first[0], 0, True)

    def test_second_process_plans_again_if_kernel_files_are_deleted(self, folder: Path) -> None:
        first = run(folder)
        for path in folder.iterdir():
            if IMAGE_MAGIC in path.read_bytes()[:100]:
                path.unlink()
        again = run(folder)
        assert (again[0], again[1], again[3]) == (first[0], first[1], True)

    def test_second_process_writes_no_files_with_the_interpreter_back_end(self, folder: Path) -> None:
        bits, compiled, loaded, planned = run(folder, TENXOR_BACKEND="interpreter")
        assert planned and bits and not list(folder.iterdir()) and (compiled, loaded) != (-1, -1)


def pattern_of(x: tx.Tensor) -> GraphSignature:
    return capture_in_python([x.storage.node])


class TestStructureKeys:
    """Two patterns have equal keys exactly if the planner makes the same plan for them."""

    def test_structure_keys_are_equal_for_graphs_of_equal_structure(self) -> None:
        a, b = tx.asarray(A), tx.asarray(A + 1)
        assert (
            plan_disk_cache.encode_graph_key(pattern_of(a * 2 + b)) == plan_disk_cache.encode_graph_key(pattern_of(b * 3 + a)) is not None
        )

    @pytest.mark.usefixtures("plain")
    def test_structure_keys_are_equal_only_for_identical_pattern_keys_and_structures(self) -> None:
        a, b = tx.asarray(A), tx.asarray(A + 1)
        c, where = tx.asarray(A[:, :60].copy()), tx.asarray([2, 0, 5])

        def written(write: Callable[[tx.Tensor], object]) -> tx.Tensor:
            x = tx.asarray(A) * 2
            write(x)
            return x

        stored = a * 2 + 1
        node = stored.storage.node
        assert type(node.sources[0]) is Node
        node.sources[0].is_stored = True
        graphs = [
            *(a + b, a + a, a - b, b[1:] + a[1:], a[:-1] + b[1:], a[1:] + a[:-1], a.T + b.T, a * 2, a * 2 + 1, stored),
            *(a.sum(), a.sum(axis=0), a.sum(axis=1), a.mean(), c.sum(axis=0), c @ c, c @ c.T, c.T @ c, a.max(), c + 1, c[0] + 1),
            *(a.astype(tx.float32), a.astype(tx.int64), tx.zeros(7) + a[0, 0], tx.arange(7), tx.arange(8), a[::2] + 1, a[::-1] + 1),
            *(a.reshape(70, 60) + 1, a.T.reshape(60, 70) + 1, tx.broadcast_to(a[:1], (60, 70)) + 1, tx.empty(5)),
            *(a.cumsum(axis=0), a.cumsum(axis=1), a.cumprod(axis=1), a[where], a[:, where], a.take(where, 0)),
            *(written(lambda x: x.index_add_(0, where, x[:3])), written(lambda x: x.__setitem__(where, x[:3]))),
            *(written(lambda x: x.__setitem__(0, x[1])), written(lambda x: x.__setitem__(0, x[1] + 1)), written(lambda x: x.__iadd__(1))),
        ]
        patterns = [pattern_of(x) for x in graphs]
        texts = [plan_disk_cache.encode_graph_key(pattern) for pattern in patterns]
        keys = [(p.key, [node.shape for node in p.nodes if node.buffer is not None]) for p in patterns]
        assert None not in texts and len(set(texts)) >= len(texts) - 3, "some differ only in where they begin"
        for k, key in enumerate(keys):
            assert [text == texts[k] for text in texts] == [other_key == key for other_key in keys]

        def structure_of(pattern: GraphSignature) -> object:
            numbers: list[int] = []
            return generic_plans.extract_structure(pattern, numbers), generic_plans.group_equal_dims(numbers)[0]

        structures = [structure_of(pattern) for pattern in patterns]
        structure_texts = [plan_disk_cache.encode_structure(structure) for structure in structures]
        assert None not in structure_texts and 30 < len(set(structure_texts)) < len(structures)
        for k, structure in enumerate(structures):
            assert [text == structure_texts[k] for text in structure_texts] == [other_key == structure for other_key in structures]

    def test_structure_keys_distinguish_user_functions_by_their_formulas(self) -> None:
        a, b = tx.asarray(A), tx.asarray(A.astype(np.float32))

        def text(function: Callable[[tx.Tensor], tx.Tensor], x: tx.Tensor = a) -> str | None:
            return plan_disk_cache.encode_graph_key(pattern_of(tx.map(function, x)))

        keys = [text(lambda x: x * x + 1), text(lambda x: x * x * 2), text(lambda x: x * x - 1), text(lambda x: x * x + 1, b), text(tx.exp)]
        assert None not in keys and len(set(keys)) == len(keys)
        assert text(lambda y: 1 + y * y) not in keys[1:] and text(lambda y: y * y + 1) == keys[0]

    def test_structure_keys_distinguish_list_indices_by_the_ends_of_their_runs(self) -> None:
        """The key is not the repr, which abbreviates a long table."""
        x = tx.asarray(A)
        lists = [[2, 0, 5], [59, *range(59)], [58, 59, *range(58)], [*range(30), 31, *range(31, 60)], [*range(30), 29, *range(31, 60)]]
        graphs = [*[x.oindex[rows] + 1 for rows in lists], *[x.oindex[:, rows] + 1 for rows in lists], x.oindex[lists[1], lists[2]] + 1]
        texts = [plan_disk_cache.encode_graph_key(pattern_of(graph)) for graph in graphs]
        assert None not in texts and len(set(texts)) == len(texts)
        assert plan_disk_cache.encode_graph_key(pattern_of(tx.asarray(A * 2).oindex[lists[1]] + 1)) == texts[1]

    @pytest.mark.parametrize(
        "make",
        [
            lambda a: tx.reduce(lambda x, y: x + y, a, initial=0.0),
            lambda a: a.oindex[PERMUTATION] + 1,
            lambda a: tx.logcumsumexp(a),
            lambda a: (a * 1j).cumprod(),
        ],
    )
    def test_structure_keys_are_none_for_operations_that_cannot_be_stored(self, make: Callable[[tx.Tensor], tx.Tensor]) -> None:
        assert plan_disk_cache.encode_graph_key(pattern_of(make(tx.asarray(A)))) is None


@pytest.fixture
def fresh(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process use an empty cache folder as a new process does."""
    monkeypatch.setenv("TENXOR_CACHE_DIR", str(folder))
    monkeypatch.setattr(plan_disk_cache, "_lookup_count", 0)
    monkeypatch.setattr(compiler, "_compiler", Compiler())
    yield
    host_info._get_source_hashes.cache_clear()


@pytest.mark.usefixtures("fresh")
class TestPlanOnDisk:
    @staticmethod
    def write_and_read(x: tx.Tensor) -> tuple[Plan, Plan | None]:
        pattern = pattern_of(x)
        plan = make_plan(pattern)
        plan_disk_cache.store_plan(pattern, plan)
        return plan, plan_disk_cache.load_plan(pattern)

    @staticmethod
    def assert_alike(plan: Plan, again: Plan) -> None:
        """Check that the plans are equal. Their kernels are compared by their facts."""
        assert again.target is plan.target
        assert set(Plan.__slots__) == {
            "inlined_slots",
            "expensive_slots",
            "cheap_to_store_slots",
            "watched_slots",
            "watched_read_counts",
            "additional_slot_count",
            "deferral",
            "steps",
            "target",
            "step_bytecode",
        }
        for name in (
            "inlined_slots",
            "expensive_slots",
            "cheap_to_store_slots",
            "watched_slots",
            "watched_read_counts",
            "additional_slot_count",
            "deferral",
        ):
            assert getattr(again, name) == getattr(plan, name)
        for step, step_again in zip(plan.steps, again.steps, strict=True):
            for name in set(type(step).__slots__) - {"kernel_call", "name"}:
                assert getattr(step_again, name) == getattr(step, name), name
            assert str(step_again.name) == str(step.name)
            if step.kernel_call is None:
                assert step_again.kernel_call is None
                continue
            if isinstance(step.kernel_call, BlockwiseCall):
                assert isinstance(step_again.kernel_call, BlockwiseCall)
                for name in ("blocks", "input_slots", "work", "can_fail"):
                    assert getattr(step_again.kernel_call, name) == getattr(step.kernel_call, name)
                for body, body_again in zip(step.kernel_call.bodies, step_again.kernel_call.bodies, strict=True):
                    assert body[1:] == body_again[1:]
                    TestPlanOnDisk.assert_alike(body.plan, body_again.plan)
                continue
            args, args_again = step.kernel_call.arguments, step_again.kernel_call.arguments  # type: ignore[union-attr]
            assert [list(x) if type(x) is tuple else x for x in args_again] == [list(x) if type(x) is tuple else x for x in args]
            kernel, facts = step.kernel_call.compiled.kernel, step_again.kernel_call.compiled.kernel  # type: ignore[union-attr]
            for name in ("name", "itemsizes", "scalar_dtypes", "can_fail", "is_interruptible", "split_axis", "shared_axis"):
                assert getattr(facts, name) == getattr(kernel, name), name
            assert (facts.contraction and facts.contraction.symmetric_pairs) == (kernel.contraction and kernel.contraction.symmetric_pairs)
            assert kernel.split_axis < 0 or facts.choose_grain(plan.target.thread_limits) == kernel.choose_grain(plan.target.thread_limits)

    def test_plan_on_disk_equals_the_plan_that_was_written(self) -> None:
        a, where = tx.asarray(A), tx.asarray([2, 0, 5])
        in_part, added, updated = a * 2, a * 2, a * 2
        in_part[1:, ::2] = in_part[:-1, ::2]
        added[where] += 3
        updated[:] = updated * updated
        several = (a * 2 + 1, a @ a.T, tx.softmax(a), tx.arange(5), (a.T @ a).sum(axis=0))
        for x in (*several, a.cumsum(0), a[where], a.take(where, 1) + 1, (a + 1).view(tx.int64) * 2, in_part, added, updated):
            plan, again = self.write_and_read(x)
            assert again is not None
            self.assert_alike(plan, again)

    def test_plan_on_disk_equals_the_written_plan_of_a_blockwise_kernel(self) -> None:
        q, k, v = (tx.asarray(np.linspace(-1, 1, 2 * 600 * 16).reshape(2, 600, 16)) * n for n in (1.0, 2.0, 3.0))
        x = tx.softmax(q @ k.mT, axis=-1) @ v
        plan, again = self.write_and_read(x)
        assert again is not None and any([isinstance(step.kernel_call, BlockwiseCall) for step in plan.steps])
        self.assert_alike(plan, again)

    def test_plan_on_disk_equals_the_written_plan_of_reads_through_index_runs(self) -> None:
        plan, again = self.write_and_read(tx.asarray(A).oindex[[59, *range(59)], [68, 69, *range(68)]] * 2)
        assert again is not None
        self.assert_alike(plan, again)

    def test_plan_on_disk_keeps_small_offset_tables_of_kernels(self) -> None:
        images, weights = tx.asarray(np.linspace(-1, 1, 2 * 3 * 144).reshape(2, 3, 12, 12)), tx.ones((8, 3, 3, 3))
        plan, again = self.write_and_read(tx.conv2d(images, weights))
        tables = [table for step in plan.steps for table in step.kernel_call.tables if step.kernel_call is not None]  # type: ignore[union-attr]
        assert again is not None and tables
        self.assert_alike(plan, again)

    def test_plan_on_disk_is_not_read_with_another_version_target_or_planner(self, monkeypatch: pytest.MonkeyPatch) -> None:
        x = tx.asarray(A) * 2
        assert self.write_and_read(x)[1] is not None
        for module, name, replacement in ((compiler, "__version__", "0"), (compiler, "get_planner_hashes", lambda: "others")):
            with monkeypatch.context() as patch:
                patch.setattr(module, name, replacement)
                assert plan_disk_cache.load_plan(pattern_of(x)) is None
        current_compiler = compiler.compiler()
        with monkeypatch.context() as patch:
            patch.setattr(current_compiler, "target", current_compiler.target._replace(page_bytes=1 << 20))
            assert plan_disk_cache.load_plan(pattern_of(x)) is None
        assert plan_disk_cache.load_plan(pattern_of(x)) is not None

    def test_plan_on_disk_is_written_only_below_the_limit_of_lookups_per_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        x = tx.asarray(A) * 2
        assert self.write_and_read(x)[1] is not None
        monkeypatch.setattr(plan_disk_cache, "_lookup_count", plan_disk_cache.MAX_LOOKUPS)
        assert self.write_and_read(x)[1] is None

    def test_plan_on_disk_is_not_written_for_arbitrary_list_indices(self) -> None:
        assert self.write_and_read(tx.asarray(A).oindex[PERMUTATION] + 1)[1] is None

    @pytest.mark.usefixtures("plain")
    def test_generic_plan_read_back_gives_the_plan_of_every_size(self) -> None:
        x = tx.asarray(np.arange(3000.0))
        for make in (lambda n: x[:n] * 2 + x[1 : n + 1], lambda n: x[: 4 * n].reshape(n, 4).sum(axis=0), lambda n: x[:n].cumsum() + 1):
            pattern = pattern_of(make(50))
            sizes: list[int] = []
            structure = generic_plans.extract_structure(pattern, sizes)
            same, numbers = generic_plans.group_equal_dims(sizes)
            generic = plan_tracing.trace_generic_plan(pattern, numbers)
            assert generic is not None
            key = plan_disk_cache.encode_structure((structure, same))
            assert plan_disk_cache.load_generic_plans(key) == []
            plan_disk_cache.store_generic_plans(key, [(generic.plan_without_dims, generic.evaluate, generic.is_pinned)])
            (again,) = [generic_plans.GenericPlan(*entry) for entry in plan_disk_cache.load_generic_plans(key)]
            assert again.is_pinned == generic.is_pinned
            for n in (50, 60, 7, 700):
                pattern_of_n = pattern_of(make(n))
                sizes.clear()
                assert generic_plans.extract_structure(pattern_of_n, sizes) == structure, n
                numbers_of_n = generic_plans.group_equal_dims(sizes)[1]
                assert again.evaluate(*numbers_of_n) == generic.evaluate(*numbers_of_n)
                if (match := again.evaluate(*numbers_of_n)) is not None:
                    self.assert_alike(again.instantiate(match), make_plan(pattern_of_n))
            assert again.evaluate(*numbers) is not None

    def test_plan_on_disk_adds_no_kernel_without_a_body_to_the_back_end(self) -> None:
        x = tx.asarray(A) * 2
        _, again = self.write_and_read(x)
        assert again is not None and all(hasattr(kernel, "body") for kernel in backend().kernels)


def test_planner_hash_covers_every_package_that_plans() -> None:
    """The hash in the file names covers the sources of every package between a pattern and its plan."""
    listed = [path for path in kernel_disk_cache.iter_source_paths(*kernel_disk_cache.EMITTER_SOURCES, *kernel_disk_cache.PLANNER_SOURCES)]
    modules = "runtime/planner runtime/plan_disk_cache rewrite/split_attention lowering/fuse layout/layout graph/node symbolic/symint"
    for name in [f"{module}.py" for module in (*modules.split(), "ops/op_table")]:
        assert any(path.endswith(f"/tenxor/{name}") for path in listed), name
