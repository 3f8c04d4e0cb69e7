"""Vectorization over a batch (`tx.vmap`): replay the nodes traced for a single batch element on whole batches, with a new axis in every
layout. A trace calls the function once with placeholders, nodes without a value. The batch of a traced node is a node with the values for
every batch element. The content of a node is the node's elements in row-major order. A traced node reads a placeholder.

The batch axis is first in memory: the batch elements are contiguous. If requested, and if the nodes are elementwise operations, reductions
and stores, the batch axis is last instead. Then a value common to the batch is a single number per vector of batch elements, and reductions
run over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from .._utils import upcalls
from ..graph.node import (
    PLACEHOLDER,
    REINTERPRET,
    TRACED_CONSTANT,
    ExternalOp,
    Node,
    Scalar,
    disable_tape,
    is_externally_shared,
    is_store,
    is_write,
    tape_mode,
    use_tape_mode,
)
from ..layout import Layout
from ..ops import OPS, Op
from ..ops.reductions import Reduction
from .function_op import FunctionOp, make_function_node, make_result_node
from .grad_rule import TapeNodeLike
from .layout_adjoint import Cotangent, get_values, sum_by_source
from .node_view import DeferredTerm, NodeView
from .replay import replay_or_record
from .tape import TapeNode, clone_unshared, get_tape_node

_POSITIVE, _ADD, _MULTIPLY = OPS["positive"], OPS["add"], OPS["multiply"]
BatchComputation = Callable[[Sequence[Node | Scalar]], list[tuple[int, Cotangent]]]


def compute_batches(roots: Sequence[Node], batches: Mapping[Node, Node], size: int, batch_last: bool = False) -> list[NodeView | None]:
    """Return a batch of each root, viewed with the batch axis first; None stands for a root that does not depend on the placeholders.

    `roots` are nodes traced for one batch element. `batches` maps the placeholders of the trace to their batches, with the batch axis first
    in memory. `size` is the number of batch elements. With `batch_last`, the given batches have the batch axis last in memory, and so have
    the results if possible. The batches in the result are pending; the computation is replayed if equal nodes were batched before.
    """
    fast_path = upcalls.installed
    if fast_path is not None:
        extra_inputs: list[Node | Scalar] = []
        words = None if upcalls.node_observer else fast_path.tape_replay.encode_trace(list(roots), list(batches), extra_inputs, False)
        if words is not None:
            make = lambda placeholders: _BatchSignature(_order_nodes(roots, batches)[0], roots, batches, size, batch_last).compute(
                placeholders
            )
            return _replay_batch((size, batch_last, words), [*batches.values(), *extra_inputs], make, len(roots))
    order, follows_from_recipes = _order_nodes(roots, batches)
    if not follows_from_recipes or upcalls.node_observer:
        batches_first = (
            {placeholder: _move_batch_first(placeholder, batch, size) for placeholder, batch in batches.items()} if batch_last else batches
        )
        return _batch_one_by_one(order, roots, batches_first, size)
    signature = _BatchSignature(order, roots, batches, size, batch_last)
    return _replay_batch(signature.key, signature.inputs, signature.compute, len(roots))


def _replay_batch(key: Hashable, inputs: Sequence[Node | Scalar], make: BatchComputation, count: int) -> list[NodeView | None]:
    """Return the batch of each of `count` roots of a `vmap` trace, as a pending view. None stands for a root that does not depend on the
    batch.

    The batches are replayed if `key` is in the cache of recordings. Otherwise `make(placeholders)` is recorded; given placeholders for
    `inputs`, `make` returns pairs of a root's index and batch. `key` must hold everything but the identities of `inputs`. Inputs in
    externally shared memory are copied first.
    """
    copies = _copy_shared(inputs)
    views: list[NodeView | None] = [None] * count
    with use_tape_mode() if tape_mode.get() is False else nullcontext():
        for k, batch in replay_or_record(key, [copies.get(id(x), x) for x in inputs], make):
            views[k] = get_values(batch)
    return views


def _copy_shared(inputs: Iterable[Node | Scalar]) -> dict[int, Node]:
    """Return copies of the nodes among `inputs` that are in externally shared memory, as a dict from the `id` of a node to the copy.

    Pending nodes must not read such memory.
    """
    return {id(x): clone_unshared(x) for x in inputs if type(x) is Node and is_externally_shared(x)}


class _BatchSignature:
    """The signature of the nodes between placeholders and roots. The signature determines the computation of their batches, except for the
    inputs.

    The roots `roots` were traced for a single batch element, and the nodes `order` lead to `roots`, operands first. `batches` maps
    placeholders to their batches of `size` elements, with the batch axis last in memory if `batch_last`, else first.

    `key` is the hashable signature, and `inputs` lists the inputs: the batches, then the values common to the batch. The attributes `order`
    and `roots` keep only nodes that depend on a placeholder; `roots` has pairs of index and root. Equal signatures share a recorded
    computation of the batches.
    """

    def __init__(self, order: Sequence[Node], roots: Sequence[Node], batches: Mapping[Node, Node], size: int, batch_last: bool) -> None:
        self.batches, self.size, self.batch_last = batches, size, batch_last
        # inputs other than placeholders get negative numbers
        number_of = self._number_of = {id(placeholder): k for k, placeholder in enumerate(batches)}
        self.inputs: list[Node | Scalar] = list(batches.values())
        self.order: list[Node] = []  # nodes that depend on the placeholders
        depending = set(batches)
        key: list[object] = [size, batch_last, *[node.recipe for node in batches]]
        for node in order:
            if node in depending or depending.isdisjoint(node.sources):
                continue
            depending.add(node)
            self.order.append(node)
            key += (node.recipe, node.offsets)
            for source in node.sources:  # This loop visits every node of a batch.
                number = number_of.get(id(source))
                if number is None:
                    number = number_of[id(source)] = ~len(self.inputs)
                    self.inputs.append(source)
                    key.append(source.recipe.data_recipe if type(source) is Node else source.dtype)
                key.append(number)
            number_of[id(node)] = len(batches) + len(self.order)
        self.roots = [(k, root) for k, root in enumerate(roots) if root in depending]
        key += [(k, number_of[id(root)]) for k, root in self.roots]
        self.key = tuple(key)

    def compute(self, placeholders: Sequence[Node | Scalar]) -> list[tuple[int, Cotangent]]:
        """Return pairs of a root's index and the root's batch, a pending view with the batch axis first. Roots without a batch have no
        pair.

        `placeholders` stand for `inputs`, in the same order; the batches among them have the batch axis last if `batch_last`. The
        computation keeps this axis last only if every node allows this (`_can_batch_last`).
        """
        batch_of: dict[Node, Node] = dict(zip(self.batches, placeholders, strict=False))  # type: ignore[arg-type]
        replacements = {x: placeholders[~number] for x, number in self._number_of.items() if number < 0}
        batch_last = self.batch_last and _can_batch_last(self.order, batch_of)
        if self.batch_last and not batch_last:
            batch_of = {placeholder: _move_batch_first(placeholder, batch, self.size) for placeholder, batch in batch_of.items()}
        for node in self.order:
            batch_of[node] = _batch_node(node, batch_of, self.size, replacements, batch_last)
        results = []
        for k, root in self.roots:
            layout = Layout.contiguous(root.shape)
            results.append(
                (
                    k,
                    NodeView(
                        batch_of[root],
                        insert_batch_axis(layout, self.size, True, 0) if batch_last else prepend_batch_axis(layout, self.size, root.size),
                    ),
                )
            )
        return results  # type: ignore[return-value]


def _can_batch_last(order: Sequence[Node], placeholders: Collection[Node]) -> bool:
    """Return whether the batch axis can be last in memory for each node of `order`, nodes that depend on `placeholders`, operands first.

    Every operation must be elementwise, a reduction or a store, without offset tables. A reduction of products must remain a matrix product
    that kernels recognize (`_is_one_product`).
    """
    depending = set(placeholders)
    for node in order:
        is_supported = type(node.op) is Op or type(node.op) is Reduction or is_store(node.op)
        has_tables = any([layout is not None and _has_tables(layout) for layout in (*node.layouts, node.target)])
        if not is_supported or has_tables or (type(node.op) is Reduction and not _is_one_product(node, depending)):
            return False
        depending.add(node)
    return True


def _is_one_product(node: Node, depending: Collection[Node]) -> bool:
    """Return whether the reduction `node` stays a single matrix product with the batch axis last; True also for a reduction without
    products.

    `depending` are the nodes with a batch, different for each batch element. Return False if a summand multiplies two batches, so that each
    batch element has a separate product. Also return False if two factors with a batch are broadcast along different axes. The summands are
    the reduced operand, or both operands of an addition.
    """
    read: Any = node.sources[0]
    broadcasts = set[tuple[bool, ...]]()
    for term in read.sources if read.op is _ADD else (read,):
        if type(term) is not Node or term.op is not _MULTIPLY:
            continue
        batched_factors = [k for k, factor in enumerate(term.sources) if factor in depending]
        if len(batched_factors) == 2:
            return False
        for k in batched_factors:
            broadcasts.add(tuple([step == 0 and size > 1 for step, size in zip(term.layouts[k].strides, term.shape, strict=True)]))  # type: ignore[union-attr]
    return len([flags for flags in broadcasts if any(flags)]) < 2


def _has_tables(layout: Layout) -> bool:
    """Return whether `layout`, or a layout further down its view chain, has offset tables."""
    return layout.tables is not None or (layout.base is not None and _has_tables(layout.base))


def _move_batch_first(placeholder: Node, batch: Node, size: int) -> Node:
    """Return a pending copy of `batch`, `size` elements like `placeholder`, with the batch axis moved from the end to the front.

    The result has the shape `(size, *placeholder.shape)`.
    """
    layout = insert_batch_axis(Layout.contiguous(placeholder.shape), size, True, 0)
    return Node.of(_POSITIVE, layout.shape, batch.dtype, (batch,), (layout,))


def _batch_one_by_one(order: Sequence[Node], roots: Sequence[Node], batches: Mapping[Node, Node], size: int) -> list[NodeView | None]:
    """Return the batch of each of `roots`, computed node by node without a cache; None stands for a root that does not depend on
    placeholders.

    This serves nodes that do not follow from recipes alone, and every node while nodes are observed. `order` lists the nodes to compute,
    operands first. `batches` maps the placeholders to their batches, with the batch axis first, and `size` is the number of batch elements.
    A function with a rule of its own gets a single tape node for the whole batch.
    """
    copies = _copy_shared([*batches.values(), *[source for node in order for source in node.sources]])
    batch_of: dict[Node, Node] = {placeholder: copies.get(id(batch), batch) for placeholder, batch in batches.items()}
    computed: dict[tuple[object, ...], Sequence[Node]] = {}  # results of operations outside kernels
    steps: dict[TapeNode, TapeNode] = {}  # maps the tape node of a function with a rule of its own to the tape node of the batch
    for node in order:
        step = _find_function_node(node)
        if node in batch_of or not any([source in batch_of for source in (*node.sources, *(step.sources if step else ()))]):
            continue  # a node that does not depend on the placeholders is common to the batch
        # A node recorded on the tape inside the function is recorded here, whatever the setting at the call of `vmap`. A node computed
        # under `no_grad` is not.
        constant = step is not None or node.tape_node is TRACED_CONSTANT
        with disable_tape() if constant else use_tape_mode() if tape_mode.get() is False else nullcontext():
            op = node.op
            batch = batch_of[node] = (
                _batch_external(node, op, batch_of, size, computed)
                if isinstance(op, ExternalOp)
                else _batch_node(node, batch_of, size, copies)
            )
            if (observer := upcalls.node_observer) is not None:
                observer.observe_batch(batch, node)
        if step is not None:
            if step not in steps:
                steps[step] = _make_batch_node(step, batch_of, batches, size)
            batch_step = steps[step]
            if batch.is_traced or any([get_tape_node(source) is not None for source in batch_step.sources]):
                batch_step.is_traced = batch_step.is_traced or batch.is_traced  # the function may capture a traced value
                batch.tape_node = make_result_node(batch_step, batch, size * node.tape_node.offsets[0])  # type: ignore[union-attr]
    return [NodeView(batch_of[node], Layout.contiguous((size, *node.shape))) if node in batch_of else None for node in roots]


def _order_nodes(roots: Sequence[Node], batches: Collection[Node]) -> tuple[list[Node], bool]:
    """Return the pending traced nodes that lead to `roots`, operands first, without placeholders and nodes in `batches`; and whether the
    batches follow from recipes alone.

    The operands of a function with its own rule (`FunctionOp`) are followed, too. The second result is False if a node is a traced
    constant, is computed outside kernels, or results from a function with its own rule.
    """
    order: dict[Node, None] = {}
    follows_from_recipes = True

    def is_new(x: object) -> bool:
        return (
            type(x) is Node and x.tape_node is not None and x not in order and x.is_traced and x.op is not PLACEHOLDER and x not in batches
        )

    stack = [root for root in reversed(roots) if is_new(root)]
    while stack:
        node = stack[-1]
        step = _find_function_node(node)
        missing = [s for s in (*node.sources, *(step.sources if step else ())) if is_new(s)]
        if missing:
            missing.reverse()
            stack += missing
            continue
        stack.pop()
        if node not in order:
            order[node] = None
            follows_from_recipes = (
                follows_from_recipes and node.tape_node is not TRACED_CONSTANT and step is None and not isinstance(node.op, ExternalOp)
            )
    return list(order), follows_from_recipes


def _batch_node(
    node: Node, batch_of: Mapping[Node, Node], size: int, replacements: Mapping[int, Node | Scalar], batch_last: bool = False
) -> Node:
    """Return the batch of `node`, a node traced for a single batch element: a pending node of the same operation on `size` elements.

    `batch_of` maps sources to their batches. A source without a batch is common to the batch elements; `replacements` may map the `id` of
    such a source to a replacement. With `batch_last`, the batch axis is last in memory, else first, also in the batches of the sources. The
    batch of a write or a reinterpretation is 1-d. An operation outside kernels (`ExternalOp`) is not supported.
    """
    flat = is_write(node.op) or node.op is REINTERPRET  # the result has one axis
    sources: list[Node | Scalar] = []
    layouts: list[Layout | None] = []
    for k, (source, layout) in enumerate(zip(node.sources, node.layouts, strict=True)):
        batch = batch_of.get(source) if type(source) is Node else None
        source = replacements.get(id(source), source)
        if type(source) is Node and batch is None and flat and k == 0:  # each batch element writes to a copy of its own
            repeated = Layout((source.size, size), (1, 0)) if batch_last else Layout((size, source.size), (0, 1))
            batch = Node.of(_POSITIVE, (repeated.size,), source.dtype, (source,), (repeated.reshape((repeated.size,)),))
        sources.append(source if batch is None else batch)
        if layout is None or type(source) is not Node:
            layouts.append(None)
        elif flat and k == 0:
            layouts.append(Layout.contiguous((size * source.size,)))
        elif batch_last:
            layouts.append(insert_batch_axis(layout, size, batch is not None, layout.ndim if flat else len(node.shape)))
        else:
            layouts.append(prepend_batch_axis(layout, size, 0 if batch is None else source.size))
    shape = (size * node.size,) if flat else (*node.shape, size) if batch_last else (size, *node.shape)
    target = node.target
    if target is not None:
        target = insert_batch_axis(target, size, True, target.ndim) if batch_last else prepend_batch_axis(target, size, node.size)
    return Node.of(node.op, shape, node.dtype, tuple(sources), tuple(layouts), target)


def _batch_external(
    node: Node, op: ExternalOp, batch_of: Mapping[Node, Node], size: int, computed: dict[tuple[object, ...], Sequence[Node]]
) -> Node:
    """Return the batch of `node`, a result of the operation `op` outside kernels, which computes several results at once.

    `batch_of` maps sources to their batches with the batch axis first; `size` is the number of batch elements. `computed` maps `op.compute`
    and the sources to the results for the whole batch. New results are added, for the next result of the same call.
    """
    key = (op.compute, *node.sources)
    if key not in computed:
        batches = [batch_of.get(source) if type(source) is Node else None for source in node.sources]
        read = [
            NodeView(source, layout) if batch is None else NodeView(batch, prepend_batch_axis(layout, size, source.size))  # type: ignore[arg-type, union-attr]
            for source, layout, batch in zip(node.sources, node.layouts, batches, strict=True)
        ]
        computed[key] = op.compute(read, [batch is not None for batch in batches], size)
    return computed[key][op.result_number]


def _find_function_node(node: Node) -> TapeNode | None:
    """Return the tape node of the function with `node` as a result, if the function has a rule of its own (`FunctionOp`), else None.

    `vmap` makes a single tape node of the function for the whole batch.
    """
    tape_node = node.tape_node
    step = tape_node.sources[0] if isinstance(tape_node, TapeNode) and tape_node.sources else None
    return step if isinstance(step, TapeNode) and isinstance(step.recipe.op, FunctionOp) else None


def _make_batch_node(step: TapeNode, batch_of: Mapping[Node, Node], batches: Mapping[Node, Node], size: int) -> TapeNode:
    """Return the tape node for a whole batch of a function with a rule of its own. The new VJP is a batch of the function's VJP.

    `step` is the tape node of the function for one batch element. `batch_of` maps nodes, and `batches` placeholders, to their batches of
    `size` elements, with the batch axis first. A source without a batch gets the sum of the cotangents over the batch.
    """
    op: Any = step.recipe.op
    source_batches = {source: batch_of[source] for source in step.sources if source in batch_of}
    all_batches = {**batches, **source_batches}  # inputs of the VJP

    def pull(_: TapeNodeLike, gs: list[NodeView], wanted: Sequence[int]) -> Iterator[tuple[int, Cotangent]]:
        placeholders = [Node.of(PLACEHOLDER, shape, dtype) for shape, dtype, _ in op.result_ranges]
        cotangents = sum_by_source(op.vjp(step, [NodeView(node) for node in placeholders], wanted), step.sources)
        cotangent_batches = compute_batches(
            [x.node for x in cotangents.values()],
            {**all_batches, **{node: g.to_node() for node, g in zip(placeholders, gs, strict=True)}},
            size,
        )
        for (k, x), batch in zip(cotangents.items(), cotangent_batches, strict=True):
            batch_view = view_in_batch(x, batch, size)
            if step.sources[k] in source_batches:
                yield k, batch_view
            else:  # a source common to the batch gets the sum over the batch
                axes = (*range(1, len(batch_view.shape)), 0)
                yield k, DeferredTerm.of(batch_view.map_layout(lambda layout, axes=axes: layout.permute(axes))).sum_trailing(len(axes) - 1)  # type: ignore[misc]

    results = [((size, *shape), dtype) for shape, dtype, _ in op.result_ranges]
    sources = [source_batches.get(source, source) for source in step.sources]
    traced = any([type(source) is Node and source.is_traced for source in sources])
    return make_function_node(FunctionOp(op.name, results, pull, op.recomputes), step.recipe.dtype, sources, traced=traced)


def prepend_batch_axis(layout: Layout, size: int, element_distance: int) -> Layout:
    """Return a layout that reads every batch element as `layout` reads one, with the batch as new first axis of length `size`.

    `element_distance` is the distance of neighbouring batch elements in the memory that `layout` reads, in elements. This is the size of
    one batch element's content, or 0 for memory common to the batch. For a view chain, the innermost view gets this distance.
    """
    tables = None if layout.tables is None else (None, *layout.tables)
    if layout.base is None:
        return Layout((size, *layout.shape), (element_distance, *layout.strides), layout.offset, tables)
    return Layout(
        (size, *layout.shape),
        (layout.base.size, *layout.strides),
        layout.offset,
        tables,
        prepend_batch_axis(layout.base, size, element_distance),
    )


def insert_batch_axis(layout: Layout, size: int, is_batched: bool, axis: int) -> Layout:
    """Return a layout that reads every batch element as `layout` reads one, with the batch axis, of length `size`, at position `axis`.

    If `is_batched`, the source holds a batch with the batch axis last in memory; else the source is common to the batch. `layout` and the
    rest of a view chain must have no offset tables.
    """
    base = None if layout.base is None else insert_batch_axis(layout.base, size, is_batched, layout.base.ndim)
    step, scale = (1, size) if is_batched or base is not None else (0, 1)
    strides = [scale * stride for stride in layout.strides]
    shape = (*layout.shape[:axis], size, *layout.shape[axis:])
    return Layout(shape, (*strides[:axis], step, *strides[axis:]), scale * layout.offset, None, base)


def view_in_batch(x: NodeView, batch: NodeView | None, size: int) -> NodeView:
    """Return the view that reads every element of a batch as `x` reads one. The batch axis, of length `size`, comes first.

    `x` views a node traced for a single batch element. `batch` is the batch of this node, a result of `compute_batches`. None stands for a
    node common to the batch: then every batch element reads the same elements. Nothing is copied.
    """
    if batch is None:
        return NodeView(x.node, prepend_batch_axis(x.layout, size, 0))
    one_by_one = prepend_batch_axis(x.layout, size, x.node.size)
    if batch.layout.is_contiguous():
        return NodeView(batch.node, one_by_one)
    if _has_tables(x.layout):
        return batch.view_through(one_by_one)
    return NodeView(batch.node, insert_batch_axis(x.layout, size, True, 0))
