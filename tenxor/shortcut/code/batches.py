"""Emitter for the key by which `derivatives/batching.py` replays a batch: how nodes depend on placeholders for one batch element.

The code is a walk as in `walk.py`, on the same tables, so no Python code runs until the result is put together.
"""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I64, POINTER, VOID
from ..objects import SIZE, Objects
from .follow import has_no_value
from .function import Function
from .walk import DEPTH, MANY_NODES, WORD, append, is_met, meet, number_of, recipe_number, words

# Nodes have numbers from 0 on if they are placeholders or depend on one, and below 0 if they are further inputs. This number marks a
# visited node that depends on no placeholder, and so is the same for all batch elements.
SEEN = -1 << 40


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
    _is_traced(Function(module, objects, "is_traced", [("x", POINTER)], I1))
    parameters = [("node", POINTER), ("members", POINTER), ("given", POINTER), ("depth", I64)]
    _visited(Function(module, objects, "visited_of_batch", parameters, I1))
    _outlined(Function(module, objects, "outline_of_batch", [("args", POINTER)]))
    f = Function(module, objects, "batch_outlined", [("self", POINTER), ("args", POINTER), ("count", I64)], exported=True)
    f.give_or_none(f.call("outline_of_batch", POINTER, [f.arguments[1]]))


def _is_traced(f: Function) -> None:
    """Emit `is_traced(x)`: return whether an object is a node that depends on a placeholder, but no placeholder."""
    (x,) = f.arguments
    f.require(f.is_a(x, "Node"))
    past = f.get(x, "Node.past")
    f.refuse(f.is_the(f.get(f.get(x, "Node.recipe"), "Recipe.op"), "PLACEHOLDER"))
    f.give(has_no_value(f, past))


def _visit(f: Function, node: Value, members: Value, given: Value, depth: Value) -> None:
    """Emit a visit of a node, if it depends on a placeholder and was not visited yet. `members`, `given` and `depth` are passed on.

    The emitted function returns null or 0 if the visit fails.
    """
    new = f.both(f.call("is_traced", I1, [node]), lambda: ~is_met(f, node))
    f.when(new, lambda: f.require(f.call("visited_of_batch", I1, [node, members, given, depth])))


def _depends(f: Function, x: Value) -> Value:
    """Emit a test whether a visited node is a placeholder or depends on one."""
    return f.both(is_met(f, x), lambda: number_of(f, x) >= 0)


def _visited(f: Function) -> None:
    """Emit `visited_of_batch(node, members, given, depth)`: append a node to the key of the batch, after the nodes that it reads.

    The function returns false if the recipe of a node does not determine its value, or if `depth`, the depth of the recursion, is too
    large. `members` is the address of the number that the next node gets, and `given` the list of further inputs.
    """
    node, members, given, depth = f.arguments
    f.require(depth < DEPTH)
    past, recipe, sources, offsets = (f.get(node, f"Node.{slot}") for slot in ("past", "recipe", "sources", "offsets"))
    f.refuse(f.is_the(past, "CONSTANT"))
    f.refuse(f.is_a(f.get(recipe, "Recipe.op"), "Hosted"))
    # The result of a function with its own derivative has a tape node with sources and of another recipe.
    is_leaf = lambda: f.word(f.get(past, "Past.sources"), SIZE).equals(0)  # noqa: E731
    follows = lambda: f.either(f.get(past, "Past.recipe").equals(recipe), is_leaf)  # noqa: E731
    f.require(f.either(~f.is_a(past, "Past"), follows))
    f.each(f.word(sources, SIZE), lambda k: _visit(f, f.item(sources, k), members, given, depth + 1))
    depends = f.fold(
        f.word(sources, SIZE), f.number(0), lambda k, found: found | _depends(f, f.item(sources, k)).cast("zext", I64)
    )

    def the_same_for_all() -> Value:
        meet(f, node, f.number(SEEN))
        return f.constant(I1, True)

    f.when_giving(depends.equals(0), the_same_for_all)
    append(f, "key", WORD, recipe_number(f, recipe))
    f.each(f.word(offsets, SIZE), lambda k: append(f, "key", WORD, f.integer(f.item(offsets, k))))
    f.each(f.word(sources, SIZE), lambda k: _put_source(f, f.item(sources, k), given))
    number = members.load(I64)
    meet(f, node, number)
    members.store(number + 1)
    f.give(f.constant(I1, True))


def _put_source(f: Function, source: Value, given: Value) -> None:
    """Emit the append of a source to the key. A source that depends on no placeholder is appended to the list `given` when first read."""
    was_met = is_met(f, source)

    def give() -> None:
        number = f.number(-1) - f.length(given)
        f.append(given, source)

        def done() -> list[Value]:
            recipe = f.get(source, "Node.recipe")
            return [recipe_number(f, f.either_of(f.get(recipe, "Recipe.done"), recipe))]

        append(f, "key", WORD, f.choose(f.is_a(source, "Node"), done, lambda: [f.number(0)])[0])
        f.when(was_met, lambda: f.call("slot_of", POINTER, [source]).at(2, I64).store(number))
        f.when(~was_met, lambda: meet(f, source, number))

    f.when(f.either(~was_met, lambda: number_of(f, source).equals(SEEN)), give)
    append(f, "key", WORD, number_of(f, source))


def _outlined(f: Function) -> None:
    """Emit `outline_of_batch(args)` for an array of three lists, `roots`, `placeholders` and `inputs`: return the key of a batch as bytes.

    The key tells how the roots depend on the placeholders. The nodes and scalars read besides are appended to `inputs`.
    """
    (args,) = f.arguments
    roots, stand_ins, given = (args.at(k, POINTER).load(POINTER) for k in range(3))
    f.call("begin_walk", VOID, [f.number(MANY_NODES)])
    members = f.local(I64, f.length(stand_ins))

    def stand_in(k: Value) -> None:
        append(f, "key", WORD, recipe_number(f, f.get(f.listed(stand_ins, k), "Node.recipe")))
        meet(f, f.listed(stand_ins, k), k)

    def root(k: Value) -> None:
        for number in (k, number_of(f, f.listed(roots, k))):
            append(f, "key", WORD, number)

    f.each(f.length(stand_ins), stand_in)
    f.each(f.length(roots), lambda k: _visit(f, f.listed(roots, k), members, given, f.number(0)))
    f.each(f.length(roots), lambda k: f.when(_depends(f, f.listed(roots, k)), lambda: root(k)))
    f.give(words(f))
