"""LLVM's code generators: the present machine as a `Target`, and what makes object files for any target."""

from __future__ import annotations

from typing import Any

from llvmlite import binding

from ...target import Processor, Target


def host() -> Target:
    """The machine that this process runs on, with one thread."""
    features = binding.get_host_cpu_features()
    triple, cpu = binding.get_default_triple(), binding.get_host_cpu_name()
    return Target.of_host({name for name, has in features.items() if has}, Processor(triple, cpu, features.flatten()))


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
