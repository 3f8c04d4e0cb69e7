"""Recipes for updates in place: `x[1:] += y` computed where the part is stored, by one kernel (`code/updating.py`)."""

from __future__ import annotations

from ..layout import Layout
from ..memory import allocate
from ..node import UPDATE, Node, Recipe, data, recipe_of
from ..ops import OPS, Op
from ..spec import Made, remember
from ..tensor import Tensor
from ..tensor.writing import broadcast_layout, is_update
from .frames import NEVER

SMALLEST, LARGEST = 1 << 14, 1 << 25  # bytes of a part: a smaller one is computed and copied faster than analysed
THIN = 8  # least ratio of the sizes of a node and of a source copied for it
CHEAP = ("add", "subtract", "multiply")  # cheap enough to be computed twice, if the node is asked for later
_CHEAP = frozenset(OPS[name] for name in CHEAP)
_POSITIVE = OPS["positive"]


def learn_update(x: Tensor, result: Tensor) -> None:
    """Record the recipe that computes the pending `result` over the part `x` of a storage, or record that the update is impossible.

    The result reads `x`. The key is the recipe of the result and the element count of the storage.
    """
    old, node = x.storage.node, result.storage.node
    if old.buffer is not None and node.buffer is None:
        remember(x.spec.called, "update", (node.recipe, old.size), Made(x.spec, _update(x, old, node, result)))


def _update(x: Tensor, old: Node, node: Node, result: Tensor) -> Recipe | None:
    """Return the recipe of a node that computes `result` over the part `x`, in place; None if this is impossible.

    `old` is the node of the storage of `x`, and `node` the pending node of `result`, which reads `old`.
    """
    spec = x.spec
    if old.dtype is not spec.dtype or not isinstance(node.op, Op) or node.recipe.passing or spec.form.passing:
        return None
    if spec.strides is None or spec.nbytes > LARGEST or not x.layout.is_injective():
        return None
    if [offset for s, offset in zip(node.sources, node.offsets, strict=True) if s is old] != [x.offset]:
        return None
    apart = tuple([data(allocate(0), s.shape, s.dtype) if type(s) is Node else s for s in node.sources])
    twin = apart[node.sources.index(old)]
    assert type(twin) is Node
    value, through = Node(node.recipe, apart, node.offsets), broadcast_layout(result.layout, spec.shape, "assignment")
    if not is_update(value, through, twin, x.layout):
        return None
    whole = Layout.contiguous((old.size,))
    return Node.of(UPDATE, (old.size,), spec.dtype, (twin, value), (whole, through), x.layout).recipe


def have_apart(node: Node, which: int) -> None:
    """Record in the recipe of `node` how to make the node from copies of some sources: source k is copied if bit k of `which` is set.

    The record is a recipe and the recipes of the copies, or `NEVER`. With copies, a pending node no longer depends on memory about to be
    overwritten by an update.
    """
    recipe = node.recipe
    if recipe.apart is None:
        recipe.apart = {}
    recipe.apart[which] = _apart(recipe, which)


def _apart(recipe: Recipe, which: int) -> object:
    """Return a recipe that reads copies of the sources with a bit set in `which`, and a tuple of the recipes of the copies.

    The tuple has None for a source read directly. Return `NEVER` unless the operation is cheap and each copy is at most 1/`THIN` of the
    result. A copy holds only the distinct elements of a broadcast source.
    """
    if recipe.op not in _CHEAP or recipe.passing or recipe.target is not None:
        return NEVER
    forms, copies = list(recipe.forms), [None] * len(recipe.forms)
    for k, form in enumerate(recipe.forms):
        if form is None or not which >> k & 1:
            continue
        layout: Layout = form.layout
        if layout.base is not None or layout.tables is not None:
            return NEVER
        shape = tuple([n if stride else min(n, 1) for n, stride in zip(layout.shape, layout.strides, strict=True)])
        read = Layout(shape, layout.strides)
        if read.size * THIN > recipe.size:
            return NEVER
        dtype = recipe.dtypes[k]
        copies[k] = recipe_of(_POSITIVE, shape, dtype, (dtype,), (read.form,))  # type: ignore[call-overload]
        forms[k] = Layout.contiguous(shape).expand(layout.shape).form
    return recipe_of(recipe.op, recipe.shape, recipe.dtype, recipe.dtypes, tuple(forms)), tuple(copies)
