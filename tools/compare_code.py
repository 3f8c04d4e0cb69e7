#!/usr/bin/env python3
"""Check that a change touches only words: docstrings and comments, or also names.

    python tools/compare_code.py REVISION [--renames NAMES.json] [FILE ...]

The working tree is compared with a revision. Without `--renames`, the files must have equal syntax trees but for docstrings and comments.
Doctests, and comments that tools read, must be equal too.

With `--renames`, names may differ as well. Each name is resolved to its scope. In each scope the old and the new names must correspond one
to one, so local variables and parameters may be renamed freely. Names that other files can see (modules, attributes, keywords, names of
modules and classes, strings) are printed, and each must stand in NAMES.json: the map file -> scope -> {old: new} that `rename.py` applies.

The exit status is 1 if anything else differs. The tool cannot see a keyword that binds a parameter by a string, such as the ones in
`@given(size=...)` and `parametrize("size", ...)`; tests show these.
"""

from __future__ import annotations

import argparse
import ast
import doctest
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
MARK = re.compile(r"# (?:type:|noqa|pragma:|fmt:)[^#]*")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Rename(NamedTuple):
    """A name that other files can see, with its new name; `kind` says how other files refer to it."""

    kind: str
    old: str
    new: str


class Scope:
    """A module, class, function or comprehension, with the names that it binds."""

    def __init__(self, kind: str, parent: Scope | None, number: int, name: str) -> None:
        self.kind, self.parent, self.number, self.name = kind, parent, number, name
        self.bound: set[str] = set()
        self.declared: dict[str, str] = {}  # name -> "global" or "nonlocal"

    def resolve(self, name: str) -> Scope | None:
        """Return the scope that binds `name` as seen from here, or None for a builtin."""
        for scope in self.enclosing():
            if scope.declared.get(name) == "global":
                return [*scope.enclosing()][-1]
            if name in scope.bound and name not in scope.declared and (scope is self or scope.kind != "class"):
                return scope
        return None

    def enclosing(self) -> Iterator[Scope]:
        """Yield this scope and its parents, the module last."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


class Use(NamedTuple):
    """One occurrence of a name or a string in a file."""

    kind: str
    name: str
    scope: Scope
    line: int


class Uses:
    """The occurrences of names and strings in a file, in an order that depends only on the shape of its syntax tree."""

    def __init__(self, tree: ast.Module) -> None:
        self.scopes: list[Scope] = []
        self.uses: list[Use] = []
        self.visit_body(tree.body, self.new_scope("module", None, "module"))

    def new_scope(self, kind: str, parent: Scope | None, name: str) -> Scope:
        """Return a new scope with a number that depends only on the order of the scopes."""
        self.scopes.append(Scope(kind, parent, len(self.scopes), name))
        return self.scopes[-1]

    def add(self, kind: str, name: str | None, scope: Scope, node: ast.AST, binds: bool = False) -> None:
        """Note an occurrence of a name; `binds` says whether the name becomes one of the scope's own."""
        if name is not None:
            self.uses.append(Use(kind, name, scope, getattr(node, "lineno", 0)))
            if binds:
                scope.bound.add(name)

    def visit_body(self, body: list[ast.stmt], scope: Scope) -> None:
        """Visit statements."""
        for statement in body:
            self.visit(statement, scope)

    def visit_function(self, node: FUNCTIONS, scope: Scope) -> None:
        """Visit a function: its decorators and defaults in `scope`, its parameters and body in a scope of its own."""
        inner = self.new_scope("function", scope, getattr(node, "name", "<lambda>"))
        if not isinstance(node, ast.Lambda):
            self.add("name", node.name, scope, node, binds=True)
            for child in (*node.decorator_list, *([node.returns] if node.returns else [])):
                self.visit(child, scope)
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default, scope)
        arguments = (*node.args.posonlyargs, *node.args.args, node.args.vararg, *node.args.kwonlyargs, node.args.kwarg)
        for argument in filter(None, arguments):
            self.add("name", argument.arg, inner, argument, binds=True)
            if argument.annotation:
                self.visit(argument.annotation, scope)
        if isinstance(node, ast.Lambda):
            self.visit(node.body, inner)
        else:
            self.visit_body(node.body, inner)

    def visit_comprehension(self, node: COMPREHENSIONS, scope: Scope) -> None:
        """Visit a comprehension: the first iterable in `scope`, all else in a scope of its own."""
        inner = self.new_scope("comprehension", scope, "<comprehension>")
        for k, generator in enumerate(node.generators):
            self.visit(generator.iter, scope if k == 0 else inner)
            self.visit(generator.target, inner)
            for condition in generator.ifs:
                self.visit(condition, inner)
        for child in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            self.visit(child, inner)

    def visit(self, node: ast.AST, scope: Scope) -> None:
        """Visit a node that stands in `scope`."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self.visit_function(node, scope)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self.visit_comprehension(node, scope)
            case ast.ClassDef():
                self.add("name", node.name, scope, node, binds=True)
                for child in (*node.decorator_list, *node.bases, *node.keywords):
                    self.visit(child, scope)
                self.visit_body(node.body, self.new_scope("class", scope, node.name))
            case ast.NamedExpr():
                self.visit(node.value, scope)
                target = next(outer for outer in scope.enclosing() if outer.kind != "comprehension")
                self.add("name", node.target.id, target, node, binds=True)
            case ast.Name():
                self.add("name", node.id, scope, node, binds=not isinstance(node.ctx, ast.Load))
            case ast.Global() | ast.Nonlocal():
                for name in node.names:
                    scope.declared[name] = "global" if isinstance(node, ast.Global) else "nonlocal"
                    self.add("name", name, scope, node)
            case ast.Attribute():
                self.visit(node.value, scope)
                self.add("attribute", node.attr, scope, node)
            case ast.keyword():
                self.add("keyword", node.arg, scope, node)
                self.visit(node.value, scope)
            case ast.Import() | ast.ImportFrom():
                self.add("module", getattr(node, "module", None), scope, node)
                for alias in node.names:
                    self.add("import", alias.name, scope, node)
                    self.add("name", alias.asname or alias.name.partition(".")[0], scope, node, binds=True)
            case ast.Constant(value=str(text)):
                self.add("string", text, scope, node)
            case _:
                if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
                    self.add("name", node.name, scope, node, binds=True)
                for child in ast.iter_child_nodes(node):
                    self.visit(child, scope)


def parse(source: str) -> ast.Module:
    """Return the syntax tree of a file without its docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def shape_of(source: str) -> str:
    """Return a text of the syntax tree in which each name and string is blank."""
    tree = parse(source)
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if isinstance(value, str):
                setattr(node, field, "_")
            elif isinstance(value, list) and value and all(isinstance(item, str) for item in value):
                setattr(node, field, ["_"] * len(value))
    return ast.dump(tree).replace("asname='_'", "").replace(", )", ")")


def marks_of(source: str) -> list[str]:
    """Return the comments that tools read, and the lines of doctests with their output."""
    marks = [mark for line in source.splitlines() for mark in MARK.findall(line)]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            marks += [example.source + example.want for example in doctest.DocTestParser().get_examples(text)]
    return marks


def compare(old: str, new: str) -> tuple[list[str], set[Rename]]:
    """Return the faults of a renaming of the source `old` to `new`, and the renames that other files can see."""
    if shape_of(old) != shape_of(new):
        return ["the code differs in more than names"], set()
    before, after = Uses(parse(old)).uses, Uses(parse(new)).uses
    if len(before) != len(after):
        return ["the code differs in the number of names"], set()
    faults: list[str] = []
    visible: set[Rename] = set()
    forward: dict[tuple[int, str], str] = {}
    backward: dict[tuple[int, str], str] = {}
    for a, b in zip(before, after, strict=True):
        if a.kind != "name":
            if a.name != b.name:
                visible.add(Rename(a.kind, a.name, b.name))
            continue
        home, new_home = a.scope.resolve(a.name), b.scope.resolve(b.name)
        if home is None or new_home is None:
            if home is not new_home or a.name != b.name:
                faults.append(f"line {a.line}: a builtin and another name: {a.name}, {b.name}")
        elif home.number != new_home.number:
            faults.append(f"line {a.line}: {a.name} and {b.name} belong to different scopes")
        elif forward.setdefault((home.number, a.name), b.name) != b.name or backward.setdefault((home.number, b.name), a.name) != a.name:
            faults.append(f"line {a.line}: {a.name} -> {b.name} is not one to one in {home.name}")
        elif a.name != b.name and home.kind in ("module", "class"):
            visible.add(Rename(home.kind, a.name, b.name))
    return faults, visible


def names_of(table: dict[str, dict[str, dict[str, str]]]) -> set[tuple[str, str]]:
    """Return the pairs of an old and a new name in a map for `rename.py`, without the marks of attributes, keywords and strings."""
    return {(old.strip(".='\""), new) for scopes in table.values() for names in scopes.values() for old, new in names.items()}


def git(*arguments: str) -> str:
    """Return the output of a git command."""
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Compare the working tree with a revision."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("revision")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--renames", type=Path)
    options = parser.parse_args()
    files = options.files or git("diff", "--name-only", "--relative", "--diff-filter=M", options.revision, "--", "*.py").split()
    allowed = names_of(json.loads(options.renames.read_text())) if options.renames else set()
    faults = 0
    for file in files:
        old, new = git("show", f"{options.revision}:./{file}"), Path(file).read_text(encoding="utf-8")
        differences, visible = compare(old, new)
        if options.renames is None and not differences and ast.dump(parse(old)) != ast.dump(parse(new)):
            differences = ["the code differs in names or strings"]
        if options.renames is None and marks_of(old) != marks_of(new):
            differences.append("doctests, or comments for tools, differ")
        for rename in sorted(visible) if options.renames else ():
            words = re.findall(r"\w+", rename.old), re.findall(r"\w+", rename.new)
            changed = {pair for pair in zip(*words, strict=False) if pair[0] != pair[1]}
            if len(words[0]) != len(words[1]) or not changed <= allowed:
                differences.append(f"{rename.kind} {rename.old!r} -> {rename.new!r} is not in the map")
        for difference in differences:
            print(f"{file}: {difference}")
        faults += len(differences)
    for status in git("diff", "--name-status", "--relative", "--diff-filter=AD", options.revision, "--", "*.py").splitlines():
        print(f"not compared: {status}")
    print(f"{len(files)} files, {faults} faults")
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
