"""A step of a product: the next state of a result, given the elements of a row and a column."""

from __future__ import annotations

from ...kernel.ir import State, expand
from ...ops.expr import Call, Expr
from .builder import fma
from .emitter import Emitter
from .scopes import Parts

MOST_TERMS = 2  # products of a step, at most, that are added to a state one at a time, each rounded once: this decides bits


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
    """Return the state and the products of floats with `value` as their sum; None for another value."""
    if not (isinstance(value, Call) and value.op.name == "add" and value.dtype.is_float):
        return None
    state, term = value.args
    found: Products = []
    if isinstance(state, State) and _collected(term, False, found):
        return state, found
    return None


def _collected(term: Expr, less: bool, found: Products) -> bool:
    """Append the products in a term to `found`, if the term is a product, or a sum or difference of products, as for complex numbers.

    `less` says that the term is subtracted. Return whether the term has this form; otherwise `found` may hold some of the products.
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
