"""Operators as machine code (`fastpath/emit/slot_functions.py`), called by the interpreter through the slots of the type.

In a Python class the slot of `x[key]` or `x += y` holds a function of the interpreter. It looks the method up by name, each time, and calls
it as any function, which takes as long as reading an element. So the fast path overwrites these slots with generated functions that call
the emitted body of the method directly, and call the original slot function when they decline. If user code assigns another method to the
class, the interpreter restores its own function.

For `x + y` the interpreter first compares the slots of both types; if they differ, it tries a subclass first. So subclasses without a
method of their own need the same slot. They inherit it if the methods are slot wrappers, as in classes written in C, where `__add__` and
`__radd__` wrap one function.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

# Offsets, in bytes, in a type object: `tp_as_number`, `tp_as_sequence` and `tp_as_mapping`; and of the slots in these tables.
TP_AS_NUMBER_OFFSET, _TP_AS_SEQUENCE_OFFSET, _TP_AS_MAPPING_OFFSET = 96, 104, 112
IN_PLACE_SLOT_OFFSETS = {
    **{"iadd": 152, "isub": 160, "imul": 168, "imod": 176, "ilshift": 192, "irshift": 200, "iand": 208, "ixor": 216, "ior": 224},
    **{"ifloordiv": 248, "itruediv": 256},
}
UNARY_SLOT_OFFSETS = {"neg": 48, "pos": 56, "abs": 64, "invert": 80, "int": 128, "float": 144, "index": 264}
BINARY_SLOT_OFFSETS = {
    **{"add": 0, "sub": 8, "mul": 16, "mod": 24, "lshift": 88, "rshift": 96, "and": 104, "xor": 112, "or": 120},
    **{"floordiv": 232, "truediv": 240},
}
COMPARISON_METHODS = ("lt", "le", "eq", "ne", "gt", "ge")  # in the order of CPython's constants Py_LT to Py_GE
# By the symbol of the generated function: the method whose presence fills the slot, the table, and the offset of the slot in the table.
SLOT_LOCATIONS: dict[str, tuple[str, int, int]] = {
    "slot_getitem": ("__getitem__", _TP_AS_MAPPING_OFFSET, 8),
    "slot_setitem": ("__setitem__", _TP_AS_MAPPING_OFFSET, 16),
    "slot_item": ("__getitem__", _TP_AS_SEQUENCE_OFFSET, 24),
    "slot_bool": ("__bool__", TP_AS_NUMBER_OFFSET, 72),
    "slot_compare": ("__lt__", 0, 200),
    **{
        f"slot_{name}": (f"__{name}__", TP_AS_NUMBER_OFFSET, offset)
        for name, offset in (*UNARY_SLOT_OFFSETS.items(), *IN_PLACE_SLOT_OFFSETS.items())
    },
}
# The slot function that each method wraps
WRAPPED_SYMBOLS = {f"__{r}{name}__": f"slot_{name}" for name in BINARY_SLOT_OFFSETS for r in ("", "r")}
BINARY_SYMBOLS = tuple(dict.fromkeys(WRAPPED_SYMBOLS.values()))
# Offset, in bytes, of the pointer to the `wrapperbase` in a slot wrapper.
_WRAPPER_BASE_OFFSET = 40
SLOT_INDICES = {name: k for k, name in enumerate(SLOT_LOCATIONS)}


class _WrapperBase(ctypes.Structure):
    """CPython's `struct wrapperbase`, the description of a slot wrapper."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("offset", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("wrapper", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("flags", ctypes.c_int),
        ("name_strobj", ctypes.c_void_p),
    )


_new_wrapper = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.POINTER(_WrapperBase), ctypes.c_void_p)(
    ("PyDescr_NewWrapper", ctypes.pythonapi)
)


def make_slot_wrapper(cls: type, name: str, function: int, text: str, kept_alive: list[Any]) -> Any:
    """Return a slot wrapper for `cls`: a method `name` of an operator that calls the slot function at the address `function`.

    `text` holds the text signature and the docstring. The wrapper points to a description, which is appended to `kept_alive` to stay alive.
    The description is a changed copy from the wrapper `name` of `int`; raise LookupError if the layout of the latter is unexpected.
    """
    int_wrapper = vars(int)[name]
    if type(int_wrapper).__basicsize__ != _WRAPPER_BASE_OFFSET + 16:
        raise LookupError(f"a slot wrapper of int has {type(int_wrapper).__basicsize__} bytes; it must have {_WRAPPER_BASE_OFFSET + 16}")
    int_base = ctypes.POINTER(_WrapperBase).from_address(id(int_wrapper) + _WRAPPER_BASE_OFFSET).contents
    if int_base.name != name.encode() or int_base.name_strobj != id(int_wrapper.__name__):
        raise LookupError(f"the slot wrapper int.{name} is not laid out as expected")
    wrapper_base = _WrapperBase(
        int_base.name, int_base.offset, int_base.function, int_base.wrapper, text.encode(), int_base.flags, int_base.name_strobj
    )
    kept_alive.append(wrapper_base)
    return _new_wrapper(cls, ctypes.byref(wrapper_base), function)


def _view_slot(cls: type, table: int, entry: int) -> ctypes.c_void_p:
    """Return a slot of the type `cls`, as a writable view of the type's memory.

    `table` is the offset in the type of the pointer to the table of the slot, in bytes (0: the slot is in the type object itself), and
    `entry` is the offset of the slot in the table, in bytes. Raise LookupError if the type has no such table.
    """
    address = id(cls)
    if table:
        address = ctypes.c_void_p.from_address(address + table).value or 0
        if not address:
            raise LookupError(f"the type {cls.__name__} has no table of slots at offset {table}")
    return ctypes.c_void_p.from_address(address + entry)


class SlotSwitch:
    """The switch that has the interpreter call generated slot functions for the operators of the class `cls`.

    `library` maps the symbols of the slot functions to their addresses. The methods of the class must be installed first.
    """

    def __init__(self, library: Mapping[str, int], cls: type) -> None:
        self._library, self._class = library, cls
        self._entries: list[tuple[ctypes.c_void_p, int]] = []  # the slots, each with the address of its generated function

    def get_install_steps(self) -> list[Callable[[], object]]:
        """Return a list of C functions without arguments; calling them writes the generated functions into the slots of the class.

        The installer must call them each time after it has assigned the methods to the class. The list is empty before the first
        assignment. Raise LookupError if a slot of the class holds an unexpected function.
        """
        if (
            not self._entries
            and _view_slot(self._class, TP_AS_NUMBER_OFFSET, BINARY_SLOT_OFFSETS["add"]).value == self._library["slot_add"]
        ):
            self._entries = self._check_slots()
        return [partial(setattr, slot, "value", address) for slot, address in self._entries]

    def _check_slots(self) -> list[tuple[ctypes.c_void_p, int]]:
        """Return the slots to overwrite, each with the address of its generated function, and tell generated code the original functions.

        Raise LookupError unless each slot holds the function found there in any class with the method, and not the function found in a
        class without. The slots of binary operators must already hold generated functions, filled in by the interpreter from the slot
        wrappers.
        """
        library, cls, entries = self._library, self._class, []
        for name, entry in BINARY_SLOT_OFFSETS.items():
            if _view_slot(cls, TP_AS_NUMBER_OFFSET, entry).value != library[f"slot_{name}"]:
                raise LookupError(f"the slot of __{name}__ does not hold the function that its slot wrapper calls")
        nothing = type("Nothing", (), {"__slots__": ()})
        for name, (method, table, entry) in SLOT_LOCATIONS.items():
            slot = _view_slot(cls, table, entry)
            expected_slot = _view_slot(type("Like", (), {method: lambda *_: None, "__hash__": None}), table, entry)
            value_without_method = _view_slot(nothing, table, entry).value
            if (
                not slot.value
                or slot.value != expected_slot.value
                or (value_without_method and value_without_method == expected_slot.value)
            ):
                raise LookupError(f"the slot of {method} does not hold the expected function")
            ctypes.c_void_p.from_address(library["original_slot_functions"] + 8 * SLOT_INDICES[name]).value = slot.value
            entries.append((slot, library[name]))
        return entries
