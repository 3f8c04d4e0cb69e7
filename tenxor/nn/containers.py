"""Modules that hold modules: `Sequential` and `ModuleList`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self, TypeVar

from ..api.argument_validation import check_argument, validate_arguments
from ..errors import IndexOutOfRange
from ..tensor import Tensor
from .module import Layer, Module

__all__ = ["ModuleList", "Sequential"]

T = TypeVar("T")


class Sequential(Layer):
    """Modules or functions, applied in order, each to the result of the previous one.

    The tensors of the modules have PyTorch's names, such as `0.weight`.

    Parameters
    ----------
    *layers : callable
        Modules, and functions such as `tx.relu`, of a single tensor.

    Raises
    ------
    ArgumentError
        If a layer cannot be called.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.Sequential(tx.nn.Linear(4, 3), tx.relu)(tx.ones((2, 4), dtype=tx.float32)).shape
    (2, 3)
    >>> tx.nn.Sequential(tx.nn.Linear(4, 3), tx.relu)[0]
    Linear(4, 3)  # 15 parameters
    """

    _list_attribute = "layers"

    @validate_arguments
    def __init__(self, *layers: Callable[..., Any]) -> None:
        self.layers = list(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x

    def _repr_items(self) -> Iterator[tuple[str, str]]:
        for k, layer in enumerate(self.layers):
            yield str(k), repr(layer) if isinstance(layer, Module) else getattr(layer, "__name__", None) or repr(layer)
        yield from ((name, text) for name, text in super()._repr_items() if not name.split(".")[0].isdecimal())

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return iter(self.layers)

    def __getitem__(self, k: int) -> Callable[..., Any]:
        return _get_item("Sequential", self.layers, k)


class ModuleList(Module):
    """A list of modules. Their tensors have PyTorch's names, such as `0.weight`.

    Parameters
    ----------
    modules : iterable of Module, default ()
        The modules, which `list[k]`, `len(list)` and iteration give back.

    Raises
    ------
    ArgumentError
        If an item is not a module.

    Examples
    --------
    >>> import tenxor as tx
    >>> layers = tx.nn.ModuleList([tx.nn.Linear(2, 3)]).append(tx.nn.Linear(3, 1))
    >>> len(layers), layers.num_parameters
    (2, 13)
    """

    _list_attribute = "list"

    @validate_arguments
    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self.list = list(modules)
        for k, module in enumerate(self.list):
            check_argument("ModuleList", f"module {k}", module, "Module")

    @validate_arguments
    def append(self, module: Module) -> Self:
        """Append a module to this list, and return the list. Raise ArgumentError for an object that is no module."""
        self.list.append(module)
        return self

    def __len__(self) -> int:
        return len(self.list)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.list)

    def __getitem__(self, k: int) -> Module:
        return _get_item("ModuleList", self.list, k)


def _get_item(op: str, items: list[T], k: int) -> T:
    """Return item `k` of `items`, modules of an object of class `op`; a negative `k` counts from the end.

    Raise IndexOutOfRange if there is none, and ArgumentError unless `k` is an integer.
    """
    check_argument(op, "the number of a module", k, "int")
    if not -len(items) <= k < len(items):
        raise IndexOutOfRange(f"{op}: there is no module {k}; there are {len(items)}")
    return items[k]
