"""Environment variables: an invalid value causes a RuntimeWarning, and the variable counts as unset.

Variables without a safe default, such as a limit on memory, raise an error where they are read instead.
"""

from __future__ import annotations

import os
import warnings


def choice(name: str, choices: tuple[str, ...], instead: str) -> str:
    """Return the value of an environment variable if it is among `choices`, otherwise an empty string.

    Warn about an invalid value. The warning ends with `instead`, the consequence.
    """
    value = os.environ.get(name, "")
    if value and value not in choices:
        warn(name, f"must be {', '.join(choices[:-1])} or {choices[-1]}", instead)
        return ""
    return value


def count(name: str, highest: int, instead: str) -> int:
    """Return the value of an environment variable as an integer from 1 to `highest`, or 0 if it is unset or invalid.

    Warn about an invalid value. The warning ends with `instead`, the consequence.
    """
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
    """Warn that an environment variable is ignored: state the `fact` about the value, and the consequence, `instead`."""
    warnings.warn(f"{name} is {os.environ[name]!r:.80}; it {fact}; {instead}", RuntimeWarning, stacklevel=3)
