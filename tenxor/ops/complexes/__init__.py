"""Complex numbers as pairs of real ones: what each operation on them means for their real and imaginary parts.

No machine knows complex numbers. While a kernel is drafted, each becomes a `Pair` of real expressions by the formulas of
this room, which entries of the op table name as their `parts`.
"""
