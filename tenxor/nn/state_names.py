"""Messages about the names of tensors in a state that a module does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tensor import Tensor


def list_names(names: list[str]) -> str:
    """Return a text with the first three of `names`, and the number of further names, for a message."""
    return ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def match_names(tensors: Mapping[str, Tensor], state: Mapping[str, Any], missing: list[str], unknown: list[str]) -> dict[str, str]:
    """Return the names of `unknown` by which a state probably calls the tensors `missing`, as a dict from the state's name to the module's.

    `tensors` are those of the module, and `state` has the values, both by name. Two tensors match if the shapes and the last parts of the
    names, such as "weight", are equal. Names match in order.
    """
    names = {}
    candidates = list(unknown)
    for name in missing:
        for candidate in candidates:
            if _attribute_name(candidate) == _attribute_name(name) and getattr(state[candidate], "shape", None) == tensors[name].shape:
                names[candidate] = name
                candidates.remove(candidate)
                break
    return names


def _attribute_name(name: str) -> str:
    """Return the part of `name` after the last point."""
    return name.rpartition(".")[2]
