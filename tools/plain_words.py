#!/usr/bin/env python3
"""Measure how plainly a package is written: its docstrings, comments and names.

    python tools/plain_words.py [PATH ...] [--base REVISION] [--worst COUNT]

Two figures are printed for each folder:

* prose: stand-ins ("what", "who", "such", "its", "others") per 100 words of docstrings and comments. In NumPy, JAX, scikit-learn and
  einops the figure is 2.4 to 4.2.
* names: the share of bindings (functions, classes, parameters, variables, attributes) that consist of stand-ins alone ("found", "made",
  "its"), in per cent. In the same libraries the figure is 0.1 to 0.7.

The worst docstrings and comments follow. With `--base`, only files that changed since that revision are read. The figures point at text
that is worth rewriting; they cannot see whether a sentence is true. `tests/test_prose.py` holds each folder below a ceiling.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

STAND_INS = re.compile(
    r"\b(what|who|whom|whose|whoever|whatever|whichever|which|such|others?|that|these|those|there|it|its|ones?|all|some|any|(?-i:none)|else)\b",
    re.IGNORECASE,
)
WORD = re.compile(r"[A-Za-z][A-Za-z']+")
DOCTEST = re.compile(r"(?m)^\s*(>>>|\.\.\.).*$")
VAGUE_WORDS = """
    found made known one ones its each given kept at what which how most more every last first before where own other others rest
    whole apart again seen there then here now this that those these same such who all some any none whatever thing things place places
    part parts asked told taken done much many few far near once together alike likewise further less least enough early late soon beside
    behind around among within without
"""
VAGUE_NAMES = frozenset(VAGUE_WORDS.split())
BAD_OPENING = re.compile(r"(What|Who|Whether|How|That|Those|The same|It)\b")
DEFINITIONS = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Prose:
    """The docstrings, comments and names of one or several files."""

    words: int = 0
    stand_ins: int = 0
    whats: int = 0
    bindings: Counter[str] = field(default_factory=Counter)
    bad_openings: list[str] = field(default_factory=list)  # "file:line: first words" of docstrings
    texts: list[tuple[float, str, str]] = field(default_factory=list)  # share of stand-ins, "file:line", text

    def add(self, path: Path, source: str) -> None:
        """Count the text of one file."""
        tree = ast.parse(source)
        documented = [*docstrings(tree)]
        self.bad_openings += [f"{path}:{line}: {text[:60]}" for line, text in documented if BAD_OPENING.match(text)]
        for line, text in [*documented, *comments(source)]:
            words, stand_ins = WORD.findall(text), len(STAND_INS.findall(text))
            self.words += len(words)
            self.stand_ins += stand_ins
            self.whats += sum(word.lower() == "what" for word in words)
            if len(words) >= 8:
                self.texts.append((stand_ins / len(words), f"{path}:{line}", " ".join(text.split())[:220]))
        self.bindings.update(bound_names(tree))

    @property
    def prose_percent(self) -> float:
        """The stand-ins per 100 words of prose."""
        return 100 * self.stand_ins / max(self.words, 1)

    @property
    def names_percent(self) -> float:
        """The vague names per 100 bindings."""
        return 100 * sum(count for name, count in self.bindings.items() if is_vague(name)) / max(self.bindings.total(), 1)


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring, without its doctests."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | DEFINITIONS) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, DOCTEST.sub("", text)


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each comment that is written for people."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(("# type:", "# noqa", "#!")):
            yield token.start[0], token.string


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Yield a name for each function, class, parameter, variable and attribute that the code binds."""
    for node in ast.walk(tree):
        if isinstance(node, DEFINITIONS):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg


def is_vague(name: str) -> bool:
    """Return whether every word of a name is a stand-in."""
    words = [word for word in name.strip("_").lower().split("_") if word]
    return bool(words) and not name.startswith("__") and all(word in VAGUE_NAMES for word in words)


def measure(root: Path, paths: list[Path]) -> dict[str, Prose]:
    """Return the figures of each folder of `paths`; folders are named relative to `root`."""
    folders: dict[str, Prose] = defaultdict(Prose)
    for path in paths:
        name = path.relative_to(root)
        folders[name.parent.as_posix()].add(name, path.read_text(encoding="utf-8"))
    return folders


def python_files(paths: list[Path]) -> list[Path]:
    """Return the Python files of some folders and files."""
    return [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))]


def main() -> None:
    """Print the figures of each folder, and the worst texts and names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, default=[Path("tenxor")])
    parser.add_argument("--base")
    parser.add_argument("--worst", type=int, default=15)
    options = parser.parse_args()
    root = Path.cwd()
    files = python_files([path.resolve() for path in options.paths])
    if options.base:
        diff = subprocess.run(["git", "diff", "--name-only", "--relative", options.base], capture_output=True, text=True, check=True)
        changed = {root / name for name in diff.stdout.split()}
        files = [file for file in files if file in changed]
    folders = measure(root, files)
    print(f"{'folder':40} {'words':>6} {'prose %':>8} {'names %':>8}")
    for folder, prose in sorted(folders.items(), key=lambda item: -item[1].words):
        print(f"{folder:40} {prose.words:6} {prose.prose_percent:8.1f} {prose.names_percent:8.1f}")
    print("\nworst texts:")
    texts = sorted((text for prose in folders.values() for text in prose.texts), reverse=True)
    for share, place, text in texts[: options.worst]:
        print(f"  {place} ({100 * share:.0f} %): {text}")
    bindings = sum((prose.bindings for prose in folders.values()), Counter[str]())
    vague = Counter({name: count for name, count in bindings.items() if is_vague(name)})
    print("\nvague names: " + ", ".join(f"{name} {count}" for name, count in vague.most_common(2 * options.worst)))
    words = max(sum(prose.words for prose in folders.values()), 1)
    stand_ins, whats = sum(prose.stand_ins for prose in folders.values()), sum(prose.whats for prose in folders.values())
    bad_openings = sum(len(prose.bad_openings) for prose in folders.values())
    print(f"\ntotal: {words} words, prose {100 * stand_ins / words:.1f} %, names {100 * vague.total() / max(bindings.total(), 1):.2f} %")
    print(f'"what": {1000 * whats / words:.1f} times in 1,000 words; docstrings with a bad opening: {bad_openings}')


if __name__ == "__main__":
    main()
