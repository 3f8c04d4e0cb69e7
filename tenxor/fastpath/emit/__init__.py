"""The emitter of the fast path's machine code, imported only where the code is neither prebuilt nor in the disk cache."""
