"""How what an operation makes of a part, and of what is beside it, is computed where the part lies (`code/updating.py`): written down."""

from __future__ import annotations

from ..layout import Layout
from ..memory import allocate
from ..node import UPDATE, Node, Recipe, data, recipe_of
from ..ops import OPS, Op
from ..spec import Made, remember
from ..tensor import Tensor
from ..tensor.writing import broadcast_layout, is_update
from .frames import NEVER

SMALLEST, LARGEST = 1 << 14, 1 << 25  # bytes of a part: less is sooner computed and copied than it is found how to do without
THIN = 8  # times as large as what it reads is a node at least that is made again of copies of that
CHEAP = ("add", "subtract", "multiply")  # to be done twice, if somebody asks for it
_CHEAP = frozenset(OPS[name] for name in CHEAP)
_POSITIVE = OPS["positive"]


def learn_update(x: Tensor, result: Tensor) -> None:
    """Write down how a result like this, which waits, is computed over a part like this that it is made of, or that it is not known: by the
    recipe of the result, and how many elements there are of which this is a part.
    """
    old, node = x.storage.node, result.storage.node
    if old.buffer is not None and node.buffer is None:
        remember(x.spec.called, "update", (node.recipe, old.size), Made(x.spec, _update(x, old, node, result)))


def _update(x: Tensor, old: Node, node: Node, result: Tensor) -> Recipe | None:
    """The recipe of the write; None if it cannot be done in place."""
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
    """Write down how a node is made of copies of those of its sources that have a bit in `which`: of which recipe, and of which the copies
    are; or that it is not.
    """
    recipe = node.recipe
    if recipe.apart is None:
        recipe.apart = {}
    recipe.apart[which] = _apart(recipe, which)


def _apart(recipe: Recipe, which: int) -> object:
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
