"""One step of a product: the next state of a result, given the elements of its row and its column there."""

from __future__ import annotations

from ...kernel.ir import State, expand
from ...ops.expr import Call, Expr
from .builder import fma
from .emitter import Emitter
from .scopes import Parts

MOST_TERMS = 2  # of a step, that are added to a state one by one, and each rounded once: it decides bits


def next_state(em: Emitter, value: Expr, known: dict[Expr, Parts]) -> Parts:
    """The next state; products that are added to it, or taken from it, are rounded once each."""
    products = _added_products(value)
    if products is None:
        return em.inline(value, known)
    found = known[products[0]]
    for one, other, less in products[1]:
        left, right = em.inline(one, known), em.inline(other, known)
        left = [-x for x in left] if less else left
        found = [fma(x, y, z) for x, y, z in zip(left, right, found, strict=True)]
    return found


Products = list[tuple[Expr, Expr, bool]]  # factors, and whether the product is subtracted


def _added_products(value: Expr) -> tuple[State, Products] | None:
    """The state and the products of floats of which a value is the sum."""
    if not (isinstance(value, Call) and value.op.name == "add" and value.dtype.is_float):
        return None
    state, term = value.args
    found: Products = []
    if isinstance(state, State) and _collected(term, False, found):
        return state, found
    return None


def _collected(term: Expr, less: bool, found: Products) -> bool:
    """Whether a term is a sum or difference of products, as those of complex numbers are, which are then `found`."""
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
