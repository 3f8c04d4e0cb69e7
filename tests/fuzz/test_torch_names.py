"""The table of names that Tenxor and PyTorch share is complete, without PyTorch itself."""

from __future__ import annotations

import re
from pathlib import Path

import tenxor as tx

from .torch_calls import CALLED, full_name
from .torch_differences import DIFFERENT, NOT_DRAWN
from .torch_modules import CONTAINERS, FILLS, MODULES, OPTIMIZERS
from .torch_names import SHARED_NAMES

NAMES = {full_name(namespace, name) for namespace, names in SHARED_NAMES.items() for name in names}


def test_each_name_shared_with_pytorch_is_tested_or_has_a_reason() -> None:
    modules = [*MODULES, *CONTAINERS]
    optimizers = [*OPTIMIZERS, "LBFGS"]
    drawn = {*CALLED, *[f"nn.{n}" for n in modules], *[f"nn.init.{n}" for n in FILLS], *[f"optim.{n}" for n in optimizers]}
    assert drawn | NOT_DRAWN.keys() == NAMES
    assert not drawn & NOT_DRAWN.keys() and all(NOT_DRAWN.values())


def test_names_shared_with_pytorch_exist_in_tenxor() -> None:
    for name in NAMES:
        found = tx
        for part in name.split("."):
            found = getattr(found, part)


def test_results_that_differ_from_pytorch_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/coming-from/pytorch.md").read_text(encoding="utf-8")
    _, _, section = page.partition("## Same name, other meaning")
    documented = set(re.findall(r"`([\w.]+)`", section.partition("\n## ")[0]))
    assert DIFFERENT.keys() <= documented
