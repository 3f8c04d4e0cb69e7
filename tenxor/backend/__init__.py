"""What runs kernels: an interpreter, the oracle of the tests, and LLVM, which is fast. Both see only the loop IR."""
