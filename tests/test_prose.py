"""How plainly the package is written: ceilings for the figures of `tools/plain_words.py`, and rules for names.

Each ceiling only goes down. A test fails if a folder is above its ceiling, and if it is so far below that the ceiling must be lowered.
"""

from __future__ import annotations

import ast
import re
import runpy
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tenxor"
TOOL = runpy.run_path(str(ROOT / "tools" / "plain_words.py"))
FILES = TOOL["python_files"]([PACKAGE])
FOLDERS = sorted({path.parent.relative_to(ROOT).as_posix() for path in FILES})
SLACK = 0.5  # per cent that a figure may lie below its ceiling

# Folder -> stand-ins per 100 words of docstrings and comments; vague names per 100 bindings; docstrings with a bad opening.
CEILINGS: dict[str, tuple[float, float, int]] = {
    "tenxor": (4.1, 0.9, 0),
    "tenxor/_utils": (4.2, 0.0, 0),
    "tenxor/aot": (3.8, 0.0, 0),
    "tenxor/api": (3.5, 0.7, 0),
    "tenxor/autodiff": (2.7, 0.3, 0),
    "tenxor/codegen": (3.9, 0.0, 0),
    "tenxor/codegen/llvm": (3.2, 0.4, 0),
    "tenxor/codegen/llvm/elementary": (3.9, 0.0, 0),
    "tenxor/codegen/threads": (3.9, 0.5, 0),
    "tenxor/dask": (3.3, 0.5, 0),
    "tenxor/data": (2.7, 0.0, 0),
    "tenxor/fastpath": (3.9, 0.0, 0),
    "tenxor/fastpath/emit": (2.8, 0.1, 0),
    "tenxor/fft": (1.8, 0.0, 0),
    "tenxor/files": (2.4, 0.0, 0),
    "tenxor/graph": (3.2, 0.0, 0),
    "tenxor/layout": (4.9, 0.5, 0),
    "tenxor/linalg": (2.5, 0.0, 0),
    "tenxor/lowering": (3.4, 0.0, 0),
    "tenxor/lowering/cpu": (2.9, 0.0, 0),
    "tenxor/lowering/ir": (4.4, 0.0, 0),
    "tenxor/memory": (2.8, 0.3, 0),
    "tenxor/native": (2.2, 0.0, 0),
    "tenxor/nn": (2.3, 0.2, 0),
    "tenxor/ops": (5.6, 2.0, 0),
    "tenxor/ops/complex": (3.7, 0.0, 0),
    "tenxor/optim": (2.9, 1.6, 0),
    "tenxor/random": (3.0, 0.0, 0),
    "tenxor/rewrite": (2.2, 0.0, 0),
    "tenxor/runtime": (3.1, 0.1, 0),
    "tenxor/show": (2.3, 0.6, 0),
    "tenxor/symbolic": (3.1, 4.4, 0),
    "tenxor/target": (7.1, 0.0, 0),
    "tenxor/tensor": (2.6, 2.2, 0),
    "tenxor/threadpool": (5.3, 0.0, 0),
}
MAX_WHATS = 0.1  # occurrences of "what" in 1,000 words of prose

# Names that say nothing, and how often the package binds each at most.
MAX_BINDINGS = {"found": 0, "given": 0, "place": 1, "other": 104, "own": 0, "made": 0, "its": 0, "kept": 0, "known": 0}

# Constants without a noun, which could stand for any quantity.
VAGUE_CONSTANT = re.compile(
    r"_?(FEW|MANY|MOST|MORE|LEAST|SMALL|LARGE|LONG|SHORT|OFTEN|DEAR|NEAR|FAR|ENOUGH|SOME|MUCH|LITTLE|BIG|KEPT|AGAIN)"
)

# Names that modules of several folders have because they are the same layer of different things.
SHARED_NAMES = {
    "__init__": "each package",
    "attention": "the function, and the module of a network",
    "pooling": "the functions, and the modules of a network",
}


@cache
def figures_of(folder: str) -> Any:
    return TOOL["measure"](ROOT, sorted((ROOT / folder).glob("*.py")))[folder]


def test_every_folder_has_a_ceiling() -> None:
    assert sorted(CEILINGS) == FOLDERS


@pytest.mark.parametrize("folder", sorted(CEILINGS))
def test_prose_of_a_folder_stays_below_its_ceilings(folder: str) -> None:
    prose, (words, names, openings) = figures_of(folder), CEILINGS[folder]
    worst = "\n".join(f"{place}: {text}" for _, place, text in sorted(prose.texts, reverse=True)[:5])
    assert prose.prose_percent <= words, f"{prose.prose_percent:.2f} stand-ins per 100 words of {folder}; the worst texts:\n{worst}"
    assert prose.names_percent <= names, f"{prose.names_percent:.2f} % of the names in {folder} are vague"
    assert len(prose.bad_openings) <= openings, "a docstring must begin with a verb or a noun:\n" + "\n".join(prose.bad_openings)


@pytest.mark.parametrize("folder", sorted(CEILINGS))
def test_ceilings_of_prose_figures_are_lowered_with_the_figures(folder: str) -> None:
    prose, (words, names, openings) = figures_of(folder), CEILINGS[folder]
    assert words - prose.prose_percent <= SLACK, f"lower the ceiling of {folder} to {prose.prose_percent:.1f}"
    assert names - prose.names_percent <= SLACK, f"lower the ceiling of {folder} to {prose.names_percent:.1f}"
    assert openings == len(prose.bad_openings), f"lower the ceiling of {folder} to {len(prose.bad_openings)}"


def test_prose_seldom_contains_the_word_what() -> None:
    words, whats = (sum(getattr(prose, count) for prose in map(figures_of, FOLDERS)) for count in ("words", "whats"))
    assert MAX_WHATS - 0.5 <= 1000 * whats / words <= MAX_WHATS


def test_bindings_of_vague_names_do_not_increase() -> None:
    bindings = sum((prose.bindings for prose in map(figures_of, FOLDERS)), Counter[str]())
    assert {name: bindings[name] for name in MAX_BINDINGS} == MAX_BINDINGS, "name the thing; where a count has gone down, lower it here"


def definitions_of_vague_constants() -> list[str]:
    definitions = []
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
            names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            definitions += [f"{path.relative_to(ROOT)}: {name}" for name in names if VAGUE_CONSTANT.fullmatch(name)]
    return definitions


def test_constants_are_a_noun_with_its_unit() -> None:
    assert definitions_of_vague_constants() == []


def test_modules_of_one_name_are_one_layer_of_different_things() -> None:
    counts = Counter(path.stem for path in FILES)
    assert {name for name, count in counts.items() if count > 1} == SHARED_NAMES.keys()
