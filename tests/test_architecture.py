"""The structure of the package: which room may import which, which libraries may be imported where, and the length of files.

The rooms are ordered by height. A module may import from its own room and from the rooms below it, never from a room above. An import
inside a function counts like any other, but not an import under `if TYPE_CHECKING`. To add a room, add a line to `ROOMS` at its height.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeGuard

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tenxor"
LONGEST_FILE = 600  # lines, as the formatter lays them out: about 500 lines of dense code


class Room(NamedTuple):
    """A group of modules and packages at one height."""

    modules: tuple[str, ...]
    why: str
    only: tuple[str, ...] | None = None  # when given, the only modules of ours it may import beside itself


# Lowest first. A module belongs to the room that names its longest prefix.
ROOMS = (
    Room(("tenxor.version",), "one number, part of the names of files in the disk cache", only=()),
    Room(("tenxor._utils.gc_control",), "pauses of Python's garbage collector", only=()),
    Room(("tenxor._utils.exclude_user_code",), "sections in which no user code runs", only=("tenxor._utils.gc_control",)),
    Room(("tenxor._utils.lazy",), "lazy imports", only=("tenxor._utils.exclude_user_code",)),
    Room(("tenxor.errors",), "every module raises errors; an error knows no module", only=("tenxor._utils.lazy",)),
    Room(
        ("tenxor._utils",),
        "helpers that know nothing of tensors: locks, bounded caches, the operating system, names of other libraries",
        only=("tenxor.errors", "tenxor._utils"),
    ),
    Room(("tenxor.symbolic",), "a symbolic size may stand for any size, stride or offset", only=("tenxor._utils",)),
    Room(("tenxor.layout",), "index algebra makes sense without a tensor", only=("tenxor.errors", "tenxor._utils", "tenxor.symbolic")),
    Room(("tenxor.dtypes",), "element types, and the promotion of two of them"),
    Room(("tenxor.ops",), "scalar formulas and the only op table; every module reads what it needs of an op there"),
    Room(("tenxor.memory.block_pool",), "blocks of memory, independent of their content", only=("tenxor._utils",)),
    Room(("tenxor.memory",), "nodes hold buffers, so buffers are below nodes"),
    Room(("tenxor.graph",), "values that are read, and the meaning of writes; not how values are computed"),
    Room(("tenxor.graph.spec",), "shape, strides and dtype of a tensor, and the templates of results for them; it names recipes"),
    Room(("tenxor.graph.ownership",), "which references to a node exist, for code that may overwrite the node"),
    Room(("tenxor.rewrite",), "a graph is replaced by an equal one that is faster; no kernel is known here"),
    Room(("tenxor.target",), "a description of a machine, for planners and emitters", only=("tenxor._utils",)),
    Room(("tenxor.lowering",), "nodes become loops, for whatever target is given"),
    Room(("tenxor.codegen",), "back ends see the loop IR and nothing above it"),
    Room(("tenxor.threadpool",), "a controller for threadpoolctl; no module of the package imports it"),
    Room(("tenxor.runtime",), "joins graphs and kernels: pending nodes are planned and run"),
    Room(("tenxor.runtime.pending_limits",), "bounds the number and memory of pending nodes, by computing some"),
    Room(("tenxor.graph.storage",), "the cell that holds a node; it can ask for the values of the node"),
    Room(("tenxor.autodiff",), "derivatives are nodes made from nodes; it knows no tensor"),
    Room(("tenxor.native",), "operations that NumPy computes on the memory of nodes; it knows no tensor"),
    Room(("tenxor.show",), "figures are drawn from layouts alone", only=("tenxor.layout", "tenxor.errors", "tenxor._utils")),
    Room(("tenxor.tensor",), "a storage seen through a layout, with methods"),
    Room(("tenxor.fastpath",), "machine code for methods of tensors; it knows the methods, and they do not know it"),
    Room(("tenxor.api", "tenxor.linalg", "tenxor.fft", "tenxor.random"), "the public functions"),
    Room(("tenxor.dask",), "tensors as chunks of Dask's arrays; it uses public functions"),
    Room(("tenxor.files",), "tensors in files; it uses public functions"),
    Room(("tenxor.nn", "tenxor.optim", "tenxor.data"), "training, written as a user could write it"),
    Room(("tenxor", "tenxor.__main__", "tenxor.tour", "tenxor.aot"), "the entries: they import whatever they show"),
)

# What the package may import from outside the standard library, and the modules that may.
FOREIGN = {
    "numpy": ("tenxor",),  # dtypes and buffers
    "dask": ("tenxor.dask",),  # an extra
    "distributed": ("tenxor.dask.p2p_rechunking",),  # of the same extra: it sends chunks between workers
    "einops": ("tenxor.api.einops_patterns",),  # an extra: it parses patterns
    "llvmlite": (  # emitters write text; llvmlite is loaded when text is first compiled
        "tenxor.codegen.llvm.host_info",
        "tenxor.codegen.llvm.llvmlite_binding",
        "tenxor.threadpool",
    ),
    "rich": ("tenxor.show.progress_display",),  # an extra: it draws bars in terminals
    "tqdm": ("tenxor.show.progress_display",),  # and so does this
    "pyarrow": ("tenxor.tensor.arrow_export",),  # an extra: it makes Arrow's arrays
    "threadpoolctl": ("tenxor.threadpool",),  # an extra
}


def is_inside(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


def height_of(module: str) -> int:
    """The index in ROOMS of the room of `module`; the package itself counts as a name, not as a prefix."""
    fits = [
        (len(prefix), height)
        for height, room in enumerate(ROOMS)
        for prefix in room.modules
        if (module == prefix if prefix == "tenxor" else is_inside(module, prefix))
    ]
    if not fits:
        raise LookupError(f"{module} is in no room: add it to ROOMS in {Path(__file__).name}")
    return max(fits)[1]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


class Import(NamedTuple):
    line: int
    module: str


def is_type_checking(node: ast.AST) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below `node`, but for the bodies that only a type checker sees."""
    for child in node.orelse if is_type_checking(node) else ast.iter_child_nodes(node):
        yield child
        yield from executed(child)


@cache
def imports_of(
    source: str, module: str, is_package: bool, modules: frozenset[str], walk: Callable[[ast.AST], Iterator[ast.AST]] = executed
) -> tuple[Import, ...]:
    """Every module that `source`, the text of `module`, imports; `modules` are the modules of the package."""
    imports = []
    for node in walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                imports += [Import(node.lineno, name.name) for name in names]
            case ast.ImportFrom(module=name, names=names, level=level):
                origin = absolute(name, level, module, is_package)
                for alias in names:
                    member = f"{origin}.{alias.name}"
                    imports.append(Import(node.lineno, member if member in modules else origin))
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if ast.unparse(func).split(".")[-1] in {
                "import_module",
                "__import__",
                "LazyFunctions",
                "find_loaded_module",
            }:
                imports.append(Import(node.lineno, name))
    return tuple(imports)


def absolute(name: str | None, level: int, module: str, is_package: bool) -> str:
    """The full name of what `from <level dots><name> import …` names inside `module`."""
    if level == 0:
        assert name is not None
        return name
    parts = module.split(".")
    parts = parts[: len(parts) - level + is_package]
    return ".".join([*parts, name] if name else parts)


def complaint(importer: str, imported: str) -> str | None:
    """Why `importer` may not import `imported`; None if it may."""
    top = imported.partition(".")[0]
    if top != "tenxor":
        homes = FOREIGN.get(top, ())
        if top in sys.stdlib_module_names or any(is_inside(importer, home) for home in homes):
            return None
        return f"only {', '.join(homes)} may" if homes else "it is no dependency of the package"
    height, imported_height = height_of(importer), height_of(imported)
    only = ROOMS[height].only
    if imported_height > height:
        return f"that is in a higher room ({ROOMS[imported_height].why})"
    if imported_height < height and only is not None and not any(is_inside(imported, name) for name in only):
        return f"its room imports only {', '.join(only) or 'nothing'} ({ROOMS[height].why})"
    return None


def complaints_about(module: str, source: str, is_package: bool, modules: frozenset[str]) -> list[str]:
    return [
        f"line {line}: {module} imports {imported}: {reason}"
        for line, imported in imports_of(source, module, is_package, modules)
        if (reason := complaint(module, imported)) is not None
    ]


@pytest.mark.parametrize("module", MODULES)
def test_module_imports_only_packages_below_it(module: str) -> None:
    path = MODULES[module]
    source = path.read_text(encoding="utf-8")
    assert complaints_about(module, source, path.name == "__init__.py", frozenset(MODULES)) == []


# Within a room there are no circles either: what two modules need of each other stands in a third, below both.


def circles(imports: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """Return the groups of modules that import each other, directly or through other modules."""

    def reachable_from(start: str) -> set[str]:
        reachable: set[str] = set()
        stack = [start]
        while stack:
            new = set(imports[stack.pop()]) - reachable
            reachable |= new
            stack += new
        return reachable

    reach = {module: reachable_from(module) for module in imports}
    cycles: list[set[str]] = []
    for module in imports:
        if module in reach[module] and not any(module in circle for circle in cycles):
            cycles.append({other for other in reach[module] if module in reach[other]})
    return cycles


def all_imports(sources: Mapping[str, tuple[str, bool]]) -> dict[str, set[str]]:
    """Return for each module the other modules that it imports, also inside functions and for type checkers."""
    modules = frozenset(sources)
    return {
        module: {i.module for i in imports_of(source, module, is_package, modules, ast.walk)} & modules - {module}
        for module, (source, is_package) in sources.items()
    }


def test_imports_of_modules_have_no_cycles() -> None:
    """Code that two modules need of each other belongs in a third module, below both."""
    sources = {m: (path.read_text(encoding="utf-8"), path.name == "__init__.py") for m, path in MODULES.items()}
    assert [sorted(circle) for circle in circles(all_imports(sources))] == []


# Loaded by `import tenxor` itself: no other thread imports a module of theirs before they are complete.
EAGER = ("tenxor", "tenxor.codegen", "tenxor.layout", "tenxor.ops", "tenxor.tensor")


def at_the_top(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes that are executed when a module is loaded."""
    for child in node.orelse if is_type_checking(node) else ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Call)):  # of calls, `LazyFunctions` loads later
            yield child
            yield from at_the_top(child)


def test_modules_that_a_late_package_loads_are_imported_through_it() -> None:
    """The import system takes the lock of a module before that of its package. So a thread that imports a module of a package, and one that
    imports the package, which imports that module, would wait for each other: the import system raises a deadlock error.
    """
    sources = {m: (path.read_text(encoding="utf-8"), path.name == "__init__.py") for m, path in MODULES.items()}
    known = frozenset(sources)
    loads = {
        m: {i.module for i in imports_of(source, m, is_package, known, at_the_top) if i.module.startswith(f"{m}.")}
        for m, (source, is_package) in sources.items()
        if is_package and m not in EAGER
    }
    shortcuts = [
        f"{m}, line {i.line}: {i.module}; import it by {package}"
        for m, (source, is_package) in sources.items()
        for i in imports_of(source, m, is_package, known)
        for package, modules in loads.items()
        if modules and i.module.startswith(f"{package}.") and not is_inside(m, package)
    ]
    assert shortcuts == []


# A variable that is empty when its module is loaded, and that another module fills, is an import in disguise: the lower room calls what the
# higher room has put there. All of them stand in one module, with a description of each. A dictionary may also be a table of entries that
# modules of the same room add, such as the operations; a table is no call.
UPCALL_MODULE = "tenxor._utils.upcalls"
MUTATORS = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"),
    *("__delitem__", "__setitem__"),
}


def empty_variables(tree: ast.Module) -> dict[str, bool]:
    """Return the variables of a module that begin as None or as an empty container, and whether each is a dictionary."""
    variables = {}
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            value = ast.unparse(node.value) if node.value is not None else "None"
            is_dict = value == "{}" or (value.startswith("dict") and value.endswith("()"))
            if is_dict or value in {"None", "[]"} or (value.startswith(("list", "set", "deque")) and value.endswith("()")):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                variables |= {target.id: is_dict for target in targets if isinstance(target, ast.Name)}
    return variables


def filled_variables(source: str, module: str, is_package: bool, modules: frozenset[str]) -> Iterator[tuple[int, str, str]]:
    """Yield each change that `source`, the text of `module`, makes to a variable of another module: the line, the module, the variable."""
    tree = ast.parse(source)
    names: dict[str, tuple[str, str]] = {}  # by local name: the module and the variable, or an empty text for a module
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            origin = absolute(node.module, node.level, module, is_package)
            for alias in node.names:
                member = f"{origin}.{alias.name}"
                names[alias.asname or alias.name] = (member, "") if member in modules else (origin, alias.name)

    def variable_of(node: ast.AST) -> tuple[str, str] | None:
        if isinstance(node, ast.Name):
            known = names.get(node.id)
            return known if known is not None and known[1] else None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            home, variable = names.get(node.value.id, ("", "?"))
            return None if variable else (home, node.attr)
        return None

    for node in ast.walk(tree):
        found: list[tuple[str, str] | None] = []
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                found = [variable_of(node)]
            case ast.Subscript(ctx=ast.Store() | ast.Del()):
                found = [variable_of(node.value)]
            case ast.Attribute(attr=attribute) if attribute in MUTATORS:
                found = [variable_of(node.value)]
            case ast.AugAssign(target=ast.Name() as target):
                found = [variable_of(target)]
            case ast.Call(args=[*arguments]):  # `setattr(module, "variable", ...)`, also as arguments of `partial`
                pairs = pairwise(arguments)
                found = [
                    (names[first.id][0], second.value)
                    for first, second in pairs
                    if isinstance(first, ast.Name) and first.id in names and not names[first.id][1]
                    if isinstance(second, ast.Constant) and isinstance(second.value, str)
                ]
        yield from [(getattr(node, "lineno", 0), *place) for place in found if place is not None]


def upcalls_in(sources: Mapping[str, tuple[str, bool]]) -> list[str]:
    """Return the places where a module fills an empty variable of another module outside `UPCALL_MODULE`."""
    variables = {module: empty_variables(ast.parse(source)) for module, (source, _) in sources.items()}
    return sorted(
        f"{module}, line {line}: fills {home}.{variable}"
        for module, (source, is_package) in sources.items()
        for line, home, variable in filled_variables(source, module, is_package, frozenset(sources))
        if home != module and home != UPCALL_MODULE and variable in variables.get(home, {})
        if not (variables[home][variable] and height_of(home) == height_of(module))
    )


def test_no_module_fills_a_variable_of_another_module() -> None:
    sources = {m: (path.read_text(encoding="utf-8"), path.name == "__init__.py") for m, path in MODULES.items()}
    assert upcalls_in(sources) == []


@pytest.mark.parametrize(
    "text",
    [
        "from ..layout.core import hooks\nhooks.append(1)",
        "from ..layout.core import hooks\nhooks[:] = [1]",
        "from ..layout.core import hooks\nsteps = [hooks.clear]",
        "from ..layout.core import table\ntable['key'] = 1",
        "from ..layout import core\ncore.slot = 1",
        "from ..layout import core\ncore.hooks += [1]",
        "from ..layout import core\nsetattr(core, 'slot', 1)",
        "from ..layout import core\npartial(setattr, core, 'slot')",
    ],
)
def test_filled_variable_is_reported(text: str) -> None:
    declared = "hooks: list[object] = []\nslot = None\ntable = {}\n"
    sources = {"tenxor.layout": ("", True), "tenxor.layout.core": (declared, False), "tenxor.ops.table": (text, False)}
    assert len(upcalls_in(sources)) == 1


def test_own_variables_tables_of_a_room_and_upcalls_are_not_reported() -> None:
    sources = {
        "tenxor.ops.expr": ("OPS: dict[str, int] = {}\nhooks = []\nhooks.append(1)", False),
        "tenxor.ops.table": ("from .expr import OPS, hooks\nOPS['add'] = 1\nfirst = hooks[0]\nOPS.get('add')", False),
        "tenxor._utils.upcalls": ("slot = None", False),
        "tenxor._utils": ("", True),
        "tenxor.ops.op_table": ("from .._utils import upcalls\nupcalls.slot = 1", False),
    }
    assert upcalls_in(sources) == []


# Who knows more of back ends than their interface: the public face has the number of threads, and plans are made for it, as are
# parts of a batch; the command line shows what is on disk, and compiles what is shipped for each level.
INTERFACE_MODULES = ("tenxor.codegen", "tenxor.codegen.interface")
DIRECT_IMPORTS = {
    *(
        (name, "tenxor.codegen.threads.thread_count")
        for name in ("tenxor", "tenxor.api.inspection", "tenxor.runtime.realize", "tenxor.tensor.join_by_fastpath", "tenxor.threadpool")
    ),
    *(
        (f"tenxor.fastpath.{name}", "tenxor.codegen.threads.thread_count")
        for name in ("launch_records", "emit.graph_evaluation", "install")
    ),
    *((f"tenxor.native.{name}", "tenxor.codegen.threads.thread_count") for name in ("batch_threads", "host_execution")),
    *((name, "tenxor.codegen.threads.set_threads") for name in ("tenxor", "tenxor.threadpool")),
    *(("tenxor.__main__", f"tenxor.codegen.llvm.{name}") for name in ("kernel_disk_cache", "cpuid")),
    *(("tenxor.aot.build", f"tenxor.codegen.llvm.{name}") for name in ("cpuid", "level_compiler")),
}
# For the fast path, too
EMITTING = {
    f"tenxor.codegen.llvm.{name}"
    for name in ("builder", "code_image", "compiler", "host_info", "kernel_disk_cache", "parallel_for", "types")
}


def test_back_ends_are_imported_through_their_interface() -> None:
    imports = {
        (module, i.module)
        for module, path in MODULES.items()
        if not is_inside(module, "tenxor.codegen")
        for i in imports_of(path.read_text(encoding="utf-8"), module, path.name == "__init__.py", frozenset(MODULES), ast.walk)
        if is_inside(i.module, "tenxor.codegen") and i.module not in INTERFACE_MODULES
        if not (is_inside(module, "tenxor.fastpath") and i.module in EMITTING)
    }
    assert imports == DIRECT_IMPORTS


# An address in the host's memory means something to whoever hands memory out, and to back ends that run there; and an export
# is of the host's memory by definition. (Rooms in which `address` is a word of the loop IR are not looked at.)
ADDRESSES = ("tenxor.memory.buffer", "tenxor.memory.block_pool", "tenxor.lowering", "tenxor.codegen", "tenxor.fastpath")


def test_only_memory_and_back_end_packages_read_addresses() -> None:
    readers = {
        module
        for module, path in MODULES.items()
        if not any(is_inside(module, room) for room in ADDRESSES)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "address"
    }
    assert readers == {"tenxor.tensor.conversion_methods"}


def test_every_package_in_the_table_has_modules() -> None:
    used_heights = {height_of(module) for module in MODULES}
    empty = [room.modules for height, room in enumerate(ROOMS) if height not in used_heights]
    assert not empty, f"no module is in {empty}"


PYTHON_FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("tenxor", "tests", "examples", "tools", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)


@pytest.mark.parametrize("file", PYTHON_FILES)
def test_file_is_not_longer_than_the_limit(file: str) -> None:
    lines = len((ROOT / file).read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST_FILE, f"{file} has {lines} lines; a file over {LONGEST_FILE} must be split"


# The rules are held to their word on small sources, so that a rule which no longer bites is noticed.

KNOWN_MODULES = frozenset(
    {"tenxor.layout", "tenxor.layout.core", "tenxor.memory.buffer", "tenxor.ops", "tenxor.codegen.threads.thread_count"}
)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tenxor.layout", "from tenxor.ops import TABLE"),
        ("tenxor.layout", "from ..ops import TABLE"),
        ("tenxor.layout", "import tenxor.ops"),
        ("tenxor.layout", "from tenxor import ops"),
        ("tenxor.layout", "def lazy():\n    from tenxor import ops"),
        ("tenxor.layout", "import importlib\nimportlib.import_module('tenxor.ops')"),
        ("tenxor.layout", "if TYPE_CHECKING:\n    pass\nelse:\n    import tenxor.ops"),
        ("tenxor.graph.node", "import tenxor"),
        ("tenxor.graph.node", "from tenxor import Tensor"),
        ("tenxor.graph.node", "from tenxor.codegen import threads"),
        ("tenxor.show.tensor_figures", "from tenxor.dtypes import float32"),
        ("tenxor.dtypes", "import llvmlite.ir"),
        ("tenxor.lowering.lower", "from llvmlite import ir"),
        ("tenxor.codegen.llvm.emit_kernel", "from llvmlite import ir"),
        ("tenxor.codegen.host", "import scipy"),
    ],
)
def test_forbidden_import_is_reported(module: str, source: str) -> None:
    is_package = module == "tenxor.layout" and ".." not in source
    assert len(complaints_about(module, source, is_package, KNOWN_MODULES)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tenxor.layout.core", "from . import core\nfrom .core import Layout\nfrom ..errors import *"),
        ("tenxor.layout.core", "if TYPE_CHECKING:\n    from tenxor.tensor import Tensor"),
        ("tenxor.graph.node", "from tenxor.memory import buffer\nfrom tenxor.memory.buffer import Buffer"),
        ("tenxor.codegen.llvm.llvmlite_binding", "from llvmlite import binding\nimport numpy as np\nimport ctypes"),
        ("tenxor.tensor", "from tenxor.show import text"),
        ("tenxor.__main__", "import tenxor as tx"),
    ],
)
def test_allowed_import_is_not_reported(module: str, source: str) -> None:
    assert complaints_about(module, source, False, KNOWN_MODULES) == []


def test_import_cycle_through_functions_and_type_checking_is_reported() -> None:
    sources = {
        "tenxor.emit": "from . import loops\nfrom .values import Value",
        "tenxor.loops": "def late():\n    from .reductions import start",
        "tenxor.reductions": "if TYPE_CHECKING:\n    from .emit import Emitter\nfrom .values import Value",
        "tenxor.values": "import math",
        "tenxor.compiler": "from . import emit",
    }
    imports = all_imports({module: (source, False) for module, source in sources.items()})
    assert circles(imports) == [{"tenxor.emit", "tenxor.loops", "tenxor.reductions"}]
    assert circles({**imports, "tenxor.reductions": {"tenxor.values"}}) == []


def test_module_outside_the_table_raises_an_error() -> None:
    with pytest.raises(LookupError, match="is in no room"):
        height_of("tenxor.attic")
