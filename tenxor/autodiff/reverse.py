"""Reverse mode: collect the tape that leads to given results, and run the backward pass over it.

The tape is a graph of `TapeNode` objects, one for each recorded node (in PyTorch: `grad_fn`). The serial number of a tape node is
larger than the numbers of the operands, so sorting by number is a topological sort. The backward pass visits each tape node once,
newest first, and adds up the arriving cotangents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext

from .._utils import upcalls
from .._utils.records import NamedTuple
from ..errors import DerivativeError
from ..graph.node import Node, use_tape_mode
from .backward_pass import CotangentCallback, CotangentLists, VisitedCallback, run_backward_pass
from .node_replay import replay_sum
from .node_view import NodeView
from .segment_signature import TapeGraph, get_serial_number
from .tape import FREED_SOURCES, TapeNode, TapeSource, get_tape_node

Root = tuple[Node, NodeView]  # a result, and the cotangent of its content


class TapeSlice(NamedTuple):
    """A slice of the tape: the tape nodes behind given results.

    `order` lists the tape nodes, oldest first. `result_nodes` maps each tape node whose derivative reads the result to the graph node that
    holds the result. `has_older` is True if the tape continues beyond the slice, to nodes older than the first requested number.
    """

    order: list[TapeNode]
    result_nodes: dict[TapeNode, Node]
    has_older: bool

    def recording_context(self, inputs: Iterable[NodeView]) -> AbstractContextManager[None]:
        """Return the context manager in which to compute derivatives of this slice from `inputs`, the initial cotangents or tangents.

        The context keeps the caller's tape mode, for second derivatives, if the slice continues to older nodes or an element of `inputs` is
        on a tape. Otherwise new nodes get no tape nodes (`use_tape_mode(None)`).
        """
        is_recording = self.has_older or any([get_tape_node(g.node) is not None for g in inputs])
        return nullcontext() if is_recording else use_tape_mode(None)


def collect_tape(roots: Iterable[Node], oldest: int = 0) -> TapeSlice:
    """Return the slice of the tape that the nodes `roots` depend on, leaving out tape nodes with a serial number below `oldest`.

    A caller that needs the derivatives by certain nodes passes the smallest of their numbers, so that the walk ends there. A root that is
    not on the tape adds nothing. Raise DerivativeError if a tape node of the slice was freed by an earlier backward pass without
    `retain_graph=True`.
    """
    stack: list[TapeSource] = list(roots)
    fast_path = upcalls.installed
    collected = None if fast_path is None else fast_path.tape_replay.collect_tape(stack, oldest)
    if collected is not None:
        return TapeSlice(sorted(collected[0], key=get_serial_number), *collected[1:])
    visited: set[TapeNode] = set()
    nodes: dict[TapeNode, Node] = {}
    goes_on = False
    while stack:  # This loop visits the whole tape of a result, so it tests types directly and calls no functions.
        operand = stack.pop()
        kind = type(operand)
        tape_node = operand if kind is TapeNode else operand.tape_node if kind is Node else None
        if type(tape_node) is not TapeNode or tape_node in visited:
            continue
        if tape_node.serial < oldest:
            goes_on = True
            continue
        if tape_node.sources is FREED_SOURCES:
            raise DerivativeError(
                "backward: an earlier backward() freed the saved values of this graph; call the earlier backward() with retain_graph=True,"
                " or compute the tensor again; update tensors that require gradients inside `with tx.no_grad():`"
            )
        if tape_node.reads_result and kind is Node:  # a reader of such a tape node refers to the graph node instead
            nodes[tape_node] = operand
        visited.add(tape_node)
        stack += tape_node.sources
    return TapeSlice(sorted(visited, key=get_serial_number), nodes, goes_on)


def reachable_from(order: Sequence[TapeNode], sources: Iterable[TapeNode]) -> set[TapeNode]:
    """Return the tape nodes of `order` that depend on the tape nodes `sources`, together with `sources`. `order` is oldest first."""
    dependents = set(sources)
    for tape_node in order:
        for operand in tape_node.sources:
            if (operand if type(operand) is TapeNode else operand.tape_node if type(operand) is Node else None) in dependents:
                dependents.add(tape_node)
                break
    return dependents


def compute_cotangents(roots: Sequence[Root], wanted: Collection[TapeNode]) -> dict[TapeNode, NodeView]:
    """Return the cotangents of the tape nodes `wanted`, given `roots`, pairs of a result and the cotangent of the content.

    A cotangent has the shape of the content, and may be pending. A tape node that no result depends on has no entry. No residual is freed.
    Raise DerivativeError if an earlier backward pass has freed a tape node, or an operation has no derivative.
    """
    tape_slice = collect_tape([node for node, _ in roots], min([tape_node.serial for tape_node in wanted], default=0))
    wanted_set = frozenset(wanted)
    result: dict[TapeNode, NodeView] = {}

    def on_cotangent(tape_node: TapeNode, g: NodeView) -> NodeView:
        result[tape_node] = g
        return g

    with tape_slice.recording_context([g for _, g in roots]):
        _run_from_roots(roots, tape_slice, wanted_set, on_cotangent)
    return result


def compute_at_boundary(roots: Sequence[Root], wanted: Collection[TapeNode], boundary: Collection[TapeNode]) -> dict[TapeNode, NodeView]:
    """Return the cotangents of the tape nodes `wanted`, with a backward pass that stops at the tape nodes `boundary`, the boundary.

    `roots` are pairs of a result and its cotangent. `wanted` is a subset of `boundary`. The boundary nodes count as independent variables:
    the cotangent of a boundary node leaves out contributions through the rest of the boundary. A tape node without influence on the results
    has no entry. A cotangent has the shape of the content, and may be pending.
    """
    tape_slice = collect_tape([node for node, _ in roots], min([tape_node.serial for tape_node in wanted], default=0))
    depends = reachable_from(tape_slice.order, wanted)
    inner_graph = TapeGraph([tape_node for tape_node in tape_slice.order if tape_node not in boundary], tape_slice.result_nodes, depends)
    with tape_slice.recording_context([g for _, g in roots]):
        cotangent_lists = _initial_cotangents(roots, depends)
        run_backward_pass(cotangent_lists, inner_graph, frozenset(), lambda tape_node, g: g, lambda tape_nodes: None)
        return {tape_node: replay_sum(cotangent_lists[tape_node], tape_node.recipe) for tape_node in wanted if tape_node in cotangent_lists}


def accumulate_grads(roots: Sequence[Root], *, free_residuals: bool) -> None:
    """Run the backward pass of `Tensor.backward`: pass the cotangent of each tape node with a handler to its `GradHandler`.

    The handler runs hooks and adds to the gradient, which may stay pending. `roots` are pairs of a result and the cotangent of the content.
    With `free_residuals`, each visited tape node drops the sources, and so the residuals, unless it is a leaf or traced by `vmap`. A second
    backward pass over the same tape then raises DerivativeError.
    """
    tape_slice = collect_tape([node for node, _ in roots])

    def on_cotangent(tape_node: TapeNode, g: NodeView) -> NodeView:
        assert tape_node.grad_hook is not None
        cotangent: NodeView = tape_node.grad_hook.receive(g)
        return cotangent

    def on_visited(tape_nodes: Sequence[TapeNode]) -> None:
        for tape_node in tape_nodes if free_residuals else ():
            if tape_node.sources and not tape_node.is_traced:  # `vmap` replays a traced tape later, for the whole batch
                tape_node.sources = FREED_SOURCES

    _run_from_roots(
        roots,
        tape_slice,
        frozenset([tape_node for tape_node in tape_slice.order if tape_node.grad_hook is not None]),
        on_cotangent,
        on_visited,
    )


def _run_from_roots(
    roots: Sequence[Root],
    tape_slice: TapeSlice,
    wanted: frozenset[TapeNode],
    on_cotangent: CotangentCallback,
    on_visited: VisitedCallback = lambda tape_nodes: None,
) -> None:
    """Run the backward pass over `tape_slice`, visiting only tape nodes that depend on `wanted`.

    `roots` are pairs of a result and its cotangent. `on_cotangent` receives each tape node in `wanted` with a cotangent, and the cotangent;
    the result is the cotangent to continue with. `on_visited` receives each segment, a list of tape nodes visited together, after the
    visit. The dict `tape_slice.result_nodes` is emptied.
    """
    depends = reachable_from(tape_slice.order, wanted)
    run_backward_pass(
        _initial_cotangents(roots, depends), TapeGraph(tape_slice.order, tape_slice.result_nodes, depends), wanted, on_cotangent, on_visited
    )


def _initial_cotangents(roots: Sequence[Root], depends: Collection[TapeNode]) -> CotangentLists:
    """Return the initial cotangents of the backward pass, as a list for each tape node, for the results whose tape node is in `depends`.

    `roots` are pairs of a result and its cotangent.
    """
    cotangent_lists: CotangentLists = {}
    for node, g in roots:
        tape_node = get_tape_node(node)
        if tape_node is not None and tape_node in depends:
            cotangent_lists.setdefault(tape_node, []).append(g)
    return cotangent_lists


def find_segment_inputs(roots: Iterable[Node], oldest: int) -> list[TapeSource]:
    """Return the inputs of the tape segment that leads to `roots`, recorded since the serial number `oldest`.

    The inputs are the roots and operands whose own tape node has a serial number below `oldest`. An input is a graph node, or a tape node
    where no derivative reads the input's value. Each tape node gives one input.
    """
    roots = list(roots)
    operand_of = {
        get_tape_node(operand): operand
        for operand in (*roots, *[operand for tape_node in collect_tape(roots, oldest).order for operand in tape_node.sources])
    }
    return [operand for tape_node, operand in operand_of.items() if tape_node is not None and tape_node.serial < oldest]


def detach_segment(node: Node, oldest: int, *, even_if_older: bool = False) -> None:
    """Detach `node` from the tape segment recorded since the number `oldest`, to free the residuals of the segment.

    The tape nodes of the segment lose their sources, and `node` loses the tape node. Tape nodes numbered below `oldest` stay intact.
    Nothing happens if `node` is off the tape, or older itself. A segment that reads older nodes may belong to an outer derivative, so it is
    detached only if `even_if_older`. A traced node is never detached, as `vmap` replays the tape for the whole batch.
    """
    tape_node = get_tape_node(node)
    if tape_node is None or tape_node.serial < oldest or node.is_traced:
        return
    tape_slice = collect_tape([node], oldest)
    if even_if_older or not tape_slice.has_older:
        for tape_node in tape_slice.order:
            tape_node.sources = ()
        node.tape_node = None
