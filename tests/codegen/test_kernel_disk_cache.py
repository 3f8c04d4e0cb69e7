"""Kernels are compiled once: per pattern in a process, and once for all processes through the cache on disk."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import time

import numpy as np
import pytest

import tenxor as tx
from tenxor._utils.private_dirs import PrivateDir
from tenxor.codegen.llvm import host_info, kernel_disk_cache
from tenxor.codegen.llvm.code_image import IMAGE_MAGIC
from tenxor.codegen.llvm.compiler import Compiler, compiler
from tenxor.lowering.fingerprint import fingerprint
from tenxor.runtime import plan_disk_cache
from tenxor.runtime.planner import preview_kernels
from tests.processes import python

PROGRAM = """
import tenxor as tx
x = tx.arange(100, dtype=tx.float32)
y = ((x * 2 + 1) / 3).reshape(10, 10).realize()
z = tx.exp(y - y.max(axis=1, keepdims=True)).sum(axis=1)
assert abs(z.sum().item() - 20.525) < 0.01, z
print(*tx.compile_counts())
"""


def run(folder: Path | str, program: str = PROGRAM, **environment: str) -> subprocess.Popen[str]:
    """Start a process that runs `program` with this cache folder."""
    environment = {**os.environ, "TENXOR_CACHE_DIR": str(folder), **environment}
    return subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)


def counts(process: subprocess.Popen[str]) -> tuple[int, int]:
    """Return the numbers of kernels that a process compiled and loaded, which it prints at its end."""
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    compiled, loaded = map(int, out.split())
    return compiled, loaded


def compiled_by(*expressions: object) -> int:
    """Return the number of kernels that this process compiles or loads to compute these tensors."""
    start = sum(tx.compile_counts())
    for t in expressions:
        assert isinstance(t, tx.Tensor)
        t.realize()
    return sum(tx.compile_counts()) - start


def kernels(folder: Path) -> list[Path]:
    """Return the kernels in a folder, without host facts and plans."""
    excluded = {host_info._make_answer_key(files()) for files in (host_info._iter_llvm_binaries, host_info.iter_hashed_sources)}
    return sorted(path for path in folder.iterdir() if path.name not in excluded and not is_plan(path))


def is_plan(path: Path) -> bool:
    payload = kernel_disk_cache.unseal(path.name, path.read_bytes()) if path.is_file() else None
    return payload is not None and payload.startswith(plan_disk_cache.PLAN_FILE_MAGIC)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache folder for one test."""
    tmp_path.chmod(0o700)
    monkeypatch.setenv("TENXOR_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache folder with the kernels of PROGRAM."""
    folder = tmp_path_factory.mktemp("cache")
    folder.chmod(0o700)
    compiled, loaded = counts(run(folder))
    assert compiled >= 2 and loaded == 0
    return folder


class TestAcrossProcesses:
    def test_a_second_process_compiles_nothing(self, filled: Path) -> None:
        files = sorted(filled.iterdir())
        assert counts(run(filled)) == (0, len(kernels(filled)))
        assert sorted(filled.iterdir()) == files

    def test_kernel_keys_do_not_depend_on_the_hash_seed(self, filled: Path) -> None:
        assert counts(run(filled, PYTHONHASHSEED="1"))[0] == counts(run(filled, PYTHONHASHSEED="2"))[0] == 0

    def test_kernels_of_user_functions_are_cached_on_disk(self, folder: Path) -> None:
        program = """
import tenxor as tx
x = tx.arange(10)
tx.map(lambda a, b: tx.where(a > b, a * 2, b), x, 3).realize()
tx.reduce(lambda acc, e: 3 * acc + e, x, initial=5).realize()
tx.contract(x, x, [], lambda a, b: a - b).realize()
print(*tx.compile_counts())
"""
        compiled, _ = counts(run(folder, program))
        assert compiled == 4  # one stores x, which is asked for again
        assert counts(run(folder, program)) == (0, 4)
        assert counts(run(folder, program.replace("3 * acc", "4 * acc"))) == (1, 3)  # reductions keep their numbers
        assert counts(run(folder, program.replace("x, 3)", "x, 4)"))) == (0, 4)

    def test_concurrent_processes_fill_an_empty_folder(self, folder: Path) -> None:
        processes = [run(folder) for _ in range(4)]
        counts_by_process = [counts(p) for p in processes]
        assert len({sum(f) for f in counts_by_process}) == 1
        assert counts(run(folder)) == (0, sum(counts_by_process[0]))
        assert len(kernels(folder)) == sum(counts_by_process[0]), "temporary files are left"

    def test_empty_cache_dir_disables_the_disk_cache(self, filled: Path, tmp_path: Path) -> None:
        compiled, loaded = counts(run("", HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path)))
        assert compiled >= 2 and loaded == 0
        assert not list(tmp_path.iterdir())

    def test_default_folder_is_in_the_users_cache(self, tmp_path: Path) -> None:
        environment = {k: v for k, v in os.environ.items() if k not in ("TENXOR_CACHE_DIR", "XDG_CACHE_HOME")}
        for variables in ({"HOME": str(tmp_path)}, {"XDG_CACHE_HOME": str(tmp_path / "xdg")}):
            python("-c", PROGRAM, env={**environment, **variables})
        assert len(list((tmp_path / ".cache" / "tenxor").iterdir())) >= 2
        assert len(list((tmp_path / "xdg" / "tenxor").iterdir())) >= 2


def truncated(name: str, content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(name: str, content: bytes) -> bytes:
    return content[:200] + bytes([content[200] ^ 1]) + content[201:]


def with_another_magic(name: str, content: bytes) -> bytes:
    return b"other" + content[5:]


def emptied(name: str, content: bytes) -> bytes:
    return b""


def without_code(name: str, content: bytes) -> bytes:
    """Return an intact file whose payload is no object file."""
    payload = b"this is not an object file" * 50
    return kernel_disk_cache.seal(name, payload)


class TestDamagedFiles:
    @pytest.mark.parametrize("damage", [truncated, flipped, with_another_magic, emptied, without_code])
    def test_damaged_file_is_ignored_and_rewritten(self, filled: Path, damage: object) -> None:
        assert callable(damage)
        files = kernels(filled)
        for file in files:
            file.write_bytes(damage(file.name, file.read_bytes()))
            compiled, loaded = counts(run(filled))
            assert compiled == 1
            assert loaded >= len(files) - 1  # more if a cached plan loads its kernels up to the missing one
            assert is_intact(file)  # the next run reads it, too
        assert counts(run(filled)) == (0, len(files))

    def test_folder_in_place_of_a_file_is_tolerated(self, filled: Path) -> None:
        files = sorted(filled.iterdir())
        first, *remaining = kernels(filled)
        good = first.read_bytes()
        first.unlink()
        first.mkdir()
        try:
            compiled, loaded = counts(run(filled))
            assert compiled == 1 and loaded >= len(remaining)
            assert sorted(filled.iterdir()) == files, "temporary files are left"
        finally:
            first.rmdir()
            first.write_bytes(good)

    def test_renamed_file_is_not_read(self, folder: Path) -> None:
        kernel_disk_cache.write("a" * 64, b"code")
        assert kernel_disk_cache.read("a" * 64) == b"code"
        (folder / ("a" * 64)).rename(folder / ("b" * 64))
        assert kernel_disk_cache.read("b" * 64) is None


def is_intact(file: Path) -> bool:
    payload = kernel_disk_cache.unseal(file.name, file.read_bytes())
    return payload is not None and payload.startswith((IMAGE_MAGIC, b"\x7fELF"))


class TestFolder:
    @pytest.mark.parametrize("mode", [0o770, 0o707, 0o720, 0o702, 0o777])
    def test_folder_writable_by_other_users_is_not_used(self, folder: Path, mode: int) -> None:
        kernel_disk_cache.write("k" * 64, b"code")
        assert kernel_disk_cache.read("k" * 64) == b"code"
        folder.chmod(mode)
        assert kernel_disk_cache.read("k" * 64) is None
        kernel_disk_cache.write("m" * 64, b"code")
        assert not (folder / ("m" * 64)).exists()

    def test_folder_is_created_for_the_owner_alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TENXOR_CACHE_DIR", str(tmp_path / "a" / "b"))
        kernel_disk_cache.write("k" * 64, b"code")
        assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
        assert kernel_disk_cache.read("k" * 64) == b"code"

    def test_folder_of_another_user_is_not_used(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel_disk_cache.write("k" * 64, b"code")
        monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
        assert kernel_disk_cache.read("k" * 64) is None

    def test_folder_that_cannot_be_created_is_no_error(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("in the way")
        compiled, loaded = counts(run(tmp_path / "file"))
        assert compiled >= 2 and loaded == 0
        assert counts(run(tmp_path / "file" / "below")) == (compiled, loaded)
        assert counts(run("/proc/nowhere")) == (compiled, loaded)


class TestKeys:
    def test_keys_differ_by_machine_and_by_kernel(self) -> None:
        machine = compiler().identity
        assert kernel_disk_cache.make_key("kernel", machine) == kernel_disk_cache.make_key("kernel", machine)
        assert len({kernel_disk_cache.make_key(k, m) for k in ("kernel", "kernel2") for m in (machine, machine + "+avx1024")}) == 4

    @pytest.mark.parametrize(
        "name",
        [
            "codegen/llvm/builder.py",
            "codegen/llvm/emit_kernel.py",
            "codegen/llvm/elementary/formula_helpers.py",
            "lowering/lower.py",
            "dtypes.py",
            "ops/expr.py",
            "ops/op_table.py",
            "ops/complex/arithmetic.py",
            "target/__init__.py",
        ],
    )
    def test_keys_change_with_each_source_that_affects_code(self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        before, changed = kernel_disk_cache.make_key("kernel", "machine"), Path(tx.__file__).parent / name
        sources = list(kernel_disk_cache.iter_source_paths(*kernel_disk_cache.EMITTER_SOURCES))
        assert str(changed) in sources
        (tmp_path / "changed").write_bytes(changed.read_bytes() + b"#")
        monkeypatch.setattr(
            kernel_disk_cache,
            "iter_source_paths",
            lambda *paths: [str(tmp_path / "changed") if path == str(changed) else path for path in sources],
        )
        kernel_disk_cache.hash_sources.cache_clear()
        try:
            assert kernel_disk_cache.make_key("kernel", "machine") != before
        finally:
            kernel_disk_cache.hash_sources.cache_clear()

    def test_machine_identity_names_target_llvm_and_versions(self) -> None:
        target, llvm, llvmlite, tenxor = compiler().identity.split("\n")
        assert target == compiler().target.identity
        assert llvm[0] == "(" and llvmlite[0].isdigit() and tenxor == tx.__version__

    def test_code_of_another_machine_is_not_loaded(self, folder: Path) -> None:
        (_, kernel), *_ = preview_kernels([(tx.arange(7) * 2 + 1).storage.node])
        assert kernel is not None
        first, second = Compiler(), Compiler()
        second.identity += " of another make"
        assert [c.get(kernel).origin for c in (first, second)] == ["compiled", "compiled"]
        assert len(kernels(folder)) == 2
        assert Compiler().get(kernel).origin == "disk"


@pytest.mark.usefixtures("plain")
class TestPatterns:
    """One expression compiles once for short rows, and once for all others of 100 different shapes."""

    def test_new_shape_compiles_nothing(self) -> None:
        def expression(n: int, m: int) -> tx.Tensor:
            a = tx.asarray(np.arange(n * m, dtype=np.float32).reshape(n, m))
            return ((a * 2 + 5) ** 2 - a.sum(axis=1, keepdims=True)) / 4

        assert compiled_by(expression(3, 4), expression(3, 7)) <= 2
        assert compiled_by(*(expression(n, m) for n in range(2, 12) for m in range(2, 12))) == 0

    def test_new_rank_whose_axes_merge_to_a_known_one_compiles_nothing(self) -> None:
        shapes = [(n, *trailing) for n in range(2, 7) for trailing in ((), (2,), (3, 4), (1, 5, 1), (2, 1, 3, 2))]
        tensors = [tx.ones(s, dtype=tx.float32).realize() for s in shapes]
        assert compiled_by(tensors[0] * 3 - 7) <= 1
        assert compiled_by(*(t * 3 - 7 for t in tensors)) == 0

    def test_transposes_share_a_kernel(self) -> None:
        def expression(n: int, m: int) -> tx.Tensor:
            a, b = tx.ones((n, m)).realize(), tx.ones((m, n)).realize()
            return (a * 4 - b.T) * 3

        assert compiled_by(expression(5, 6)) <= 1
        assert compiled_by(*(expression(n, m) for n in range(5, 12) for m in range(5, 12))) == 0
        steps = 6  # those of 2, 3 or 4 rows or columns go in steps
        assert compiled_by(*(expression(n, m) for n in range(2, 12) for m in range(2, 12))) <= steps

    def test_slices_and_offsets_share_a_kernel(self) -> None:
        x = tx.arange(1000).realize()
        assert compiled_by(x[3:100:6] - 11) <= 1
        assert (
            compiled_by(*(x[k : 900 + k : step] - 11 for k in range(10) for step in (5, 6, 7, -2, -5) if x[k : 900 + k : step].size)) == 0
        )

    def test_gathers_share_a_kernel(self) -> None:
        x = tx.arange(50).realize()
        assert compiled_by(x.oindex[[4, 1, 1, 7]] * 13) <= 1
        assert compiled_by(*(x.oindex[[n, 0, n + 2, n]] * 13 for n in range(1, 40))) == 0

    def test_empty_tensors_compile_nothing(self) -> None:
        x = tx.zeros((0, 6), dtype=tx.int16)
        assert compiled_by((x * 19 - x[:, ::-1]) // 7, tx.cumulative_sum(x, axis=1), (x - 23).sum(axis=1)) == 0

    def test_new_scalar_compiles_nothing(self) -> None:
        x = tx.ones(20, dtype=tx.float32).realize()
        assert compiled_by(x * 2 + 0.5) <= 1
        numbers = [0, 1, -1, 2.5, float("inf"), float("nan"), 1e300, -0.0]
        assert compiled_by(*(x * a + float(b) for a in numbers for b in numbers)) == 0

    def test_user_functions_with_equal_code_compile_once(self) -> None:
        x = tx.arange(12).realize()

        def applied(k: int) -> tx.Tensor:
            return tx.map(lambda a, b: tx.where(a > b, a - b * k, 99), x, 5)

        def reduced() -> tx.Tensor:
            return tx.reduce(lambda acc, e: acc * 7 + e, x, initial=2)

        assert compiled_by(applied(1), reduced()) <= 2
        assert compiled_by(*(applied(k) for k in range(2, 20)), *(reduced() for _ in range(20))) == 0

    def test_user_functions_with_other_constants_get_their_own_results(self) -> None:
        x = tx.arange(12).realize()
        tensors = [tx.reduce(lambda acc, e, k=k: acc * k + e, x, initial=i) for k in (2, 3) for i in (0, 1)]
        assert [t.item() for t in tensors] == [reduce_in_order(k, i) for k in (2, 3) for i in (0, 1)]
        signed = [tx.reduce(lambda acc, e: acc * e, tx.zeros(0), initial=zero).item() for zero in (0.0, -0.0)]
        assert np.signbit(signed).tolist() == [False, True]


def reduce_in_order(k: int, start: int) -> int:
    for e in range(12):
        start = start * k + e
    return start


@pytest.fixture(autouse=True)
def _unchanged_environment() -> Iterator[None]:
    before = os.environ.get("TENXOR_CACHE_DIR")
    yield
    assert os.environ.get("TENXOR_CACHE_DIR") == before


@pytest.mark.usefixtures("plain")
def test_kernels_of_tests_are_cached_in_their_own_folder() -> None:
    (_, kernel), *_ = preview_kernels([(tx.arange(5) * 91 - 17).storage.node])
    assert kernel is not None
    compiler().get(kernel)
    folder = Path(__file__).parents[2] / ".kernels"
    assert (folder / kernel_disk_cache.make_key(fingerprint(kernel), compiler().identity)).is_file()


class TestEviction:
    """Writing a file whose name begins with 00 removes the least recently used files."""

    KEYS = tuple(f"{k:064x}"[::-1] for k in range(20))  # all but the first name no time to look

    @pytest.fixture
    def used(self, folder: Path) -> Path:
        """Return a cache with a file for each key but the first, used in this order, one day apart."""
        for k, key in enumerate(self.KEYS[1:]):
            kernel_disk_cache.write(key, b"code")
            os.utime(folder / key, (k * 86400, k * 86400))
        return folder

    def names_left(self, folder: Path) -> set[str]:
        kernel_disk_cache.write(self.KEYS[0], b"code")
        return {path.name for path in folder.iterdir()}

    def test_least_recently_used_files_are_removed_beyond_max_files(self, used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kernel_disk_cache, "MAX_CACHE_FILES", 20)
        assert len(self.names_left(used)) == 20
        monkeypatch.setattr(kernel_disk_cache, "MAX_CACHE_FILES", 8)
        assert self.names_left(used) == {self.KEYS[0], *self.KEYS[-5:]}

    def test_least_recently_used_files_are_removed_beyond_max_bytes(self, used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        nbytes = (used / self.KEYS[1]).stat().st_size
        monkeypatch.setattr(kernel_disk_cache, "MAX_CACHE_BYTES", 20 * nbytes)
        assert len(self.names_left(used)) == 20
        monkeypatch.setattr(kernel_disk_cache, "MAX_CACHE_BYTES", 8 * nbytes)
        assert self.names_left(used) == {self.KEYS[0], *self.KEYS[-5:]}

    def test_reading_a_file_counts_as_use(self, used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kernel_disk_cache, "MAX_CACHE_FILES", 8)
        assert kernel_disk_cache.read(self.KEYS[2]) == b"code"
        assert self.names_left(used) == {self.KEYS[0], self.KEYS[2], *self.KEYS[-4:]}

    def test_time_of_use_is_updated_at_most_once_a_minute(self, used: Path) -> None:
        """Reading a recently used file does not write its time again."""
        file = used / self.KEYS[1]
        for ago, touched in ((30, False), (90, True), (-90, True)):  # clocks are set back, too
            before = time() - ago
            os.utime(file, (before, before))
            assert kernel_disk_cache.read(file.name) == b"code"
            assert (abs(file.stat().st_mtime - before) > 1) == touched

    def test_read_only_folder_is_read(self, used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def read_only(*args: object, **options: object) -> None:
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr(os, "utime", read_only)
        assert kernel_disk_cache.read(self.KEYS[1]) == b"code"

    def test_file_removed_by_another_process_is_tolerated(self, used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kernel_disk_cache, "MAX_CACHE_FILES", 8)
        names = PrivateDir.list_names
        monkeypatch.setattr(PrivateDir, "list_names", lambda folder: ["0" * 64, *names(folder)])  # one that is gone by now
        assert self.names_left(used) == {self.KEYS[0], *self.KEYS[-5:]}

    def test_eviction_keeps_other_files(self, used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The user may keep other files in the folder."""
        monkeypatch.setattr(kernel_disk_cache, "MAX_CACHE_FILES", 1)
        for name in ("letter.txt", "A" * 64, "a" * 63, "a" * 65):
            (used / name).write_text("dear")
            os.utime(used / name, (0, 0))
        (used / ("f" * 64)).mkdir()
        abandoned = used / ("e" * 64 + "." + "0" * 16)  # by a process that was killed during the write
        abandoned.write_bytes(b"half")
        os.utime(abandoned, (0, 0))
        assert self.names_left(used) == {"letter.txt", "A" * 64, "a" * 63, "a" * 65, "f" * 64}
