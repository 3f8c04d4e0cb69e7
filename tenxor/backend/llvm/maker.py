"""A compiler for each level of x86-64, which collects its object files for `shipped.py` on other machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from . import cache, compiler, found, shipped
from .compiler import Compiler
from .levels import Level
from .linking import Linked


class Maker(Compiler):
    """The compiler for a level; it collects its object files by name.

    The object files are linked but never run, as this processor may lack instructions of the level.
    """

    def __init__(self, level: Level) -> None:
        super().__init__(level.target)
        self.level, self.objects = level, dict[str, bytes]()
        self.emitter, self.planner = cache.text_of(*cache.EMITTER), found.hashed()

    def _library(self, name: str, text: str, llvm_ir: Callable[[], str], symbols: tuple[str, ...]) -> tuple[Linked, str]:
        key = shipped.key_by(cache.hash_of(text), self.level, self.emitter)
        if key not in self.objects:
            self.objects[key] = self._image(llvm_ir())
        library = self._link(self.objects[key], symbols)
        if library is None:
            raise RuntimeError(f"tenxor: the kernel {name} cannot be linked here")
        return library, "compiled"

    @contextmanager
    def instead(self) -> Iterator[None]:
        """Make this the compiler of the process for the body of a `with` statement: kernels are then planned and compiled for the level."""
        previous, compiler._compiler = compiler._compiler, self
        try:
            yield
        finally:
            compiler._compiler = previous

    def keep_plan(self, text: str, content: bytes) -> None:
        """Add the data of a plan with this text to the shipped objects."""
        self.objects[shipped.plan_key(text, self.level, self.planner)] = content

    @property
    def file(self) -> str:
        """The name of the shipped file."""
        return self.level.name + shipped.SUFFIX

    def content(self) -> bytes:
        """Return the content of the shipped file, with all objects so far."""
        return shipped.written(self.objects, self.emitter)


def made_of() -> tuple[str, str]:
    """Return the name and the content of the file about the sources of the shipped code; see `found.as_made`."""
    from base64 import urlsafe_b64encode
    from hashlib import sha256

    lines = []
    for path in found.sources():
        content = Path(path).read_bytes()
        digest = urlsafe_b64encode(sha256(content).digest()).decode().rstrip("=")
        lines.append(f"{found.listed_as(path)},sha256={digest},{len(content)}")
    return found.MADE, f"{found.hash_of_list(lines)}\n{found.hashed()}"
