"""Emitters for the replay of recorded calls: a method called with equal specs and arguments gives a view or pending nodes by its template.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I32, I64, POINTER, array
from ..limits import MOST_DEPTH
from ..objects import BYTES, ITEMS, SIZE, VALUE, Objects
from ..programs import BINCOUNT
from .follow import MOST_SOURCES, tracks
from .function import Function
from .looping import given_back
from .read import address_of
from .record import asked, operand, pinned_reads
from .specs import nbytes_of
from .tables import found_at, found_every, table

MOST_ARGUMENTS = 24  # arguments of a call with keywords, plus the keywords


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
    _for_python(Function(module, objects, "call_again", [("self", POINTER), ("args", POINTER), ("count", I64)], exported=True))
    _is_of_integers(Function(module, objects, "is_of_integers", [("x", POINTER), ("depth", I64)], I1))
    _key(Function(module, objects, "key_of", [("x", POINTER)]))
    asked_for = [("x", POINTER), ("args", POINTER), ("count", I64), ("names", POINTER), ("name", POINTER)]
    _made_for(Function(module, objects, "made_for", asked_for))
    _called(Function(module, objects, "called", asked_for))
    by_name = [("x", POINTER), ("args", POINTER), ("count", I64), ("size", I64), ("name", POINTER)]
    _by_name(Function(module, objects, "called_by_name", by_name))
    _view_as(Function(module, objects, "view_as", [("x", POINTER), ("made", POINTER)]))
    arguments = [("x", POINTER), ("args", POINTER), ("given", I64), ("tensors", I64), ("made", POINTER)]
    _copied(Function(module, objects, "copied", [("x", POINTER)]))
    _in_steps(Function(module, objects, "in_steps", [("made", POINTER), ("operands", POINTER)]))
    _made_of(Function(module, objects, "made_of", arguments))
    _hosted(Function(module, objects, "hosted", arguments))
    _of_array(Function(module, objects, "of_array", [("array", POINTER), ("made", POINTER)]))
    _step(Function(module, objects, "step", [(name, POINTER) for name in ("recipe", "reads", "operands", "before")]))


def _for_python(f: Function) -> None:
    """Emit `call_again(name, args, named)`, called from Python: replay a recorded call of a function, or return None."""
    name, args, named = (f.arguments[1].at(k, POINTER).load(POINTER) for k in range(3))

    def call(rest: Value, count: Value, size: Value) -> Value:
        given = [f.item(args, 0), rest, count]
        plain = lambda: [f.call("called", POINTER, [*given, f.nothing(), name])]  # noqa: E731
        return f.choose(size.equals(0), plain, lambda: [f.call("called_by_name", POINTER, [*given, size, name])])[0]

    f.give_or_none(with_arguments(f, args, named, call))


def _by_name(f: Function) -> None:
    """Emit `called_by_name(x, args, count, size, name)`: replay a method call. `args` has `count` positional arguments, `size` keyword
    values and `size` keywords.
    """
    x, args, count, size, name = f.arguments
    give_by_name(f, args, count, size, lambda names: f.call("called", POINTER, [x, args, count, names, name]))


def give_by_name(f: Function, args: Value, count: Value, size: Value, call: Callable[[Value], Value]) -> None:
    """Emit the return of `call(names)` for `count` positional arguments at `args`, then `size` keyword values, then `size` keywords."""
    names = f.filled(size, lambda k: f.own(args.at(count + size + k, POINTER).load(POINTER)))
    found = f.made(call(names))
    f.let_go(names)
    f.keeps(found)
    f.give(found)


def with_arguments(
    f: Function, args: Value, named: Value, call: Callable[[Value, Value, Value], Value], besides: int = 1
) -> Value:
    """Emit `call(arguments, count, size)` for the tuple `args` from item `besides` on and the dictionary `named`. Return its result.

    `arguments` is the address of `count` positional arguments, `size` keyword values and `size` keywords. The result is null for more than
    `MOST_ARGUMENTS` of these in a call with keywords. The caller owns the tuple and the dictionary.
    """
    rest, count = f.at(args, ITEMS + 8 * besides), f.word(args, SIZE) - besides
    size = f.call("PyDict_Size", I64, [named])

    def with_names() -> list[Value]:
        return f.choose(count + size * 2 > MOST_ARGUMENTS, lambda: [f.nothing()], lambda: [spread()])

    def spread() -> Value:
        place = f.local(array(POINTER, MOST_ARGUMENTS))
        position, key, value = f.local(I64, f.number(0)), f.local(POINTER), f.local(POINTER)
        f.each(count, lambda k: place.at(k, POINTER).store(rest.at(k, POINTER).load(POINTER)))

        def one(k: Value) -> None:
            f.call("PyDict_Next", I32, [named, position, key, value])
            place.at(count + k, POINTER).store(value.load(POINTER))
            place.at(count + size + k, POINTER).store(key.load(POINTER))

        f.each(size, one)
        return call(place, count, size)

    return f.choose(size.equals(0), lambda: [call(rest, count, size)], with_names)[0]


def _key(f: Function) -> None:
    """Emit `key_of(x)`: return the key of an argument, as `learn.key_of` does, a new reference; null for types without one."""
    (x,) = f.arguments
    kind = f.type_of(x)
    f.when_giving(f.is_a(x, "Tensor"), lambda: f.own(asked(f, x, "spec")))
    f.when_giving(f.is_the(kind, "int"), lambda: f.own(x))
    f.when_giving(f.is_the(kind, "bool type"), lambda: f.own(f.selected(f.is_the(x, "True"), f.the("TRUE"), f.the("FALSE"))))
    bits = lambda: f.call("PyBytes_FromStringAndSize", POINTER, [f.at(x, VALUE), f.number(8)])  # noqa: E731
    f.when_giving(f.is_the(kind, "float"), bits)
    for name in ("NoneType", "DType", "str", "type"):
        f.when_giving(f.is_the(kind, name), lambda: f.own(x))
    f.when_giving(f.is_the(kind, "Default"), lambda: f.own(kind))
    f.require(f.is_the(kind, "tuple"))
    f.require(f.call("is_of_integers", I1, [x, f.number(0)]))
    f.give(f.own(x))


def _is_of_integers(f: Function) -> None:
    """Emit `is_of_integers(x, depth)`: return whether a tuple has only integers and such tuples, nested less than `MOST_DEPTH` deep."""
    x, depth = f.arguments
    f.require(depth < MOST_DEPTH)

    def look(k: Value) -> None:
        item = f.item(x, k)
        is_tuple = f.is_a(item, "tuple")
        f.require(f.either(f.is_a(item, "int"), lambda: is_tuple))
        f.when(is_tuple, lambda: f.require(f.call("is_of_integers", I1, [item, depth + 1])))

    f.each(f.word(x, SIZE), look)
    f.give(f.constant(I1, True))


def given_in_all(f: Function, count: Value, names: Value) -> Value:
    """Emit the number of arguments: `count` positional ones, and one for each keyword in the tuple `names`, or null."""
    return count + f.choose(f.is_null(names), lambda: [f.number(0)], lambda: [f.word(names, SIZE)])[0]


def _made_for(f: Function) -> None:
    """Emit `made_for(x, args, count, names, name)`: return the template (`Made`) of a method call, a new reference. Look for equal
    arguments, then for any value of the one number among them, then for a size-generic rule; return null without a template.
    """
    x, args, count, names, name = f.arguments
    f.require(f.is_a(x, "Tensor"))
    no_names, given = f.is_null(names), given_in_all(f, count, names)
    which = _followed_among(f, x, args, given)
    (which,) = f.choose(f.either(which.equals(0), lambda: ~tracks(f)), lambda: [f.number(0)], lambda: [which])
    size = given + f.selected(no_names, f.number(0), f.number(1))
    key = f.made(f.call("PyTuple_New", POINTER, [size + f.selected(which.equals(0), f.number(0), f.number(2))]))

    def one(k: Value) -> None:
        found = f.call("key_of", POINTER, [args.at(k, POINTER).load(POINTER)])
        f.refuse(f.is_null(found))
        f.at(key, ITEMS).at(k, POINTER).store(found)

    f.each(given, one)
    f.when(~no_names, lambda: f.at(key, ITEMS).at(given, POINTER).store(f.own(names)))

    def tell_which() -> None:
        f.at(key, ITEMS).at(size, POINTER).store(f.own(f.the("FOLLOWED")))
        number = f.as_object(which)
        f.at(key, ITEMS).at(size + 1, POINTER).store(number)
        f.keeps(number)

    f.when(which.differs(0), tell_which)
    where = table(f, asked(f, x, "spec"), "called")
    known = found_at(f, where, name, key)

    def of_any_number() -> list[Value]:
        every = found_every(f, where, name)
        return f.choose(f.is_null(every), lambda: [f.nothing()], lambda: [_made_for_any_number(f, every, key, args, given)])

    (made,) = f.choose(f.is_null(known), of_any_number, lambda: [known], (1, 1000))
    by_rule = lambda: [_made_by_rule(f, (*where, name, key), x, args, given, names, which)]  # noqa: E731
    (made,) = f.choose(f.is_null(made), by_rule, lambda: [made], (1, 1000))
    f.refuse(f.is_null(made))
    f.refuse(f.is_the(made, "None"))
    f.own(made)
    f.let_go(key)
    f.give(made)


def _made_by_rule(f: Function, place: Sequence[Value], x: Value, args: Value, given: Value, names: Value, which: Value) -> Value:
    """Emit a call of `made_by_rule`: make the template of a call by a size-generic rule and record it at `place`; null if no rule holds.
    The call has `x` and `given` arguments at `args`, the last by the keywords `names`; those with a bit in `which` are on the tape.
    """
    every = f.local(array(POINTER, MOST_ARGUMENTS + 1))
    f.require(given <= MOST_ARGUMENTS)
    every.store(x)
    f.each(given, lambda k: every.at(k + 1, POINTER).store(args.at(k, POINTER).load(POINTER)))
    return f.call("made_by_rule", POINTER, [*place, every, given + 1, names, which])


def _made_for_any_number(f: Function, every: Value, key: Value, args: Value, given: Value) -> Value:
    """Emit the lookup of a template recorded for any value of the only number among the `given` arguments at `args`; null on a miss. In the
    dictionary `every`, the key of such a template is `key`, the key of the call, with the type of the number in its place.
    """
    count, which = f.local(I64, f.number(0)), f.local(I64)

    def look(k: Value) -> None:
        argument = args.at(k, POINTER).load(POINTER)

        def is_one() -> None:
            count.store(count.load(I64) + 1)
            which.store(k)

        f.when(f.either(f.is_a(argument, "float"), lambda: f.is_a(argument, "int")), is_one)

    f.each(given, look)

    def found() -> list[Value]:
        at, size = which.load(I64), f.word(key, SIZE)
        other = f.filled(size, lambda k: f.own(f.item(key, k)))
        place = f.at(other, ITEMS).at(at, POINTER)
        f.drop(place.load(POINTER))
        place.store(f.own(f.type_of(args.at(at, POINTER).load(POINTER))))
        made = f.found_in(every, other)
        f.let_go(other)
        return [made]

    return f.choose(count.load(I64).equals(1), found, lambda: [f.nothing()])[0]


def _followed_among(f: Function, x: Value, args: Value, given: Value) -> Value:
    """Emit a bit mask of the tensors with a tape node (`Past`): bit 0 for `x`, bit k + 1 for argument k of the `given` ones at `args`."""
    f.require(given < MOST_SOURCES)
    found = f.local(I64, f.number(0))

    def look(argument: Value, bit: Value) -> None:
        node = f.get(f.get(argument, "Tensor.storage"), "Storage.node")
        has_past = f.both(~f.is_null(node), lambda: ~f.is_the(f.get(node, "Node.past"), "None"))
        f.when(has_past, lambda: found.store(found.load(I64) | bit))

    def look_if(k: Value) -> None:
        argument = args.at(k, POINTER).load(POINTER)
        f.when(f.is_a(argument, "Tensor"), lambda: look(argument, f.number(2) << k))

    look(x, f.number(1))
    f.each(given, look_if)
    return found.load(I64)


def _called(f: Function) -> None:
    """Emit `called(x, args, count, names, name)`: return the result of a method call, replayed by its template; null without one."""
    x, args, count, names, _ = f.arguments
    made = f.made(f.call("made_for", POINTER, f.arguments))
    given, tensors = given_in_all(f, count, names), f.local(I64, f.number(1))

    def count_one(k: Value) -> None:
        tensors.store(tensors.load(I64) + f.is_a(args.at(k, POINTER).load(POINTER), "Tensor").cast("zext", I64))

    f.each(given, count_one)
    given_to = [x, args, given, tensors.load(I64)]
    by_numpy = ~f.is_the(f.get(made, "Made.host"), "None")
    several = f.word(f.get(made, "Made.parts"), SIZE) > 0

    def anew() -> list[Value]:
        return f.choose(several, lambda: [_several(f, given_to, made)], lambda: [f.call("made_of", POINTER, [*given_to, made])])

    program = f.get(made, "Made.loop")
    in_place = f.word(program, SIZE) > 0

    def asked_of_numpy() -> list[Value]:
        one, other, found = (partial(f.call, name, POINTER, [*given_to, made]) for name in ("made_in_place", "hosted", "made_found"))
        with_sizes = lambda: f.choose(f.word(program, BYTES) < BINCOUNT, lambda: [one()], lambda: [found()])  # noqa: E731
        return f.choose(in_place, with_sizes, lambda: [other()])

    (found,) = f.choose(by_numpy | in_place, asked_of_numpy, anew)
    f.keeps(made)
    f.drop(made)
    f.give(found)


def _each_tensor(f: Function, read: Callable[[Value], object]) -> None:
    """Emit `read` for the first argument of the function being emitted, and for each tensor among the further arguments."""
    x, args, given, *_ = f.arguments

    def read_if(k: Value) -> None:
        argument = args.at(k, POINTER).load(POINTER)
        f.when(f.is_a(argument, "Tensor"), lambda: read(argument))

    read(x)
    f.each(given, read_if)


def _made_of(f: Function) -> None:
    """Emit `made_of(x, args, given, tensors, made)`: return the view of `x`, or the pending result, that the template `made` describes.
    `args` is the address of the `given` further arguments; `tensors` counts the tensors, with `x`."""
    x, _, _, tensors, made = f.arguments
    recipes = f.get(made, "Made.recipes")
    f.when_giving(f.word(recipes, SIZE).equals(0), lambda: f.call("view_as", POINTER, [x, made]))
    f.when_giving(tensors.equals(1), lambda: _made_of_one(f, x, made))
    operands = f.made(f.call("PyTuple_New", POINTER, [tensors * 2]))
    filled = f.local(I64, f.number(0))

    def read(tensor: Value) -> None:
        own = operand(f, tensor)
        f.require(own.is_node)
        place = f.at(operands, ITEMS).at(filled.load(I64), POINTER)
        place.store(f.own(own.thing))
        place.at(1, POINTER).store(f.own(own.offset))
        filled.store(filled.load(I64) + 2)

    _each_tensor(f, read)
    found = f.made(f.call("in_steps", POINTER, [made, f.at(operands, ITEMS)]))
    f.let_go(operands)
    f.keeps(found)
    f.give(found)


def _made_of_one(f: Function, x: Value, made: Value) -> Value:
    """Emit the replay of the steps of a template for a call with a single tensor. Return the new tensor."""
    _, node, is_node, offset = operand(f, x)
    f.require(is_node)
    f.hold(node), f.hold(offset)
    operands = f.local(array(POINTER, 2))
    operands.store(node)
    operands.at(1, POINTER).store(offset)
    found = f.made(f.call("in_steps", POINTER, [made, operands]))
    f.let_go(node, offset)
    f.keeps(found)
    return found


def _in_steps(f: Function) -> None:
    """Emit `in_steps(made, operands)`: make the nodes of the steps of a template, mostly one, and return the tensor of the last. `operands`
    is the address of pairs of a node and an offset, owned by the caller.
    """
    made, operands = f.arguments
    recipes, reads, before = f.get(made, "Made.recipes"), f.get(made, "Made.reads"), pinned_reads(f)

    def give(node: Value) -> Value:
        return f.call("given", POINTER, [node, f.own(f.get(made, "Made.spec")), pinned_reads(f).differs(before)])

    def step(k: int | Value, nodes: Value) -> Value:
        return f.call("step", POINTER, [f.item(recipes, k), f.item(reads, k), operands, nodes])

    def one_step() -> Value:
        node = f.made(step(0, f.nothing()))
        f.keeps(node)
        return give(node)

    f.when_giving(f.word(recipes, SIZE).equals(1), one_step)
    nodes = f.made(f.call("PyTuple_New", POINTER, [f.word(recipes, SIZE)]))

    def make(k: Value) -> None:
        node = step(k, nodes)
        f.refuse(f.is_null(node))
        f.at(nodes, ITEMS).at(k, POINTER).store(node)

    f.each(f.word(recipes, SIZE), make)
    last = f.own(f.item(nodes, f.word(recipes, SIZE) - 1))
    f.let_go(nodes)
    f.give(give(last))


def _hosted(f: Function) -> None:
    """Emit `hosted(x, args, given, tensors, made)`: call the NumPy function of a template with the tensors as arrays; return new tensors.
    """
    *_, tensors, made = f.arguments
    arrays = f.made(f.call("PyTuple_New", POINTER, [tensors]))
    filled = f.local(I64, f.number(0))

    def read(tensor: Value) -> None:
        storage = f.get(tensor, "Tensor.storage")
        f.require(f.is_a(storage, "Storage"))
        f.require(f.is_the(f.get(f.get(storage, "Storage.node"), "Node.past"), "None"))
        found = f.call("to_numpy", POINTER, [tensor])
        f.refuse(f.is_null(found))
        f.at(arrays, ITEMS).at(filled.load(I64), POINTER).store(found)
        filled.store(filled.load(I64) + 1)

    _each_tensor(f, read)
    results = f.made(f.call("PyObject_CallObject", POINTER, [f.get(made, "Made.host"), arrays]))
    parts = f.get(made, "Made.parts")
    f.require(f.is_a(results, "list"))
    found = f.filled(f.word(parts, SIZE), lambda k: f.call("of_array", POINTER, [f.listed(results, k), f.item(parts, k)]))
    f.let_go(arrays, results)
    f.give(given_back(f, made, found))


def _of_array(f: Function) -> None:
    """Emit `of_array(array, made)`: return a new tensor with the elements of a NumPy array, and the recipe and spec of a template."""
    array, made = f.arguments
    f.refuse(f.is_null(array))
    found = f.made(f.call("new_blank", POINTER, [f.get(made, "Made.recipe"), f.get(made, "Made.spec")]))
    node = f.get(f.get(found, "Tensor.storage"), "Storage.node")
    to = address_of(f, f.get(node, "Node.buffer"))
    f.require(f.call("copy_buffer", I1, [array, to, nbytes_of(f, f.get(made, "Made.spec"))]))
    f.keeps(found)
    f.give(found)


def _several(f: Function, given_to: Sequence[Value], made: Value) -> Value:
    """Emit a tuple of results, one for each part of a template, converted to the tuple type of the template if it has one. `given_to` are
    the arguments of `made_of` before the template."""
    parts, kind = f.get(made, "Made.parts"), f.get(made, "Made.kind")
    found = f.filled(f.word(parts, SIZE), lambda k: f.call("made_of", POINTER, [*given_to, f.item(parts, k)]))
    f.keeps(found)

    def of_kind() -> list[Value]:
        other = f.call("PyObject_CallOneArg", POINTER, [kind, found])
        f.drop(found)
        return [other]

    return f.choose(f.either(f.is_the(kind, "None"), lambda: f.is_the(kind, "tuple")), lambda: [found], of_kind)[0]


def _view_as(f: Function) -> None:
    """Emit `view_as(x, made)`: return the view of a tensor that a template describes, or the tensor itself."""
    x, made = f.arguments
    f.when_giving(f.is_the(f.get(made, "Made.kind"), "itself"), lambda: f.own(x))
    shift, offset = f.get(made, "Made.shift"), asked(f, x, "offset")

    def of_chain() -> list[Value]:
        begins = f.integer(f.get(made, "Made.low"))
        f.require(f.either(begins < 0, lambda: f.integer(offset).equals(begins)))
        return [f.own(f.get(made, "Made.high"))]

    def further_on() -> list[Value]:
        anew = lambda: [f.call("PyLong_FromLongLong", POINTER, [f.integer(offset) + f.integer(shift)])]  # noqa: E731
        return f.choose(f.is_the(shift, "0"), lambda: [f.own(offset)], anew)

    (moved,) = f.choose(f.is_the(shift, "None"), of_chain, further_on)
    f.made(moved)
    found = view(f, f.get(x, "Tensor.storage"), f.hold(f.get(made, "Made.spec")), moved)
    f.keeps(found)
    f.give(found)


def _copied(f: Function) -> None:
    """Emit `copied(x)`: return a copy-on-write copy of a tensor: a new storage with the same node. Return null unless the tensor is
    contiguous, covers its storage, has the dtype of the node, and its buffer is not externally shared.
    """
    (x,) = f.arguments
    f.require(f.is_a(x, "Tensor"))
    spec, offset, storage = asked(f, x, "spec"), asked(f, x, "offset"), f.get(x, "Tensor.storage")
    f.require(f.both(f.is_a(storage, "Storage"), lambda: f.is_the(f.get(spec, "Spec.gapless"), "True")))
    f.require(f.is_the(offset, "0"))
    node = f.get(storage, "Storage.node")
    recipe, buffer = f.get(node, "Node.recipe"), f.get(node, "Node.buffer")
    f.require(f.get(recipe, "Recipe.dtype").equals(f.get(spec, "Spec.dtype")))
    f.require(f.integer(f.get(recipe, "Recipe.nbytes")).equals(nbytes_of(f, spec)))
    f.require(f.either(f.is_the(buffer, "None"), lambda: f.is_the(f.get(buffer, "Buffer.pins"), "0")))
    f.give(f.call("tensor", POINTER, [f.own(node), f.own(spec)]))


def view(f: Function, storage: Value, spec: Value, offset: Value) -> Value:
    """Emit the creation of a tensor on a storage. The tensor takes over the held references to the spec and the offset."""
    f.hold(storage)
    return f.new("Tensor", storage=storage, spec=spec, dtype=f.own(f.get(spec, "Spec.dtype")), offset=offset)


def _step(f: Function) -> None:
    """Emit `step(recipe, reads, operands, before)`: return the node of a step, which reads the operands and the nodes of the steps
    `before`. In `reads`, a source k >= 0 is operand k, k < 0 is step -1 - k; the offset of an operand is added to the recorded one.
    """
    recipe, reads, operands, before = f.arguments
    sources, starts, follows = (f.item(reads, k) for k in range(3))
    read = f.made(f.call("PyTuple_New", POINTER, [f.word(sources, SIZE)]))
    offsets = f.made(f.call("PyTuple_New", POINTER, [f.word(starts, SIZE)]))

    def one(k: Value) -> None:
        source = f.item(sources, k)

        def of_node() -> list[Value]:
            number = f.integer(source)
            of_operand, of_step = lambda: [operands.at(number * 2, POINTER).load(POINTER)], lambda: [f.item(before, -1 - number)]
            return f.choose(number >= 0, of_operand, of_step)

        (found,) = f.choose(f.is_a(source, "int"), of_node, lambda: [source])
        f.at(read, ITEMS).at(k, POINTER).store(f.own(found))

    f.each(f.word(sources, SIZE), one)

    def start(k: Value) -> None:
        fixed = f.item(starts, k)
        place = f.at(offsets, ITEMS).at(k, POINTER)
        of_source = f.both(k < f.word(sources, SIZE), lambda: f.is_a(f.item(sources, k), "int"))
        of_operand = f.both(of_source, lambda: f.integer(f.item(sources, k)) >= 0)

        def moved() -> list[Value]:
            own = operands.at(f.integer(f.item(sources, k)) * 2 + 1, POINTER).load(POINTER)
            return f.choose(
                f.is_the(fixed, "0"),
                lambda: [f.own(own)],
                lambda: [f.call("PyLong_FromLongLong", POINTER, [f.integer(own) + f.integer(fixed)])],
            )

        (found,) = f.choose(of_operand, moved, lambda: [f.own(fixed)])
        f.refuse(f.is_null(found))
        place.store(found)

    f.each(f.word(starts, SIZE), start)
    f.keeps(read, offsets)
    f.give(f.call("pending", POINTER, [f.own(recipe), read, offsets, f.is_the(follows, "True")]))


