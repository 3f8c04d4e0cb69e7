"""Networks: modules with parameters, the layers that they are made of, and the functions that these are."""

from __future__ import annotations

from . import functional as functional
from . import init as init
from .attention import *
from .graphs import *
from .layers import *
from .module import *
from .recurrent import *
