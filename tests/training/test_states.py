"""Tensors in files, and trainings that stop and continue."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import tenxor as tx
from tenxor import nn

DTYPES = (tx.bool, tx.int8, tx.uint16, tx.int64, tx.uint64, tx.float16, tx.bfloat16, tx.float32, tx.float64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_saved_tensors_load_unchanged(dtype: Any, tmp_path: Path) -> None:
    whole = tx.arange(24).reshape(4, 6).astype(dtype)
    given = {"whole": whole, "view": whole.T[1:, ::-2], "chain": whole.T.reshape(24), "one": whole[0, 1], "nothing": whole[:0]}
    tx.files.save(tmp_path / "x.safetensors", given, {"why": "a test"})
    found, told = tx.files.load(tmp_path / "x.safetensors")
    assert (told == {"why": "a test"} and list(found) == sorted(given)) or set(found) == set(given)
    for name, t in given.items():
        assert (found[name].dtype, found[name].shape, found[name].tolist()) == (dtype, t.shape, t.tolist())


def test_safetensors_files_are_exchanged_with_the_package(tmp_path: Path) -> None:
    tx.files.save(tmp_path / "ours", {"x": tx.arange(6).reshape(2, 3).T})
    assert safetensors.numpy.load_file(tmp_path / "ours")["x"].tolist() == [[0, 3], [1, 4], [2, 5]]
    safetensors.numpy.save_file({"y": np.eye(2)}, tmp_path / "theirs")
    assert tx.files.load(tmp_path / "theirs")[0]["y"].tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    tx.files.save(path, {"x": tx.zeros(3)})
    with pytest.raises(tx.errors.DTypeError, match="complex128"):
        tx.files.save(path, {"x": tx.ones(3), "z": tx.asarray([1j])})

    def fails(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="no space"):
        tx.files.save(path, {"x": tx.ones(3)})
    assert tx.files.load(path)[0]["x"].tolist() == [0.0, 0.0, 0.0]
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def damaged(good: bytes) -> Iterator[bytes]:
    yield b""
    yield good[:7]
    yield good[: len(good) // 2]
    yield good[:-1]
    yield b"\xff" * 8 + good[8:]
    yield (2**40).to_bytes(8, "little") + good[8:]
    yield good.replace(b'"F64"', b'"F99"')
    yield good.replace(b"[3]", b"[9]")


def test_damaged_safetensors_file_raises(tmp_path: Path) -> None:
    path = tmp_path / "x"
    tx.files.save(path, {"x": tx.zeros(3)})
    for k, data in enumerate(damaged(path.read_bytes())):
        bad = tmp_path / f"bad{k}"
        bad.write_bytes(data)
        with pytest.raises(tx.errors.FileError, match=f"bad{k}"):
            tx.files.load(bad)
    with pytest.raises(FileNotFoundError):
        tx.files.load(tmp_path / "none")
    with pytest.raises(tx.errors.FileError, match="save_state"):
        tx.files.load_state(path)


def test_saved_state_loads_unchanged(tmp_path: Path) -> None:
    state = {"a": [tx.arange(3), (1, 2.5, "x", None, True)], "b/c": {"": tx.ones(2)}, "n": 2**64 - 1}
    tx.files.save_state(tmp_path / "s", state)
    found = tx.files.load_state(tmp_path / "s")
    assert found["a"][0].tolist() == [0, 1, 2] and found["a"][1] == (1, 2.5, "x", None, True)
    assert found["b/c"][""].tolist() == [1.0, 1.0] and found["n"] == 2**64 - 1
    with pytest.raises(tx.errors.ArgumentError, match="a state is made of"):
        tx.files.save_state(tmp_path / "s", {"x": object()})


@pytest.mark.parametrize("mapped", [False, True])
def test_file_without_tensors_is_saved_and_loaded(mapped: bool, tmp_path: Path) -> None:
    for metadata in (None, {}, {"why": "a test"}):
        tx.files.save(tmp_path / "x", nn.Dropout().state_dict(), metadata)
        assert tx.files.load(tmp_path / "x", mapped=mapped) == ({}, metadata or {})


@pytest.mark.parametrize("dtype", [tx.complex64, tx.complex128], ids=str)
def test_complex_tensors_in_states_load_unchanged(dtype: Any, tmp_path: Path) -> None:
    x = tx.asarray(np.array([[1 - 2j, complex(-0.0, np.inf)], [complex(np.nan, -0.0), 0.1j]])).astype(dtype)
    tx.files.save_state(tmp_path / "s", {"x": x.T, "one": x[0, 0]})
    found = tx.files.load_state(tmp_path / "s")
    assert found["x"].dtype is dtype and found["x"].to_numpy().tobytes() == x.T.to_numpy().tobytes()
    assert found["one"].shape == () and found["one"].item() == 1 - 2j
    weight = x[:1, :1].copy().requires_grad_()
    optimizer = tx.optim.Adam([weight])
    with tx.optim.Run(tmp_path / "run", optimizer=optimizer) as run:
        for _ in run.steps(2):
            (weight.real**2).sum().backward()
            optimizer.step()
    again = tx.optim.Adam([weight])
    assert tx.optim.Run(tmp_path / "run", optimizer=again).step == 2
    assert again.state[0]["mean"].tolist() == optimizer.state[0]["mean"].tolist()


class Training:
    """A small training whose every part draws random numbers or has state."""

    def __init__(self, path: Path) -> None:
        generator = tx.random.Generator(5)
        first, last = nn.Linear(4, 8, generator=generator), nn.Linear(8, 1, generator=generator)
        self.model = nn.Sequential(first, nn.Dropout(0.2, generator=generator), tx.tanh, last)
        self.optimizer = tx.optim.AdamW(self.model.parameters(), lr=0.01)
        self.schedule = tx.optim.cosine(self.optimizer, 20, warmup=3)
        self.draws = generator
        self.run = tx.optim.Run(path, every=4, model=self.model, optimizer=self.optimizer, schedule=self.schedule, draws=generator)

    def steps(self, stop_after: int | None = None, how: int = signal.SIGINT) -> list[float]:
        losses = []
        with self.run as run:
            for step in run.steps(20):
                x: Any = self.draws.normal(shape=(16, 4), dtype=tx.float32)
                self.optimizer.zero_grad()
                loss = nn.functional.mse_loss(self.model(x), x.sum(axis=1, keepdims=True))
                loss.backward()
                self.optimizer.step()
                self.schedule.step()
                losses.append(loss.item())
                if step == stop_after:
                    os.kill(os.getpid(), how)
        return losses


def test_interrupted_training_resumes_bit_for_bit(tmp_path: Path) -> None:
    whole = Training(tmp_path / "whole").steps()
    assert len(whole) == 20
    before_it = signal.getsignal(signal.SIGINT)
    first = Training(tmp_path / "parts")
    before = first.steps(stop_after=6)
    assert first.run.stopped and len(before) == 7
    assert signal.getsignal(signal.SIGINT) is before_it
    second = Training(tmp_path / "parts")
    assert second.run.step == 7
    assert before + second.steps() == whole
    assert Training(tmp_path / "parts").steps() == []  # it is done


def test_second_interrupt_stops_at_once(tmp_path: Path) -> None:
    run = tx.optim.Run(tmp_path / "x", model=nn.Linear(1, 1))
    with pytest.raises(KeyboardInterrupt), run:
        for _ in run.steps(3):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)


def test_mapped_tensors_stay_in_the_file(tmp_path: Path) -> None:
    names = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64"]
    given = {name: tx.arange(6).reshape(2, 3).astype(getattr(tx, name)) for name in names}
    given |= {"empty": tx.zeros((0, 3)), "0-d": tx.asarray(1.5), "large": tx.arange(100_000)}
    path = tmp_path / "x.safetensors"
    tx.files.save(path, given, {"why": "a test"})
    before = path.read_bytes()
    found, told = tx.files.load(path, mapped=True)
    assert told == {"why": "a test"} and found.keys() == given.keys()
    for name, t in given.items():
        assert found[name].dtype is t.dtype and found[name].shape == t.shape and found[name].tolist() == t.tolist()
    found["large"][0] = 7
    assert found["large"][:2].tolist() == [7, 1] and path.read_bytes() == before
    header = b'{"x":{"dtype":"F8_E5M2","shape":[2],"data_offsets":[0,2]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"<<")
    with pytest.raises(tx.errors.FileError, match="F8_E5M2"):
        tx.files.load(path, mapped=True)


def test_save_to_a_missing_folder_raises_the_system_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tx.files.save(tmp_path / "nowhere" / "x", {"x": tx.ones(3)})


def test_gcn_refuses_an_adjacency_that_is_not_square_over_its_nodes() -> None:
    layer = tx.nn.GCN(2, 3)
    with pytest.raises(tx.errors.ShapeError, match=r"GCN: adjacency has shape \(1, 4\); it must be \(4, 4\)"):
        layer(tx.ones((4, 2), dtype=tx.float32), adjacency=tx.ones((1, 4)))


@pytest.mark.parametrize(("keys", "values"), [((2, 3, 1, 4), (2, 3, 2, 4)), ((2, 1, 2, 4), (2, 3, 2, 4)), ((2, 3, 2, 1), (2, 3, 2, 1))])
def test_key_value_cache_append_rejects_keys_and_values_of_other_shapes(keys: tuple[int, ...], values: tuple[int, ...]) -> None:
    cache = tx.nn.KeyValueCache(2, 3, 5, 4)
    with pytest.raises(tx.errors.ShapeError, match=r"both must be \(2, 3, steps, 4\)"):
        cache.append(tx.ones(keys, dtype=tx.float32), tx.ones(values, dtype=tx.float32))
    assert cache.used == 0


def test_lbfgs_refuses_a_history_of_other_parameters() -> None:
    x = tx.nn.Parameter([1.0, 2.0])
    optimizer = tx.optim.LBFGS([x])
    state = optimizer.state_dict()
    for entry in [(tx.ones(1), tx.ones(1), 1.0), (tx.ones(2), tx.ones(2))]:
        with pytest.raises(tx.errors.ArgumentError, match="an entry of 'history' has"):
            optimizer.load_state_dict({**state, "history": [entry]})
    optimizer.load_state_dict({**state, "history": [(tx.ones(2), tx.ones(2), 1.0)]})
    assert len(optimizer.state_dict()["history"]) == 1


def test_optimizer_refuses_a_state_with_other_groups() -> None:
    optimizer = tx.optim.SGD([tx.nn.Parameter([1.0])], lr=0.1)
    state = optimizer.state_dict()
    with pytest.raises(tx.errors.ArgumentError, match="the state has 2 groups; it must have 1, as the optimizer"):
        optimizer.load_state_dict({**state, "groups": state["groups"] * 2})


@pytest.mark.parametrize(("name", "value"), [("seed", -1), ("seed", 2**70), ("draws", -5)])
def test_generator_refuses_a_state_out_of_range(name: str, value: int) -> None:
    generator = tx.random.Generator(3)
    with pytest.raises(tx.errors.ArgumentError, match=f"{name} is {value}; it must be from 0"):
        generator.load_state_dict({**generator.state_dict(), name: value})
    assert generator.state_dict() == {"seed": 3, "draws": 0}
