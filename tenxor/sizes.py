"""Sizes that remember: how each was worked out, and what was asked of it.

What is worked out for some sizes, strides and offsets may serve for others. To know for which, it is worked out of `Size`s
instead of ints. What comes of their arithmetic are `Size`s again, sums of products of the given ones; and each question whose
answer may have decided something - is it less, is it equal, which number is it - is noted, with the answer. Where other numbers
give the same answers, the same would have come of them, and `Trace.written` is a Python function that says so, and works the
results out. `Trace.words` are the same for machine code (`shortcut/code/rules.py`).

What is looked up by `Size`s may be found under one of the same trace with the same number; no question is noted if it is not. So
whoever collects things by numbers must do right if two of them turn out to be equal.

A `Size` is no `int`, so that nothing can take its number for granted: whoever needs that as it is asks for it (`__index__`), and
from then on it is that number. What does not know such sizes refuses them with a TypeError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from operator import index
from typing import Any

from .known import ATOM, BOUNDED, CONSTANT, DIVIDED, HOW
from .records import NamedTuple

_serial = count(1).__next__  # of the next trace
Monomial = tuple[int, ...]  # the atoms of a product, in order; () is 1
Terms = tuple[tuple[Monomial, int], ...]  # in order, each with how often it is added; never 0 times


class Size:
    """A whole number that was given to a trace, or worked out of such: the sum of `terms`, which is `value` this time."""

    __slots__ = ("terms", "trace", "value")

    def __init__(self, trace: Trace, value: int, terms: Terms) -> None:
        self.trace, self.value, self.terms = trace, value, terms

    # Arithmetic

    def __add__(self, other: Number) -> Number:
        if type(other) is int:
            return Size(self.trace, self.value + other, _plus(self.terms, other))
        if not isinstance(other, (int, Size)):
            return NotImplemented
        return self.trace.number(self.value + int_of(other), _summed(self.terms, terms_of(other)))

    def __mul__(self, other: Number) -> Number:
        if type(other) is int and other:
            return Size(self.trace, self.value * other, tuple([(monomial, n * other) for monomial, n in self.terms]))
        if not isinstance(other, (int, Size)):
            return NotImplemented
        products = [(tuple(sorted(m + n)), a * b) for m, a in self.terms for n, b in terms_of(other)]
        return self.trace.number(self.value * int_of(other), _summed((), products))

    def __divmod__(self, other: Number) -> tuple[Number, Number]:
        if not isinstance(other, (int, Size)):
            return NotImplemented
        quotient, rest = self.trace.divided(self, other)
        return quotient, rest or 0  # whether it divides is asked

    def __rdivmod__(self, other: int) -> tuple[Number, Number]:
        if not isinstance(other, int):
            return NotImplemented
        quotient, rest = self.trace.divided(other, self)
        return quotient, rest or 0

    def __neg__(self) -> Number:
        return self * -1

    def __sub__(self, other: Number) -> Number:
        return self + other * -1

    def __rsub__(self, other: int) -> Number:
        return self * -1 + other

    def __floordiv__(self, other: Number) -> Number:
        return self.trace.divided(self, other)[0] if isinstance(other, (int, Size)) else NotImplemented

    def __rfloordiv__(self, other: int) -> Number:
        return self.trace.divided(other, self)[0] if isinstance(other, int) else NotImplemented

    def __rtruediv__(self, other: float) -> Quotient:
        return Quotient(other, self) if type(other) is float else NotImplemented

    def __mod__(self, other: Number) -> Number:
        return divmod(self, other)[1]

    def __rmod__(self, other: int) -> Number:
        return divmod(other, self)[1]

    __radd__, __rmul__ = __add__, __mul__

    def __abs__(self) -> Number:
        return self if self >= 0 else -self

    # Questions

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
        """That of the number that this is from now on."""
        return self.__index__().bit_length()

    def __hash__(self) -> int:
        # So those of one trace that are equal this time are one key, once that was asked; but no int is the same key, nor what is of
        # another trace, though some may be remembered as keys.
        return hash((self.trace.serial, self.value))

    def __array__(self, *_: object, **__: object) -> Any:
        raise TypeError("NumPy would not remember how a size was found")

    def __str__(self) -> str:
        return str(self.__index__())

    def __repr__(self) -> str:
        return self.trace.text(self)


class Quotient:
    """A float that was worked out of a size: another divided by that. It is what a kernel computes with, and nothing is asked of it."""

    __slots__ = ("by", "over")

    def __init__(self, over: float, by: Size) -> None:
        self.over, self.by = over, by

    def __repr__(self) -> str:
        return f"{self.over} / ({self.by!r})"

    def _refused(self, *_: object) -> Any:
        raise TypeError("a quotient of a size is not known")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __hash__ = __float__ = _refused


Number = int | Size


def int_of(n: Number) -> int:
    """The number as it is this time, of which nothing may come but another `Size`'s value."""
    return n.value if isinstance(n, Size) else n


def terms_of(n: Number) -> Terms:
    """What a number is the sum of."""
    return n.terms if isinstance(n, Size) else (((), n),) if n else ()


def _plus(terms: Terms, n: int) -> Terms:
    """A sum, and a number more."""
    monomial, constant = terms[0]
    if monomial:
        return (((), n), *terms) if n else terms
    return (((), constant + n), *terms[1:]) if constant + n else terms[1:]


def _summed(first: Iterable[tuple[Monomial, int]], second: Iterable[tuple[Monomial, int]]) -> Terms:
    found: dict[Monomial, int] = dict(first)
    for monomial, times in second:
        found[monomial] = found.get(monomial, 0) + times
    return tuple(sorted([term for term in found.items() if term[1]]))


class Condition(NamedTuple):
    """A sum is 0, or is not, or is below 0, or not (`HOW`)."""

    terms: Terms
    how: str


class Bounds(NamedTuple):
    """An atom is no less than one number, and no more than another: all that many conditions say of it together."""

    atom: int
    least: int
    most: int


class Division(NamedTuple):
    """Two atoms are quotient and remainder of two sums."""

    over: Terms
    by: Terms
    names: tuple[str, str]


Line = Condition | Bounds | Division
LEAST, MOST = -(1 << 63), (1 << 63) - 1  # integers of machine code: no size is beyond
_UNLIKE = {"==": "!=", "<": ">="}


class Trace:
    """What was worked out of some given numbers, and what was asked on the way."""

    def __init__(self) -> None:
        self.serial = _serial()
        self.names: list[str] = []  # of the atoms: what was given, and what divisions gave
        self.given: list[str] = []
        self.lines: dict[Condition | Division, None] = {}  # in order: what holds, and what was divided
        self.divisions: dict[tuple[Terms, Terms], tuple[Number, Number]] = {}

    def size(self, value: int) -> Size:
        """A number that is given, the next one of the function that is written in the end."""
        self.given.append(f"n{len(self.given)}")
        return self._atom(self.given[-1], value)

    def _atom(self, name: str, value: int) -> Size:
        self.names.append(name)
        return Size(self, value, (((len(self.names) - 1,), 1),))

    def number(self, value: int, terms: Terms) -> Number:
        """The number of these terms: an int if nothing that was given is in them."""
        return Size(self, value, terms) if terms and terms[-1][0] else value

    def asked(self, difference: Number, how: str, answer: bool) -> bool:
        """The answer to whether a number is 0 (`how`: `==`), or below (`<`): noted, unless it is always that."""
        if isinstance(difference, Size):
            self.lines[Condition(difference.terms, how if answer else _UNLIKE[how])] = None
        return answer

    def divided(self, a: Number, b: Number) -> tuple[Number, Number]:
        """Quotient, rounded down, and remainder."""
        value, rest = divmod(int_of(a), int_of(b))
        key = terms, by = terms_of(a), terms_of(b)
        found = self.divisions.get(key)
        if found is not None:
            return found
        if isinstance(b, Size):
            self.asked(b, "==", False)
        exact = _exactly(terms, by)
        if value == 0 and rest:
            self.asked(a, "<", rest < 0)
            self.asked(abs(a) - abs(b), "<", True)
            found = 0, a
        elif exact is not None:
            found = self.number(value, exact), rest
        elif isinstance(b, int) and all(times % b == 0 for monomial, times in terms if monomial):
            found = self.number(value, tuple([(m, n // b) for m, n in terms if n // b])), rest
        else:
            names = f"q{len(self.names)}", f"r{len(self.names)}"
            self.lines[Division(terms, by, names)] = None
            found = self._atom(names[0], value), self._atom(names[1], rest)
        self.divisions[key] = found
        return found

    @property
    def is_pinned(self) -> bool:
        """Whether one of the given numbers was asked for as it is: what was found is for that one alone."""
        return any([isinstance(line, Condition) and line.how == "==" and self._is_given(line.terms) for line in self.lines])

    def _is_given(self, terms: Terms) -> bool:
        *constant, (monomial, _) = terms
        return len(constant) <= 1 and len(monomial) == 1 and monomial[0] < len(self.given) and (not constant or not constant[0][0])

    def text(self, value: Any) -> str:
        """A number, or a tuple of such, as it is worked out."""
        if isinstance(value, tuple):
            return f"({''.join([self.text(part) + ', ' for part in value])})"
        return self._sum(value.terms) if isinstance(value, Size) else str(index(value))

    def _sum(self, terms: Terms) -> str:
        names = self.names
        return " + ".join(["*".join([str(n)] * (n != 1 or not m) + [names[a] for a in m]) for m, n in terms]) or "0"

    def brief(self) -> list[Line]:
        """The lines, with all bounds of a given number in one, and without what follows from that."""
        bounds, others, rest = dict[int, tuple[int, int]](), dict[int, list[int]](), list[Line]()
        for line in self.lines:
            known = self._of_one_number(line) if isinstance(line, Condition) else None
            if known is None:
                rest.append(line)
                continue
            atom, least, most, other = known
            before = bounds.get(atom, (LEAST, MOST))
            bounds[atom] = max(before[0], least), min(before[1], most)
            if other is not None:
                others.setdefault(atom, []).append(other)
        found, unequal = list[Line](), list[Line]()
        for atom, (least, most) in bounds.items():
            holes = set(others.get(atom, ()))
            while least in holes:
                least += 1
            while most in holes:
                most -= 1
            if (least, most) != (LEAST, MOST):
                found.append(Bounds(atom, least, most))
            unequal += [Condition(_summed((((atom,), 1),), (((), -n),)), "!=") for n in sorted(holes) if least < n < most]
        return [*found, *unequal, *rest]

    def _of_one_number(self, condition: Condition) -> tuple[int, int, int, int | None] | None:
        """What a condition says of the only number in it, if that was given and is not multiplied by itself: which it is, the least and the
        most that it may be, and what it may not be.
        """
        *first, (monomial, times) = condition.terms
        if len(monomial) != 1 or monomial[0] >= len(self.given) or len(first) > 1 or (first and first[0][0]):
            return None
        (atom,), constant, how = monomial, first[0][1] if first else 0, condition.how
        if how in ("==", "!="):
            equal, is_between = divmod(-constant, times)
            if how == "==":
                return None if is_between else (atom, equal, equal, None)
            return atom, LEAST, MOST, None if is_between else equal
        if how == "<":  # as times * n + constant >= 0
            times, constant = -times, -constant - 1
        return (atom, -(constant // times), MOST, None) if times > 0 else (atom, LEAST, constant // -times, None)

    def said(self, line: Condition | Bounds) -> str:
        """What holds, in words of Python."""
        if isinstance(line, Bounds):
            name, least, most = self.names[line.atom], line.least, line.most
            return " <= ".join([*[str(least)] * (least > LEAST), name, *[str(most)] * (most < MOST)])
        first, constant = line.terms[0]
        terms, constant = (line.terms, 0) if first else (line.terms[1:], constant)
        return f"{self._sum(terms)} {line.how} {-constant}"

    def source(self, results: tuple[object, ...]) -> str:
        """The function of numbers in place of the given ones that gives the results for them; None if they give other answers. Of a
        division nothing is worked out that nobody reads: the numbers may be `Size`s, which note that they were asked whether they divide.
        """
        lines, holds, brief = [f"def found({', '.join(self.given)}):"], list[str](), self.brief()
        read = {self.names[atom] for atom in _atoms_in((brief, results))}

        def check() -> None:
            if holds:
                lines.append(f"if not ({' and '.join(holds)}): return None")
                holds.clear()

        for line in brief:
            if not isinstance(line, Division):
                holds.append(self.said(line))
                continue
            check()
            quotient, rest = line.names
            if rest in read:
                lines.append(f"{quotient}, {rest} = divmod({self._sum(line.over)}, {self._sum(line.by)})")
            elif quotient in read:
                lines.append(f"{quotient} = ({self._sum(line.over)}) // ({self._sum(line.by)})")
        check()
        return "\n    ".join([*lines, f"return {self.text(results)}"])

    def written(self, results: tuple[object, ...]) -> Callable[..., tuple[Any, ...] | None]:
        """That function."""
        scope: dict[str, Callable[..., tuple[Any, ...] | None]] = {}
        exec(self.source(results), scope)
        return scope["found"]

    def words(self, results: Iterable[Number]) -> list[int]:
        """The same function in words: how many numbers are given; how many lines there are, each of which is a condition, as how it is
        compared with 0 and a sum, a division, as `DIVIDED` and two sums, or what bounds a number, as `BOUNDED`, which one it is, the least
        and the most; then how many results there are, and as many sums, of which most are `CONSTANT` or an `ATOM`, with that behind.
        """
        lines = self.brief()
        found = [len(self.given), len(lines)]
        for line in lines:
            if isinstance(line, Condition):
                found += (HOW.index(line.how), *_words(line.terms))
            elif isinstance(line, Bounds):
                found += (BOUNDED, *line)
            else:
                found += (DIVIDED, *_words(line.over), *_words(line.by))
        last = [terms_of(n) for n in results]
        return [*found, len(last), *[word for terms in last for word in _words_of_result(terms)]]


def _words(terms: Terms) -> list[int]:
    """A sum: how many products there are, and of each how often it is added, of how many atoms it is, and which they are."""
    return [len(terms), *[word for monomial, times in terms for word in (times, len(monomial), *monomial)]]


def _words_of_result(terms: Terms) -> list[int]:
    """The same, in two words if it is a number that is known, or an atom."""
    if not terms or terms[-1][0] == ():
        return [CONSTANT, terms[-1][1] if terms else 0]
    (monomial, times) = terms[-1]
    return [ATOM, *monomial] if (len(terms), len(monomial), times) == (1, 1, 1) else _words(terms)


def _atoms_in(value: Any) -> set[int]:
    """The atoms of all sums that are in some lines, or results."""
    if isinstance(value, (Size, Condition)):
        return {atom for monomial, _ in value.terms for atom in monomial}
    if isinstance(value, Division):
        return {atom for terms in (value.over, value.by) for monomial, _ in terms for atom in monomial}
    return set[int]().union(*map(_atoms_in, value)) if type(value) in (tuple, list) else set()


def _exactly(terms: Terms, by: Terms) -> Terms | None:
    """The quotient of two sums of which the second is one product that is in all terms of the first, else None."""
    if len(by) != 1:
        return () if not terms else ((((), 1),) if terms == by else None)
    ((divisor, times),) = by
    found = []
    for monomial, n in terms:
        rest = list(monomial)
        for atom in divisor:
            if atom not in rest:
                return None
            rest.remove(atom)
        if n % times:
            return None
        found.append((tuple(rest), n // times))
    return tuple(sorted(found))
