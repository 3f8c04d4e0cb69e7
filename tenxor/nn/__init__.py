"""Neural networks: modules with parameters, layers, and stateless functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..late import public_dir, public_getattr
from . import attention, functional, graphs, init, layers, module, pooling, recurrent
from .attention import *
from .graphs import *
from .layers import *
from .module import *
from .pooling import *
from .recurrent import *

__all__ = ["functional", "init"]
__all__ += attention.__all__ + graphs.__all__ + layers.__all__ + module.__all__ + pooling.__all__ + recurrent.__all__
__dir__ = public_dir(globals())

if not TYPE_CHECKING:  # type checkers know the names statically
    del TYPE_CHECKING
    _missing = public_getattr(globals())

    def __getattr__(name: str) -> object:
        """Raise UnknownAttribute. For a class name of an activation, such as `ReLU`, the message names the function: `Sequential` accepts
        functions.
        """
        from ..errors import UnknownAttribute
        from ..functions.elementwise import FUNCTIONS

        own = {plain.replace("_", ""): f"tx.nn.functional.{plain}" for plain in functional.__all__}
        others = {plain.replace("_", ""): f"tx.{plain}" for plain in (*FUNCTIONS, "softmax", "log_softmax")}
        found = (own | others).get(name.lower()) if name[:1].isupper() else None
        if found is None:
            return _missing(name)
        raise UnknownAttribute(f"nn: there is no class {name}; {found} is a function, and Sequential takes functions as they are")
