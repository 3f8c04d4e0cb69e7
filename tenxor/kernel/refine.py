"""Loops cut where a chain of views turns, so that what was a division at every element becomes a step of a loop.

A read through a chain finds its element by dividing a number into digits. If a loop is cut in two where a digit of that
number wraps around, each part moves one digit alone, and the chain becomes a single view. Reading `t.T.reshape(-1)`
then runs over the rows and columns of `t.T`.
"""

from __future__ import annotations

from ..layout import contiguous_strides
from .drafted import Draft, Place

Cuts = dict[int, tuple[int, ...]]  # axis -> the extents of the axes that take its place


def refine(d: Draft) -> None:
    """Cut loops of a draft wherever that makes a chain shorter and no other access worse."""
    assert d.out is not None
    for k in range(len(d.places) + 1):
        while place(d, k).layout.base is not None:
            cuts = turns(d, place(d, k))
            if not cuts or not cut(d, cuts, k):
                break


def place(d: Draft, k: int) -> Place:
    """Access number `k`; the last one is the result's."""
    assert d.out is not None
    return d.places[k] if k < len(d.places) else d.out


def turns(d: Draft, p: Place) -> Cuts:
    """The loops along which a digit of the number that an access computes wraps around at even distances."""
    base = p.layout.base
    assert base is not None
    found: Cuts = {}
    for axis, size, stride in zip(p.loops, p.layout.shape, p.layout.strides, strict=True):
        reach = size * abs(stride)
        inner = [
            boundary // abs(stride)
            for boundary in sorted(set(contiguous_strides(base.shape)))
            if 0 < abs(stride) < boundary < reach and boundary % stride == 0 and reach % boundary == 0
        ]
        if inner and axis != d.scan and axis not in d.chosen:
            ends = [*reversed(inner), 1]
            sizes = [outer // inside for outer, inside in zip([size, *ends], ends, strict=False)]
            found[axis] = tuple(sizes)
    return found


def cut(d: Draft, cuts: Cuts, k: int) -> bool:
    """Cut loops, unless that leaves access `k` as deep a chain as it was, or makes another deeper."""
    assert d.out is not None
    layouts = []
    for n, p in enumerate([*d.places, d.out]):
        shape = [size for axis in p.loops for size in cuts.get(axis, (d.extents[axis],))]
        layout = p.layout.reshape(shape)
        if layout.depth > p.layout.depth - (n == k):
            return False
        layouts.append(layout)
    new = {axis: d.new_axes(sizes) for axis, sizes in cuts.items()}

    def after(loops: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([part for axis in loops for part in new.get(axis, (axis,))])

    for p, layout in zip([*d.places, d.out], layouts, strict=True):
        p.layout, p.loops = layout, after(p.loops)
    d.space = after(d.space)
    for f in d.reductions:
        f.around, f.axes = after(f.around), after(f.axes)
        f.last = None if f.last is None else after((f.last,))[-1]
    return True
