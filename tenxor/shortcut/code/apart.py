"""Emitters for copies of small operands of a pending node, made before the memory of the operands is overwritten.

A pending node may read a part about to be overwritten, as an outer product reads a row and a column. It is then given copies of these
operands. Its value stays the same, and it no longer reads the overwritten memory.
"""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I64, POINTER
from ..objects import ITEMS, SIZE, Objects
from ..rule import MOST_AXES
from ..updates import CHEAP, THIN
from .compute import lock_is_free
from .function import Function
from .specs import in_rows, keeps_order, no_numbers, read_through, spec_with


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
    _copied(Function(module, objects, "copied_apart", [("spec", POINTER), ("dtype", POINTER), ("size", I64)]))
    _plainly(Function(module, objects, "apart_plainly", [("recipe", POINTER), ("which", I64)]))
    _made_apart(Function(module, objects, "made_apart", [("node", POINTER), ("which", I64)], I1))


def _plainly(f: Function) -> None:
    """Emit `apart_plainly(recipe, which)`: return a pair: the recipe of a node with copied sources, and a tuple of the recipes of the
    copies, None for a source read directly.

    Bit k of `which` is set if source k is to be copied. `updates.have_apart` records the same in Python. The function returns null for an
    operation outside `CHEAP`, for sources not much smaller than the node, and for view chains and offset tables.
    """
    recipe, which = f.arguments
    op, sizes = f.get(recipe, "Recipe.op"), f.get(recipe, "Recipe.shape")
    cheap = f.constant(I1, False)
    for name in CHEAP:
        cheap = cheap | f.is_the(op, f"op {name}")
    f.require(cheap)
    f.refuse(f.is_null(f.get(recipe, "Recipe.through")))
    dtypes = f.get(recipe, "Recipe.dtypes")
    count = f.word(dtypes, SIZE)
    f.require(f.is_the(read_through(f, recipe, count), "None"))
    copies, through = f.made(f.call("PyTuple_New", POINTER, [count])), f.made(f.call("PyTuple_New", POINTER, [count + 1]))

    def one(k: Value) -> None:
        spec = read_through(f, recipe, k)
        stays = f.either(f.is_the(spec, "None"), lambda: (which.shifted_right(k) & 1).equals(0))

        def copied() -> list[Value]:
            pair = f.made(f.call("copied_apart", POINTER, [spec, f.item(dtypes, k), f.integer(f.get(recipe, "Recipe.size"))]))
            its = [f.own(f.item(pair, j)) for j in range(2)]
            f.let_go(pair)
            return its

        found = f.choose(stays, lambda: [f.own(f.the("None")), f.own(spec)], copied)
        for items, item in zip((copies, through), found, strict=True):
            f.at(items, ITEMS).at(k, POINTER).store(item)

    f.each(count, one)
    f.at(through, ITEMS).at(count, POINTER).store(f.own(f.the("None")))
    plain = f.made(f.call("row_major_spec", POINTER, [f.get(recipe, "Recipe.dtype"), sizes]))
    keeps = f.holding(keeps_order(f, through, plain))
    own = f.made(f.call("recipe_through", POINTER, [op, sizes, f.get(recipe, "Recipe.dtype"), dtypes, through, keeps]))
    f.let_go(plain, keeps, through)
    found = f.tuple_of(own, copies)
    f.keeps(found)
    f.give(found)


def _copied(f: Function) -> None:
    """Emit `copied_apart(spec, dtype, size)`: return a pair: the recipe of a contiguous copy of a view without its broadcast repeats, and
    the spec that reads the copy in place of the view. Return null unless the copy has at most 1 / `THIN` of `size` elements.
    """
    spec, dtype, size = f.arguments
    shape, strides = f.get(spec, "Spec.shape"), f.get(spec, "Spec.strides")
    f.refuse(f.is_the(strides, "None"))
    ndim, read, instead = f.word(shape, SIZE), no_numbers(f), no_numbers(f)

    def axis(k: Value, before: Value) -> Value:
        n, step = f.integer(f.item(shape, k)), f.integer(f.item(strides, k))
        own = f.selected(step.equals(0) & (n > 1), f.number(1), n)
        read.at(k, I64).store(own)
        read.at(k + MOST_AXES, I64).store(step)
        instead.at(k, I64).store(own)
        return before * own

    f.require(ndim <= MOST_AXES)
    f.require(f.fold(ndim, f.number(1), axis) * THIN <= size)
    in_rows(f, ndim, instead)
    plain = spec_with(f, dtype, ndim, instead)

    def repeated(k: Value) -> None:
        n = f.integer(f.item(shape, k))
        is_repeated = instead.at(k, I64).load(I64).differs(n)
        f.when(is_repeated, lambda: instead.at(k + MOST_AXES, I64).store(f.number(0)))
        instead.at(k, I64).store(n)

    f.each(ndim, repeated)
    again = spec_with(f, dtype, ndim, instead)
    through, dtypes = f.tuple_of(spec_with(f, dtype, ndim, read), f.hold(f.the("None"))), f.tuple_of(f.hold(dtype))
    keeps = f.holding(keeps_order(f, through, plain))
    parts = [f.the("op positive"), f.get(plain, "Spec.shape"), dtype, dtypes, through, keeps]
    copy = f.made(f.call("recipe_through", POINTER, parts))
    f.let_go(plain, through, dtypes, keeps)
    pair = f.tuple_of(copy, again)
    f.keeps(pair)
    f.give(pair)


def _found(f: Function, node: Value, recipe: Value, which: Value, number: Value) -> Value:
    """Emit the lookup of the pair (recipe with copied sources, recipes of the copies) for the pending `node`; a new reference, not held.

    Bit k of `which` is set if source k is to be copied; `number` is `which` as a Python integer. The pair is in a cache of `recipe`, or is
    made now, here or by Python. The object `never` stands for a node that must not get copies.
    """

    def look() -> Value:
        every = f.get(recipe, "Recipe.apart")
        return f.choose(f.is_the(every, "None"), lambda: [f.nothing()], lambda: [f.found_in(every, number)])[0]

    plainly = lambda: f.call("apart_plainly", POINTER, [recipe, which])  # noqa: E731
    return f.known_or_made(look, plainly, lambda: f.ask_python("have_apart", node, number))


def _made_apart(f: Function) -> None:
    """Emit `made_apart(node, which)`: have a pending node read copies of the sources with a bit in `which`; false if this may not pay.

    The node must be referenced only by its tensor, by the result made of it, and by the caller. Its value does not change.
    """
    node, which = f.arguments
    recipe = f.hold(f.get(node, "Node.recipe"))
    number = f.as_object(which)
    found = f.holding(_found(f, node, recipe, which, number))
    f.refuse(f.is_the(found, "never"))

    def as_it_is() -> Value:
        f.let_go(recipe, number, found)
        return f.constant(I1, True)

    held = list(f._held)
    f.when_giving(which.equals(0), as_it_is)
    f._held[:] = held
    copies = f.item(found, 1)
    sources, offsets = f.hold(f.get(node, "Node.sources")), f.hold(f.get(node, "Node.offsets"))
    count = f.word(sources, SIZE)
    fresh, starts = (f.made(f.call("PyTuple_New", POINTER, [count])) for _ in range(2))

    def one(k: Value) -> None:
        copy, source, offset = f.item(copies, k), f.item(sources, k), f.item(offsets, k)

        def copied() -> list[Value]:
            parts = f.tuple_of(f.own(source)), f.tuple_of(f.own(offset))
            f.keeps(*parts)
            made = f.made(f.call("pending", POINTER, [f.own(copy), *parts, f.constant(I1, False)]))
            f.require(f.call("computed", I1, [made]))
            f.keeps(made)
            return [made, f.own(f.the("0"))]

        thing, start = f.choose(f.is_the(copy, "None"), lambda: [f.own(source), f.own(offset)], copied)
        for items, item in ((fresh, thing), (starts, start)):
            f.at(items, ITEMS).at(k, POINTER).store(item)

    f.each(count, one)
    # Python may have run, so test again that the node is as before, with three references: the tensor, the result made of it, the caller.
    f.require(f.is_the(f.get(node, "Node.buffer"), "None"))
    f.require(f.get(node, "Node.recipe").equals(recipe))
    f.require(f.get(node, "Node.sources").equals(sources))
    f.require(f.owners(node).equals(3))
    f.require(lock_is_free(f))
    before = [f.get(node, f"Node.{slot}") for slot in ("recipe", "sources", "offsets", "_layouts")]
    for slot, value in (("recipe", f.own(f.item(found, 0))), ("sources", fresh), ("offsets", starts), ("_layouts", f.own(f.the("None")))):
        f.set(node, f"Node.{slot}", value)
    f.keeps(fresh, starts)
    for x in before:
        f.drop(x)
    f.let_go(recipe, number, found, sources, offsets)
    f.give(f.constant(I1, True))
