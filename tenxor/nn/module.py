"""Modules: functions with parameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar

from .._utils.process import FolderPath
from .._utils.records import NamedTuple
from ..api.argument_validation import register_argument_type, validate_arguments
from ..api.creation import asarray
from ..api.differentiation import no_grad
from ..dtypes import check_real
from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor
from .state_names import list_names, match_names

__all__ = ["Module", "Parameter", "functional_call"]

T = TypeVar("T")

MYPY = False  # mypy treats MYPY as true: a module's call then has the signature of its `forward`
if MYPY:
    P = ParamSpec("P")
    Result = TypeVar("Result", covariant=True)

    class _Forwards(Protocol[P, Result]):
        def forward(self, *args: P.args, **named: P.kwargs) -> Result: ...

    class _Forwarded:
        def __get__(self, module: _Forwards[P, Result], kind: object = None) -> Callable[P, Result]: ...


def Parameter(x: object) -> Tensor:  # a function where PyTorch has a class
    """Return a new tensor that requires a gradient, with the elements of `x`.

    Parameters
    ----------
    x : Tensor or data for `tx.asarray`
        Floating-point or complex numbers of any shape. The elements are copied.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `x`.

    Raises
    ------
    DTypeError
        If the elements are integers or bools.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.Parameter([1.0, 2.0]).requires_grad
    True
    """
    return asarray(x).copy().requires_grad_()


class IncompatibleKeys(NamedTuple):
    """The names of the module's tensors that a state lacks, and the names in the state that are not the module's."""

    missing_keys: list[str]
    unexpected_keys: list[str]


@register_argument_type("a module")
class Module:
    """A function with parameters, defined by the method `forward`.

    Attributes are found automatically, also in lists, tuples and dicts: tensors that require gradients are parameters, the remaining
    tensors are buffers, and modules are submodules. Calling a module calls `forward` with the same arguments.

    Attributes
    ----------
    training : bool
        Whether the module behaves as in training (dropout, batch statistics). `train` and `eval` set it.

    Examples
    --------
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
    _ignored_names: tuple[str, ...] = ()  # tensors in the states of PyTorch's module that have no use here
    _list_attribute: str | None = None  # a list whose items are named by number alone, as in PyTorch: "0.weight"

    def forward(self, *args: Any, **named: Any) -> Any:
        """Return the module's result for the arguments of a call. Subclasses must define this method; here it raises an error."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(); write one, or use a module that has")

    if MYPY:
        __call__ = _Forwarded()
    else:

        def __call__(self, *args: Any, **named: Any) -> Any:
            return self.forward(*args, **named)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property raised AttributeError: raise the property's own error again
                return object.__getattribute__(self, name)
            from .._utils.foreign_names import make_attribute_error

            raise make_attribute_error("nn.Module", self, name)

    # Tensors and submodules

    def _members(self) -> Iterator[tuple[str, Any]]:
        """Yield pairs of a name and a tensor or module, for those that this module holds directly, also in lists, tuples and dicts.

        An object held several times is yielded several times. Items of a container have names such as `layers.0`.
        """
        for name, value in vars(self).items():
            yield from _walk_members("" if name == self._list_attribute else name, value)

    @validate_arguments
    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Yield this module under the name `prefix`, and all submodules by name, each once.

        Parameters
        ----------
        prefix : str, default ""
            Name of this module, and first part of the names of the submodules.

        Returns
        -------
        iterator of (str, Module)

        Examples
        --------
        >>> import tenxor as tx
        >>> [name for name, _ in tx.nn.Sequential(tx.nn.Linear(4, 3), tx.relu).named_modules("net")]
        ['net', 'net.0']
        """
        visited: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if id(module) not in visited:
                visited.add(id(module))
                yield name, module
                submodules = [
                    (_join_names(name, member_name), value) for member_name, value in module._members() if isinstance(value, Module)
                ]
                stack += reversed(submodules)

    def modules(self) -> Iterator[Module]:
        """Return an iterator over this module and all submodules, each once."""
        return (module for _, module in self.named_modules())

    def children(self) -> Iterator[Module]:
        """Return an iterator over the submodules that this module holds directly, also in lists, tuples and dicts."""
        return (value for _, value in self._members() if isinstance(value, Module))

    def _named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the names and tensors of this module and all submodules, each tensor once, under its first name."""
        visited: set[int] = set()
        for prefix, module in self.named_modules():
            for name, value in module._members():
                if isinstance(value, Tensor) and id(value) not in visited:
                    visited.add(id(value))
                    yield _join_names(prefix, name), value

    def _tensors_by_every_name(self) -> dict[str, Tensor]:
        """Return the tensors of this module and all submodules by name, in a new dict.

        A tensor held by several modules, or under several attributes, has several names. A shared module gives its tensors one name each.
        """
        return {
            _join_names(prefix, name): t
            for prefix, module in self.named_modules()
            for name, t in module._members()
            if isinstance(t, Tensor)
        }

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Return an iterator over the tensors that require gradients, each once, with names such as `encoder.0.weight`.

        Examples
        --------
        >>> import tenxor as tx
        >>> [(name, t.shape) for name, t in tx.nn.Sequential(tx.nn.Linear(4, 3), tx.relu).named_parameters()]
        [('0.weight', (3, 4)), ('0.bias', (3,))]
        """
        return ((name, t) for name, t in self._named_tensors() if t.requires_grad)

    def parameters(self) -> Iterator[Tensor]:
        """Return an iterator over the tensors that require gradients, each once."""
        return (t for _, t in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Return an iterator over the tensors that require no gradients, each once, with names.

        Examples
        --------
        >>> import tenxor as tx
        >>> [name for name, _ in tx.nn.BatchNorm1d(2).named_buffers()]
        ['running_mean', 'running_var']
        """
        return ((name, t) for name, t in self._named_tensors() if not t.requires_grad)

    def buffers(self) -> Iterator[Tensor]:
        """Return an iterator over the tensors that require no gradients, each once."""
        return (t for _, t in self.named_buffers())

    @property
    def num_parameters(self) -> int:
        """The total number of elements of the parameters.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.nn.Linear(3, 2).num_parameters
        8
        """
        return sum(t.size for t in self.parameters())

    # Operations on the whole module

    @validate_arguments
    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call `function` with each submodule, inner ones first, and with this module. Return this module.

        Parameters
        ----------
        function : callable
            Function of a module. Its results are ignored.

        Examples
        --------
        >>> import tenxor as tx
        >>> net = tx.nn.Sequential(tx.nn.Linear(2, 1), tx.relu).apply(lambda module: print(type(module).__name__))
        Linear
        Sequential
        """
        for module in reversed(list(self.modules())):
            function(module)
        return self

    @validate_arguments
    def train(self, mode: bool = True) -> Self:
        """Switch to training behaviour (dropout, batch statistics), or off with `mode=False`. Return this module.

        Parameters
        ----------
        mode : bool, default True
            New value of `training`, of this module and of all submodules.
        """
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Switch off training behaviour, for inference. Return this module.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.nn.Dropout(0.5).eval().training
        False
        """
        return self.train(False)

    def zero_grad(self) -> None:
        """Set the gradients of the parameters to None."""
        for t in self.parameters():
            t.grad = None

    @validate_arguments
    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Make all floating-point and complex tensors require gradients, or with False no longer require them. Return this module.

        Parameters
        ----------
        requires_grad : bool, default True
            Whether the tensors of this module and of all submodules require gradients. Buffers become parameters, too.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.nn.Linear(3, 2).requires_grad_(False).num_parameters
        0
        """
        for _, t in list(self._named_tensors()):
            if t.dtype.is_float or t.dtype.is_complex:
                t.requires_grad_(requires_grad)
        return self

    def state_dict(self) -> dict[str, Tensor]:
        """Return all tensors by name, as they are now: later training does not change them.

        Returns
        -------
        dict of str to Tensor
            New tensors without gradients. Memory is copied only when a tensor is written.

        Examples
        --------
        >>> import tenxor as tx
        >>> list(tx.nn.Linear(3, 2).state_dict())
        ['weight', 'bias']
        """
        return {name: t.detach() for name, t in self._named_tensors()}

    @validate_arguments
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Write values into the tensors of the module, by name.

        A state of PyTorch's layers fits: names are equal, `MultiHeadAttention` takes the names of PyTorch's layer too, and the counter
        `num_batches_tracked` is ignored. A tensor under several names may have each of them.

        Parameters
        ----------
        state_dict : mapping of str to Tensor
            New values, converted to the dtypes of the module's tensors.
        strict : bool, default True
            Whether every name must be known to both the state and the module.

        Returns
        -------
        IncompatibleKeys
            The names that the state lacks, and unknown names, as `missing_keys` and `unexpected_keys`.

        Raises
        ------
        ArgumentError
            For missing or unknown names (if `strict`). The message lists them, and renames that would fit. After an error nothing is
            written.
        ShapeError
            For another shape.
        DTypeError
            For complex values of a real tensor.

        Warns
        -----
        UserWarning
            If no name matches.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.nn.Linear(2, 1).load_state_dict({"weight": tx.ones((1, 2)), "scale": tx.ones(1)}, strict=False)
        IncompatibleKeys(missing_keys=['bias'], unexpected_keys=['scale'])
        """
        tensors, state = dict(self._named_tensors()), dict(state_dict)
        for prefix, module in self.named_modules():
            module._adopt_names(_join_names(prefix, ""), state)
        name_by_id = {id(t): name for name, t in tensors.items()}
        for name, t in self._tensors_by_every_name().items():
            if name not in tensors and name in state:
                state.setdefault(name_by_id[id(t)], state.pop(name))
        missing, unknown = [name for name in tensors if name not in state], [name for name in state if name not in tensors]
        if strict and (missing or unknown):
            renames = match_names(tensors, state, missing, unknown)
            advice = (
                f"; for equal tensors under other names, write names = {renames} and"
                " load_state_dict({names.get(name, name): x for name, x in state.items()})"
            )
            raise ArgumentError(
                f"load_state_dict: {type(self).__name__}: the state lacks {missing} and has the unknown names {unknown}; use strict=False"
                f" to leave these out{advice if renames else ''}"
            )
        if tensors and state and len(missing) == len(tensors):
            warnings.warn(
                f"load_state_dict: {type(self).__name__}: nothing was loaded, as no name of the state, {list_names(unknown)}, is one of"
                f" the module's, {list_names(missing)}; rename the keys",
                stacklevel=3,
            )
        values = {name: asarray(state[name]) for name in tensors if name in state}
        for name, x in values.items():
            if x.shape != tensors[name].shape:
                raise ShapeError(
                    f"load_state_dict: {name} has shape {tensors[name].shape} here and {x.shape} in the state; they must be equal"
                )
            check_real(f"load_state_dict: {name}", x.dtype, tensors[name].dtype)
        with no_grad():
            for name, x in values.items():
                tensors[name][...] = x
        return IncompatibleKeys(missing, unknown)

    def _adopt_names(self, prefix: str, state: dict[str, Any]) -> None:
        """Replace PyTorch's names for the tensors of this module in the dict `state` by the names here, in place.

        The names begin with `prefix`. Here, the names in `_ignored_names` are deleted; subclasses rename others.
        """
        for name in self._ignored_names:
            state.pop(prefix + name, None)

    @validate_arguments
    def save(self, path: FolderPath) -> None:
        """Write all tensors to a file by name, as `tx.save(path, module.state_dict())`.

        Parameters
        ----------
        path : path
            The file, ending in .safetensors or .npz. It is replaced as a whole when it is complete.

        Raises
        ------
        ArgumentError
            If the path has another ending.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import tempfile, tenxor as tx
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tx.nn.Linear(3, 2).save(f"{folder}/model.safetensors")
        ...     list(tx.load(f"{folder}/model.safetensors"))
        ['weight', 'bias']
        """
        from .. import files

        files.any_format.save(path, self.state_dict())

    @validate_arguments
    def load(self, path: FolderPath, strict: bool = True) -> IncompatibleKeys:
        """Write the tensors of a file into the tensors of the module, as `module.load_state_dict(tx.load(path))`.

        Parameters
        ----------
        path : path
            A file of tensors by name: safetensors, npz or GGUF, of any program.
        strict : bool, default True
            Whether every name must be known to both the file and the module.

        Returns
        -------
        IncompatibleKeys
            As for `load_state_dict`.

        Raises
        ------
        FileError
            If the file is damaged or has another format.
        FileNotFoundError
            If the file does not exist.
        ArgumentError, ShapeError, DTypeError
            As for `load_state_dict`. After an error nothing is written.

        Examples
        --------
        >>> import tempfile, tenxor as tx
        >>> model, copy = tx.nn.Linear(3, 2), tx.nn.Linear(3, 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.safetensors")
        ...     copy.load(f"{folder}/model.safetensors")
        IncompatibleKeys(missing_keys=[], unexpected_keys=[])
        >>> bool((copy.weight == model.weight).all())
        True
        """
        from .. import files

        return self.load_state_dict(files.any_format.load(path), strict)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__}({self.extra_repr()})"]
        for name, text in self._repr_items():
            lines += [f"  {line}" for line in f"{name}: {text}".splitlines()]
        count = self.num_parameters
        lines[0] += f"  # {count:,} parameters" if count else ""
        return "\n".join(lines)

    def _repr_items(self) -> Iterator[tuple[str, str]]:
        """Yield names and texts of the submodules, for `repr`."""
        return ((name, repr(member)) for name, member in self._members() if isinstance(member, Module))

    def extra_repr(self) -> str:
        """Return the text between the parentheses of `repr`: empty, unless a subclass overrides the method."""
        return ""


if TYPE_CHECKING:

    class Layer(Module):
        """A module whose `forward` takes and returns a single tensor, for type checkers except mypy."""

        def forward(self, x: Tensor) -> Tensor: ...
        def __call__(self, x: Tensor) -> Tensor: ...

else:
    Layer = Module


@validate_arguments
def functional_call(module: Module, tensors: Mapping[str, Tensor], *args: Any, **named: Any) -> Any:
    """Return the result of a module with tensors replaced by name: a function of the parameters, for `tx.grad` and `tx.hessian`.

    A tensor held under several names, such as tied weights, is replaced under every name. The module is restored afterwards.

    Parameters
    ----------
    module : Module
        The module to call.
    tensors : mapping of str to Tensor
        Replacements of parameters and buffers, by names as in `named_parameters`.
    *args, **named
        Arguments of the module.

    Returns
    -------
    Any
        The result of the module.

    Raises
    ------
    ArgumentError
        For an unknown name.

    Examples
    --------
    >>> import tenxor as tx
    >>> layer = tx.nn.Linear(2, 1, bias=False)
    >>> weight = {"weight": tx.ones((1, 2), dtype=tx.float32)}
    >>> tx.grad(lambda w: tx.nn.functional_call(layer, w, tx.ones(2, dtype=tx.float32)).sum())(weight)["weight"].tolist()
    [[1.0, 1.0]]
    """
    names = module._tensors_by_every_name()
    for name in tensors:
        if name not in names:
            raise ArgumentError(f"functional_call: {type(module).__name__} has no tensor {name!r}; it has {list(names)}")
    replacement_by_id = {id(names[name]): t for name, t in tensors.items()}
    replaced: list[tuple[Any, Any, Any]] = []
    try:
        for prefix, submodule in module.named_modules():
            for name in vars(submodule):
                _replace_tensors(_join_names(prefix, name), vars(submodule), name, tensors, replacement_by_id, replaced)
        return module(*args, **named)
    finally:
        for holder, key, value in reversed(replaced):
            holder[key] = value


def _replace_tensors(
    name: str,
    holder: Any,
    key: Any,
    by_name: Mapping[str, Tensor],
    replacement_by_id: Mapping[int, Tensor],
    replaced: list[tuple[Any, Any, Any]],
) -> None:
    """Replace the tensors in `holder[key]`, called `name`, also in nested containers. Append (holder, key, old value) to `replaced`.

    `by_name` has the replacements by name, and `replacement_by_id` by the id of the replaced tensor, for tensors held under several names.
    Lists and dicts are changed in place, while a tuple is replaced by a new one. Modules inside are left out.
    """
    value = holder[key]
    if isinstance(value, Tensor):
        replacement = by_name.get(name, replacement_by_id.get(id(value)))
        if replacement is not None:
            replaced.append((holder, key, value))
            holder[key] = replacement
    elif isinstance(value, dict):
        for k in value:
            _replace_tensors(_join_names(name, str(k)), value, k, by_name, replacement_by_id, replaced)
    elif isinstance(value, (list, tuple)):
        items: Any = list(value) if isinstance(value, tuple) else value  # a tuple is immutable, so it is replaced as a whole
        count = len(replaced)
        for k in range(len(items)):
            _replace_tensors(_join_names(name, str(k)), items, k, by_name, replacement_by_id, replaced)
        if items is not value and len(replaced) > count:
            replaced.append((holder, key, value))
            holder[key] = type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def _walk_members(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the tensors and modules in `value`, also in nested containers, with names that begin with `name`."""
    if isinstance(value, (Tensor, Module)):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _walk_members(_join_names(name, str(key)), item)
    elif isinstance(value, (list, tuple)):
        for k, item in enumerate(value):
            yield from _walk_members(_join_names(name, str(k)), item)


def _join_names(prefix: str, name: str) -> str:
    """Return `prefix.name`, or `name` alone without a prefix."""
    return f"{prefix}.{name}" if prefix else name
