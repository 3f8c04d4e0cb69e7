"""A builder of LLVM functions that work on CPython objects, as a C extension would: object layouts, reference counts, declining.

An emitted function declines by returning null (or 0), without a result; the fallback in Python then does the work. Before it declines,
it releases the references that it holds. `hold_borrowed` takes a reference that each later exit releases; `transfer_held` says that the
reference was passed on to another owner. Both are bookkeeping at emit time: every exit block releases exactly the references held where
it is emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...codegen.llvm.builder import Block, Builder, Module, Value, select
from ...codegen.llvm.types import I1, I32, I64, POINTER, VOID, Type, array
from ..limits import HAS_IMMORTAL_OBJECTS
from ..object_layout import (
    DIGIT_BITS,
    DIGITS_OFFSET,
    HAS_SIGNED_DIGIT_COUNT,
    REFCOUNT_OFFSET,
    REUSED_CLASSES,
    SIZE_OFFSET,
    TUPLE_ITEMS_OFFSET,
    TWO_DIGIT_SIZE_WORD,
    TYPE_OFFSET,
    UNTRACKED_CLASSES,
    ObjectTable,
)

ValueEmitter = Callable[[], Value]
# For each class, the slots that `__init__` sets. They are empty in an object made by `object.__new__`, or after user code deleted an
# attribute; the fallback in Python raises the error for these.
SLOTS_SET_BY_INIT = {"Tensor": ("storage", "dtype"), "Storage": ("node",)}


class FunctionBuilder(Builder):
    """A builder of one LLVM function, called `name` in `module`, that works on CPython objects (`ptr`) and 64-bit integers.

    The methods are called in Python while the code is made. They emit instructions at the cursor, and return `Value`s: results at run time.
    A test returns an `i1`. `parameters` are the names and types of the emitted function's arguments, which are the `Value`s `arguments`;
    `result` is the type that it returns. `objects` is the table where names of Python objects and slots are looked up. With `is_exported`,
    Python can find the function by name; otherwise only other emitted functions call the function.

    An early exit leaves the work to the caller of the emitted function: it releases the held references, and returns null or 0. A reference
    is held from the call of `hold_borrowed` or `hold_owned` until that of `transfer_held` or `release_held`, in the order of emission.
    """

    def __init__(
        self,
        module: Module,
        objects: ObjectTable,
        name: str,
        parameters: Sequence[tuple[str, Type]],
        result: Type = POINTER,
        *,
        is_exported: bool = False,
    ) -> None:
        super().__init__(module, name, parameters, result, is_exported=is_exported)
        self.objects, self.result = objects, result
        self._locals: list[str] = []
        self._held: list[Value] = []
        self._exits: dict[tuple[str, ...], Block] = {}

    # Objects and memory

    def load_object(self, name: str) -> Value:
        """Emit a load of the object called `name` in the table `@objects`; `name` is a key of `FastPath.objects_by_name`, such as "op add".
        Return the object, a borrowed reference. Raise KeyError at build time for an unknown name.
        """
        index = self.objects.get_index(name)
        return self.define(POINTER, f"load ptr, ptr getelementptr (ptr, ptr @objects, i64 {index})")

    def i64(self, value: int) -> Value:
        """Return a constant of type `i64`."""
        return self.constant(I64, value)

    def null(self) -> Value:
        """Return the null pointer."""
        return Value(self, POINTER, "null")

    def get_slot(self, x: Value, slot: str) -> Value:
        """Emit a load of a slot, named "Class.name", of the instance `x`. Return the content, a borrowed reference, or null if the slot is
        empty.
        """
        return self.address_at(x, self.objects.get_slot_offset(slot)).load(POINTER)

    def set_slot(self, x: Value, slot: str, value: Value) -> None:
        """Emit a store of `value` into a slot, named "Class.name". The slot takes over the reference; the old content is not released."""
        self.address_at(x, self.objects.get_slot_offset(slot)).store(value)

    def address_at(self, x: Value, offset: int) -> Value:
        """Emit the address `offset` bytes behind the address `x`, and return it. Nothing is loaded."""
        return self.define(POINTER, f"getelementptr i8, ptr {x.text}, i64 {offset}")

    def load_word(self, x: Value, offset: int) -> Value:
        """Emit a load of the 64-bit integer `offset` bytes behind the address `x`, and return the integer."""
        return self.address_at(x, offset).load(I64)

    def tuple_item(self, items: Value, k: int | Value) -> Value:
        """Emit a load of item `k` of a tuple, without a check of `k`. Return the item, a borrowed reference."""
        return self.address_at(items, TUPLE_ITEMS_OFFSET).at(k, POINTER).load(POINTER)

    def list_length(self, items: Value) -> Value:
        """Emit a call for the length of a list. Return the length, an `i64`."""
        return self.call("PyList_Size", I64, [items])

    def list_item(self, items: Value, k: Value) -> Value:
        """Emit a call for item `k` of a list. Return the item, a borrowed reference. For a shorter list, return null, with an IndexError
        set.
        """
        return self.call("PyList_GetItem", POINTER, [items, k])

    def append_to_list(self, items: Value, item: Value) -> None:
        """Emit an append of `item` to the list `items`, which takes a reference of its own. If memory runs out, an early exit is taken."""
        self.require(self.call("PyList_Append", I32, [items, item]).equals(0))

    def type_of(self, x: Value) -> Value:
        """Emit a load of the type of `x`. Return the type, a borrowed reference."""
        return self.address_at(x, TYPE_OFFSET).load(POINTER)

    def has_type(self, x: Value, name: str) -> Value:
        """Emit a test whether the type of `x` is exactly the class called `name`. Slots of `x` may be empty, unlike after `is_instance`."""
        return self.type_of(x).equals(self.load_object(name))

    def is_instance(self, x: Value, name: str) -> Value:
        """Emit a test whether the type of `x` is exactly the class called `name`, not a subclass. For the classes in `SLOTS_SET_BY_INIT`,
        the listed slots must also be set, so that later code need not test them.
        """
        has_class, slots = self.has_type(x, name), SLOTS_SET_BY_INIT.get(name)

        def are_set(slot: str, *further_slots: str) -> Value:
            is_set = ~self.is_null(self.get_slot(x, f"{name}.{slot}"))
            return is_set & are_set(*further_slots) if further_slots else is_set

        return has_class if slots is None else self.and_then(has_class, lambda: are_set(*slots))

    def raise_if_uninitialized(self, x: Value) -> None:
        """Emit a return of null with an AttributeError set, taken if `x` is a `Tensor` (no subclass) without storage or dtype. The code
        stands before a call of the fallback, which would raise a worse error. Held references are not released.
        """
        is_bare = self.and_then(self.has_type(x, "Tensor"), lambda: ~self.is_instance(x, "Tensor"))

        def set_error() -> Value:
            self.call("PyErr_SetObject", VOID, [self.load_object("AttributeError"), self.load_object("uninitialized")])
            return self.null()

        self.return_if(is_bare, set_error)

    def is_object(self, x: Value, name: str) -> Value:
        """Emit a test whether `x` is the object called `name` in the table `@objects`."""
        return x.equals(self.load_object(name))

    def is_null(self, x: Value) -> Value:
        """Emit a test whether the pointer `x` is null."""
        return self.define(I1, f"icmp eq ptr {x.text}, null")

    def local(self, kind: Type, value: Value | None = None) -> Value:
        """Emit an `alloca` for a mutable variable of type `kind`, and a store of its initial value if given. Return the address. Without
        `value`, the content is undefined.

        The `alloca` moves to the start of the function, so each iteration of a loop uses the same variable. The store stays at the cursor.
        """
        address = Value(self, POINTER, f"%local{len(self._locals)}")
        self._locals.append(f"  {address.text} = alloca {kind.text}, align 16")
        if value is not None:
            address.store(value)
        return address

    def __str__(self) -> str:
        """Return the text of the function in LLVM IR. The allocas of `local` are moved to the start of the entry block."""
        self.entry.lines[:0], self._locals = self._locals, []
        return super().__str__()

    # References

    def incref(self, x: Value) -> Value:
        """Emit the increment of the reference count of `x`, without holding the new reference. Return `x`."""
        address, count, step = self._load_refcount_word(x)
        address.store(count + step)
        return x

    def has_one_reference(self, x: Value) -> Value:
        """Emit a test whether the reference count of `x` is 1."""
        return self.load_refcount(x).equals(1)

    def load_refcount(self, x: Value) -> Value:
        """Emit a load of the reference count of `x`. Return the count, an `i32`."""
        return self.address_at(x, REFCOUNT_OFFSET).load(I32)  # since Python 3.12 the upper 32 bits of the word are not part of the count

    def decref(self, x: Value) -> None:
        """Emit the decrement of the reference count of `x`, and the deallocation of `x` if the count was 1. Python code may run."""
        address, count, step = self._load_refcount_word(x)
        address.store(count - step)
        self.only_if_unlikely(count.equals(1), lambda: self.call("_Py_Dealloc", VOID, [x]))

    def _load_refcount_word(self, x: Value) -> tuple[Value, Value, Value | int]:
        """Emit a load of the reference count of `x`. Return the address of the count, the count, and the step by which to change it: 1, or
        0 for an immortal object.
        """
        address = self.address_at(x, REFCOUNT_OFFSET)
        if not HAS_IMMORTAL_OBJECTS:
            return address, address.load(I64), 1
        count = address.load(I32)
        return address, count, (count >= 0).cast("zext", I32)

    def hold_borrowed(self, x: Value) -> Value:
        """Emit an increment of the reference count of `x`, and hold the new reference: early exits release it until `transfer_held` or
        `release_held` is called. Return `x`.
        """
        self._held.append(self.incref(x))
        return x

    def hold_owned(self, x: Value) -> Value:
        """Hold the reference `x`, which the emitted function owns already and which is not null. Emit no code, and return `x`.

        Early exits emitted from now on (`require`, `decline_if`, `decline`) release the reference, whether an error is set or not.
        `transfer_held` or `release_held` ends this. `emit_return` and `return_if` release nothing.
        """
        self._held.append(x)
        return x

    def transfer_held(self, *xs: Value) -> None:
        """Hold the references `xs` no longer, because another owner has taken them over. No code is emitted. Raise ValueError if one is not
        held.
        """
        for x in xs:
            self._held.remove(x)

    def release_held(self, *xs: Value) -> None:
        """Emit the release of the held references `xs`, and hold them no longer."""
        self.transfer_held(*xs)
        for x in xs:
            self.decref(x)

    # Control flow

    def require(self, condition: Value) -> None:
        """Emit an early exit taken unless `condition`, an `i1`, holds: release the held references and return null or 0."""
        next_block = self.block("on")
        self.branch_if(condition, next_block, self._get_exit_block(), (1000, 1))
        self.cursor.block = next_block

    def decline_if(self, condition: Value) -> None:
        """Emit an early exit taken if `condition`, an `i1`, holds: release the held references and return null or 0."""
        next_block = self.block("on")
        self.branch_if(condition, self._get_exit_block(), next_block, (1, 1000))
        self.cursor.block = next_block

    def decline(self) -> None:
        """Emit an early exit, always taken: release the held references and return null or 0. The block ends here."""
        self.branch(self._get_exit_block())

    def _get_exit_block(self) -> Block:
        """Return the block that releases the references held now, and returns null or 0. It is emitted on the first call; equal sets of
        held references share a block.
        """
        held = tuple([x.text for x in self._held])
        exit_block = self._exits.get(held)
        if exit_block is None:
            exit_block = self._exits[held] = self.block("declined")
            current_block, self.cursor.block = self.cursor.block, exit_block
            for x in self._held:
                self.call("Py_DecRef", VOID, [x])  # a call is less code than an inlined decrement, and exits are rarely taken
            self.emit_return(self.null() if self.result is POINTER else self.constant(self.result, 0))
            self.cursor.block = current_block
        return exit_block

    def emit_return(self, x: Value) -> None:
        """Emit a return of `x`. Held references are not released."""
        self.emit(f"ret {x.type.text} {x.text}")

    def require_new(self, x: Value) -> Value:
        """Emit an early exit if `x` is null, and hold `x`, a new reference, from here on (see `hold_owned`). Return `x`."""
        self.decline_if(self.is_null(x))
        return self.hold_owned(x)

    def emit_if(self, condition: Value, make: Callable[[], object]) -> None:
        """Emit the code of `make`, run where `condition` holds. `make` is called once, now, and its result is ignored."""
        self.only_if(condition, make)

    def return_if(self, condition: Value, make: ValueEmitter) -> None:
        """Emit a return of the value that `make` emits, taken where `condition` holds. The emission goes on behind it. Held references are
        not released.
        """
        inside, after = self.block("then"), self.block("after")
        self.branch_if(condition, inside, after)
        self.cursor.block = inside
        self.emit_return(make())
        self.cursor.block = after

    def and_then(self, condition: Value, emit_other: ValueEmitter) -> Value:
        """Emit a short-circuit `and` of two `i1`: the code of `emit_other` runs only if `condition` holds. Return the result."""
        return self.choose(condition, lambda: [emit_other()], lambda: [self.constant(I1, False)])[0]

    def or_else(self, condition: Value, emit_other: ValueEmitter) -> Value:
        """Emit a short-circuit `or` of two `i1`: the code of `emit_other` runs only if `condition` fails. Return the result."""
        return self.choose(condition, lambda: [self.constant(I1, True)], lambda: [emit_other()])[0]

    def for_range(self, count: Value, body: Callable[[Value], object]) -> None:
        """Emit a loop that runs the code of `body(k)` for k = 0, 1, ..., `count` - 1."""
        entry_block, head, inside, after = self.cursor.block, self.block("next"), self.block("body"), self.block("after")
        self.branch(head)
        self.cursor.block = head
        k = self.phi(I64, "k")
        k.add_incoming(self.i64(0), entry_block)
        self.branch_if(k < count, inside, after)
        self.cursor.block = inside
        body(k)
        k.add_incoming(k + 1, self.cursor.block)
        self.branch(head)
        self.cursor.block = after

    def fold_range(self, count: Value, initial_value: Value, body: Callable[[Value, Value], Value]) -> Value:
        """Emit a loop `value = body(k, value)` for k = 0, ..., `count` - 1, starting with `initial_value`. Return the final value.

        `body` emits the code of an iteration and returns the next value.
        """
        return self.fold_range_values(count, [initial_value], lambda k, values: [body(k, *values)])[0]

    def fold_range_values(
        self, count: Value, initial_values: Sequence[Value], body: Callable[[Value, Sequence[Value]], Sequence[Value]]
    ) -> list[Value]:
        """Emit a loop `values = body(k, values)` for k = 0, ..., `count` - 1, starting with `initial_values`. Return the final values.

        `body` emits the code of an iteration, and returns the next values, as many as before.
        """
        begin = [self.i64(0), *initial_values]
        return self.iterate_while(begin, lambda state: state[0] < count, lambda state: [state[0] + 1, *body(state[0], state[1:])])[1:]

    def iterate_while(
        self,
        initial_values: Sequence[Value],
        condition: Callable[[Sequence[Value]], Value],
        body: Callable[[Sequence[Value]], Sequence[Value]],
    ) -> list[Value]:
        """Emit a loop `values = body(values)`, starting with `initial_values`, while `condition(values)` holds. Return the final values.

        `condition` emits a test, run before each iteration. `body` emits the code of an iteration, and returns the next values, as many as
        before.
        """
        entry_block, head, inside, after = self.cursor.block, self.block("next"), self.block("body"), self.block("after")
        self.branch(head)
        self.cursor.block = head
        values = [self.phi(initial.type, "value") for initial in initial_values]
        for value, initial in zip(values, initial_values, strict=True):
            value.add_incoming(initial, entry_block)
        self.branch_if(condition(values), inside, after)
        self.cursor.block = inside
        for value, new_value in zip(values, body(values), strict=True):
            value.add_incoming(new_value, self.cursor.block)
        self.branch(head)
        self.cursor.block = after
        return list(values)

    def repeat_while(self, condition: ValueEmitter, body: Callable[[], object]) -> None:
        """Emit a loop that runs the code of `body` while the test emitted by `condition`, an `i1` run before each iteration, holds."""
        head, inside, after = self.block("again"), self.block("body"), self.block("after")
        self.branch(head)
        self.cursor.block = head
        self.branch_if(condition(), inside, after)
        self.cursor.block = inside
        body()
        self.branch(head)
        self.cursor.block = after

    # Python's integers, containers and calls

    def unbox_integer(self, x: Value) -> Value:
        """Emit the value of a Python integer, and return it as an `i64`. The integer must fit, or else the value is -1 with an error set;
        one-digit integers are read inline.
        """
        return self._unbox_one_digit(x, [], lambda: [self.call("PyLong_AsLongLong", I64, [x])])[0]

    def unbox_address(self, x: Value) -> Value:
        """Emit the value of a Python integer, and return it as an `i64`. The integer must fit. The integers mostly have two digits, as
        addresses have; these are read inline.
        """
        head, low = self._load_digit(x, 0)
        read_both = lambda: [low + (self._load_digit(x, 1)[1] << DIGIT_BITS)]
        return self.choose(head.equals(TWO_DIGIT_SIZE_WORD), read_both, lambda: [self.call("PyLong_AsLongLong", I64, [x])], (99, 1))[0]

    def unbox_checked(self, x: Value) -> tuple[Value, Value]:
        """Emit the value of any Python integer. Return the value as an `i64`, and an `i1`: whether the integer fits into 64 bits. If not,
        the value has no meaning, and no error is set.
        """

        def convert_long() -> list[Value]:
            over = self.local(I32)
            converted = self.call("PyLong_AsLongLongAndOverflow", I64, [x, over])
            return [converted, over.load(I32).equals(0)]

        value, fits = self._unbox_one_digit(x, [self.constant(I1, True)], convert_long)
        return value, fits

    def _load_digit(self, x: Value, k: int) -> tuple[Value, Value]:
        """Emit loads of the size word of a Python integer, with its sign and number of digits, and of digit `k`, of 30 bits. Return both as
        `i64`.
        """
        return self.load_word(x, SIZE_OFFSET), self.address_at(x, DIGITS_OFFSET + 4 * k).load(I32).cast("zext", I64)

    def _unbox_one_digit(self, x: Value, further_values: Sequence[Value], otherwise: Callable[[], Sequence[Value]]) -> list[Value]:
        """Emit a choice, and return the chosen values: for an integer of one digit its value, followed by `further_values`; for a longer
        integer the values that `otherwise` emits.
        """
        head, digit = self._load_digit(x, 0)
        small, sign = self.has_one_digit(x), head if HAS_SIGNED_DIGIT_COUNT else self.i64(1) - (head & 3)
        return self.choose(small, lambda: [sign * digit, *further_values], otherwise, (99, 1))

    def has_one_digit(self, x: Value) -> Value:
        """Emit a test whether a Python integer has at most one digit, of 30 bits."""
        head, _ = self._load_digit(x, 0)
        return (head + 1).compare("ult", 3) if HAS_SIGNED_DIGIT_COUNT else head.compare("ult", TWO_DIGIT_SIZE_WORD)

    def has_more_digits(self, x: Value, *, is_negative: bool = False) -> Value:
        """Emit a test whether a Python integer has two digits of 30 bits or more and is positive, or negative if `is_negative`."""
        head, _ = self._load_digit(x, 0)
        if HAS_SIGNED_DIGIT_COUNT:
            return head <= -2 if is_negative else head >= 2
        return (head >= TWO_DIGIT_SIZE_WORD) & (head & 3).equals(2 if is_negative else 0)

    def box_integer(self, x: Value) -> Value:
        """Emit the conversion of an `i64` to a new Python integer. Return the integer, which is held (see `hold_owned`). If memory runs
        out, an early exit is taken.
        """
        return self.require_new(self.call("PyLong_FromLongLong", POINTER, [x]))

    def look_up(self, table: Value, key: Value) -> Value:
        """Emit a lookup of `key` in the dictionary `table`. Return the value, borrowed; null if the key is missing, or, with an error set,
        if the lookup fails.
        """
        return self.call("PyDict_GetItemWithError", POINTER, [table, key])

    def new_instance(self, name: str, **slots: Value) -> Value:
        """Emit the creation of an instance of the class called `name`, with values in its slots. Return the instance, which is held (see
        `hold_owned`). If memory runs out, an early exit is taken.

        The keywords `slots` name the slots. The instance takes over the reference to each value; a held value is held no more. Further
        slots are empty.
        """
        instance = self.require_new(
            self.call(f"new_{name}", POINTER, []) if name in (*REUSED_CLASSES, *UNTRACKED_CLASSES) else self.allocate_instance(name)
        )
        for slot, value in slots.items():
            self.set_slot(instance, f"{name}.{slot}", value)
            if value in self._held:
                self.transfer_held(value)
        return instance

    def allocate_instance(self, name: str) -> Value:
        """Emit the allocation of an instance of the class called `name`, with empty slots. Return a new reference that is not held; null if
        memory runs out. The garbage collector does not track instances of the classes in `UNTRACKED_CLASSES`.
        """
        if name not in UNTRACKED_CLASSES:
            return self.call("PyType_GenericAlloc", POINTER, [self.load_object(name), self.i64(0)])
        instance = self.call("_PyObject_GC_New", POINTER, [self.load_object(name)])

        def clear_slots() -> None:
            for slot in self.objects.get_slot_offsets(name):
                self.address_at(instance, slot).store(self.null())

        self.emit_if(~self.is_null(instance), clear_slots)
        return instance

    def untrack(self, *xs: Value) -> None:
        """Emit calls that have the garbage collector stop tracking `xs`."""
        for x in xs:
            self.call("PyObject_GC_UnTrack", VOID, [x])

    def new_tuple(self, *items: Value) -> Value:
        """Emit the creation of a tuple of `items`. Return the tuple, which is held (see `hold_owned`). The tuple takes over the reference
        to each item; a held item is held no more. If memory runs out, an early exit is taken.
        """
        tuple_object = self.require_new(self.call("PyTuple_New", POINTER, [self.i64(len(items))]))
        for k, item in enumerate(items):
            self.address_at(tuple_object, TUPLE_ITEMS_OFFSET + 8 * k).store(item)
            if item in self._held:
                self.transfer_held(item)
        return tuple_object

    def build_tuple(self, count: Value, item: Callable[[Value], Value]) -> Value:
        """Emit the creation of a tuple of length `count`. Return the tuple, which is held (see `hold_owned`). If memory runs out, an early
        exit is taken.

        `item(k)` emits item k, a new reference that is not held; if it is null at run time, an early exit is taken.
        """
        tuple_object = self.require_new(self.call("PyTuple_New", POINTER, [count]))

        def store_item(k: Value) -> None:
            x = item(k)
            self.decline_if(self.is_null(x))
            self.address_at(tuple_object, TUPLE_ITEMS_OFFSET).at(k, POINTER).store(x)

        self.for_range(count, store_item)
        return tuple_object

    def return_if_cached(self, table: Value, key: Value) -> None:
        """Emit a lookup in the dictionary `table` by `key`, an object that the emitted function owns. On a hit, the emitted function
        releases `key`, and returns the value as a new reference. Further held references are not released. On a miss, the code goes on, and
        `key` stays held. A failed lookup counts as a miss, with the error set.
        """
        cached = self.look_up(table, key)

        def take_cached() -> Value:
            self.incref(cached)
            self.decref(key)
            return cached

        self.return_if(~self.is_null(cached), take_cached)

    def call_python(self, name: str, *arguments: Value) -> Value:
        """Emit a call of the Python function called `name` in the table `@objects`; if the call raises, an early exit is taken, with the
        error set. Return the result, which is released at once: the pointer may only be compared with immortal objects.
        """
        function = self.load_object(name)
        if len(arguments) < 2:
            answer = self.call(("PyObject_CallNoArgs", "PyObject_CallOneArg")[len(arguments)], POINTER, [function, *arguments])
        else:
            args = self.local(array(POINTER, len(arguments)))
            for k, x in enumerate(arguments):
                args.at(k, POINTER).store(x)
            answer = self.call("PyObject_Vectorcall", POINTER, [function, args, self.i64(len(arguments)), self.null()])
        self.decline_if(self.is_null(answer))
        self.decref(answer)
        return answer

    def look_up_or_call(self, look_up: Callable[[], Value], call: Callable[[], object]) -> Value:
        """Emit a lookup by the code of `look_up`, a borrowed reference or null. Where it gives null, the code of `call` runs, which may
        fill the table, and then the lookup again. Return the result, borrowed. If the second lookup fails too, an early exit is taken.
        """

        def retry() -> list[Value]:
            call()
            return [look_up()]

        first_result = look_up()
        (result,) = self.choose(self.is_null(first_result), retry, lambda: [first_result])
        self.decline_if(self.is_null(result))
        return result

    def look_up_or_make(self, look_up: Callable[[], Value], make: Callable[[], Value], call: Callable[[], object]) -> Value:
        """Emit a lookup of an object, or the making of it. Return a new reference, not held.

        Where `look_up` gives null (else a borrowed reference), the code of `make` runs. Where `make` gives null without an error (else a
        new reference), the code of `call` runs, and then `look_up` again. If no step gives an object, an early exit is taken.
        """

        def call_unless_error() -> None:
            self.require(self.is_null(self.call("PyErr_Occurred", POINTER, [])))
            call()

        def make_or_retry() -> list[Value]:
            new_object = make()
            return self.choose(
                self.is_null(new_object), lambda: [self.incref(self.look_up_or_call(look_up, call_unless_error))], lambda: [new_object]
            )

        cached = look_up()
        return self.choose(self.is_null(cached), make_or_retry, lambda: [self.incref(cached)])[0]

    def propagate_error(self) -> None:
        """Emit an early exit for a Python error other than MemoryError, such as an error of a signal handler; the error stays set, and is
        raised. Clear a MemoryError: the fallback tries again.
        """
        memory = self.call("PyErr_ExceptionMatches", I32, [self.load_object("MemoryError")])
        self.require(self.or_else(self.is_null(self.call("PyErr_Occurred", POINTER, [])), lambda: memory.differs(0)))
        self.call("PyErr_Clear", VOID, [])

    def box_bool(self, holds: Value) -> Value:
        """Emit a choice of Python's True, where the `i1` `holds` is true, or False. Return a new reference."""
        return self.incref(self.select_value(holds, self.load_object("True"), self.load_object("False")))

    def return_or_none(self, result: Value) -> None:
        """Emit the return to Python of `result`, an owned reference, or of None where `result` is null. Where an error other than
        MemoryError is set, null is returned instead of None, and Python raises the error.
        """
        self.return_if(~self.is_null(result), lambda: result)
        self.propagate_error()
        self.emit_return(self.incref(self.load_object("None")))

    def first_non_null(self, x: Value, fallback: Value) -> Value:
        """Emit a choice of two pointers, and return the chosen one: `x`, or `fallback` where `x` is null."""
        return select(self.is_null(x), fallback, x)

    def select_value(self, condition: Value, yes: Value, no: Value) -> Value:
        """Emit a choice of two values, both of them computed, and return the chosen one: `yes` where `condition` holds, else `no`."""
        return select(condition, yes, no)
