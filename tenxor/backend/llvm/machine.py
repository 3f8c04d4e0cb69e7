"""LLVM itself, which is loaded with this: what it says of the present machine, object files for any target, and their linking."""

from __future__ import annotations

from typing import Any

from llvmlite import binding

from ...target import ASKED_FOR, Target


def asked() -> tuple[str, str, str, str, str]:
    """The present machine in LLVM's words, and LLVM's version, as `Found` has them."""
    features = binding.get_host_cpu_features()
    those = " ".join(sorted(name for name in ASKED_FOR if features.get(name)))
    triple, cpu = binding.get_default_triple(), binding.get_host_cpu_name()
    return triple, cpu, features.flatten(), those, str(binding.llvm_version_info)


def machine_of(target: Target) -> Any:
    """LLVM's code generator for a target; a target without a processor is one of any of the family of this machine."""
    told = target.processor
    own = binding.get_default_triple()
    if told.triple in ("", own):
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
    else:  # which takes some milliseconds
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
    family = binding.Target.from_triple(told.triple or own)
    return family.create_target_machine(cpu=told.cpu, features=told.attributes, opt=2)


def image_of(llvm_ir: str, machine: Any) -> bytes:
    """The object file of a module.

    LLVM's strength reduction would take as long as half of all the rest, and finds nothing to gain in these loops. It
    is turned on again for whoever else uses LLVM in this process.
    """
    module = binding.parse_assembly(llvm_ir)
    binding.set_option("tenxor", "-disable-lsr=true")
    try:
        image: bytes = machine.emit_object(module)
    finally:
        binding.set_option("tenxor", "-disable-lsr=false")
    return image


def assembly_of(llvm_ir: str, machine: Any) -> str:
    """The assembly of a module."""
    text: str = machine.emit_assembly(binding.parse_assembly(llvm_ir))
    return text


# Of a library that it unloaded LLVM keeps 4.5 kB until the JIT goes that linked it, which goes with the last of its libraries;
# and a JIT takes 120 kB and a millisecond.
LIBRARIES = 32  # of one JIT


class Linker:
    """LLVM's own way to make object files ready to run, for those that `linking` leaves to it. One call at a time."""

    def __init__(self, machine: Any) -> None:
        self.machine, self.jit, self.attempts = machine, binding.create_lljit_compiler(machine), 0

    def link(self, image: bytes, symbols: tuple[str, ...]) -> Any:
        """The linked library, or None if the image is no object file of this machine."""
        builder = binding.JITLibraryBuilder().add_object_img(image).add_current_process()
        for symbol in symbols:
            builder.export_symbol(symbol)
        self.attempts += 1  # a name stays taken even when linking fails
        if self.attempts % LIBRARIES == 0:
            self.jit = binding.create_lljit_compiler(self.machine)
        try:
            return builder.link(self.jit, f"tenxor.{self.attempts}")
        except RuntimeError:
            return None
