"""Reports of results that NumPy computed, collected while the fast path records a call. A report names the operands and the results, and
says how to compute the results again. The functions that call NumPy (`api/host_calls.py`) send the reports. `host_call_recorder.py` turns a
report into a result template, by which the generated code replays the call without Python.
"""

from __future__ import annotations

from _thread import get_ident  # `threading` provides the same function, but imports more
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .._utils.records import NamedTuple
from ..tensor import Tensor

if TYPE_CHECKING:
    from ..native.direct_call import DirectCall


class HostReport(NamedTuple):
    """A report of one computation by NumPy: the operand tensors `operands`, the result tensors `results`, and two ways to repeat it.

    `compute` is a function of NumPy arrays with the elements of the operands; it returns arrays for the results. `direct_call` describes a
    direct call (`DirectCall`). Either may be None. `make_direct_call` returns the description for further operands; it is given if the
    computation was announced by `report_direct_call` rather than performed by NumPy.
    """

    operands: Sequence[Tensor]
    results: Sequence[Tensor]
    compute: Callable[..., Any] | None
    direct_call: DirectCall | None
    make_direct_call: Callable[..., DirectCall | None] | None = None


_reports_by_thread: dict[int, list[HostReport]] = {}  # by id of the thread with an open `collect_reports` context


@contextmanager
def collect_reports() -> Iterator[list[HostReport]]:
    """Return a context that collects the reports of computations by NumPy in this thread while open. It gives a list of `HostReport`s,
    which grows.

    Contexts may be nested: at its end, an inner context passes the reports on to the outer context.
    """
    thread_id, reports = get_ident(), list[HostReport]()
    outer_reports = _reports_by_thread.get(thread_id)
    _reports_by_thread[thread_id] = reports
    try:
        yield reports
    finally:
        if outer_reports is None:
            del _reports_by_thread[thread_id]
        else:
            _reports_by_thread[thread_id] = outer_reports
            outer_reports += reports


def note_report(*fields: Any) -> None:
    """Add a report of a computation by NumPy to the list of the innermost open `collect_reports` context of this thread, if any.

    The arguments `fields` are the fields of `HostReport`. While the fast path is installed, this function is the `HostCallObserver` that
    the functions with calls of NumPy call.
    """
    reports = _reports_by_thread.get(get_ident())
    if reports is not None:
        reports.append(HostReport(*fields))
