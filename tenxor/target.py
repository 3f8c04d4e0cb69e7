"""What a machine is, as far as code for it depends on that: a value, which is given to whoever makes code."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """Vectors of `vector_bytes` bytes, and instructions: the `features` of the processor that code asks for, by LLVM's names.

    Wide vectors promise no instructions of their own: those of AVX-512 are used where it is named among the features.
    """

    vector_bytes: int
    features: frozenset[str] = frozenset()

    @staticmethod
    def of_host(features: Set[str]) -> Target:
        """The machine with these features, which has vectors of the widest kind among them."""
        return Target(64 if "avx512f" in features else 32 if "avx2" in features else 16, frozenset(features & ASKED_FOR))

    def has(self, feature: str) -> bool:
        """Whether the processor has the instructions of this name."""
        return feature in self.features


ASKED_FOR = frozenset(("avx2", "avx512f"))
