"""Facts about this machine (`HostInfo`) and hashes of the package's sources, needed also by a process that compiles nothing.

To load LLVM and ask it takes longer than everything else in a process before the first result; to read the emitter's sources takes a tenth
of that. So the answers are stored on disk, beside the kernels, as long as they cannot have changed: until the system boots again, or until
one of the files they come from changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from ..._utils.hashing import blake2b
from ..._utils.lazy import LazyModule
from ..._utils.process import read_text
from ..._utils.records import NamedTuple
from ...target import Processor, Target
from ...version import __version__
from . import kernel_disk_cache

llvmlite = LazyModule("llvmlite")  # imported where shipped code does not suffice


class HostInfo(NamedTuple):
    """LLVM's description of this machine, and LLVM's version. Each field is text of one line.

    `attributes` lists all features as LLVM takes them ("+avx2,-sse4a"). `features` has the names in `CODEGEN_FEATURES` that the
    processor has, separated by spaces.
    """

    triple: str
    cpu: str
    attributes: str
    features: str
    llvm_version: str

    @property
    def processor(self) -> Processor:
        """The description of this machine that LLVM compiles for: all features of the processor but AMD's SSE4A.

        SSE4A instructions have no AVX form, and a single one among AVX instructions takes hundreds of cycles.
        """
        return Processor(self.triple, self.cpu, self.attributes.replace("+sse4a", "-sse4a"))

    def make_target(self) -> Target:
        """Return the description of this machine for planning and emitting kernels, with one thread."""
        return Target.of_host(set(self.features.split()), self.processor)

    def make_identity(self, target: Target) -> str:
        """Return a text with the target, and the versions of LLVM, llvmlite and this package.

        Machine code for `target` depends on these, on the kernel, and on the sources of the emitter.
        """
        return "\n".join((target.identity, self.llvm_version, llvmlite.__version__, __version__))


@cache
def get_host_info() -> HostInfo:
    """Return LLVM's description of this machine: read from disk if an earlier process stored it, or else asked of LLVM and stored now.

    The result is kept for the process.
    """
    return HostInfo(*(read_stored_host_info() or _ask_and_store(_make_answer_key(_iter_llvm_binaries()), _ask_llvm)).split("\n"))


@cache
def read_stored_host_info() -> str | None:
    """Return LLVM's description of this machine as stored by an earlier process: a text with the fields of a `HostInfo`, a line each.

    Return None if no description is stored; then no machine code is on disk either.
    """
    return _read_answer(_make_answer_key(_iter_llvm_binaries()))


def has_host_info() -> bool:
    """Return whether `get_host_info` can return without loading LLVM."""
    return get_host_info.cache_info().currsize > 0 or read_stored_host_info() is not None


def get_emitter_hash() -> str | None:
    """Return a hash, in hexadecimal, of the sources that decide the machine code of a kernel (`EMITTER_SOURCES`).

    The hash is determined once in a process.

    Return None if the sources could not be read at the first request.
    """
    return _get_source_hashes().partition("\n")[0] or None


def get_planner_hashes() -> str | None:
    """Return the hash of the emitter's sources and the hash of the planner's sources, a line each; both decide about plans.

    The hashes are determined once in a process. Return None if the sources could not be read at the first request.
    """
    return _get_source_hashes().rpartition("\n")[0] or None


def get_fastpath_hash() -> str | None:
    """Return a hash, in hexadecimal, of the sources of the fast path. The hash is determined once in a process.

    Return None if the sources could not be read at the first request.
    """
    return _get_source_hashes().rpartition("\n")[2] or None


@cache
def _get_source_hashes() -> str:
    """Return the hashes of the emitter's sources, of the planner's further sources, and of the fast path's sources, a line each.

    The text is kept for the process. It is empty if the sources could not be read at the first call. If the sources have not changed since,
    the text is that of the build of the package, or one from disk. Otherwise it is computed and stored on disk.
    """
    answer = read_build_hashes()
    key = None if answer else _make_answer_key(iter_hashed_sources())
    return answer or _read_answer(key) or _ask_and_store(key, compute_source_hashes)


def _read_answer(key: str | None) -> str | None:
    """Return the answer that an earlier process stored on disk under `key`, as text; None without an answer, or if the key is None."""
    content = kernel_disk_cache.read(key) if key else None
    return None if content is None else content.decode()


def _ask_and_store(key: str | None, ask: Callable[[], str]) -> str:
    """Call `ask`, and return the text that it returns. Store the text on disk under `key` for later processes.

    Store nothing if the key is None or the text is empty.
    """
    answer = ask()
    if key and answer:
        kernel_disk_cache.write(key, answer.encode())
    return answer


# --- unchanged sources of an installed package ---------------------------------------------------------------------


# The name of a file beside the shipped code. The build of the package writes the answer of `_get_source_hashes` to this file, and a
# hash of the sources.
SOURCES_FILE_NAME = "sources"


def read_build_hashes() -> str:
    """Return the text of `_get_source_hashes` without reading a source; an empty text if that is not possible.

    The text was stored when the package was built. It is valid if the installed sources are those of the build, and untouched since. When
    the files are in place, an installer writes a list with the hash of each file, RECORD ("Recording installed projects", in the
    specifications of packaging). A source that is newer than this list has been touched.
    """
    try:
        site = os.path.dirname(os.path.dirname(kernel_disk_cache.PACKAGE_DIR))
        record_path = f"{site}/tenxor-{__version__}.dist-info/RECORD"
        installed_at = os.stat(record_path).st_mtime_ns
        paths = [*iter_hashed_sources()]
        for path in paths:
            status = os.stat(path)
            if max(status.st_mtime_ns, status.st_ctime_ns) > installed_at:
                return ""
        list_hash, _, texts = read_text(f"{os.path.dirname(__file__)}/shipped/{SOURCES_FILE_NAME}").partition("\n")
        lines = {line.partition(",")[0]: line for line in read_text(record_path, 1 << 22).splitlines()}
        return texts if list_hash == hash_record_lines([lines[record_name_of(path)] for path in paths]) else ""
    except (OSError, KeyError, UnicodeDecodeError):
        return ""


def record_name_of(path: str) -> str:
    """Return the name of a source in the installer's list (RECORD), such as `tenxor/dtypes.py`; `path` is the absolute path."""
    return f"tenxor/{path[len(kernel_disk_cache.PACKAGE_DIR) :]}".replace(os.sep, "/")


def hash_record_lines(lines: list[str]) -> str:
    """Return one hash of all `lines`, the lines of the installer's list (RECORD) for the sources, in hexadecimal."""
    return kernel_disk_cache.hash_text("\n".join(lines))


# --- answers and their keys ------------------------------------------------------------------------------------------


def compute_source_hashes() -> str:
    """Read all hashed sources, and return the text of `_get_source_hashes`; an empty text if a source cannot be read now."""
    sources = kernel_disk_cache.EMITTER_SOURCES, kernel_disk_cache.PLANNER_SOURCES, kernel_disk_cache.FASTPATH_SOURCES
    try:
        return "\n".join([kernel_disk_cache.hash_sources(*paths) for paths in sources])
    except OSError:
        return ""


def _ask_llvm() -> str:
    """Load LLVM, and return its description of this machine: a text with the fields of a `HostInfo`, a line each."""
    from .llvmlite_binding import describe_host

    return "\n".join(describe_host())


def _make_answer_key(files: Iterable[str]) -> str | None:
    """Return the key under which a text that depends on the files with the paths `files` is stored on disk.

    The key is a hash of all that the text depends on: this boot of the system, the versions, and the status of the files. Return None if
    one of these cannot be read, as on another system than Linux; the text is then not stored.
    """
    try:
        facts = [read_text("/proc/sys/kernel/random/boot_id"), llvmlite.__version__, __version__, *map(_file_state, files)]
    except OSError:
        return None
    return blake2b("\n".join(facts).encode(), digest_size=32).hexdigest()


def _file_state(path: str) -> str:
    """Return a text that changes when the file `path` does: the path, inode, size and times. Raise OSError without the file."""
    status = os.stat(path)
    return f"{path} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def _iter_llvm_binaries() -> Iterator[str]:
    """Yield the paths of LLVM's binary files, in the package llvmlite, without loading them."""
    with os.scandir(f"{os.path.dirname(llvmlite.__file__)}/binding") as entries:
        yield from sorted(entry.path for entry in entries if entry.is_file() and not entry.name.endswith(".py"))


def iter_hashed_sources() -> Iterator[str]:
    """Yield the absolute paths of the sources of the emitter, the planner and the fast path, in the order in which they are hashed."""
    return kernel_disk_cache.iter_source_paths(
        *kernel_disk_cache.EMITTER_SOURCES, *kernel_disk_cache.PLANNER_SOURCES, *kernel_disk_cache.FASTPATH_SOURCES
    )
