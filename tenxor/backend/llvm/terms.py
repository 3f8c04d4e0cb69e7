"""A step of a product: the next state of a result, given the elements of its row and its column."""

from __future__ import annotations

from ...kernel.ir import State, expand
from ...ops.expr import Call, Expr
from .builder import fma
from .emitter import Emitter
from .scopes import Parts

MOST_TERMS = 2  # the most products of a step that are added to a state one by one, and each rounded once; this decides the bits of results


def next_state(em: Emitter, value: Expr, known: dict[Expr, Parts]) -> Parts:
    """Emit the next state. If products are added to the state, or subtracted, each is rounded once, by a fused multiply-add."""
    products = _added_products(value)
    if products is None:
        return em.inline(value, known)
    found = known[products[0]]
    for one, other, less in products[1]:
        left, right = em.inline(one, known), em.inline(other, known)
        left = [-x for x in left] if less else left
        found = [fma(x, y, z) for x, y, z in zip(left, right, found, strict=True)]
    return found


Products = list[tuple[Expr, Expr, bool]]  # the two factors, and whether the product is subtracted


def _added_products(value: Expr) -> tuple[State, Products] | None:
    """Return the state and the products of floats that add up to a value; None if the value is not such a sum."""
    if not (isinstance(value, Call) and value.op.name == "add" and value.dtype.is_float):
        return None
    state, term = value.args
    found: Products = []
    if isinstance(state, State) and _collected(term, False, found):
        return state, found
    return None


def _collected(term: Expr, less: bool, found: Products) -> bool:
    """Return whether a term is a sum or difference of products, as for complex numbers; if so, append the products to `found`.

    `less` says that the term is subtracted. If the answer is no, `found` may hold some of the products.
    """
    dtype = term.dtype
    while isinstance(term, Call) and (formula := expand(term)) is not None:
        term = formula
    if not isinstance(term, Call) or term.dtype is not dtype:
        return False
    if term.op.name in ("add", "subtract"):
        one, other = term.args
        return _collected(other, less ^ (term.op.name == "subtract"), found) and _collected(one, less, found)
    if term.op.name != "multiply" or len(found) == MOST_TERMS:
        return False
    one, other = term.args
    found.append((one, other, less))
    return True
