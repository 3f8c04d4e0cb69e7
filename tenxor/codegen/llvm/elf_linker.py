"""A linker from object files to code images, which are loaded without LLVM (`code_image.py`).

LLVM's object file of a kernel is simple: sections, and relocations, the positions in them where distances and addresses belong. The code
is position-independent, so nearly all relocations are distances within the image, which are filled in here, once. A call of a C function
goes through a stub that jumps to an address in a table. The linker only reads ELF for x86-64, and leaves files of another kind, or with an
unknown feature, to LLVM.

Source: System V Application Binary Interface, AMD64 Architecture Processor Supplement, 4.4.1 (relocation types).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from itertools import chain

from ..._utils.records import NamedTuple
from .code_image import CodeImage

_MAGIC = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian
_RELOCATABLE, _X86_64 = 1, 62
_PROGBITS, _SYMTAB, _RELA, _ZEROS = 1, 2, 4, 8  # types of sections
_UNWIND = 0x70000001  # a further type of a section in memory
_WRITABLE, _IN_MEMORY = 1, 2  # flags of sections
_UNDEFINED = 0  # the section number of symbols without a section
_ABSOLUTE_64, _RELATIVE_64, _RELATIVE_32 = 1, 24, (2, 4)  # types of relocations: R_X86_64_64, PC64, and PC32 or PLT32
_TABLE_RELATIVE = (9, 41, 42)  # R_X86_64_GOTPCREL, GOTPCRELX and REX_GOTPCRELX: the distance of a table entry with an address
_LOAD, _LOAD_ADDRESS = 0x8B, 0x8D  # opcodes of `mov` from memory, and of `lea`
_ADDRESS_BYTES, _STUB_BYTES = 8, 8
_STUB = struct.Struct("<2si2x")  # jmp *distance(%rip)
_JUMP_OPCODE, _JUMP_BYTES = b"\xff\x25", 6

_HEADER = struct.Struct("<7x9xHH4x8x8xQ4xHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_pack_int32, _pack_int64 = struct.Struct("<i").pack_into, struct.Struct("<q").pack_into


class _Section(NamedTuple):
    """A section header of an ELF file, with the fields in the order of the file. `begin` is the offset of the content in the file.

    Sizes and offsets are in bytes. `kind` is the type of the section. For relocations, `info` is the number of the section to relocate, and
    `link` is the number of the symbol table.
    """

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


class _Symbol(NamedTuple):
    """A symbol of an object file: its `name`, and its `offset` in the image in bytes, or None for a C function of the process."""

    name: str
    offset: int | None


class _Unsupported(Exception):
    """Raised for a feature of an object file beyond this linker; LLVM's linker then links the file."""


def link_object(object_file: bytes, symbols: tuple[str, ...]) -> CodeImage | None:
    """Link `object_file`, the content of an object file, and return the code image with the functions and variables `symbols`.

    Return None if LLVM has to link the file.
    """
    try:
        return _Linker(object_file).link(symbols)
    except (_Unsupported, LookupError, ValueError, struct.error):
        return None


class _Linker:
    """The sections of an object file, their offsets in the image, and the content of the image while it is being linked.

    `content` has a part for code and constants, which ends with the stubs and the address table, and a part for variables. An entry of the
    address table is the address of a symbol, filled in when the image is loaded. A stub is code with a jump to an address in the table.
    """

    def __init__(self, object_file: bytes) -> None:
        if not object_file.startswith(_MAGIC):
            raise _Unsupported
        kind, machine, table_begin, _, _, _, header_size, count, _ = _HEADER.unpack_from(object_file)
        if (kind, machine, header_size) != (_RELOCATABLE, _X86_64, _SECTION.size):
            raise _Unsupported
        self.object_file = object_file
        self.sections = [_Section(*_SECTION.unpack_from(object_file, table_begin + k * header_size)) for k in range(count)]
        self.offsets: dict[int, int] = {}  # of the sections in memory, by number
        self.table_entries: dict[_Symbol, int] = {}  # the offset of the table entry with the address of a symbol
        self.stubs: dict[_Symbol, int] = {}
        self.pointers: list[int] = []
        self.externals: dict[str, list[int]] = {}

    def link(self, symbols: tuple[str, ...]) -> CodeImage:
        """Link the file, and return the image with the functions and variables `symbols`.

        Raise `_Unsupported`, or another error that `link_object` catches, if LLVM has to link the file.
        """
        self._place_sections()
        for section in self.sections:
            if section.kind == _RELA and section.info in self.offsets:
                self._relocate(section)
        wanted = frozenset(symbols)
        symbol_offsets = {
            symbol.name: symbol.offset
            for table in self.sections
            if table.kind == _SYMTAB
            for number in range(table.size // _SYMBOL.size)
            if (symbol := self._read_symbol(table, number)) is not None and symbol.offset is not None and symbol.name in wanted
        }
        if symbol_offsets.keys() != wanted:
            raise _Unsupported
        # Fresh memory is zero, so zeros at the end are left out, but for those to become addresses
        address_end = max([0, *self.pointers, *chain.from_iterable(self.externals.values())]) + _ADDRESS_BYTES
        content = bytes(self.content.rstrip(b"\0").ljust(address_end, b"\0"))
        return CodeImage(content, self.code_bytes, self.total_bytes, symbol_offsets, self.pointers, self.externals)

    def _place_sections(self) -> None:
        """Choose the offset of each section, of the stubs and of the address table, and copy the sections into `content`."""
        size = self._place_region(0, 0)
        entry_count = self._count_addressed_symbols()
        self.next_stub = size + -size % _STUB_BYTES
        self.next_entry = self.next_stub + entry_count * _STUB_BYTES
        size = self.next_entry + entry_count * _ADDRESS_BYTES
        self.code_bytes = size + -size % mmap.PAGESIZE
        data_end = self._place_region(1, self.code_bytes)
        self.total_bytes = self._place_region(2, data_end)
        self.content = bytearray(data_end)
        for k, offset in self.offsets.items():
            section = self.sections[k]
            if section.kind != _ZEROS:
                self.content[offset : offset + section.size] = self.object_file[section.begin : section.begin + section.size]

    def _count_addressed_symbols(self) -> int:
        """Return how many symbols may need a stub or an entry of the address table.

        The count includes undefined symbols, and symbols of relocations to table entries.
        """
        return len(
            {
                (table.link, number)
                for table in self.sections
                if table.kind == _RELA
                for _, kind, number, _ in self._iterate_relocations(table)
                if kind in _TABLE_RELATIVE or self._unpack_symbol(self.sections[table.link], number)[1] == _UNDEFINED
            }
        )

    def _place_region(self, region: int, begin: int) -> int:
        """Choose the offsets in the image of the sections of part `region` (0 to 2, see `_region_of`), from the offset `begin` on.

        Put them into `self.offsets`, by section number, and return the end of the last section, or `begin` without sections. Empty
        sections, and sections without memory at run time, get no offset.
        """
        for k, section in enumerate(self.sections):
            if section.flags & _IN_MEMORY and section.size and _region_of(section) == region:
                begin += -begin % max(section.alignment, 1)
                self.offsets[k], begin = begin, begin + section.size
        return begin

    def _relocate(self, table: _Section) -> None:
        """Apply the relocations in the section `table` to the section number `table.info`.

        Distances within the image are written into `content`. Positions of addresses are recorded in `pointers` and `externals`, for the
        loader. Raise `_Unsupported` for a relocation of another type, or a symbol neither in the image nor a C function.
        """
        section_offset, names = self.offsets[table.info], self.sections[table.link]
        for offset, kind, number, addend in self._iterate_relocations(table):
            symbol, position = self._read_symbol(names, number), section_offset + offset
            if symbol is None:
                raise _Unsupported
            if kind == _ABSOLUTE_64:
                self._write_address(position, symbol, addend)
                continue
            if kind in _RELATIVE_32 or kind == _RELATIVE_64:
                target = self._find_stub(symbol) if symbol.offset is None else symbol.offset
            elif kind in _TABLE_RELATIVE:
                if symbol.offset is not None and kind != _TABLE_RELATIVE[0] and self.content[position - 2] == _LOAD:
                    self.content[position - 2], target = _LOAD_ADDRESS, symbol.offset  # the address itself, instead of a table entry
                else:
                    target = self._find_table_entry(symbol)
            else:
                raise _Unsupported
            pack = _pack_int64 if kind == _RELATIVE_64 else _pack_int32
            pack(self.content, position, target + addend - position)

    def _iterate_relocations(self, table: _Section) -> Iterator[tuple[int, int, int, int]]:
        """Yield the relocations in the section `table`, each as a tuple: offset in the section to relocate, type, symbol number, and
        addend.
        """
        return _RELOCATION.iter_unpack(self.object_file[table.begin : table.begin + table.size])

    def _find_table_entry(self, symbol: _Symbol) -> int:
        """Return the offset in the image of the entry of the address table for `symbol`. A missing entry is added."""
        if symbol not in self.table_entries:
            self.table_entries[symbol] = self.next_entry
            self._write_address(self.next_entry, symbol, 0)
            self.next_entry += _ADDRESS_BYTES
        return self.table_entries[symbol]

    def _find_stub(self, symbol: _Symbol) -> int:
        """Return the offset in the image of the stub that jumps to `symbol`, a C function of the process. A missing stub is added."""
        if symbol not in self.stubs:
            self.stubs[symbol] = stub = self.next_stub
            _STUB.pack_into(self.content, stub, _JUMP_OPCODE, self._find_table_entry(symbol) - stub - _JUMP_BYTES)
            self.next_stub += _STUB_BYTES
        return self.stubs[symbol]

    def _write_address(self, position: int, symbol: _Symbol, addend: int) -> None:
        """Write the known part of an address into the image at `position`, and record the position, so that the loader completes the
        address.

        The address is `addend` bytes behind `symbol`.
        """
        if symbol.offset is None:
            _pack_int64(self.content, position, addend)
            self.externals.setdefault(symbol.name, []).append(position)
        else:
            _pack_int64(self.content, position, symbol.offset + addend)
            self.pointers.append(position)

    def _read_symbol(self, table: _Section, number: int) -> _Symbol | None:
        """Return symbol number `number` of the symbol table in the section `table`.

        An undefined symbol with a name is a C function of the process. Return None for another symbol outside of the image.
        """
        name_offset, section, value = self._unpack_symbol(table, number)
        name = self._read_text(self.sections[table.link], name_offset)
        if section == _UNDEFINED:
            return _Symbol(name, None) if name else None
        return _Symbol(name, self.offsets[section] + value) if section in self.offsets else None

    def _unpack_symbol(self, table: _Section, number: int) -> tuple[int, int, int]:
        """Return the offset of the name, the section number and the value of symbol number `number` of the symbol table `table`."""
        name, _, _, section, value, _ = _SYMBOL.unpack_from(self.object_file, table.begin + number * _SYMBOL.size)
        return name, section, value

    def _read_text(self, section: _Section, offset: int) -> str:
        """Return the text that begins at `offset`, in bytes, in a section of texts, each ended by a zero byte."""
        begin = section.begin + offset
        return self.object_file[begin : self.object_file.index(b"\0", begin)].decode()


def _region_of(section: _Section) -> int:
    """Return the part of the image for a section: 0 for code and constants, 1 for variables, 2 for variables that are zero at first.

    Raise `_Unsupported` for a section of another type.
    """
    if section.kind not in (_PROGBITS, _UNWIND, _ZEROS):
        raise _Unsupported
    return 0 if not section.flags & _WRITABLE else 2 if section.kind == _ZEROS else 1
