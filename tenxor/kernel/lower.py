"""From a node to the loops of its kernel, in steps that can each be looked at: what it computes (`draft.py`), in which loops
(`refine.py`, `arrange.py`, `nest.py`), how these run on a machine (`cpu/`), and what of them are arguments (`bind.py`).
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


def lower(root: Node, kernels: Set[Node], target: Target, beside: Sequence[Node] = ()) -> tuple[Kernel, Binding]:
    """The kernel that computes `root`, and what is `beside` it (`together.py`), and the arguments that make it do so for these very
    layouts. The target changes how the loops run, and no result.
    """
    nest = loops_of(root, kernels, target, beside)
    kernel, binding = bind(nest if isinstance(root.op, Scatter) else scheduled(nest, target))
    written, reduced = nest.visits()
    work = written + reduced // (1 if kernel.product is None else target.costs.product)
    return kernel, binding._replace(work=work, nest=nest)


def drafted(root: Node, kernels: Set[Node], beside: Sequence[Node] = ()) -> Draft:
    """The draft of the kernel that computes `root`, with its loops cut where chains turn. Reductions share loops where each goes as it
    would on its own, so none adds otherwise for what else there is in a kernel.
    """
    d = draft(root, kernels, beside=beside)
    refine(d)
    each = ways(d)
    alike = {f.axes: each[f.accumulator] for f in d.reductions if f.accumulator in each}
    if any([each[f.accumulator] != alike[f.axes] for f in d.reductions if f.accumulator in each]):
        d = draft(root, kernels, {node: each[k] for k in each for node in d.reduced[k]}, beside)
        refine(d)
    return d


def loops_of(root: Node, kernels: Set[Node], target: Target, beside: Sequence[Node] = ()) -> Nest:
    """The loops that compute `root` and what is `beside` it, reading what is in memory and the results of other `kernels`."""
    d = drafted(root, kernels, beside)
    if isinstance(root.op, Scatter):
        from .scatter import scattered

        return scattered(d, target)
    return nested(d)
