"""Test which modules a process loads, and when: the import is light, a first result loads what it needs, and names stay complete."""

from __future__ import annotations

import ast
import copy
import inspect
import os
import pickle
import sys
import typing
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest

import tenxor as tx
from tenxor._utils import upcalls
from tenxor._utils.records import NamedTuple
from tenxor.errors import UnknownAttribute

from .processes import make_cache_with_fast_path, python

ROOT = Path(__file__).resolve().parents[1]
PRINT = "\nimport sys; print(*sys.modules)"


def loaded(program: str, **environment: str) -> set[str]:
    """Return the modules that `program` loads in a process of its own, without those that NumPy loads."""

    def modules(text: str) -> set[str]:
        path = os.pathsep.join([str(ROOT), *sys.path])
        environ = {**os.environ, "PYTHONPATH": path, **environment}
        return set(python("-S", "-c", text + PRINT, env=environ).stdout.split())

    return modules(program) - modules("import numpy")


def rooms(modules: set[str]) -> set[str]:
    return {name.split(".")[1] for name in modules if name.startswith("tenxor.")}


# Packages for plans, kernels and back ends; and modules of the standard library that load slowly and are not needed.
LATE_PACKAGES = {"lowering", "rewrite", "target", "random", "tour", "threadpool", "show"}
LATE_MODULES = {f"tenxor._utils.{name}" for name in ("private_dirs", "foreign_names", "foreign_replacements", "hashing", "interruptible")}
LATE_MODULES |= {
    "tenxor.graph.ownership",
    "tenxor.runtime.pending_limits",
    "tenxor.runtime.planner",
    "tenxor.symbolic.symint",
    "tenxor.api.elementwise",
}
HEAVY = {"hashlib", "pathlib", "dataclasses", "re", "string", "decimal", "inspect", "tempfile", "importlib.resources", "threading"}
FIRST_RESULT = "import tenxor as tx; (tx.arange(1000.0) * 2 + 1).realize()"


WITHOUT_FAST_PATH = {"TENXOR_FAST_PATH": "0"}


class TestImport:
    def test_import_without_fast_path_loads_no_package_that_only_later_work_needs(self) -> None:
        modules = loaded("import tenxor", **WITHOUT_FAST_PATH)
        assert not rooms(modules) & LATE_PACKAGES and not modules & LATE_MODULES
        assert not any(name.startswith("tenxor.fastpath.") for name in modules)
        assert not modules & HEAVY
        assert not any(name.startswith("llvmlite") for name in modules)
        assert not modules & {
            "mmap",
            "_blake2",
            "_queue",
            "tenxor.codegen.threads.worker_pool",
            "tenxor.tensor.contraction",
            "tenxor.tensor.nested_lists",
        }

    @pytest.mark.parametrize(("setting", "state", "limit"), [("0", "off: TENXOR_FAST_PATH is 0", 64), ("", "on", 132)])
    def test_import_loads_few_modules(self, setting: str, state: str, limit: int) -> None:
        """Each module takes a fifth of a millisecond. If every program needs another one, raise the limit."""
        for _ in range(2):  # the second process finds all plans and kernels on disk
            modules = loaded(f"import tenxor; assert tenxor.fastpath.state == {state!r}", TENXOR_FAST_PATH=setting)
        assert len({name for name in modules if name.startswith("tenxor")}) <= limit
        assert not modules & HEAVY and not any(name.startswith("llvmlite.binding") for name in modules)

    def test_import_with_the_fast_path_loads_all_but_two_modules_of_a_first_result(self) -> None:
        program = "import tenxor as tx; a = tx.ones(3); b = a + a"
        before = loaded(program, TENXOR_FAST_PATH="")
        for _ in range(2):  # the second process finds the plan on disk
            after = loaded(program + "; b.tolist()", TENXOR_FAST_PATH="")
        assert len({name for name in after - before if name.startswith("tenxor")}) <= 2

    @pytest.mark.parametrize("before", ["enable", "disable"])
    def test_import_leaves_the_collector_enabled_or_disabled_as_it_was(self, before: str) -> None:
        python("-c", f"import gc; gc.{before}(); collects = gc.isenabled(); import tenxor; assert gc.isenabled() is collects")

    def test_import_leaves_few_objects_in_the_youngest_generation(self) -> None:
        """Objects made by the import count as old. Otherwise two collections during a first result would take as long as the result."""
        program = "import gc; gc.disable(); import tenxor; assert len(gc.get_objects(generation=0)) < 1000 and not gc.get_freeze_count()"
        python("-c", program)

    def test_import_keeps_earlier_garbage_collectable_and_frozen_objects_frozen(self) -> None:
        garbage = """
import gc, weakref
class Knot: pass
gc.collect(); gc.disable()
a = Knot(); a.itself = a; gone = weakref.ref(a); del a
"""
        python("-c", garbage + "import tenxor; assert gone(); gc.collect(); assert not gone()")
        counted = "import numpy; gc.freeze(); frozen = gc.get_freeze_count(); import tenxor; assert 0 < frozen == gc.get_freeze_count()"
        python("-c", garbage + counted)

    def test_import_that_fails_leaves_the_collector_enabled(self) -> None:
        program = "import gc, sys\nsys.modules['numpy'] = None\ntry:\n    import tenxor\nexcept ImportError:\n    print(gc.isenabled())"
        assert python("-c", program).stdout == "True\n"


class TestFirstResult:
    def test_first_result_loads_neither_llvm_nor_the_emitter_if_the_kernel_is_on_disk(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o700)
        for _ in range(2):
            modules = loaded(FIRST_RESULT, TENXOR_CACHE_DIR=str(tmp_path), **WITHOUT_FAST_PATH)
        assert not modules & HEAVY
        assert "tenxor.codegen.llvm.code_image" in modules and "tenxor.codegen.llvm.elf_linker" not in modules
        assert {name for name in modules if name.startswith("llvmlite")} <= {"llvmlite", "llvmlite._version"}
        assert not modules & {
            "tenxor._utils.interruptible",
            "tenxor.codegen.threads.worker_pool",
            "tenxor.runtime.pending_limits",
            "tenxor.symbolic.symint",
            "tenxor.tensor.contraction",
        }
        assert not any(name.startswith(("tenxor.codegen.llvm.emit_kernel", "tenxor.codegen.llvm.elementary")) for name in modules)
        assert not modules & {
            f"tenxor.{name}" for name in ("rewrite.split_attention", "lowering.predict_contraction", "lowering.cpu.schedule_contraction")
        }
        assert not modules & {"tenxor.ops.complex.elementary", "tenxor.codegen.threads.work_queue", "tenxor.lowering.scatter_loops"}

    def test_first_result_builds_the_fast_path_without_its_emitter_if_it_is_on_disk(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o700)
        program = "import tenxor as tx; from tenxor import fastpath; fastpath.start(); assert fastpath.state == 'on'"
        for is_there in (False, True):
            modules = loaded(program, TENXOR_CACHE_DIR=str(tmp_path))
            assert ("tenxor.fastpath.emit.method_entries" in modules) is not is_there
        assert not any(name.startswith(("tenxor.fastpath.emit", "llvmlite.binding")) for name in modules)
        assert not modules & {"tenxor.codegen.llvm.builder", "tenxor.fastpath.segment_templates", "tenxor.autodiff.rule_table"}

    def test_first_result_loads_only_the_emitters_that_its_kernel_needs(self) -> None:
        modules = loaded(FIRST_RESULT, TENXOR_CACHE_DIR="", **WITHOUT_FAST_PATH)
        assert "tenxor.codegen.llvm.emit_kernel" in modules
        assert not modules & {
            f"tenxor.codegen.llvm.{name}" for name in ("elementary.power", "emit_contractions", "emit_scatters", "parallel_for")
        }

    @pytest.mark.parametrize("threads", ["1", "2"])
    def test_first_result_of_a_small_product_loads_no_thread_modules(self, threads: str, tmp_path: Path) -> None:
        """A product of this size runs without the GIL, but in one thread, so the worker pool is not loaded."""
        tmp_path.chmod(0o700)
        program = "import tenxor as tx; x = tx.ones((48, 48)); (x @ x).realize()"
        for _ in range(3):
            modules = loaded(program, TENXOR_CACHE_DIR=str(tmp_path), TENXOR_NUM_THREADS=threads, TENXOR_SHIPPED="", **WITHOUT_FAST_PATH)
        assert "tenxor.tensor.contraction" in modules and not modules & {
            "threading",
            "tenxor.codegen.threads.worker_pool",
            "tenxor._utils.interruptible",
        }


class TestLinearAlgebra:
    def test_linalg_functions_load_only_the_modules_that_they_need(self) -> None:
        """A vector norm is a sum and a root: it needs neither LAPACK nor derivatives. A decomposition needs no derivatives."""
        program = "import tenxor as tx; x = tx.ones((3, 3)).realize()"
        before = loaded(program)
        assert loaded(program + "; tx.linalg") - before == {"tenxor.linalg"}
        norm = loaded(program + "; tx.linalg.norm(x)") - before
        assert rooms(norm) == {"linalg", "api"} and not norm & {"tenxor.linalg.register_vjps", "tenxor.api.host_calls"}
        modules = loaded(program + "; tx.linalg.qr(x)") - before
        assert "tenxor.native" in modules
        assert not modules & {"tenxor.linalg.derivatives", "tenxor.linalg.norms", "tenxor.autodiff.forward"}

    def test_lazy_names_of_linalg_are_those_that_type_checkers_see(self) -> None:
        tree = ast.parse((ROOT / "tenxor/linalg/__init__.py").read_text(encoding="utf-8"))
        (block,) = [node for node in tree.body if isinstance(node, ast.If)]
        homes = {}
        for node in block.body:
            assert isinstance(node, ast.ImportFrom) and node.module is not None
            home = f"linalg.{node.module}" if node.level == 1 else node.module
            homes |= {name.name: home for name in node.names}
        assert homes == tx.linalg._HOMES and sorted(homes) == tx.linalg.__all__
        assert homes.keys() <= set(dir(tx.linalg))
        for name, home in homes.items():
            assert getattr(tx.linalg, name) is getattr(import_module(f"tenxor.{home}"), name)
        with pytest.raises(AttributeError, match=r"'tenxor\.linalg' has no attribute 'nrom'"):
            tx.linalg.nrom

    def test_every_differentiable_linalg_function_has_a_registered_vjp(self) -> None:
        from tenxor.api.host_calls import HOST_VJPS
        from tenxor.linalg import derivatives
        from tenxor.linalg.register_vjps import DIFFERENTIABLE_NAMES

        names = {n for n, f in vars(derivatives).items() if inspect.isfunction(f) and n[0] != "_" and f.__module__ == derivatives.__name__}
        closed_forms = {"polar_factor", "pseudo_inverse"}  # called by what has its own derivative, as no operation goes through them
        assert names == set(DIFFERENTIABLE_NAMES) | closed_forms and set(DIFFERENTIABLE_NAMES) <= HOST_VJPS.keys()


class TestFastPath:
    def test_fast_path_is_built_without_llvm_if_it_is_on_disk(self, tmp_path: Path) -> None:
        """The fast path writes memory and calls the interpreter; all of this is linked as kernels are."""
        cache = make_cache_with_fast_path(tmp_path / "cache")
        program = """
import tenxor as tx
from tenxor import fastpath
fastpath.start()
assert fastpath.state == "on" and (tx.ones(3) + 1).tolist() == [2.0] * 3, fastpath.state
"""
        loaded(program, TENXOR_CACHE_DIR=str(cache))  # compiles the kernels
        modules = loaded(program, TENXOR_CACHE_DIR=str(cache))
        assert "tenxor.fastpath.install" in modules and "llvmlite.binding" not in modules


class TestPackageNames:
    def test_package_names_are_those_that_type_checkers_see(self) -> None:
        """Each late name is in the module that the table names, and type checkers read each such module."""
        tree = ast.parse((ROOT / "tenxor/__init__.py").read_text(encoding="utf-8"))
        (block,) = [node for node in tree.body if isinstance(node, ast.If)]
        starred_modules = {node.module for node in block.body if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"}
        assert starred_modules == {*tx._NAMES, "api.aliases"}  # the other names, by a stub alone
        for module, names in tx._NAMES.items():
            assert sorted(names.split()) == sorted(import_module(f"tenxor.{module}").__all__), module

    def test_package_names_are_all_in_dir_and_in_star_imports(self) -> None:
        """`dir`, completion and `import *` have all of them, loaded or not."""
        everything = {name for module in tx._NAMES for name in import_module(f"tenxor.{module}").__all__} - {"_call_numpy_function"}
        assert everything | {"Tensor", "random", "show", "errors", "layout", "pi", "float32", "ones"} <= set(dir(tx))
        names: dict[str, object] = {}
        exec("from tenxor import *", names)
        values = {name for name in dir(tx) if name[0] != "_" and not isinstance(getattr(tx, name), ModuleType)}
        assert values <= names.keys()
        assert all(names[name] is getattr(tx, name) for name in everything if name[0] != "_")

    def test_package_names_stay_functions_after_modules_of_equal_name_are_loaded(self) -> None:
        """`memory`, `realize` and `tensor` are functions, whichever module of that name is loaded, and when."""
        program = """
import tenxor as tx
import tenxor.runtime.generic_plans, tenxor.memory.buffer, tenxor.runtime.realize, tenxor.tensor, tenxor.api.inspection
assert all(callable(f) for f in (tx.memory, tx.realize, tx.tensor)), (tx.memory, tx.realize, tx.tensor)
"""
        loaded(program)

    def test_package_names_that_are_misspelt_raise_an_error_suggesting_late_names(self) -> None:
        with pytest.raises(UnknownAttribute, match=r"did you mean tx\.softmax"):
            tx.softmaxx  # type: ignore[attr-defined]
        with pytest.raises(AttributeError, match="no attribute '_nothing'"):
            tx._nothing  # type: ignore[attr-defined]


class TestNamedTuples:
    """Compare with the named tuples of `typing`."""

    def test_named_tuples_have_fields_defaults_methods_and_a_name(self) -> None:
        namespace = {"__annotations__": {"a": "int", "b": "str"}, "b": "x", "__doc__": "Both.", "twice": lambda self: 2 * self.a}
        classes: list[Any] = []
        for base in (NamedTuple, typing.NamedTuple):
            body = {**namespace, "__module__": __name__, "__qualname__": "Outer.Pair"}
            classes.append(type(base.__mro_entries__((base,))[0])("Pair", base.__mro_entries__((base,)), body))  # type: ignore[attr-defined]
        ours, theirs = classes
        for cls in classes:
            assert cls(3) == (3, "x") and cls(3).twice() == 6 and repr(cls(a=1, b="y")) == "Pair(a=1, b='y')"
            with pytest.raises(TypeError):
                cls()
        for name in ("_fields", "_field_defaults", "__name__", "__qualname__", "__module__", "__doc__", "__bases__"):
            assert getattr(ours, name) == getattr(theirs, name), name
        assert ours.__annotations__ == namespace["__annotations__"]

    @pytest.mark.parametrize(
        "arguments", ["", "1", "1, 2", "1, c=3", "a=1", "b=2, a=1", "1, 2, 3, 4", "1, 2, 3, 4, 5", "1, a=1", "1, d=2", "1, 2, e=1", "b=1"]
    )
    def test_named_tuples_accept_the_arguments_that_typing_accepts(self, arguments: str) -> None:
        results = []
        for cls in (Ours, Theirs):
            try:
                results.append(tuple(eval(f"cls({arguments})", {"cls": cls})))
            except TypeError:
                results.append(("refused",))
        assert results[0] == results[1]

    @pytest.mark.parametrize("count", range(1, 24))
    def test_named_tuples_may_have_any_number_of_fields(self, count: int) -> None:
        fields = [f"field_{k}" for k in range(count)]
        text = "\n ".join([f"{field}: int" + f" = {k}" * (k > 2) for k, field in enumerate(fields)])
        names: dict[str, Any] = {}
        exec(f"from __future__ import annotations\nfrom tenxor._utils.records import NamedTuple\nclass Many(NamedTuple):\n {text}", names)
        cls = names["Many"]
        assert cls(**{field: 2 * k for k, field in enumerate(fields)}) == tuple(range(0, 2 * count, 2))
        assert cls(*range(min(count, 3))) == tuple(range(count)) and list(inspect.signature(cls).parameters) == fields

    def test_named_tuples_refuse_a_default_before_a_field_without_one(self) -> None:
        for base in ("tenxor._utils.records", "typing"):
            with pytest.raises(TypeError, match="default"):
                exec(f"from __future__ import annotations\nfrom {base} import NamedTuple\nclass Pair(NamedTuple):\n a: int = 1\n b: int")

    def test_named_tuples_are_replaced_copied_and_compared_as_those_of_typing(self) -> None:
        ours, theirs = Ours(1, 2), Theirs(1, 2)
        assert ours == theirs and hash(ours) == hash(theirs) and repr(ours).replace("Ours", "Theirs") == repr(theirs)
        assert type(ours._replace(c=7)) is Ours and ours._replace(c=7) == theirs._replace(c=7) and ours._asdict() == theirs._asdict()
        assert type(Ours._make([1, 2, 3, 4])) is Ours and Ours._make([1, 2, 3, 4]) == Theirs._make([1, 2, 3, 4])
        assert type(copied := copy.deepcopy(ours)) is Ours and copied == ours and pickle.loads(pickle.dumps(ours)) == ours
        for cls in (Ours, Theirs):
            with pytest.raises((ValueError, TypeError)):  # the latter from CPython 3.13 on
                cls(1, 2)._replace(e=1)
            with pytest.raises(TypeError):
                cls._make([1])
            match cls(1, 2):
                case cls(a, _, c):
                    assert (a, c) == (1, 3)
            assert cls[int] and issubclass(cls, typing.Generic)  # type: ignore[arg-type, misc]
        assert type(Further(1, 2).more()) is Further


T = typing.TypeVar("T")


class Ours(NamedTuple, typing.Generic[T]):
    a: T
    b: int
    c: int = 3
    d: int = 4


class Theirs(typing.NamedTuple, typing.Generic[T]):
    a: T
    b: int
    c: int = 3
    d: int = 4


class Further(Ours[int]):
    def more(self) -> Further:
        return self._replace(a=self.a + 1)


class TestLateModules:
    def test_late_modules_are_loaded_at_the_first_attribute_access(self) -> None:
        python(
            "-c",
            """
import sys
from tenxor._utils.lazy import LazyModule
late = LazyModule("wave")
assert "wave" not in sys.modules
assert late.open is sys.modules["wave"].open and vars(late)["open"] is late.open and late.WAVE_FORMAT_PCM == 1
try:
    late.nothing
except AttributeError as error:
    assert "wave" in str(error)
""",
        )


READS = ("x[1].item()", "x[1].tolist()", "float(x[1])", "x.sum().item()", "x.tolist()", "x.numpy()", "bool(x[0] > 0)")


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("read", READS)
def test_each_way_to_read_a_value_counts_as_a_request_for_the_fast_path(read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    starter = Mock()
    monkeypatch.setattr(upcalls, "starter", starter)
    eval(read, {"x": tx.asarray([1.0, 2.0, 3.0]) * 2})
    starter.count_requests.assert_called()
