"""Environment variables: an invalid value causes a RuntimeWarning, and the variable counts as unset.

Variables without a safe default, such as a limit on memory, raise an error where they are read instead.
"""

from __future__ import annotations

import os
import warnings


def read_choice(name: str, choices: tuple[str, ...], consequence: str) -> str:
    """Return the value of the environment variable `name` if it is among `choices`, otherwise an empty string.

    Warn about an invalid value. The warning ends with `consequence`, a clause that says how the program goes on.
    """
    value = os.environ.get(name, "")
    if value and value not in choices:
        warn_ignored(name, f"must be {', '.join(choices[:-1])} or {choices[-1]}", consequence)
        return ""
    return value


def read_count(name: str, max_value: int, consequence: str) -> int:
    """Return the value of the environment variable `name` as an integer from 1 to `max_value`, or 0 if it is unset or invalid.

    Warn about an invalid value. The warning ends with `consequence`, a clause that says how the program goes on.
    """
    value = os.environ.get(name, "")
    try:
        number = int(value)
    except ValueError:
        number = 0
    if value and not 1 <= number <= max_value:
        warn_ignored(name, f"must be an integer from 1 to {max_value}", consequence)
        return 0
    return number


def warn_ignored(name: str, fact: str, consequence: str) -> None:
    """Warn that the environment variable `name`, which must be set, is ignored.

    `fact` says how a value must be ("must be ..."), and `consequence` how the program goes on. The warning points at the caller's caller.
    """
    warnings.warn(f"{name} is {os.environ[name]!r:.80}; it {fact}; {consequence}", RuntimeWarning, stacklevel=3)
