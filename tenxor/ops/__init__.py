"""Operations: scalar expressions, the op table, reductions, and the formulas of complex numbers.

`expr` defines `Expr`, of which formulas are built, and `Op`, an operation. `rules` has the dtype rules, `table` fills `OPS`, `reductions`
is the table of reductions, and `complexes` has the formulas for real and imaginary parts.
"""

from .expr import OPS as OPS
from .expr import DTypes as DTypes
from .expr import Op as Op
from .table import INTERNAL as INTERNAL
from .table import custom as custom
