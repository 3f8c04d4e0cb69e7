"""Specs: what a tensor is besides its storage and where in it it begins. Equal ones are one object.

So what an operation makes of tensors, once found out, is remembered with their specs, and found again by identity.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .dtypes import DType
from .frameless import frameless
from .layout import Form, Layout, form_of_numbers
from .node import Recipe, Scalar
from .records import NamedTuple

P = ParamSpec("P")
T = TypeVar("T")
MAX_MADE = 1 << 15  # of all that specs know to be made
COUNTED = 1 << 10  # of these, which machine code counts before it tells of them, also of those that were forgotten meanwhile
EXACT = 1 << 53  # integers below are floats, too
LARGEST_INT, LARGEST_UNSIGNED = (1 << 63) - 1, (1 << 64) - 1  # of machine code


def itself(parts: tuple[Any, ...]) -> Any:
    """The kind of what is no other tensor than the operand."""
    return parts[0]


Read = tuple[tuple[Scalar | int, ...], tuple[int, ...], bool]
Step = tuple[Recipe, tuple[Scalar | int, ...], tuple[int, ...], bool]


class Made:
    """What an operation makes of operands with certain specs: a tensor of this spec, seen from its first element on.

    It holds a node of this recipe, whose sources are the operands; a Python integer among them lies between `low` and `high`. Or it is
    made in `steps`, each of which is a recipe, one of the `recipes`, and what that `reads`: its sources, its offsets, and whether
    derivatives follow it, which is mostly the same for all sizes. A source is a `Scalar`, the number of an operand, or that of a step
    before, as -1 - k; the offset of an operand is one to be added to its own. Without either it is a view of the operand, from `shift`
    elements further on; where a chain takes part there is no such number: the view begins at `high`, if the operand does at `low`, or
    wherever that does if this is below 0. Or it is a tuple of such `parts`. Of a write, `frame` says how it is done, by a kernel that
    `plan` has in memory; of what is copied, where that lies and goes. What a `host` makes are the arrays that it gives of such with the
    operands' elements, as its `parts`, or None: as a tuple of a `kind`, or the only one as it is. Where the kind is `itself` it is the
    operand. Where there is a `loop`, a program for machine code, that does the same in place; the only `number` among the arguments is
    read in that dtype, if there is one. Where sizes are found, there are tables in place of parts, which tell those by size. What stands
    in a spec itself (`NEAR`) has the `operation`, or method, and what is `beside`, by which it is found.
    """

    __slots__ = (
        *("beside", "frame", "high", "host", "kind", "loop", "low", "number"),
        *("operation", "parts", "plan", "reads", "recipe", "recipes", "shift", "spec"),
    )

    def __init__(
        self,
        spec: Spec,
        recipe: Recipe | None = None,
        low: int = 0,
        high: int = 0,
        steps: tuple[Step, ...] = (),
        shift: int | None = 0,
        frame: bytes = b"",
        plan: object = None,
        parts: tuple[Made, ...] = (),
        host: Callable[..., Any] | None = None,
        kind: Callable[[tuple[Any, ...]], Any] | None = None,
        loop: bytes = b"",
        number: DType | None = None,
    ) -> None:
        self.number = number
        self.spec, self.recipe, self.low, self.high = spec, recipe, low, high
        self.shift, self.frame, self.plan, self.parts = shift, frame, plan, parts
        self.recipes = tuple([step[0] for step in steps])
        self.reads: tuple[Read, ...] = tuple([step[1:] for step in steps])
        self.host, self.kind, self.loop = host, kind, loop
        self.operation: object = None
        self.beside: object = None

    @property
    def steps(self) -> tuple[Step, ...]:
        """One after another."""
        return tuple([(recipe, *read) for recipe, read in zip(self.recipes, self.reads, strict=True)])


Table = dict[object, dict[object, Made | None]]  # None for what cannot be made again
NEAR = ("near_0", "near_1")  # slots of a spec for what is made that else would be in tables


class Spec:
    """A form with a dtype. `layout` is the one of this form that begins at 0; `strides` are its, if they say all of it. Machine code
    makes specs without a form (`shortcut/code/specs.py`): that, and what else nobody has asked for yet, is found out then.

    `made` tells, by operation, what it makes of a tensor like this and what is beside it: by the spec of that, or the type of
    a number; of one operand alone, by None. Where a number stands first, `made_after` does. `called` tells, by the name of a method and
    its arguments, what that makes of a tensor like this. What machine code writes in these two first stands in the spec itself (`NEAR`), as
    most of many sizes are asked for one thing, or two: Python's tables have it once somebody looks. `known` stands instead of this for what
    is a known number. What is `writable` is known to have each element once; what is `gapless` walks memory element by element. `data` is
    the recipe of what is in memory with this shape, for machine code alone.
    """

    __slots__ = (
        *("_called", "_made", "data", "dtype", "form", "gapless", "known", "layout", "made_after"),
        *("nbytes", "shape", "size", "strides", "writable"),
        *NEAR,
    )

    def __init__(self, form: Form, dtype: DType) -> None:
        self.form, self.dtype = form, dtype
        layout: Layout = form.layout
        self.layout, self.shape, self.size = layout, layout.shape, layout.size
        self.gapless = layout.is_contiguous()
        self.strides = layout.strides if layout.tables is None and layout.base is None else None
        self.known: Spec | None = None
        self.writable = False

    @property
    def made(self) -> Table:
        self._have_in_tables()
        return self._made

    @property
    def called(self) -> Table:
        self._have_in_tables()
        return self._called

    def _have_in_tables(self) -> None:
        """Have what stands in the spec itself in its tables; another thread may do so, too."""
        for slot in NEAR:
            made: Made | None = getattr(self, slot)
            if made is not None:
                table = self._called if type(made.operation) is str else self._made
                if not table:
                    _tables.append(table)
                table.setdefault(made.operation, {})[made.beside] = made
        self.clear()

    def clear(self) -> None:
        """Forget what stands in the spec itself."""
        self.near_0 = self.near_1 = None

    if TYPE_CHECKING:
        form: Form
        made_after: Table
        _made: Table
        _called: Table
        near_0: Made | None
        near_1: Made | None
        nbytes: int
    else:

        def __getattr__(self, name: str) -> Any:
            """What was not asked for yet."""
            if name == "form":
                found = form_of_numbers(self.shape, self.strides)
                found.specs.setdefault(self.dtype, self)
            elif name == "layout":
                found = self.form.layout
            elif name == "nbytes":
                found = self.size * self.dtype.itemsize
            elif name in ("_made", "made_after", "_called"):
                found = {}
            elif name in NEAR:
                return None
            else:
                raise AttributeError(name)
            setattr(self, name, found)
            return found

    def __repr__(self) -> str:
        return f"Spec({self.layout}, {self.dtype})"


def spec_of_numbers(dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...]) -> Spec:
    """The spec of a view with this shape and these strides."""
    return spec_of(form_of_numbers(shape, strides).layout, dtype)


def spec_of(layout: Layout, dtype: DType) -> Spec:
    """The spec of tensors with this layout and dtype."""
    form = layout._form or layout.form
    found: Spec | None = form.specs.get(dtype)
    if found is None:
        found = form.specs[dtype] = _of_keeper(form, dtype) or Spec(form, dtype)
    return found


# Machine code that keeps specs by their dtype, shape and strides: it gives the one that it has, or else keeps the last argument, or makes
# one in the place of None; None for one that it does not keep. One, or none.
keepers: list[Callable[[DType, tuple[int, ...], tuple[int, ...], Spec | None], Spec | None]] = []


def _of_keeper(form: Form, dtype: DType) -> Spec | None:
    """The spec that machine code keeps, if it does, and the form is the one that is found for its numbers."""
    layout = form.layout
    if layout.tables is None and layout.base is None:
        for keeper in keepers:
            found = keeper(dtype, layout.shape, layout.strides, None)
            if found is not None and found.form is form:
                return found
    return None


def of_known(spec: Spec) -> Spec:
    """What stands for a spec where the tensor's number is known."""
    found = spec.known
    if found is None:
        found = spec.known = Spec(spec.form, spec.dtype)
    return found


def found_with(op: object, keys: list[object]) -> tuple[Table, object, object]:
    """Where it is written what an operation makes of operands with these specs, or of numbers of these types: the table, and its keys."""
    first, second, *others = (*keys, None) if len(keys) == 1 else keys
    if type(first) is Spec:
        return first.made, op, second if not others else (second, *others)
    assert type(second) is Spec
    return second.made_after, op, first if not others else (first, *others)


_tables: list[Table | Spec] = []  # with anything in them, and specs with something in themselves
_through: dict[object, Recipe] = {}  # recipes that machine code made of specs, but by no rule, by their parts
_count = 0


def remember(table: Table, operation: object, beside: object, made: Made | None) -> None:
    """Write down in a spec's table what an operation makes. All tables are emptied when they would hold too much."""
    global _count
    if _count >= MAX_MADE:
        forget()
    if not table:
        _tables.append(table)
    table.setdefault(operation, {})[beside] = made
    _count += 1


def remembered() -> None:
    """Machine code has written down as many as it counts."""
    global _count
    _count += COUNTED
    if _count >= MAX_MADE:
        forget()


def forget() -> None:
    """Empty all tables."""
    global _count
    _through.clear()
    while _tables:
        _tables.pop().clear()
    _count = 0


class Caller(NamedTuple):
    """Machine code (`shortcut/code/call.py`) that makes what a function made of tensors like these before: a view, or what is pending. It
    takes the function's name, and a tuple and a dictionary of its arguments, the first of which is in the tuple; it gives None for what
    it has not met. What it learns from is the function, called by what `learning` gives for its name and itself, and what `hearers` hear
    on the way. By `telling` it learns from nothing but that.
    """

    again: Callable[..., Any]
    learning: Callable[[str, Callable[..., Any]], Callable[..., Any]]
    telling: Callable[[str, Callable[..., Any]], Callable[..., Any]]


callers: list[Caller] = []  # one, or none
# Who hears of which tensors NumPy computed which others, what computes arrays of arrays like it, and which of its loops does so in place.
hearers: list[Callable[..., None]] = []  # one, or none


def told_again(own: Callable[P, T]) -> Callable[P, T]:
    """The same function, of which is remembered what it tells (`functions/hosted.py`) that machine code does in its place. How large its
    result is, and whether there is one, may depend on values.
    """
    return _again(own, lambda caller: caller.telling)


def called_again(own: Callable[P, T]) -> Callable[P, T]:
    """The same function, of which is remembered what it makes: that depends on no value of a tensor, and on nothing but its arguments."""
    return _again(own, lambda caller: caller.learning)


def _again(own: Callable[P, T], first: Callable[[Caller], Callable[..., Any]]) -> Callable[P, T]:
    """The same function, called by machine code where that knows how (`frameless`), and else `first` so that it will."""
    name = f"{own.__module__}.{own.__qualname__}"

    @wraps(own)
    def function(*args: P.args, **named: P.kwargs) -> T:
        if args:
            for caller in callers:
                learnt: T = first(caller)(name, own)(*args, **named)
                return learnt
        return own(*args, **named)

    function.__annotations__ = own.__annotations__  # which, if somebody has set them, `wraps` does not see from CPython 3.14 on
    return frameless(function, "again", name)
