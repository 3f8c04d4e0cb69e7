"""Named targets, to compile for a foreign machine: to read or assemble the code, or to run the code on a larger processor.

Block sizes are those for the default `Caches()`. LLVM's names for a machine are in its `Processor`.
"""

from __future__ import annotations

from . import MANY_REGISTER_COUNT, AddressSpace, Processor, Target

_X86, _ARM, _PTX, _SPIRV = (
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "nvptx64-nvidia-cuda",
    "spirv64-unknown-unknown",
)

# The levels of x86-64. Each uses the features named here, and nothing beyond.
SCALAR = Target(0, processor=Processor(_X86, "x86-64"))  # no vectors
SSE = Target(16, processor=Processor(_X86, "x86-64"))
AVX2 = Target(32, frozenset(("avx2", "f16c")), processor=Processor(_X86, "x86-64-v3"))
AVX512 = Target(64, AVX2.features | {"avx512f"}, MANY_REGISTER_COUNT, Processor(_X86, "x86-64-v4"))

# 32 vector registers of 16 bytes.
NEON = Target(16, frozenset(("neon",)), MANY_REGISTER_COUNT, Processor(_ARM, "generic", "+neon"))

# Each GPU thread computes one element at a time, without cache prefetch or a CPU's stack alignment.
_GLOBAL = AddressSpace("global", 1)
_PTX_PROCESSOR = Processor(_PTX, "sm_80", "", "ptx_kernel", False, False)
_SPIRV_PROCESSOR = Processor(_SPIRV, "", "", "spir_kernel", False, False)
PTX = Target(0, register_count=MANY_REGISTER_COUNT, processor=_PTX_PROCESSOR, address_space=_GLOBAL)
SPIRV = Target(0, register_count=MANY_REGISTER_COUNT, processor=_SPIRV_PROCESSOR, address_space=_GLOBAL)

TARGETS_BY_NAME = {"scalar": SCALAR, "sse": SSE, "avx2": AVX2, "avx512": AVX512, "neon": NEON, "ptx": PTX, "spirv": SPIRV}
