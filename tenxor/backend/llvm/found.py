"""Facts about this machine and this installation, needed also by a process that compiles nothing.

To load LLVM and ask it takes longer than everything else in a process before the first result; to read the emitter's sources takes a tenth
of that. So the answers are stored on disk, beside the kernels, as long as they cannot have changed: until the system boots again, or until
one of the files they come from changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache as once

from ...hashing import blake2b
from ...late import LateModule
from ...records import NamedTuple
from ...system import said
from ...target import Processor, Target
from ...version import __version__
from . import cache

llvmlite = LateModule("llvmlite")  # imported where shipped code does not suffice


class Found(NamedTuple):
    """LLVM's description of this machine, and LLVM's version. Each field is text of one line."""

    triple: str
    cpu: str
    attributes: str
    features: str
    llvm: str

    @property
    def processor(self) -> Processor:
        """The description of this machine for LLVM: all its features but AMD's SSE4A.

        SSE4A instructions have no AVX form, and a single one among AVX instructions takes hundreds of cycles.
        """
        return Processor(self.triple, self.cpu, self.attributes.replace("+sse4a", "-sse4a"))

    def target(self) -> Target:
        """Return the machine that this process runs on, with one thread."""
        return Target.of_host(set(self.features.split()), self.processor)

    def identity(self, target: Target) -> str:
        """Return a text of everything that code for a target depends on, beside the kernel and the emitter."""
        return "\n".join((target.identity, self.llvm, llvmlite.__version__, __version__))


@once
def found() -> Found:
    """Return LLVM's description of this machine, as stored by an earlier process, or asked for and stored now."""
    return Found(*(told() or _ask_and_store(_key(_binaries()), _ask_llvm)).split("\n"))


@once
def told() -> str | None:
    """Return LLVM's description of this machine as stored by an earlier process; None without one. Then no machine code is on disk either.
    """
    return _read_answer(_key(_binaries()))


def is_known() -> bool:
    """Return whether `found` can answer without asking LLVM."""
    return found.cache_info().currsize > 0 or told() is not None


def emitter() -> str | None:
    """Return a hash of the sources of the emitter; None if they cannot be read now."""
    return _texts().partition("\n")[0] or None


def planner() -> str | None:
    """Return a text with the hashes of all sources that decide about plans; None if the sources cannot be read now."""
    return _texts() or None


@once
def _texts() -> str:
    """Return a hash of the emitter's sources and a hash of the planner's other sources, a line each; empty if they cannot be read now."""
    answer = as_made()
    key = None if answer else _key(sources())
    return answer or _read_answer(key) or _ask_and_store(key, hashed)


def _read_answer(key: str | None) -> str | None:
    """Return the answer stored by an earlier process under a key; None without such an answer, or without a key."""
    content = cache.read(key) if key else None
    return None if content is None else content.decode()


def _ask_and_store(key: str | None, ask: Callable[[], str]) -> str:
    """Return the answer of `ask()`, and store it under a key for later processes."""
    answer = ask()
    if key and answer:
        cache.write(key, answer.encode())
    return answer


# --- unchanged sources of an installed package ---------------------------------------------------------------------


# The name of a file beside the shipped code. The build of the package writes the answer of `_texts` to this file, and a hash of the
# sources.
MADE = "sources"


def as_made() -> str:
    """Return the answer of `_texts` without reading a source; empty if that is not possible.

    When the files are in place, an installer writes a list with the hash of each file, RECORD ("Recording installed projects", in the
    specifications of packaging). So a source that was not touched since has the hash in the list.
    """
    try:
        site = os.path.dirname(os.path.dirname(cache.PACKAGE))
        record_path = f"{site}/tenxor-{__version__}.dist-info/RECORD"
        installed_at = os.stat(record_path).st_mtime_ns
        paths = [*sources()]
        for path in paths:
            status = os.stat(path)
            if max(status.st_mtime_ns, status.st_ctime_ns) > installed_at:
                return ""
        list_hash, _, texts = said(f"{os.path.dirname(__file__)}/shipped/{MADE}").partition("\n")
        lines = {line.partition(",")[0]: line for line in said(record_path, 1 << 22).splitlines()}
        return texts if list_hash == hash_of_list([lines[listed_as(path)] for path in paths]) else ""
    except (OSError, KeyError, UnicodeDecodeError):
        return ""


def listed_as(path: str) -> str:
    """Return the name of a source in the installer's list."""
    return f"tenxor/{path[len(cache.PACKAGE) :]}".replace(os.sep, "/")


def hash_of_list(lines: list[str]) -> str:
    """Return the hash of lines of the installer's list."""
    return cache.hash_of("\n".join(lines))


# --- answers and their keys ------------------------------------------------------------------------------------------


def hashed() -> str:
    """Return the answer of `_texts`, computed from the sources; empty if they cannot be read now."""
    emitter = cache.emitter_text()
    return f"{emitter}\n{cache.text_of(*cache.PLANNER)}" if emitter else ""


def _ask_llvm() -> str:
    from .machine import asked

    return "\n".join(asked())


def _key(files: Iterable[str]) -> str | None:
    """Return the name under which an answer from `files` is stored; None if the name cannot be determined.

    The name is a hash of everything behind the answer: this boot of the system, the versions, and the status of the files.
    """
    try:
        facts = [said("/proc/sys/kernel/random/boot_id"), llvmlite.__version__, __version__, *map(_file_state, files)]
    except OSError:
        return None
    return blake2b("\n".join(facts).encode(), digest_size=32).hexdigest()


def _file_state(path: str) -> str:
    """Return a text that changes when a file changes: its path, inode, size and times."""
    status = os.stat(path)
    return f"{path} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def _binaries() -> Iterator[str]:
    """Yield the paths of LLVM's binary files."""
    with os.scandir(f"{os.path.dirname(llvmlite.__file__)}/binding") as entries:
        yield from sorted(entry.path for entry in entries if entry.is_file() and not entry.name.endswith(".py"))


def sources() -> Iterator[str]:
    """Yield the paths of the sources of the emitter and the planner."""
    return cache.sources(*cache.EMITTER, *cache.PLANNER)
