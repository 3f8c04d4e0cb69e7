"""States are restored exactly from either format; states that cannot be restored are rejected by `save_state`."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, FileError


class Letter(enum.Enum):
    A = "a"


def nest(levels: int) -> Any:
    result: Any = 1
    for k in range(levels):
        result = {"a": result} if k % 2 else [result]
    return result


def containing_itself() -> dict[str, Any]:
    result: dict[str, Any] = {}
    result["a"] = [result]
    return result


def comparable(x: Any) -> Any:
    """Return a state with dtype, shape and bytes in place of each tensor, for comparison."""
    if isinstance(x, tx.Tensor):
        words = x.copy().view(tx.uint16) if x.dtype is tx.bfloat16 else x
        return str(x.dtype), x.shape, np.asarray(words).tobytes()
    if isinstance(x, dict):
        return [(key, type(key), comparable(value)) for key, value in x.items()]
    return (type(x), [comparable(value) for value in x]) if isinstance(x, (list, tuple)) else repr(x)


T = tx.arange(6).reshape(2, 3)
DTYPES = [getattr(tx, name) for name in ("bool", "int8", "uint64", "float16", "bfloat16", "float32", "complex64", "complex128")]
STATES: dict[str, Any] = {
    "tensor": T.T[::-1],
    "number": 2.5,
    "dtypes": [tx.asarray([[1, 0]]).astype(dtype) for dtype in DTYPES],
    "no elements": {"a": tx.zeros((0, 3)), "b": tx.asarray(1j), "c": [], "d": {}, "e": ()},
    "values": {"a": [1, 2**100, -0.0, float("inf"), float("nan"), "é\ud800", None, True], "b": (False, "")},
    "keys": {"": T, 1: T, "1": T, 1.5: T, None: T, False: T, float("inf"): 1, -(2**70): 2},
    "names that are alike": {"a": {"b": T}, "a/b": T + 1, "a/b'": T + 2, 1: T, "1": [T + 3], "1/0": T + 4},
    "names that files reserve": {"__metadata__": T, "tenxor": T + 1, "a": {"dtype": T}},
    "names that are no names of members": {"a\0b": T, "a": T + 1, "\ud800": T + 2, "/": T, "..": {"..": T}},
    "long names": {"x" * 70_000: T, "x" * 70_001: T + 1},
    "levels": nest(100),
}
REFUSED: dict[str, tuple[Any, str]] = {
    "object": ({"a": [object()]}, r"'a/0' is <object .* of type object; a state is made of"),
    "array": ([np.ones(2)], r"'0' is array.* of type ndarray; a state is made of .* and dicts; write tx.asarray\(x\) for an array$"),
    "array alone": (np.ones(2), "the state is array.* of type ndarray; a state is made of"),
    "tuple as a key": ({"a": {(1, 2): T}}, r"'a' has the key \(1, 2\) of type tuple; a key must be .* use a str, such as str\(key\)"),
    "bytes as a key": ({b"a": 1}, "the key b'a' of type bytes"),
    "enum as a key": ({Letter.A: 1}, "the key <Letter.A.* of type Letter"),
    "NumPy's integer as a key": ({np.int64(1): 1}, r"the key np.int64\(1\) of type int64"),
    "long integer as a key": ({10**5000: 1}, r"has the key of 16610 bits; .* at most 4300 digits; use a str, such as hex\(key\)"),
    "long integer": ({"a": 10**5000}, "cannot be written as text: Exceeds the limit"),
    "levels": (nest(101), "nested in more than 100 levels, or something in it contains itself"),
    "itself": (containing_itself(), "nested in more than 100 levels, or something in it contains itself"),
}


@pytest.fixture
def _without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the optional packages of `tenxor.files` unavailable."""
    for name in ("safetensors", "safetensors.numpy", "ml_dtypes"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("file", ["x.npz", "x.safetensors", "x"])
@pytest.mark.parametrize("name", STATES)
def test_load_state_returns_the_saved_state(name: str, file: str, tmp_path: Path) -> None:
    tx.files.save_state(tmp_path / file, STATES[name])
    assert comparable(tx.files.load_state(tmp_path / file)) == comparable(STATES[name])


@pytest.mark.parametrize("file", ["x.npz", "x.safetensors"])
@pytest.mark.parametrize("name", REFUSED)
def test_save_state_rejects_states_that_cannot_be_restored(name: str, file: str, tmp_path: Path) -> None:
    state, message = REFUSED[name]
    with pytest.raises(ArgumentError, match=f"^save_state: .*{message}"):
        tx.files.save_state(tmp_path / file, state)
    assert not list(tmp_path.iterdir())


def test_numpy_reads_the_tensors_of_a_saved_state(tmp_path: Path) -> None:
    tx.files.save_state(tmp_path / "x.npz", {"layers": [{"weight": T}], "step": 3})
    with np.load(tmp_path / "x.npz") as result:
        assert result["layers/0/weight"].tolist() == T.tolist()


@pytest.mark.usefixtures("_without_packages")
class TestPlainInstall:
    def test_training_run_resumes_from_a_file(self, tmp_path: Path) -> None:
        def training() -> tuple[tx.optim.Run, Any]:
            model = tx.nn.Linear(2, 1)
            optimizer = tx.optim.Adam(model.parameters(), lr=0.1)
            return tx.optim.Run(tmp_path / "run.npz", model=model, optimizer=optimizer), model

        run, model = training()
        with run:
            for _ in run.steps(2):
                model(tx.ones((1, 2), dtype=tx.float32)).sum().backward()
                run.parts["optimizer"].step()
        again, other = training()
        assert again.step == 2 and comparable(other.state_dict()) == comparable(model.state_dict())

    def test_npy_npz_and_csv_need_no_package(self, tmp_path: Path) -> None:
        tx.files.save_npy(tmp_path / "x.npy", T)
        tx.files.save_npz(tmp_path / "x.npz", x=T)
        tx.files.save_csv(tmp_path / "x.csv", T)
        result = [tx.files.load_npy(tmp_path / "x.npy"), tx.files.load_npz(tmp_path / "x.npz")["x"]]
        result.append(tx.files.load_csv(tmp_path / "x.csv", dtype=tx.int64))
        assert [comparable(x) for x in result] == [comparable(T)] * 3

    @pytest.mark.parametrize(
        "load", [tx.load, tx.files.load, tx.files.load_state, tx.files.load_npy, tx.files.load_npz, tx.files.load_csv, tx.files.load_gguf]
    )
    def test_missing_file_error_names_the_path(self, load: Any, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"missing\.file"):
            load(tmp_path / "missing.file")
        with pytest.raises(IsADirectoryError, match=tmp_path.name):
            load(tmp_path)


@pytest.mark.parametrize(("name", "text"), [("__metadata__", ""), ("\ud800", ""), ("x", "\ud800")])
def test_save_rejects_names_and_texts_that_safetensors_cannot_hold(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"^save: (no tensor can have the name '__metadata__'|the text .* is not valid Unicode)"):
        tx.files.save(tmp_path / "x", {name: T}, {"why": text})


def test_load_state_rejects_an_archive_without_a_state(tmp_path: Path) -> None:
    tx.files.save_npz(tmp_path / "x.npz", x=T)
    with pytest.raises(FileError, match=r"^load_state: .* was not written by save_state; use tx.load\(path\)"):
        tx.files.load_state(tmp_path / "x.npz")
