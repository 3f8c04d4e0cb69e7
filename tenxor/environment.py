"""Environment variables: a value that cannot be used is told by a RuntimeWarning, and the variable then counts as not set.

Variables whose value cannot be replaced, such as a limit on memory, raise an error where they are read instead.
"""

from __future__ import annotations

import os
import warnings


def choice(name: str, choices: tuple[str, ...], instead: str) -> str:
    """Return the value of a variable if it is one of `choices`, else an empty string.

    `instead` says what is done without the variable. It ends the warning about another value.
    """
    value = os.environ.get(name, "")
    if value and value not in choices:
        warn(name, f"must be {', '.join(choices[:-1])} or {choices[-1]}", instead)
        return ""
    return value


def count(name: str, highest: int, instead: str) -> int:
    """Return the value of a variable if it is an integer from 1 to `highest`, else 0. `instead` is as for `choice`."""
    value = os.environ.get(name, "")
    try:
        number = int(value)
    except ValueError:
        number = 0
    if value and not 1 <= number <= highest:
        warn(name, f"must be an integer from 1 to {highest}", instead)
        return 0
    return number


def warn(name: str, fact: str, instead: str) -> None:
    """Warn that a variable is not used: the `fact` about its value, and what is done `instead`."""
    warnings.warn(f"{name} is {os.environ[name]!r:.80}; it {fact}; {instead}", RuntimeWarning, stacklevel=3)
