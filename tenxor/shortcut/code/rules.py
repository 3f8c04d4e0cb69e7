"""Rules: result templates for tensors of new sizes, with the recipes and launch records that compute the results.

A rule (`rule.py`) is a size-generic result template, found by the signature of a call (`kinds.py`). The rule's size program gives a
concrete result template (`Made`). The template is cached as if the fallback in Python had recorded it.
"""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import DOUBLE, I1, I32, I64, POINTER, array
from ...node import MAX_RECIPES
from ..frames import MAX_FRAMES
from ..objects import BYTES, ITEMS, SIZE, VALUE, Objects
from ..rule import LOOP, MOST_AXES, MOST_RESULTS, MOST_SPECS, OWN
from . import kinds
from .function import Function
from .specs import in_rows, nbytes_of, no_numbers, read_integers
from .working import following, next_word, numbers_of

LARGEST = 1 << 58  # elements; the byte count of so many elements fits a signed 64-bit integer
OF_A_STEP = 7  # items of a step of a rule
_OF_A_RECIPE = ("op", "shape", "dtype", "dtypes", "through", "keeps_order")


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    _data(Function(module, objects, "data_of", [("spec", POINTER)]))
    _data_of_python(Function(module, objects, "data_of_python", [(name, POINTER) for name in ("dtype", "shape", "recipe")]))
    of_python = [("self", POINTER), ("args", POINTER), ("count", I64)]
    _data_for_python(Function(module, objects, "data_for_python", of_python, exported=True))
    parts = [(name, POINTER) for name in ("op", "spec", "dtypes", "through", "which", "keeps_order", "needs")]
    _recipe(Function(module, objects, "recipe_like", parts))
    _known(Function(module, objects, "recipe_through", [(name, POINTER) for name in _OF_A_RECIPE]))
    _spec(Function(module, objects, "spec_at", [("dtype", POINTER), ("ndim", I64), ("cursor", POINTER)]))
    _tuple(Function(module, objects, "integers_at", [("count", I64), ("cursor", POINTER)]))
    _sources(Function(module, objects, "sources_like", [("sources", POINTER), ("cursor", POINTER)]))
    _recipe_of_step(Function(module, objects, "recipe_of_step", [("step", POINTER), ("specs", POINTER)]))
    _read(Function(module, objects, "read_like", [("read", POINTER), ("cursor", POINTER)]))
    _frame(Function(module, objects, "frame_like", [(name, POINTER) for name in ("words", "places", "cursor")]))
    _give_frame(Function(module, objects, "give_frame", [(name, POINTER) for name in ("recipe", "product", "frame", "plan")], I1))
    _part(Function(module, objects, "part_like", [(name, POINTER) for name in ("part", "cursor", "specs")]))
    _made(Function(module, objects, "made_with_specs", [(name, POINTER) for name in ("rule", "cursor", "specs")]))
    _with_specs(Function(module, objects, "made_like", [(name, POINTER) for name in ("rule", "results", "given")]))
    _of_kind(Function(module, objects, "made_of_kind", []))
    place = [("spec", POINTER), ("slot", I64), ("name", POINTER), ("beside", POINTER)]
    _of_this_kind(Function(module, objects, "made_of_this_kind", place))
    of_call = [*place, ("every", POINTER), ("count", I64), ("names", POINTER), ("which", I64)]
    _by_rule(Function(module, objects, "made_by_rule", of_call))
    _of_numbers(Function(module, objects, "made_of_numbers", [(name, POINTER) for name in ("rule", "numbers", "specs")]))
    _for_python(Function(module, objects, "made_by", [("self", POINTER), ("args", POINTER), ("count", I64)], exported=True))


def _recipe(f: Function) -> None:
    """Emit `recipe_like(op, spec, dtypes, through, which, keeps_order, needs)`: return a new recipe with a contiguous result of `spec`."""
    op, spec, dtypes, through, which, keeps_order, needs = f.arguments
    done = recipe_of_data(f, spec)
    same = {slot: f.get(done, f"Recipe.{slot}") for slot in ("shape", "dtype", "size", "nbytes")}
    parts = {"op": op, "dtypes": dtypes, "through": through, "which": which, "keeps_order": keeps_order, "needs": needs}
    recipe = f.new("Recipe", done=done)
    for slot, x in {**same, **parts, "passing": f.the("False"), **dict.fromkeys(("frame", "summed", "apart"), f.the("None"))}.items():
        f.set(recipe, f"Recipe.{slot}", f.own(x))
    f.keeps(recipe)
    f.give(recipe)


def _known(f: Function) -> None:
    """Emit `recipe_through(op, shape, dtype, dtypes, through, keeps_order)`: return the recipe of these parts, with a contiguous result,
    from the cache `spec._through` or newly built. No further cache has the recipe. A full cache is cleared, with every result cache, before
    the insertion. The function returns a new reference."""
    recipes = f.the("recipes through")
    op, shape, dtype, dtypes, through, keeps_order = f.arguments
    key = f.tuple_of(*[f.own(x) for x in (op, shape, dtype, dtypes, through)])
    f.give_known(recipes, key)
    f.when(f.call("PyDict_Size", I64, [recipes]) >= MAX_RECIPES, lambda: f.ask_python("forget made"))
    plain = f.made(f.call("row_major_spec", POINTER, [dtype, shape]))
    recipe = f.made(f.call("recipe_like", POINTER, [op, plain, dtypes, through, f.the("()"), keeps_order, f.the("None")]))
    f.let_go(plain)
    f.require(f.call("PyDict_SetItem", I32, [recipes, key, recipe]).equals(0))
    f.unseen(key)
    f.let_go(key)
    f.keeps(recipe)
    f.give(recipe)


def _spec(f: Function) -> None:
    """Emit `spec_at(dtype, ndim, cursor)`: return the spec of a dtype and the next `2 * ndim` integers, the shape and the strides. The
    function advances the cursor and returns a new reference."""
    dtype, ndim, cursor = f.arguments
    place, numbers = following(cursor, ndim * 2), no_numbers(f)

    def one(k: Value) -> None:
        numbers.at(k, I64).store(place.at(k, I64).load(I64))
        numbers.at(k + MOST_AXES, I64).store(place.at(k + ndim, I64).load(I64))

    f.each(ndim, one)
    f.give(f.call("spec_with", POINTER, [dtype, ndim, numbers]))


def _tuple(f: Function) -> None:
    """Emit `integers_at(count, cursor)`: return a tuple of the next `count` integers. Most are zeros, so `(0,)` and `(0, 0)` are shared
    objects."""
    count, cursor = f.arguments
    numbers = following(cursor, count)
    for name, size in (("(0,)", 1), ("(0, 0)", 2)):

        def are_zeros(size: int = size) -> Value:
            found = numbers.load(I64)
            for k in range(1, size):
                found = found | numbers.at(k, I64).load(I64)
            return found.equals(0)

        f.when_giving(f.both(count.equals(size), are_zeros), lambda name=name: f.own(f.the(name)))  # type: ignore[misc]
    f.give(f.call("integers", POINTER, [numbers, count]))


def _sources(f: Function) -> None:
    """Emit `sources_like(sources, cursor)`: return the sources of a step, with the placeholders of scalars filled in. A dtype among
    `sources` stands for a scalar of this dtype, the next integer at the cursor. A pair `(dtype, dividend)` stands for the dividend divided
    by the next integer. The other items are taken as they are. The function returns a new reference."""
    sources, cursor = f.arguments

    def is_number(k: Value) -> Value:
        item = f.item(sources, k)
        return f.is_a(item, "DType") | f.is_a(item, "tuple")

    def source(k: Value) -> Value:
        item = f.item(sources, k)

        def number() -> list[Value]:
            word, is_pair = next_word(cursor), f.is_a(item, "tuple")
            (dtype,) = f.choose(is_pair, lambda: [f.item(item, 0)], lambda: [item])
            as_double = word.cast("sitofp", DOUBLE)

            def as_float() -> list[Value]:
                divided = lambda: [f.at(f.item(item, 1), VALUE).load(DOUBLE) / as_double]  # noqa: E731
                return [f.call("PyFloat_FromDouble", POINTER, f.choose(is_pair, divided, lambda: [as_double]))]

            as_int = lambda: [f.call("PyLong_FromLongLong", POINTER, [word])]  # noqa: E731
            value = f.made(f.choose(f.is_a(f.get(dtype, "DType.lowest"), "int"), as_int, as_float)[0])
            scalar = f.new("Scalar", value=value, dtype=f.own(dtype))
            f.keeps(scalar)
            return [scalar]

        return f.choose(is_number(k), number, lambda: [f.own(item)])[0]

    has_any = f.fold(f.word(sources, SIZE), f.number(0), lambda k, before: before | is_number(k).cast("zext", I64))
    f.when_giving(has_any.equals(0), lambda: f.own(sources))
    found = f.filled(f.word(sources, SIZE), source)
    f.unseen(found)
    f.keeps(found)
    f.give(found)


def _recipe_of_step(f: Function) -> None:
    """Emit `recipe_of_step(step, specs)`: return a new recipe for a step of a rule (`Rule.steps`), which reads and writes through `specs`.
    """
    step, specs = f.arguments
    op, dtypes, keeps_order, own, which, only, needs = (f.item(step, k) for k in range(OF_A_STEP))

    def one(k: Value) -> Value:
        number = f.integer(f.item(which, k))
        return f.own(f.choose(number < 0, lambda: [f.the("None")], lambda: [specs.at(number, POINTER).load(POINTER)])[0])

    def each() -> list[Value]:
        found = f.filled(f.word(which, SIZE), one)
        f.unseen(found)
        f.keeps(found)
        return [found]

    same = f.integer(only)
    through = f.holding(f.choose(same < 0, each, lambda: [f.own(specs.at(same, POINTER).load(POINTER))])[0])
    plain = specs.at(f.integer(own), POINTER).load(POINTER)
    recipe = f.made(f.call("recipe_like", POINTER, [op, plain, dtypes, through, which, keeps_order, needs]))
    f.let_go(through)
    f.keeps(recipe)
    f.give(recipe)


def _read(f: Function) -> None:
    """Emit `read_like(read, cursor)`: return an item of `Made.reads`: the sources, offsets and derivative flag of a step, with the next
    integers."""
    read, cursor = f.arguments
    sources, starts, follows = (f.item(read, k) for k in range(3))
    begins = f.made(f.call("integers_at", POINTER, [f.integer(starts), cursor]))
    own = f.made(f.call("sources_like", POINTER, [sources, cursor]))
    found = f.tuple_of(own, begins, f.own(follows))
    f.unseen(found)
    f.keeps(found)
    f.give(found)


def _frame(f: Function) -> None:
    """Emit `frame_like(words, places, cursor)`: return a copy of a launch record with the next integers at `places`. Without places, the
    record does not depend on sizes, and the function returns the record itself."""
    words, places, cursor = f.arguments
    f.when_giving(f.word(places, SIZE).equals(0), lambda: f.own(words))
    found = f.made(f.call("PyBytes_FromStringAndSize", POINTER, [f.at(words, BYTES), f.word(words, SIZE)]))
    f.each(f.word(places, SIZE), lambda k: f.at(found, BYTES).at(f.integer(f.item(places, k)), I64).store(next_word(cursor)))
    f.keeps(found)
    f.give(found)


def _give_frame(f: Function) -> None:
    """Emit `give_frame(recipe, product, frame, plan)`: store a launch record and retain the plan, which owns the kernel. The record belongs
    to `recipe`; if `product` is not None, it belongs to the sum `recipe` over `product` and is stored with `product`. An earlier record
    stays. The function returns true, or false on a failure."""
    recipe, product, frame, plan = f.arguments
    is_alone = f.is_the(product, "None")

    def write() -> None:
        f.when(~is_shared, keep_kernel)
        f.choose(is_alone, alone, summed)

    def keep_kernel() -> None:
        """Retain the plan first, since a record holds only the kernel's address; being first in the list, the plan is released last."""
        for x in (plan, f.selected(is_alone, recipe, product)):
            f.append(f.the("with frames"), x)

    def alone() -> list[Value]:
        f.drop(f.the("None"))
        f.set(recipe, "Recipe.frame", f.own(frame))
        return []

    def summed() -> list[Value]:
        f.when(f.is_the(f.get(product, "Recipe.summed"), "None"), lambda: instead(f.tuple_of(f.own(recipe), f.own(frame))))
        f.when(f.is_null(f.call("frame_of_sum", POINTER, [product, recipe])), one_more)
        return []

    def one_more() -> None:
        """Store a further sum's record in a dictionary, together with the earlier pair."""
        f.when(f.is_a(f.get(product, "Recipe.summed"), "tuple"), lambda: instead(f.made(f.call("PyDict_New", POINTER, [])), as_well=True))
        known = f.get(product, "Recipe.summed")
        f.require(f.call("PyDict_SetItem", I32, [known, recipe, frame]).equals(0))
        f.unseen(known)

    def instead(made: Value, *, as_well: bool = False) -> None:
        """Replace `Recipe.summed` of the product by `made`. With `as_well`, first copy the old pair into `made`, with an early exit if the
        old value is no pair."""
        before = f.get(product, "Recipe.summed")  # read late: Python code may have run since and changed the slot
        if as_well:
            f.require(f.is_a(before, "tuple"))
            f.require(f.call("PyDict_SetItem", I32, [made, f.item(before, 0), f.item(before, 1)]).equals(0))
        f.unseen(made)
        f.set(product, "Recipe.summed", made)
        f.keeps(made)
        f.drop(before)

    is_shared = f.is_the(frame, "never") | f.is_a(frame, "Shared")
    is_too_much = f.both(~is_shared, lambda: f.length(f.the("with frames")) >= 2 * MAX_FRAMES)
    f.when(is_too_much, lambda: f.ask_python("forget frames"))
    of_product = lambda: [f.is_null(f.call("frame_of_sum", POINTER, [product, recipe]))]  # noqa: E731
    (is_new,) = f.choose(is_alone, lambda: [f.is_the(f.get(recipe, "Recipe.frame"), "None")], of_product)
    f.when(is_new, write)
    f.give(f.constant(I1, True))


def new_made(f: Function, **slots: Value) -> Value:
    """Emit a new result template (`Made`) with these slots and defaults elsewhere. The new reference is held."""
    made = f.new("Made")
    nothing = {"parts": "()", "recipes": "()", "reads": "()", "loop": "never", "frame": "never", "low": "0", "high": "0", "shift": "0"}
    nothing |= dict.fromkeys(("recipe", "host", "kind", "number", "plan", "operation", "beside"), "None")
    for slot, x in {**{slot: f.the(name) for slot, name in nothing.items()}, **slots}.items():
        f.set(made, f"Made.{slot}", f.own(x))
    return made


def recipe_of_data(f: Function, spec: Value) -> Value:
    """Emit the recipe of contiguous data in memory of `spec`. The new reference is held: early exits of the emitted function release it."""
    return f.made(f.call("data_of", POINTER, [spec]))


def _data(f: Function) -> None:
    """Emit `data_of(spec)`: return the recipe of contiguous data with this shape and dtype, cached in `Spec.data`, as a new reference."""
    (spec,) = f.arguments
    there = f.get(spec, "Spec.data")
    f.when_giving(~f.is_null(there), lambda: f.own(there))
    f.require(f.integer(f.get(spec, "Spec.size")) <= LARGEST)
    none, empty = f.the("None"), f.the("()")
    nbytes = f.as_object(nbytes_of(f, spec))
    recipe = f.new("Recipe", nbytes=nbytes)
    parts = {"op": f.the("DATA"), "dtypes": empty, "forms": empty, "passing": f.the("False"), "keeps_order": f.the("True")}
    parts |= {slot: f.get(spec, f"Spec.{slot}") for slot in ("shape", "dtype", "size")}
    parts |= dict.fromkeys(("target", "frame", "summed", "needs", "apart"), none)
    for slot, x in parts.items():
        f.set(recipe, f"Recipe.{slot}", f.own(x))
    # Python code may have run and set the slot
    f.when(f.is_null(f.get(spec, "Spec.data")), lambda: f.set(spec, "Spec.data", f.own(recipe)))
    f.keeps(recipe)
    f.give(recipe)


def _data_of_python(f: Function) -> None:
    """Emit `data_of_python(dtype, shape, recipe)`: return the recipe of contiguous data with a dtype and a shape given by the interpreter.
    If `recipe` is not None and the spec has no such recipe yet, the spec keeps `recipe`."""
    dtype, shape, recipe = f.arguments
    ndim, numbers = f.word(shape, SIZE), no_numbers(f)
    f.require(ndim <= MOST_AXES)
    read_integers(f, shape, ndim, numbers)
    in_rows(f, ndim, numbers)
    spec = f.made(f.call("spec_with", POINTER, [dtype, ndim, numbers]))
    is_new = f.both(~f.is_the(recipe, "None"), lambda: f.is_null(f.get(spec, "Spec.data")))
    f.when(is_new, lambda: f.set(spec, "Spec.data", f.own(recipe)))
    found = recipe_of_data(f, spec)
    f.let_go(spec)
    f.keeps(found)
    f.give(found)


def _data_for_python(f: Function) -> None:
    """Emit `data_for_python`, the entry for Python of `data_of_python`. It returns None where Python code must build the recipe."""
    given = f.arguments[1]
    f.give_or_none(f.call("data_of_python", POINTER, [given.at(k, POINTER).load(POINTER) for k in range(3)]))


def _part(f: Function) -> None:
    """Emit `part_like(part, cursor, specs)`: return the template of one element, in memory or a view, of a tuple of results."""
    part, cursor, specs = f.arguments
    f.when_giving(~f.is_a(part, "tuple"), lambda: f.own(part))  # a table of parts by size
    spec, held = (f.integer(f.item(part, k)) for k in range(2))
    shift = f.as_object(next_word(cursor))

    def in_memory() -> list[Value]:
        recipe = recipe_of_data(f, specs.at(held, POINTER).load(POINTER))
        f.keeps(recipe)
        return [recipe]

    (recipe,) = f.choose(held < 0, lambda: [f.own(f.the("None"))], in_memory)
    f.holding(recipe)
    made = new_made(f, spec=specs.at(spec, POINTER).load(POINTER), shift=shift, recipe=recipe)
    f.let_go(shift, recipe)
    f.keeps(made)
    f.give(made)


def _with_specs(f: Function) -> None:
    """Emit `made_like(rule, results, given)`: return the result template of a rule, as a new reference. `results` are the values of the
    rule's size program and `given` the operands' specs, at least `Rule.given` of them. The given and the newly built specs are kept alive
    until the template is complete."""
    rule, results, given = f.arguments
    like, first = f.get(rule, "Rule.specs"), f.integer(f.get(rule, "Rule.given"))
    cursor, specs = f.local(POINTER, results), f.local(array(POINTER, MOST_SPECS))
    made, last = f.local(I64, first), f.local(POINTER, rule)
    f.each(first, lambda k: specs.at(k, POINTER).store(f.own(given.at(k, POINTER).load(POINTER))))

    def one() -> None:
        dtype, ndim = (f.item(f.item(like, made.load(I64) - first), k) for k in range(2))
        spec = f.call("spec_at", POINTER, [dtype, f.integer(ndim), cursor])
        last.store(spec)
        specs.at(made.load(I64), POINTER).store(spec)
        made.store(made.load(I64) + (~f.is_null(spec)).cast("zext", I64))

    f.as_long_as(lambda: f.both(made.load(I64) < first + f.word(like, SIZE), lambda: ~f.is_null(last.load(POINTER))), one)
    rest = lambda: [f.call("made_with_specs", POINTER, [rule, cursor, specs])]  # noqa: E731
    (found,) = f.choose(f.is_null(last.load(POINTER)), lambda: [f.nothing()], rest)
    f.each(made.load(I64), lambda k: f.drop(specs.at(k, POINTER).load(POINTER)))
    f.give(found)


def _made(f: Function) -> None:
    """Emit `made_with_specs(rule, cursor, specs)`: build the result template of a rule from the specs and the program's remaining values.
    The function also stores the launch records of the rule's steps with the new recipes."""
    rule, cursor, specs = f.arguments
    like, frames = (f.get(rule, f"Rule.{slot}") for slot in ("steps", "frames"))
    shift = f.as_object(next_word(cursor))
    single = f.is_the(f.get(rule, "Rule.is_single"), "True")

    def one_recipe() -> list[Value]:
        """Build the only recipe. The caller supplies its sources and offsets."""
        found = f.made(f.call("recipe_of_step", POINTER, [f.item(like, 0), specs]))
        f.keeps(found)
        return [f.own(f.the("()")), found]

    def several() -> list[Value]:
        found = f.filled(f.word(like, SIZE), lambda k: f.call("recipe_of_step", POINTER, [f.item(like, k), specs]))
        f.when(f.word(like, SIZE) > 0, lambda: f.unseen(found))
        f.keeps(found)
        return [found, f.own(f.the("None"))]

    def other_reads() -> list[Value]:
        read = f.get(rule, "Rule.read")
        found = f.filled(f.word(read, SIZE), lambda k: f.call("read_like", POINTER, [f.item(read, k), cursor]))
        f.unseen(found)
        f.keeps(found)
        return [found]

    recipes, recipe = f.choose(single, one_recipe, several)
    f.holding(recipes), f.holding(recipe)
    same_reads = f.get(rule, "Rule.reads")
    reads = f.holding(f.choose(f.is_the(same_reads, "None"), other_reads, lambda: [f.own(same_reads)])[0])
    like_parts = f.get(rule, "Rule.parts")
    parts = f.filled(f.word(like_parts, SIZE), lambda k: f.call("part_like", POINTER, [f.item(like_parts, k), cursor, specs]))
    same = {slot: f.get(rule, f"Rule.{slot}") for slot in ("low", "high", "kind")}
    spec = specs.at(f.integer(f.get(rule, "Rule.seen")), POINTER).load(POINTER)
    made = new_made(f, spec=spec, shift=shift, recipe=recipe, recipes=recipes, reads=reads, parts=parts, **same)
    f.when(f.word(like_parts, SIZE) > 0, lambda: f.unseen(parts))
    f.let_go(shift, reads, parts)

    def give(k: Value) -> None:
        each = f.item(frames, k)
        at, product, words, places, plan = (f.item(each, j) for j in range(5))
        frame = f.made(f.call("frame_like", POINTER, [words, places, cursor]))
        of = f.integer(at)

        def instead(slot: str, x: Value) -> None:
            before = f.get(made, f"Made.{slot}")
            f.set(made, f"Made.{slot}", f.own(x))
            f.drop(before)

        def own_frame() -> list[Value]:
            f.when(of.equals(LOOP), lambda: instead("loop", frame))
            f.when(of.equals(OWN), lambda: instead("frame", frame))
            f.when(of.equals(OWN), lambda: instead("plan", plan))
            return []

        def of_step() -> list[Value]:
            (one,) = f.choose(single, lambda: [recipe], lambda: [f.item(recipes, of)])
            its = lambda: [f.item(recipes, f.integer(product))]  # noqa: E731
            (other,) = f.choose(f.is_the(product, "None"), lambda: [f.the("None")], its)
            f.require(f.call("give_frame", I1, [one, other, frame, plan]))
            return []

        f.choose(of < 0, own_frame, of_step)
        f.let_go(frame)

    f.each(f.word(frames, SIZE), give)
    f.let_go(recipes, recipe)
    f.keeps(made)
    f.give(made)


def suiting(f: Function, known: Value, numbers: Value, results: Value) -> Value:
    """Emit a search for the first rule of a signature whose guards hold for the array `numbers`. Return it, borrowed. `known` is the cache
    (`Known`) of the signature. The results of its size program are written to `results`. Without a match, an early exit is taken."""
    rules = f.get(known, "Known.general")
    at, count, found = f.local(I64, f.number(0)), f.length(rules), f.local(POINTER, f.nothing())

    def is_left() -> Value:
        return f.both(f.is_null(found.load(POINTER)), lambda: at.load(I64) < count)

    def look() -> None:
        rule = f.listed(rules, at.load(I64))
        suits = f.call("work_out", I64, [f.get(rule, "Rule.program"), numbers, results]) > 0
        f.when(suits, lambda: found.store(rule))
        at.store(at.load(I64) + 1)

    f.as_long_as(is_left, look)
    f.refuse(f.is_null(found.load(POINTER)))
    return found.load(POINTER)


def _of_kind(f: Function) -> None:
    """Emit `made_of_kind()`: return the result template for a call with the signature recorded last; null if no rule matches its sizes."""
    results = f.local(array(I64, MOST_RESULTS))
    rule = f.hold(suiting(f, kinds.known_of_kind(f), kinds.numbers(f)[1], results))
    place, given = kinds.specs(f)
    f.require(f.integer(f.get(rule, "Rule.given")) <= place.load(I64))
    made = f.made(f.call("made_like", POINTER, [rule, results, given]))
    f.let_go(rule)
    f.keeps(made)
    f.give(made)


def _of_numbers(f: Function) -> None:
    """Emit `made_of_numbers(rule, numbers, specs)`: return the result template that a rule gives for these sizes and operand specs. Both
    arguments are tuples. The function returns null if the guards of the rule fail."""
    rule, numbers, specs = f.arguments
    program, results = f.get(rule, "Rule.program"), f.local(array(I64, MOST_RESULTS))
    f.require(f.call("work_out", I64, [program, numbers_of(f, program, numbers), results]) > 0)
    f.require(f.integer(f.get(rule, "Rule.given")) <= f.word(specs, SIZE))
    f.give(f.call("made_like", POINTER, [rule, results, f.at(specs, ITEMS)]))


def _by_rule(f: Function) -> None:
    """Emit `made_by_rule(spec, slot, name, beside, every, count, names, which)`: return the result template that a rule gives for a call,
    borrowed from the table at `slot` of `spec`, where it is cached under `name` and `beside`. Return null if no rule matches."""
    spec, slot, name, beside, every, count, names, which = f.arguments
    f.require(kinds.find_kind(f, name, every, count, names, which))
    f.give(f.call("made_of_this_kind", POINTER, [spec, slot, name, beside]))


def made_now(f: Function) -> Value:
    """Emit a call for the result template of the signature recorded last. The new reference is held: early exits release it."""
    return f.made(f.call("made_of_kind", POINTER, []))


def _of_this_kind(f: Function) -> None:
    """Emit `made_of_this_kind(spec, slot, name, beside)`: return the result template that a rule gives for the signature recorded last,
    borrowed from the table at `slot` of `spec`, where it is cached under `name` and `beside`. Return null if no rule matches."""
    made = made_now(f)
    f.require(f.call("remember", I1, [*f.arguments, made]))
    f.let_go(made)
    f.give(made)


def _for_python(f: Function) -> None:
    """Emit `made_by`, the entry for Python of `made_of_numbers`. It returns None if the guards of the rule fail."""
    given = f.arguments[1]
    f.give_or_none(f.call("made_of_numbers", POINTER, [given.at(k, POINTER).load(POINTER) for k in range(3)]))
