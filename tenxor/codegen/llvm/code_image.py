"""Position-independent machine code: linked once, stored on disk or shipped, and loaded by copying it into executable memory.

A code image is the result of linking an object file (`elf_linker.py`). To load it, a process fills in the addresses of the C functions
that the code calls, and a few pointers into the image itself. So a process that finds its kernels needs neither LLVM nor a linker: to load
LLVM takes longer than most programs wait for their first result.
"""

from __future__ import annotations

import marshal
import struct
from typing import Any

from ..._utils.process import find_symbol_address, map_executable
from ..._utils.records import NamedTuple

IMAGE_MAGIC = b"tenxor code 1\n"
_INT64 = struct.Struct("<q")


class LinkedCode:
    """Machine code, loaded and ready to run. `code[symbol]` is the address of a function; `addresses` maps names to addresses.

    The code stays in memory as long as this object is referenced: `memory` is the owner of the code's memory.
    """

    __slots__ = ("__weakref__", "_memory", "addresses")

    def __init__(self, memory: Any, addresses: dict[str, int]) -> None:
        self._memory, self.addresses = memory, addresses

    def __getitem__(self, symbol: str) -> int:
        """Return the address of the function `symbol`; raise KeyError for an unknown symbol."""
        return self.addresses[symbol]


class CodeImage(NamedTuple):
    """Linked machine code that runs at any address. Offsets and sizes are in bytes.

    In memory the image has `total_bytes` bytes: `code_bytes` bytes of code and constants, a multiple of the page size, and then variables.
    `content` has the first bytes; the others are zero. `symbols` maps the names of functions and variables to their offsets. `pointers` has
    the offsets of 64-bit offsets into the image, which become addresses when the image is loaded. `externals` maps the name of a C function
    of the process to the offsets of its addresses.
    """

    content: bytes
    code_bytes: int
    total_bytes: int
    symbols: dict[str, int]
    pointers: list[int]
    externals: dict[str, list[int]]

    def serialize(self) -> bytes:
        """Return the image as bytes, to be stored in a file; `deserialize` is the inverse."""
        return IMAGE_MAGIC + marshal.dumps(tuple(self), 2)

    @classmethod
    def deserialize(cls, serialized: bytes) -> CodeImage:
        """Return the image stored in `serialized`, which must be the unchanged result of `serialize`. Different bytes may raise an
        arbitrary error.
        """
        return cls(*marshal.loads(memoryview(serialized)[len(IMAGE_MAGIC) :]))

    def load(self) -> LinkedCode | None:
        """Copy the image into new executable memory, fill in the addresses, and return the functions.

        Return None if the process lacks a C function that the code calls, or if the system forbids executable memory.
        """
        addresses: dict[str, int] = {}

        def fill_memory(base: int) -> bytearray:
            memory = bytearray(self.content)
            targets = [(base, self.pointers), *[(find_symbol_address(name), offsets) for name, offsets in self.externals.items()]]
            for address, offsets in targets:
                for offset in offsets:
                    _INT64.pack_into(memory, offset, _INT64.unpack_from(memory, offset)[0] + address)
            addresses.update({name: base + offset for name, offset in self.symbols.items()})
            return memory

        try:
            return LinkedCode(map_executable(self.total_bytes, self.code_bytes, fill_memory), addresses)
        except (LookupError, OSError, ValueError):
            return None


def load_image(content: bytes) -> LinkedCode | None:
    """Load `content`, a serialised code image, and return the functions, ready to run.

    Return None if `content` does not begin with `IMAGE_MAGIC`, or if the image cannot run in this process (`CodeImage.load`). A damaged
    image may raise an error.
    """
    return CodeImage.deserialize(content).load() if content.startswith(IMAGE_MAGIC) else None
