"""The features of this processor, as reported by the instruction CPUID. LLVM knows more, but takes longer to load than all steps before a
first result.

x86-64 has levels, each with the instructions of the lower levels. A process that knows its level can run code compiled elsewhere for this
level.

Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, CPUID and XGETBV; System V Application Binary Interface,
AMD64 Architecture Processor Supplement, 3.1.1 (levels).
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

from ..._utils.process import map_executable
from ..._utils.records import NamedTuple
from ...target import Target
from ...target.named_targets import AVX2, AVX512

# The bits that a level needs, of CPUID's leaf 1 `ecx`, leaf 7 `ebx` and leaf 0x80000001 `ecx`; then the bits of XCR0 for the registers that
# the system saves for each thread.
_LEAF_1_ECX = {
    **{"sse3": 0, "ssse3": 9, "fma": 12, "cx16": 13, "sse4.1": 19, "sse4.2": 20, "movbe": 22, "popcnt": 23, "osxsave": 27},
    **{"avx": 28, "f16c": 29},
}
_LEAF_7_EBX = {"bmi": 3, "avx2": 5, "bmi2": 8, "avx512f": 16, "avx512dq": 17, "avx512cd": 28, "avx512bw": 30, "avx512vl": 31}
_EXTENDED_ECX = {"sahf": 0, "lzcnt": 5}
_SAVED_REGISTERS = {"avx": 0x6, "avx512": 0xE6}  # registers of 32 bytes; registers of 64 bytes, and masks
_AVX512_FEATURES = frozenset(name for name in _LEAF_7_EBX if name.startswith("avx512"))

# void f(unsigned leaf, unsigned sub, unsigned found[4]): CPUID
_CPUID = bytes.fromhex("53 4989d0 89f8 89f1 0fa2 418900 41895804 41894808 4189500c 5b c3")
# unsigned long f(void): XGETBV of register 0
_XGETBV = bytes.fromhex("31c9 0f01d0 48c1e220 4809d0 c3")


class CpuLevel(NamedTuple):
    """A level of x86-64: its name, and as `target` the plain machine with exactly the instructions of this level."""

    name: str
    target: Target

    def can_serve(self, host: Target) -> bool:
        """Return whether code compiled for the plain machine `self.target` may serve the machine `host`.

        This is so if code compiled for `host` would differ only in the order of instructions. So both machines must agree in every property
        that the emitter reads, from vector sizes to cache lines and blocks.
        """
        plain = self.target
        host_facts = host.caches.line_bytes, host.blocks.block_rows, host.blocks.panels_per_pack, host.streams.min_vector_bytes
        if host_facts != (plain.caches.line_bytes, plain.blocks.block_rows, plain.blocks.panels_per_pack, plain.streams.min_vector_bytes):
            return False
        adjusted = host._replace(
            blocks=plain.blocks, streams=plain.streams, single_pass=plain.single_pass, caches=plain.caches, page_bytes=plain.page_bytes
        )
        return adjusted._replace(threads=plain.threads, processor=plain.processor) == plain


CPU_LEVELS = (CpuLevel("x86-64-v4", AVX512), CpuLevel("x86-64-v3", AVX2))


def detect_features() -> frozenset[str]:
    """Return the names in LLVM, such as "avx2", of the features that the processor has and the system allows.

    Only features by which levels of x86-64 differ are returned. The set is empty where the processor cannot be asked: outside of 64-bit
    Linux on x86-64, or where the system forbids executable memory.
    """
    if sys.platform != "linux" or os.uname().machine != "x86_64" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return frozenset()
    try:
        return _ask_cpuid()
    except OSError:  # the system runs only code from files
        return frozenset()


@cache
def _ask_cpuid() -> frozenset[str]:
    """Run a few instructions of machine code with CPUID and XGETBV, and return the set described by `detect_features`.

    The result is kept for the process. Raise OSError if the system forbids executable memory.
    """
    code = _CPUID.ljust(64, b"\xcc") + _XGETBV.ljust(64, b"\xcc")
    memory = map_executable(len(code), 4096, lambda address: code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    ask = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(address)
    words = (ctypes.c_uint32 * 4)()

    def read_leaf(number: int) -> list[int]:
        ask(number, 0, words)
        return list(words)

    def names_of_bits(bits: dict[str, int], word: int) -> set[str]:
        return {name for name, bit in bits.items() if word >> bit & 1}

    present = names_of_bits(_LEAF_1_ECX, read_leaf(1)[2])
    if read_leaf(0)[0] >= 7:
        present |= names_of_bits(_LEAF_7_EBX, read_leaf(7)[1])
    if read_leaf(0x80000000)[0] >= 0x80000001:
        present |= names_of_bits(_EXTENDED_ECX, read_leaf(0x80000001)[2])
    saved = ctypes.CFUNCTYPE(ctypes.c_uint64)(address + 64)() if "osxsave" in present else 0
    if saved & _SAVED_REGISTERS["avx"] != _SAVED_REGISTERS["avx"]:
        present -= {"avx", "avx2", "fma", "f16c"} | _AVX512_FEATURES
    if saved & _SAVED_REGISTERS["avx512"] != _SAVED_REGISTERS["avx512"]:
        present -= _AVX512_FEATURES
    return frozenset(present)


def detect_level() -> CpuLevel | None:
    """Return the highest level of x86-64 whose instructions this processor has, of the two levels for which code is shipped.

    Return None for a processor below x86-64-v3, and for one with AVX-512F but without all of x86-64-v4: no code is shipped for either.
    """
    present = detect_features()
    v3_features = {*_LEAF_1_ECX, "bmi", "avx2", "bmi2", *_EXTENDED_ECX}
    if not present >= v3_features:
        return None
    avx512 = present & _AVX512_FEATURES
    return CPU_LEVELS[0] if avx512 == _AVX512_FEATURES else None if "avx512f" in avx512 else CPU_LEVELS[1]
