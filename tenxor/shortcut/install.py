"""Building, linking and installing the fast path: `ShortWay` holds the generated code and swaps the methods of `Tensor`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from .. import node as nodes
from .. import spec
from ..backend.llvm.cache import text_of
from ..backend.llvm.compiler import Compiler, compiler
from ..backend.threads import changed, meeting
from ..dtypes import ALL, OF_NUMPY, DType, boolean
from ..errors import TenxorError
from ..frameless import functions, standing_in
from ..host import machine
from ..host.orders import SEARCHED
from ..late import Late
from ..layout import Layout
from ..layout.form import _forms, forgotten
from ..locking import interpreters
from ..memory import Buffer, lent
from ..node import Node, Recipe, Scalar
from ..ops import OPS, Op
from ..ops.reductions import Reduction
from ..ownership import Looks, short_looks
from ..past import GONE, NOTHING, Again, Past, short_again
from ..pending import forget_gone, waiting
from ..plans.parts import SUM
from ..plans.pattern import short_walks
from ..plans.steps import DONE, Cell, short_runs
from ..pool import pool
from ..realize import forgetting, lock, short_ways
from ..spec import Caller, Made, Spec, callers, hearers, spec_of
from ..spec import forget as forget_made
from ..storage import Element, Storage, Watched
from ..tensor import Tensor
from ..tensor.arguments import Default
from ..tensor.copying import Copier, Joiner, copiers, joiners
from ..tensor.core import FOUND_OUT, UNINITIALIZED, Core, found_out
from ..tensor.exchange import UFUNCS, is_of_numpy, makers
from ..tensor.making import Maker
from ..undisturbed import at_once
from . import alone, attributes, frames, likewise, wholes
from . import functions as calls
from .frames import NEVER
from .hosting import hears
from .learn import (
    FALSE,
    FOLLOWED,
    TRUE,
    comes_again,
    is_computed,
    key_of_creation,
    learn_creation,
    learning,
    learning_any_operation,
    learning_in_place,
    learning_operation,
    telling,
)
from .limits import COUNTS, IN_ORDER, LARGEST
from .methods import METHODS, Kind, Method
from .moves import (
    ARRAYS,
    among_slices,
    gathered,
    key_of_ours,
    learn_joined,
    learn_picked,
    learn_rows,
    learning_added,
    one_key,
    words_of_key,
)
from .objects import REUSED, Objects
from .patience import patience
from .reuse import stand_in
from .rule import Program
from .selected import Selected, finishers
from .signatures import signature
from .slots import ENTRIES, NUMBERS, WRAPPED, Standing, wrapper
from .updates import have_apart, learn_update
from .writes import as_number, compute_if_small, done_again, filling, learn_masked_write, learn_write

CREATING = ("create_again", "list_again", "array_again", "blank", "fill_from_list", "fill_from_buffer")
OF_DERIVATIVES = ("make_again", "pasts_known", "pasts_outlined", "batch_outlined")
BY_NUMPY = (  # generated functions called where the package would call NumPy
    *[f"search_{dtype}" for dtype in SEARCHED],
    "interpolate",
    *[f"{name}_{kind}" for kind in IN_ORDER for name in ("distinct", "put")],
)
FUNCTIONS = (
    *("is_basic", "forget_specs", "spec_for_python", "data_for_python", "node_number", "recipe_number", "finish_selected"),
    *("python_computed", "python_computed_alone", "run_steps", "take_pattern"),
    *("kind_of_call", "kind_of_graph", "forget_kinds", "made_by", "worked_out"),
    *("count_waiting", "still_waiting", "held_by_others"),
    *("specs_of", "copy_pieces", "copy_alike", "join_again", "call_again", *OF_DERIVATIVES),
    *CREATING,
    *BY_NUMPY,
    *("block_dies", "block_shows", "release_blocks"),
    *[f"{cls}_dies" for cls in REUSED],
    *ENTRIES,
    *NUMBERS,
    *map(calls.symbol_of, calls.KINDS),
)
DATA = ("objects", "counts", "number_of_node", "number_of_recipe", "patience", "meeting", "stood_there")

NUMBERS_LEFT = 1 << 14  # numbers left for threads still using the old counter; the shared counter begins beyond

stretch_found = Late("tenxor.shortcut.stretches").found  # loaded with the first backward pass of another size


class _MethodDef(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("size", ctypes.c_int),
        ("item_size", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


class _GetSet(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("get", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("closure", ctypes.c_void_p),
    )


_new_method = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)(("PyDescr_NewMethod", ctypes.pythonapi))
_new_attribute = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.POINTER(_GetSet))(
    ("PyDescr_NewGetSet", ctypes.pythonapi)
)


def linked(objects: Objects, made: Compiler) -> tuple[Any, str]:
    """Return the linked code for `objects`, and a text that says where it comes from. Emit code only on a cache miss."""

    def emitted() -> str:
        from ..backend.llvm.builder import Module
        from .code.methods import module

        return str(module(objects, Module(made.whole)))

    exported = (*FUNCTIONS, *DATA, *[method.symbol for method in METHODS])
    return made._library("shortcut", text_of("shortcut") + objects.identity, emitted, exported)


class ShortWay:
    """The Python objects used by the generated code and, after `linked`, the code itself with everything kept alive for it. Building has no
    effect outside this object, so a build may be abandoned. Then `begin` announces the code to other modules, for good; `install` puts
    the generated methods into `Tensor`, and `remove` takes them out, each in a single step. `aside` disables them for a while.
    """

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.begun = False
        self.static = {m.name: next(vars(cls)[m.name] for cls in Tensor.__mro__ if m.name in vars(cls)) for m in METHODS}
        self.inherited = {m.name for m in METHODS if m.name not in vars(Tensor)}
        self.replaced = {name: getattr(found, "fget", found) for name, found in self.static.items()}
        self.replaced |= {name: partial(found_out, name=name) for name in FOUND_OUT}
        own = {f"own {m.name}": self._own(m) for m in METHODS}
        own["own __getitem__"], own["own __setitem__"] = self.indexed, self.assigned
        own["own index_add_"] = learning_added(self.replaced["index_add_"])
        own["own fill_"] = filling(self.replaced["fill_"], lambda x, key, value: self.methods["__setitem__"](x, key, value))
        points = {d: spec_of(Layout.contiguous(()), d) for d in ALL}
        named = {
            **{cls.__name__: cls for cls in (Buffer, Node, Recipe, Scalar, Made, Spec, Storage, Element, Tensor, Past)},
            "int": int,
            "float": float,
            **{d.name: d for d in ALL},
            **{f"op {name}": op for name, op in OPS.items()},
            **own,
            **{f"'{m.name}'": m.name for m in METHODS},
            "bool type": bool,
            "NoneType": type(None),
            "DType": DType,
            "Default": Default,
            "str": str,
            "type": type,
            "tuple": tuple,
            "slice": slice,
            "list": list,
            "...": ...,
            "slice(None)": slice(None),
            "TRUE": TRUE,
            "FALSE": FALSE,
            "FOLLOWED": FOLLOWED,
            "points": tuple(points.values()),
            **{f"point {d.name}": spec for d, spec in points.items()},
            "'shape'": "shape",
            "'dtype'": "dtype",
            "'write'": "write",
            "'update'": "update",
            "'spec'": "spec",
            "'offset'": "offset",
            "'picked'": "picked",
            "'__call__'": "__call__",
            "'rows'": "rows",
            "None": None,
            "True": True,
            "False": False,
            "()": (),
            "(0,)": (0,),
            "(1,)": (1,),
            "(0, 0)": (0, 0),
            "never": NEVER,
            "itself": spec.itself,
            "Shared": frames.Shared,
            "sum": SUM,
            "Op": Op,
            "Reduction": Reduction,
            "lent": lent,
            "of NumPy": OF_NUMPY,
            "made_with": spec.spec_of_numbers,
            "forget forms": _forms.clear,
            "rules": likewise._known,
            "recipes through": spec._through,
            "forget made": forget_made,
            "DATA": nodes.DATA,
            "EMPTY": nodes.EMPTY,
            "with frames": frames.with_frames,
            "forget frames": frames.forget_unless_busy,
            "tables": spec._tables,
            "ufuncs": UFUNCS,
            "remembered": spec.remembered,
            "empty array": np.empty,
            "is_computed": is_computed,
            **{str(k): k for k in range(3)},
            "pool": pool,
            "lock": interpreters(lock),
            "take lock": interpreters(lock).acquire,
            "let go of lock": interpreters(lock).release,
            "MemoryError": MemoryError,
            "IndexError": IndexError,
            "AttributeError": AttributeError,
            "uninitialized": UNINITIALIZED,
            "have_framed": alone.have_framed,
            "have_graph_framed": wholes.have_graph_framed,
            "graphs": wholes.graphs,
            "have_update_framed": wholes.have_update_framed,
            "updates": wholes.updates,
            "plans of graphs": wholes.plans,
            "have_apart": have_apart,
            "learn_update": learn_update,
            "learn_rows": learn_rows,
            "Selected": Selected,
            "UPDATE": nodes.UPDATE,
            "waiting": waiting,
            "forget_gone": forget_gone,
            "follow": nodes.follow,
            "tracking": nodes.tracking,
            "NOTHING": NOTHING,
            "GONE": GONE,
            "TRACED": nodes.TRACED,
            "CONSTANT": nodes.CONSTANT,
            "UNFINISHED": nodes.UNFINISHED,
            "PLACEHOLDER": nodes.PLACEHOLDER,
            "Hosted": nodes.Hosted,
            "Watched": Watched,
            "Cell": Cell,
            "DONE": DONE,
            "Block": None,  # created by `linked`
        }
        self.named, self.objects = named, Objects(named)

    def linked(self, aside: Callable[[], AbstractContextManager[None]]) -> ShortWay:
        """Link the generated code, create the objects to call it, and return `self`. Nothing calls them before `install`."""
        named = self.named
        self.library, self.origin = linked(self.objects, compiler())
        self.block_type = named["Block"] = self._block_type()
        table = (ctypes.c_void_p * len(self.objects.names)).from_address(self.library["objects"])
        for name, k in self.objects.names.items():
            table[k] = id(named[name])
        self.kept.append(named)
        for name, told in (("patience", patience), ("meeting", meeting)):
            ctypes.c_int64.from_address(self.library[name]).value = ctypes.addressof(told)
        self.counts = (ctypes.c_int64 * COUNTS).from_address(self.library["counts"])
        self.computed = [self._function(f"python_{name}", Kind.ONE) for name in ("computed", "computed_alone")]
        self.finish = self._function("finish_selected", Kind.ONE)
        self.run_steps = self._function("run_steps", Kind.SOME)
        self.gathered = learning("__getitem__", gathered, words_of_key)
        self.again = Again(*[*[self._function(name, Kind.SOME) for name in OF_DERIVATIVES], stretch_found])
        self.take_pattern = self._function("take_pattern", Kind.SOME)
        self.looks = Looks(*[self._function(name, Kind.SOME) for name in ("count_waiting", "still_waiting", "held_by_others")])
        self.is_basic = self._function("is_basic", Kind.ONE)
        self.copier = Copier(*[self._function(name, Kind.SOME) for name in ("specs_of", "copy_pieces", "copy_alike")])
        self.caller = Caller(self._function("call_again", Kind.SOME), learning, telling)
        kinds, of_graphs, made_by = (self._function(name, Kind.SOME) for name in ("kind_of_call", "kind_of_graph", "made_by"))
        self.machine = likewise.Machine(kinds, of_graphs, made_by, self._function("forget_kinds", Kind.NOTHING), aside)
        self.joiner = Joiner(self._function("join_again", Kind.SOME), learn_joined)
        creating = [self._function(name, Kind.SOME) for name in CREATING]
        self.maker = Maker(*creating, comes_again=comes_again, key_of=key_of_creation, learn=learn_creation, small=LARGEST)
        self.release = ctypes.PYFUNCTYPE(None)(self.library["release_blocks"])
        self.methods = {m.name: self._method(m) for m in METHODS}
        self.operators, self.calling = Standing(self.library.addresses, Tensor), calls.Calling(self.library)
        return self

    def begin(self) -> None:
        """Announce the generated code to other modules, once; `self` must never die afterwards. If deallocators cannot be replaced, raise
        LookupError and change nothing. No user code may run meanwhile; other threads may, since each step is complete in itself.
        """
        if self.begun:
            return
        stand_in(self.library.addresses, self.named, self.block_type)
        self.begun = True
        for kind, counter in (("node", "_number"), ("recipe", "_recipe_number")):
            first = getattr(nodes, counter)() + NUMBERS_LEFT
            ctypes.c_int64.from_address(self.library[f"number_of_{kind}"]).value = first
            setattr(nodes, counter, self._function(f"{kind}_number", Kind.NOTHING))  # a counter shared by Python and generated code
        self._keep_specs()
        Program.worked_out = self._function("worked_out", Kind.SOME)
        attributes.tell()
        forgotten.append(self.maker.forget)
        forgetting.extend((frames.forget, wholes.forget, likewise.forget, forget_made))

    def _own(self, method: Method) -> Any:
        """Return the fallback of a method in Python, with recording of the results if the fast path can replay them."""
        own = self.replaced[method.name]
        name = method.name
        if method.in_place:
            return learning_in_place(OPS[method.in_place], own, lambda x, y: self.methods[name](x, y))
        if method.op:
            return learning_operation(OPS[method.op], own, method.comes_last)
        if name == "_with":
            return learning_any_operation(own)
        return learning(name, own) if method.learns else own

    def _keep_specs(self) -> None:
        """Have the generated code store existing and future specs, and recipes of data in memory, for its own look-up."""
        forget, keep = self._function("forget_specs", Kind.NOTHING), self._function("spec_for_python", Kind.SOME)

        def keep_all() -> None:
            for form in list(_forms.values()):
                for found in list(form.specs.values()):
                    if found.strides is not None:
                        keep(found.dtype, found.shape, found.strides, found)

        spec.keepers[:] = [keep]  # first, so that a spec created meanwhile by another thread is stored too
        keep_all()
        forgotten.extend((forget, keep_all))
        has_data = self._function("data_for_python", Kind.SOME)
        nodes.keepers[:] = [has_data]
        for recipe in list(nodes._recipes.values()):
            if recipe.op is nodes.DATA:
                has_data(recipe.dtype, recipe.shape, recipe)

    def _block_type(self) -> Any:
        dealloc, get_buffer = 52, 1  # Py_tp_dealloc, Py_bf_getbuffer
        slots = (_Slot * 3)(
            _Slot(dealloc, self.library["block_dies"]), _Slot(get_buffer, self.library["block_shows"]), _Slot(0, None)
        )
        spec = _Spec(b"tenxor.Block", 64, 0, 1 << 7, slots)  # Py_TPFLAGS_DISALLOW_INSTANTIATION
        self.kept += [slots, spec]
        make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_Spec))(("PyType_FromSpec", ctypes.pythonapi))
        return make(ctypes.byref(spec))

    def _definition(self, name: str, symbol: str, flags: int, doc: str | None = None) -> Any:
        found = _MethodDef(name.encode(), self.library[symbol], flags, None if doc is None else doc.encode())
        self.kept.append(found)
        return ctypes.byref(found)

    def _function(self, name: str, kind: Kind) -> Any:
        """Return a built-in function that calls the generated function `name`; `kind` is its calling convention."""
        make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
            ("PyCFunction_NewEx", ctypes.pythonapi)
        )
        return make(ctypes.cast(self._definition(name, name, kind.value), ctypes.c_void_p), None, None)

    def _method(self, method: Method) -> Any:
        doc = self.static[method.name].__doc__ or Core.__slots__.get(method.name) or ""
        if method.kind is Kind.ATTRIBUTE:
            found = _GetSet(method.name.encode(), self.library[method.symbol], None, doc.encode(), None)
            self.kept.append(found)
            return _new_attribute(Tensor, ctypes.byref(found))
        text = f"{method.name}{signature(self.replaced[method.name])}\n--\n\n{doc}"
        if method.name in WRAPPED:
            return wrapper(Tensor, method.name, self.library[WRAPPED[method.name]], text, self.kept)
        definition = self._definition(method.name, method.symbol, method.kind.value, text)
        return _new_method(Tensor, ctypes.cast(definition, ctypes.c_void_p))

    def install(self) -> None:
        """Install the fast path in one step: no method is visible before the code called by it. No user code may run meanwhile."""
        pool.small, pool.release_small = self.counts, self.release
        pool.relieved()
        hooks: tuple[tuple[list[Any], list[Any]], ...] = (
            (standing_in, [self.calling.stand_in]),
            (changed, [likewise.forget, wholes.forget_at_once, forget_made]),  # rules first: other threads may make launch records by them
            (short_ways, self.computed),
            (finishers, [self.finish]),
            (short_runs, [(self.run_steps, frames.frame_of_plan)]),
            (short_walks, [self.take_pattern]),
            (short_looks, [self.looks]),
            (short_again, [self.again]),
            (copiers, [self.copier]),
            (callers, [self.caller]),
            (hearers, [hears]),
            (joiners, [self.joiner]),
            (makers, [self.maker]),
            (likewise.machine, [self.machine]),
        )
        at_once((
            *[partial(list.__setitem__, hook, slice(None), its) for hook, its in hooks],
            partial(machine.functions.update, {name: self.library[name] for name in BY_NUMPY}),
            *[partial(setattr, Tensor, name, method) for name, method in self.methods.items()],
            *attributes.going(),
            *self.calling.standing_in(functions),
            *self.operators.standing_in(),
        ))
        at_once((*self.operators.standing_in(), *self.calling.standing_in(functions)))  # slots known only now; new functions

    def remove(self) -> None:
        """Restore the fallback in one step. Memory blocks in use stay valid. No user code may run meanwhile."""
        hooks: tuple[list[Any], ...] = (changed, finishers, short_ways, short_runs, short_walks, short_looks, short_again)
        hooks += (copiers, callers, hearers, joiners, makers, standing_in)
        there = [name for name in self.methods if name in vars(Tensor)]
        at_once((
            *[hook.clear for hook in hooks],
            machine.functions.clear,
            *self.calling.leaving(),
            *attributes.coming_back(),
            *[partial(delattr, Tensor, name) for name in there if name in self.inherited],
            *[partial(setattr, Tensor, name, self.static[name]) for name in there if name not in self.inherited],
        ))

    def indexed(self, x: Tensor, key: Any) -> Any:
        """Return `x[key]`, which the generated code has left to Python. With NumPy arrays in `key`, call the generated code again with
        tensors; else use the fallback, and record the call if `key` has tensors or lists.
        """
        ours = key_of_ours(x, key)
        if ours is not key:
            return self.methods["__getitem__"](x, ours)
        parts = key if type(key) is tuple else (key,)
        has_arrays = type(x) is Tensor and Tensor in map(type, parts)
        view, *axes = (has_arrays and among_slices(x, parts)) or (x, *parts)
        if has_arrays and words_of_key(view, *axes):
            found = self.gathered(view, *axes)
        else:
            found = self.replaced["__getitem__"](x, key)
        if type(found) is Tensor and type(x) is Tensor and type(key) in ARRAYS:
            learn_picked(x, key)
        return found

    def assigned(self, x: Tensor, key: Any, value: Any) -> None:
        """Assign `x[key] = value` by the fallback, and record a write of a view. Convert NumPy arrays first."""
        ours = key_of_ours(x, key)
        if ours is not key or is_of_numpy(value):
            self.methods["__setitem__"](x, ours, Tensor._ours(value))
            return
        if (rows := one_key(x, key)) is not None:
            self.methods["__setitem__"](*rows, value)
            return
        value = as_number(x, value)
        basic = type(x) is Tensor and self.is_basic((x, key))
        masked = not basic and type(x) is Tensor and type(key) is Tensor and key.dtype is boolean
        if basic or masked:
            compute_if_small(x.storage)
        if basic and self._learnt(x, key, value):
            done_again(self.methods["__setitem__"], x, key, value)
            return
        self.replaced["__setitem__"](x, key, value)
        if type(x) is Tensor and type(key) in ARRAYS:
            learn_picked(x, key)
        if masked:
            learn_masked_write(x, key, value)

    def _learnt(self, x: Tensor, key: Any, value: Any) -> bool:
        """Return whether a write of `value` over the view `x[key]` was recorded now, so that the fast path can do it from now on."""
        if type(value) not in (Tensor, float, int, bool):
            return False
        try:
            view = self.methods["__getitem__"](x, key)  # by generated code, to get the spec used there
            return view.storage is x.storage and learn_write(view, value, lambda: _may_be(view, value))
        except TenxorError:  # raised by the fallback, with a better message
            return False


def _may_be(view: Tensor, value: Any) -> bool:
    """Return whether no two elements of a view share memory, so that a value may be written over it; raise an error if it does not fit."""
    if not view.layout.is_injective():
        return False
    view._source_of(value, "assignment")
    return True
