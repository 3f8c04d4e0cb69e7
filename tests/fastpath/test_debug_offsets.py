"""Tests of the debug offsets of CPython as a second witness for the layouts that the fast path assumes."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator

import pytest

from tenxor.fastpath import debug_offsets
from tenxor.fastpath.debug_offsets import ASSUMED_OFFSETS, COOKIE, WORD_INDICES, check_debug_offsets, compare
from tests.processes import IMPORT_WITHOUT_FAST_PATH, python

# The members of `_Py_DebugOffsets` as CPython's headers declare them. Groups before `pyobject` are given by their length alone.
HEADERS = {
    13: """runtime_state*3 interpreter_state*13 thread_state*9 interpreter_frame*6 code_object*10
        pyobject:size,ob_type type_object:size,tp_name,tp_repr,tp_flags tuple_object:size,ob_item,ob_size list_object:size,ob_item,ob_size
        dict_object:size,ma_keys,ma_values float_object:size,ob_fval long_object:size,lv_tag,ob_digit bytes_object:size,ob_size,ob_sval""",
    14: """runtime_state*3 interpreter_state*16 thread_state*9 interpreter_frame*8 code_object*11
        pyobject:size,ob_type type_object:size,tp_name,tp_repr,tp_flags tuple_object:size,ob_item,ob_size list_object:size,ob_item,ob_size
        set_object:size,used,table,mask dict_object:size,ma_keys,ma_values float_object:size,ob_fval long_object:size,lv_tag,ob_digit
        bytes_object:size,ob_size,ob_sval""",
    15: """runtime_state*3 interpreter_state*16 thread_state*16 err_stackitem*1 interpreter_frame*8 code_object*11
        pyobject:size,ob_type type_object:size,tp_name,tp_repr,tp_flags,tp_basicsize,tp_dictoffset heap_type_object:size,ht_cached_keys
        tuple_object:size,ob_item,ob_size list_object:size,ob_item,ob_size set_object:size,used,table,mask
        dict_object:size,ma_keys,ma_values float_object:size,ob_fval long_object:size,lv_tag,ob_digit bytes_object:size,ob_size,ob_sval""",
}
# The layout of a 64-bit CPython with a GIL, in bytes; only that of tuples differs between the versions.
OFFSETS = {
    **{"pyobject.ob_type": 8, "type_object.tp_repr": 88, "type_object.tp_flags": 168, "float_object.ob_fval": 16},
    **{"tuple_object.ob_item": ASSUMED_OFFSETS["PyTupleObject.ob_item"], "tuple_object.ob_size": 16},
    **{"long_object.lv_tag": 16, "long_object.ob_digit": 24, "bytes_object.ob_size": 16, "bytes_object.ob_sval": 32},
}
VERSIONS = sorted(HEADERS)
published = pytest.mark.skipif(sys.version_info < (3, 13), reason="CPython publishes debug offsets from 3.13 on")


def members(minor: int) -> Iterator[str]:
    """Yield the name of each word of the structure, in order."""
    yield from ("cookie", "version", "free_threaded")
    for group in HEADERS[minor].split():
        name, _, count = group.partition("*")
        if count:
            yield from [f"{name}[{k}]" for k in range(int(count))]
        else:
            name, _, listed = group.partition(":")
            yield from [f"{name}.{member}" for member in listed.split(",")]


def fake(minor: int, **changed: int) -> list[int]:
    """Return the words that an interpreter publishes whose layout is as assumed, with some members `changed`."""
    values = {"cookie": COOKIE, "version": sys.hexversion, "free_threaded": 0, **OFFSETS, **changed}
    return [values.get(member, 10_000) for member in members(minor)]


@pytest.mark.parametrize("minor", VERSIONS)
def test_each_offset_is_read_from_the_word_that_the_header_declares(minor: int) -> None:
    compare(fake(minor), WORD_INDICES[minor])
    for member in OFFSETS:
        with pytest.raises(LookupError, match=f"{member.split('.')[1]} is at byte 7; the fast path assumes {OFFSETS[member]}"):
            compare(fake(minor, **{member: 7}), WORD_INDICES[minor])


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("cookie", COOKIE + 1, "does not begin with the debug offsets"),
        ("version", sys.hexversion + 1, "does not begin with the debug offsets"),
        ("free_threaded", 1, "built without a GIL"),
    ],
)
def test_structure_of_another_interpreter_is_refused(member: str, value: int, message: str) -> None:
    with pytest.raises(LookupError, match=message):
        compare(fake(13, **{member: value}), WORD_INDICES[13])


@pytest.mark.parametrize("version", [(3, 10), (3, 16), (4, 13)])
def test_unknown_version_is_refused_without_reading_memory(version: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_offsets, "read_words", None)
    monkeypatch.setattr(sys, "version_info", (*version, 0, "final", 0))
    with pytest.raises(LookupError, match=rf"object layouts of CPython {version[0]}\.{version[1]} are unknown"):
        check_debug_offsets()


@pytest.mark.parametrize("minor", [11, 12])
def test_versions_that_publish_no_offsets_are_accepted_without_them(minor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_offsets, "read_words", None)
    monkeypatch.setattr(sys, "version_info", (3, minor, 0, "final", 0))
    check_debug_offsets()


def test_debug_offsets_of_the_running_interpreter_match_the_assumed_ones() -> None:
    check_debug_offsets()


@published
def test_published_sizes_are_those_of_the_running_interpreters_types() -> None:
    names = list(members(sys.version_info[1]))
    words = dict(zip(names, debug_offsets.read_words(len(names)), strict=True))
    assert words["pyobject.size"] == object.__basicsize__
    assert words["float_object.size"] == float.__basicsize__
    assert words["tuple_object.size"] - 8 == tuple.__basicsize__  # C counts the first item in


def test_missing_py_runtime_variable_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "pythonapi", ctypes.CDLL("libm.so.6"))
    with pytest.raises(LookupError, match="does not export _PyRuntime"):
        debug_offsets.read_words(1)


def test_disagreement_turns_the_fast_path_off_and_show_config_says_why() -> None:
    program = f"""{IMPORT_WITHOUT_FAST_PATH}
import sys
from tenxor import fastpath
from tenxor.fastpath import debug_offsets

version = sys.version_info
sys.version_info = (3, 16, 0, "final", 0)
fastpath.start()
tx.show_config()
sys.version_info = (3, 15, 0, "final", 0)
debug_offsets.read_words = lambda count: [debug_offsets.COOKIE, sys.hexversion, 0] + [8] * (count - 3)
fastpath.start()
tx.show_config()
sys.version_info = version
x = tx.tensor([1.0, 2.0])
for _ in range(40):
    assert (x + x).tolist() == [2.0, 4.0]
"""
    rows = [line for line in python("-c", program).stdout.splitlines() if line.startswith("fast path")]
    assert rows == [
        "fast path  off: the object layouts of CPython 3.16 are unknown; the fast path needs CPython 3.11 to 3.15",
        "fast path  off: CPython's debug offsets say PyTypeObject.tp_repr is at byte 8; the fast path assumes 88",
    ]
