"""The base of `Tensor`: a storage seen through a layout, with evaluation, reads and writes.

Further methods are built from four: `_view` (another layout of the same storage), `_compute` (a new pending tensor), `realize` and
`_write`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from types import EllipsisType
from typing import Any, Self, SupportsIndex

import numpy as np

from ..dtypes import (
    DEFAULT_FLOAT,
    DType,
    Number,
    int64,
    of_number,
    plain_number,
    shown_integer,
    uint64,
    weak,
)
from ..errors import ArgumentError, DTypeError, NegativeExponent, ShapeError, UnknownAttribute, described
from ..late import LateModule
from ..layout import Layout, broadcast_shapes, memory_order
from ..node import HEAVY, MAX_PENDING, Node, Recipe, Scalar, reinterpreted, watchers
from ..ops import OPS, Op
from ..ops.rules import floating, inexact, number_and_real
from ..pool import pool
from ..realize import realize
from ..spec import EXACT, LARGEST_INT, LARGEST_UNSIGNED, Made, Spec, found_with, of_known, spec_of
from ..spec import remember as remember_made
from ..storage import Element, Storage

waiting = LateModule("tenxor.pending")
Shape = tuple[int, ...]
_contiguous = Layout.contiguous
MAX_SIZE = 1 << 59  # elements of one tensor: their bytes can be counted in 64 bits
_POSITIVE, _CAST, _POW = OPS["positive"], OPS["cast"], OPS["pow"]
# The result of an in-place operation must not be of a higher kind than the tensor.
KINDS = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}


def check_device(op: str, device: object) -> None:
    """Raise ArgumentError for any device but "cpu"."""
    if not (isinstance(device, str) and device == "cpu"):
        raise ArgumentError(
            f"{op}: there is no device {described(device)};"
            " Tenxor computes on the CPU, where every tensor is: leave the device out, or give 'cpu'"
        )


class Elsewhere:
    """The last base class of `Tensor`, for advice about attribute names of other libraries.

    Foreign names may be set on this class, so that an access raises an error with advice. `dir` does not list them.
    """

    __slots__ = ()

    def __dir__(self) -> list[str]:
        own_names = {name for cls in type(self).__mro__ if cls is not Elsewhere for name in vars(cls)}
        return [name for name in super().__dir__() if name in own_names or name not in vars(Elsewhere)]


class Core(Elsewhere):
    """A storage seen through a layout; see `Tensor`.

    A view is described by `layout`, or by `spec` and `offset`. Either description is computed from the other when first read.
    """

    __slots__ = {
        "__weakref__": None,
        "dtype": "The elements' type.",
        "layout": "Where in the storage each element is.",
        "offset": "Where in the storage the first element is, in elements (in a chain: in the view below).",
        "spec": "What it is besides its storage and where in it it begins.",
        "storage": "The memory that this is a view of.",
    }

    storage: Storage
    layout: Layout
    dtype: DType
    spec: Spec
    offset: int

    def __init__(self, storage: Storage, layout: Layout | None = None, dtype: DType | None = None) -> None:
        if layout is None:
            raise DTypeError("Tensor: not made from values; use tx.asarray(values), tx.zeros(shape) and the like")
        _set_storage(self, storage)
        _set_layout(self, layout)
        _set_dtype(self, dtype)
        _set_offset(self, layout.offset)

    def __setattr__(self, name: str, value: object) -> None:
        setter = getattr(getattr(type(self), name, None), "fset", None)
        if setter is not None:
            setter(self, value)
            return
        remedies = {"dtype": "x.astype(dtype), or x.view(dtype) for the same bytes", "shape": "x.reshape(shape)"}
        raise UnknownAttribute(
            f"a Tensor's {name!r} cannot be set; use {remedies.get(name, 'a view, or x[...] = values to write its elements')}"
        )

    def __delattr__(self, name: str) -> None:
        raise UnknownAttribute(f"a Tensor's {name!r} cannot be deleted; use `del` on the tensor's own name")

    # Properties

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return self.layout.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.layout.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.layout.size

    @property
    def strides(self) -> tuple[int | None, ...]:
        """The number of elements to the next index, for each axis; None for a gathered axis and in a view chain, which have no strides."""
        layout = self.layout
        if layout.base is not None:
            return (None,) * len(layout.shape)
        if layout.tables is None:
            return layout.strides
        return tuple(s if t is None else None for s, t in zip(layout.strides, layout.tables, strict=True))

    @property
    def nbytes(self) -> int:
        """The memory that the elements would take in a contiguous copy, in bytes."""
        return self.layout.size * self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """The memory of one element, in bytes."""
        return self.dtype.itemsize

    @property
    def device(self) -> str:
        """The device of the tensor, always "cpu"."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: object = None) -> Self:
        """Return this tensor. Raise ArgumentError for any device but "cpu"."""
        check_device("to_device", device)
        return self

    def cpu(self) -> Self:
        """Return this tensor, since every tensor is in the CPU's memory; the name is PyTorch's."""
        return self

    def is_contiguous(self) -> bool:
        """Return whether the elements are stored in row-major order without gaps."""
        return self.layout.is_contiguous()

    @property
    def node(self) -> Node:
        """The current node of the storage, with its bytes seen as elements of this dtype."""
        node = self.storage.node
        return node if node.dtype is self.dtype else reinterpreted(node, self.dtype)

    def _has_past(self) -> bool:
        """Return whether the content has a tape node or reads an argument of a traced function. For a known scalar, return False."""
        storage = self.storage
        return not (type(storage) is Element and storage.known(self.dtype) is not None) and storage.node.past is not None

    # The four basic methods

    def _view(self, layout: Layout) -> Self:
        """Return a view: the same storage through another layout."""
        return self.__class__(self.storage, layout, self.dtype)

    @classmethod
    def _of(cls, node: Node, layout: Layout | None = None) -> Self:
        """Return a new tensor for a node, seen through a layout or in the node's shape.

        A node with an externally shared source buffer is evaluated at once. The size of the pending graph is capped.
        """
        recipe = node.recipe
        if layout is None:
            if recipe.size > MAX_SIZE:
                check_count(recipe.op.name, recipe.shape)
            layout = _contiguous(recipe.shape)
        for watcher in watchers:
            watcher(node)
        if node.buffer is None:
            if reads_pinned(node) and not node.traced:
                realize(node)
            elif node.count > MAX_PENDING:
                waiting.bounded(node)
            if node.heavy >= HEAVY:
                waiting.remember(node)
        if pool.pressed:
            waiting.relieve()
        return cls(Storage(node), layout, recipe.dtype)

    @classmethod
    def _compute(cls, op: Op, *operands: Any) -> Self:
        """Return the pending tensor of an elementwise operation on tensors and Python numbers, which broadcast together.

        The result template of an earlier call with the same specs is reused.
        """
        keys: list[object] = []
        sources: list[Any] = []
        offsets: list[int] = []
        number_positions: list[int] = []
        for x in operands:
            if isinstance(x, Core):
                spec, storage = x.spec, x.storage
                if type(storage) is Element and (number := storage.known(spec.dtype)) is not None:
                    sources.append(Scalar(number, spec.dtype))
                    offsets.append(0)
                    keys.append(of_known(spec))
                    continue
                node = storage.node
                sources.append(node if node.recipe.dtype is spec.dtype else reinterpreted(node, spec.dtype))
                offsets.append(x.offset)
                keys.append(spec)
            else:
                number_type = type(x)
                if number_type is not float and number_type is not int:
                    return cls._computed(op, operands)[0]
                number_positions.append(len(sources))
                sources.append(x)
                offsets.append(0)
                keys.append(number_type)
        if type(keys[0]) is not Spec and (len(keys) == 1 or type(keys[1]) is not Spec):
            return cls._computed(op, operands)[0]
        table, operation, other_keys = found_with(op, keys)
        templates = table.get(operation)
        template = None if templates is None else templates.get(other_keys)
        if template is None or not all(
            [type(x) is float or template.low <= x <= template.high for x in map(sources.__getitem__, number_positions)]
        ):
            result, recipe = cls._computed(op, operands)
            if recipe is not None and not recipe.passing:
                low, high = _integer_bounds(op, [recipe.dtypes[k] for k in number_positions])
                remember_made(table, operation, other_keys, Made(result.spec, recipe, low, high))
            return result
        recipe = template.recipe
        assert recipe is not None
        for k in number_positions:
            sources[k] = Scalar(sources[k], recipe.dtypes[k])
        result = cls._of(Node(recipe, tuple(sources), tuple(offsets)), template.spec.layout)
        _set_spec(result, template.spec)
        return result

    def _with(self, op: Op, *operands: Any) -> Self:
        """Return the pending tensor of an elementwise operation on this tensor and further operands."""
        return self._compute(op, self, *operands)

    @classmethod
    def _computed(cls, op: Op, operands: Sequence[Any]) -> tuple[Self, Recipe | None]:
        """Return the pending tensor of an elementwise operation, without the cache of result templates, and its recipe.

        The recipe is None if the result must not be cached.
        """
        if op.name in _COMPARISONS and {x.dtype for x in operands if isinstance(x, Core)} == _BOTH_SIGNS:
            return cls._compare_mixed_signs(op, operands), None
        shape = broadcast(op.name, *[x.layout.shape for x in operands if isinstance(x, Core)])
        number_dtype = _dtype_for_numbers(op, operands)
        sources: list[Node | Scalar] = []
        layouts: list[Layout | None] = []
        for x in operands:
            layout = None
            if not isinstance(x, Core):
                if op is _POW and sources:
                    _check_exponent(x, number_dtype)
                sources.append(scalar(x, number_dtype, op.name))
            elif type(x.storage) is Element and (number := x.storage.known(x.dtype)) is not None:
                sources.append(Scalar(number, x.dtype))
            else:
                layout = x.layout if x.layout.shape == shape else x.layout.expand(shape)
                sources.append(x.node)
            layouts.append(layout)
        dtype = op.result(tuple([s.dtype for s in sources]))
        if op is _POW and type(sources[1]) is Scalar and isinstance(operands[1], Core):
            _check_exponent(sources[1].value, dtype)
            # not cacheable: the recipe would be reused for other exponents without this check
            return cls._in_memory_order(op, shape, dtype, tuple(sources), layouts)[0], None
        return cls._in_memory_order(op, shape, dtype, tuple(sources), layouts)

    @classmethod
    def _compare_mixed_signs(cls, op: Op, operands: Sequence[Any]) -> Self:
        """Return a comparison of int64 with uint64, which have no common dtype.

        Negative numbers are less than every uint64; non-negative numbers are compared as uint64.
        """
        signed = next(x for x in operands if x.dtype is int64)
        unsigned_operands = [
            cls._of(Node.of(_CAST, x.layout.shape, uint64, (x.node,), (x.layout,))) if x is signed else x for x in operands
        ]
        negative_result = op.name == "not_equal" or op.name.startswith("less" if operands[0] is signed else "greater")
        return cls._compute(OPS["where"], cls._compute(OPS["less"], signed, 0), negative_result, cls._compute(op, *unsigned_operands))

    @classmethod
    def _in_memory_order(
        cls, op: Op, shape: Shape, dtype: DType, sources: tuple[Node | Scalar, ...], layouts: Sequence[Layout | None]
    ) -> tuple[Self, Recipe]:
        """Return the pending tensor of an elementwise operation, stored in the memory order of the operands, and the recipe.

        So `t.T + 1` is a view of the result of `t + 1`.
        """
        order = memory_order([x for x in layouts if x is not None]) if len(shape) > 1 else None
        if order is None:
            node = Node.of(op, shape, dtype, sources, tuple(layouts))
            recipe = node.recipe
            return cls._of(node), recipe
        permuted = tuple([None if x is None else x.permute(order) for x in layouts])
        node = Node.of(op, tuple([shape[axis] for axis in order]), dtype, sources, permuted)
        recipe = node.recipe
        result = cls._of(node)
        return result._view(result.layout.permute([order.index(axis) for axis in range(len(order))])), recipe

    def realize(self) -> Self:
        """Evaluate this tensor now, if pending, and return the tensor. Results are evaluated on demand, so no program needs to call this
        method.

        >>> import tenxor as tx
        >>> (tx.ones(3) + 1).realize().tolist()
        [2.0, 2.0, 2.0]
        """
        if self.storage.node.buffer is None:
            realize(self.storage.node)
        return self


def is_traced(x: object) -> bool:
    """Return whether `x` is a tensor that reads an argument of a traced function and so has no values."""
    return isinstance(x, Core) and x._has_past() and x.storage.node.traced


# A tensor is never changed into another view: only its constructor and lazy attributes set these slots.
FOUND_OUT = ("layout", "spec", "offset")  # attributes that are computed when they are first read
_set_storage, _set_dtype = [Core.__dict__[name].__set__ for name in ("storage", "dtype")]
_set_layout, _set_spec, _set_offset = [Core.__dict__[name].__set__ for name in FOUND_OUT]
_layout_of, _spec_of, _offset_of = [Core.__dict__[name].__get__ for name in FOUND_OUT]  # raise AttributeError if the slot is unset


def found_out(x: Core, name: str) -> Any:
    """Compute an unset attribute of a tensor, "layout", "spec" or "offset"; store and return the value.

    Raise AttributeError if the tensor is not initialized.
    """
    value: Any
    try:
        if name == "layout":
            value = _spec_of(x, type(x)).layout.at(_offset_of(x, type(x)))
            _set_layout(x, value)
        elif name == "spec":
            value = spec_of(_layout_of(x, type(x)), x.dtype)
            _set_spec(x, value)
        else:
            value = _layout_of(x, type(x)).offset
            _set_offset(x, value)
    except AttributeError:
        if not is_initialized(x):
            raise AttributeError(UNINITIALIZED) from None
        raise
    return value


UNINITIALIZED = "Tensor: this object is not initialized; object.__new__ made it, or an attribute was deleted; make tensors with tx.asarray"


def is_initialized(x: Core) -> bool:
    """Return whether a tensor has every attribute set by the constructor."""

    def has(name: str) -> bool:
        try:
            vars(Core)[name].__get__(x, type(x))
        except AttributeError:
            return False
        return True

    return has("storage") and has("dtype") and (has("layout") or (has("spec") and has("offset")))


def reads_pinned(node: Node) -> bool:
    """Return whether a pending node reads an externally shared buffer. A plain loop, since this runs for every operation."""
    for source in node.sources:  # noqa: SIM110
        if type(source) is Node and source.buffer is not None and source.buffer.pins:
            return True
    return False


def check_count(op: str, shape: Shape) -> None:
    """Raise MemoryError for more than `MAX_SIZE` elements, and ShapeError for an empty shape whose non-zero sizes have a product of at
    least `MAX_SIZE`.
    """
    if prod(shape) > MAX_SIZE:
        raise MemoryError(f"{op}: there is no memory for {shown_integer(prod(shape))} elements, those of shape {shape}")
    if 0 in shape and prod([n or 1 for n in shape]) >= MAX_SIZE:
        raise ShapeError(f"{op}: the other axes of shape {shape} are too long, even for a tensor without elements")


# Types of array-likes that are no tensors, and of all array-likes.
Values = np.ndarray[Any, Any] | list[Any] | tuple[Any, ...]
Axed = Core | Values
# Types that `_operand` accepts beside a tensor or in its place.
Operand = Axed | Number | np.generic
# Types of indexing keys.
Key = SupportsIndex | slice | EllipsisType | Core | np.ndarray[Any, Any] | list[Any] | tuple[Any, ...] | None


def broadcast(op: str, *shapes: Shape) -> Shape:
    """Return the common shape of `shapes`. A ShapeError names the operation."""
    try:
        return broadcast_shapes(*shapes)
    except ShapeError as error:
        raise ShapeError(f"{op}: {error}") from None


_BOTH_SIGNS = {int64, uint64}
_COMPARISONS = frozenset(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"))


def _dtype_for_numbers(op: Op, operands: Sequence[Any]) -> DType:
    """Return the dtype that decides how Python numbers among the operands are converted: the highest dtype of the tensors."""
    dtype: DType | None = None
    candidates = operands[1:] if op.name == "where" else operands
    for x in candidates:
        if isinstance(x, Core) and (dtype is None or x.dtype.rank > dtype.rank):
            dtype = x.dtype
    if dtype is None:
        numbers = [x for x in candidates if isinstance(x, (int, float, complex))]
        dtype = max((of_number(x) for x in numbers), key=lambda d: d.rank)
    if op.rule in (floating, inexact) and not (dtype.is_float or dtype.is_complex):
        return DEFAULT_FLOAT  # the operation computes in floats, so every number is accepted
    return dtype.part if op.rule is number_and_real else dtype


def _integer_bounds(op: Op, dtypes: Sequence[DType]) -> tuple[int, int]:
    """Return the lowest and the highest Python integer for which the dtypes of the scalar operands stay the same."""
    low, high = -LARGEST_INT, LARGEST_UNSIGNED
    for dtype in dtypes:
        if dtype.is_integer:
            low, high = max(low, 0 if op is _POW else int(dtype.lowest)), min(high, int(dtype.highest))
        elif dtype.is_float or dtype.is_complex:
            low, high = max(low, -EXACT), min(high, EXACT)
        else:
            low, high = 0, 1
    return low, high


def _check_exponent(value: Any, base_dtype: DType) -> None:
    """Raise NegativeExponent for a negative exponent of integers."""
    if isinstance(value, int) and value < 0 and not (base_dtype.is_float or base_dtype.is_complex):
        raise NegativeExponent.of(base_dtype, value)


def scalar(value: Any, tensor_dtype: DType, op: str) -> Scalar:
    """Return a `Scalar` of a Python number, in the number's dtype beside a tensor of dtype `tensor_dtype`.

    Raise DTypeError for objects that are no numbers.
    """
    number_type = type(value)
    if number_type is not float and number_type is not int and number_type is not bool and number_type is not complex:
        if not isinstance(value, (int, float, complex)):
            from ..sizes import Quotient, Size  # imported late: used while a call is traced with symbolic sizes

            if isinstance(value, Size) or (isinstance(value, Quotient) and tensor_dtype is DEFAULT_FLOAT):
                return Scalar(value, tensor_dtype)  # type: ignore[arg-type]  # how many elements a mean is of
            raise DTypeError(
                f"{op}: cannot compute with {described(value)} of type {number_type.__name__}; use a tensor (tx.asarray) or a Python number"
            )
        value = plain_number(value)
        number_type = type(value)
    if op in _COMPARISONS and number_type is int and tensor_dtype.is_integer and not tensor_dtype.lowest <= value <= tensor_dtype.highest:
        return Scalar(inf if value > 0 else -inf, DEFAULT_FLOAT)  # an infinity of the same sign: the number is outside of the dtype's range
    return Scalar(value, weak(value, tensor_dtype, op))
