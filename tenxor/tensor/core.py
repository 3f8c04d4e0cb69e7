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

from .._utils import upcalls
from .._utils.lazy import LazyModule
from ..dtypes import (
    DEFAULT_FLOAT,
    NUMBER_TYPES,
    DType,
    Number,
    default_dtype_of,
    format_integer,
    int8,
    int16,
    int32,
    int64,
    promote_weak,
    to_plain_number,
    uint64,
)
from ..errors import ArgumentError, DTypeError, NegativeExponent, OutOfMemory, ShapeError, UnknownAttribute, describe_value
from ..graph.node import HELD_BYTES_SMALL_RESULT, MAX_PENDING_NODES, Node, Recipe, Scalar, reinterpret
from ..graph.spec import (
    FLOAT64_EXACT_LIMIT,
    MAX_INT64,
    MAX_UINT64,
    NO_TEMPLATES,
    NodeTemplate,
    Spec,
    get_constant_spec,
    intern_spec,
    locate_template,
    record_template,
)
from ..graph.storage import ScalarStorage, Storage
from ..layout import Layout, broadcast_shapes, memory_order
from ..memory.block_pool import pool
from ..ops import OPS, Op
from ..ops.dtype_rules import floating, inexact, number_and_float
from ..runtime.realize import realize

pending_limits = LazyModule("tenxor.runtime.pending_limits")
Shape = tuple[int, ...]
_contiguous = Layout.contiguous
_SCALAR_LAYOUT = _contiguous(())
MAX_TENSOR_ELEMENTS = 1 << 59  # elements of one tensor: their bytes can be counted in 64 bits
_POSITIVE, _CAST, _POW = OPS["positive"], OPS["cast"], OPS["pow"]
# The result of an in-place operation must not be of a higher kind than the tensor.
DTYPE_KIND_RANKS = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}


def check_device(op: str, device: object) -> None:
    """Raise ArgumentError for any device but "cpu"."""
    if not (isinstance(device, str) and device == "cpu"):
        raise ArgumentError(
            f"{op}: there is no device {describe_value(device)};"
            " Tenxor computes on the CPU, where every tensor is: leave the device out, or give 'cpu'"
        )


class MigrationHints:
    """The last base class of `Tensor`, for advice about attribute names of other libraries.

    A foreign name may be set on this class, so that reading the attribute raises an error with advice. `dir` does not list foreign names.
    """

    __slots__ = ()

    def __dir__(self) -> list[str]:
        own_names = {name for cls in type(self).__mro__ if cls is not MigrationHints for name in vars(cls)}
        return [name for name in super().__dir__() if name in own_names or name not in vars(MigrationHints)]


class TensorBase(MigrationHints):
    """A storage seen through a layout; see `Tensor`.

    A view is described by `layout`, or by `spec` and `offset`. Either description is computed from the other when first read.
    """

    __slots__ = {
        "__weakref__": None,
        "dtype": "Type of the elements.",
        "layout": "Map from indices to positions in the storage.",
        "offset": "Position of the first element in the storage, in elements. In a view chain, the position in the view below.",
        "spec": "Shape, strides and dtype, interned: the tensor without its storage and offset.",
        "storage": "Cell that holds the elements. Views share one storage.",
    }

    storage: Storage
    layout: Layout
    dtype: DType
    spec: Spec
    offset: int

    def __init__(self, storage: Storage, layout: Layout | None = None, dtype: DType | None = None) -> None:
        if layout is None:
            raise DTypeError("Tensor: the class cannot be called with values; use tx.asarray(values), or tx.zeros(shape) and the like")
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
        """Size of each axis."""
        return self.layout.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.layout.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.layout.size

    @property
    def strides(self) -> tuple[int | None, ...]:
        """Number of elements to the next index, for each axis. None for a gathered axis and in a view chain, which have no strides."""
        layout = self.layout
        if layout.base is not None:
            return (None,) * len(layout.shape)
        if layout.tables is None:
            return layout.strides
        return tuple(s if t is None else None for s, t in zip(layout.strides, layout.tables, strict=True))

    @property
    def nbytes(self) -> int:
        """Memory that the elements would take in a contiguous copy, in bytes."""
        return self.layout.size * self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """Memory of one element, in bytes."""
        return self.dtype.itemsize

    @property
    def device(self) -> str:
        """Device of the tensor, always "cpu"."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: object = None) -> Self:
        """Return this tensor.

        Parameters
        ----------
        device : str
            "cpu", the only device.
        stream : object, optional
            Has no effect.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        ArgumentError
            For another device.
        """
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
        return node if node.dtype is self.dtype else reinterpret(node, self.dtype)

    def _is_on_tape(self) -> bool:
        """Return whether the content has a tape node or reads an argument of a traced function. For a known scalar, return False."""
        storage = self.storage
        return (
            not (type(storage) is ScalarStorage and storage.get_known_number(self.dtype) is not None) and storage.node.tape_node is not None
        )

    # The four basic methods

    def _view(self, layout: Layout) -> Self:
        """Return a view: the same storage through another layout."""
        return self.__class__(self.storage, layout, self.dtype)

    @classmethod
    def _from_number(cls, number: Number, dtype: DType) -> Self:
        """Return a 0-d tensor of a Python number, which must be a value of `dtype`. Its node is made at the first request."""
        return cls(ScalarStorage(dtype, number), _SCALAR_LAYOUT, dtype)

    @classmethod
    def _from_node(cls, node: Node, spec: Spec | None = None) -> Self:
        """Return a new tensor for `node`: with the layout of `spec`, or by default contiguous in the node's shape.

        For a default layout with too many elements, raise the errors of `check_element_count`. A pending node with externally shared memory
        among its sources is computed at once, unless traced. Further pending nodes may be computed too, to limit the pending graph and its
        memory.
        """
        recipe = node.recipe
        if spec is not None:
            layout = spec.layout
        else:
            if recipe.size > MAX_TENSOR_ELEMENTS:
                check_element_count(recipe.op.name, recipe.shape)
            layout = _contiguous(recipe.shape)
        if (observer := upcalls.node_observer) is not None:
            observer.observe_node(node)
        if node.buffer is None:
            if reads_externally_shared(node) and not node.is_traced:
                realize(node)
            elif node.graph_node_count > MAX_PENDING_NODES:
                pending_limits.cap_graph_size(node)
            if node.max_operand_nbytes >= HELD_BYTES_SMALL_RESULT:
                pending_limits.record_pending(node)
        if pool.is_under_pressure:
            pending_limits.free_pending_memory()
        result = cls(Storage(node), layout, recipe.dtype)
        if spec is not None:
            _set_spec(result, spec)
        return result

    @classmethod
    def _compute(cls, op: Op, *operands: Any) -> Self:
        """Return the pending tensor of an elementwise operation on tensors and Python numbers, which broadcast together.

        The result template of an earlier call with the same specs is reused. Raise ShapeError if the shapes do not broadcast, DTypeError
        for dtypes that the operation refuses and for other operands, and OutOfBounds for a Python integer out of range.
        """
        keys: list[object] = []
        sources: list[Any] = []
        offsets: list[int] = []
        number_positions: list[int] = []
        for x in operands:
            offset = 0
            if isinstance(x, TensorBase):
                key: Any = x.spec
                storage = x.storage
                if type(storage) is ScalarStorage and (number := storage.get_known_number(key.dtype)) is not None:
                    source: Any = Scalar(number, key.dtype)
                    key = get_constant_spec(key)
                else:
                    source, offset = storage.node, x.offset
                    if source.recipe.dtype is not key.dtype:
                        source = reinterpret(source, key.dtype)
            else:
                source, key = x, type(x)
                if key not in NUMBER_TYPES:
                    return cls._compute_uncached(op, operands)[0]
                number_positions.append(len(sources))
            sources.append(source)
            offsets.append(offset)
            keys.append(key)
        if type(keys[0]) is not Spec and (len(keys) == 1 or type(keys[1]) is not Spec):
            return cls._compute_uncached(op, operands)[0]
        table, operation, other_keys = locate_template(op, keys)
        template = table.get(operation, NO_TEMPLATES).get(other_keys)
        if template is not None:
            recipe: Any = template.recipe
            for k in number_positions:
                number = sources[k]
                if type(number) is int and not template.low <= number <= template.high:
                    break
                sources[k] = Scalar(number, recipe.dtypes[k])
            else:
                return cls._from_node(Node(recipe, tuple(sources), tuple(offsets)), template.spec)
        result, recipe = cls._compute_uncached(op, operands)
        if recipe is not None and not recipe.is_uncacheable:
            low, high = _integer_bounds(op, [recipe.dtypes[k] for k in number_positions])
            record_template(table, operation, other_keys, NodeTemplate(result.spec, recipe, low, high))
        return result

    def _apply(self, op: Op, *operands: Any) -> Self:
        """Return the pending tensor of an elementwise operation on this tensor and further operands."""
        return self._compute(op, self, *operands)

    @classmethod
    def _compute_uncached(cls, op: Op, operands: Sequence[Any]) -> tuple[Self, Recipe | None]:
        """Return the pending tensor of an elementwise operation, without the cache of result templates, and its recipe.

        The recipe is None if the result must not be cached: for a comparison of a signed dtype with uint64, and for a power whose integer
        exponent is a known scalar. Errors are those of `_compute`.
        """
        if op.name in _COMPARISONS and frozenset([x.dtype for x in operands if isinstance(x, TensorBase)]) in _MIXED_SIGN_PAIRS:
            return cls._compare_mixed_signs(op, operands), None
        shape = broadcast_op_shapes(op.name, *[x.layout.shape for x in operands if isinstance(x, TensorBase)])
        number_dtype = _dtype_for_numbers(op, operands)
        sources: list[Node | Scalar] = []
        layouts: list[Layout | None] = []
        for x in operands:
            layout = None
            if not isinstance(x, TensorBase):
                if op is _POW and sources:
                    _check_exponent(x, number_dtype)
                sources.append(to_scalar(x, number_dtype, op.name))
            elif type(x.storage) is ScalarStorage and (number := x.storage.get_known_number(x.dtype)) is not None:
                sources.append(Scalar(number, x.dtype))
            else:
                layout = x.layout if x.layout.shape == shape else x.layout.expand(shape)
                sources.append(x.node)
            layouts.append(layout)
        dtype = op.result_dtype(tuple([s.dtype for s in sources]))
        if op is _POW and type(sources[1]) is Scalar and isinstance(operands[1], TensorBase):
            _check_exponent(sources[1].value, dtype)
            if not (dtype.is_float or dtype.is_complex):
                # not cacheable: the recipe would be reused for other exponents without this check
                return cls._compute_in_memory_order(op, shape, dtype, tuple(sources), layouts)[0], None
        return cls._compute_in_memory_order(op, shape, dtype, tuple(sources), layouts)

    @classmethod
    def _compare_mixed_signs(cls, op: Op, operands: Sequence[Any]) -> Self:
        """Return a comparison of two tensors, one of a signed integer dtype and one of uint64, which have no common dtype.

        Negative numbers are less than every uint64; non-negative numbers are compared as uint64.
        """
        signed = next(x for x in operands if x.dtype is not uint64)
        unsigned_operands = [
            cls._from_node(Node.of(_CAST, x.layout.shape, uint64, (x.node,), (x.layout,))) if x is signed else x for x in operands
        ]
        negative_result = op.name == "not_equal" or op.name.startswith("less" if operands[0] is signed else "greater")
        return cls._compute(OPS["where"], cls._compute(OPS["less"], signed, 0), negative_result, cls._compute(op, *unsigned_operands))

    @classmethod
    def _compute_in_memory_order(
        cls, op: Op, shape: Shape, dtype: DType, sources: tuple[Node | Scalar, ...], layouts: Sequence[Layout | None]
    ) -> tuple[Self, Recipe]:
        """Return the pending tensor of an elementwise operation, stored in the memory order of the operands, and the recipe.

        `layouts` are the layouts of `sources`, broadcast to `shape`; None for a number. For example, `t.T + 1` is computed as `(t + 1).T`.
        """
        order = memory_order([x for x in layouts if x is not None]) if len(shape) > 1 else None
        if order is None:
            node = Node.of(op, shape, dtype, sources, tuple(layouts))
            recipe = node.recipe
            return cls._from_node(node), recipe
        permuted = tuple([None if x is None else x.permute(order) for x in layouts])
        node = Node.of(op, tuple([shape[axis] for axis in order]), dtype, sources, permuted)
        recipe = node.recipe
        result = cls._from_node(node)
        return result._view(result.layout.permute([order.index(axis) for axis in range(len(order))])), recipe

    def realize(self) -> Self:
        """Evaluate this tensor now, if pending, and return it.

        Results are evaluated on demand, so no program needs to call this method.

        Returns
        -------
        Tensor
            This tensor.

        Examples
        --------
        >>> import tenxor as tx
        >>> (tx.ones(3) + 1).realize().tolist()
        [2.0, 2.0, 2.0]
        """
        storage = self.storage
        if storage.node.buffer is None:
            realize(storage.node)
        return self


def is_traced(x: object) -> bool:
    """Return whether `x` is a tensor that reads an argument of a traced function and so has no values."""
    return isinstance(x, TensorBase) and x._is_on_tape() and x.storage.node.is_traced


# A tensor is never changed into another view: only its constructor and lazy attributes set these slots.
LAZY_ATTRIBUTES = ("layout", "spec", "offset")  # attributes that are computed when they are first read
_set_storage, _set_dtype = [TensorBase.__dict__[name].__set__ for name in ("storage", "dtype")]
_set_layout, _set_spec, _set_offset = [TensorBase.__dict__[name].__set__ for name in LAZY_ATTRIBUTES]
# Raise AttributeError if the slot is unset
_layout_of, _spec_of, _offset_of = [TensorBase.__dict__[name].__get__ for name in LAZY_ATTRIBUTES]


def resolve_lazy_attribute(x: TensorBase, name: str) -> Any:
    """Compute an unset attribute of a tensor, "layout", "spec" or "offset"; store and return the value.

    Raise AttributeError if the tensor is not initialized.
    """
    value: Any
    try:
        if name == "layout":
            value = _spec_of(x, type(x)).layout.at(_offset_of(x, type(x)))
            _set_layout(x, value)
        elif name == "spec":
            value = intern_spec(_layout_of(x, type(x)), x.dtype)
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


def is_initialized(x: TensorBase) -> bool:
    """Return whether a tensor has every attribute set by the constructor."""

    def has(name: str) -> bool:
        try:
            vars(TensorBase)[name].__get__(x, type(x))
        except AttributeError:
            return False
        return True

    return has("storage") and has("dtype") and (has("layout") or (has("spec") and has("offset")))


def reads_externally_shared(node: Node) -> bool:
    """Return whether a direct operand of a pending node is an externally shared buffer. A plain loop: this runs for every operation."""
    for source in node.sources:  # noqa: SIM110
        if type(source) is Node and source.buffer is not None and source.buffer.externally_shared:
            return True
    return False


def check_element_count(op: str, shape: Shape) -> None:
    """Raise OutOfMemory for more than `MAX_TENSOR_ELEMENTS` elements, and ShapeError for an empty shape whose non-zero sizes have a
    product of at least `MAX_TENSOR_ELEMENTS`.
    """
    if prod(shape) > MAX_TENSOR_ELEMENTS:
        raise OutOfMemory(f"{op}: there is no memory for {format_integer(prod(shape))} elements, those of shape {shape}")
    if 0 in shape and prod([n or 1 for n in shape]) >= MAX_TENSOR_ELEMENTS:
        raise ShapeError(f"{op}: the other axes of shape {shape} are too long, even for a tensor without elements")


# Types of array-likes that are no tensors, and of all array-likes.
NonTensorArrayLike = np.ndarray[Any, Any] | list[Any] | tuple[Any, ...]
ArrayLike = TensorBase | NonTensorArrayLike
# Types that `_to_operand` accepts beside a tensor or in its place.
Operand = ArrayLike | Number | np.generic
# Types of indexing keys.
IndexKey = SupportsIndex | slice | EllipsisType | TensorBase | np.ndarray[Any, Any] | list[Any] | tuple[Any, ...] | None


def broadcast_op_shapes(op: str, *shapes: Shape) -> Shape:
    """Return the shape to which `shapes` broadcast, or raise a ShapeError that begins with `op`, the operation's name."""
    try:
        return broadcast_shapes(*shapes)
    except ShapeError as error:
        raise ShapeError(f"{op}: {error.fact}") from None


_MIXED_SIGN_PAIRS = frozenset([frozenset((d, uint64)) for d in (int8, int16, int32, int64)])
_COMPARISONS = frozenset(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"))


def _dtype_for_numbers(op: Op, operands: Sequence[Any]) -> DType:
    """Return the dtype that decides how Python numbers among the operands are converted: the highest dtype of the tensors.

    Without tensors, the highest default dtype of the numbers counts, and for `where` only the two values do. An operation that computes
    integers in floats gives float64. An operation with a real number beside complex ones (`number_and_float`) gives the dtype of a part.
    """
    dtype: DType | None = None
    candidates = operands[1:] if op.name == "where" else operands
    for x in candidates:
        if isinstance(x, TensorBase) and (dtype is None or x.dtype.rank > dtype.rank):
            dtype = x.dtype
    if dtype is None:
        numbers = [x for x in candidates if isinstance(x, (int, float, complex))]
        dtype = max((default_dtype_of(x) for x in numbers), key=lambda d: d.rank)
    if op.rule in (floating, inexact) and not (dtype.is_float or dtype.is_complex):
        return DEFAULT_FLOAT  # the operation computes in floats, so every number is accepted
    return dtype.part if op.rule is number_and_float else dtype


def _integer_bounds(op: Op, dtypes: Sequence[DType]) -> tuple[int, int]:
    """Return the lowest and the highest Python integer for which the operation keeps the same dtypes.

    `dtypes` are the dtypes of the Python numbers among the operands of `op`.
    """
    low, high = -MAX_INT64, MAX_UINT64
    for dtype in dtypes:
        if dtype.is_integer:
            low, high = max(low, 0 if op is _POW else int(dtype.lowest)), min(high, int(dtype.highest))
        elif dtype.is_float or dtype.is_complex:
            low, high = max(low, -FLOAT64_EXACT_LIMIT), min(high, FLOAT64_EXACT_LIMIT)
        else:
            low, high = 0, 1
    return low, high


def _check_exponent(value: Any, base_dtype: DType) -> None:
    """Raise NegativeExponent if the exponent `value` is a negative integer and the base has no float or complex dtype."""
    if isinstance(value, int) and value < 0 and not (base_dtype.is_float or base_dtype.is_complex):
        raise NegativeExponent.of(base_dtype, value)


def to_scalar(value: Any, tensor_dtype: DType, op: str) -> Scalar:
    """Return the Python number `value` as a `Scalar`, in the number's dtype beside a tensor of `tensor_dtype` (`promote_weak`).

    `op` is the name of the operation. If `op` is a comparison, an integer outside of the range of an integer dtype becomes an infinity of
    the same sign, in float64. A symbolic size gets `tensor_dtype`.

    Raise OutOfBounds for an integer out of range in another operation. Raise DTypeError for an object that is no Python number, such as a
    NumPy integer.
    """
    number_type = type(value)
    if number_type is not float and number_type is not int and number_type is not bool and number_type is not complex:
        if not isinstance(value, (int, float, complex)):
            from ..symbolic.symint import FloatBySymInt, SymInt  # imported late: used while a call is traced with symbolic sizes

            if isinstance(value, SymInt) or (isinstance(value, FloatBySymInt) and tensor_dtype is DEFAULT_FLOAT):
                return Scalar(value, tensor_dtype)  # type: ignore[arg-type]  # how many elements a mean is of
            raise DTypeError(
                f"{op}: cannot compute with {describe_value(value)} of type {number_type.__name__}; "
                "use a tensor (tx.asarray) or a Python number"
            )
        value = to_plain_number(value)
        number_type = type(value)
    if op in _COMPARISONS and number_type is int and tensor_dtype.is_integer and not tensor_dtype.lowest <= value <= tensor_dtype.highest:
        return Scalar(inf if value > 0 else -inf, DEFAULT_FLOAT)  # an infinity of the same sign: the number is outside of the dtype's range
    return Scalar(value, promote_weak(value, tensor_dtype, op))
