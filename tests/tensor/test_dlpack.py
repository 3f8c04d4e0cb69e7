"""Export of memory by DLPack, NumPy's array interface and Python's buffer protocol, against the specifications."""

from __future__ import annotations

import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, DTypeError, NotShared
from tenxor.tensor import dlpack

READ_ONLY, COPIED = 1, 2  # flags of DLPack 1.0


def flags(capsule: Any) -> int:
    versioned = dlpack._read_capsule(capsule)[1]
    assert versioned is not None
    return int(versioned.flags)


def pins(t: tx.Tensor) -> int:
    buffer = t.storage.node.buffer
    assert buffer is not None
    return int(bool(buffer.externally_shared))


class Exporter:
    """An array of another library: optionally of bfloat16, on another device, or from before DLPack 1.0."""

    def __init__(self, array: Any, dtype: str = "", device: tuple[int, int] = (1, 0), *, old: bool = False) -> None:
        self.array, self.dtype, self.device, self.old = array, dtype or str(array.dtype), device, old
        self.options: dict[str, Any] = {}

    def __dlpack__(self, **options: Any) -> Any:
        if self.old and options.keys() - {"stream"}:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        self.options = options
        return dlpack.make_capsule(self.array, options.get("max_version"), is_bfloat16=self.dtype.endswith("bfloat16"), is_copied=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


TABLE = tx.arange(6, dtype=tx.float32).reshape(2, 3)
# Views that are shared, views that are shared read-only, and views that must be copied.
SHARED = {"whole": TABLE, "transposed": TABLE.T, "a part": TABLE[:, 1:], "0-d": TABLE[1, 2, ...], "nothing": TABLE[2:]}
READ = {"broadcast": TABLE.expand((2, 2, 3)), "windows": TABLE.windows(1, 2)}
COPIES = {"reversed": TABLE[::-1], "a chain": TABLE.T.reshape(6), "gathered": TABLE.oindex[[1, 0, 0]]}


@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (2, 1)])
@pytest.mark.parametrize("name", [*SHARED, *READ, *COPIES])
def test_dlpack_capsule_is_shared_or_copied_as_requested(name: str, version: tuple[int, int] | None, copy: bool | None) -> None:
    t = (SHARED | READ | COPIES)[name]
    legacy = version is None or version < (1, 0)
    by_need = name in COPIES or (legacy and name in READ)
    if copy is False and by_need:
        with pytest.raises(BufferError, match="cannot be shared"):
            t.__dlpack__(max_version=version, copy=copy)
        return
    capsule = t.__dlpack__(max_version=version, copy=copy)
    assert ("dltensor_versioned" in repr(capsule)) is not legacy
    if not legacy:
        is_copied = copy is True or by_need
        read_only = name in READ if not is_copied else not copy
        assert flags(capsule) == READ_ONLY * read_only + COPIED * is_copied
    described, _ = dlpack._read_capsule(capsule)
    assert described.ndim == t.ndim and described.bits == 32 and tuple(described.device) == (1, 0)
    if copy or by_need:
        assert described.data % 64 == 0  # JAX copies memory that is not aligned to 64 bytes


def test_dlpack_rejects_streams_and_other_devices() -> None:
    for wrong in ({"stream": 1}, {"dl_device": (2, 0)}, {"dl_device": "cpu"}, {"max_version": 1}, {"max_version": "10"}):
        with pytest.raises(BufferError, match="__dlpack__: "):
            TABLE.__dlpack__(**wrong)
    assert TABLE.__dlpack__(stream=None, dl_device=(1, 0), max_version=None) is not None
    assert TABLE.__dlpack_device__() == (1, 0)


def test_dlpack_round_trip_keeps_bfloat16() -> None:
    t = tx.asarray([1.0, -2.5, float("inf")], dtype=tx.bfloat16)
    for version in (None, (1, 0)):
        described, _ = dlpack._read_capsule(t.__dlpack__(max_version=version))
        assert (described.kind, described.bits, described.lanes) == (4, 16, 1)
    bits = np.array([0x3F80, 0x4000], np.uint16)
    imported = tx.from_dlpack(Exporter(bits, "torch.bfloat16"))
    assert imported.dtype is tx.bfloat16 and imported.tolist() == [1.0, 2.0]
    imported[0] = 3.0
    assert bits.tolist() == [0x4040, 0x4000]
    copied = tx.asarray(Exporter(bits, "bfloat16"))
    bits[:] = 0
    assert copied.tolist() == [3.0, 2.0]


def test_bfloat16_is_shared_with_ml_dtypes() -> None:
    t = tx.asarray([1.0, 2.0], dtype=tx.bfloat16)
    a = np.asarray(t, dtype=ml_dtypes.bfloat16)
    a[0] = 4
    assert t.tolist() == [4.0, 2.0] and np.asarray(t).dtype == np.float32
    u = tx.asarray(a, copy=False)
    u[1] = 5.0
    assert a.astype(float).tolist() == [4.0, 5.0] == t.astype(tx.float64).tolist()
    assert np.asarray(t[::-1], dtype=ml_dtypes.bfloat16, copy=False).strides == (-2,)


def test_from_dlpack_shares_or_copies_the_memory_of_an_exporter() -> None:
    a = np.arange(4.0)
    t = tx.from_dlpack(Exporter(a))
    t[0] = 9.0
    assert a[0] == 9.0
    copied = tx.from_dlpack(Exporter(a), copy=True)
    copied[0] = 1.0
    assert a[0] == 9.0
    old = tx.from_dlpack(Exporter(a, old=True))  # an old exporter does not say whether its memory is writable, so it is copied
    old[0] = 1.0
    assert a[0] == 9.0 and old[0].item() == 1.0
    exporter = Exporter(a)
    tx.from_dlpack(exporter, copy=False)
    assert exporter.options["copy"] is False


def test_from_dlpack_rejects_memory_of_other_devices() -> None:
    exporter = Exporter(np.arange(3.0), device=(2, 0))
    with pytest.raises(ArgumentError, match="not in the CPU's memory"):
        tx.from_dlpack(exporter)
    tx.from_dlpack(exporter, device="cpu")
    assert exporter.options["dl_device"] == (1, 0)
    with pytest.raises(DTypeError, match="float64"):
        tx.from_dlpack(Exporter(np.arange(3.0), device=None))  # type: ignore[arg-type]  # an exporter that fails


def test_from_dlpack_without_copy_raises_for_unshareable_tensors() -> None:
    with pytest.raises(NotShared, match=r"from_dlpack: Tensor of int64 does not share its memory .*negative strides"):
        tx.from_dlpack(tx.arange(4)[::-1], copy=False)
    assert tx.from_dlpack(tx.arange(4)[::-1]).tolist() == [3, 2, 1, 0]
    for error in (BufferError, DTypeError):  # the error is of both classes
        with pytest.raises(error):
            tx.from_dlpack(tx.ones(3).requires_grad_() * 1, copy=False)


class TestArrayInterface:
    @pytest.mark.parametrize("t", [*SHARED.values(), TABLE[::-1]], ids=[*SHARED, "reversed"])
    def test_array_interface_shares_the_memory_of_the_tensor(self, t: tx.Tensor) -> None:
        a = np.asarray(t)
        assert a.tolist() == t.tolist() and a.flags.writeable and a.dtype == np.float32
        assert not t.size or np.shares_memory(a, np.asarray(TABLE))
        assert t.__array_interface__["version"] == 3

    @pytest.mark.parametrize("t", READ.values(), ids=READ)
    def test_array_interface_is_read_only_for_repeated_elements(self, t: tx.Tensor) -> None:
        assert not np.asarray(t).flags.writeable

    def test_array_interface_keeps_memory_alive_and_marked_as_shared(self) -> None:
        t = tx.arange(3)
        a = np.asarray(t)
        reader = t + 1
        a[0] = 9
        assert (t.tolist(), reader.tolist(), pins(t)) == ([9, 1, 2], [1, 2, 3], 1)
        array = np.asarray(tx.arange(5) * 2)
        del a
        gc.collect()
        assert pins(t) == 0 and array.tolist() == [0, 2, 4, 6, 8]

    def test_array_interface_is_missing_for_unshareable_tensors(self) -> None:
        tracked = tx.ones(2).requires_grad_() * 2
        for t in (TABLE.T.reshape(6), TABLE.oindex[[0, 1, 1]], tx.ones(2, dtype=tx.bfloat16), tracked):
            assert not hasattr(t, "__array_interface__")
            assert np.asarray(t).tolist() == t.tolist()


class TestBuffers:
    """Python calls `__buffer__` from 3.12 on; before, only direct callers do."""

    def test_buffers_share_the_memory_of_the_tensor(self) -> None:
        t = tx.arange(6, dtype=tx.int16).reshape(2, 3)
        for view in (t, t.T, t[::-1, 1:]):
            buffer = view.__buffer__(0)
            assert (buffer.shape, buffer.format, buffer.tolist()) == (view.shape, "h", view.tolist())
        t.__buffer__(0)[1, 2] = 9
        assert t[1, 2].item() == 9 and t.expand((2, 2, 3)).__buffer__(0).readonly

    def test_buffers_raise_for_unshareable_tensors(self) -> None:
        for t, why in ((TABLE.T.reshape(6), "strides"), (tx.ones(2, dtype=tx.bfloat16), "bfloat16")):
            with pytest.raises(BufferError, match=why):
                t.__buffer__(0)

    def test_tobytes_supports_both_orders(self) -> None:
        model = np.arange(6, dtype=np.int16).reshape(2, 3)
        t = tx.asarray(model)
        for ours, theirs in ((t, model), (t.T, model.T), (t.T.reshape(6), model.T.reshape(6)), (t[::-1], model[::-1])):
            assert ours.tobytes() == theirs.tobytes() and ours.tobytes("F") == theirs.tobytes("F")
        assert tx.asarray([1.0], dtype=tx.bfloat16).tobytes() == b"\x80\x3f"
        assert tx.asarray([1.0, 2.0], dtype=tx.bfloat16).oindex[[1, 0, 1]].tobytes() == b"\x00\x40\x80\x3f\x00\x40"
        with pytest.raises(ArgumentError, match="'F'"):
            t.tobytes("X")


def test_asarray_accepts_objects_with_only_the_array_interface() -> None:
    class Picture:
        def __init__(self) -> None:
            self.content = np.arange(6, dtype=np.uint8).reshape(2, 3)

        @property
        def __array_interface__(self) -> Any:
            return self.content.__array_interface__

    assert tx.asarray(Picture()).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tx.asarray(Picture(), dtype=tx.float32).dtype is tx.float32
