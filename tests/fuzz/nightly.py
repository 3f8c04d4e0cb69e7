"""Other things to try than programs, each by a seed; and all of them for as long as there is time.

`make fuzz MINUTES=60` tries seeds that were never tried, and writes those that fail into `corpus.txt`, which the gate runs.
"""

from __future__ import annotations

import argparse
import io
import pickle
import random
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import tenxor as tx
from tenxor.codegen.llvm import kernel_disk_cache

from . import ladder, same_bits
from .files import check_damaged_files
from .numpy_calls import NumPy
from .running import check_seed
from .torch_calls import check_call
from .torch_modules import check_training

CORPUS = Path(__file__).with_name("corpus.txt")
DTYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint8", "bool", "complex64", "complex128")
Array = np.ndarray[Any, Any]


def an_array(rng: random.Random) -> Array:
    """Some numbers of some dtype, seen through some view: steps, turned, backwards, repeated, empty or of no axes."""
    shape = [rng.choice((0, 1, 1, 2, 3, 4, 5)) if rng.random() < 0.3 else rng.randrange(1, 6) for _ in range(rng.randrange(4))]
    found = np.array([rng.randrange(2 if rng.random() < 0.1 else 100) for _ in range(int(np.prod(shape)))])
    array: Array = found.reshape(shape).astype(rng.choice(DTYPES))
    for _ in range(rng.randrange(4)):
        move = rng.randrange(5)
        if move == 0:
            array = array.transpose(rng.sample(range(array.ndim), array.ndim))
        elif move == 1 and array.ndim:
            array = array[..., :: rng.choice((-1, 2, -2, 3))]
        elif move == 2 and array.ndim:
            array = array[rng.randrange(3) :]
        elif move == 3:
            array = np.broadcast_to(array, (rng.randrange(1, 4), *array.shape))
        elif move == 4:
            array = array[..., None]
    return array


def equal(found: Any, expected: Array) -> bool:
    found = np.asarray(found)
    return found.dtype == expected.dtype and np.array_equal(found, expected)


def exchanged(seed: int) -> None:
    """Arrays and tensors share memory by DLPack, or are copied where that cannot be; what may be written is written by both."""
    rng = random.Random(seed)
    array = an_array(rng)
    if array.flags.writeable or rng.random() < 0.5:
        try:
            given = np.from_dlpack(array) if array.flags.writeable else array
        except BufferError:
            given = array
        tensor = tx.from_dlpack(given) if given.flags.writeable else tx.asarray(given)
    else:
        tensor = tx.asarray(array)
    assert equal(tensor.to_numpy(), array), "what was taken is not what was given"
    back = np.from_dlpack(tensor)
    assert equal(back, array), "what is given back is not what was taken"
    if back.size and back.flags.writeable:
        where = tuple(rng.randrange(n) for n in back.shape)
        tensor[where if where else ...] = 1
        assert back[where] == 1, "a write by the tensor is not seen"
        back[where] = 0
        assert tensor[where if where else ...].item() == 0, "a write by the array is not seen"


class Own(pickle._Unpickler):  # type: ignore[name-defined, misc]  # that in C makes room for whatever number it reads
    """Finds nothing but what a tensor is made of, whatever a damaged pickle asks for."""

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "tenxor" and not name.startswith("__"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name}")


def pickled(seed: int) -> None:
    """Pickles come back, and damaged ones are errors, or tensors that can be read."""
    rng = random.Random(seed)
    array = an_array(rng)
    content = bytearray(pickle.dumps(tx.asarray(array) if rng.random() < 0.7 else tx.asarray(array) * 1, rng.choice((2, 4, 5))))
    whole = pickle.loads(bytes(content))
    assert np.array_equal(whole.to_numpy(), array)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(content))
        kind = rng.randrange(3)
        if kind == 0:
            content[at] = rng.randrange(256)
        elif kind == 1:
            del content[at : at + rng.randrange(1, 9)]
        else:
            content[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 5)))
        if not content:
            return
    try:
        found = Own(io.BytesIO(bytes(content))).load()
    except (pickle.UnpicklingError, *EXPECTED):
        return
    if isinstance(found, tx.Tensor) and found.size < 1 << 20:
        found.tolist()


# What unpickling says of bytes that are none: `pickle` raises almost anything; Tenxor's own errors are ValueErrors and TypeErrors.
EXPECTED = (ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError, OverflowError, MemoryError, ImportError)


def subscripts(rng: random.Random) -> tuple[str, list[tuple[int, ...]]]:
    """Subscripts, most of which make sense, and shapes for them."""
    sizes = {letter: rng.randrange(1, 4) for letter in "ijkAb"}
    terms, shapes = [], []
    for _ in range(rng.randrange(1, 4)):
        letters = [rng.choice("ijkAb") for _ in range(rng.randrange(4))]
        shape = [1 if rng.random() < 0.1 else sizes[x] for x in letters]
        if rng.random() < 0.2:
            at = rng.randrange(len(letters) + 1)
            letters.insert(at, "...")
            shape[at:at] = [2] * rng.randrange(3)
        terms.append("".join(letters))
        shapes.append(tuple(shape))
    text = ",".join(terms)
    if rng.random() < 0.7:
        used = sorted({x for x in text if x.isalpha()})
        out = rng.sample(used, rng.randrange(len(used) + 1))
        if "..." in text and rng.random() < 0.9:
            out.insert(rng.randrange(len(out) + 1), "...")
        text += "->" + "".join(out)
    if rng.random() < 0.15:
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice((" ", "-", ">", ".", "z", ",", "1", "->")) + text[at:]
    return text, shapes


def summed(seed: int) -> None:
    """`einsum` does as NumPy's; what that refuses is refused with an error of Tenxor's own, or means something."""
    rng = random.Random(seed)
    text, shapes = subscripts(rng)
    arrays = [np.array([rng.randrange(-9, 9) for _ in range(int(np.prod(s)))]).reshape(s) for s in shapes]
    try:
        expected = np.einsum(text, *arrays)
    except ValueError:
        expected = None
    try:
        found = tx.einsum(text, *map(tx.asarray, arrays)).to_numpy()
    except (ValueError, TypeError) as error:
        assert expected is None, f"{text!r} of {shapes}: {error}"
        assert type(error).__module__ == "tenxor.errors", f"{text!r} of {shapes}: {error!r} says nothing"
        return
    assert expected is None or np.array_equal(found, expected), f"{text!r} of {shapes}"


def kept(seed: int) -> None:
    """A damaged entry of the cache on disk is never run: what it was for is made anew."""
    rng = random.Random(seed)
    content, key = rng.randbytes(rng.randrange(1, 300)), kernel_disk_cache.make_key("fuzz", str(seed))
    kernel_disk_cache.write(key, content)
    assert kernel_disk_cache.read(key) in (content, None)  # None: there is no cache here
    for path in [Path(kernel_disk_cache.find_cache_folder(), key)]:
        if not path.is_file():
            return
        held = bytearray(path.read_bytes())
        at = rng.randrange(len(held))
        held[at : at + rng.randrange(2)] = rng.randbytes(rng.randrange(1, 3))
        if rng.random() < 0.3:
            del held[rng.randrange(len(held)) :]
        path.write_bytes(held)
        assert kernel_disk_cache.read(key) in (content, None), "what was read is not what was written"
        path.unlink(missing_ok=True)


def watched(seed: int) -> None:
    """Programs in watched memory: see `guarded.py`."""
    command = [sys.executable, "-m", "tests.fuzz.guarded", str(seed), "5"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


KINDS: dict[str, Callable[[int], object]] = {
    "programs": check_seed,
    "exchanged": exchanged,
    "pickled": pickled,
    "summed": summed,
    "kept": kept,
    "files": check_damaged_files,
    "watched": watched,
    "ladder": ladder.check,
    "bits": same_bits.check,
    "indexed bits": partial(same_bits.check, has_indexing=True),
    "numpy": NumPy().check,
}
if find_spec("torch") is not None:
    KINDS |= {"torch": check_call, "training": check_training}
SLOW = {"watched": 200, "bits": 20, "indexed bits": 20}  # one of so many turns


def tried(kind: str, seed: int) -> str | None:
    """What went wrong, if anything did."""
    try:
        KINDS[kind](seed)
    except Exception:
        return traceback.format_exc()
    return None


def main() -> None:
    """Try until the time is over."""
    parser = argparse.ArgumentParser("python -m tests.fuzz.nightly", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    asked = parser.parse_args()
    if "torch" not in KINDS:
        print("PyTorch is not installed: its functions and modules are not called")
    rng, turns, end = random.SystemRandom(), 0, time.monotonic() + 60 * asked.minutes
    counts: Counter[str] = Counter()
    failed: list[str] = []
    while time.monotonic() < end:
        turns += 1
        for kind in asked.kinds:
            if turns % SLOW.get(kind, 1) == 0:
                seed = rng.randrange(1 << 40)
                wrong = tried(kind, seed)
                counts[kind] += 1
                if wrong is not None:
                    failed.append(f"{kind} {seed}")
                    print(f"{failed[-1]}\n{wrong}", flush=True)
                    with CORPUS.open("a") as corpus:
                        corpus.write(f"{failed[-1]}\n")
    print(", ".join(f"{count:,} {kind}" for kind, count in counts.items()), f"tried: {len(failed)} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
