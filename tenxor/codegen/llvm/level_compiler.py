"""A compiler for each level of x86-64: it collects the code images that a wheel contains for other machines (`shipped_code.py`).

A level is a set of instructions that many processors have, like x86-64-v3 (`CpuLevel`). Only the builder of wheels (`aot/build.py`) uses
this module.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from . import host_info, kernel_disk_cache, shipped_code
from .code_image import LinkedCode
from .compiler import Compiler, use_compiler
from .cpuid import CpuLevel


class LevelCompiler(Compiler):
    """The compiler for a level of x86-64. It collects all code images in `objects`, a dict from the name in the shipped file to the image.

    The code is loaded but never run, as this processor may lack instructions of the level. The constructor raises RuntimeError if the
    sources of the package cannot be read.
    """

    def __init__(self, level: CpuLevel) -> None:
        super().__init__(level.target)
        self.level, self.objects = level, dict[str, bytes]()
        emitter_hash, planner_hashes = host_info.get_emitter_hash(), host_info.get_planner_hashes()
        if emitter_hash is None or planner_hashes is None:
            raise RuntimeError("tenxor: the sources of the package cannot be read")
        self.emitter_hash, self.planner_hashes = emitter_hash, planner_hashes

    def _load_or_compile(self, name: str, text: str, llvm_ir: Callable[[], str], symbols: tuple[str, ...]) -> tuple[LinkedCode, str]:
        """Return the code for `text` from `objects`, compiled from `llvm_ir()` and added if it is missing, and the origin "compiled".

        The arguments and the error are those of `Compiler._load_or_compile`. Neither the package nor the disk is asked.
        """
        key = shipped_code.make_key_from_hash(kernel_disk_cache.hash_text(text), self.level, self.emitter_hash)
        if key not in self.objects:
            self.objects[key] = self._compile(llvm_ir(), symbols)
        library = self._load(self.objects[key], symbols)
        if library is None:
            raise RuntimeError(f"tenxor: the kernel {name} cannot be linked here")
        return library, "compiled"

    def use_for_process(self) -> AbstractContextManager[None]:
        """Return a context in which this is the compiler of the process: kernels are then planned and compiled for the level."""
        return use_compiler(self)

    def add_plan(self, text: str, content: bytes) -> None:
        """Add `content`, the data of the plan with the key `text` (`Backend.read_shipped`), to `objects`."""
        self.objects[shipped_code.make_plan_key(text, self.level, self.planner_hashes)] = content

    @property
    def file_name(self) -> str:
        """The name of the shipped file of this level, without a folder, like `x86-64-v3.objects`."""
        return self.level.name + shipped_code.FILE_SUFFIX

    def build_content(self) -> bytes:
        """Return the content of the shipped file, with all code images and plans in `objects`."""
        return shipped_code.pack_objects(self.objects, self.emitter_hash)


def describe_sources() -> tuple[str, str]:
    """Return the name and the content of the file with the hashes of the package's sources, which is shipped with the code.

    A process reads it, instead of hashing the sources, to find out whether the shipped code fits them (`host_info.read_build_hashes`).
    """
    from base64 import urlsafe_b64encode
    from hashlib import sha256

    lines = []
    for path in host_info.iter_hashed_sources():
        content = Path(path).read_bytes()
        digest = urlsafe_b64encode(sha256(content).digest()).decode().rstrip("=")
        lines.append(f"{host_info.record_name_of(path)},sha256={digest},{len(content)}")
    return host_info.SOURCES_FILE_NAME, f"{host_info.hash_record_lines(lines)}\n{host_info.compute_source_hashes()}"
