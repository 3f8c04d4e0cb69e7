"""Emitters of queries on many nodes at once, called from Python, where each single query would take as long as a small kernel."""

from __future__ import annotations

from collections.abc import Callable

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I64, POINTER
from ..objects import Objects
from .function import Function


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
    given = [("self", POINTER), ("args", POINTER), ("count", I64)]
    for name, look in (("count_waiting", _count_waiting), ("still_waiting", _still_waiting), ("held_by_others", _held_by_others)):
        look(Function(module, objects, name, given, exported=True))


def _waits(f: Function, node: Value) -> Value:
    """Emit a test whether a node is pending."""
    return f.is_the(f.get(node, "Node.buffer"), "None")


def _count_waiting(f: Function) -> None:
    """Emit `count_waiting(nodes)`, called from Python: return how many nodes of a list are pending and not `UNFINISHED`."""
    nodes = f.arguments[1].load(POINTER)

    def one(k: Value, before: Value) -> Value:
        node = f.listed(nodes, k)
        is_whole = lambda: ~f.is_the(f.get(f.get(node, "Node.recipe"), "Recipe.op"), "UNFINISHED")  # noqa: E731
        return before + f.both(_waits(f, node), is_whole).cast("zext", I64)

    f.give(f.call("PyLong_FromLongLong", POINTER, [f.fold(f.length(nodes), f.number(0), one)]))


def _still_waiting(f: Function) -> None:
    """Emit `still_waiting(references)`, called from Python: return a list of those weak references whose nodes are alive and pending."""
    references = f.arguments[1].load(POINTER)

    def one(k: Value, keep: Callable[[Value], None]) -> None:
        reference = f.listed(references, k)
        node = f.call("PyWeakref_GetObject", POINTER, [reference])
        f.when(f.both(f.is_a(node, "Node"), lambda: _waits(f, node)), lambda: keep(reference))

    _give_some(f, f.length(references), one)


def _held_by_others(f: Function) -> None:
    """Emit `held_by_others(nodes, numbers, reads)`, called from Python: return those `numbers` of nodes that are referenced from elsewhere.

    Node `nodes[numbers[k]]` has `reads[k]` references from recipes and one from the list; more references come from elsewhere.
    """
    nodes, numbers, reads = (f.arguments[1].at(k, POINTER).load(POINTER) for k in range(3))

    def one(k: Value, keep: Callable[[Value], None]) -> None:
        number = f.listed(numbers, k)
        owners = f.owners(f.listed(nodes, f.integer(number))).cast("zext", I64)
        f.when(owners.differs(f.integer(f.listed(reads, k)) + 1), lambda: keep(number))

    _give_some(f, f.length(numbers), one)


def _give_some(f: Function, count: Value, look: Callable[[Value, Callable[[Value], None]], None]) -> None:
    """Emit the return of a new list of the objects that `look(k, keep)` passes to `keep`, for k below `count`."""
    found = f.made(f.call("PyList_New", POINTER, [f.number(0)]))
    f.each(count, lambda k: look(k, lambda item: f.append(found, item)))
    f.keeps(found)
    f.give(found)
