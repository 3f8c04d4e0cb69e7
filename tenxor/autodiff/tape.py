"""The autograd tape: a record of how nodes were computed, kept as long as derivatives may be requested.

A node with an operand on the tape gets a tape node (`TapeNode`, in PyTorch `grad_fn`) at creation. The tape node holds the recipe, the tape
nodes of the operands, and only the operand values needed by the derivative (the residuals). Derivatives do not depend on when a node is
computed or whether memory is reused, and a value not needed by a derivative is freed as early as without derivatives. A tape node never
refers to its own graph node. Where the derivative reads the result, the tape nodes of readers hold the graph node in place of its tape
node.

The rule of an operation determines its residuals (`rule_table.py`).
"""

from __future__ import annotations

from typing import Any

from .._utils.lazy import LazyFunctions
from ..graph.node import (
    NO_RESIDUALS,
    TRACED,
    TRACED_CONSTANT,
    Node,
    Recipe,
    disable_tape,
    is_externally_shared,
    make_data_node,
    next_serial,
    tape_mode,
)
from ..layout import Layout
from ..ops import OPS
from ..runtime.realize import realize

rule_table = LazyFunctions("tenxor.autodiff.rule_table")  # imported with the first tape node that reads a node on the tape
_POSITIVE = OPS["positive"]

TapeSource = Any  # TapeNode | Node | Scalar | None


class TapeNode:
    """A node of the autograd tape: how a graph node was computed. In PyTorch this is a `grad_fn`.

    `recipe` and `offsets` are those of the graph node. `sources` has an entry for each operand of the recipe. An operand on the tape is a
    `Node` if the value is a residual, or if the operand's own derivative reads this value; otherwise a `TapeNode`. An operand not on the
    tape is a `Node` if the value is a residual, otherwise None; a number stays a `Scalar`. A tape node without sources is a leaf.

    `reads_result` is True if the derivative reads the value of the graph node. `serial`, the serial number, is larger than the serial
    numbers of the sources. `grad_hook` is the `GradHandler` that receives the cotangent in a backward pass, or None. `is_traced` is True if
    the node reads an argument of a function being traced.
    """

    __slots__ = ("__weakref__", "serial", "offsets", "reads_result", "recipe", "sources", "is_traced", "grad_hook")

    def __init__(
        self,
        recipe: Recipe,
        sources: tuple[TapeSource, ...] = (),
        offsets: tuple[int, ...] = (),
        *,
        serial: int | None = None,
        reads_result: bool = False,
        is_traced: bool = False,
    ) -> None:
        self.recipe, self.sources, self.offsets, self.is_traced = recipe, sources, offsets, is_traced
        self.serial = next_serial() if serial is None else serial
        self.reads_result = reads_result
        self.grad_hook: Any = None

    def make_tape_node(self, node: Node, serial: int) -> Any:
        """Return the tape entry of `node`, a new node with the serial number `serial` that reads a node with this tape node.

        While a tape is recorded (`tape_mode` is True), the entry is a new tape node. Otherwise, or if the dtype of `node` has no
        derivative, the entry is None, or a mark if an operand reads an argument of a function being traced. The mark is `TRACED_CONSTANT`
        if `tape_mode` is False, else `TRACED`. The caller sets `node.tape_node`. A residual in externally shared memory is copied at once.
        Raise DerivativeError if the operation has no rule. The fast path does the same in `fastpath/emit/tape_nodes.py`.
        """
        recipe, sources = node.recipe, node.sources
        tracked, bit, traced = 0, 1, False  # This loop runs for every operation, so it is kept short.
        for s in sources:
            if type(s) is Node and s.tape_node is not None:
                traced = traced or s.tape_node.is_traced
                if type(s.tape_node) is TapeNode:
                    tracked |= bit
            bit += bit
        is_recording = tape_mode.get()
        if not is_recording:
            return None if not traced else TRACED_CONSTANT if is_recording is False else TRACED
        cached_needs: Any = recipe.residuals
        needs = None if cached_needs is None else cached_needs.get(tracked)
        if needs is None:
            needs = rule_table.find_residuals(recipe, tracked)
            if cached_needs is None:
                recipe.residuals = {tracked: needs}
            else:
                cached_needs[tracked] = needs
        if needs is NO_RESIDUALS:
            return TRACED if traced else None
        tape_sources: list[TapeSource] = []
        for s, needed in zip(sources, needs.reads_sources):  # noqa: B905  # `needs.reads_sources` has as many entries as `sources`
            if type(s) is not Node:
                tape_sources.append(s)
            elif not needed:
                tape_node: Any = s.tape_node
                tape_sources.append(None if type(tape_node) is not TapeNode else s if tape_node.reads_result else tape_node)
            elif s.buffer is not None and s.buffer.externally_shared:
                tape_sources.append(clone_unshared(s))
            else:
                tape_sources.append(s)
        return TapeNode(recipe, tuple(tape_sources), node.offsets, serial=serial, reads_result=needs.reads_result, is_traced=traced)

    @property
    def layouts(self) -> tuple[Layout | None, ...]:
        """The layout through which the operation read each source, in the order of `sources`; None for a number."""
        pairs = zip(self.recipe.layout_keys, self.offsets)  # noqa: B905  # the last offset may be the target's
        return tuple([None if layout_key is None else layout_key.layout.at(offset) for layout_key, offset in pairs])

    @property
    def target(self) -> Layout:
        """The layout through which a store, a scatter or a running reduction (`Scan`) wrote the result. Without a target, AssertionError is
        raised.
        """
        layout_key = self.recipe.target
        assert layout_key is not None
        layout: Layout = layout_key.layout.at(self.offsets[-1])
        return layout

    def __repr__(self) -> str:
        return f"TapeNode({self.recipe.op}, {self.recipe.shape})"


FREED_SOURCES: tuple[TapeSource, ...] = (None,)  # the sources of a tape node whose residuals were freed


def get_tape_node(source: TapeSource) -> TapeNode | None:
    """Return the tape node of the graph node `source`, or None without a tape node. A tape node is returned itself.

    A number and None give None.
    """
    if type(source) is Node:
        source = source.tape_node
    return source if type(source) is TapeNode else None


def copy_detached(node: Node) -> Node:
    """Return a new node with the content of `node` but without a tape node: a constant for derivatives.

    If `node` is in memory, both share the buffer; only externally shared memory is copied, at once. For a pending `node` the result is a
    pending copy.
    """
    if node.buffer is not None and not is_externally_shared(node):
        return make_data_node(node.buffer, node.shape, node.dtype)
    with disable_tape():
        result = Node.of(_POSITIVE, node.shape, node.dtype, (node,), (Layout.contiguous(node.shape),))
    if is_externally_shared(node):
        realize(result)  # computed now, before foreign code writes the memory
    return result


def clone_unshared(source: Node) -> Node:
    """Return a new node with the content and the tape node of `source`.

    If `source` is in memory, both share the buffer; only externally shared memory is copied, at once. For a pending `source`, the result is
    a pending copy.
    """
    copy = copy_detached(source)
    copy.tape_node = source.tape_node
    return copy
