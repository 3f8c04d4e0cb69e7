"""Building, linking and installing the fast path: `FastPath` holds the generated machine code and swaps the methods of `Tensor`. A
generated method does ordinary calls by itself, and calls the fallback, the original method in Python, for every other call. Recording
stores a result of the fallback as a template, by which the generated method does such calls later.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from types import FunctionType
from typing import Any

import numpy as np

from .._utils import upcalls
from .._utils.cache_registry import CacheRecord
from .._utils.exclude_user_code import call_atomically
from .._utils.lazy import LazyFunctions
from .._utils.locks import get_interpreter_lock
from .._utils.patchable import patchable_functions
from .._utils.upcalls import (
    CallReplay,
    CopyFunctions,
    InterningFunctions,
    JoinFunctions,
    RefcountQueries,
    SizeGenericFunctions,
    TapeReplay,
)
from ..autodiff.leaf_storage import LeafStorage
from ..autodiff.tape import FREED_SOURCES, TapeNode
from ..codegen.threads.thread_count import worker_handle
from ..dtypes import ALL_DTYPES, DTYPE_BY_NUMPY_DTYPE, DType, boolean
from ..errors import TenxorError, name_tensor_method
from ..graph import node as nodes
from ..graph import spec
from ..graph.node import NO_RESIDUALS, Node, Recipe, Scalar
from ..graph.spec import ChainViewTemplate, InMemoryTemplate, NumpyCallTemplate, Spec, clear_templates, intern_spec
from ..graph.storage import ScalarStorage, Storage
from ..layout import Layout
from ..layout.layout_key import MAX_LAYOUT_KEYS, _layout_keys, layout_keys
from ..memory.block_pool import pool
from ..memory.buffer import Buffer, try_allocate
from ..ops import OPS, Op
from ..ops.reductions import Reduction
from ..runtime.call_recording import open_context_count
from ..runtime.pending_limits import pending_refs, prune_pending_refs
from ..runtime.plan_execution import RELEASED_SLOT, BufferSlot
from ..runtime.realize import compute_lock
from ..runtime.unfused_plans import SUM
from ..tensor import Tensor
from ..tensor.argument_parsing import NamedDefault
from ..tensor.conversion_methods import FUNCTION_OF_UFUNC, is_numpy_value
from ..tensor.core import LAZY_ATTRIBUTES, UNINITIALIZED, TensorBase, resolve_lazy_attribute
from ..tensor.creation_cache import CreationFunctions
from . import foreign_attributes, graph_launch, launch_records, node_launch, size_generic
from . import vectorcall_switch as calls
from .copy_descriptors import (
    ROW_KEY_TYPES,
    apply_slices,
    convert_numpy_key,
    describe_index_keys,
    gather,
    merge_index_keys,
    record_join,
    record_row_count,
    record_row_selection,
    wrap_index_add,
)
from .deallocators import replace_deallocators
from .host_reports import note_report
from .launch_records import NO_LAUNCH_RECORD
from .limits import BLOCK_COUNTER_WORDS, MAX_SMALL_BLOCK_BYTES
from .machine_code import CREATION_FUNCTIONS, DERIVATIVE_FUNCTIONS, NUMPY_SUBSTITUTES, MachineCode
from .method_table import METHODS, CallingConvention, Method
from .object_layout import ObjectTable
from .recorder import (
    FALSE_KEY,
    TAPE_MASK_MARKER,
    TRUE_KEY,
    build_creation_key,
    compute_if_possible,
    is_worth_recording,
    trace_creation,
    wrap_announcing,
    wrap_any_operation,
    wrap_in_place,
    wrap_operation,
    wrap_recording,
)
from .sized_template import VARIANTS
from .text_signatures import build_text_signature
from .type_slots import WRAPPED_SYMBOLS, SlotSwitch, make_slot_wrapper
from .update_recipes import record_copying_variant, record_update
from .value_tables import build_value_tables
from .write_recorder import (
    can_write,
    compute_if_small,
    may_overlap,
    record_masked_write,
    record_write,
    retry_in_fast_path,
    unwrap_scalar,
    wrap_fill,
)

RESERVED_SERIAL_NUMBERS = 1 << 14  # numbers left for threads still using the old counter; the shared counter begins beyond

# Imported with the first backward pass of another size
get_segment_steps = LazyFunctions("tenxor.fastpath.segment_templates").get_segment_steps


class _MethodDef(ctypes.Structure):
    """CPython's `PyMethodDef`, the description of a built-in method."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


class _TypeSlot(ctypes.Structure):
    """CPython's `PyType_Slot`: the number of a slot, and the function for it."""

    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _TypeSpec(ctypes.Structure):
    """CPython's `PyType_Spec`, the description of a new type."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("size", ctypes.c_int),
        ("item_size", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_TypeSlot)),
    )


class _GetSet(ctypes.Structure):
    """CPython's `PyGetSetDef`, the description of an attribute with a getter."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("get", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("closure", ctypes.c_void_p),
    )


_new_method = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)(("PyDescr_NewMethod", ctypes.pythonapi))
_new_attribute = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.POINTER(_GetSet))(("PyDescr_NewGetSet", ctypes.pythonapi))
_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


class FastPath:
    """The Python objects used by the generated code and, after `link`, the code itself with everything kept alive for it.

    Building has no effect outside this object, so a build may be abandoned. Then `announce` announces the code to other modules, for good;
    `install` puts the generated methods into `Tensor`, and `remove` takes them out, each in a single step. The context manager that `link`
    takes disables the methods for a while.
    """

    def __init__(self) -> None:
        self.kept_alive: list[Any] = []
        self.is_announced = False
        attributes = dict(chain.from_iterable([vars(cls).items() for cls in reversed(Tensor.__mro__)]))
        self.original_attributes = {m.name: attributes[m.name] for m in METHODS}
        self.inherited_names = {m.name for m in METHODS if m.name not in vars(Tensor)}
        self.fallbacks = {name: getattr(attribute, "fget", attribute) for name, attribute in self.original_attributes.items()}
        self.fallbacks |= {name: partial(resolve_lazy_attribute, name=name) for name in LAZY_ATTRIBUTES}
        recording_fallbacks = {f"fallback {m.name}": self._build_fallback(m) for m in METHODS}
        for method in METHODS:
            fallback = recording_fallbacks[f"fallback {method.name}"]
            if isinstance(fallback, FunctionType) and fallback.__code__.co_name == "method":
                original = self.fallbacks[method.name]
                name = getattr(original, "__name__", "")  # `max` for the alias `amax`, as without the fast path
                name_tensor_method(fallback, name if self.fallbacks.get(name) is original else method.name)
        recording_fallbacks["fallback __getitem__"], recording_fallbacks["fallback __setitem__"] = self.get_item, self.set_item
        recording_fallbacks["fallback index_add_"] = wrap_index_add(self.fallbacks["index_add_"])
        recording_fallbacks["fallback fill_"] = wrap_fill(
            self.fallbacks["fill_"], lambda x, key, value: self.methods["__setitem__"](x, key, value)
        )
        scalar_specs = {d: intern_spec(Layout.contiguous(()), d) for d in ALL_DTYPES}
        objects_by_name = {
            **{cls.__name__: cls for cls in (Buffer, Node, Recipe, Scalar, Spec, Storage, ScalarStorage, Tensor, TapeNode)},
            "int": int,
            "float": float,
            **build_value_tables(),
            **{d.name: d for d in ALL_DTYPES},
            **{f"op {name}": op for name, op in OPS.items()},
            **recording_fallbacks,
            **{f"'{m.name}'": m.name for m in METHODS},
            "bool type": bool,
            "NoneType": type(None),
            "DType": DType,
            "NamedDefault": NamedDefault,
            "str": str,
            "type": type,
            "tuple": tuple,
            "slice": slice,
            "list": list,
            "...": ...,
            "slice(None)": slice(None),
            "TRUE": TRUE_KEY,
            "FALSE": FALSE_KEY,
            "TAPE_MASK_MARKER": TAPE_MASK_MARKER,
            "0-d specs": tuple(scalar_specs.values()),
            **{f"0-d spec {d.name}": spec for d, spec in scalar_specs.items()},
            "None": None,
            "True": True,
            "False": False,
            "()": (),
            "(0,)": (0,),
            "(1,)": (1,),
            "(0, 0)": (0, 0),
            "NO_LAUNCH_RECORD": NO_LAUNCH_RECORD,
            "SharedLaunchRecord": launch_records.SharedLaunchRecord,
            "sum": SUM,
            "Op": Op,
            "Reduction": Reduction,
            "try_allocate": try_allocate,
            "dtype of NumPy dtype": DTYPE_BY_NUMPY_DTYPE,
            "intern_strided_spec": spec.intern_strided_spec,
            "clear layout keys": _layout_keys.clear,
            "templates_by_signature": size_generic._templates_by_signature,
            "fast_path_recipes": spec._fast_path_recipes,
            "clear_templates": clear_templates,
            "DATA": nodes.DATA,
            "EMPTY": nodes.EMPTY,
            "recipes_with_records": launch_records.recipes_with_records,
            "drop_records_unless_busy": launch_records.drop_records_unless_busy,
            "used_tables": spec._used_tables,
            "ufuncs": FUNCTION_OF_UFUNC,
            "count_new_templates": spec.count_new_templates,
            "empty array": np.empty,
            "compute_if_possible": compute_if_possible,
            **{str(k): k for k in range(3)},
            "pool": pool,
            "lock": get_interpreter_lock(compute_lock),
            "acquire lock": get_interpreter_lock(compute_lock).acquire,
            "release lock": get_interpreter_lock(compute_lock).release,
            "MemoryError": MemoryError,
            "IndexError": IndexError,
            "AttributeError": AttributeError,
            "uninitialized": UNINITIALIZED,
            "store_node_record": node_launch.store_node_record,
            "store_graph_record": graph_launch.store_graph_record,
            "graph_records": graph_launch.graph_records,
            "store_update_record": graph_launch.store_update_record,
            "update_records": graph_launch.update_records,
            "plans_in_use": graph_launch.plans_in_use,
            "record_copying_variant": record_copying_variant,
            "record_update": record_update,
            "record_row_count": record_row_count,
            "UPDATE": nodes.UPDATE,
            "pending_refs": pending_refs,
            "prune_pending_refs": prune_pending_refs,
            "attach_tape_node": nodes.attach_tape_node,
            "tape_mode": nodes.tape_mode,
            "NO_RESIDUALS": NO_RESIDUALS,
            "FREED_SOURCES": FREED_SOURCES,
            "TRACED": nodes.TRACED,
            "CONSTANT": nodes.TRACED_CONSTANT,
            "UNFINISHED": nodes.UNFINISHED,
            "PLACEHOLDER": nodes.PLACEHOLDER,
            "ExternalOp": nodes.ExternalOp,
            "LeafStorage": LeafStorage,
            "BufferSlot": BufferSlot,
            "RELEASED_SLOT": RELEASED_SLOT,
            **{cls.__name__: cls for cls in (*VARIANTS, InMemoryTemplate, ChainViewTemplate, NumpyCallTemplate)},
            "Block": None,  # created by `link`
        }
        self.objects_by_name, self.object_table = objects_by_name, ObjectTable(objects_by_name)

    def link(self, code: MachineCode, disable: Callable[[], AbstractContextManager[None]]) -> None:
        """Create the objects to call the machine code `code`: methods, functions and switches. Nothing calls them before `install`.

        `code` is a pair: the linked code, a mapping from symbols to addresses, and the origin of the code as a text. `disable` returns a
        context manager that disables the fast path; the recorder uses it while tracing.
        """
        objects_by_name = self.objects_by_name
        self.library, self.origin = code
        self.block_type = objects_by_name["Block"] = self._make_block_type()
        table = (ctypes.c_void_p * len(self.object_table.indices)).from_address(self.library["objects"])
        for name, k in self.object_table.indices.items():
            table[k] = id(objects_by_name[name])
        self.kept_alive.append(objects_by_name)
        for name, variable in (("open_context_count", open_context_count), ("worker_handle", worker_handle)):
            ctypes.c_int64.from_address(self.library[name]).value = ctypes.addressof(variable)
        self.result_count = ctypes.c_int64.from_address(self.library["result_count"])
        self.block_counts = (ctypes.c_int64 * BLOCK_COUNTER_WORDS).from_address(self.library["block_byte_counters"])
        self.compute, self.compute_one_of_several = (
            self._make_function(f"python_{name}", CallingConvention.ONE_ARGUMENT) for name in ("compute_node", "compute_unfused")
        )
        self.run_steps = self._make_function("run_steps", CallingConvention.POSITIONAL)
        self.encode_steps = launch_records.build_plan_record
        self.recorded_gather = wrap_recording("__getitem__", gather, describe_index_keys)
        self.tape_replay = TapeReplay(
            *[*[self._make_function(name, CallingConvention.POSITIONAL) for name in DERIVATIVE_FUNCTIONS], get_segment_steps]
        )
        self.capture_signature = self._make_function("python_capture", CallingConvention.POSITIONAL)
        self.refcount_queries = RefcountQueries(
            *[self._make_function(name, CallingConvention.POSITIONAL) for name in ("count_pending", "filter_pending", "find_owned")]
        )
        self.is_basic = self._make_function("is_basic", CallingConvention.ONE_ARGUMENT)
        self.copy_functions = CopyFunctions(
            *[
                self._make_function(name, CallingConvention.POSITIONAL)
                for name in ("python_store_specs", "python_copy_tensors", "python_copy_equal_tensors")
            ]
        )
        self.call_replay = CallReplay(self._make_function("replay_call", CallingConvention.POSITIONAL), wrap_recording, wrap_announcing)
        compute_signature, compute_graph_signature, instantiate, run_bytecode = (
            self._make_function(name, CallingConvention.POSITIONAL)
            for name in ("python_sign_call", "python_sign_graph", "python_instantiate", "python_evaluate")
        )
        self.size_generic_functions = SizeGenericFunctions(
            compute_signature,
            compute_graph_signature,
            instantiate,
            run_bytecode,
            self._make_function("clear_signatures", CallingConvention.NO_ARGUMENTS),
            disable,
        )
        self.join_functions = JoinFunctions(self._make_function("replay_join", CallingConvention.POSITIONAL), record_join)
        creation_functions = [self._make_function(name, CallingConvention.POSITIONAL) for name in CREATION_FUNCTIONS]
        self.creation_functions = CreationFunctions(
            *creation_functions,
            list_recipes=objects_by_name["list recipes"],
            array_recipes=objects_by_name["array recipes"],
            is_worth_recording=is_worth_recording,
            build_key=build_creation_key,
            record=trace_creation,
            max_small_bytes=MAX_SMALL_BLOCK_BYTES,
        )
        self.numpy_substitutes = {name: self.library[name] for name in NUMPY_SUBSTITUTES}
        self.release_blocks = ctypes.PYFUNCTYPE(None)(self.library["release_blocks"])
        self.methods = {m.name: self._make_method(m) for m in METHODS}
        self.slot_switch, self.vectorcall_switch = (
            SlotSwitch(self.library.addresses, Tensor),
            calls.VectorcallSwitch(self.library.addresses),
        )
        self.set_vectorcall_entry = self.vectorcall_switch.redirect

    def announce(self) -> None:
        """Announce the generated code to other modules, once; `self` must never die afterwards.

        Replace the deallocators of small objects, and add descriptors for foreign names. Python and the code share the counters of serial
        numbers and the table of specs from now on. If deallocators cannot be replaced, raise LookupError and change nothing. The caller
        must exclude user code (`exclude_user_code`). Other threads may run, since each step is complete in itself.
        """
        if self.is_announced:
            return
        replace_deallocators(self.library.addresses, self.objects_by_name, self.block_type)
        self.is_announced = True
        for kind, counter in (("node", "_next_serial"), ("recipe", "_next_recipe_serial")):
            first_serial = getattr(nodes, counter)() + RESERVED_SERIAL_NUMBERS
            ctypes.c_int64.from_address(self.library[f"next_{kind}_serial"]).value = first_serial
            # A counter shared by Python and generated code
            setattr(nodes, counter, self._make_function(f"{kind}_number", CallingConvention.NO_ARGUMENTS))
        self._share_specs()
        foreign_attributes.install_descriptors()
        CacheRecord(
            "created tensors",
            "the recipe and spec of a new tensor, by arguments of the call",
            __name__,
            self.creation_functions.clear,
            self.creation_functions.count_entries,
            depends_on=(layout_keys,),
        )

    def _build_fallback(self, method: Method) -> Any:
        """Return the Python function that the generated code of `method` calls when it declines: the fallback, possibly in a wrapper.

        If the fast path can replay the results of the method, the wrapper records them.
        """
        fallback = self.fallbacks[method.name]
        name = method.name
        if method.in_place_op:
            return wrap_in_place(OPS[method.in_place_op], fallback, lambda x, y: self.methods[name](x, y))
        if method.op:
            return wrap_operation(OPS[method.op], fallback, method.comes_last)
        if name == "_apply":
            return wrap_any_operation(fallback)
        if not method.is_recorded:
            return fallback
        is_attribute = method.convention is CallingConvention.ATTRIBUTE
        return wrap_recording(name, fallback, None, None if is_attribute else lambda *args, **named: self.methods[name](*args, **named))

    def _share_specs(self) -> None:
        """Have the generated code store existing and future specs, and recipes of data in memory, in its own table
        (`fastpath/emit/spec_table.py`). A cleared cache of layout keys empties and refills the table.
        """
        forget = self._make_function("clear_specs", CallingConvention.NO_ARGUMENTS)
        keep, keep_data = (self._make_function(name, CallingConvention.POSITIONAL) for name in ("python_find_spec", "python_data_recipe"))

        def keep_all() -> None:
            """Store every spec with strides in the table of the generated code."""
            for layout_key in list(_layout_keys.values()):
                for tensor_spec in list(layout_key.specs.values()):
                    if tensor_spec.strides is not None:
                        keep(tensor_spec.dtype, tensor_spec.shape, tensor_spec.strides, tensor_spec)

        def renew() -> None:
            """Empty the table, and store every spec with strides again."""
            forget()
            keep_all()

        # First, so that a spec or recipe created meanwhile by another thread is stored too
        upcalls.interning = InterningFunctions(keep, keep_data)
        keep_all()
        spec_count = ctypes.c_int64.from_address(self.library["spec_count"])
        CacheRecord(
            "specs of the fast path",
            "a spec or a recipe of data, by dtype, shape and strides",
            __name__,
            renew,
            lambda: spec_count.value,
            max_entries=MAX_LAYOUT_KEYS,
            depends_on=(layout_keys,),
        )
        for recipe in list(nodes._recipes.values()):
            if recipe.op is nodes.DATA:
                keep_data(recipe.dtype, recipe.shape, recipe)

    def _make_block_type(self) -> Any:
        """Return the Python type of small memory blocks, a new type with the generated deallocator and buffer function."""
        dealloc, get_buffer = 52, 1  # Py_tp_dealloc, Py_bf_getbuffer
        slots = (_TypeSlot * 3)(
            _TypeSlot(dealloc, self.library["dealloc_block"]), _TypeSlot(get_buffer, self.library["get_block_buffer"]), _TypeSlot(0, None)
        )
        spec = _TypeSpec(b"tenxor.Block", 64, 0, 1 << 7, slots)  # Py_TPFLAGS_DISALLOW_INSTANTIATION
        self.kept_alive += [slots, spec]
        make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_TypeSpec))(("PyType_FromSpec", ctypes.pythonapi))
        return make(ctypes.byref(spec))

    def _define_method(self, name: str, symbol: str, flags: int, doc: str | None = None) -> int:
        """Return the address of a new `PyMethodDef` for the method name `name`, kept alive by this object.

        `symbol` names the generated function, `flags` is the value of a `CallingConvention`, and `doc` the docstring, or None.
        """
        definition = _MethodDef(name.encode(), self.library[symbol], flags, None if doc is None else doc.encode())
        self.kept_alive.append(definition)
        return ctypes.addressof(definition)

    def _make_function(self, name: str, kind: CallingConvention) -> Any:
        """Return a built-in Python function that calls the generated function `name` of the calling convention `kind`."""
        return _new_function(self._define_method(name, name, kind.value), None, None)

    def _make_method(self, method: Method) -> Any:
        """Return the attribute of `Tensor` that calls the generated code of `method`.

        The attribute is a method, a property, or the slot wrapper of an operator, and has the docstring of the original attribute.
        """
        doc = self.original_attributes[method.name].__doc__ or TensorBase.__slots__.get(method.name) or ""
        if method.convention is CallingConvention.ATTRIBUTE:
            attribute = _GetSet(method.name.encode(), self.library[method.symbol], None, doc.encode(), None)
            self.kept_alive.append(attribute)
            return _new_attribute(Tensor, ctypes.byref(attribute))
        text = f"{method.name}{build_text_signature(self.fallbacks[method.name])}\n--\n\n{doc}"
        if method.name in WRAPPED_SYMBOLS:
            return make_slot_wrapper(Tensor, method.name, self.library[WRAPPED_SYMBOLS[method.name]], text, self.kept_alive)
        return _new_method(Tensor, self._define_method(method.name, method.symbol, method.convention.value, text))

    def install(self) -> None:
        """Install the fast path in one step: no method is visible before the code called by it. `link` and `announce` must have been
        called.

        The caller must exclude user code (`exclude_user_code`).
        """
        pool.small_block_bytes, pool.release_small_blocks = self.block_counts, self.release_blocks
        pool.reset_pressure()
        call_atomically(
            (
                partial(setattr, upcalls, "host_call_observer", note_report),
                partial(setattr, upcalls, "size_generic", self.size_generic_functions),
                partial(setattr, upcalls, "installed", self),
                *[partial(setattr, Tensor, name, method) for name, method in self.methods.items()],
                *foreign_attributes.get_removal_steps(),
                *self.vectorcall_switch.get_install_steps(patchable_functions),
                *self.slot_switch.get_install_steps(),
            )
        )
        # Slots that are known only after the first step, and functions created meanwhile
        call_atomically((*self.slot_switch.get_install_steps(), *self.vectorcall_switch.get_install_steps(patchable_functions)))

    def remove(self) -> None:
        """Restore the fallback in one step: every method runs in Python. Memory blocks in use stay valid.

        The context `disabled` calls this method, and the build if a test fails. The caller must exclude user code (`exclude_user_code`).
        """
        installed_names = [name for name in self.methods if name in vars(Tensor)]
        call_atomically(
            (
                partial(setattr, upcalls, "installed", None),
                partial(setattr, upcalls, "host_call_observer", None),
                *self.vectorcall_switch.get_removal_steps(),
                *foreign_attributes.get_restoration_steps(),
                *[partial(delattr, Tensor, name) for name in installed_names if name in self.inherited_names],
                *[
                    partial(setattr, Tensor, name, self.original_attributes[name])
                    for name in installed_names
                    if name not in self.inherited_names
                ],
            )
        )

    def get_item(self, x: Tensor, key: Any) -> Any:
        """Return `x[key]`, which the generated code has left to Python.

        With NumPy arrays or integers in `key`, call the generated code again with tensors and ints (`convert_numpy_key`). Otherwise use the
        fallback. Record the call if `key` is a tensor or a list, or a tuple with an index tensor that generated code can check
        (`describe_index_keys`).
        """
        converted_key = convert_numpy_key(x, key)
        if converted_key is not key:
            return self.methods["__getitem__"](x, converted_key)
        key_items = key if type(key) is tuple else (key,)
        has_arrays = type(x) is Tensor and Tensor in map(type, key_items)
        view, *axes = (has_arrays and apply_slices(x, key_items)) or (x, *key_items)
        if has_arrays and describe_index_keys(view, *axes):
            result = self.recorded_gather(view, *axes)
        else:
            result = self.fallbacks["__getitem__"](x, key)
        if type(result) is Tensor and type(x) is Tensor and type(key) in ROW_KEY_TYPES:
            record_row_selection(x, key)
        return result

    def set_item(self, x: Tensor, key: Any, value: Any) -> None:
        """Do `x[key] = value`, which the generated code has left to Python, and record the write so that generated code can do the next.

        With NumPy arrays or integers in `key`, a NumPy value, or index tensors that one index tensor can replace (`merge_index_keys`), call
        the generated code again. A write to a basic key is recorded first, and then done by the generated code. Any other write, or one
        that cannot be recorded, is done by the fallback; selected rows and masks are recorded afterwards. A pending small `x` is computed
        first for a basic key or a mask. A value that overlaps `x[key]` is copied first.
        """
        converted_key = convert_numpy_key(x, key)
        if converted_key is not key or is_numpy_value(value):
            self.methods["__setitem__"](x, converted_key, Tensor._from_array_or_same(value))
            return
        if (rows := merge_index_keys(x, key)) is not None:
            self.methods["__setitem__"](*rows, value)
            return
        value = unwrap_scalar(x, value)
        basic = type(x) is Tensor and self.is_basic((x, key))
        if basic and type(value) is Tensor and value.storage is x.storage:
            value = self._copy_if_overlapping(x, key, value)
        masked = not basic and type(x) is Tensor and type(key) is Tensor and key.dtype is boolean
        if basic or masked:
            compute_if_small(x.storage)
        if basic and self._record_write(x, key, value):
            retry_in_fast_path(self.methods["__setitem__"], x, key, value)
            return
        self.fallbacks["__setitem__"](x, key, value)
        if type(x) is Tensor and type(key) in ROW_KEY_TYPES:
            record_row_selection(x, key)
        if masked:
            record_masked_write(x, key, value)

    def _copy_if_overlapping(self, x: Tensor, key: Any, value: Tensor) -> Tensor:
        """Return the tensor to write over the view `x[key]`: a copy of `value` if both may overlap, and otherwise `value` itself.

        `value` is a view of the same storage as `x`. The copy is made by the generated code, which does the same at later calls. Return
        `value`, too, if `x[key]` raises an error.
        """
        try:
            overlaps = may_overlap(self.methods["__getitem__"](x, key), value)
        except TenxorError:  # raised by the fallback, with a better message
            return value
        return self.methods["copy"](value) if overlaps else value

    def _record_write(self, x: Tensor, key: Any, value: Any) -> bool:
        """Record how `value` is written over the view `x[key]`, without writing. Return whether the fast path can now do the write.

        Return False if the write was recorded before, if no launch record can do it, or if `x[key]` is no view or raises an error. Also
        return False for a `value` other than a tensor, float, int or bool. The caller then uses the fallback.
        """
        if type(value) not in (Tensor, float, int, bool):
            return False
        try:
            view = self.methods["__getitem__"](x, key)  # a view with the spec that generated code uses
            return view.storage is x.storage and record_write(view, value, lambda: can_write(view, value))
        except TenxorError:  # raised by the fallback, with a better message
            return False


name_tensor_method(FastPath.get_item, "__getitem__")
name_tensor_method(FastPath.set_item, "__setitem__")
