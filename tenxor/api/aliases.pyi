# Written by tools/coming_from.py from the table of spellings.
# ruff: noqa: I001
from ..dtypes import result_type as promote_types
from ..linalg import cholesky as cholesky
from ..linalg import cross as cross
from ..linalg import det as det
from ..linalg import inv as inv
from ..linalg import inv as inverse
from ..linalg import lstsq as lstsq
from ..linalg import expm as matrix_exp
from ..linalg import matrix_power as matrix_power
from ..linalg import multi_dot as multi_dot
from ..linalg import pinv as pinv
from ..linalg import pinv as pinverse
from ..linalg import qr as qr
from ..linalg import slogdet as slogdet
from ..linalg import solve as solve
from ..random import seed as manual_seed
from ..random import rand as rand
from ..random import randn as randn
from ..random import permutation as randperm
from ..tensor.contraction import matmul as bmm
from ..tensor.contraction import matmul as mm
from ..tensor.contraction import matmul as mv
from .block_stacking import vstack as row_stack
from .creation import asarray as asanyarray
from .creation import eye as identity
from .elementwise import abs as absolute
from .elementwise import acos as arccos
from .elementwise import acosh as arccosh
from .elementwise import asin as arcsin
from .elementwise import asinh as arcsinh
from .elementwise import atan as arctan
from .elementwise import atan2 as arctan2
from .elementwise import atanh as arctanh
from .elementwise import bitwise_invert as bitwise_not
from .elementwise import conj as conjugate
from .elementwise import divide as div
from .elementwise import equal as eq
from .elementwise import trunc as fix
from .elementwise import greater_equal as ge
from .elementwise import greater as gt
from .elementwise import bitwise_invert as invert
from .elementwise import less_equal as le
from .elementwise import bitwise_left_shift as left_shift
from .elementwise import less as lt
from .elementwise import remainder as mod
from .elementwise import multiply as mul
from .elementwise import not_equal as ne
from .elementwise import negative as neg
from .elementwise import pow as power
from .elementwise import bitwise_right_shift as right_shift
from .elementwise import round as rint
from .elementwise import subtract as sub
from .elementwise import divide as true_divide
from .gather_functions import isin as in1d
from .tensor_products import outer as ger
from .views import swapaxes as swapdims

__all__ = [
    "absolute",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asanyarray",
    "bitwise_not",
    "bmm",
    "cholesky",
    "conjugate",
    "cross",
    "det",
    "div",
    "eq",
    "fix",
    "ge",
    "ger",
    "gt",
    "identity",
    "in1d",
    "inv",
    "inverse",
    "invert",
    "le",
    "left_shift",
    "lstsq",
    "lt",
    "manual_seed",
    "matrix_exp",
    "matrix_power",
    "mm",
    "mod",
    "mul",
    "multi_dot",
    "mv",
    "ne",
    "neg",
    "pinv",
    "pinverse",
    "power",
    "promote_types",
    "qr",
    "rand",
    "randn",
    "randperm",
    "right_shift",
    "rint",
    "row_stack",
    "slogdet",
    "solve",
    "sub",
    "swapdims",
    "true_divide",
]
