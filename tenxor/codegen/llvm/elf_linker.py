"""A linker that makes object files ready to run without LLVM; to load LLVM takes longer than most programs wait for their first result.

LLVM's object file of a kernel is simple: sections, and relocations, the places in them where addresses belong. The linker copies the
sections to memory of their own and fills the addresses in. From then on the code can be run, but not written. So a kernel found on disk
does not need LLVM. The linker only reads ELF for x86-64, and leaves files of another kind, or with an unknown feature, to LLVM.

Source: System V Application Binary Interface, AMD64 Architecture Processor Supplement, 4.4.1 (relocation types).
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Iterator, Set
from typing import Any

from ..._utils.process import find_symbol_address, map_executable
from ..._utils.records import NamedTuple

_MAGIC = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian
_RELOCATABLE, _X86_64 = 1, 62
_PROGBITS, _SYMTAB, _RELA, _ZEROS = 1, 2, 4, 8  # types of sections
_UNWIND = 0x70000001  # a further type of a section in memory
_WRITABLE, _IN_MEMORY = 1, 2  # flags of sections
_UNDEFINED, _RESERVED = 0, 0xFF00  # section numbers of symbols without a section
_ABSOLUTE_64, _RELATIVE_64, _RELATIVE_32 = 1, 24, (2, 4)  # types of relocations: R_X86_64_64, PC64, and PC32 or PLT32

_HEADER = struct.Struct("<7x9xHH4x8x8xQ4xHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_pack_int32, _pack_uint64, _pack_int64 = (struct.Struct(f"<{kind}").pack_into for kind in "iQq")


class LinkedCode:
    """Machine code, in memory as long as this object is referenced: the addresses of its functions, by name."""

    __slots__ = ("__weakref__", "_memory", "addresses")

    def __init__(self, memory: Any, addresses: dict[str, int]) -> None:
        self._memory, self.addresses = memory, addresses

    def __getitem__(self, symbol: str) -> int:
        return self.addresses[symbol]


class _Section(NamedTuple):
    """A section header of an ELF file."""

    name: int
    kind: int
    flags: int
    address: int
    begin: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class _Unsupported(Exception):
    """Raised for a feature of an object file that is left to LLVM."""


def link_object(image: bytes, symbols: tuple[str, ...]) -> LinkedCode | None:
    """Return the functions `symbols` in the object file `image`, ready to run; None if LLVM has to link the file."""
    try:
        return _link_elf(image, symbols)
    except (_Unsupported, LookupError, ValueError, struct.error, OSError):
        return None


def _link_elf(image: bytes, symbols: tuple[str, ...]) -> LinkedCode:
    """Return the linked functions of an object file; raise `_Unsupported`, or another error that `link_object` catches, if LLVM has to
    link it.
    """
    if not image.startswith(_MAGIC) or not hasattr(os, "uname") or os.uname().machine != "x86_64":
        raise _Unsupported
    kind, machine, table_begin, _, _, _, header_size, count, _ = _HEADER.unpack_from(image)
    if (kind, machine, header_size) != (_RELOCATABLE, _X86_64, _SECTION.size):
        raise _Unsupported
    sections = [_Section(*_SECTION.unpack_from(image, table_begin + k * header_size)) for k in range(count)]
    begins: dict[int, int] = {}  # the offset of each section in the memory of all sections
    # The ends of the three parts of the memory: code and constants, in pages of their own; variables; and variables that are zero at first.
    ends: list[int] = []
    size = 0
    for region in range(3):
        for k, section in enumerate(sections):
            if section.flags & _IN_MEMORY and section.size and _region_of(section) == region:
                size += -size % max(section.alignment, 1)
                begins[k], size = size, size + section.size
        if not ends:
            size += -size % mmap.PAGESIZE
        ends.append(size)
    addresses: dict[str, int] = {}
    wanted = frozenset(symbols)

    def fill_memory(base: int) -> bytearray:
        memory = bytearray(ends[1])  # fresh memory is zero, so the third part is not written
        for k, begin in begins.items():
            section = sections[k]
            if section.kind != _ZEROS:
                memory[begin : begin + section.size] = image[section.begin : section.begin + section.size]
        for section in sections:
            if section.kind == _RELA and section.info in begins:
                _relocate(memory, base, image, sections, section, lambda k: base + begins[k])
        for symbol in sections:
            if symbol.kind == _SYMTAB:
                addresses.update(_defined_symbols(image, sections, symbol, lambda k: base + begins[k], wanted))
        return memory

    linked = LinkedCode(map_executable(size, ends[0], fill_memory), addresses)
    if addresses.keys() != wanted:
        raise _Unsupported
    return linked


def _region_of(section: _Section) -> int:
    """Return the part of the memory for a section: 0 for code and constants, 1 for variables, 2 for variables that are zero at first."""
    if section.kind not in (_PROGBITS, _UNWIND, _ZEROS):
        raise _Unsupported
    return 0 if not section.flags & _WRITABLE else 2 if section.kind == _ZEROS else 1


SectionAddress = Callable[[int], int]  # the address of a section, by its number


def _relocate(
    memory: bytearray, base: int, image: bytes, sections: list[_Section], table: _Section, address_of_section: SectionAddress
) -> None:
    """Apply the relocations of a table, all of the same section: write each address into `memory`, absolute or as a distance.

    `base` is the address at which `memory` will run, `image` is the object file, and `table.info` is the number of the section.
    """
    addresses: dict[int, int] = {}
    begin = address_of_section(table.info) - base
    for offset, kind, number, addend in _RELOCATION.iter_unpack(image[table.begin : table.begin + table.size]):
        address = addresses.get(number)
        if address is None:
            address = addresses[number] = _resolve_symbol(image, sections, sections[table.link], number, address_of_section)
        position = begin + offset
        if kind in _RELATIVE_32:
            _pack_int32(memory, position, address + addend - base - position)
        elif kind == _ABSOLUTE_64:
            _pack_uint64(memory, position, address + addend)
        elif kind == _RELATIVE_64:
            _pack_int64(memory, position, address + addend - base - position)
        else:
            raise _Unsupported


def _resolve_symbol(image: bytes, sections: list[_Section], names: _Section, number: int, address_of_section: SectionAddress) -> int:
    """Return the address of symbol `number` of the symbol table `names`: in a section, or for an undefined symbol in this process."""
    name, _, _, section, value, _ = _SYMBOL.unpack_from(image, names.begin + number * _SYMBOL.size)
    if section >= _RESERVED:
        raise _Unsupported
    begin = find_symbol_address(_read_text(image, sections[names.link], name)) if section == _UNDEFINED else address_of_section(section)
    return begin + int(value)


def _defined_symbols(
    image: bytes, sections: list[_Section], table: _Section, address_of_section: SectionAddress, wanted: Set[str]
) -> Iterator[tuple[str, int]]:
    """Yield name and address of each symbol that the symbol table `table` defines, if the name is in `wanted`."""
    for position in range(table.begin, table.begin + table.size, _SYMBOL.size):
        name, _, _, section, value, _ = _SYMBOL.unpack_from(image, position)
        if _UNDEFINED < section < _RESERVED and name and (text := _read_text(image, sections[table.link], name)) in wanted:
            yield text, address_of_section(section) + value


def _read_text(image: bytes, section: _Section, offset: int) -> str:
    """Return the text that begins at `offset`, in bytes, in a section of texts, each ended by a zero byte."""
    begin = section.begin + offset
    return image[begin : image.index(b"\0", begin)].decode()
