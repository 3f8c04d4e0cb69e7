"""Symbolic sizes: integers that record how they were computed, and every question about their value. Results computed for a set of sizes,
strides and offsets are often valid for other sets. To find out for which, they are computed with `SymInt`s in place of integers: this is a
trace. Arithmetic on `SymInt`s gives `SymInt`s, sums of products of the inputs. A question about the value (is it equal, is it less, which
integer is it) may decide something, so the trace records it with the answer, as a guard. Inputs with the same answers lead to the same
computation. An atom is an input, or the quotient or remainder of a division. A product of atoms (`Monomial`) with its factor is a term, and
a number is the sum of its terms (`Terms`).

`SizeTrace.compile_function` returns a Python function that checks the guards and evaluates the results; `SizeTrace.encode` returns the
function as bytecode for the fast path (`fastpath/emit/instantiate_templates.py`).

A dictionary look-up by a `SymInt` may find an equal `SymInt` of the same trace, and then records a guard; a miss records nothing. So code
that uses `SymInt`s as keys must also be right where two of them are equal.

A `SymInt` is not an `int`, so code cannot use the value unnoticed. Code that needs the value calls `__index__`, and the size is pinned to
this value from then on. Code without support for `SymInt`s rejects them with a TypeError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from operator import index
from typing import Any

from .._utils.records import NamedTuple
from .guards import COMPARISONS, OP_BOUNDS, OP_DIVISION, RESULT_ATOM, RESULT_CONSTANT

_next_serial = count(1).__next__  # the number of the next trace
Monomial = tuple[int, ...]  # the atoms of a product, sorted; () is 1
Terms = tuple[tuple[Monomial, int], ...]  # sorted products, each with a factor other than 0


class SymInt:
    """An integer that is an input of a trace or computed from inputs: the sum of `terms`, with `value` in the present call.

    `trace` records the questions about the value. Arithmetic with an int or a `SymInt` of the same trace gives a `SymInt`, or an int if the
    inputs cancel out. Other operands raise TypeError, except for a float divided by a `SymInt` (`FloatBySymInt`).
    """

    __slots__ = ("terms", "trace", "value")

    def __init__(self, trace: SizeTrace, value: int, terms: Terms) -> None:
        self.trace, self.value, self.terms = trace, value, terms

    # Arithmetic

    def __add__(self, other: IntOrSymInt) -> IntOrSymInt:
        if type(other) is int:
            return SymInt(self.trace, self.value + other, _add_constant(self.terms, other))
        if not isinstance(other, (int, SymInt)):
            return NotImplemented
        return self.trace.make_number(self.value + peek_value(other), _add_terms(self.terms, terms_of(other)))

    def __mul__(self, other: IntOrSymInt) -> IntOrSymInt:
        if type(other) is int and other:
            return SymInt(self.trace, self.value * other, tuple([(monomial, n * other) for monomial, n in self.terms]))
        if not isinstance(other, (int, SymInt)):
            return NotImplemented
        products = [(tuple(sorted(m + n)), a * b) for m, a in self.terms for n, b in terms_of(other)]
        return self.trace.make_number(self.value * peek_value(other), _add_terms((), products))

    def __divmod__(self, other: IntOrSymInt) -> tuple[IntOrSymInt, IntOrSymInt]:
        if not isinstance(other, (int, SymInt)):
            return NotImplemented
        quotient, remainder = self.trace.divide(self, other)
        return quotient, remainder or 0  # `or` asks whether the remainder is 0: a guard

    def __rdivmod__(self, other: int) -> tuple[IntOrSymInt, IntOrSymInt]:
        if not isinstance(other, int):
            return NotImplemented
        quotient, remainder = self.trace.divide(other, self)
        return quotient, remainder or 0

    def __neg__(self) -> IntOrSymInt:
        return self * -1

    def __sub__(self, other: IntOrSymInt) -> IntOrSymInt:
        return self + other * -1

    def __rsub__(self, other: int) -> IntOrSymInt:
        return self * -1 + other

    def __floordiv__(self, other: IntOrSymInt) -> IntOrSymInt:
        return self.trace.divide(self, other)[0] if isinstance(other, (int, SymInt)) else NotImplemented

    def __rfloordiv__(self, other: int) -> IntOrSymInt:
        return self.trace.divide(other, self)[0] if isinstance(other, int) else NotImplemented

    def __rtruediv__(self, other: float) -> FloatBySymInt:
        return FloatBySymInt(other, self) if type(other) is float else NotImplemented

    def __mod__(self, other: IntOrSymInt) -> IntOrSymInt:
        return divmod(self, other)[1]

    def __rmod__(self, other: int) -> IntOrSymInt:
        return divmod(other, self)[1]

    __radd__, __rmul__ = __add__, __mul__

    def __abs__(self) -> IntOrSymInt:
        return self if self >= 0 else -self

    # Comparisons and conversions, recorded as guards

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (int, SymInt)):
            return NotImplemented
        if isinstance(other, SymInt) and other.trace is not self.trace:
            return False
        return self.trace.record_guard(self - other, "==", self.value == peek_value(other))

    def __lt__(self, other: IntOrSymInt) -> bool:
        if not isinstance(other, (int, SymInt)):
            return NotImplemented
        return self.trace.record_guard(self - other, "<", self.value < peek_value(other))

    def __gt__(self, other: IntOrSymInt) -> bool:
        if not isinstance(other, (int, SymInt)):
            return NotImplemented
        return self.trace.record_guard(self * -1 + other, "<", self.value > peek_value(other))

    def __le__(self, other: IntOrSymInt) -> bool:
        return not self > other

    def __ge__(self, other: IntOrSymInt) -> bool:
        return not self < other

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        self.trace.record_guard(self - self.value, "==", True)
        return self.value

    def bit_length(self) -> int:
        """Return the bit length of the value, and pin the size to this value, by a guard."""
        return self.__index__().bit_length()

    def __hash__(self) -> int:
        # Equal sizes of a trace have the same hash, and `==` then records a guard. An int or a size of another trace is no equal key,
        # though a cache may hold both.
        return hash((self.trace.serial, self.value))

    def __array__(self, *_: object, **__: object) -> Any:
        raise TypeError("a symbolic size cannot become a NumPy array, which would lose its guards; int(size) pins it to its value")

    def __str__(self) -> str:
        return str(self.__index__())

    def __repr__(self) -> str:
        return self.trace.format_expression(self)


class FloatBySymInt:
    """A float divided by a symbolic size, `dividend` / `divisor`, for example `1.0 / n`: an argument of a kernel.

    All comparisons and conversions but `repr` raise TypeError.
    """

    __slots__ = ("divisor", "dividend")

    def __init__(self, dividend: float, divisor: SymInt) -> None:
        self.dividend, self.divisor = dividend, divisor

    def __repr__(self) -> str:
        return f"{self.dividend} / ({self.divisor!r})"

    def _reject(self, *_: object) -> Any:
        """Raise TypeError, in place of each comparison and conversion."""
        raise TypeError(
            "a float divided by a symbolic size is only an argument of a kernel; it cannot be compared or converted, which would need"
            " a guard"
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __hash__ = __float__ = _reject


IntOrSymInt = int | SymInt


def peek_value(n: IntOrSymInt) -> int:
    """Return the present value of `n`, an int or a `SymInt`, without recording a guard. Use the result only for the value of another
    `SymInt`.
    """
    return n.value if isinstance(n, SymInt) else n


def terms_of(n: IntOrSymInt) -> Terms:
    """Return the terms of `n`: the terms of a `SymInt`, or the constant term of an int; `()` for 0."""
    return n.terms if isinstance(n, SymInt) else (((), n),) if n else ()


def _add_constant(terms: Terms, n: int) -> Terms:
    """Return the terms of the sum of `terms`, at least one, sorted, and the constant `n`."""
    monomial, constant = terms[0]
    if monomial:
        return (((), n), *terms) if n else terms
    return (((), constant + n), *terms[1:]) if constant + n else terms[1:]


def _add_terms(left: Iterable[tuple[Monomial, int]], right: Iterable[tuple[Monomial, int]]) -> Terms:
    """Return the terms of the sum of `left` and `right`, sorted and without products of factor 0.

    Both are pairs of a product and its factor. The products of `left` must be distinct.
    """
    factor_of: dict[Monomial, int] = dict(left)
    for monomial, factor in right:
        factor_of[monomial] = factor_of.get(monomial, 0) + factor
    return tuple(sorted([term for term in factor_of.items() if term[1]]))


class Condition(NamedTuple):
    """A guard: `comparison`, an entry of `COMPARISONS`, of the sum `terms` with 0. "<" means that the sum is less than 0."""

    terms: Terms
    comparison: str


class Bounds(NamedTuple):
    """A guard: an atom is at least `lower` and at most `upper`, both included. A single `Bounds` replaces many conditions on an input."""

    atom: int
    lower: int
    upper: int


class Division(NamedTuple):
    """A division of two sums, `dividend` and `divisor`.

    The quotient, rounded down, and the remainder are new atoms, called `result_names`.
    """

    dividend: Terms
    divisor: Terms
    result_names: tuple[str, str]


TraceLine = Condition | Bounds | Division
MIN_INT64, MAX_INT64 = -(1 << 63), (1 << 63) - 1  # the range of 64-bit integers, an upper bound for sizes
_OPPOSITES = {"==": "!=", "<": ">="}


class SizeTrace:
    """The record of a computation with symbolic sizes: the inputs, the divisions, and the guards.

    An atom is an input, or the quotient or remainder of a division. Atoms are named by their indices into `atom_names`, with the inputs
    first: every input must be added before the first division. `lines` has the guards and divisions, in order.
    """

    def __init__(self) -> None:
        self.serial = _next_serial()
        self.atom_names: list[str] = []  # names of the atoms: the inputs, and the results of divisions
        self.input_names: list[str] = []
        self.lines: dict[Condition | Division, None] = {}  # guards and divisions in order
        self.divisions: dict[tuple[Terms, Terms], tuple[IntOrSymInt, IntOrSymInt]] = {}

    def add_input(self, value: int) -> SymInt:
        """Return a new input with the value `value`: the next argument of the traced function. Call this before the first division."""
        self.input_names.append(f"n{len(self.input_names)}")
        return self._atom(self.input_names[-1], value)

    def _atom(self, name: str, value: int) -> SymInt:
        """Return a new atom as a `SymInt`, with a name for Python source, `name`, and the value `value` in the present call."""
        self.atom_names.append(name)
        return SymInt(self, value, (((len(self.atom_names) - 1,), 1),))

    def make_number(self, value: int, terms: Terms) -> IntOrSymInt:
        """Return the number with the terms `terms`, sorted, and the present value `value`: a `SymInt`, or an int if the terms contain no
        atom.
        """
        return SymInt(self, value, terms) if terms and terms[-1][0] else value

    def record_guard(self, difference: IntOrSymInt, comparison: str, is_true: bool) -> bool:
        """Return `is_true`, the answer to whether `difference` is 0 (`comparison` is "==") or below 0 ("<"), and record it as a guard.

        A False answer is recorded as the opposite condition. The answer is not checked. The comparisons of `SymInt` call this method. For
        an int nothing is recorded: the answer never changes.
        """
        if isinstance(difference, SymInt):
            self.lines[Condition(difference.terms, comparison if is_true else _OPPOSITES[comparison])] = None
        return is_true

    def divide(self, a: IntOrSymInt, b: IntOrSymInt) -> tuple[IntOrSymInt, IntOrSymInt]:
        """Return the quotient of `a` and `b`, rounded down, and the remainder. Raise ZeroDivisionError if `b` is 0 at present.

        A symbolic `b` is recorded to be not 0. Both results are computed from the terms of `a` and `b` where guards or exact division allow
        it; otherwise they are new atoms. Equal divisions give equal results.
        """
        value, remainder = divmod(peek_value(a), peek_value(b))
        key = terms, by = terms_of(a), terms_of(b)
        result = self.divisions.get(key)
        if result is not None:
            return result
        if isinstance(b, SymInt):
            self.record_guard(b, "==", False)
        exact_terms = _divide_exactly(terms, by)
        if value == 0 and remainder:
            self.record_guard(a, "<", remainder < 0)
            self.record_guard(abs(a) - abs(b), "<", True)
            result = 0, a
        elif exact_terms is not None:
            result = self.make_number(value, exact_terms), remainder
        elif isinstance(b, int) and all(factor % b == 0 for monomial, factor in terms if monomial):
            result = self.make_number(value, tuple([(m, n // b) for m, n in terms if n // b])), remainder
        else:
            names = f"q{len(self.atom_names)}", f"r{len(self.atom_names)}"
            self.lines[Division(terms, by, names)] = None
            result = self._atom(names[0], value), self._atom(names[1], remainder)
        self.divisions[key] = result
        return result

    @property
    def is_pinned(self) -> bool:
        """True if a guard fixes an input to a single value: then the trace is valid for this value only."""
        return any([isinstance(line, Condition) and line.comparison == "==" and self._has_single_input(line.terms) for line in self.lines])

    def _has_single_input(self, terms: Terms) -> bool:
        """Return whether the sum `terms` is a multiple of a single input, plus a constant."""
        *constant, (monomial, _) = terms
        return len(constant) <= 1 and len(monomial) == 1 and monomial[0] < len(self.input_names) and (not constant or not constant[0][0])

    def format_expression(self, value: Any) -> str:
        """Return the Python expression of `value`, an int, a `SymInt`, or a tuple of values, with the names in `atom_names`."""
        if isinstance(value, tuple):
            return f"({''.join([self.format_expression(item) + ', ' for item in value])})"
        return self._format_sum(value.terms) if isinstance(value, SymInt) else str(index(value))

    def _format_sum(self, terms: Terms) -> str:
        """Return the Python expression of the sum `terms`; "0" for no terms."""
        names = self.atom_names
        return " + ".join(["*".join([str(n)] * (n != 1 or not m) + [names[a] for a in m]) for m, n in terms]) or "0"

    def merged_lines(self) -> list[TraceLine]:
        """Return the lines of the trace, with the bounds of each input merged, and without conditions implied by the merged bounds.

        The bounds come first (`Bounds`), then the excluded values, and then the remaining lines in the order of the trace. A line is a
        `TraceLine`.
        """
        bounds, excluded_values, other_lines = dict[int, tuple[int, int]](), dict[int, list[int]](), list[TraceLine]()
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
        bound_lines, unequal = list[TraceLine](), list[TraceLine]()
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
        """Return the values of an input that `condition` allows: the input's number, least and greatest value, and an excluded value.

        The values are included, and `MIN_INT64` or `MAX_INT64` if the side is unbounded. The excluded value is None except for "!=". Return
        None for a condition with several atoms, with a product of atoms, with an atom that is no input, or with `==` that no integer
        satisfies.
        """
        *constant_terms, (monomial, factor) = condition.terms
        if (
            len(monomial) != 1
            or monomial[0] >= len(self.input_names)
            or len(constant_terms) > 1
            or (constant_terms and constant_terms[0][0])
        ):
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

    def format_guard(self, line: Condition | Bounds) -> str:
        """Return the guard `line` as a Python expression, true if the guard holds, such as "2 <= n0 <= 7" or "n0*n1 == 42".

        Atoms are named as in `atom_names`: `n0`, `n1`, ... are the inputs, and `q` and `r` the results of divisions. `format_function`
        writes the expression into a function.
        """
        if isinstance(line, Bounds):
            name, lower, upper = self.atom_names[line.atom], line.lower, line.upper
            return " <= ".join([*[str(lower)] * (lower > MIN_INT64), name, *[str(upper)] * (upper < MAX_INT64)])
        first_monomial, constant = line.terms[0]
        terms, constant = (line.terms, 0) if first_monomial else (line.terms[1:], constant)
        return f"{self._format_sum(terms)} {line.comparison} {-constant}"

    def format_function(self, results: tuple[object, ...]) -> str:
        """Return the Python source of a function `evaluate` that takes the inputs and returns `results` for them, or None if a guard fails.

        `results` is a nested tuple of ints and `SymInt`s, as in `format_expression`. A division with unused results is left out: the inputs
        may be `SymInt`s, and the division would record guards for them.
        """
        lines, guards, merged_lines = [f"def evaluate({', '.join(self.input_names)}):"], list[str](), self.merged_lines()
        read = {self.atom_names[atom] for atom in _find_atoms((merged_lines, results))}

        def check() -> None:
            """Add a line to check the guards collected so far."""
            if guards:
                lines.append(f"if not ({' and '.join(guards)}): return None")
                guards.clear()

        for line in merged_lines:
            if not isinstance(line, Division):
                guards.append(self.format_guard(line))
                continue
            check()
            quotient, remainder = line.result_names
            if remainder in read:
                lines.append(f"{quotient}, {remainder} = divmod({self._format_sum(line.dividend)}, {self._format_sum(line.divisor)})")
            elif quotient in read:
                lines.append(f"{quotient} = ({self._format_sum(line.dividend)}) // ({self._format_sum(line.divisor)})")
        check()
        return "\n    ".join([*lines, f"return {self.format_expression(results)}"])

    def compile_function(self, results: tuple[object, ...]) -> Callable[..., tuple[Any, ...] | None]:
        """Compile and return a function that takes the inputs, as positional arguments, and returns `results` evaluated for them, or None
        if a guard fails.

        `results` is a nested tuple of ints and `SymInt`s. The source is that of `format_function`.
        """
        scope: dict[str, Callable[..., tuple[Any, ...] | None]] = {}
        exec(self.format_function(results), scope)
        return scope["evaluate"]

    def encode(self, results: Iterable[IntOrSymInt]) -> list[int]:
        """Return the function of `format_function` as bytecode: a guard program in the grammar of `guards.py`.

        `results` must not be nested.
        """
        lines = self.merged_lines()
        codes = [len(self.input_names), len(lines)]
        for line in lines:
            if isinstance(line, Condition):
                codes += (COMPARISONS.index(line.comparison), *_encode_sum(line.terms))
            elif isinstance(line, Bounds):
                codes += (OP_BOUNDS, *line)
            else:
                codes += (OP_DIVISION, *_encode_sum(line.dividend), *_encode_sum(line.divisor))
        result_terms = [terms_of(n) for n in results]
        return [*codes, len(result_terms), *[word for terms in result_terms for word in _encode_result(terms)]]


def _encode_sum(terms: Terms) -> list[int]:
    """Return the bytecode of the sum `terms`: the number of products, and for each product the factor, the number of atoms, the atoms."""
    return [len(terms), *[word for monomial, factor in terms for word in (factor, len(monomial), *monomial)]]


def _encode_result(terms: Terms) -> list[int]:
    """Return the bytecode of the result with the terms `terms`: a constant or an atom in two integers, anything else as a sum."""
    if not terms or terms[-1][0] == ():
        return [RESULT_CONSTANT, terms[-1][1] if terms else 0]
    (monomial, factor) = terms[-1]
    return [RESULT_ATOM, *monomial] if (len(terms), len(monomial), factor) == (1, 1, 1) else _encode_sum(terms)


def _find_atoms(value: Any) -> set[int]:
    """Return the indices of the atoms in `value`: a line, a number, or nested tuples and lists of lines and numbers. The atom of a `Bounds`
    is left out.
    """
    if isinstance(value, (SymInt, Condition)):
        return {atom for monomial, _ in value.terms for atom in monomial}
    if isinstance(value, Division):
        return {atom for terms in (value.dividend, value.divisor) for monomial, _ in terms for atom in monomial}
    return set[int]().union(*map(_find_atoms, value)) if type(value) in (tuple, list) else set()


def _divide_exactly(terms: Terms, by: Terms) -> Terms | None:
    """Return the terms of the exact quotient of the sums `terms` and `by`; None if the sums do not divide term by term.

    The divisor must be a single product that divides each term, with its factor. Otherwise both sums must be equal, or the dividend 0.
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
