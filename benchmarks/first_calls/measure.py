"""Start fresh processes for each program and library, and take medians of their figures."""

from __future__ import annotations

import compileall
import importlib.util
import re
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..child import SETTINGS
from ..overhead import disk_cache_settings
from ..timing import ROOT, process_figures
from .fresh_process import EARLY_CALLS, LAST_CALL
from .programs import PROBES, PROGRAMS, SmallProgram
from .tables import WITH_DISK_CACHE

PEERS = ("tenxor", "numpy", "torch", "jax")
CLOCKS = ("cpu", "wall")
REPETITIONS = 5
CALL = "from benchmarks.first_calls.fresh_process import print_calls; print_calls({peer!r}, {name!r}, {calls})"
IMPORT = "from benchmarks.first_calls.fresh_process import print_import; print_import({peer!r})"
SHIPPED_TEST = "import warnings; warnings.simplefilter('error'); import tenxor; (tenxor.ones(3) + 1).tolist()"
ONE_THREAD = dict.fromkeys(SETTINGS, "1") | {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
Codes = dict[str, tuple[str, dict[str, str]]]  # the code and the environment of each process


def measured(only: str = "", repetitions: int = REPETITIONS, shipped: Path | None = None) -> dict[str, Any]:
    """Return medians of CPU seconds and wall seconds for each program whose name the expression `only` finds.

    With `shipped`, a folder that `python -m tenxor ship` wrote, Tenxor uses the machine code in it, as an installed wheel does.
    """
    peers = [peer for peer in PEERS if importlib.util.find_spec(peer)]
    chosen = [program for program in PROGRAMS + PROBES if re.search(only, program.name)]
    shipped_settings = {"TENXOR_SHIPPED": "" if shipped is None else str(shipped.resolve())}
    if shipped is not None:
        check_shipped_code(shipped_settings)
    compileall.compile_dir(ROOT / "tenxor", quiet=1)  # an installed package has its modules compiled
    figures: dict[str, list[list[float]]] = defaultdict(list)
    for repetition in range(repetitions):
        begin = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            for key, row in process_figures(codes_of(chosen, peers, folder, shipped_settings), 1).items():
                figures[key].append(row[1:])
        print(f"first calls: {repetition + 1} of {repetitions}, {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    medians = {key: [statistics.median(column) for column in zip(*rows, strict=True)] for key, rows in figures.items()}
    return {
        "repetitions": repetitions,
        "shipped": shipped is not None,
        "import": {
            peer: {state: dict(zip((*CLOCKS, "modules"), medians[join_key("import", peer, state)], strict=True)) for state in states(peer)}
            for peer in peers
        },
        "programs": {
            program.name: {
                "probe": program in PROBES,
                "absent": {peer: reason for peer, reason in program.absent.items() if peer in peers},
                "seconds": {
                    peer: {state: name_figures(medians[join_key(program.name, peer, state)]) for state in states(peer)}
                    for peer in peers
                    if peer not in program.absent
                },
            }
            for program in chosen
        },
    }


def check_shipped_code(settings: dict[str, str]) -> None:
    """Raise a `RuntimeError` if Tenxor warns that it cannot use the folder in `TENXOR_SHIPPED`."""
    process_figures({"shipped code": (SHIPPED_TEST, {**settings, "TENXOR_CACHE_DIR": ""})}, 1)


def states(peer: str) -> tuple[str, ...]:
    """Return the states of the disk in which the library is measured: nothing in its folder, and the code of an earlier process."""
    return ("cold", "disk") if peer in WITH_DISK_CACHE else ("cold",)


def join_key(name: str, peer: str, state: str) -> str:
    """Return the name of a process."""
    return f"{name}|{peer}|{state}"


def codes_of(chosen: Sequence[SmallProgram], peers: Sequence[str], folder: str, shipped_settings: dict[str, str]) -> Codes:
    """Return the processes of one repetition, with an empty folder in `folder` for each program and library.

    The process for the state "disk" follows the process for "cold", and reads the code that the latter has written.
    """
    codes: Codes = {}
    for peer in peers:
        for state, settings in disks(peer, f"{folder}/import-{peer}", shipped_settings):
            codes[join_key("import", peer, state)] = IMPORT.format(peer=peer), settings
    for number, program in enumerate(chosen):
        for peer in peers:
            if peer in program.absent:
                continue
            own_settings = dict(program.environment) if peer == "tenxor" else {}
            for state, settings in disks(peer, f"{folder}/{number}-{peer}", shipped_settings):
                calls = EARLY_CALLS.stop - 1 if state != states(peer)[-1] else LAST_CALL
                code = CALL.format(peer=peer, name=program.name, calls=calls)
                codes[join_key(program.name, peer, state)] = code, settings | own_settings
    return codes


def disks(peer: str, folder: str, shipped_settings: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each state of the disk with the environment of its process."""
    for state in states(peer):
        yield state, {**ONE_THREAD, **disk_cache_settings(peer, folder), **(shipped_settings if peer == "tenxor" else {})}


def name_figures(row: Sequence[float]) -> dict[str, dict[str, float]]:
    """Return the figures of `print_calls` by phase and clock. There is no phase "last" if the process made few calls."""
    pairs = [dict(zip(CLOCKS, row[k : k + 2], strict=True)) for k in range(0, len(row), 2)]
    return dict(zip(("first", "early", "last"), pairs, strict=False))
