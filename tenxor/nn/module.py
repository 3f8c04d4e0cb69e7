"""Modules: functions with parameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar

from ..creation import asarray
from ..dtypes import check_real
from ..errors import ArgumentError, IndexOutOfRange, ShapeError
from ..functions.differentiation import no_grad
from ..functions.kinds import check, checked, kind
from ..records import NamedTuple
from ..tensor import Tensor

__all__ = ["Module", "ModuleList", "Parameter", "Sequential", "functional_call"]

T = TypeVar("T")

MYPY = False  # which mypy takes for true: there, a call of a module takes and gives what its own `forward` does
if MYPY:
    P = ParamSpec("P")
    Made = TypeVar("Made", covariant=True)

    class _Forwards(Protocol[P, Made]):
        def forward(self, *args: P.args, **named: P.kwargs) -> Made: ...

    class _Forwarded:
        def __get__(self, module: _Forwards[P, Made], kind: object = None) -> Callable[P, Made]: ...



def Parameter(x: object) -> Tensor:  # it stands where PyTorch has a class
    """New tensor that requires a gradient: the elements of `x`, a tensor of floats or what `tx.asarray` takes, copied."""
    return asarray(x).copy().requires_grad_()


class IncompatibleKeys(NamedTuple):
    """The names of a module's tensors that a state had not, and of those that it had besides."""

    missing_keys: list[str]
    unexpected_keys: list[str]


@kind("a module")
class Module:
    """A function with parameters, written as `forward`. What its attributes hold makes it up: tensors that require gradients are
    its parameters, other tensors its buffers, and modules its parts; they may be in lists, tuples and dicts.

    >>> import tenxor as tx
    >>> class Line(tx.nn.Module):
    ...     def __init__(self):
    ...         self.slope, self.start = tx.nn.Parameter(2.0), tx.nn.Parameter(1.0)
    ...     def forward(self, x):
    ...         return self.slope * x + self.start
    >>> line = Line()
    >>> line(tx.arange(3)).tolist(), [name for name, _ in line.named_parameters()]
    ([1.0, 3.0, 5.0], ['slope', 'start'])
    """

    training = True

    def forward(self, *args: Any, **named: Any) -> Any:
        """What the module computes; to be written by each kind of module."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(); write one, or use a module that has")

    if MYPY:
        __call__ = _Forwarded()
    else:

        def __call__(self, *args: Any, **named: Any) -> Any:
            return self.forward(*args, **named)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property that raised: raise its own error again
                return object.__getattribute__(self, name)
            from ..spellings import of_an_object

            raise of_an_object("nn.Module", self, name)

    # What it is made of

    def _members(self) -> Iterator[tuple[str, Any]]:
        """Tensors and modules that it holds itself, with their names."""
        for name, value in vars(self).items():
            yield from _held(name, value)

    @checked
    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Itself, under the name `prefix`, and all modules in it, each once."""
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module
                parts = [(_joined(name, own), value) for own, value in module._members() if isinstance(value, Module)]
                stack += reversed(parts)

    def modules(self) -> Iterator[Module]:
        """Itself and all modules in it, each once."""
        return (module for _, module in self.named_modules())

    def children(self) -> Iterator[Module]:
        """The modules that it holds itself."""
        return (value for _, value in self._members() if isinstance(value, Module))

    def _named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()
        for prefix, module in self.named_modules():
            for name, value in module._members():
                if isinstance(value, Tensor) and id(value) not in seen:
                    seen.add(id(value))
                    yield _joined(prefix, name), value

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors that require gradients, each once, by names such as `layers.0.weight`."""
        return ((name, t) for name, t in self._named_tensors() if t.requires_grad)

    def parameters(self) -> Iterator[Tensor]:
        """The tensors that require gradients, each once."""
        return (t for _, t in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """All other tensors, each once, by name."""
        return ((name, t) for name, t in self._named_tensors() if not t.requires_grad)

    def buffers(self) -> Iterator[Tensor]:
        """All other tensors, each once."""
        return (t for _, t in self.named_buffers())

    @property
    def num_parameters(self) -> int:
        """How many numbers its parameters have in all."""
        return sum(t.size for t in self.parameters())

    # What is done to all of it

    @checked
    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call a function with each module in it, those inside first, and gives itself back."""
        for module in reversed(list(self.modules())):
            function(module)
        return self

    @checked
    def train(self, mode: bool = True) -> Self:
        """Have it behave as in training (dropout, batch statistics), or not; gives itself back."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Have it behave as in use; gives itself back."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Forget the gradients of its parameters."""
        for t in self.parameters():
            t.grad = None

    @checked
    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Have its parameters, or with True all its tensors of floats, require gradients or not; gives itself back."""
        for _, t in list(self._named_tensors()):
            if t.dtype.is_float or t.dtype.is_complex:
                t.requires_grad_(requires_grad)
        return self

    def state_dict(self) -> dict[str, Tensor]:
        """All its tensors by name, as they are now: what is trained later does not change them. It costs no memory until then."""
        return {name: t.detach() for name, t in self._named_tensors()}

    @checked
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Write values into its tensors, by name. ArgumentError for names that are missing or unknown (unless not `strict`),
        ShapeError for another shape, DTypeError for complex numbers where there are none; then nothing is written.

        The result has the names that are missing and those that are unknown, as `missing_keys` and `unexpected_keys`. A UserWarning if
        not one of the names fits.

        >>> import tenxor as tx
        >>> tx.nn.Linear(2, 1).load_state_dict({"weight": tx.ones((1, 2)), "scale": tx.ones(1)}, strict=False)
        IncompatibleKeys(missing_keys=['bias'], unexpected_keys=['scale'])
        """
        own = dict(self._named_tensors())
        missing, unknown = [name for name in own if name not in state_dict], [name for name in state_dict if name not in own]
        if strict and (missing or unknown):
            raise ArgumentError(
                f"load_state_dict: {type(self).__name__}: missing are {missing}, unknown are {unknown}; use strict=False to leave them out"
            )
        if own and state_dict and len(missing) == len(own):
            warnings.warn(
                f"load_state_dict: {type(self).__name__}: nothing was loaded, as no name of the state, {_few(unknown)}, is one of the"
                f" module's, {_few(missing)}; rename the keys",
                stacklevel=3,
            )
        given = {name: asarray(state_dict[name]) for name in own if name in state_dict}
        for name, x in given.items():
            if x.shape != own[name].shape:
                raise ShapeError(f"load_state_dict: {name} has shape {own[name].shape} here and {x.shape} in the state; they must be equal")
            check_real(f"load_state_dict: {name}", x.dtype, own[name].dtype)
        with no_grad():
            for name, x in given.items():
                own[name][...] = x
        return IncompatibleKeys(missing, unknown)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__}({self.extra_repr()})"]
        for name, part in self._told_parts():
            lines += [f"  {line}" for line in f"{name}: {part}".splitlines()]
        count = self.num_parameters
        lines[0] += f"  # {count:,} parameters" if count else ""
        return "\n".join(lines)

    def _told_parts(self) -> Iterator[tuple[str, str]]:
        """The names and the texts of what its text consists of."""
        return ((name, repr(part)) for name, part in self._members() if isinstance(part, Module))

    def extra_repr(self) -> str:
        """What is written between the parentheses of its text."""
        return ""


if TYPE_CHECKING:

    class Layer(Module):
        """A module of one tensor: what other type checkers know of those here."""

        def forward(self, x: Tensor) -> Tensor: ...
        def __call__(self, x: Tensor) -> Tensor: ...

else:
    Layer = Module


class Sequential(Layer):
    """Modules, or functions, each applied to what the one before gives.

    >>> import tenxor as tx
    >>> tx.nn.Sequential(tx.nn.Linear(4, 3), tx.relu)(tx.ones((2, 4), dtype=tx.float32)).shape
    (2, 3)
    """

    @checked
    def __init__(self, *layers: Callable[..., Any]) -> None:
        self.layers = list(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x

    def _told_parts(self) -> Iterator[tuple[str, str]]:
        for k, layer in enumerate(self.layers):
            yield f"layers.{k}", repr(layer) if isinstance(layer, Module) else getattr(layer, "__name__", None) or repr(layer)
        yield from ((name, told) for name, told in super()._told_parts() if not name.startswith("layers."))

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return iter(self.layers)

    def __getitem__(self, k: int) -> Callable[..., Any]:
        return _item("Sequential", self.layers, k)


class ModuleList(Module):
    """A list of modules."""

    @checked
    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self.list = list(modules)
        for k, module in enumerate(self.list):
            check("ModuleList", f"module {k}", module, "Module")

    @checked
    def append(self, module: Module) -> Self:
        """Put one more at its end; gives itself back."""
        self.list.append(module)
        return self

    def __len__(self) -> int:
        return len(self.list)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.list)

    def __getitem__(self, k: int) -> Module:
        return _item("ModuleList", self.list, k)


@checked
def functional_call(module: Module, tensors: Mapping[str, Tensor], *args: Any, **named: Any) -> Any:
    """What a module gives with other tensors in place of its own, by name: a function of its parameters, for `tx.grad` and `tx.hessian`.
    One that is in several places, as weights that are tied, is exchanged in all of them.

    >>> import tenxor as tx
    >>> layer = tx.nn.Linear(2, 1, bias=False)
    >>> weight = {"weight": tx.ones((1, 2), dtype=tx.float32)}
    >>> tx.grad(lambda w: tx.nn.functional_call(layer, w, tx.ones(2, dtype=tx.float32)).sum())(weight)["weight"].tolist()
    [[1.0, 1.0]]
    """
    names = {_joined(prefix, name): t for prefix, part in module.named_modules() for name, t in part._members() if isinstance(t, Tensor)}
    for name in tensors:
        if name not in names:
            raise ArgumentError(f"functional_call: {type(module).__name__} has no tensor {name!r}; it has {list(names)}")
    of_own = {id(names[name]): t for name, t in tensors.items()}
    before: list[tuple[Any, Any, Any]] = []
    try:
        for prefix, part in module.named_modules():
            for name in vars(part):
                _exchange(_joined(prefix, name), vars(part), name, tensors, of_own, before)
        return module(*args, **named)
    finally:
        for holder, key, value in reversed(before):
            holder[key] = value


def _exchange(
    name: str, holder: Any, key: Any, by_name: Mapping[str, Tensor], of_own: Mapping[int, Tensor], before: list[tuple[Any, Any, Any]]
) -> None:
    """Put other tensors in place of those that something holds under a key, and note what was there before. One that is in several places
    is exchanged in all of them.
    """
    value = holder[key]
    if isinstance(value, Tensor):
        found = by_name.get(name, of_own.get(id(value)))
        if found is not None:
            before.append((holder, key, value))
            holder[key] = found
    elif isinstance(value, dict):
        for k in value:
            _exchange(_joined(name, str(k)), value, k, by_name, of_own, before)
    elif isinstance(value, (list, tuple)):
        items: Any = list(value) if isinstance(value, tuple) else value  # nothing is put into a tuple: another takes its place
        count = len(before)
        for k in range(len(items)):
            _exchange(_joined(name, str(k)), items, k, by_name, of_own, before)
        if items is not value and len(before) > count:
            before.append((holder, key, value))
            holder[key] = type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def _held(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (Tensor, Module)):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _held(f"{name}.{key}", item)
    elif isinstance(value, (list, tuple)):
        for k, item in enumerate(value):
            yield from _held(f"{name}.{k}", item)


def _item(op: str, items: list[T], k: int) -> T:
    check(op, "the number of a module", k, "int")
    if not -len(items) <= k < len(items):
        raise IndexOutOfRange(f"{op}: there is no module {k}; there are {len(items)}")
    return items[k]


def _few(names: list[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
