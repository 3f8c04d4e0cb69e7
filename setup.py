"""What pyproject.toml cannot say: a wheel is made with machine code in it (docs/architecture.md), which `python -m tenxor ship` makes.

Without NumPy and llvmlite, or on a machine that cannot run such code, a wheel is made without: then all is compiled when it is needed.
`TENXOR_SHIP=0` makes none, and with `TENXOR_SHIP=1` it is an error if there is none.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

WHERE = "tenxor/backend/llvm/shipped"


class WithMachineCode(build_py):
    """Builds the package, and what is shipped beside its modules; an editable one is what is there, and has none."""

    def run(self) -> None:
        super().run()
        wanted, where = os.environ.get("TENXOR_SHIP", ""), Path(self.build_lib, WHERE).absolute()
        shutil.rmtree(where, ignore_errors=True)  # that of an earlier build
        if wanted == "0" or self.editable_mode:
            return
        plain = {k: v for k, v in os.environ.items() if not k.startswith("TENXOR_")} | {"TENXOR_CACHE_DIR": ""}
        command = [sys.executable, "-B", "-m", "tenxor", "ship", str(where)]
        status = subprocess.run(command, cwd=self.build_lib, env=plain).returncode
        if status and wanted == "1":
            raise RuntimeError("no machine code was made to be shipped")
        if status:
            self.warn("no machine code was made to be shipped: the package compiles all that it needs")


setup(cmdclass={"build_py": WithMachineCode})
