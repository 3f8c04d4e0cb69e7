"""Test that the tour runs in well under a minute and prints what it promises."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from time import perf_counter

import pytest

import tenxor as tx
from tenxor import tour
from tenxor.runtime.planner import preview_kernels

from .processes import python

ROOT = Path(__file__).resolve().parents[1]
MAX_SECONDS = 60.0  # seconds


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what `python -m tenxor` prints with an empty kernel cache and a folder of its own for figures."""
    folder = tmp_path_factory.mktemp("tour")
    environment = os.environ | {"TMPDIR": str(folder), "TENXOR_CACHE_DIR": str(folder / "cache")}
    start = perf_counter()
    process = python("-W", "error", "-m", "tenxor", cwd=ROOT, env=environment)
    assert not process.stderr
    assert perf_counter() - start < MAX_SECONDS
    return process.stdout


def results_of(printed: str, code: str) -> str:
    """Return the lines printed below a line of code."""
    below = printed.split(f">>> {code}", 1)[1].partition("\n")[2]
    return re.split(r"^(?:>>>|$)", below, maxsplit=1, flags=re.MULTILINE)[0].rstrip()


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("t.T.storage is t.storage", "True"),
        ("t[1, 0]", "-7"),
        ("np.shares_memory(n, n.T.reshape(20))", "False"),
        ("twice[0, 0].item(), total.item()", "(0, 190)"),
        ("column * row", "1  2  3\n2  4  6\n3  6  9"),
        ("sum(tx.compile_counts()) - before", "1"),
        ("p.T @ q.swapaxes(0, 1)", "130  130  150  150\n154  154  178  178\n178  178  206  206"),
    ],
)
def test_line_of_the_tour_prints_its_result(printed: str, code: str, result: str) -> None:
    assert results_of(printed, code) == result


def test_write_through_an_overlapping_view_prints_a_read_only_error(printed: str) -> None:
    assert results_of(printed, "rows[1:] = tx.arange(4)").startswith("ReadOnlyError: ")


def test_tour_prints_no_other_errors(printed: str) -> None:
    assert re.findall(r"^(\w+Error):", printed, re.MULTILINE) == ["ReadOnlyError"]


def test_explained_expression_is_one_kernel(printed: str) -> None:
    explained = results_of(printed, "print(tx.explain(d))")
    assert "1 kernel:" in explained
    assert "square((p1[" in explained


def test_figures_are_in_the_folder_that_the_tour_names(printed: str) -> None:
    match = re.search(r"^The figures are in (.+)$", printed, re.MULTILINE)
    assert match is not None
    drawn = {"cube.svg", "storage.svg", "views.svg", "walk.html", "digits_network.svg", "karate_club.svg"}
    assert {path.name for path in Path(match[1]).iterdir()} == drawn


def test_digits_are_classified_accurately_and_timed(printed: str) -> None:
    accuracy = re.search(r"^accuracy (\d\.\d+)", printed, re.MULTILINE)
    assert accuracy is not None
    assert float(accuracy[1]) >= 0.98
    assert "taken for     0    1    2" in printed
    assert re.search(r"^  Tenxor +[\d.]+ ms, [\d.]+ times as fast$", printed, re.MULTILINE)


def test_kernels_are_counted_and_listed(printed: str) -> None:
    counted = re.search(r"(\d+) kernels: (\d+) compiled now, (\d+) found on disk", printed)
    assert counted is not None
    assert int(counted[1]) == int(counted[2]) + int(counted[3]) > 0
    listed = printed.split("what each does in one pass:\n", 1)[1].split("\n\n", 1)[0].splitlines()
    assert "  subtract → square → sum  (float32, float32 to float32, compiled now)" in listed


def test_tour_without_the_examples_names_the_repository(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tour.show_digits(6, tmp_path / "knn_digits.py")
    assert "clone the repository" in capsys.readouterr().out


def test_fused_operations_are_listed_in_their_order() -> None:
    x = tx.asarray([[1.0, 2.0], [3.0, 5.0]])
    (step,) = preview_kernels([tx.sqrt((x * 2 + 1).sum(axis=1)).storage.node])
    assert step[1] is not None
    assert tour.list_operations(step[1]) == ["multiply", "add", "sum", "sqrt"]


def test_code_is_coloured_only_in_a_terminal_without_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tour.style_text("x", tour.CODE) == "x"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert tour.style_text("x", tour.CODE) == "\x1b[36mx\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert tour.style_text("x", tour.CODE) == "x"
