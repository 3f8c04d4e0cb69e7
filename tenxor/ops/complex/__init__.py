"""Complex numbers as pairs of real ones: the formulas of operations for real and imaginary parts.

No machine has complex numbers. While a kernel is built, each becomes a `ComplexPair` of real expressions by the formulas of this
package, which entries of the op table name as their `complex_formula`.
"""
