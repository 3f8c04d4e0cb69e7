"""Emit a step of a contraction, a generalised matrix product: the next state of a result, from the values of a row and a column.

The state of a result is the sum so far, or the running state of another reduction.
"""

from __future__ import annotations

from ...lowering.ir import State, expand_formula
from ...ops.expr import Call, Expr
from .builder import fma
from .emitter import Emitter
from .scopes import ValueVectors

MAX_PRODUCT_TERMS = 2  # products of a step, at most, that are added to a state one at a time, each rounded once: this decides bits


def emit_next_state(em: Emitter, formula: Expr, leaf_values: dict[Expr, ValueVectors]) -> ValueVectors:
    """Emit the next state of a component of a reduction by `formula`. Return the vectors of the step, or a list with a scalar.

    `leaf_values` maps the leaves of the formula, but for constants, to their values; the values of subexpressions are added. The formula
    may add at most `MAX_PRODUCT_TERMS` products of floats to the old state, or subtract them. Then each is added by a fused multiply-add,
    and rounded once.
    """
    products = _match_product_sum(formula)
    if products is None:
        return em.emit_inline(formula, leaf_values)
    totals = leaf_values[products[0]]
    for left_expr, right_expr, is_subtracted in products[1]:
        left, right = em.emit_inline(left_expr, leaf_values), em.emit_inline(right_expr, leaf_values)
        left = [-x for x in left] if is_subtracted else left
        totals = [fma(x, y, z) for x, y, z in zip(left, right, totals, strict=True)]
    return totals


ProductTerms = list[tuple[Expr, Expr, bool]]  # the two factors, and whether the product is subtracted


def _match_product_sum(formula: Expr) -> tuple[State, ProductTerms] | None:
    """Match `formula` for the next state with the old state plus products of floats. Return the old state and the products.

    A product is a triple: both factors, and whether the product is subtracted. The products are in the order in which they must be added.
    Return None for a formula of another form, or with more than `MAX_PRODUCT_TERMS` products.
    """
    if not (isinstance(formula, Call) and formula.op.name == "add" and formula.dtype.is_float):
        return None
    state, term = formula.args
    products: ProductTerms = []
    if isinstance(state, State) and _collect_products(term, False, products):
        return state, products
    return None


def _collect_products(term: Expr, is_subtracted: bool, products: ProductTerms) -> bool:
    """Append the products in `term`, a product or a sum or difference of products, to `products`, and return True.

    Terms of complex products are sums of products. `is_subtracted` says that the term is subtracted. Return False for a term of another
    form, or if `products` would get longer than `MAX_PRODUCT_TERMS`; `products` may then be incomplete.
    """
    dtype = term.dtype
    while isinstance(term, Call) and (formula := expand_formula(term)) is not None:
        term = formula
    if not isinstance(term, Call) or term.dtype is not dtype:
        return False
    if term.op.name in ("add", "subtract"):
        left, right = term.args
        return _collect_products(right, is_subtracted ^ (term.op.name == "subtract"), products) and _collect_products(
            left, is_subtracted, products
        )
    if term.op.name != "multiply" or len(products) == MAX_PRODUCT_TERMS:
        return False
    left, right = term.args
    products.append((left, right, is_subtracted))
    return True
