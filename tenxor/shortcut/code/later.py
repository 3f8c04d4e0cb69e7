"""Emitters for deferred mask selections, `x[mask]` of a large tensor (`selected.py`).

The elements are selected when they are needed. They never are if values computed from them are written back through the same mask: then one
masked kernel does both (`spreading.py`).
"""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I8, I64, POINTER
from ..moves import COUNT, ITEM, KEY_ITEM, KIND, MASK, WIDTH
from ..objects import BYTES, Objects
from ..selected import LEAST
from .compute import lock_is_free, settled
from .function import Function
from .graph import UNKNOWN, ask_for_frame
from .read import address_of
from .record import is_eager
from .updating import give_if_done_over


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
    later = [(name, POINTER) for name in ("x", "key", "node", "mask", "frame", "rows")]
    _selected_node(Function(module, objects, "selected_node", [*later[:-1], ("like", POINTER)]))
    _selected_later(Function(module, objects, "selected_later", later))
    _selected_now(Function(module, objects, "selected_now", [("node", POINTER)], I1))
    _finish_for_python(Function(module, objects, "finish_selected", [("self", POINTER), ("node", POINTER)], exported=True))
    _over(Function(module, objects, "computed_over", [("node", POINTER), ("reads", I64), ("asks", I1)], I1))


def _is_much(f: Function, program: Value) -> Value:
    """Emit a test whether a key is a mask of a large tensor. `program` is the address of the copy descriptor of the selected rows."""
    return f.both(f.word(program, KIND).equals(MASK), lambda: f.word(program, COUNT) * f.word(program, WIDTH) >= LEAST)


def may_wait(f: Function, program: Value, node: Value, mask: Value) -> Value:
    """Emit a test whether a mask selection may be deferred: it is large, neither buffer is externally shared, and no call is being
    recorded.

    `program` is the address of the copy descriptor; `node` and `mask` are the nodes selected from and of the mask, in memory.
    """
    is_own = lambda: f.both(_is_unpinned(f, node), lambda: _is_unpinned(f, mask))  # noqa: E731
    return f.both(f.both(_is_much(f, program), lambda: is_eager(f)), is_own)


def _is_unpinned(f: Function, node: Value) -> Value:
    """Emit a test whether the buffer of a node in memory is not externally shared."""
    return f.is_the(f.get(f.get(node, "Node.buffer"), "Buffer.pins"), "0")


def _selected_later(f: Function) -> None:
    """Emit `selected_later(x, key, node, mask, frame, rows)`: return a new tensor of the rows of `x` that the mask `key` selects, deferred.

    `node` and `mask` are the nodes of `x` and `key`, `frame` is the copy descriptor, and `rows` the template for the number of rows.
    """
    x, key, node, mask, frame, rows = f.arguments
    waits = f.made(f.call("selected_node", POINTER, [x, key, node, mask, frame, f.get(rows, "Made.recipe")]))
    f.keeps(waits)
    f.give(f.call("given", POINTER, [waits, f.own(f.get(rows, "Made.spec")), f.constant(I1, False)]))


def _selected_node(f: Function) -> None:
    """Emit `selected_node(x, key, node, mask, frame, like)`: return a pending node of the rows of `node` that `mask` selects.

    The tensors `x` and `key` give the views of these two nodes, and `frame` is the copy descriptor. The new node has the shape and dtype of
    the recipe `like`.
    """
    x, key, node, mask, frame, like = f.arguments
    slots = [(x, "spec"), (x, "offset"), (key, "spec"), (key, "offset")]
    spec, offset, mask_spec, mask_offset = [f.hold(f.get(tensor, f"Tensor.{slot}")) for tensor, slot in slots]
    made = f.new("Selected", spec=spec, offset=offset, mask_spec=mask_spec, mask_offset=mask_offset, frame=f.hold(frame))
    shape, dtype, empty = f.get(like, "Recipe.shape"), f.get(like, "Recipe.dtype"), f.the("()")
    through = f.tuple_of(f.own(f.the("None")))
    recipe = f.made(f.call("recipe_through", POINTER, [f.the("UNFINISHED"), shape, dtype, empty, through, f.the("True")]))
    f.let_go(through)
    sources = f.tuple_of(made, f.hold(node), f.hold(mask))
    f.keeps(recipe, sources)
    f.give(f.call("pending", POINTER, [recipe, sources, f.own(empty), f.constant(I1, False)]))


def _selected_now(f: Function) -> None:
    """Emit `selected_now(node)`: carry out the deferred mask selection of a node; return whether it is computed."""
    (node,) = f.arguments
    f.require(f.is_the(f.get(node, "Node.buffer"), "None"))
    sources = f.hold(f.get(node, "Node.sources"))
    how, x, mask = (f.item(sources, k) for k in range(3))
    f.require(f.is_a(how, "Selected"))
    f.when(f.is_the(f.get(x, "Node.buffer"), "None"), lambda: f.require(f.call("computed", I1, [x])))
    frame = f.get(how, "Selected.frame")
    program = f.at(frame, BYTES)
    out = f.made(f.call("memory_for", POINTER, [f.get(node, "Node.recipe")]))
    f.require(lock_is_free(f))
    f.require(f.is_the(f.get(node, "Node.buffer"), "None"))  # only now, as Python may have run
    start, begin = (
        address_of(f, f.get(of, "Node.buffer")).at(f.integer(f.get(how, f"Selected.{slot}")) * f.word(program, item), I8)
        for of, slot, item in ((x, "offset", ITEM), (mask, "mask_offset", KEY_ITEM))
    )
    f.call("read_rows", I1, [address_of(f, out), start, f.nothing(), begin, frame, f.number(0), f.word(program, WIDTH)])
    f.keeps(out)
    settled(f, node, out)
    f.let_go(sources)
    f.give(f.constant(I1, True))


def _finish_for_python(f: Function) -> None:
    """Emit `finish_selected(node)`, called from Python: carry out the deferred mask selection of a node. Return whether it is computed."""
    _, node = f.arguments
    f.when_giving(f.call("selected_now", I1, [node]), lambda: f.own(f.the("True")))
    f.tell_what_was_met()
    f.give(f.own(f.the("False")))


def is_written_where(f: Function, x: Value, key: Value, value: Value, frame: Value) -> Value:
    """Emit an attempt to do `x[key] = value` by one kernel that computes `value`, large and pending, under the mask (`spreading.py`).

    Return whether it was done. `frame` is the copy descriptor of the selected rows.
    """

    def waits() -> Value:
        storage = f.get(value, "Tensor.storage")
        is_pending = lambda: f.is_the(f.get(f.get(storage, "Storage.node"), "Node.buffer"), "None")  # noqa: E731
        return f.both(f.is_a(storage, "Storage"), is_pending)

    may_be = f.both(f.both(_is_much(f, f.at(frame, BYTES)), lambda: f.is_a(value, "Tensor")), waits)
    found = f.both(may_be, lambda: f.call("written_where", I1, [x, key, value, frame]))
    f.require(f.either(found, lambda: f.is_null(f.call("PyErr_Occurred", POINTER, []))))
    return found


def _over(f: Function) -> None:
    """Emit `computed_over(node, reads, asks)`: run a pending update in the memory that it overwrites; return whether it ran.

    The old content must have exactly `reads` references, all from the update. If `asks`, Python makes a missing launch record.
    """
    node, reads, asks = f.arguments
    f.require(f.is_the(f.get(node, "Node.buffer"), "None"))
    old = f.item(f.get(node, "Node.sources"), 0)
    buffer = f.get(old, "Node.buffer")
    f.refuse(f.is_the(buffer, "None"))
    f.require(f.owners(old).cast("zext", I64).equals(reads))
    done = give_if_done_over(f, node, buffer)
    f.require(f.both(asks, lambda: done.equals(UNKNOWN)))
    ask_for_frame(f, "have_update_framed", node)
    f.give(f.call("computed_over", I1, [node, reads, f.constant(I1, False)]))
