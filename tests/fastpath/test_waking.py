"""When the machine code of the fast path is made, and when it is not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tenxor.fastpath import machine_code
from tests.processes import IMPORT_WITHOUT_FAST_PATH, python


def printed(text: str, **environment: str) -> str:
    return python("-c", text, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}).stdout.strip()


STATE = """
import tenxor as tx
from tenxor import fastpath
x = tx.ones(3)
for k in range({}):
    x = (x + 1).realize()
print(x.tolist(), fastpath.state)
"""


@pytest.mark.parametrize(
    ("environment", "state"),
    [
        ({}, "on"),
        ({"TENXOR_FAST_PATH": "0"}, "off: TENXOR_FAST_PATH is 0"),
        ({"TENXOR_BACKEND": "interpreter"}, "off: the back end is interpreter"),
    ],
)
def test_import_builds_the_fast_path_unless_the_environment_turns_it_off(environment: dict[str, str], state: str) -> None:
    assert printed("import tenxor; print(tenxor.fastpath.state)", **environment) == state
    assert printed(STATE.format(30), **environment) == f"[31.0, 31.0, 31.0] {state}"


@pytest.mark.parametrize(("setting", "state"), [("", "not made yet"), ("1", "on")])
def test_import_compiles_the_fast_path_only_if_the_environment_says_so(setting: str, state: str) -> None:
    assert printed("import tenxor; print(tenxor.fastpath.state)", TENXOR_CACHE_DIR="", TENXOR_FAST_PATH=setting) == state


def test_fast_path_is_built_only_after_the_last_disabled_context_ends() -> None:
    text = f"""{IMPORT_WITHOUT_FAST_PATH}
from tenxor import fastpath
one, other = fastpath.disabled(), fastpath.disabled()
one.__enter__(), other.__enter__()
for context in (one, other):
    fastpath.start()
    print(fastpath.state)
    context.__exit__(None, None, None)
fastpath.start()
print(fastpath.state)
"""
    assert printed(text).splitlines() == ["not made yet", "not made yet", "on"]


def test_debug_mode_turns_the_fast_path_off() -> None:
    assert printed(STATE.format(30), TENXOR_DEBUG="1").endswith("off: TENXOR_DEBUG is set")


UNTIL_COMPILED = """
import time
import tenxor as tx
from tenxor import fastpath
x, states = tx.zeros(3), []
begin = time.monotonic()
while fastpath.state != "on" and time.monotonic() < begin + 100:
    x = (x + 1).realize()
    time.sleep(0.01)  # the other process has the processor
    if fastpath.state not in states:
        states.append(fastpath.state)
y = (x + 1).realize()
print(states, x.tolist() == [x[0].item()] * 3, (y - x).tolist(), fastpath.fast_path.origin)
"""


def test_another_process_compiles_the_fast_path_if_its_code_is_not_stored(tmp_path: Path) -> None:
    text = printed(UNTIL_COMPILED, TENXOR_CACHE_DIR=str(tmp_path))
    assert text == "['not made yet', 'being compiled by another process', 'on'] True [1.0, 1.0, 1.0] disk"


@pytest.mark.parametrize(
    ("executable", "folder", "reason"),
    [
        ("/opt/blender", None, "this program cannot start Python"),
        ("", None, "this program cannot start Python"),
        (sys.executable, "", "TENXOR_CACHE_DIR is empty"),
        (sys.executable, "file/below", "Not a directory"),
    ],
)
def test_no_process_compiles_the_fast_path_without_python_or_disk_cache(
    executable: str, folder: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setenv("TENXOR_CACHE_DIR", folder and str(tmp_path / folder) if folder is not None else str(tmp_path))
    with pytest.raises(OSError, match=reason):
        machine_code.BackgroundCompilation()
