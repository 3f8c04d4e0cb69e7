"""Compile machine code into the wheel, and tag the wheel for the platform that this code runs on.

`TENXOR_SHIP=0` builds a pure wheel without machine code, `TENXOR_SHIP=1` makes it an error if none can be compiled. By default a machine
that cannot compile or link the code (without NumPy, llvmlite, Linux or x86-64) builds a pure wheel, with a warning. An editable
installation compiles nothing.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.errors import OptionError

SHIPPED = "tenxor/codegen/llvm/shipped"
# The objects are linked by Tenxor itself, so they are bound to no version of a C library. By name they ask for fmod, memcpy, semaphores and
# sched_setaffinity, which each glibc and musl has that CPython 3.11 runs on.
PLATFORM = "manylinux_2_17_x86_64.musllinux_1_1_x86_64"


class BuildWithMachineCode(build_py):
    """Builds the package, and compiles the machine code that is shipped beside its modules."""

    def run(self) -> None:
        super().run()
        wanted, folder = os.environ.get("TENXOR_SHIP", ""), Path(self.build_lib, SHIPPED).absolute()
        if wanted not in ("", "0", "1"):
            raise OptionError(f"TENXOR_SHIP is {wanted!r}; it must be 0, 1, empty or unset")
        if self.editable_mode:
            if wanted == "1":
                raise OptionError(
                    "TENXOR_SHIP is 1, but an editable installation holds no machine code; "
                    "write `python -m tenxor ship FOLDER` and set TENXOR_SHIPPED=FOLDER instead"
                )
            return
        shutil.rmtree(folder, ignore_errors=True)  # from an earlier build
        if wanted != "0" and not self._compile(folder):
            shutil.rmtree(folder, ignore_errors=True)
            if wanted == "1":
                raise RuntimeError("TENXOR_SHIP is 1, but the machine code could not be compiled: see the lines above")
            self.warn("no machine code could be compiled: the wheel is pure, and Tenxor compiles all kernels when they are needed")

    def _compile(self, folder: Path) -> bool:
        """Compile what is shipped into a folder; whether that succeeded."""
        print("tenxor: compiling machine code: 80 s of CPU time, on two cores; TENXOR_SHIP=0 builds without", file=sys.stderr, flush=True)
        begin = time.monotonic()
        plain = {name: value for name, value in os.environ.items() if not name.startswith("TENXOR_")}
        env = plain | {"TENXOR_CACHE_DIR": "", "PYTHONDONTWRITEBYTECODE": "1"}
        status = subprocess.run([sys.executable, "-m", "tenxor", "ship", str(folder)], cwd=self.build_lib, env=env).returncode
        print(f"tenxor: {'failed' if status else 'compiled'} after {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
        return status == 0


class TaggedWheel(bdist_wheel):
    """Tags the wheel by what was built: for one platform with machine code in it, else for any."""

    has_code = False  # nor has an editable installation, which runs nothing but `write_wheelfile`

    def run(self) -> None:
        if not self.skip_build:
            self.run_command("build")
        self.has_code = any(Path(self.get_finalized_command("build_py").build_lib, SHIPPED).glob("*.objects"))
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        # Kernels and plans serve each interpreter. The fast path names the one that it is for, and others compile their own.
        return (self.python_tag, "none", PLATFORM) if self.has_code else super().get_tag()

    def write_wheelfile(self, *args: str, **options: str) -> None:
        self.root_is_pure = not self.has_code  # now that all is laid out: with extension modules it would be laid out otherwise
        super().write_wheelfile(*args, **options)


setup(cmdclass={"build_py": BuildWithMachineCode, "bdist_wheel": TaggedWheel})
