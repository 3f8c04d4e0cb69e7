#!/usr/bin/env python3
"""Write all LLVM IR that some tests compile, the fast path's included, to a folder, to compare two states of the emitters.

    python tools/dump_code.py FOLDER [PYTEST ARGUMENT ...]

Without arguments for pytest, tests of kernels, rewrites and back ends run. Each text becomes a file that is named for its content, so two
folders are equal exactly if the same texts were emitted: run the tool in two checkouts, and compare the lists of files. A change of words
alone changes no text. After renames, apply the map to the older texts first, as symbols carry names.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("TENXOR_FAST_PATH", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tenxor.codegen.llvm.compiler import Compiler

TESTS = ["tests/lowering", "tests/rewrite", "tests/codegen/test_agreement.py", "tests/api/test_softmax.py"]


def main() -> None:
    """Run the tests and write the texts."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    compile_text = Compiler._compile_object

    def compile_and_write(self: Compiler, text: str) -> bytes:
        (folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.ll").write_text(text)
        return compile_text(self, text)

    Compiler._compile_object = compile_and_write  # type: ignore[method-assign]
    Compiler._find_stored = lambda *arguments, **keywords: None  # type: ignore[method-assign]  # a module found on disk is not emitted
    status = pytest.main(["-q", "-p", "no:xdist", "-p", "no:cacheprovider", *(sys.argv[2:] or TESTS)])
    names = sorted(path.name for path in folder.iterdir())
    print(f"{len(names)} texts, digest {hashlib.sha256(' '.join(names).encode()).hexdigest()[:16]}")
    sys.exit(status)


if __name__ == "__main__":
    main()
