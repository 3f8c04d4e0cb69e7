"""Derivatives as methods: tensors that require gradients, and `backward`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Self

from ..errors import ArgumentError, DerivativeError, DTypeError, ShapeError, described
from ..late import Late
from ..node import untracked
from ..storage import Storage
from .arguments import truth
from .reducing import Reducing

if TYPE_CHECKING:
    from ..derivatives.seen import Seen

_PACKAGE = "tenxor.derivatives"
adjoint, partials, reverse, seen, watched = [Late(f"{_PACKAGE}.{name}") for name in ("adjoint", "partials", "reverse", "seen", "watched")]


class Differentiating(Reducing):
    """The methods of `Tensor` for gradients."""

    __slots__ = ()

    @property
    def requires_grad(self) -> bool:
        """True if gradients flow through this tensor. Can be set, as by `requires_grad_`."""
        return self._has_past()

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self.requires_grad_(flag)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Let derivatives be taken with respect to the elements of this tensor's storage from now on, and return this tensor.

        Every view of the storage shares the gradient. A later write is recorded as a step of the computation, and the gradient is with
        respect to the values before this write. A write inside `tx.no_grad()`, like an optimiser's, replaces the values and keeps the
        gradient. Once `backward` has set a gradient, a write outside of `tx.no_grad()` raises DerivativeError, unless `create_graph` was
        set. Raise DTypeError unless the elements are floats or complex numbers.

        >>> import tenxor as tx
        >>> x = tx.asarray([1.0, 2.0, 3.0]).requires_grad_()
        >>> (x[1:] ** 2).sum().backward()
        >>> x.grad.tolist()
        [0.0, 4.0, 6.0]
        """
        if not truth("requires_grad_", "requires_grad", requires_grad):
            if self._has_past() and watched.leaf_of(self.storage) is None:
                raise DerivativeError(
                    "requires_grad_: this tensor was computed from tensors that require a gradient; use x.detach()"
                )
            watched.unwatch(self.storage)
            return self
        if not partials.is_smooth(self.dtype):
            raise DTypeError(f"requires_grad_: there are no derivatives with respect to {self.dtype}; use x.astype(tx.float64) first")
        watched.watch(self.storage)
        return self

    @property
    def is_leaf(self) -> bool:
        """True if the tensor was not computed from tensors that require a gradient."""
        return not self._has_past() or watched.leaf_of(self.storage) is self.storage.node.past

    @property
    def grad(self) -> Self | None:
        """The gradient accumulated by calls of `backward`, through this tensor's layout; None before the first gradient.

        May be set to a tensor of the same shape and dtype, or to None.
        """
        watch = watched.keeper_of(self.storage)
        if watch is None or watch.grad is None:
            return None
        return self.__class__(watch.grad, self.layout, watch.grad.dtype)

    @grad.setter
    def grad(self, value: Any) -> None:
        watch = watched.keeper_of(self.storage, make=True)
        if watch is None:
            raise DerivativeError("grad: this tensor does not require a gradient; call x.requires_grad_() first")
        if value is None:
            watch.grad = None
            return
        if getattr(value, "shape", None) != self.shape or value.dtype is not self.dtype:
            raise ShapeError(f"grad: a gradient has the shape {self.shape} and dtype {self.dtype} of its tensor; got {described(value)}")
        if watch.grad is None:
            watch.grad = Storage(seen.of_number(0, (self.storage.size,), self.dtype).node)
        self.__class__(watch.grad, self.layout, self.dtype)._write(value, "grad")

    def backward(self, gradient: Self | None = None, retain_graph: bool | None = None, create_graph: bool = False) -> None:
        """Compute the gradients of this tensor with respect to the tensors that require one, and add them to their `grad`.

        This tensor must be a single real number, or `gradient` must be given: a tensor of this shape, the weights of the elements'
        derivatives. The gradient with respect to a complex number z is dL/d(re z) + 1j dL/d(im z), the direction of steepest ascent of L.
        Gradients are pending, like every result.

        The saved values are freed during the backward pass unless `retain_graph` is set. `create_graph` implies `retain_graph`, and lets
        the gradients be differentiated themselves. Raise DerivativeError if nothing requires a gradient, or if the saved values were freed
        before.

        >>> import tenxor as tx
        >>> w = tx.asarray([1.0, -2.0]).requires_grad_()
        >>> loss = (w * w).sum()
        >>> loss.backward()
        >>> w.grad.tolist()
        [2.0, -4.0]
        """
        if not self._has_past():
            raise DerivativeError(
                "backward: nothing that this tensor was computed from requires a gradient; call x.requires_grad_() on that first"
            )
        if gradient is None:
            if self.size != 1 or self.dtype.is_complex:
                raise DerivativeError(
                    f"backward: a tensor of shape {self.shape} and dtype {self.dtype} is not one real number; give the gradient to start"
                    " from, a tensor of its shape, or reduce it first"
                )
        elif getattr(gradient, "shape", None) != self.shape:
            raise ShapeError(
                f"backward: the gradient has shape {getattr(gradient, 'shape', None)}, the tensor {self.shape}; they must be equal"
            )
        node = self.node
        with nullcontext() if create_graph else untracked():
            if gradient is None:
                g = seen.of_number(1.0, self.shape, self.dtype)
            else:
                start_gradient = (gradient if create_graph else gradient.detach()).astype(self.dtype, copy=False)
                g = seen.Seen(start_gradient.node, start_gradient.layout)
            reverse.tell_watched([adjoint.root(node, self.layout, g)], free=not (create_graph if retain_graph is None else retain_graph))

    def detach(self) -> Self:
        """Return a new tensor with the same elements, through which no gradient flows. Both tensors share memory until either is written
        to.

        >>> import tenxor as tx
        >>> x = tx.ones(2).requires_grad_()
        >>> (x.detach() * x).sum().backward()
        >>> x.grad.tolist()
        [1.0, 1.0]
        """
        return self.__class__(Storage(watched.without_past(self.storage.node)), self.layout, self.dtype)

    def retain_grad(self) -> None:
        """Store the gradient of this computed tensor as `grad`, too.

        The gradient is with respect to the present values, even if the tensor is written to later.

        >>> import tenxor as tx
        >>> x = tx.ones(2).requires_grad_()
        >>> y = x * 2
        >>> y.retain_grad()
        >>> (y * y).sum().backward()
        >>> y.grad.tolist()
        [4.0, 4.0]
        """
        watched.retain(self.storage, self._require_watch("retain_grad"))

    def register_hook(self, hook: Callable[[Self], Self | None]) -> Callable[[], None]:
        """Call `hook` with the gradient with respect to this tensor when the gradient is known. If `hook` returns a tensor, it replaces the
        gradient.

        Return a function that removes the hook.

        >>> import tenxor as tx
        >>> x = tx.ones(2).requires_grad_()
        >>> remove = x.register_hook(lambda g: g * 10)
        >>> (x * 3).sum().backward()
        >>> x.grad.tolist()
        [30.0, 30.0]
        """
        if not callable(hook):
            raise ArgumentError(f"register_hook: the hook is {described(hook)}, which cannot be called")
        watch, layout, tensor_class = self._require_watch("register_hook"), self.layout, self.__class__

        def call_hook(g: Seen) -> Seen | None:
            view_gradient = g.through(layout)
            replacement = hook(tensor_class(Storage(view_gradient.node), view_gradient.layout, view_gradient.dtype))
            if replacement is None:
                return None
            if not isinstance(replacement, Differentiating) or replacement.shape != view_gradient.shape:
                raise ShapeError(
                    f"register_hook: the hook gave {described(replacement)} for a gradient of shape {view_gradient.shape};"
                    " give one like it, or None"
                )
            replacement = replacement.astype(view_gradient.dtype, copy=False)
            full_gradient: Seen = seen.stored(g, layout, seen.Seen(replacement.node, replacement.layout)).reshaped(g.shape)
            return full_gradient

        key = max(watch.hooks, default=0) + 1
        watch.hooks[key] = call_hook

        def remove() -> None:
            watch.hooks.pop(key, None)

        return remove

    def _require_watch(self, op: str) -> Any:
        watch = watched.watch_of(self.storage, make=True)
        if watch is None:
            raise DerivativeError(f"{op}: this tensor does not require a gradient; call x.requires_grad_() on its source")
        return watch
