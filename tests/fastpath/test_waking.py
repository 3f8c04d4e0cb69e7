"""When the machine code of the fast path is made, and when it is not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tenxor.fastpath import machine_code
from tests.processes import python


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
    ("count", "environment", "state"),
    [
        (2, {}, "not made yet"),
        (30, {}, "on"),
        (2, {"TENXOR_FAST_PATH": "1"}, "on"),
        (30, {"TENXOR_FAST_PATH": "0"}, "off: TENXOR_FAST_PATH is 0"),
        (30, {"TENXOR_BACKEND": "interpreter"}, "off: the back end is interpreter"),
    ],
)
def test_environment_decides_whether_the_fast_path_is_built(count: int, environment: dict[str, str], state: str) -> None:
    assert printed(STATE.format(count), **environment).endswith(f"[{count + 1}.0, {count + 1}.0, {count + 1}.0] {state}")


VIEWS = """
import tenxor as tx
from tenxor import fastpath
x = tx.asarray([[1.0, 2.0], [3.0, 4.0]])
for k in range({}):
    {}
print(fastpath.state)
"""


@pytest.mark.parametrize("line", ["x.T", "x[1]", "x[0, 1].item()", "x[0, 1] = 5.0", "x.reshape(4)"])
def test_views_and_element_reads_build_the_fast_path(line: str) -> None:
    assert printed(VIEWS.format(10, line)) == "not made yet"
    assert printed(VIEWS.format(300, line)) == "on"
    assert printed(VIEWS.format(300, line), TENXOR_FAST_PATH="0") == "off: TENXOR_FAST_PATH is 0"


WAITING = """
import tenxor as tx
from tenxor import fastpath
x = tx.ones(4)
for k in range({}):
    x = x * 0.5 + x
print(fastpath.state)
"""


def test_many_pending_operations_build_the_fast_path() -> None:
    assert printed(WAITING.format(100)) == "not made yet"
    assert printed(WAITING.format(200)) == "on"
    assert printed(WAITING.format(200), TENXOR_FAST_PATH="0") == "off: TENXOR_FAST_PATH is 0"


def test_fast_path_is_not_built_inside_aside() -> None:
    inside = "\n".join("    " + line for line in WAITING.format(200).splitlines())
    text = f"from tenxor import fastpath\nwith fastpath.disabled():\n{inside}\n{STATE.format(30)}"
    assert printed(text).splitlines() == ["not made yet", "[31.0, 31.0, 31.0] on"]


def test_fast_path_is_built_after_the_last_aside_ends() -> None:
    text = """
from tenxor import fastpath
one, other = fastpath.disabled(), fastpath.disabled()
one.__enter__(), other.__enter__(), one.__exit__(None, None, None)
"""
    assert printed(text + STATE.format(30)) == "[31.0, 31.0, 31.0] not made yet"
    assert printed(text + "other.__exit__(None, None, None)\n" + STATE.format(30)) == "[31.0, 31.0, 31.0] on"


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
