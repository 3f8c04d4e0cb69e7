"""Tensor specs: interned descriptors of shape, strides and dtype, without storage and offset; and the cache of results keyed by specs.

An operation has results of equal specs for operands of equal specs. So such a result is recorded as a template (`Made`) in the tables of an
operand's spec, and found again by identity.
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
MAX_MADE = 1 << 15  # entries in the tables of all specs together
COUNTED = 1 << 10  # entries counted by the fast path before a report, including entries removed meanwhile
EXACT = 1 << 53  # a float represents every smaller integer exactly
LARGEST_INT, LARGEST_UNSIGNED = (1 << 63) - 1, (1 << 64) - 1  # the ranges of 64-bit integers


def itself(operands: tuple[Any, ...]) -> Any:
    """Return the only operand: the `kind` of a template for calls that return the operand itself."""
    return operands[0]


Read = tuple[tuple[Scalar | int, ...], tuple[int, ...], bool]
Step = tuple[Recipe, tuple[Scalar | int, ...], tuple[int, ...], bool]


class Made:
    """A template of the result of an operation for operands with given specs: a tensor with the spec `spec`. Several variants share the
    class:

    - A pending node: `recipe` on the operands. A Python integer among them must lie between `low` and `high`.
    - Several pending nodes, `steps`. Each has a recipe (in `recipes`), and in `reads` the sources, the offsets, and whether derivatives
      record it, which is mostly equal for all sizes. A source is a `Scalar`, the number of an operand, or -1 - k for step k. The offset of
      an operand is added to the operand's own offset.
    - A view of the operand, `shift` elements further. A view chain has no shift: such a view begins at `high`, and is valid for operands at
      offset `low`, or at every offset if `low` is negative. The operand itself has `itself` as the `kind`.
    - Several results, the templates `parts`. `kind` makes the result of the tuple of them: `tuple`, or a constructor of another tuple type.
    - A write: `frame` is the launch record, and `plan` holds the kernel. For a copy, `frame` has the source and the destination.
    - Results of NumPy: `host` computes the arrays for `parts` from the operands' arrays, or None. `kind` is as above, or None for a single
      result. `loop` is bytecode for the fast path to compute the results directly in our buffers; the only number among the arguments is
      read with the dtype `number`. Where sizes depend on values, `parts` are mappings from sizes to templates.

    A template in the inline cache of a spec (`NEAR`) has its key in `operation` (an operation, or the name of a method) and `beside`.
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
        """The steps, each a recipe with an entry of `reads`."""
        return tuple([(recipe, *read) for recipe, read in zip(self.recipes, self.reads, strict=True)])


Table = dict[object, dict[object, Made | None]]  # None: the result cannot be replayed
NEAR = ("near_0", "near_1")  # slots of the inline cache of a spec, for templates outside the tables


class Spec:
    """An interned descriptor of tensors: a layout key (`form`) with a dtype. Equal specs are the same object.

    `layout` is the layout at offset 0. `strides` is None where strides do not describe the layout: for offset tables and view chains.
    `writable` is true if each element is known to occur once, and `gapless` if the elements are contiguous. The fast path makes specs
    without a layout key (`shortcut/code/specs.py`); missing attributes are computed at the first request. `data` is the recipe of data of
    this shape, for the fast path alone.

    The tables have templates of results. `made` is keyed by operation, then by the second operand: the spec of a tensor, the type of a
    number, or None for a unary operation. `made_after` is for operations with a number as the first operand. `called` is keyed by the name
    of a method, then by the remaining arguments. The fast path writes the first two templates into an inline cache (`NEAR`), as most specs
    get no more; Python moves these to the tables before a look-up. `known` is the spec that replaces this spec where the value of a tensor
    is a known number.
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
        self._flush_inline_cache()
        return self._made

    @property
    def called(self) -> Table:
        self._flush_inline_cache()
        return self._called

    def _flush_inline_cache(self) -> None:
        """Move the inline cache to the tables. Several threads may do so at the same time."""
        for slot in NEAR:
            template: Made | None = getattr(self, slot)
            if template is not None:
                table = self._called if type(template.operation) is str else self._made
                if not table:
                    _tables.append(table)
                table.setdefault(template.operation, {})[template.beside] = template
        self.clear()

    def clear(self) -> None:
        """Clear the inline cache."""
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
            """Compute an attribute at the first request."""
            if name == "form":
                value = form_of_numbers(self.shape, self.strides)
                value.specs.setdefault(self.dtype, self)
            elif name == "layout":
                value = self.form.layout
            elif name == "nbytes":
                value = self.size * self.dtype.itemsize
            elif name in ("_made", "made_after", "_called"):
                value = {}
            elif name in NEAR:
                return None
            else:
                raise AttributeError(name)
            setattr(self, name, value)
            return value

    def __repr__(self) -> str:
        return f"Spec({self.layout}, {self.dtype})"


def spec_of_numbers(dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...]) -> Spec:
    """Return the spec of a view with the given shape and strides."""
    return spec_of(form_of_numbers(shape, strides).layout, dtype)


def spec_of(layout: Layout, dtype: DType) -> Spec:
    """Return the spec of tensors with a layout, at any offset, and a dtype."""
    form = layout._form or layout.form
    spec: Spec | None = form.specs.get(dtype)
    if spec is None:
        spec = form.specs[dtype] = _find_in_fast_path(form, dtype) or Spec(form, dtype)
    return spec


# Hook of the fast path, one or none. Return the fast path's spec of a dtype, shape and strides; on a miss, store the last argument, or make
# a spec in place of None. Return None for a spec of a kind that is not stored.
keepers: list[Callable[[DType, tuple[int, ...], tuple[int, ...], Spec | None], Spec | None]] = []


def _find_in_fast_path(form: Form, dtype: DType) -> Spec | None:
    """Return the spec for a layout key that the fast path stores or makes. Return None if it stores no such spec, or one of an older key.
    """
    layout = form.layout
    if layout.tables is None and layout.base is None:
        for keeper in keepers:
            spec = keeper(dtype, layout.shape, layout.strides, None)
            if spec is not None and spec.form is form:
                return spec
    return None


def of_known(spec: Spec) -> Spec:
    """Return the spec that stands for `spec` where the value of the tensor is a known number."""
    constant_spec = spec.known
    if constant_spec is None:
        constant_spec = spec.known = Spec(spec.form, spec.dtype)
    return constant_spec


def found_with(op: object, keys: list[object]) -> tuple[Table, object, object]:
    """Return the place of a template: the table, the operation, and the key of the remaining operands.

    `keys` has the specs of the operands, with the types of numbers in their places. At least one of the first two keys is a spec.
    """
    first, second, *other_keys = (*keys, None) if len(keys) == 1 else keys
    if type(first) is Spec:
        return first.made, op, second if not other_keys else (second, *other_keys)
    assert type(second) is Spec
    return second.made_after, op, first if not other_keys else (first, *other_keys)


_tables: list[Table | Spec] = []  # the tables with entries, and the specs with an inline cache in use
_through: dict[object, Recipe] = {}  # recipes that the fast path made of specs without a template, by their fields
_count = 0


def remember(table: Table, operation: object, other_key: object, template: Made | None) -> None:
    """Record a template in a table of a spec; None records a result that cannot be replayed. Above `MAX_MADE` entries, clear every table
    first.
    """
    global _count
    if _count >= MAX_MADE:
        forget()
    if not table:
        _tables.append(table)
    table.setdefault(operation, {})[other_key] = template
    _count += 1


def remembered() -> None:
    """Count `COUNTED` templates recorded by the fast path, which calls this function. Above `MAX_MADE` entries, clear every table."""
    global _count
    _count += COUNTED
    if _count >= MAX_MADE:
        forget()


def forget() -> None:
    """Clear the tables of every spec."""
    global _count
    _through.clear()
    while _tables:
        _tables.pop().clear()
    _count = 0


class Caller(NamedTuple):
    """Functions of the fast path (`shortcut/code/call.py`) for the replay of recorded calls.

    `again` takes the name of a function, the positional arguments (a tensor first) and the keyword arguments; it returns the view or
    pending result of a recorded call, or None on a miss. `learning` takes a name and a function, and returns a wrapper that calls the
    function and records the result, and the reports to `hearers` during the call. `telling` returns a wrapper that records only these
    reports.
    """

    again: Callable[..., Any]
    learning: Callable[[str, Callable[..., Any]], Callable[..., Any]]
    telling: Callable[[str, Callable[..., Any]], Callable[..., Any]]


callers: list[Caller] = []  # a hook: one, or none
# Hook, one or none: called with the operands and results of a NumPy computation, the function for the arrays, and the C loop to compute
# directly into buffers.
hearers: list[Callable[..., None]] = []  # a hook: one, or none


def told_again(original: Callable[P, T]) -> Callable[P, T]:
    """Memoise the host computations reported by a function (`functions/hosted.py`), for replay by the fast path. Return the wrapped
    function.

    The size of the result, and whether a result exists, may depend on values.
    """
    return _wrap_for_replay(original, lambda caller: caller.telling)


def called_again(original: Callable[P, T]) -> Callable[P, T]:
    """Memoise a function whose result depends on the arguments alone and on no value of a tensor. Return the wrapped function."""
    return _wrap_for_replay(original, lambda caller: caller.learning)


def _wrap_for_replay(original: Callable[P, T], wrapper_of: Callable[[Caller], Callable[..., Any]]) -> Callable[P, T]:
    """Wrap a function for replay by the fast path (`frameless`). Where the fast path declines, the wrapper made by `wrapper_of` runs and
    records.
    """
    name = f"{original.__module__}.{original.__qualname__}"

    @wraps(original)
    def function(*args: P.args, **kwargs: P.kwargs) -> T:
        if args:
            for caller in callers:
                result: T = wrapper_of(caller)(name, original)(*args, **kwargs)
                return result
        return original(*args, **kwargs)

    function.__annotations__ = original.__annotations__  # from CPython 3.14 on, `wraps` misses annotations that were set explicitly
    return frameless(function, "again", name)
