"""Operations: scalar expressions, the op table, reductions, and the formulas of complex numbers.

`expr` defines `Expr`, of which formulas are built, and `Op`, an operation. `dtype_rules` has the dtype rules, `op_table` fills `OPS`,
`reductions` is the table of reductions, and `complex` has the formulas for real and imaginary parts.
"""

from .expr import OPS as OPS
from .expr import DTypes as DTypes
from .expr import Op as Op
from .op_table import INTERNAL_OPS as INTERNAL_OPS
from .op_table import make_custom_op as make_custom_op
