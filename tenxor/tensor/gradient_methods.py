"""Derivatives as methods: tensors that require gradients, and `backward`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Self

from .._utils.lazy import LazyFunctions
from ..errors import ArgumentError, DerivativeError, DTypeError, ShapeError, describe_value
from ..graph.node import disable_tape
from ..graph.storage import Storage
from .argument_parsing import check_flag
from .elementwise_methods import ElementwiseMethods

if TYPE_CHECKING:
    from ..autodiff.node_view import NodeView

_PACKAGE = "tenxor.autodiff"
layout_adjoint, formula_derivatives, reverse, node_view, grad_storage = [
    LazyFunctions(f"{_PACKAGE}.{name}") for name in ("layout_adjoint", "formula_derivatives", "reverse", "node_view", "grad_storage")
]


class GradientMethods(ElementwiseMethods):
    """The methods of `Tensor` for gradients."""

    __slots__ = ()

    @property
    def requires_grad(self) -> bool:
        """True if gradients flow through this tensor. Can be set, as by `requires_grad_`.

        This holds for a leaf, for a tensor computed from leaves, and for a tensor computed from an argument of a traced function.
        """
        return self._is_on_tape()

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self.requires_grad_(flag)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Let derivatives be taken with respect to the elements of this tensor's storage from now on.

        Parameters
        ----------
        requires_grad : bool, default True
            False ends the recording for this storage.

        Returns
        -------
        Tensor
            This tensor.

        Raises
        ------
        DTypeError
            Unless the elements are floats or complex numbers.
        DerivativeError
            If `requires_grad` is False and this tensor was computed from tensors that require a gradient.

        Notes
        -----
        Every view of the storage shares the gradient. A later write is recorded as a step of the computation, and the gradient is with
        respect to the values before this write. A write inside `tx.no_grad()`, like an optimiser's, replaces the values and keeps the
        gradient. Once `backward` has set a gradient, a write outside of `tx.no_grad()` raises DerivativeError, unless `create_graph` was
        set.

        Examples
        --------
        >>> import tenxor as tx
        >>> x = tx.asarray([1.0, 2.0, 3.0]).requires_grad_()
        >>> (x[1:] ** 2).sum().backward()
        >>> x.grad.tolist()
        [0.0, 4.0, 6.0]
        """
        if not check_flag("requires_grad", requires_grad):
            if self._is_on_tape() and grad_storage.find_leaf(self.storage) is None:
                raise DerivativeError("requires_grad_: this tensor was computed from tensors that require a gradient; use x.detach()")
            grad_storage.stop_requiring_grad(self.storage)
            return self
        if not formula_derivatives.is_smooth(self.dtype):
            raise DTypeError(f"requires_grad_: there are no derivatives with respect to {self.dtype}; use x.astype(tx.float64) first")
        grad_storage.require_grad(self.storage)
        return self

    @property
    def is_leaf(self) -> bool:
        """True if the tensor was not computed from tensors that require a gradient."""
        return not self._is_on_tape() or grad_storage.find_leaf(self.storage) is self.storage.node.tape_node

    @property
    def grad(self) -> Self | None:
        """Gradient accumulated by calls of `backward`, through this tensor's layout; None before the first gradient.

        The property can be set to a tensor of the same shape and dtype, or to None. Setting it raises ShapeError for another shape or
        dtype, and DerivativeError if this tensor does not require a gradient.
        """
        watch = grad_storage.get_handler_with_grad(self.storage)
        if watch is None or watch.grad is None:
            return None
        return self.__class__(watch.grad, self.layout, watch.grad.dtype)

    @grad.setter
    def grad(self, value: Any) -> None:
        watch = grad_storage.get_handler_with_grad(self.storage, create=True)
        if watch is None:
            raise DerivativeError("grad: this tensor does not require a gradient; call x.requires_grad_() first")
        if value is None:
            watch.grad = None
            return
        if getattr(value, "shape", None) != self.shape or value.dtype is not self.dtype:
            raise ShapeError(
                f"grad: a gradient must have the shape {self.shape} and dtype {self.dtype} of its tensor; it is {describe_value(value)}"
            )
        if watch.grad is None:
            watch.grad = Storage(node_view.full_view(0, (self.storage.size,), self.dtype).node)
        self.__class__(watch.grad, self.layout, self.dtype)._write(value, "grad")

    def backward(self, gradient: Self | None = None, retain_graph: bool | None = None, create_graph: bool = False) -> None:
        """Compute the gradients with respect to leaves that require one and tensors marked by `retain_grad`, and add them to their `grad`.

        Parameters
        ----------
        gradient : Tensor, optional
            The weights of the derivatives of this tensor's elements, of this tensor's shape. Needed unless this tensor is a single real
            number.
        retain_graph : bool, optional
            Keep the saved values, which are otherwise freed during the backward pass. The default is `create_graph`.
        create_graph : bool, default False
            Let the gradients be differentiated themselves.

        Raises
        ------
        DerivativeError
            If nothing requires a gradient, if `gradient` is needed and missing, or if the saved values were freed before.
        ShapeError
            If `gradient` has another shape.

        Notes
        -----
        The gradient with respect to a complex number z is dL/d(re z) + 1j dL/d(im z), the direction of steepest ascent of L. Gradients are
        pending, like every result.

        Examples
        --------
        >>> import tenxor as tx
        >>> w = tx.asarray([1.0, -2.0]).requires_grad_()
        >>> loss = (w * w).sum()
        >>> loss.backward()
        >>> w.grad.tolist()
        [2.0, -4.0]
        """
        create_graph = check_flag("create_graph", create_graph)
        retain_graph = create_graph if retain_graph is None else check_flag("retain_graph", retain_graph)
        if not self._is_on_tape():
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
                f"backward: the gradient is {describe_value(gradient)}; it must be a tensor of shape {self.shape}, that of this tensor"
            )
        node = self.node
        with nullcontext() if create_graph else disable_tape():
            if gradient is None:
                g = node_view.full_view(1.0, self.shape, self.dtype)
            else:
                start_gradient = (gradient if create_graph else gradient.detach()).astype(self.dtype, copy=False)
                g = node_view.NodeView(start_gradient.node, start_gradient.layout)
            reverse.accumulate_grads(
                [layout_adjoint.make_root(node, self.layout, g)],
                free_residuals=not retain_graph,
            )

    def detach(self) -> Self:
        """Return a tensor with the same elements, through which no gradient flows.

        Returns
        -------
        Tensor
            New tensor. Both tensors share memory until either is written to.

        Examples
        --------
        >>> import tenxor as tx
        >>> x = tx.ones(2).requires_grad_()
        >>> (x.detach() * x).sum().backward()
        >>> x.grad.tolist()
        [1.0, 1.0]
        """
        return self.__class__(Storage(grad_storage.detach_node(self.storage.node)), self.layout, self.dtype)

    def retain_grad(self) -> None:
        """Store the gradient of this computed tensor as `grad`, too.

        The gradient is with respect to the present values, even if the tensor is written to later. Raise DerivativeError if this tensor
        does not require a gradient.

        >>> import tenxor as tx
        >>> x = tx.ones(2).requires_grad_()
        >>> y = x * 2
        >>> y.retain_grad()
        >>> (y * y).sum().backward()
        >>> y.grad.tolist()
        [4.0, 4.0]
        """
        grad_storage.retain_grad(self.storage, self._require_grad_handler("retain_grad"))

    def register_hook(self, hook: Callable[[Self], Self | None]) -> Callable[[], None]:
        """Call `hook` with the gradient with respect to this tensor when the gradient is known.

        Parameters
        ----------
        hook : Callable[[Tensor], Tensor | None]
            If `hook` returns a tensor, it replaces the gradient.

        Returns
        -------
        Callable[[], None]
            A function that removes the hook.

        Raises
        ------
        ArgumentError
            If `hook` cannot be called.
        DerivativeError
            If this tensor does not require a gradient.
        ShapeError
            In the backward pass, if `hook` returns a tensor of another shape.

        Examples
        --------
        >>> import tenxor as tx
        >>> x = tx.ones(2).requires_grad_()
        >>> remove = x.register_hook(lambda g: g * 10)
        >>> (x * 3).sum().backward()
        >>> x.grad.tolist()
        [30.0, 30.0]
        """
        if not callable(hook):
            raise ArgumentError(f"register_hook: the hook is {describe_value(hook)}, which cannot be called; give a function")
        watch, layout, tensor_class = self._require_grad_handler("register_hook"), self.layout, self.__class__

        def call_hook(g: NodeView) -> NodeView | None:
            view_gradient = g.view_through(layout)
            replacement = hook(tensor_class(Storage(view_gradient.node), view_gradient.layout, view_gradient.dtype))
            if replacement is None:
                return None
            if not isinstance(replacement, GradientMethods) or replacement.shape != view_gradient.shape:
                raise ShapeError(
                    f"register_hook: the hook gave {describe_value(replacement)} for a gradient of shape {view_gradient.shape};"
                    " give one like it, or None"
                )
            replacement = replacement.astype(view_gradient.dtype, copy=False)
            full_gradient: NodeView = node_view.apply_store(g, layout, node_view.NodeView(replacement.node, replacement.layout)).reshape(
                g.shape
            )
            return full_gradient

        key = max(watch.hooks, default=0) + 1
        watch.hooks[key] = call_hook

        def remove() -> None:
            watch.hooks.pop(key, None)

        return remove

    def _require_grad_handler(self, op: str) -> Any:
        """Return the `GradHandler`, which holds the gradient and the hooks, for this storage; create a missing one.

        The handler belongs to the leaf of the storage, or without a leaf to the tape node of the present content. Raise DerivativeError,
        naming `op`, if this tensor does not require a gradient.
        """
        watch = grad_storage.get_handler(self.storage, create=True)
        if watch is None:
            raise DerivativeError(f"{op}: this tensor does not require a gradient; call x.requires_grad_() on its source")
        return watch
