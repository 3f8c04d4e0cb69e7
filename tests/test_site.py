"""The documentation site: the groups of the reference, the tables of contents and the links between pages, without a build.

`make docs` builds the site, with warnings as errors. The cells of its pages run as doctests, like those of all documents.
"""

from __future__ import annotations

import inspect
import operator
import re
import runpy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import tenxor as tx

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
REFERENCE = runpy.run_path(str(ROOT / "tools" / "reference_pages.py"))
CONFIGURATION = runpy.run_path(str(DOCS / "conf.py"))
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
NAMES = [path.relative_to(DOCS).as_posix() for path in PAGES]


def public_modules(module: ModuleType) -> Iterator[ModuleType]:
    """Yield `module`, and the public modules reached from it by public names."""
    yield module
    for name in module.__all__:
        if isinstance(member := getattr(module, name), ModuleType):
            yield from public_modules(member)


def test_every_public_name_has_one_page_in_one_group() -> None:
    grouped = Counter(f"{group.module}.{name}" for group in REFERENCE["GROUPS"] for name in REFERENCE["public_names"](group))
    public = Counter(
        f"{module.__name__}.{name}"
        for module in public_modules(tx)
        for name in module.__all__
        if not isinstance(getattr(module, name), ModuleType)
    )
    assert grouped == public
    pages = [REFERENCE["page_name"](*name.rsplit(".", 1)).lower() for name in grouped]
    assert len(set(pages)) == len(pages), "file systems may ignore case, so names of pages must differ by more"


def test_every_method_of_a_tensor_is_in_one_group() -> None:
    groups = REFERENCE["tensor_members"]()
    counts = Counter(name for names in groups.values() for name in names)
    assert set(counts.values()) == {1}
    assert {"reshape", "sum", "T", "backward"} <= counts.keys() and "repeat" not in counts  # `x.repeat` is an error with advice
    elementwise = {*REFERENCE["GROUPS"][6].names.split(), *REFERENCE["GROUPS"][7].names.split(), "conjugate"}
    assert {*groups["Elementwise functions"]} <= elementwise, "name other methods in TENSOR_GROUPS"


# Classes that functions return or that users derive from, and functions of layouts.
WITHOUT_EXAMPLE = {
    "tenxor.files.Gguf",
    "tenxor.optim.Optimizer",
    *(f"tenxor.layout.{name}" for name in ("Adjoint", "LayoutKey", "ReshapePlan", "checked_axes", "checked_axis", "count_from_start")),
    *(f"tenxor.layout.{name}" for name in ("layout_key_of_dims", "memory_order")),
}


def test_page_of_every_function_and_class_has_an_example() -> None:
    names = {f"{group.module}.{name}" for group in REFERENCE["GROUPS"] for name in REFERENCE["public_names"](group)}
    values = {name: operator.attrgetter(name.removeprefix("tenxor."))(tx) for name in names if not name.startswith("tenxor.errors")}
    callables = {name: value for name, value in values.items() if callable(value) and not isinstance(value, tx.DType)}
    assert {name for name, value in callables.items() if ">>>" not in (inspect.getdoc(value) or "")} == WITHOUT_EXAMPLE


@pytest.mark.parametrize(
    ("annotation", "words"),
    [("Operand | None", "array_like | None"), ("Callable[[T, X], tuple[T, Y]]", "callable"), ("Sequence[Operand]", "Sequence[array_like]")],
)
def test_types_in_signatures_are_in_the_words_of_docstrings(annotation: str, words: str) -> None:
    assert REFERENCE["plain_type"](annotation) == words


def test_names_in_backticks_become_literals_and_code_stays() -> None:
    docstring = "Return `tx.sum(x)` of `x *\ny`, 2 * 3.\n\n*rest : Tensor\n\n>>> a * `b`\nc * d\n\n`tx.sum`"
    marked = "Return ``tx.sum(x)`` of ``x * y``, 2 \\* 3.\n\n*rest : Tensor\n\n>>> a * `b`\nc * d\n\n``tx.sum``\n"
    assert REFERENCE["mark_up"](docstring) == marked


def test_pages_of_removed_names_are_deleted(tmp_path: Path) -> None:
    writer = REFERENCE["Writer"](tmp_path)
    (tmp_path / "tenxor.removed.rst").write_text("")
    writer.write_page("tenxor.sum", "text")
    writer.remove_old_pages()
    assert [path.name for path in tmp_path.iterdir()] == ["tenxor.sum.rst"]


def test_links_to_files_outside_of_the_site_become_pages_or_paths() -> None:
    text = ["[changes](../../CHANGELOG.md) [log](../larger.md) [package](../../tenxor/api/README.md)"]
    CONFIGURATION["prepare_page"](None, "notes/README", text)
    assert text == ["[changes](/changes.md) [log](../larger.md) package (`tenxor/api/README.md`)"]


def test_cells_end_without_the_empty_line_that_doctest_needs() -> None:
    text = ["```python\n>>> 1\n1\n\n```\n\n```sh\nls\n```\n"]
    CONFIGURATION["prepare_page"](None, "index", text)
    assert text == ["```python\n>>> 1\n1\n```\n\n```sh\nls\n```\n"]


def entries_of_toctrees(page: Path) -> set[str]:
    """Return the pages that the tables of contents of a page list."""
    entries: set[str] = set()
    for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        for line in block.split():
            if not line.startswith(":") and not line.startswith("reference/"):  # whose pages `make docs` writes
                entries |= {path.resolve().relative_to(DOCS).as_posix() for path in page.parent.glob(f"{line}.md")}
    return entries


def test_every_page_is_reached_by_tables_of_contents() -> None:
    reached, waiting = {"index.md"}, ["index.md"]
    while waiting:
        new = entries_of_toctrees(DOCS / waiting.pop()) - reached
        reached |= new
        waiting += new
    assert reached == {*NAMES}


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("guide/", "index", "ten_", "sharp", "examples"))])
def test_names_in_the_prose_of_the_guide_exist(name: str) -> None:
    text = re.sub(r"```.*?```", "", (DOCS / name).read_text(encoding="utf-8"), flags=re.DOTALL)
    for path in re.findall(r"`[^`\n]*?\btx\.(\w+(?:\.\w+)*)", text):
        operator.attrgetter(path)(tx)


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub and MyST make them."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", NAMES)
def test_relative_links_lead_to_files_and_headings(name: str) -> None:
    page = DOCS / name
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        if path.startswith(("reference/", "../reference/")):
            continue  # `make docs` looks at links to generated pages
        file = page.parent.joinpath(path).resolve() if path else page
        assert file.exists(), f"{target} leads to no file"
        assert not anchor or anchor in anchors_of(file), f"{target} leads to no heading"
