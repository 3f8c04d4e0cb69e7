"""The MPI programs of `docs/larger.md`, each in two processes. They need mpi4py and an MPI: `pip install '.[interop]'`."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "larger.md"
TWICE = "from mpi4py import MPI; assert MPI.COMM_WORLD.size == 2"
# What Open MPI wants to be told where there are few CPUs, or where root runs tests; MPICH wants nothing.
ENVIRONMENT = {
    "TENXOR_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run two Python processes with these arguments."""
    beside = Path(sys.executable).with_name("mpiexec")  # as pip puts it
    starter = str(beside) if beside.exists() else "mpiexec"
    command = [starter, "-n", "2", sys.executable, *arguments]
    return subprocess.run(command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, timeout=120, check=False)


@lru_cache
def reason_without_mpi() -> str | None:
    """Return why MPI is unavailable, or None."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed"
    if not Path(sys.executable).with_name("mpiexec").exists() and shutil.which("mpiexec") is None:
        return "there is no mpiexec"
    tried = run("-c", TWICE)
    return None if tried.returncode == 0 else f"mpiexec does not start two processes: {tried.stderr[-300:]}"


@pytest.fixture(autouse=True)
def two_processes() -> None:
    if (reason := reason_without_mpi()) is not None:
        pytest.skip(f"{reason}: pip install '.[interop]' to exchange tensors between processes")


def program(name: str) -> str:
    """Return the source of a program in the page."""
    found = re.search(rf"```python\n# {name}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def output(tmp_path: Path, text: str) -> str:
    """Return the output of both processes, in any order."""
    file = tmp_path / "program.py"
    file.write_text(text, encoding="utf-8")
    done = run(str(file))
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_heat_program_matches_one_process(tmp_path: Path) -> None:
    """The same rod is computed in Python floats."""
    whole = [100.0] * 10 + [0.0] * 1990
    for _ in range(2000):
        whole = [x + 0.25 * (whole[k - 1] - 2 * x + whole[(k + 1) % 2000]) for k, x in enumerate(whole)]
    hottest = [f"{max(whole[:1000]):.3f}", f"{max(whole[1000:]):.3f}"]
    assert output(tmp_path, program("rod.py")) == f"1000.000000 {hottest}\n"


def test_fitting_in_two_processes_gives_equal_models(tmp_path: Path) -> None:
    """The fitted model has the parameters that the rows were made with."""
    text = program("fit.py") + '\nprint(model.weight.detach().view(tx.uint32).tolist(), file=open(f"{__file__}.{world.rank}", "w"))\n'
    assert output(tmp_path, text).count("0.000") == 2
    first, second = [(tmp_path / f"program.py.{rank}").read_text() for rank in (0, 1)]
    assert first == second


EXCHANGES = """
from mpi4py import MPI
import numpy as np
import tenxor as tx

world = MPI.COMM_WORLD
rank, other = world.rank, 1 - world.rank
for dtype in "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split():
    given = (tx.arange(6) % 2 + rank).astype(dtype)  # pending
    taken = tx.zeros(6, dtype=dtype)
    seen, address = taken + taken, np.asarray(taken).ctypes.data
    world.Sendrecv(given, other, recvbuf=taken, source=other)
    assert taken.tolist() == (tx.arange(6) % 2 + other).astype(dtype).tolist(), dtype
    assert not seen.any(), dtype  # what was read before does not change
bits = tx.ones(4, dtype=tx.bfloat16) * (rank + 1)
world.Bcast(bits.view(tx.uint16), root=1)
square = tx.zeros((4, 4))
address = np.asarray(square).ctypes.data
world.Gather(tx.ones((2, 4)) * rank, square)
assert rank or square.tolist() == [[0.0] * 4] * 2 + [[1.0] * 4] * 2
assert np.asarray(square).ctypes.data == address
requests = [world.Isend(tx.arange(4.0) + rank, other), world.Irecv(square[1], other)]
MPI.Request.Waitall(requests)
assert square[1].tolist() == [other + k for k in range(4)]
try:
    world.Bcast(square.T[1:])
except BufferError as error:
    print(f"{bits.tolist()} {error}")
"""


def test_mpi_sends_and_receives_tensor_memory(tmp_path: Path) -> None:
    assert output(tmp_path, EXCHANGES).count("[2.0, 2.0, 2.0, 2.0] dlpack: buffer is not contiguous") == 2
