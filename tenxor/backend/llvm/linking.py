"""Object files made ready to run without LLVM, which takes longer to load than most programs wait for their first result.

What LLVM writes for a kernel is simple: some sections, and places in them where addresses belong. It is put into memory of its
own, the addresses are filled in, and from then on it can be run and not be written. So a kernel that is found on disk needs
nothing else. Only ELF for x86-64 is read here; what is of another kind, or has anything that is not known here, is left to LLVM.

Source: System V Application Binary Interface, AMD64 Architecture Processor Supplement, 4.4.1 (relocation types).
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Iterator, Set
from typing import Any

from ...records import NamedTuple
from ...system import address_in_process, runnable

_MAGIC = b"\x7fELF\x02\x01\x01"  # 64 bits, the lowest byte first
_RELOCATABLE, _X86_64 = 1, 62
_PROGBITS, _SYMTAB, _RELA, _ZEROS = 1, 2, 4, 8  # kinds of sections
_UNWIND = 0x70000001  # and one more that is in memory
_WRITTEN, _IN_MEMORY = 1, 2  # what is said of sections
_NOWHERE, _RESERVED = 0, 0xFF00  # numbers of sections that symbols are not in
_WORD, _RELATIVE_WORD, _NEAR = 1, 24, (2, 4)  # kinds of places: R_X86_64_64, PC64, and PC32 or PLT32

_HEADER = struct.Struct("<7x9xHH4x8x8xQ4xHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_PLACE = struct.Struct("<QIIq")
_near, _word, _relative_word = (struct.Struct(f"<{kind}").pack_into for kind in "iQq")


class Linked:
    """Machine code, in memory as long as something refers to this: the addresses of its functions."""

    __slots__ = ("__weakref__", "_memory", "addresses")

    def __init__(self, memory: Any, addresses: dict[str, int]) -> None:
        self._memory, self.addresses = memory, addresses

    def __getitem__(self, symbol: str) -> int:
        return self.addresses[symbol]


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    begin: int
    size: int
    link: int
    info: int
    alignment: int
    each: int


class _Unknown(Exception):
    """There is something in an object file that LLVM had better look at."""


def link(image: bytes, symbols: tuple[str, ...]) -> Linked | None:
    """The functions of these names in an object file, ready to run; None where that is for LLVM to do."""
    try:
        return _linked(image, symbols)
    except (_Unknown, LookupError, ValueError, struct.error, OSError):
        return None


def _linked(image: bytes, symbols: tuple[str, ...]) -> Linked:
    if not image.startswith(_MAGIC) or not hasattr(os, "uname") or os.uname().machine != "x86_64":
        raise _Unknown
    kind, machine, at, _, _, _, each, count, _ = _HEADER.unpack_from(image)
    if (kind, machine, each) != (_RELOCATABLE, _X86_64, _SECTION.size):
        raise _Unknown
    sections = [_Section(*_SECTION.unpack_from(image, at + k * each)) for k in range(count)]
    begins: dict[int, int] = {}  # of sections, in the memory that all of them share
    ends: list[int] = []  # of what is run or read, in pages of its own; of what is written; and of that which is all zeros
    size = 0
    for part in range(3):
        for k, section in enumerate(sections):
            if section.flags & _IN_MEMORY and section.size and _part_of(section) == part:
                size += -size % max(section.alignment, 1)
                begins[k], size = size, size + section.size
        if not ends:
            size += -size % mmap.PAGESIZE
        ends.append(size)
    addresses: dict[str, int] = {}
    wanted = frozenset(symbols)

    def content(base: int) -> bytearray:
        memory = bytearray(ends[1])  # fresh memory has zeros, and nobody need see to it
        for k, begin in begins.items():
            section = sections[k]
            if section.kind != _ZEROS:
                memory[begin : begin + section.size] = image[section.begin : section.begin + section.size]
        for section in sections:
            if section.kind == _RELA and section.info in begins:
                _fill(memory, base, image, sections, section, lambda k: base + begins[k])
        for symbol in sections:
            if symbol.kind == _SYMTAB:
                addresses.update(_defined(image, sections, symbol, lambda k: base + begins[k], wanted))
        return memory

    found = Linked(runnable(size, ends[0], content), addresses)
    if addresses.keys() != wanted:
        raise _Unknown
    return found


def _part_of(section: _Section) -> int:
    """Whether a section that is in memory is run or read (0), written (1), or all zeros to begin with (2)."""
    if section.kind not in (_PROGBITS, _UNWIND, _ZEROS):
        raise _Unknown
    return 0 if not section.flags & _WRITTEN else 2 if section.kind == _ZEROS else 1


Where = Callable[[int], int]  # the address of a section, by its number


def _fill(memory: bytearray, base: int, image: bytes, sections: list[_Section], table: _Section, where: Where) -> None:
    """Write addresses into the places that a table says, all of one section: as they are, or how far away they are."""
    known: dict[int, int] = {}
    begin = where(table.info) - base
    for place, kind, number, more in _PLACE.iter_unpack(image[table.begin : table.begin + table.size]):
        address = known.get(number)
        if address is None:
            address = known[number] = _address_of(image, sections, sections[table.link], number, where)
        at = begin + place
        if kind in _NEAR:
            _near(memory, at, address + more - base - at)
        elif kind == _WORD:
            _word(memory, at, address + more)
        elif kind == _RELATIVE_WORD:
            _relative_word(memory, at, address + more - base - at)
        else:
            raise _Unknown


def _address_of(image: bytes, sections: list[_Section], names: _Section, number: int, where: Where) -> int:
    """The address of a symbol, by its number in a table of them."""
    name, _, _, section, value, _ = _SYMBOL.unpack_from(image, names.begin + number * _SYMBOL.size)
    if section >= _RESERVED:
        raise _Unknown
    begin = address_in_process(_text(image, sections[names.link], name)) if section == _NOWHERE else where(section)
    return begin + int(value)


def _defined(
    image: bytes, sections: list[_Section], table: _Section, where: Where, wanted: Set[str]
) -> Iterator[tuple[str, int]]:
    """The addresses of the wanted symbols that a table defines."""
    for at in range(table.begin, table.begin + table.size, _SYMBOL.size):
        name, _, _, section, value, _ = _SYMBOL.unpack_from(image, at)
        if _NOWHERE < section < _RESERVED and name and (text := _text(image, sections[table.link], name)) in wanted:
            yield text, where(section) + value


def _text(image: bytes, section: _Section, at: int) -> str:
    begin = section.begin + at
    return image[begin : image.index(b"\0", begin)].decode()
