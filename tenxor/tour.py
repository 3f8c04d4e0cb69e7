"""The tour, `python -m tenxor`: views of one storage, lazy evaluation, fused kernels and figures, then real data.

Every line of code shown is executed, and its output is printed below. The chapters are in `CHAPTERS`, to be read and changed.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import tenxor as tx
from tenxor import fastpath
from tenxor.codegen import backend
from tenxor.codegen.interface import Compiled
from tenxor.lowering.ir import Contraction, For, Kernel, State, Statement, Store, Update, walk
from tenxor.ops.expr import Call, Expr
from tenxor.runtime import plan_disk_cache

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
DIGITS = EXAMPLES / "knn_digits.py"


class Chapter(NamedTuple):
    """A chapter of the tour: a heading, a sentence on the subject, and a program. Blank lines separate groups of statements."""

    title: str
    about: str
    program: str


CHAPTERS = (
    Chapter(
        "One memory, many views",
        "A tensor is a storage seen through a layout. Moving its axes about makes another layout, never a copy.",
        """
t = tx.arange(20).reshape(4, 5)
t

t.T.storage is t.storage
t[1:3, ::-2]
corner = t[2:, 3:]
corner.shape, corner.strides, corner.offset

flat = t.T.reshape(20)  # the reshape of a transpose: still a view
flat[1] = -7
t[1, 0]
n = np.arange(20).reshape(4, 5)
np.shares_memory(n, n.T.reshape(20))  # NumPy has to copy

rows = t.oindex[[1, 3, 3], :4]  # any list of rows: still a view
t[3, 2] = 170
rows
""",
    ),
    Chapter(
        "Where an element lives",
        "A layout can say how it finds each element, and what may be done with it.",
        """
print(t.T.layout.explain())
print(rows.layout.explain())
print(flat.layout.explain())

rows[1:] = tx.arange(4)  # row 3 is here twice, so a write would be ambiguous
""",
    ),
    Chapter(
        "Lazy, and nobody can tell",
        "Arithmetic waits until its values are asked for, and still reads what was there when it was written down.",
        """
t[...] = tx.arange(20).reshape(4, 5)
twice, total = t * 2, t.sum()  # nothing is computed yet
t[0, 0] = 100
twice[0, 0].item(), total.item()

t[1:] = t[:-1]  # source and target overlap: the old values are read, all of them
t
""",
    ),
    Chapter(
        "One kernel for an expression",
        "What was written is compiled when it is needed, as one loop without temporaries.",
        """
column, row = tx.asarray([[1], [2], [3]]), tx.asarray([1, 2, 3])
column * row

a, b = t[:, None], t[None, :3]
d = ((a - b) ** 2).sum(-1)  # broadcasts to (4, 3, 5), which never exists
print(tx.explain(d))
d

before = sum(tx.compile_counts())
for n in range(200, 300):
    x = tx.ones((n, 3))
    ((x[:, None] - x[None]) ** 2).sum(-1).realize()
sum(tx.compile_counts()) - before  # kernels, for a hundred shapes

tx.map(lambda x, y: tx.where(x > y, x - y, 0), t[0], t[3])  # your own function becomes part of a kernel

t[...] = tx.arange(20).reshape(4, 5)
p, q = t.oindex[[1, 3], 0:5:2], t.oindex[[1, 1], :4]
p.T @ q.swapaxes(0, 1).reshape(2, 4)  # a product of views of views: nothing was copied to get here
""",
    ),
    Chapter(
        "Seen",
        "Numbers of any rank print in rows, and any view can be drawn, with each element's cell in memory.",
        """
print(tx.arange(256).reshape(4, 2, 2, 4, 4).to_string(dims=(3, None, None, None, None)))

cube = tx.arange(18).reshape(2, 3, 3)
tx.show.tensor(cube, index=(0, 1, 2)).save(folder / "cube.svg")
tx.show.storage(t.T).save(folder / "storage.svg")
tx.show.views(t.T, t.reshape(2, 10), titles=("transposed", "reshaped")).save(folder / "views.svg")
tx.show.slider(t.T[::-1]).save(folder / "walk.html")
""",
    ),
)


# --- running and showing ----------------------------------------------------------------------------------------------


def show_chapter(number: int, chapter: Chapter, names: dict[str, Any]) -> None:
    """Print a chapter under the number `number`, with the code, and run the code with the variables `names`, in place."""
    print(f"\n{style_text(f'{number}. {chapter.title}', BOLD)}\n{style_text(chapter.about, DIM)}\n")
    for block in chapter.program.strip().split("\n\n"):
        for statement, code in split_statements(block):
            first_line, *continuation = code.splitlines()
            print(style_text("\n".join([f">>> {first_line}", *(f"... {line}" for line in continuation)]), CODE))
            run(statement, names)
        print()


def split_statements(block: str) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each statement of a block of code, with its source lines and trailing comments."""
    lines = block.splitlines()
    for statement in ast.parse(block).body:
        yield statement, "\n".join(lines[statement.lineno - 1 : statement.end_lineno])


def run(statement: ast.stmt, names: dict[str, Any]) -> None:
    """Run a statement with the variables `names`; print the value (unless None), or the message of a TenxorError.

    Assignments go into `names`. Errors of further types are raised.
    """
    try:
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), "<tour>", "eval"), names)
            if value is not None:
                print(value if isinstance(value, tx.Tensor) else repr(value))
        else:
            exec(compile(ast.Module([statement], []), "<tour>", "exec"), names)
    except tx.errors.TenxorError as error:
        print(style_text(f"{type(error).__name__}: {error}", WARNING))


BOLD, DIM, CODE, WARNING = "1", "2", "36", "33"


def style_text(text: str, style: str) -> str:
    """Return a text in a style (an ANSI code); unchanged if the output is not a terminal, or NO_COLOR is set."""
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ
    return text if plain else f"\x1b[{style}m{text}\x1b[0m"


# --- real data --------------------------------------------------------------------------------------------------------


def show_digits(number: int, program: Path = DIGITS) -> None:
    """Print the chapter with the number `number`: run the example `program` on handwritten digits, and list the kernels made for it.

    Print a note instead if the file `program` is missing, as in an installed package.
    """
    print(f"\n{style_text(f'{number}. Handwritten digits', BOLD)}")
    if not program.is_file():
        print(MISSING_EXAMPLES)
        return
    print(style_text(f"Nearest neighbours on real images, all in broadcasting; the program is {shorten_path(program)}.", DIM))
    print()
    earlier_kernels = set(backend().kernels)
    load(program).main()
    new_kernels = {k: c for k, c in backend().kernels.items() if k not in earlier_kernels}
    print(f"\nIts kernels, {len(new_kernels)} besides those that this tour had made before, and what each does in one pass:")
    for kernel, compiled in new_kernels.items():
        print(f"  {describe_kernel(kernel, compiled)}")


def show_training(number: int, folder: Path, examples: Path = EXAMPLES) -> None:
    """Print the chapter with the number `number`: train two networks, on handwritten digits and on a social network.

    The programs are in the folder `examples`; figures of the loss go into `folder`. At the first missing program, print a note and return.
    """
    print(f"\n{style_text(f'{number}. Networks that learn', BOLD)}")
    programs = [examples / "digits_network.py", examples / "karate_club.py"]
    for program in programs:
        if not program.is_file():
            print(MISSING_EXAMPLES)
            return
        print(style_text(f"{first_line(program)} The program is {shorten_path(program)}.", DIM))
        picture = folder / f"{program.stem}.svg"
        load(program).main(picture=str(picture))
        print(f"The loss is drawn in {picture}\n")


MISSING_EXAMPLES = "The examples are not part of the installed package: clone the repository and run `make demo` there."


def first_line(program: Path) -> str:
    """Return the first line of a program's docstring, or the program's name without one."""
    docstring = ast.get_docstring(ast.parse(program.read_text(encoding="utf-8")))
    return (docstring or program.stem).splitlines()[0]


def load(program: Path) -> ModuleType:
    """Execute the Python file `program` as a module outside any package, and return the module. `sys.modules` stays."""
    spec = importlib.util.spec_from_file_location(program.stem, program)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shorten_path(path: Path) -> str:
    """Return a path, relative to the working directory if it is below."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def describe_kernel(kernel: Kernel, compiled: Compiled) -> str:
    """Return a line about a kernel: the operations fused in it, the dtypes of operands and result, and the origin of its code.

    `compiled` is the compiled form of `kernel`, which knows the origin.
    """
    result, *sources = sorted(kernel.operands, key=lambda operand: not operand.written)
    source_dtypes = ", ".join(str(operand.dtype) for operand in sources) or "nothing"
    return f"{' → '.join(list_operations(kernel)) or 'copy'}  ({source_dtypes} to {result.dtype}, {ORIGINS[compiled.origin]})"


ORIGINS = {"compiled": "compiled now", "disk": "found on disk", "shipped": "came with the package", "interpreted": "interpreted"}


def list_operations(kernel: Kernel) -> list[str]:
    """Return the names of the operations and reductions in a kernel, each once, in order of computation."""
    names: dict[str, None] = {}

    def collect(body: tuple[Statement, ...]) -> None:
        for s in body:
            if isinstance(s, For):
                collect(s.body)
            elif isinstance(s, Contraction):
                collect((Update(s.accumulator, (*s.left.values, *s.right.values, *s.values)), *s.body))
            elif isinstance(s, Update):
                names.update(dict.fromkeys(op for value in s.values for op in iter_operations(value)))
                names[kernel.accumulators[s.accumulator].reduction.name] = None
            elif isinstance(s, Store):
                names.update(dict.fromkeys(iter_operations(s.value)))

    collect(kernel.body)
    return list(names)


def iter_operations(e: Expr) -> Iterator[str]:
    """Yield the names of the operations in an expression, innermost first, except casts, copies, and updates of a reduction's state."""
    for a in e.args:
        yield from iter_operations(a)
    updates_state = any(isinstance(inner, State) for inner in walk(e))
    if isinstance(e, Call) and not updates_state and e.op.name not in ("cast", "positive"):
        yield e.op.name


# --- the tour itself --------------------------------------------------------------------------------------------------


def main() -> None:
    """Run the complete tour: print all chapters, and write the figures into a new temporary folder. Print the path of the folder."""
    fastpath.start()  # now, so that compiling the fast path is not counted below
    plan_disk_cache.disable_stored_plans()  # plans are made anew, so that kernels can be described
    start = perf_counter()
    print(style_text(f"Tenxor {tx.__version__}", BOLD))
    folder = Path(tempfile.mkdtemp(prefix="tenxor-figures-"))
    names: dict[str, Any] = {"tx": tx, "np": np, "folder": folder}
    for number, chapter in enumerate(CHAPTERS, 1):
        show_chapter(number, chapter, names)
    print(f"The figures are in {folder}")
    show_digits(len(CHAPTERS) + 1)
    show_training(len(CHAPTERS) + 2, folder)
    compiled, loaded = tx.compile_counts()
    print(f"\n{perf_counter() - start:.1f} seconds; {compiled} kernels compiled, {loaded} found on disk.")
