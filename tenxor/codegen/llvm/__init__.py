"""The LLVM back end: `emit_kernel` translates a kernel to LLVM IR, `compiler` compiles and caches the code, `launch` runs the code."""

KERNEL_SYMBOL = "kernel"  # the name of a kernel's function in its LLVM module
