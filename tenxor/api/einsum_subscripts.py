"""The parser of `einsum`'s subscripts, such as `"ij,jk->ik"`, which name the axes of each operand and of the result. The parser gives each
axis a label. A letter is its own label. The axes of an ellipsis have the labels -1, -2, and so on, counted from the last axis, because they
broadcast.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any

from .._utils.records import NamedTuple
from ..errors import ArgumentError, ShapeError

Label = str | int
Labels = tuple[Label, ...]
Shape = tuple[int, ...]

ELLIPSIS = "..."
# The letters for axes given as numbers: 0 is the first one. Capitals come first.
LETTERS = "".join(sorted(ascii_letters))


class Subscripts(NamedTuple):
    """The labels of the axes of each operand and of the result, and the broadcast size of each label."""

    operands: tuple[Labels, ...]
    result: Labels
    sizes: dict[Label, int]


def parse_subscripts(subscripts: str, shapes: Sequence[Shape]) -> Subscripts:
    """Return the labels and sizes for subscripts like "ij,jk->ik" and operands of `shapes`, in order.

    Raise ArgumentError for invalid subscripts, and ShapeError for shapes that do not fit.
    """
    prefix = f"einsum: {subscripts!r}"
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    if "->" in output:
        raise ArgumentError(f"{prefix} has more than one '->'; write the operands' subscripts, '->', and the result's")
    terms = [_split_letters(prefix, term) for term in inputs.split(",")]
    if len(terms) != len(shapes):
        shapes_text = f", of shape{'s' * (len(shapes) > 1)} {', '.join(map(str, shapes))}; give one for each" if shapes else ""
        may_be_list = [len(terms)] == [shape[0] for shape in shapes if shape]
        hint = "; write tx.einsum(subscripts, *operands) for a list of them" if may_be_list else ""
        raise ArgumentError(
            f"{prefix} names {len(terms)} operand{'s' * (len(terms) > 1)}, not {len(shapes)} given"
            f"{shapes_text or '; give it after them'}{hint}"
        )
    operands = tuple([_label_axes(prefix, k, term, shape) for k, (term, shape) in enumerate(zip(terms, shapes, strict=True))])
    sizes = _broadcast_sizes(prefix, operands, shapes)
    ellipsis_labels = tuple(range(min([c for c in sizes if isinstance(c, int)], default=0), 0))
    result = (
        _explicit_result(prefix, _split_letters(prefix, output), sizes, ellipsis_labels)
        if arrow
        else _implicit_result(terms, ellipsis_labels)
    )
    return Subscripts(operands, result, sizes)


def _split_letters(prefix: str, term: str) -> list[str]:
    """Return `term`, the subscripts of one operand, as a list of letters and at most one `ELLIPSIS`.

    Raise ArgumentError, beginning with `prefix`, for anything else in `term`.
    """
    letters_before, dots, letters_after = term.partition(ELLIPSIS)
    for letter in letters_before + letters_after:
        if letter == ".":
            raise ArgumentError(f"{prefix} has a '.' in {term!r} outside an ellipsis; an operand may have one '...', of three dots")
        if letter not in ascii_letters:
            raise ArgumentError(f"{prefix} has {letter!r} in {term!r}; subscripts are letters from a to z and A to Z, and '...'")
    return [*letters_before, *([ELLIPSIS] if dots else []), *letters_after]


def _label_axes(prefix: str, k: int, term: list[str], shape: Shape) -> Labels:
    """Return the label of each axis of operand `k` of shape `shape`, with subscripts split into `term`.

    Raise ShapeError, beginning with `prefix`, for a wrong number of axes.
    """
    extra_axes = len(shape) - len(term)
    if ELLIPSIS not in term:
        if extra_axes:
            raise ShapeError(
                f"{prefix} names {len(term)} axes of operand {k} of shape {shape}, which has {len(shape)}"
                + ("; '...' stands for the others" if extra_axes > 0 else "")
            )
        return tuple(term)
    if extra_axes < -1:
        raise ShapeError(
            f"{prefix} names {len(term) - 1} axes of operand {k} beside '...'; its shape is {shape}, which has only {len(shape)}"
        )
    position = term.index(ELLIPSIS)
    return (*term[:position], *range(-extra_axes - 1, 0), *term[position + 1 :])


def _broadcast_sizes(prefix: str, operands: Sequence[Labels], shapes: Sequence[Shape]) -> dict[Label, int]:
    """Return a dict from each label to its size, broadcast: a size of 1 gives way to any other size.

    `operands` has the labels of each operand, and `shapes` the shapes. Raise ShapeError, beginning with `prefix`, for two different sizes
    other than 1. Within one operand, whose repeated label takes a diagonal, even the size 1 must not differ.
    """
    sizes: dict[Label, int] = {}
    operand_of: dict[Label, int] = {}  # the operand with the size in `sizes`
    for k, (labels, shape) in enumerate(zip(operands, shapes, strict=True)):
        operand_sizes: dict[Label, int] = {}
        for label, size in zip(labels, shape, strict=True):
            if operand_sizes.setdefault(label, size) != size:
                raise ShapeError(
                    f"{prefix} repeats {label!r} in operand {k} of shape {shape}, and so takes a diagonal of axes of sizes"
                    f" {operand_sizes[label]} and {size}; they must be equal"
                )
        for label, size in operand_sizes.items():
            if sizes.get(label, 1) == 1:
                sizes[label], operand_of[label] = size, k
            elif size not in (1, sizes[label]):
                name = repr(label) if isinstance(label, str) else f"axis {label} of '...'"
                j = operand_of[label]
                raise ShapeError(
                    f"{prefix} walks operands of shapes {', '.join(map(str, shapes))} together: {name} has size {sizes[label]} in"
                    f" operand {j} of shape {shapes[j]} and {size} in operand {k} of shape {shape}; sizes must be equal or 1"
                )
    return sizes


def _explicit_result(prefix: str, term: list[str], sizes: dict[Label, int], ellipsis_labels: Labels) -> Labels:
    """Return the labels of the result written after the arrow, split into `term`. `ellipsis_labels` replace an ellipsis.

    `sizes` has the labels of the operands. Raise ArgumentError, beginning with `prefix`, for a repeated or unknown letter or a second
    ellipsis. The error is also raised if `ellipsis_labels` is not empty but `term` has no `ELLIPSIS`.
    """
    for letter in term:
        if term.count(letter) > 1:
            raise ArgumentError(f"{prefix} names {letter!r} twice in the result; each of its axes needs a letter of its own")
        if letter != ELLIPSIS and letter not in sizes:
            raise ArgumentError(f"{prefix} names {letter!r} in the result, which no operand has")
    if ELLIPSIS in term:
        position = term.index(ELLIPSIS)
        return (*term[:position], *ellipsis_labels, *term[position + 1 :])
    if ellipsis_labels:
        raise ArgumentError(
            f"{prefix} has '...' in its operands, which stands for {len(ellipsis_labels)} axes there, but not in the result; write it there"
            " too, or name the axes to sum over"
        )
    return tuple(term)


def _implicit_result(terms: Sequence[list[str]], ellipsis_labels: Labels) -> Labels:
    """Return the labels of a result without arrow: `ellipsis_labels`, then letters occurring once in `terms`, in alphabetical order."""
    letters = [letter for term in terms for letter in term if letter != ELLIPSIS]
    return (*ellipsis_labels, *sorted(letter for letter in letters if letters.count(letter) == 1))


def parse_interleaved(arguments: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Return subscripts and operands from `arguments` of the form `a, [0, 1], b, [1, 2], [0, 2]`; the last list may be missing.

    Axes are integers from 0 to 51, or Ellipsis. Raise ArgumentError for a different form.
    """
    pairs, has_result = len(arguments) // 2, len(arguments) % 2
    terms = [_letters_for_numbers(k, arguments[2 * k + 1]) for k in range(pairs)]
    if not pairs:
        raise ArgumentError("einsum: give subscripts like 'ij,jk->ik' and the operands, or each operand and its axes' numbers")
    inputs = ",".join(terms)
    return inputs + ("->" + _letters_for_numbers(-1, arguments[-1]) if has_result else ""), tuple(arguments[: 2 * pairs : 2])


def _letters_for_numbers(k: int, numbers: Any) -> str:
    """Return a letter for each of `numbers`, the axes of operand `k`, or of the result for `k` -1; "..." for Ellipsis.

    Raise ArgumentError for anything but a list, tuple, range or 1-D array of Ellipsis and integers from 0 to 51.
    """
    owner = f"operand {k}" if k >= 0 else "the result"
    if isinstance(numbers, range) or (hasattr(numbers, "tolist") and getattr(numbers, "ndim", 0) == 1):
        numbers = list(numbers)
    if not isinstance(numbers, (list, tuple)):
        argument_text = f"a {type(numbers).__name__} of shape {numbers.shape}" if hasattr(numbers, "shape") else repr(numbers)
        raise ArgumentError(
            f"einsum: the axes of {owner} must be numbered by a list like [0, 1], not {argument_text}; or give subscripts like 'ij,jk->ik'"
            " before the operands"
        )
    letters = ""
    for number in numbers:
        if number is Ellipsis:
            letters += ELLIPSIS
        elif str(getattr(number, "dtype", "int")).lstrip("u")[:3] != "int":
            raise ArgumentError(
                f"einsum: the axes of {owner} must be integers like [0, 1], not of {number.dtype}; or give subscripts like 'ij,jk->ik'"
                " before"
                " the operands"
            )
        elif not hasattr(number, "__index__") or not 0 <= number.__index__() < len(LETTERS):
            raise ArgumentError(
                f"einsum: {number!r} in {numbers!r} numbers no axis of {owner}; give integers from 0 to {len(LETTERS) - 1}, or ..."
            )
        else:
            letters += LETTERS[number]
    return letters
