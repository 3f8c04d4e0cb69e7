"""Neural networks: modules with parameters, layers, and stateless functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._utils.lazy import make_public_dir, make_public_getattr
from . import attention, containers, functional, graphs, init, layers, module, normalization, pooling, recurrent
from .attention import *
from .containers import *
from .graphs import *
from .layers import *
from .module import *
from .normalization import *
from .pooling import *
from .recurrent import *

__all__ = ["functional", "init"]
__all__ += attention.__all__ + containers.__all__ + graphs.__all__ + layers.__all__ + module.__all__ + normalization.__all__
__all__ += pooling.__all__ + recurrent.__all__
__dir__ = make_public_dir(globals())

if not TYPE_CHECKING:  # type checkers know the names statically
    del TYPE_CHECKING
    _missing = make_public_getattr(globals())

    def __getattr__(name: str) -> object:
        """Raise UnknownAttribute for the missing `name`.

        For a class name of an activation, such as `ReLU`, the message names the function: `Sequential` accepts functions.
        """
        from ..api.elementwise import FUNCTIONS
        from ..errors import UnknownAttribute

        functional_names = {function_name.replace("_", ""): f"tx.nn.functional.{function_name}" for function_name in functional.__all__}
        other_names = {function_name.replace("_", ""): f"tx.{function_name}" for function_name in (*FUNCTIONS, "softmax", "log_softmax")}
        full_name = (functional_names | other_names).get(name.lower()) if name[:1].isupper() else None
        if full_name is None:
            return _missing(name)
        raise UnknownAttribute(
            f"nn: there is no class {name}; use the function {full_name} itself in Sequential, as nn.Sequential(layer, {full_name})"
        )
