"""The LLVM back end: `emit` translates a kernel to LLVM IR, `compiler` compiles and caches the code, `launch` runs the code."""

ENTRY = "kernel"  # the name of a kernel's function in its LLVM module
