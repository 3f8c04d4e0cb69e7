"""The loop IR as text: a kernel as the lines of a small program."""

from __future__ import annotations

import re

from ...dtypes import DType
from ...ops.expr import Expr, substitute
from .leaves import COMPONENT_SUFFIXES, axis_name, show_address
from .statements import Accumulate, Accumulator, Contraction, For, Init, LoopAxis, Operand, Prefetch, RowStore, Statement, TileLoad, Update

Axes = tuple[LoopAxis, ...]
Accumulators = tuple[Accumulator, ...]
Body = tuple[Statement, ...]


class _OldElement(Expr):
    """The previous value of an element, with which an `Accumulate` statement combines another; shown as `held`."""

    __slots__ = ("component",)

    def __init__(self, component: str, dtype: DType) -> None:
        self.component = component
        self._set(dtype, component)

    def __repr__(self) -> str:
        return f"held{self.component}"


def format_kernel(
    name: str,
    operands: tuple[Operand, ...],
    scalars: tuple[DType, ...],
    axes: Axes,
    accumulators: Accumulators,
    body: Body,
) -> list[str]:
    """Return the lines of the text of a kernel: a header with `name`, `operands` and `scalars`, and the statements indented by loop depth.

    `scalars` are the dtypes of the scalar parameters. The remaining arguments are fields of `Kernel`.
    """
    args = [f"{'out ' if o.written else ''}p{i}: {o.dtype}" for i, o in enumerate(operands)]
    args += [f"c{i}: {d}" for i, d in enumerate(scalars)]
    lines = [f"kernel {name}({', '.join(args)})"]
    _show_body(axes, accumulators, body, 1, lines)
    return lines


def _show_body(axes: Axes, accumulators: Accumulators, body: Body, depth: int, lines: list[str]) -> None:
    """Append the lines of the statements `body` to `lines`, indented by `depth` levels.

    `axes` and `accumulators` are the numbered parts of the kernel.
    """
    pad = "  " * depth

    rows = {f"r{k}": f.row_axis for k, f in enumerate(accumulators) if f.row_axis >= 0}

    def in_rows(line: str) -> str:
        """Return the line with an index after each state that belongs to a row of states."""
        return re.sub(r"\b(r\d+)(\.\d+)?", lambda m: m[0] + (f"[{axis_name(rows[m[1]])}]" if m[1] in rows else ""), line)

    for s in body:
        if isinstance(s, For):
            axis = axes[s.axis]
            mode = ("parallel " if axis.parallel else "") + ("vector " if axis.vector else "")
            name, extent = axis_name(s.axis), f"s{axis.extent}"
            if s.block:
                lines.append(f"{pad}blocks of {s.block} {name} in 0..{extent}{', as a whole' if s.is_undivided else ''}:")
                _show_body(axes, accumulators, s.body, depth + 1, lines)
                continue
            jam = f", {s.jam_factor} abreast" if s.jam_factor > 1 else ""
            lines.append(f"{pad}{mode}for {name} in 0..{extent}{jam}:")
            _show_body(axes, accumulators, s.body, depth + 1, lines)
        elif isinstance(s, Init):
            lines.append(in_rows(f"{pad}r{s.accumulator} = {accumulators[s.accumulator].reduction.name}.identity"))
        elif isinstance(s, Update):
            for k, value in enumerate(s.values):
                lines.append(in_rows(f"{pad}r{s.accumulator}{f'.{k}' if k else ''} = {value!r}"))
        elif isinstance(s, Prefetch):
            mode, clause = ("read", "") if s.by_reading else ("prefetch", f" of the next {axis_name(s.axis)}")
            lines.append(f"{pad}{mode} p{s.operand}[{show_address(s.address)}]{clause}")
        elif isinstance(s, RowStore):
            lines.append(in_rows(f"{pad}kept{s.row_buffer}[{axis_name(s.axis)}] = {s.value!r}"))
        elif isinstance(s, Contraction):
            _show_contraction(axes, accumulators, s, depth, lines)
        elif isinstance(s, TileLoad):
            lines.append(f"{pad}tile{s.tile} = p{s.operand}[{show_address(s.address)}] over the blocks")
        elif isinstance(s, Accumulate):
            address_text, components = show_address(s.address, indices=s.indices), COMPONENT_SUFFIXES if len(s.values) > 1 else ("",)
            old_values = [_OldElement(component, v.dtype) for component, v in zip(components, s.values, strict=True)]
            for component, value in zip(components, s.new_values, strict=True):
                lines.append(f"{pad}p{s.operand}[{address_text}]{component} = {substitute(value, (*old_values, *s.values))!r}")
        else:
            mode = " streamed" if s.is_nontemporal else ""
            if s.predicate is not None:
                lines.append(f"{pad}where {s.predicate!r}:")
                pad += "  "
            for component, value in zip(COMPONENT_SUFFIXES if s.imag is not None else ("",), s.values, strict=True):
                lines.append(in_rows(f"{pad}p{s.operand}[{show_address(s.address)}]{component} ={mode} {value!r}"))


def _show_contraction(axes: Axes, accumulators: Accumulators, s: Contraction, depth: int, lines: list[str]) -> None:
    """Append the lines of the contraction `s` to `lines`, indented by `depth` levels.

    `axes` and `accumulators` are the numbered parts of the kernel.
    """
    pad = "  " * depth
    row, column, step = axis_name(s.left.axis), axis_name(s.right.axis), ", ".join(map(axis_name, s.summed_axes))
    rows, columns = (f"s{axes[side.axis].extent}" for side in (s.left, s.right))
    symmetry = f" from {row} on, and mirrored" if s.symmetric_pairs else ""
    ahead = f", the next {axis_name(s.prefetch_axis)} prefetched" if s.prefetch_axis >= 0 else ""
    ahead += ", the next panel prefetched" if s.prefetches_panels else ""
    lines.append(f"{pad}product for {row} in 0..{rows}, {column} in 0..{columns}{symmetry}, over {step}{ahead}:")
    for name, side in (("left", s.left), ("right", s.right)):
        mode = " packed" if side.is_packed else ""
        lines += [f"{pad}  {name}{k}[{axis_name(side.axis)}, {step}] ={mode} {e!r}" for k, e in enumerate(side.values)]
    for component, value in enumerate(s.values):
        lines.append(f"{pad}  r{s.accumulator}{f'.{component}' if component else ''}[{row}, {column}] = {value!r}")
    _show_body(axes, accumulators, s.body, depth + 1, lines)
