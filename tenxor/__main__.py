"""The command line, `python -m tenxor`. Without arguments it gives the tour.

`cache` shows, checks or clears the disk cache of kernels; `ship` compiles the prebuilt machine code of the package.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

from tenxor import codegen
from tenxor._utils.private_dirs import PrivateDir, UntrustedPathError
from tenxor.codegen.llvm import kernel_disk_cache
from tenxor.codegen.llvm.cpuid import CPU_LEVELS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command given by `arguments`, or by `sys.argv` if None. Return the exit status of the process: 0 on success.

    Wrong arguments, and `--help`, end the process by SystemExit.
    """
    parser = argparse.ArgumentParser("python -m tenxor", description="Without arguments: the tour, in about a minute.")
    subjects = parser.add_subparsers(dest="subject", metavar="{cache,ship}")
    kernels = subjects.add_parser("cache", help="the compiled kernels on disk: where, how many, and whether they are used")
    kernels.add_argument("verb", nargs="?", choices=("check", "clear"), help="read and verify them all; remove them all")
    objects = subjects.add_parser("ship", help="make the machine code that comes with a package, as its wheel is made")
    objects.add_argument("folder", type=Path, help="the folder to write")
    objects.add_argument("--level", choices=[level.name for level in CPU_LEVELS], help="one level of x86-64 (default: all, side by side)")
    options = parser.parse_args(arguments)
    if options.subject == "cache":
        return on_disk({None: show, "check": check, "clear": clear}[options.verb])
    if options.subject == "ship":
        return ship(options.folder, options.level)
    from tenxor import tour  # the tour imports every module shown

    tour.main()
    return 0


# --- machine code that is shipped ------------------------------------------------------------------------------------


def ship(folder: Path, level: str | None) -> int:
    """Compile the prebuilt machine code into `folder`. Return the exit status.

    With an x86-64 `level`, compile for it in this process; with None, start one process for each level. Write progress to `stderr`, and a
    line for each file to `stdout`.
    """
    if level is None:
        return all_succeed([[sys.executable, "-m", "tenxor", "ship", str(folder), "--level", candidate.name] for candidate in CPU_LEVELS])
    from tenxor.aot import build

    levels = [candidate for candidate in CPU_LEVELS if candidate.name == level]
    for path, count in build.build_level_files(folder, levels=levels, report=partial(print, file=sys.stderr, flush=True)):
        print(f"{path}: {count:,} objects, {size(path.stat().st_size)}, {time.process_time():.0f} s of CPU time", flush=True)
    return 0


def all_succeed(commands: Iterable[Sequence[str]]) -> int:
    """Run commands in parallel. Return 0 if every command succeeds, otherwise 1.

    After a failure, kill the processes of the later commands.
    """
    import subprocess

    processes = [subprocess.Popen(command) for command in commands]
    try:
        return int(any(process.wait() for process in processes))
    finally:
        for process in processes:
            process.kill()
            process.wait()


# --- machine code on disk ---------------------------------------------------------------------------------------------


def on_disk(do: Callable[[PrivateDir], int]) -> int:
    """Open the cache folder, print its path, and return the exit status `do(folder)`.

    If the folder cannot be used, print why and return 1. If it is only missing and will be created, return 0.
    """
    if os.environ.get("XDG_CACHE_HOME") and not Path(os.environ["XDG_CACHE_HOME"]).is_absolute():
        print("XDG_CACHE_HOME is ignored: it is not absolute.")
    try:
        path = Path(kernel_disk_cache.find_cache_folder())
    except UntrustedPathError as refused:
        print(f"Not used: {refused}.")
        return 1
    print(path)
    try:
        with PrivateDir(path) as folder:
            return do(folder)
    except FileNotFoundError:
        why = kernel_disk_cache.explain_uncreatable(str(path))
        print(f"Not used: it is not there, and {why}." if why else "It is not there yet: the first kernel makes it.")
        return 1 if why else 0
    except UntrustedPathError as refused:
        print(f"Not used: it {refused}.")
        return 1
    except OSError as error:
        print(f"Not used: {error.strerror}.")
        return 1


def show(folder: PrivateDir) -> int:
    """Print the number and size of the cached kernels, and whether the cache is used. Return 0."""
    files = kernel_disk_cache.list_files(folder)
    print(
        f"{amount(files.values())}; at most {kernel_disk_cache.MAX_CACHE_FILES:,} files, "
        f"{size(kernel_disk_cache.MAX_CACHE_BYTES)}, are kept."
    )
    if codegen.BACKEND_NAME != "llvm":
        print(f"Not used: TENXOR_BACKEND is {codegen.BACKEND_NAME}, which compiles nothing.")
    elif not os.access(folder.path, os.W_OK | os.X_OK):
        print("Used, but nothing is added: it cannot be written.")
    else:
        print("Used.")
    return 0


def check(folder: PrivateDir) -> int:
    """Read every file of the folder, and print each rejected file with the reason. Return 1 after a rejection, otherwise 0."""
    names = sorted(folder.list_names())
    bad = {name: why for name in names if (why := kernel_disk_cache.explain_unusable_file(folder, name)) is not None}
    for name, why in bad.items():
        print(f"{name}: {why}")
    print(f"{len(names) - len(bad):,} of {len(names):,} files are kernels, and sound.")
    return 1 if bad else 0


def clear(folder: PrivateDir) -> int:
    """Remove every file named like a kernel from the folder, and print failures and the bytes removed. Return 1 after a failure, or 0."""
    removed, left = [], 0
    for name, status in kernel_disk_cache.list_files(folder).items():
        try:
            folder.remove(name)
            removed.append(status)
        except FileNotFoundError:
            pass  # another process removed the file first
        except OSError as error:
            left += 1
            print(f"{name}: {error.strerror}")
    print(f"Removed: {amount(removed)}.")
    return 1 if left else 0


def amount(files: Collection[os.stat_result]) -> str:
    """Return the number of files and their total size, as text."""
    return f"{len(files):,} {'file' if len(files) == 1 else 'files'}, {size(sum(status.st_size for status in files))}"


def size(nbytes: float) -> str:
    """Return a number of bytes as text, in bytes, KiB or MiB."""
    for unit in ("bytes", "KiB"):
        if nbytes < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024
    return f"{nbytes:,.1f} MiB"


if __name__ == "__main__":
    sys.exit(main())
