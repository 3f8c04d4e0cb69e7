"""The LLVM back end: `emit` writes a kernel as LLVM IR, `compiler` makes it machine code and remembers it."""

ENTRY = "kernel"  # the name of a kernel's function
