"""What a process loads and when: the import is light, and a first result loads only what it needs."""

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

import pytest

import tenxor as tx
from tenxor.errors import UnknownAttribute
from tenxor.records import NamedTuple

from .processes import python

ROOT = Path(__file__).resolve().parents[1]
PRINT = "\nimport sys; print(*sys.modules)"


def loaded(program: str, **environment: str) -> set[str]:
    """Return the modules that a program loads in a separate process, beyond those that NumPy loads."""

    def modules(text: str) -> set[str]:
        path = os.pathsep.join([str(ROOT), *sys.path])
        environ = {**os.environ, "PYTHONPATH": path, **environment}
        return set(python("-S", "-c", text + PRINT, env=environ).stdout.split())

    return modules(program) - modules("import numpy")


def rooms(modules: set[str]) -> set[str]:
    return {name.split(".")[1] for name in modules if name.startswith("tenxor.")}


# What plans, kernels and back ends are made of, and modules of Python's that take long, and are for others.
LATE = {"kernel", "rewrite", "target", "functions", "random", "folders", "spellings", "tour", "threadpool", "plans", "shortcut"}
LATE |= {"advice", "ownership", "pending", "sizes", "hashing", "apart", "show"}
HEAVY = {"hashlib", "pathlib", "dataclasses", "re", "string", "decimal", "inspect", "tempfile", "importlib.resources", "threading"}
FIRST = "import tenxor as tx; (tx.arange(1000.0) * 2 + 1).realize()"


class TestImport:
    def test_import_loads_no_late_layer(self) -> None:
        found = loaded("import tenxor")
        assert not rooms(found) & LATE
        assert not found & HEAVY
        assert not any(name.startswith("llvmlite") for name in found)
        assert not found & {"mmap", "_blake2", "_queue", "tenxor.backend.helpers", "tenxor.tensor.contraction", "tenxor.tensor.nested"}

    def test_import_loads_few_modules(self) -> None:
        """Each module takes a fifth of a millisecond. If one more module is needed by everything, raise the count."""
        assert len({name for name in loaded("import tenxor") if name.startswith("tenxor")}) <= 54

    @pytest.mark.parametrize("before", ["enable", "disable"])
    def test_import_leaves_the_collector_as_it_was(self, before: str) -> None:
        python("-c", f"import gc; gc.{before}(); collects = gc.isenabled(); import tenxor; assert gc.isenabled() is collects")

    def test_import_leaves_no_young_objects(self) -> None:
        """The collector would otherwise traverse these objects twice during a first result."""
        program = "import gc; gc.disable(); import tenxor; assert len(gc.get_objects(generation=0)) < 1000 and not gc.get_freeze_count()"
        python("-c", program)

    def test_import_collects_old_garbage_and_keeps_frozen_objects(self) -> None:
        garbage = """
import gc, weakref
class Knot: pass
gc.collect(); gc.disable()
a = Knot(); a.itself = a; gone = weakref.ref(a); del a
"""
        python("-c", garbage + "import tenxor; assert gone(); gc.collect(); assert not gone()")
        counted = "import numpy; gc.freeze(); frozen = gc.get_freeze_count(); import tenxor; assert 0 < frozen == gc.get_freeze_count()"
        python("-c", garbage + counted)

    def test_failed_import_restores_the_collector(self) -> None:
        program = "import gc, sys\nsys.modules['numpy'] = None\ntry:\n    import tenxor\nexcept ImportError:\n    print(gc.isenabled())"
        assert python("-c", program).stdout == "True\n"


class TestFirstResult:
    def test_first_result_from_disk_loads_neither_llvm_nor_emitters(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o700)
        loaded(FIRST, TENXOR_CACHE_DIR=str(tmp_path))
        found = loaded(FIRST, TENXOR_CACHE_DIR=str(tmp_path))
        assert not found & HEAVY
        assert "tenxor.backend.llvm.linking" in found
        assert {name for name in found if name.startswith("llvmlite")} <= {"llvmlite", "llvmlite._version"}
        assert not found & {"tenxor.apart", "tenxor.backend.helpers", "tenxor.pending", "tenxor.sizes", "tenxor.tensor.contraction"}
        assert not any(name.startswith(("tenxor.backend.llvm.emit", "tenxor.backend.llvm.elementary")) for name in found)
        assert not found & {f"tenxor.{name}" for name in ("rewrite.attention", "kernel.footprint", "kernel.cpu.products")}
        assert not found & {"tenxor.ops.complexes.elementary", "tenxor.backend.places", "tenxor.kernel.scatter"}

    def test_fast_path_from_disk_loads_no_emitters(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o700)
        program = "import tenxor as tx; from tenxor import shortcut; shortcut.start(); assert shortcut.state == 'on'"
        for is_there in (False, True):
            found = loaded(program, TENXOR_CACHE_DIR=str(tmp_path))
            assert ("tenxor.shortcut.code.methods" in found) is not is_there
        assert not any(name.startswith(("tenxor.shortcut.code", "llvmlite.binding")) for name in found)
        assert not found & {"tenxor.backend.llvm.builder", "tenxor.shortcut.stretches", "tenxor.derivatives.rules"}

    def test_first_result_loads_only_required_emitters(self) -> None:
        found = loaded(FIRST, TENXOR_CACHE_DIR="")
        assert "tenxor.backend.llvm.emit" in found
        assert not found & {f"tenxor.backend.llvm.{name}" for name in ("elementary.power", "products", "scatter", "sharing")}


    @pytest.mark.parametrize("threads", ["1", "2"])
    def test_small_product_starts_no_threads(self, threads: str, tmp_path: Path) -> None:
        """A product of this size runs without the GIL but in one piece, so modules that share work are not loaded."""
        tmp_path.chmod(0o700)
        program = "import tenxor as tx; x = tx.ones((48, 48)); (x @ x).realize()"
        for _ in range(3):
            found = loaded(program, TENXOR_CACHE_DIR=str(tmp_path), TENXOR_NUM_THREADS=threads, TENXOR_SHIPPED="")
        assert "tenxor.tensor.contraction" in found and not found & {"threading", "tenxor.backend.helpers", "tenxor.apart"}


class TestLinearAlgebra:
    def test_linalg_loads_only_what_is_used(self) -> None:
        """A vector norm is a sum and a root: it needs neither LAPACK nor derivatives. A decomposition needs no derivatives."""
        program = "import tenxor as tx; x = tx.ones((3, 3)).realize()"
        before = loaded(program)
        assert loaded(program + "; tx.linalg") - before == {"tenxor.linalg"}
        norm = loaded(program + "; tx.linalg.norm(x)") - before
        assert rooms(norm) == {"linalg", "functions"} and not norm & {"tenxor.linalg.lapack", "tenxor.functions.hosted"}
        found = loaded(program + "; tx.linalg.qr(x)") - before
        assert "tenxor.host" in found
        assert not found & {"tenxor.linalg.derivatives", "tenxor.linalg.norms", "tenxor.derivatives.forward"}

    def test_linalg_exports_what_type_checkers_see(self) -> None:
        tree = ast.parse((ROOT / "tenxor/linalg/__init__.py").read_text(encoding="utf-8"))
        (block,) = [node for node in tree.body if isinstance(node, ast.If)]
        seen = {}
        for node in block.body:
            assert isinstance(node, ast.ImportFrom) and node.module is not None
            home = f"linalg.{node.module}" if node.level == 1 else node.module
            seen |= {name.name: home for name in node.names}
        assert seen == tx.linalg._HOMES and sorted(seen) == tx.linalg.__all__
        assert seen.keys() <= set(dir(tx.linalg))
        for name, home in seen.items():
            assert getattr(tx.linalg, name) is getattr(import_module(f"tenxor.{home}"), name)
        with pytest.raises(AttributeError, match=r"'tenxor\.linalg' has no attribute 'nrom'"):
            tx.linalg.nrom

    def test_linalg_registers_every_backward_function(self) -> None:
        from tenxor.functions.hosted import BACKWARD
        from tenxor.linalg import derivatives
        from tenxor.linalg.lapack import FOLLOWED

        its = {n for n, f in vars(derivatives).items() if inspect.isfunction(f) and n[0] != "_" and f.__module__ == derivatives.__name__}
        of_closed_forms = {"polar_factor", "pseudo_inverse"}  # called by what has its own derivative, as no operation goes through them
        assert its == set(FOLLOWED) | of_closed_forms and set(FOLLOWED) <= BACKWARD.keys()


class TestFastPath:
    def test_fast_path_from_disk_is_built_without_llvm(self, tmp_path: Path) -> None:
        """Its machine code has writable memory and calls the interpreter, but is linked like kernels."""
        tmp_path.chmod(0o700)
        program = """
import tenxor as tx
from tenxor import shortcut
shortcut.start()
assert shortcut.state == "on" and (tx.ones(3) + 1).tolist() == [2.0] * 3, shortcut.state
"""
        loaded(program, TENXOR_CACHE_DIR=str(tmp_path))
        found = loaded(program, TENXOR_CACHE_DIR=str(tmp_path))
        assert "tenxor.shortcut.install" in found and "llvmlite.binding" not in found


class TestNames:
    def test_lazy_names_match_those_of_type_checkers(self) -> None:
        """Each late name is in the module that is said to have it, and each such module is read by type checkers."""
        tree = ast.parse((ROOT / "tenxor/__init__.py").read_text(encoding="utf-8"))
        (block,) = [node for node in tree.body if isinstance(node, ast.If)]
        seen = {node.module for node in block.body if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"}
        assert seen == {*tx._NAMES, "functions.aliases"}  # the other names, by a stub alone
        for module, names in tx._NAMES.items():
            assert sorted(names.split()) == sorted(import_module(f"tenxor.{module}").__all__), module

    def test_dir_and_star_import_have_all_names(self) -> None:
        """`dir`, completion and `import *` have all of them, loaded or not."""
        everything = {name for module in tx._NAMES for name in import_module(f"tenxor.{module}").__all__} - {"_for_numpy"}
        assert everything | {"Tensor", "random", "show", "errors", "layout", "pi", "float32", "ones"} <= set(dir(tx))
        names: dict[str, object] = {}
        exec("from tenxor import *", names)
        values = {name for name in dir(tx) if name[0] != "_" and not isinstance(getattr(tx, name), ModuleType)}
        assert values <= names.keys()
        assert all(names[name] is getattr(tx, name) for name in everything if name[0] != "_")

    def test_functions_are_not_hidden_by_modules_of_their_name(self) -> None:
        """`memory`, `realize` and `tensor` are functions, whichever module of that name is loaded, and when."""
        program = """
import tenxor as tx
import tenxor.plans.general, tenxor.memory, tenxor.realize, tenxor.tensor, tenxor.functions.inspection
assert all(callable(f) for f in (tx.memory, tx.realize, tx.tensor)), (tx.memory, tx.realize, tx.tensor)
"""
        loaded(program)

    def test_unknown_name_suggests_lazy_names(self) -> None:
        with pytest.raises(UnknownAttribute, match=r"did you mean tx\.softmax"):
            tx.softmaxx  # type: ignore[attr-defined]
        with pytest.raises(AttributeError, match="no attribute '_nothing'"):
            tx._nothing  # type: ignore[attr-defined]


class TestNamedTuples:
    """They behave as those of `typing`."""

    def test_named_tuples_have_fields_defaults_methods_and_a_name(self) -> None:
        namespace = {"__annotations__": {"a": "int", "b": "str"}, "b": "x", "__doc__": "Both.", "twice": lambda self: 2 * self.a}
        made: list[Any] = []
        for base in (NamedTuple, typing.NamedTuple):
            body = {**namespace, "__module__": __name__, "__qualname__": "Outer.Pair"}
            made.append(type(base.__mro_entries__((base,))[0])("Pair", base.__mro_entries__((base,)), body))  # type: ignore[attr-defined]
        ours, theirs = made
        for cls in made:
            assert cls(3) == (3, "x") and cls(3).twice() == 6 and repr(cls(a=1, b="y")) == "Pair(a=1, b='y')"
            with pytest.raises(TypeError):
                cls()
        for name in ("_fields", "_field_defaults", "__name__", "__qualname__", "__module__", "__doc__", "__bases__"):
            assert getattr(ours, name) == getattr(theirs, name), name
        assert ours.__annotations__ == namespace["__annotations__"]

    @pytest.mark.parametrize(
        "given", ["", "1", "1, 2", "1, c=3", "a=1", "b=2, a=1", "1, 2, 3, 4", "1, 2, 3, 4, 5", "1, a=1", "1, d=2", "1, 2, e=1", "b=1"]
    )
    def test_named_tuples_accept_the_arguments_of_typing(self, given: str) -> None:
        found = []
        for cls in (Ours, Theirs):
            try:
                found.append(tuple(eval(f"cls({given})", {"cls": cls})))
            except TypeError:
                found.append(("refused",))
        assert found[0] == found[1]

    @pytest.mark.parametrize("count", range(1, 24))
    def test_named_tuples_have_any_number_of_fields(self, count: int) -> None:
        fields = [f"field_{k}" for k in range(count)]
        text = "\n ".join([f"{field}: int" + f" = {k}" * (k > 2) for k, field in enumerate(fields)])
        names: dict[str, Any] = {}
        exec(f"from __future__ import annotations\nfrom tenxor.records import NamedTuple\nclass Many(NamedTuple):\n {text}", names)
        many = names["Many"]
        assert many(**{field: 2 * k for k, field in enumerate(fields)}) == tuple(range(0, 2 * count, 2))
        assert many(*range(min(count, 3))) == tuple(range(count)) and list(inspect.signature(many).parameters) == fields

    def test_named_tuple_defaults_must_come_last(self) -> None:
        for base in ("tenxor.records", "typing"):
            with pytest.raises(TypeError, match="default"):
                exec(f"from __future__ import annotations\nfrom {base} import NamedTuple\nclass Pair(NamedTuple):\n a: int = 1\n b: int")

    def test_named_tuples_are_replaced_copied_and_compared_as_in_typing(self) -> None:
        one, other = Ours(1, 2), Theirs(1, 2)
        assert one == other and hash(one) == hash(other) and repr(one).replace("Ours", "Theirs") == repr(other)
        assert type(one._replace(c=7)) is Ours and one._replace(c=7) == other._replace(c=7) and one._asdict() == other._asdict()
        assert type(Ours._make([1, 2, 3, 4])) is Ours and Ours._make([1, 2, 3, 4]) == Theirs._make([1, 2, 3, 4])
        assert type(copied := copy.deepcopy(one)) is Ours and copied == one and pickle.loads(pickle.dumps(one)) == one
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
    def test_lazy_module_is_loaded_at_its_first_attribute(self) -> None:
        python("-c", """
import sys
from tenxor.late import LateModule
late = LateModule("wave")
assert "wave" not in sys.modules
assert late.open is sys.modules["wave"].open and vars(late)["open"] is late.open and late.WAVE_FORMAT_PCM == 1
try:
    late.nothing
except AttributeError as error:
    assert "wave" in str(error)
""")


def test_fast_path_is_built_once_for_several_requests() -> None:
    program = """
import tenxor as tx
from tenxor import shortcut
x = tx.asarray([[1.0, 2.0], [3.0, 4.0]])
many = [x * float(k) for k in range(3 * shortcut.SOON)]
tx.realize(*many)
assert shortcut.state == "on", shortcut.state
made = shortcut.made
tx.realize(*[x + float(k) for k in range(3 * shortcut.SOON)])
assert shortcut.made is made
assert (x @ x.T).tolist() == [[5.0, 11.0], [11.0, 25.0]] and x.T[0].tolist() == [1.0, 3.0]
assert x.astype(tx.float32).sum(axis=0).tolist() == [4.0, 6.0]
"""
    python("-c", program, env={**os.environ, "TENXOR_SHORT_WAY": ""})


READS = ("x[1].item()", "x[1].tolist()", "float(x[1])", "x.sum().item()", "x.tolist()", "x.numpy()", "bool(x[0] > 0)")


@pytest.mark.parametrize("read", READS)
def test_fast_path_is_built_after_a_few_values_however_they_are_read(read: str) -> None:
    program = f"""
import tenxor as tx
from tenxor import shortcut
base = tx.ones(3).realize()
for _ in range(shortcut.SOON + 1):
    x = base * 2
    {read}
assert shortcut.state == "on", shortcut.state
"""
    python("-c", program)
