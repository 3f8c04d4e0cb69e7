"""Networks: modules with parameters, the layers that they are made of, and the functions that these are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..late import public_dir, public_getattr
from . import functional as functional
from . import init as init
from .attention import *
from .graphs import *
from .layers import *
from .module import *
from .recurrent import *

if not TYPE_CHECKING:  # who know all that there is
    del TYPE_CHECKING
    _parts = (attention, graphs, layers, module, recurrent)  # noqa: F405
    __all__ = sorted({"functional", "init", *[name for part in _parts for name in part.__all__]})
    __dir__, _missing = public_dir(globals()), public_getattr(globals())

    def __getattr__(name: str) -> object:
        """Activations are functions, which `Sequential` takes as they are: whoever looks for a class is told so."""
        from ..errors import UnknownAttribute
        from ..functions.elementwise import FUNCTIONS

        own = {plain.replace("_", ""): f"tx.nn.functional.{plain}" for plain in functional.__all__}
        others = {plain.replace("_", ""): f"tx.{plain}" for plain in (*FUNCTIONS, "softmax", "log_softmax")}
        found = (others | own).get(name.lower()) if name[:1].isupper() else None
        if found is None:
            return _missing(name)
        raise UnknownAttribute(f"nn: there is no class {name}; {found} is a function, and Sequential takes functions as they are")
