#!/usr/bin/env python3
"""Rename in source files, token by token.

    python tools/rename.py NAMES.json

NAMES.json maps file -> scope -> {old: new}. A scope is a qualified name ("GuardedCache.insert", "realize"), or "" for the whole file; the
innermost scope that has an entry decides. An entry is one of

* "x": a variable, function, class or parameter,
* ".x": an attribute,
* "x=": a keyword of a call,
* "'x'": a whole string.

Docstrings and comments follow: words in backticks, and words in capitals; look at those that name something else. Entries that do not
occur are printed. Afterwards `tools/compare_code.py REVISION --renames NAMES.json` checks the result.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
CODE = re.compile(r"(`[^`\n]*`)")
IDENTIFIER = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?!\w)")
CAPITALS = re.compile(r"\b_?[A-Z][A-Z_]{2,}\b")
F_STRING = re.compile(r"(?i)(f|rf|fr)['\"]")
FIELD = re.compile(r"\{\{|\}\}|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
NAME = re.compile(r"(?<=[\w\])])\.[A-Za-z_]\w*|(?<![\w.!'\"])[A-Za-z_]\w*(?!\w*['\"])")
LAYOUT_TOKENS = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT)

Scopes = dict[str, dict[str, str]]


class Renamer:
    """The renames of one file."""

    def __init__(self, source: str, names: Scopes) -> None:
        tree = ast.parse(source)
        self.source, self.names = source, names
        self.lines = {"": [(1, source.count("\n") + 1)]}  # scope -> first and last line of each definition of this name
        self.used: set[tuple[str, str]] = set()
        self.keywords = {(node.lineno, node.col_offset) for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg}
        self.add_scopes(tree, "")

    def add_scopes(self, node: ast.AST, prefix: str) -> None:
        """Note the lines of each definition inside `node`."""
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, DEFINITIONS):
                first = min((decorator.lineno for decorator in child.decorator_list), default=child.lineno)
                self.lines.setdefault(prefix + child.name, []).append((first, child.end_lineno or first))
                inner = f"{prefix}{child.name}."
            self.add_scopes(child, inner)

    def look_up(self, key: str, line: int) -> str | None:
        """Return the new name for `key` in the innermost scope around `line`, or None if the name stays."""
        best = None
        for scope, names in self.names.items():
            for first, last in self.lines.get(scope, ()):
                if key in names and first <= line <= last and (best is None or last - first < best[0]):
                    best = last - first, scope
        if best is None:
            return None
        self.used.add((best[1], key))
        return self.names[best[1]][key]

    def prose(self, text: str, line: int) -> str:
        """Return a docstring or comment with the new names: of words in backticks, and of words in capitals."""

        def replace(match: re.Match[str]) -> str:
            return self.look_up(match[0], line) or match[0]

        return "".join((IDENTIFIER if k % 2 else CAPITALS).sub(replace, part) for k, part in enumerate(CODE.split(text)))

    def fields(self, text: str, line: int) -> str:
        """Return an f-string with the new names in its replacement fields, which are one token with the text before Python 3.12."""

        def name(match: re.Match[str]) -> str:
            return self.look_up(match[0], line) or match[0]

        def field(match: re.Match[str]) -> str:
            return match[0] if match[0] in ("{{", "}}") else NAME.sub(name, match[0])

        return FIELD.sub(field, text)

    def changes(self) -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
        """Yield the start, the end and the new text of each token that changes."""
        previous = ""
        for token in tokenize.generate_tokens(io.StringIO(self.source).readline):
            line, text = token.start[0], token.string
            new: str | None = None
            if token.type == tokenize.NAME:
                key = f".{text}" if previous == "." else f"{text}=" if token.start in self.keywords else text
                new = self.look_up(key, line)
            elif token.type == tokenize.COMMENT or text.startswith('"""'):
                new = self.prose(text, line)
            elif token.type == tokenize.STRING and F_STRING.match(text):
                new = self.fields(text, line)
            elif token.type == tokenize.STRING:
                string = self.look_up(f"'{text[1:-1]}'", line)
                new = None if string is None else text[0] + string + text[0]
            if new is not None and new != text:
                yield token.start, token.end, new
            if token.type not in LAYOUT_TOKENS:
                previous = text

    def renamed(self) -> str:
        """Return the source with the new names."""
        lines = self.source.splitlines(keepends=True)
        for (first, start), (last, end), new in reversed([*self.changes()]):
            lines[first - 1 : last] = [lines[first - 1][:start] + new + lines[last - 1][end:]]
        return "".join(lines)

    def missing(self) -> Iterator[str]:
        """Yield each entry that did not occur."""
        for scope, names in self.names.items():
            for key in names:
                if (scope, key) not in self.used:
                    yield f"{scope or 'the file'}: {key}"


def main() -> None:
    """Rename in the files that a map names."""
    for file, names in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")).items():
        path = Path(file)
        renamer = Renamer(path.read_text(encoding="utf-8"), names)
        path.write_text(renamer.renamed(), encoding="utf-8")
        for entry in renamer.missing():
            print(f"{file}: does not occur in {entry}")


if __name__ == "__main__":
    main()
