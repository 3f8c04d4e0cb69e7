"""Assignments to an element or to a part of a tensor, written into memory at once.

The emitted functions write only into memory that nothing else can read, so no pending node sees the change. Before any change, they decline
the cases of the fallback in Python: values with a tape node, a lock held by another thread, and externally shared buffers (except for the
write of a single element).
"""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import DOUBLE, FLOAT, I1, I8, I16, I32, I64, POINTER, Type, array
from ...dtypes import boolean, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32
from ..limits import LARGEST
from ..objects import SIZE, Objects
from ..updates import SMALLEST
from .compute import in_memory, lock_is_free
from .function import Function
from .index import element_wanted, spec_in, wanted
from .read import address_of
from .record import ask_all, asked, made_or_by_rule, operand, within
from .specs import ends_of, nbytes_of
from .tables import table


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    _put(Function(module, objects, "put", [("storage", POINTER), ("spec", POINTER), ("offset", I64), ("value", POINTER)]))
    _put_number(Function(module, objects, "put_number", [("start", POINTER), ("dtype", POINTER), ("offset", I64), ("number", POINTER)], I1))
    _are_alike(Function(module, objects, "are_alike", [("one", POINTER), ("other", POINTER)], I1))
    _takes(Function(module, objects, "takes", [("x", POINTER), ("found", POINTER), ("beside", POINTER)], I1))
    _unshared(Function(module, objects, "unshared", [("storage", POINTER)], I1))
    _set_masked(Function(module, objects, "set_masked", [("x", POINTER), ("mask", POINTER), ("value", POINTER)]))
    _set_element(Function(module, objects, "set_element", [("x", POINTER), ("offset", I64), ("value", POINTER)]))
    _set_item(Function(module, objects, "set_item", [("x", POINTER), ("key", POINTER), ("value", POINTER)]))


def _set_item(f: Function) -> None:
    """Emit `set_item(x, key, value)`: do `x[key] = value` in memory without other readers. Return None, or null to leave the work to the
    fallback.
    """
    x, key, value = f.arguments
    f.require(f.is_a(x, "Tensor"))
    is_element, place = element_wanted(f, x, key)
    f.when_giving(is_element, lambda: f.call("set_element", POINTER, [x, place, value]))
    f.when_giving(f.is_a(key, "Tensor"), lambda: _set_at(f, x, key, value))
    f.when_giving(f.is_a(key, "list"), lambda: f.call("set_picked", POINTER, [x, key, value]))
    value = f.hold(_as_number(f, x, value))
    found = wanted(f, x, key)
    spec = spec_in(f, found)
    done = f.call("put", POINTER, [f.get(x, "Tensor.storage"), spec, found.offset, value])
    f.let_go(spec, value)
    f.give(done)


def _as_number(f: Function, x: Value, value: Value) -> Value:
    """Emit the value to write over a part of `x`: an element of the same dtype with a known scalar gives this scalar, else `value` itself.
    """

    def number() -> list[Value]:
        spec, storage, dtype = asked(f, value, "spec"), f.get(value, "Tensor.storage"), f.get(x, "Tensor.dtype")
        is_point = f.both(f.is_a(storage, "Element"), lambda: f.is_the(f.get(spec, "Spec.shape"), "()"))
        is_own = lambda: f.get(storage, "Element._dtype").equals(dtype) & f.get(value, "Tensor.dtype").equals(dtype)  # noqa: E731
        plain = f.both(f.both(is_point, is_own), lambda: ~f.is_the(dtype, "bfloat16"))
        known = f.both(plain, lambda: ~f.is_the(f.get(storage, "Element._number"), "None"))
        return f.choose(known, lambda: [f.get(storage, "Element._number")], lambda: [value])

    return f.choose(f.is_a(value, "Tensor"), number, lambda: [value])[0]


def _set_element(f: Function) -> None:
    """Emit `set_element(x, offset, value)`: write a number into the element of `x` at an offset in its storage. Return None, or null to
    leave the work to the fallback.

    The storage must be in memory without other readers, or in an externally shared buffer.
    """
    x, offset, value = f.arguments
    storage, dtype = f.get(x, "Tensor.storage"), f.get(x, "Tensor.dtype")
    f.require(f.is_a(storage, "Storage"))
    number = number_for(f, value, dtype)
    node = f.get(storage, "Storage.node")
    buffer = f.get(node, "Node.buffer")
    f.refuse(f.is_the(buffer, "None"))
    f.require(f.is_the(f.get(node, "Node.past"), "None"))
    f.require(f.get(f.get(node, "Node.recipe"), "Recipe.dtype").equals(dtype))
    alone = f.both(f.has_one_owner(node), lambda: f.has_one_owner(buffer))
    f.require(f.either(alone, lambda: ~f.is_the(f.get(buffer, "Buffer.pins"), "0")))
    f.require(f.is_the(f.get(buffer, "Buffer.frozen"), "False"))
    f.require(lock_is_free(f))
    f.require(f.call("put_number", I1, [address_of(f, buffer), dtype, offset, number]))
    f.keeps(number)
    f.drop(number)
    f.give(f.own(f.the("None")))


def _set_at(f: Function, x: Value, key: Value, value: Value) -> Value:
    """Emit `x[key] = value` for a tensor as the key: a mask, or else indices. Return None, or null to leave the work to the fallback."""
    found = f.call("set_masked", POINTER, [x, key, value])
    return f.choose(f.is_null(found), lambda: [f.call("set_picked", POINTER, [x, key, value])], lambda: [found])[0]


def _are_alike(f: Function) -> None:
    """Emit `are_alike(one, other)`: return whether two tuples of integers, shapes or strides, are equal."""
    one, other = f.arguments
    f.when_giving(one.equals(other), lambda: f.constant(I1, True))
    f.require(f.word(one, SIZE).equals(f.word(other, SIZE)))
    f.each(f.word(one, SIZE), lambda k: f.require(f.integer(f.item(one, k)).equals(f.integer(f.item(other, k)))))
    f.give(f.constant(I1, True))


def _set_masked(f: Function) -> None:
    """Emit `set_masked(x, mask, value)`: do `x[mask] = value` for a number, as `x = where(mask, value, x)`. Return None, or null to leave
    the work to the fallback.
    """
    x, mask, value = f.arguments
    ask_all(f, x, mask)
    spec, chosen = f.get(x, "Tensor.spec"), f.get(mask, "Tensor.spec")
    f.require(f.is_the(f.get(chosen, "Spec.dtype"), "bool"))
    f.require(f.call("are_alike", I1, [f.get(spec, "Spec.shape"), f.get(chosen, "Spec.shape")]))
    f.refuse(f.is_a(value, "Tensor"))
    refuse_pinned(f, x)
    others = f.local(array(POINTER, 2))
    others.store(value)
    others.at(1, POINTER).store(x)
    found = f.made(f.call("applied", POINTER, [f.the("op where"), mask, others, f.number(2)]))
    f.require(f.call("takes", I1, [x, found, mask]))
    f.let_go(found)
    f.give(f.own(f.the("None")))


def refuse_pinned(f: Function, x: Value) -> None:
    """Emit an early exit, returning null or 0, for a tensor in an externally shared buffer (`Buffer.pins`), which only the fallback writes.
    """
    f.require(f.is_a(x, "Tensor"))
    storage = f.get(x, "Tensor.storage")

    def is_pinned() -> Value:
        buffer = f.get(f.get(storage, "Storage.node"), "Node.buffer")
        return f.both(~f.is_the(buffer, "None"), lambda: ~f.is_the(f.get(buffer, "Buffer.pins"), "0"))

    f.refuse(f.both(f.is_a(storage, "Storage"), is_pinned))


def _takes(f: Function) -> None:
    """Emit `takes(x, found, beside)`: replace the elements of the tensor `x` by those of `found`, in place. Return true, or false to leave
    the work to the fallback.

    `found` is the result of an operation on `x` and `beside`, a tensor or a number. If `x` covers its storage and has the layout of
    `found`, the storage takes over the node of `found`. Otherwise the elements are written into the part of the storage.
    """
    x, found, beside = f.arguments
    storage, spec, offset = (f.hold(f.get(x, f"Tensor.{slot}")) for slot in ("storage", "spec", "offset"))
    f.require(f.is_a(storage, "Storage"))
    node, new = f.get(storage, "Storage.node"), f.get(found, "Tensor.spec")
    f.require(f.is_the(f.get(node, "Node.past"), "None"))
    whole = f.integer(f.get(f.get(node, "Node.recipe"), "Recipe.size")).equals(f.integer(f.get(spec, "Spec.size")))
    alike = f.both(new.equals(spec), lambda: f.both(whole, lambda: f.is_the(offset, "0")))

    def swap() -> list[Value]:
        buffer = f.get(node, "Node.buffer")
        f.require(f.either(f.is_the(buffer, "None"), lambda: f.is_the(f.get(buffer, "Buffer.pins"), "0")))
        f.require(lock_is_free(f))
        f.set(storage, "Storage.node", f.own(f.get(f.get(found, "Tensor.storage"), "Storage.node")))
        f.drop(node)
        return []

    def write() -> list[Value]:
        f.require(f.get(new, "Spec.dtype").equals(f.get(spec, "Spec.dtype")))
        f.require(f.call("are_alike", I1, [f.get(new, "Spec.shape"), f.get(spec, "Spec.shape")]))
        at = f.integer(offset)
        update = lambda: f.call("updated", I1, [x, beside, storage, spec, at, found])  # noqa: E731
        is_updated = f.both(nbytes_of(f, spec) >= SMALLEST, update)
        return f.choose(is_updated, list, lambda: put(at))

    def put(at: Value) -> list[Value]:
        f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
        f.when(f.is_a(beside, "Tensor"), lambda: _compute_beside(f, beside))
        done = f.call("put", POINTER, [storage, spec, at, found])
        f.refuse(f.is_null(done))
        f.drop(done)
        return []

    def write_if_any() -> list[Value]:
        return f.choose(_is_nothing(f, new, spec), list, write)

    def by_node() -> list[Value]:
        return f.choose(alike, swap, write_if_any)

    made = f.get(found, "Tensor.storage")
    f.choose(f.is_a(made, "Element"), lambda: _put_element(f, (storage, spec, offset), new, made), by_node)
    f.let_go(storage, spec, offset)
    f.give(f.constant(I1, True))


def _put_element(f: Function, to: tuple[Value, Value, Value], new: Value, element: Value) -> list[Value]:
    """Emit a write of a known scalar into a tensor of the same dtype and shape.

    `to` is the storage, spec and offset of the tensor, `new` the spec of the scalar and `element` its storage. The empty list is for
    `choose`.
    """
    storage, spec, offset = to
    dtype = f.get(spec, "Spec.dtype")
    f.require(f.get(new, "Spec.dtype").equals(dtype))
    f.require(f.call("are_alike", I1, [f.get(new, "Spec.shape"), f.get(spec, "Spec.shape")]))
    number = f.get(element, "Element._number")
    f.refuse(f.is_the(number, "None"))
    f.hold(number)
    buffer = own_memory(f, storage, storage, dtype)
    f.require(f.call("put_number", I1, [address_of(f, buffer), dtype, f.integer(offset), number]))
    f.let_go(number)
    return []


def _is_nothing(f: Function, new: Value, spec: Value) -> Value:
    """Emit a test whether the written value has no elements, and has the shape and dtype of its destination. `new` and `spec` are their
    specs.
    """
    (shape, dtype), (own_shape, own_dtype) = [(f.get(s, "Spec.shape"), f.get(s, "Spec.dtype")) for s in (new, spec)]
    is_empty = f.both(f.is_the(f.get(spec, "Spec.size"), "0"), lambda: dtype.equals(own_dtype))
    return f.both(is_empty, lambda: f.call("are_alike", I1, [shape, own_shape]))


def _compute_beside(f: Function, y: Value) -> None:
    """Emit the evaluation of the second operand `y` of an in-place write: while pending, `y` may refer to memory that is overwritten."""
    storage = f.get(y, "Tensor.storage")
    f.when(f.is_a(storage, "Storage"), lambda: compute_storage(f, storage))


def compute_storage(f: Function, storage: Value) -> None:
    """Emit the evaluation of the pending node of a storage. The emitted function returns null or 0 for a node with a tape node or a traced
    argument.
    """

    def compute() -> None:
        node = f.hold(f.get(storage, "Storage.node"))
        f.require(f.is_the(f.get(node, "Node.past"), "None"))
        f.require(f.call("computed", I1, [node]))
        f.let_go(node)

    f.when(f.is_the(f.get(f.get(storage, "Storage.node"), "Node.buffer"), "None"), compute)


def _put(f: Function) -> None:
    """Emit `put(storage, spec, offset, value)`: write a tensor or a number over a part of a storage. Return None, or null to leave the work
    to the fallback.

    The memory of the storage must have no other reader. The old content is evaluated first, since the value may depend on it, then the
    value. Either may run Python code, so the storage is examined afterwards.
    """
    storage, spec, offset, value = f.arguments
    f.hold(storage), f.hold(spec)
    f.require(f.is_a(storage, "Storage"))
    compute_storage(f, storage)
    kind = f.type_of(value)
    is_tensor = f.is_a(value, "Tensor")

    def number() -> list[Value]:
        return [kind, f.the("0")]

    def tensor() -> list[Value]:
        own = operand(f, value)
        f.require(own.is_node)
        return [own.key, own.offset]

    key, start = f.choose(is_tensor, tensor, number)
    f.hold(start)
    own_storage = f.both(is_tensor, lambda: f.get(value, "Tensor.storage").equals(storage))

    def is_there() -> Value:
        """Test whether the value is the part itself: then `x[key] += y` has already written to it."""
        same = f.both(f.get(value, "Tensor.spec").equals(spec), lambda: f.integer(start).equals(offset))
        return f.both(same, lambda: f.call("has_each_once", I1, [spec]))

    where = table(f, spec, "called")

    def by_rule() -> list[Value]:
        f.require(f.call("find_kind_of_write", I1, [storage, spec, value]))
        return [f.call("made_of_this_kind", POINTER, [*where, f.the("'write'"), key])]

    def write() -> list[Value]:
        made = f.hold(made_or_by_rule(f, where, f.the("'write'"), key, by_rule))
        f.refuse(f.is_the(f.get(made, "Made.frame"), "never"))
        f.when(f.is_the(kind, "int"), lambda: within(f, value, made))
        f.when(own_storage, lambda: f.require(_lie_apart(f, (key, f.integer(start)), (spec, offset))))
        (source,) = f.choose(is_tensor, lambda: [_computed_source(f, value)], lambda: [_scalar(f, value)])
        f.holding(source)
        sources, offsets = f.tuple_of(source), f.tuple_of(f.hold(start), f.as_object(offset))
        _launch_over(f, storage, made, source, sources, offsets)
        f.let_go(made, sources, offsets)
        return []

    is_nothing = lambda: f.both(is_tensor, lambda: _is_nothing(f, f.get(value, "Tensor.spec"), spec))  # noqa: E731
    f.choose(f.either(f.both(own_storage, is_there), is_nothing), list, write)
    f.let_go(storage, spec, start)
    f.give(f.own(f.the("None")))


def _lie_apart(f: Function, read: tuple[Value, Value], written: tuple[Value, Value]) -> Value:
    """Emit a test whether the address ranges of two views of one storage, `read` and `written`, do not overlap.

    Each view is a pair of a spec with strides and an offset.
    """
    (first, last), (begin, end) = ([at + end for end in ends_of(f, spec)] for spec, at in (read, written))
    return f.either(last < begin, lambda: end < first)


def _computed_source(f: Function, value: Value) -> Value:
    """Emit the evaluation of the node in a tensor's storage. Return the node as a new reference."""
    node = f.hold(f.get(f.get(value, "Tensor.storage"), "Storage.node"))
    f.require(f.is_the(f.get(node, "Node.past"), "None"))
    f.require(f.call("computed", I1, [node]))
    f.keeps(node)
    return node


def _scalar(f: Function, value: Value) -> Value:
    """Emit a `Scalar` of a number, as the source of a write, without a dtype: the launch record knows the type. A new reference."""
    made = f.new("Scalar", value=f.own(value), dtype=f.own(f.the("None")))
    f.keeps(made)
    return made


def _launch_over(f: Function, storage: Value, made: Value, source: Value, sources: Value, offsets: Value) -> None:
    """Emit the launch of a write over the memory of a storage; memory with other readers is copied first.

    `made` is the template of the write, and `source` the node or scalar written. `sources` is the tuple with `source` alone, and `offsets`
    the tuple of the offsets of the source and of the destination.
    """
    buffer = own_memory(f, storage, source, f.get(f.get(made, "Made.spec"), "Spec.dtype"))
    f.require(f.call("launch", I1, [f.get(made, "Made.frame"), f.nothing(), sources, offsets, buffer]))


def own_memory(f: Function, storage: Value, source: Value, dtype: Value) -> Value:
    """Emit the choice of a buffer to write into: the buffer of a storage, which must be in memory and have the given dtype.

    If the buffer has readers besides the write, the storage gets a copy first. `source` is the node that the write reads, possibly the node
    of the storage. The caller's code must write at once, before Python code can run.
    """
    f.when(~_is_alone(f, storage, source), lambda: f.require(f.call("unshared", I1, [storage])))
    f.require(_is_alone(f, storage, source))
    old = f.get(storage, "Storage.node")
    buffer = f.get(old, "Node.buffer")
    f.require(f.is_the(f.get(old, "Node.past"), "None"))
    f.require(f.get(f.get(old, "Node.recipe"), "Recipe.dtype").equals(dtype))
    f.require(f.is_the(f.get(buffer, "Buffer.pins"), "0"))
    f.require(f.is_the(f.get(buffer, "Buffer.frozen"), "False"))
    f.require(lock_is_free(f))
    return buffer


def _is_alone(f: Function, storage: Value, source: Value) -> Value:
    """Emit a test whether a write with the source node `source` is the only reader of a storage's content. The emitted function returns
    null or 0 for a pending node.
    """
    old = f.get(storage, "Storage.node")
    buffer = f.get(old, "Node.buffer")
    f.refuse(f.is_the(buffer, "None"))
    owners = f.selected(source.equals(old), f.constant(I32, 2), f.constant(I32, 1))
    return f.both(f.owners(old).equals(owners), lambda: f.has_one_owner(buffer))


def _unshared(f: Function) -> None:
    """Emit `unshared(storage)`: move the content of a storage from its buffer to a copy without other readers. Return true, or false to
    leave the work to the fallback.
    """
    (storage,) = f.arguments
    old = f.hold(f.get(storage, "Storage.node"))
    recipe = f.get(old, "Node.recipe")
    f.require(f.is_the(f.get(recipe, "Recipe.op"), "DATA"))  # so the node has no sources
    f.require(f.is_the(f.get(old, "Node.past"), "None"))
    nbytes = f.integer(f.get(recipe, "Recipe.nbytes"))
    f.require(nbytes <= LARGEST)
    fresh = f.made(f.call("new_buffer", POINTER, [recipe]))
    node = in_memory(f, recipe, fresh)
    buffer = f.get(old, "Node.buffer")  # read late: Python code may have run and replaced the buffer
    f.require(f.get(storage, "Storage.node").equals(old))
    f.require(f.is_the(f.get(buffer, "Buffer.pins"), "0"))
    f.require(lock_is_free(f))
    f.call("memcpy", POINTER, [address_of(f, fresh), address_of(f, buffer), nbytes])
    f.set(storage, "Storage.node", node)
    f.keeps(node)
    f.drop(old)
    f.let_go(old)
    f.give(f.constant(I1, True))


def number_for(f: Function, value: Value, dtype: Value) -> Value:
    """Emit the number to write: `value` itself, or the element of a tensor with one element of this dtype.

    The new reference is held: each later early exit of the emitted function releases it.
    """

    def of_element() -> list[Value]:
        f.require(f.get(value, "Tensor.dtype").equals(dtype))
        storage = f.get(value, "Tensor.storage")
        has_none = lambda: f.is_the(f.get(f.get(storage, "Storage.node"), "Node.past"), "None")  # noqa: E731
        f.require(f.either(f.is_a(storage, "Element"), lambda: f.both(f.is_a(storage, "Storage"), has_none)))
        return [f.call("only", POINTER, [value])]

    (number,) = f.choose(f.is_a(value, "Tensor"), of_element, lambda: [f.own(value)])
    return f.made(number)


def _put_number(f: Function) -> None:
    """Emit `put_number(start, dtype, offset, number)`: store a Python number of the dtype's range and kind at an element offset.

    The function returns false for other numbers. Floats are rounded to float32 unless they overflow.
    """
    start, dtype, offset, number = f.arguments
    yes = f.constant(I1, True)

    def done(kind: Type, value: Value) -> Value:
        start.at(offset, kind).store(value)
        return yes

    def as_double() -> Value:
        is_float = f.is_a(number, "float")
        f.require(f.either(is_float, lambda: f.is_a(number, "int")))
        f.when(~is_float, lambda: f.require(f.bounded(number)[1]))
        return f.call("PyFloat_AsDouble", DOUBLE, [number])

    def single() -> Value:
        value = as_double()
        size = value.abs()
        f.require(f.either(size <= float32.highest, lambda: f.either(value.is_nan(), lambda: size.equals(float("inf")))))
        return done(FLOAT, value.cast("fptrunc", FLOAT))

    def truth() -> Value:
        f.require(f.is_a(number, "bool type"))
        return done(I8, f.is_the(number, "True").cast("zext", I8))

    def integer(kind: Type, low: int, high: int) -> Value:
        f.require(f.is_a(number, "int"))
        value, fits = f.bounded(number)
        f.require(fits)
        if kind is I64:
            return done(I64, value)
        f.require(f.both(value >= low, lambda: value <= high))
        return done(kind, value.cast("trunc", kind))

    f.when_giving(dtype.equals(f.the(float64.name)), lambda: done(DOUBLE, as_double()))
    f.when_giving(dtype.equals(f.the(float32.name)), single)
    f.when_giving(dtype.equals(f.the(boolean.name)), truth)
    kinds = ((int64, I64), (int32, I32), (uint8, I8), (int16, I16), (int8, I8), (uint16, I16), (uint32, I32))
    for d, kind in kinds:
        f.when_giving(
            dtype.equals(f.the(d.name)), lambda d=d, kind=kind: integer(kind, int(d.lowest), int(d.highest))  # type: ignore[misc]
        )
    f.decline()
