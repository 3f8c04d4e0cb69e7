"""The emitters of the fast path's machine code, imported only where the code is neither prebuilt nor in the disk cache.

Emitters run in Python when the fast path is built. `method_entries.emit_module` calls `emit_functions(module, objects)` of each file:
`module` is the LLVM module of the fast path, and `objects` the table of Python objects and slot offsets for the code. `emit_functions`
calls each `_emit_...(f)` of the file, which writes one machine-code function with the builder `f`; its docstring describes this function.
Further emitters add code to the function in `f`; a `Value` stands for a result at run time. A function declines by returning null, false
or 0; then the fallback in Python does the work.
"""
