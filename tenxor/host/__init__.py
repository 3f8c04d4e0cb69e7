"""What others do best: sorting, decompositions of matrices and Fourier transforms are NumPy's, called on our memory without copies."""

from .run import run as run
from .run import seen as seen
from .table import HOST as HOST
from .table import HostOp as HostOp
