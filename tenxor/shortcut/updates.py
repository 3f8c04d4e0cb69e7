"""How what an operation makes of a part, and of what is beside it, is computed where the part lies (`updating.py`): written down."""

from __future__ import annotations

from ..layout import Layout
from ..memory import allocate
from ..node import UPDATE, Node, Recipe, data, recipe_of
from ..ops import OPS, Op
from ..spec import Made, remember
from ..tensor import Tensor
from ..tensor.writing import broadcast_layout, is_update
from .frames import NEVER

LARGEST_UPDATE = 1 << 25  # bytes of a part
THIN = 8  # times as large as what it reads is a node at least that is made again of copies of that
_CHEAP = frozenset(OPS[name] for name in ("add", "subtract", "multiply"))  # to be done twice, if somebody asks for it
_POSITIVE = OPS["positive"]


def key_of_update(recipe: Recipe, x: Tensor) -> tuple[Recipe, int]:
    """What an update of a part is known by: the recipe of its value, and how many elements there are of which this is a part."""
    return recipe, x.storage.node.size


def learn_update(x: Tensor, result: Tensor) -> bool:
    """Write down how a result like this is computed over a part like this that it is made of, or that it is not known; whether it is
    known now, and was not before.
    """
    key = key_of_update(result.storage.node.recipe, x)
    if key in x.spec.called.get("update", ()):
        return False
    recipe = _update(x, result)
    remember(x.spec.called, "update", key, Made(x.spec, recipe))
    return recipe is not None


def _update(x: Tensor, result: Tensor) -> Recipe | None:
    """The recipe of the write; None if it cannot be done in place."""
    old, node, spec = x.storage.node, result.storage.node, x.spec
    if old.dtype is not spec.dtype or old.buffer is None or not isinstance(node.op, Op) or node.buffer is not None:
        return None
    if spec.strides is None or not spec.size or spec.nbytes > LARGEST_UPDATE or node.recipe.passing or spec.form.passing:
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
