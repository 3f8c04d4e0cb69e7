"""Symbolic sizes: integers that record how they were computed, and every question about their value.

Results computed for a set of sizes, strides and offsets are often valid for other sets. To find out for which, they are computed with
`Size`s in place of integers. Arithmetic on `Size`s gives `Size`s, sums of products of the inputs. A question about the value (is it equal,
is it less, which integer is it) may decide something, so the trace records it with the answer, as a guard. Inputs with the same answers
lead to the same computation. `Trace.written` returns a Python function that checks the guards and evaluates the results; `Trace.words`
returns the function as bytecode for the fast path (`shortcut/code/rules.py`).

A dictionary look-up by a `Size` may find an equal `Size` of the same trace, and then records a guard; a miss records nothing. So code that
uses `Size`s as keys must also be right where two of them are equal.

A `Size` is not an `int`, so code cannot use the value unnoticed. Code that needs the value calls `__index__`, and the size is pinned to
this value from then on. Code without support for `Size`s rejects them with a TypeError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from operator import index
from typing import Any

from .known import ATOM, BOUNDED, CONSTANT, DIVIDED, HOW
from .records import NamedTuple

_next_serial = count(1).__next__  # the number of the next trace
Monomial = tuple[int, ...]  # the atoms of a product, sorted; () is 1
Terms = tuple[tuple[Monomial, int], ...]  # sorted products, each with a factor other than 0


class Size:
    """An integer that is an input of a trace or computed from inputs: the sum of `terms`, with `value` in the present call."""

    __slots__ = ("terms", "trace", "value")

    def __init__(self, trace: Trace, value: int, terms: Terms) -> None:
        self.trace, self.value, self.terms = trace, value, terms

    # Arithmetic

    def __add__(self, other: Number) -> Number:
        if type(other) is int:
            return Size(self.trace, self.value + other, _add_constant(self.terms, other))
        if not isinstance(other, (int, Size)):
            return NotImplemented
        return self.trace.number(self.value + int_of(other), _add_terms(self.terms, terms_of(other)))

    def __mul__(self, other: Number) -> Number:
        if type(other) is int and other:
            return Size(self.trace, self.value * other, tuple([(monomial, n * other) for monomial, n in self.terms]))
        if not isinstance(other, (int, Size)):
            return NotImplemented
        products = [(tuple(sorted(m + n)), a * b) for m, a in self.terms for n, b in terms_of(other)]
        return self.trace.number(self.value * int_of(other), _add_terms((), products))

    def __divmod__(self, other: Number) -> tuple[Number, Number]:
        if not isinstance(other, (int, Size)):
            return NotImplemented
        quotient, remainder = self.trace.divide(self, other)
        return quotient, remainder or 0  # `or` asks whether the remainder is 0: a guard

    def __rdivmod__(self, other: int) -> tuple[Number, Number]:
        if not isinstance(other, int):
            return NotImplemented
        quotient, remainder = self.trace.divide(other, self)
        return quotient, remainder or 0

    def __neg__(self) -> Number:
        return self * -1

    def __sub__(self, other: Number) -> Number:
        return self + other * -1

    def __rsub__(self, other: int) -> Number:
        return self * -1 + other

    def __floordiv__(self, other: Number) -> Number:
        return self.trace.divide(self, other)[0] if isinstance(other, (int, Size)) else NotImplemented

    def __rfloordiv__(self, other: int) -> Number:
        return self.trace.divide(other, self)[0] if isinstance(other, int) else NotImplemented

    def __rtruediv__(self, other: float) -> Quotient:
        return Quotient(other, self) if type(other) is float else NotImplemented

    def __mod__(self, other: Number) -> Number:
        return divmod(self, other)[1]

    def __rmod__(self, other: int) -> Number:
        return divmod(other, self)[1]

    __radd__, __rmul__ = __add__, __mul__

    def __abs__(self) -> Number:
        return self if self >= 0 else -self

    # Comparisons and conversions, recorded as guards

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (int, Size)):
            return NotImplemented
        if isinstance(other, Size) and other.trace is not self.trace:
            return False
        return self.trace.asked(self - other, "==", self.value == int_of(other))

    def __lt__(self, other: Number) -> bool:
        if not isinstance(other, (int, Size)):
            return NotImplemented
        return self.trace.asked(self - other, "<", self.value < int_of(other))

    def __gt__(self, other: Number) -> bool:
        if not isinstance(other, (int, Size)):
            return NotImplemented
        return self.trace.asked(self * -1 + other, "<", self.value > int_of(other))

    def __le__(self, other: Number) -> bool:
        return not self > other

    def __ge__(self, other: Number) -> bool:
        return not self < other

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        self.trace.asked(self - self.value, "==", True)
        return self.value

    def bit_length(self) -> int:
        """Return the bit length of the value, and pin the size to this value."""
        return self.__index__().bit_length()

    def __hash__(self) -> int:
        # Equal sizes of a trace have the same hash, and `==` then records a guard. An int or a size of another trace is no equal key,
        # though a cache may hold both.
        return hash((self.trace.serial, self.value))

    def __array__(self, *_: object, **__: object) -> Any:
        raise TypeError("NumPy would not remember how a size was found")

    def __str__(self) -> str:
        return str(self.__index__())

    def __repr__(self) -> str:
        return self.trace.text(self)


class Quotient:
    """A float divided by a symbolic size: an argument of a kernel. Comparisons and conversions raise TypeError."""

    __slots__ = ("by", "over")

    def __init__(self, over: float, by: Size) -> None:
        self.over, self.by = over, by

    def __repr__(self) -> str:
        return f"{self.over} / ({self.by!r})"

    def _reject(self, *_: object) -> Any:
        raise TypeError("a quotient of a size is not known")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __hash__ = __float__ = _reject


Number = int | Size


def int_of(n: Number) -> int:
    """Return the present value of `n` without recording a guard. Use the result for nothing but the value of another `Size`."""
    return n.value if isinstance(n, Size) else n


def terms_of(n: Number) -> Terms:
    """Return the terms of a number: the terms of a `Size`, or the constant term of an int."""
    return n.terms if isinstance(n, Size) else (((), n),) if n else ()


def _add_constant(terms: Terms, n: int) -> Terms:
    """Return a sum with the constant `n` added."""
    monomial, constant = terms[0]
    if monomial:
        return (((), n), *terms) if n else terms
    return (((), constant + n), *terms[1:]) if constant + n else terms[1:]


def _add_terms(first: Iterable[tuple[Monomial, int]], second: Iterable[tuple[Monomial, int]]) -> Terms:
    factor_of: dict[Monomial, int] = dict(first)
    for monomial, factor in second:
        factor_of[monomial] = factor_of.get(monomial, 0) + factor
    return tuple(sorted([term for term in factor_of.items() if term[1]]))


class Condition(NamedTuple):
    """A guard: `comparison`, an entry of `HOW`, of a sum with 0."""

    terms: Terms
    comparison: str


class Bounds(NamedTuple):
    """A guard: an atom is at least `lower` and at most `upper`. A single `Bounds` replaces many conditions on an input."""

    atom: int
    lower: int
    upper: int


class Division(NamedTuple):
    """A division of two sums. The quotient and the remainder are new atoms, called `names`."""

    over: Terms
    by: Terms
    names: tuple[str, str]


Line = Condition | Bounds | Division
MIN_INT64, MAX_INT64 = -(1 << 63), (1 << 63) - 1  # the range of 64-bit integers, an upper bound for sizes
_OPPOSITES = {"==": "!=", "<": ">="}


class Trace:
    """The record of a computation with symbolic sizes: the inputs, the divisions, and the guards."""

    def __init__(self) -> None:
        self.serial = _next_serial()
        self.names: list[str] = []  # names of the atoms: the inputs, and the results of divisions
        self.given: list[str] = []
        self.lines: dict[Condition | Division, None] = {}  # guards and divisions in order
        self.divisions: dict[tuple[Terms, Terms], tuple[Number, Number]] = {}

    def size(self, value: int) -> Size:
        """Return a new input with a value: the next argument of the traced function."""
        self.given.append(f"n{len(self.given)}")
        return self._atom(self.given[-1], value)

    def _atom(self, name: str, value: int) -> Size:
        self.names.append(name)
        return Size(self, value, (((len(self.names) - 1,), 1),))

    def number(self, value: int, terms: Terms) -> Number:
        """Return the number with the given terms: an int if they contain no atom, a `Size` otherwise."""
        return Size(self, value, terms) if terms and terms[-1][0] else value

    def asked(self, difference: Number, comparison: str, answer: bool) -> bool:
        """Return `answer`, the answer to whether `difference` is 0 (`comparison` is "==") or below 0 ("<"), and record it as a guard.

        For an int nothing is recorded: the answer never changes.
        """
        if isinstance(difference, Size):
            self.lines[Condition(difference.terms, comparison if answer else _OPPOSITES[comparison])] = None
        return answer

    def divide(self, a: Number, b: Number) -> tuple[Number, Number]:
        """Return the quotient, rounded down, and the remainder.

        Both are computed from the terms of `a` and `b` where guards, or exact division of the terms, allow it; otherwise they are new
        atoms.
        """
        value, remainder = divmod(int_of(a), int_of(b))
        key = terms, by = terms_of(a), terms_of(b)
        result = self.divisions.get(key)
        if result is not None:
            return result
        if isinstance(b, Size):
            self.asked(b, "==", False)
        exact_terms = _divide_exactly(terms, by)
        if value == 0 and remainder:
            self.asked(a, "<", remainder < 0)
            self.asked(abs(a) - abs(b), "<", True)
            result = 0, a
        elif exact_terms is not None:
            result = self.number(value, exact_terms), remainder
        elif isinstance(b, int) and all(factor % b == 0 for monomial, factor in terms if monomial):
            result = self.number(value, tuple([(m, n // b) for m, n in terms if n // b])), remainder
        else:
            names = f"q{len(self.names)}", f"r{len(self.names)}"
            self.lines[Division(terms, by, names)] = None
            result = self._atom(names[0], value), self._atom(names[1], remainder)
        self.divisions[key] = result
        return result

    @property
    def is_pinned(self) -> bool:
        """True if a guard fixes an input to a single value, so that the trace is valid for this value only."""
        return any([isinstance(line, Condition) and line.comparison == "==" and self._has_single_input(line.terms) for line in self.lines])

    def _has_single_input(self, terms: Terms) -> bool:
        """Return whether a sum is a multiple of a single input, plus a constant."""
        *constant, (monomial, _) = terms
        return len(constant) <= 1 and len(monomial) == 1 and monomial[0] < len(self.given) and (not constant or not constant[0][0])

    def text(self, value: Any) -> str:
        """Return the Python expression of a number, or of a tuple of numbers."""
        if isinstance(value, tuple):
            return f"({''.join([self.text(item) + ', ' for item in value])})"
        return self._sum(value.terms) if isinstance(value, Size) else str(index(value))

    def _sum(self, terms: Terms) -> str:
        names = self.names
        return " + ".join(["*".join([str(n)] * (n != 1 or not m) + [names[a] for a in m]) for m, n in terms]) or "0"

    def merged_lines(self) -> list[Line]:
        """Return the lines of the trace, with the bounds of each input merged, and without conditions implied by the merged bounds."""
        bounds, excluded_values, other_lines = dict[int, tuple[int, int]](), dict[int, list[int]](), list[Line]()
        for line in self.lines:
            input_bounds = self._bounds_of(line) if isinstance(line, Condition) else None
            if input_bounds is None:
                other_lines.append(line)
                continue
            atom, lower, upper, excluded = input_bounds
            old_bounds = bounds.get(atom, (MIN_INT64, MAX_INT64))
            bounds[atom] = max(old_bounds[0], lower), min(old_bounds[1], upper)
            if excluded is not None:
                excluded_values.setdefault(atom, []).append(excluded)
        bound_lines, unequal = list[Line](), list[Line]()
        for atom, (lower, upper) in bounds.items():
            holes = set(excluded_values.get(atom, ()))
            while lower in holes:
                lower += 1
            while upper in holes:
                upper -= 1
            if (lower, upper) != (MIN_INT64, MAX_INT64):
                bound_lines.append(Bounds(atom, lower, upper))
            unequal += [Condition(_add_terms((((atom,), 1),), (((), -n),)), "!=") for n in sorted(holes) if lower < n < upper]
        return [*bound_lines, *unequal, *other_lines]

    def _bounds_of(self, condition: Condition) -> tuple[int, int, int, int | None] | None:
        """Return the meaning of a condition on a single input: the atom, the least and the greatest value, and an excluded value or None.

        Return None for a condition with several atoms, with a product of atoms, or with an atom that is no input.
        """
        *constant_terms, (monomial, factor) = condition.terms
        if len(monomial) != 1 or monomial[0] >= len(self.given) or len(constant_terms) > 1 or (constant_terms and constant_terms[0][0]):
            return None
        (atom,), constant, comparison = monomial, constant_terms[0][1] if constant_terms else 0, condition.comparison
        if comparison in ("==", "!="):
            equal, is_between = divmod(-constant, factor)
            if comparison == "==":
                return None if is_between else (atom, equal, equal, None)
            return atom, MIN_INT64, MAX_INT64, None if is_between else equal
        if comparison == "<":  # as factor * n + constant >= 0
            factor, constant = -factor, -constant - 1
        return (atom, -(constant // factor), MAX_INT64, None) if factor > 0 else (atom, MIN_INT64, constant // -factor, None)

    def guard_text(self, line: Condition | Bounds) -> str:
        """Return a guard as a Python expression."""
        if isinstance(line, Bounds):
            name, lower, upper = self.names[line.atom], line.lower, line.upper
            return " <= ".join([*[str(lower)] * (lower > MIN_INT64), name, *[str(upper)] * (upper < MAX_INT64)])
        first, constant = line.terms[0]
        terms, constant = (line.terms, 0) if first else (line.terms[1:], constant)
        return f"{self._sum(terms)} {line.comparison} {-constant}"

    def source(self, results: tuple[object, ...]) -> str:
        """Return the Python source of a function `found` that takes the inputs and returns `results` for them, or None if a guard fails.

        A division with unused results is left out: the inputs may be `Size`s, and the division would record guards for them.
        """
        lines, guards, merged_lines = [f"def found({', '.join(self.given)}):"], list[str](), self.merged_lines()
        read = {self.names[atom] for atom in _find_atoms((merged_lines, results))}

        def check() -> None:
            if guards:
                lines.append(f"if not ({' and '.join(guards)}): return None")
                guards.clear()

        for line in merged_lines:
            if not isinstance(line, Division):
                guards.append(self.guard_text(line))
                continue
            check()
            quotient, remainder = line.names
            if remainder in read:
                lines.append(f"{quotient}, {remainder} = divmod({self._sum(line.over)}, {self._sum(line.by)})")
            elif quotient in read:
                lines.append(f"{quotient} = ({self._sum(line.over)}) // ({self._sum(line.by)})")
        check()
        return "\n    ".join([*lines, f"return {self.text(results)}"])

    def written(self, results: tuple[object, ...]) -> Callable[..., tuple[Any, ...] | None]:
        """Compile and return the function of `source`."""
        scope: dict[str, Callable[..., tuple[Any, ...] | None]] = {}
        exec(self.source(results), scope)
        return scope["found"]

    def words(self, results: Iterable[Number]) -> list[int]:
        """Return the function of `source` as bytecode: a guard program in the grammar of `known.py`."""
        lines = self.merged_lines()
        codes = [len(self.given), len(lines)]
        for line in lines:
            if isinstance(line, Condition):
                codes += (HOW.index(line.comparison), *_encode_sum(line.terms))
            elif isinstance(line, Bounds):
                codes += (BOUNDED, *line)
            else:
                codes += (DIVIDED, *_encode_sum(line.over), *_encode_sum(line.by))
        result_terms = [terms_of(n) for n in results]
        return [*codes, len(result_terms), *[word for terms in result_terms for word in _encode_result(terms)]]


def _encode_sum(terms: Terms) -> list[int]:
    """Encode a sum: the number of products, and for each product the factor, the number of atoms, and the atoms."""
    return [len(terms), *[word for monomial, factor in terms for word in (factor, len(monomial), *monomial)]]


def _encode_result(terms: Terms) -> list[int]:
    """Encode a result: a constant or an atom in two words, anything else as a sum."""
    if not terms or terms[-1][0] == ():
        return [CONSTANT, terms[-1][1] if terms else 0]
    (monomial, factor) = terms[-1]
    return [ATOM, *monomial] if (len(terms), len(monomial), factor) == (1, 1, 1) else _encode_sum(terms)


def _find_atoms(value: Any) -> set[int]:
    """Return the atoms in lines or results, or in nested sequences of these."""
    if isinstance(value, (Size, Condition)):
        return {atom for monomial, _ in value.terms for atom in monomial}
    if isinstance(value, Division):
        return {atom for terms in (value.over, value.by) for monomial, _ in terms for atom in monomial}
    return set[int]().union(*map(_find_atoms, value)) if type(value) in (tuple, list) else set()


def _divide_exactly(terms: Terms, by: Terms) -> Terms | None:
    """Return the exact quotient of two sums; None if the sums do not divide term by term.

    The divisor must be a single product that divides each term, or both sums must be equal, or the dividend must be 0.
    """
    if len(by) != 1:
        return () if not terms else ((((), 1),) if terms == by else None)
    ((divisor, factor),) = by
    quotient_terms = []
    for monomial, n in terms:
        other_atoms = list(monomial)
        for atom in divisor:
            if atom not in other_atoms:
                return None
            other_atoms.remove(atom)
        if n % factor:
            return None
        quotient_terms.append((tuple(other_atoms), n // factor))
    return tuple(sorted(quotient_terms))
