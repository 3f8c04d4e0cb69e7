"""The steps from a node to the loops of its kernel. The result of each step can be inspected.

`draft.py` finds the computation; `refine.py`, `arrange.py` and `nest.py` build the loops. The passes in `cpu/` schedule the loops for a
machine, and `bind.py` turns numbers into parameters.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from ..node import Node, Scatter
from ..target import Target
from .arrange import ways
from .bind import Binding, bind
from .cpu.schedule import scheduled
from .draft import draft
from .drafted import Draft
from .ir import Kernel
from .nest import Nest, nested
from .refine import refine


def lower(root: Node, kernels: Set[Node], target: Target, extra_outputs: Sequence[Node] = ()) -> tuple[Kernel, Binding]:
    """Return the kernel that computes `root` and the nodes in `extra_outputs`, with the arguments for the layouts of exactly these nodes.

    `kernels` are nodes computed by separate kernels; this kernel reads their results from memory. `extra_outputs` are additional
    results of this kernel (`together.py`). The target decides how the loops run, but changes no value.
    """
    nest = loops_of(root, kernels, target, extra_outputs)
    kernel, binding = bind(nest if isinstance(root.op, Scatter) else scheduled(nest, target))
    written_count, reduced_count = nest.visits()
    work = written_count + reduced_count // (1 if kernel.product is None else target.costs.product)
    return kernel, binding._replace(work=work, nest=nest)


def drafted(root: Node, kernels: Set[Node], extra_outputs: Sequence[Node] = ()) -> Draft:
    """Return the draft of the kernel that computes `root` and the nodes in `extra_outputs`, with loops split where view chains wrap around.

    Reductions share loops only if each would order the loops in the same way on its own. So no reduction adds in another order because of
    neighbours in the kernel.
    """
    d = draft(root, kernels, extra_outputs=extra_outputs)
    refine(d)
    loop_keys = ways(d)
    shared_keys = {f.axes: loop_keys[f.accumulator] for f in d.reductions if f.accumulator in loop_keys}
    if any([loop_keys[f.accumulator] != shared_keys[f.axes] for f in d.reductions if f.accumulator in loop_keys]):
        d = draft(root, kernels, {node: loop_keys[k] for k in loop_keys for node in d.reduced[k]}, extra_outputs)
        refine(d)
    return d


def loops_of(root: Node, kernels: Set[Node], target: Target, extra_outputs: Sequence[Node] = ()) -> Nest:
    """Return the unscheduled loop nest that computes `root` and `extra_outputs`, reading memory and the results of `kernels`."""
    d = drafted(root, kernels, extra_outputs)
    if isinstance(root.op, Scatter):
        from .scatter import scattered

        return scattered(d, target)
    return nested(d)
