"""Kernels made for machines that are not here: LLVM writes their code in a process of its own, as it may end that one.

The code is looked at, and not run. That for NVIDIA's GPUs is text, which `ptxas` assembles where it is installed.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from llvmlite import binding

from tenxor.codegen.llvm.llvmlite_binding import compile_object, create_target_machine
from tenxor.target.named_targets import TARGETS_BY_NAME
from tests.processes import python

ROOT = Path(__file__).resolve().parents[2]
PTXAS = shutil.which("ptxas")
ELF = {"x86_64": 62, "aarch64": 183}  # how object files name their machine
SPIRV = 0x07230203  # the first word of a module


def assembled(name: str, texts: Sequence[str], folder: Path, function: bytes = b"kernel") -> list[bytes]:
    """The code for a named machine of some LLVM modules that have a function, by way of a folder; what LLVM cannot do is an
    error that names it.
    """
    for k, text in enumerate(texts):
        (folder / f"{k:04}.ll").write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = python("-m", "tests.codegen.assembled", name, str(folder), cwd=ROOT, env=environment, well=False)
    made = sorted(folder.glob("*.out"))
    if done.returncode:
        raise AssertionError(f"{name}: {done.stderr[:2000]}\n{texts[len(made)]}")
    found = [path.read_bytes() for path in made]
    assert len(found) == len(texts)
    for code in found:
        assert function in code
        check(name, code, folder)
    return found


def check(name: str, code: bytes, folder: Path) -> None:
    """That code is of the machine's kind."""
    family = TARGETS_BY_NAME[name].processor.architecture
    if family in ELF:
        assert code[:4] == b"\x7fELF" and struct.unpack_from("<H", code, 18) == (ELF[family],)
    elif family == "spirv64":
        assert struct.unpack_from("<I", code) == (SPIRV,)
    else:
        assert b".visible .entry kernel(" in code and b".target sm_80" in code
        if PTXAS is not None:
            text = folder / "kernel.ptx"
            text.write_bytes(code)
            command = [PTXAS, "-arch=sm_80", "-O1", str(text), "-o", str(folder / "kernel.cubin")]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{done.stderr[:1000]}\n{code.decode()[:4000]}"


def main(name: str, folder: Path) -> None:
    """Make the code of every module in a folder."""
    target = TARGETS_BY_NAME[name]
    machine = create_target_machine(target)
    for path in sorted(folder.glob("*.ll")):
        if target.processor.architecture == "spirv64":
            machine = create_target_machine(target)  # serves one module: it remembers types of those before
        if target.processor.architecture == "nvptx64":
            module = binding.parse_assembly(path.read_text())
            code = machine.emit_assembly(module).encode()
        else:
            code = compile_object(path.read_text(), machine)
        path.with_suffix(".out").write_bytes(code)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
