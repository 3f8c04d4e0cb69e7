"""A builder of LLVM functions that work on CPython objects, as a C extension would: object layouts, reference counts, declining.

An emitted function declines by returning null (or 0), without a result; the fallback in Python then does the work. Before it declines, it
releases the references that it holds. `hold` takes a reference that each later exit releases; `keeps` says that the reference was passed on
to another owner. Both are bookkeeping at emit time: every exit block releases exactly the references held where it is emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...backend.llvm.builder import Block, Builder, Module, Value, select
from ...backend.llvm.types import I1, I32, I64, POINTER, VOID, Type, array
from ..limits import IMMORTAL
from ..objects import DIGIT, DIGITS, ITEMS, REFERENCES, REUSED, SIGNED_SIZE, SIZE, TWO_DIGITS, TYPE, UNSEEN, Objects

Make = Callable[[], Value]
# For each class, the slots that `__init__` sets. They are empty in an object made by `object.__new__`, or after user code deleted an
# attribute; the fallback in Python raises the error for these.
ALWAYS_SET = {"Tensor": ("storage", "dtype"), "Storage": ("node",)}


class Function(Builder):
    """A builder of one LLVM function, whose arguments and locals are objects (`ptr`) or 64-bit integers.

    The methods emit instructions at the cursor and return the run-time values. A reference is held if every later early exit, taken where
    the emitted function returns null or 0 to leave the work to the fallback, releases it.
    """

    def __init__(
        self,
        module: Module,
        objects: Objects,
        name: str,
        parameters: Sequence[tuple[str, Type]],
        result: Type = POINTER,
        *,
        exported: bool = False,
    ) -> None:
        super().__init__(module, name, parameters, result, exported=exported)
        self.objects, self.result = objects, result
        self._locals: list[str] = []
        self._held: list[Value] = []
        self._exits: dict[tuple[str, ...], Block] = {}

    # Objects and memory

    def the(self, name: str) -> Value:
        """Emit a load of the object of this name from the table `@objects`; the reference is borrowed."""
        at = self.objects.number_of(name)
        return self.define(POINTER, f"load ptr, ptr getelementptr (ptr, ptr @objects, i64 {at})")

    def number(self, value: int) -> Value:
        """Return a constant of type `i64`."""
        return self.constant(I64, value)

    def nothing(self) -> Value:
        """Return the null pointer."""
        return Value(self, POINTER, "null")

    def get(self, x: Value, slot: str) -> Value:
        """Emit a load of a slot, named "Class.name", of an instance; null if the slot is empty. The reference is borrowed."""
        return self.at(x, self.objects.offset_of(slot)).load(POINTER)

    def set(self, x: Value, slot: str, value: Value) -> None:
        """Emit a store of `value` into a slot, named "Class.name". The slot takes over the reference; the old content is not released."""
        self.at(x, self.objects.offset_of(slot)).store(value)

    def at(self, x: Value, offset: int) -> Value:
        """Emit the address `offset` bytes behind `x`."""
        return self.define(POINTER, f"getelementptr i8, ptr {x.text}, i64 {offset}")

    def word(self, x: Value, offset: int) -> Value:
        """Emit a load of the 64-bit integer `offset` bytes behind `x`."""
        return self.at(x, offset).load(I64)

    def item(self, items: Value, k: int | Value) -> Value:
        """Emit a load of item `k` of a tuple; the reference is borrowed."""
        return self.at(items, ITEMS).at(k, POINTER).load(POINTER)

    def length(self, items: Value) -> Value:
        """Emit a call for the length of a list."""
        return self.call("PyList_Size", I64, [items])

    def listed(self, items: Value, k: Value) -> Value:
        """Emit a call for item `k` of a list; the reference is borrowed."""
        return self.call("PyList_GetItem", POINTER, [items, k])

    def append(self, items: Value, item: Value) -> None:
        """Emit an append to a list, which takes a reference of its own. If memory runs out, the emitted function returns null or 0."""
        self.require(self.call("PyList_Append", I32, [items, item]).equals(0))

    def type_of(self, x: Value) -> Value:
        """Emit a load of the type of `x`; the reference is borrowed."""
        return self.at(x, TYPE).load(POINTER)

    def has_type(self, x: Value, name: str) -> Value:
        """Emit a test whether the type of `x` is exactly the class `name`. The slots may be empty: the code called next tests them."""
        return self.type_of(x).equals(self.the(name))

    def is_a(self, x: Value, name: str) -> Value:
        """Emit a test whether the type of `x` is exactly the class `name`, and, for the classes in `ALWAYS_SET`, whether the slots read
        later without a test are set.
        """
        alike, slots = self.has_type(x, name), ALWAYS_SET.get(name)

        def are_set(first: str, *others: str) -> Value:
            found = ~self.is_null(self.get(x, f"{name}.{first}"))
            return found & are_set(*others) if others else found

        return alike if slots is None else self.both(alike, lambda: are_set(*slots))

    def raise_if_uninitialized(self, x: Value) -> None:
        """Emit a return with an AttributeError if `x` is an uninitialized tensor. To be emitted before a call of the fallback in Python."""
        is_bare = self.both(self.has_type(x, "Tensor"), lambda: ~self.is_a(x, "Tensor"))

        def tell() -> Value:
            self.call("PyErr_SetObject", VOID, [self.the("AttributeError"), self.the("uninitialized")])
            return self.nothing()

        self.when_giving(is_bare, tell)

    def is_the(self, x: Value, name: str) -> Value:
        """Emit a test whether `x` is the object of this name in the table `@objects`."""
        return x.equals(self.the(name))

    def is_null(self, x: Value) -> Value:
        """Emit a test whether a pointer is null."""
        return self.define(I1, f"icmp eq ptr {x.text}, null")

    def local(self, kind: Type, value: Value | None = None) -> Value:
        """Emit an `alloca` for a mutable variable of type `kind`, and a store of its initial value if given. Return the address."""
        place = Value(self, POINTER, f"%local{len(self._locals)}")
        self._locals.append(f"  {place.text} = alloca {kind.text}, align 16")
        if value is not None:
            place.store(value)
        return place

    def __str__(self) -> str:
        self.entry.lines[:0], self._locals = self._locals, []
        return super().__str__()

    # References

    def own(self, x: Value) -> Value:
        """Emit the increment of the reference count of `x`. Return `x`."""
        place, count, one = self._counted(x)
        place.store(count + one)
        return x

    def has_one_owner(self, x: Value) -> Value:
        """Emit a test whether the reference count of `x` is 1."""
        return self.owners(x).equals(1)

    def owners(self, x: Value) -> Value:
        """Emit a load of the reference count of `x`, as an `i32`."""
        return self.at(x, REFERENCES).load(I32)  # since Python 3.12 the upper 32 bits of the word are not part of the count

    def drop(self, x: Value) -> None:
        """Emit the decrement of the reference count of `x`, and the deallocation of `x` if the count was 1."""
        place, count, one = self._counted(x)
        place.store(count - one)
        self.rarely(count.equals(1), lambda: self.call("_Py_Dealloc", VOID, [x]))

    def _counted(self, x: Value) -> tuple[Value, Value, Value | int]:
        """Emit a load of the reference count. Return its address, the count, and the step: 1, or 0 for an immortal object."""
        place = self.at(x, REFERENCES)
        if not IMMORTAL:
            return place, place.load(I64), 1
        count = place.load(I32)
        return place, count, (count >= 0).cast("zext", I32)

    def hold(self, x: Value) -> Value:
        """Emit an increment of the reference count of `x`, released by each later exit until `keeps` or `let_go` is called. Return `x`."""
        self._held.append(self.own(x))
        return x

    def holding(self, x: Value) -> Value:
        """Have each later exit release a reference that the function owns already, until `keeps` or `let_go` is called. Return `x`."""
        self._held.append(x)
        return x

    def keeps(self, *xs: Value) -> None:
        """Forget references that another owner has taken over: later exits release them no more. No code is emitted."""
        for x in xs:
            self._held.remove(x)

    def let_go(self, *xs: Value) -> None:
        """Emit the release of held references; later exits release them no more."""
        self.keeps(*xs)
        for x in xs:
            self.drop(x)

    # Control flow

    def require(self, condition: Value) -> None:
        """Emit an early exit taken unless `condition` holds: release the held references (see `hold`) and return null or 0."""
        on = self.block("on")
        self.branch_if(condition, on, self._exit(), (1000, 1))
        self.cursor.block = on

    def refuse(self, condition: Value) -> None:
        """Emit an early exit taken if `condition` holds: release the held references (see `hold`) and return null or 0."""
        on = self.block("on")
        self.branch_if(condition, self._exit(), on, (1, 1000))
        self.cursor.block = on

    def decline(self) -> None:
        """Emit an early exit: release the held references (see `hold`) and return null or 0, so that the fallback does the work."""
        self.branch(self._exit())

    def _exit(self) -> Block:
        """Return the block that releases the references held now (see `hold`) and returns null or 0. Equal sets of references share it."""
        held = tuple([x.text for x in self._held])
        found = self._exits.get(held)
        if found is None:
            found = self._exits[held] = self.block("declined")
            here, self.cursor.block = self.cursor.block, found
            for x in self._held:
                self.call("Py_DecRef", VOID, [x])  # a call is less code than an inlined decrement, and exits are rarely taken
            self.give(self.nothing() if self.result is POINTER else self.constant(self.result, 0))
            self.cursor.block = here
        return found

    def give(self, x: Value) -> None:
        """Emit a return of `x`."""
        self.do(f"ret {x.type.text} {x.text}")

    def made(self, x: Value) -> Value:
        """Emit an early exit, returning null or 0, if `x` is null, and hold `x`, a new reference, from here on (see `holding`). Return `x`.
        """
        self.refuse(self.is_null(x))
        return self.holding(x)

    def when(self, condition: Value, make: Callable[[], object]) -> None:
        """Emit the code of `make`, run where `condition` holds."""
        self.only_if(condition, make)

    def when_giving(self, condition: Value, make: Make) -> None:
        """Emit a return of the value that `make` emits, taken where `condition` holds."""
        inside, after = self.block("then"), self.block("after")
        self.branch_if(condition, inside, after)
        self.cursor.block = inside
        self.give(make())
        self.cursor.block = after

    def both(self, one: Value, other: Make) -> Value:
        """Emit a short-circuit `and`: `other` runs only if `one` holds."""
        return self.choose(one, lambda: [other()], lambda: [self.constant(I1, False)])[0]

    def either(self, one: Value, other: Make) -> Value:
        """Emit a short-circuit `or`: `other` runs only if `one` fails."""
        return self.choose(one, lambda: [self.constant(I1, True)], lambda: [other()])[0]

    def each(self, count: Value, body: Callable[[Value], object]) -> None:
        """Emit a loop that runs `body` for k = 0, 1, ..., count - 1."""
        before, head, inside, after = self.cursor.block, self.block("next"), self.block("body"), self.block("after")
        self.branch(head)
        self.cursor.block = head
        k = self.phi(I64, "k")
        k.comes(self.number(0), before)
        self.branch_if(k < count, inside, after)
        self.cursor.block = inside
        body(k)
        k.comes(k + 1, self.cursor.block)
        self.branch(head)
        self.cursor.block = after

    def fold(self, count: Value, first: Value, body: Callable[[Value, Value], Value]) -> Value:
        """Emit a loop `value = body(k, value)` for k = 0, ..., count - 1, starting with `first`. Return the final value."""
        return self.folded(count, [first], lambda k, before: [body(k, *before)])[0]

    def folded(self, count: Value, firsts: Sequence[Value], body: Callable[[Value, Sequence[Value]], Sequence[Value]]) -> list[Value]:
        """Emit a loop `values = body(k, values)` for k = 0, ..., count - 1, starting with `firsts`. Return the final values."""
        begin = [self.number(0), *firsts]
        return self.changing(begin, lambda now: now[0] < count, lambda now: [now[0] + 1, *body(now[0], now[1:])])[1:]

    def changing(
        self,
        firsts: Sequence[Value],
        goes_on: Callable[[Sequence[Value]], Value],
        body: Callable[[Sequence[Value]], Sequence[Value]],
    ) -> list[Value]:
        """Emit a loop `values = body(values)`, starting with `firsts`, while `goes_on(values)` holds. Return the final values."""
        before, head, inside, after = self.cursor.block, self.block("next"), self.block("body"), self.block("after")
        self.branch(head)
        self.cursor.block = head
        values = [self.phi(first.type, "value") for first in firsts]
        for value, first in zip(values, firsts, strict=True):
            value.comes(first, before)
        self.branch_if(goes_on(values), inside, after)
        self.cursor.block = inside
        for value, made in zip(values, body(values), strict=True):
            value.comes(made, self.cursor.block)
        self.branch(head)
        self.cursor.block = after
        return list(values)

    def as_long_as(self, condition: Make, body: Callable[[], object]) -> None:
        """Emit a loop that runs `body` while `condition`, evaluated before each iteration, holds."""
        head, inside, after = self.block("again"), self.block("body"), self.block("after")
        self.branch(head)
        self.cursor.block = head
        self.branch_if(condition(), inside, after)
        self.cursor.block = inside
        body()
        self.branch(head)
        self.cursor.block = after

    # Python's integers, containers and calls

    def integer(self, x: Value) -> Value:
        """Emit the value of a Python integer as an `i64`. The integer must fit; one-digit integers are read inline."""
        return self._unless_small(x, [], lambda: [self.call("PyLong_AsLongLong", I64, [x])])[0]

    def address(self, x: Value) -> Value:
        """Emit the value of a Python integer that fits into 64 bits and mostly has two digits, as addresses have; these are read inline."""
        head, low = self._digit_of(x, 0)
        two = lambda: [low + (self._digit_of(x, 1)[1] << DIGIT)]  # noqa: E731
        return self.choose(head.equals(TWO_DIGITS), two, lambda: [self.call("PyLong_AsLongLong", I64, [x])], (99, 1))[0]

    def bounded(self, x: Value) -> tuple[Value, Value]:
        """Emit the value of any Python integer. Return the value and whether it fits into 64 bits."""

        def asked() -> list[Value]:
            over = self.local(I32)
            found = self.call("PyLong_AsLongLongAndOverflow", I64, [x, over])
            return [found, over.load(I32).equals(0)]

        value, fits = self._unless_small(x, [self.constant(I1, True)], asked)
        return value, fits

    def _digit_of(self, x: Value, k: int) -> tuple[Value, Value]:
        """Emit two loads: the size word of a Python integer, with its sign and number of digits, and digit `k`, of 30 bits."""
        return self.word(x, SIZE), self.at(x, DIGITS + 4 * k).load(I32).cast("zext", I64)

    def _unless_small(self, x: Value, more: Sequence[Value], otherwise: Callable[[], Sequence[Value]]) -> list[Value]:
        """Emit a choice: the value of an integer of one digit, followed by `more`; for a longer integer the values from `otherwise`."""
        head, digit = self._digit_of(x, 0)
        small, sign = self.is_small(x), head if SIGNED_SIZE else self.number(1) - (head & 3)
        return self.choose(small, lambda: [sign * digit, *more], otherwise, (99, 1))

    def is_small(self, x: Value) -> Value:
        """Emit a test whether a Python integer has at most one digit."""
        head, _ = self._digit_of(x, 0)
        return (head + 1).compare("ult", 3) if SIGNED_SIZE else head.compare("ult", TWO_DIGITS)

    def is_beyond_small(self, x: Value, *, below: bool = False) -> Value:
        """Emit a test whether a Python integer has two digits or more and is positive, or negative if `below`."""
        head, _ = self._digit_of(x, 0)
        if SIGNED_SIZE:
            return head <= -2 if below else head >= 2
        return (head >= TWO_DIGITS) & (head & 3).equals(2 if below else 0)

    def as_object(self, x: Value) -> Value:
        """Emit the conversion of an `i64` to a new Python integer. Return the integer, which is held (see `holding`)."""
        return self.made(self.call("PyLong_FromLongLong", POINTER, [x]))

    def found_in(self, table: Value, key: Value) -> Value:
        """Emit a lookup in the dictionary `table`. The reference is borrowed; null if the key is missing, or if the lookup sets an error.
        """
        return self.call("PyDict_GetItemWithError", POINTER, [table, key])

    def new(self, name: str, **slots: Value) -> Value:
        """Emit the creation of an instance of a class with values in its slots. Return the instance, which is held (see
        `holding`). It takes over the reference to each value; a held value is held no more.
        """
        made = self.made(self.call(f"new_{name}", POINTER, []) if name in (*REUSED, *UNSEEN) else self.allocated(name))
        for slot, value in slots.items():
            self.set(made, f"{name}.{slot}", value)
            if value in self._held:
                self.keeps(value)
        return made

    def allocated(self, name: str) -> Value:
        """Emit the allocation of an instance of a class, with empty slots. Return a new reference that is not held; null if memory runs
        out. The garbage collector does not track instances of the classes in `UNSEEN`.
        """
        if name not in UNSEEN:
            return self.call("PyType_GenericAlloc", POINTER, [self.the(name), self.number(0)])
        made = self.call("_PyObject_GC_New", POINTER, [self.the(name)])

        def empty() -> None:
            for slot in self.objects.slots_of(name):
                self.at(made, slot).store(self.nothing())

        self.when(~self.is_null(made), empty)
        return made

    def unseen(self, *xs: Value) -> None:
        """Emit calls that have the garbage collector stop tracking `xs`."""
        for x in xs:
            self.call("PyObject_GC_UnTrack", VOID, [x])

    def tuple_of(self, *items: Value) -> Value:
        """Emit the creation of a tuple. Return the tuple, which is held (see `holding`) and takes over the references to the items."""
        made = self.made(self.call("PyTuple_New", POINTER, [self.number(len(items))]))
        for k, item in enumerate(items):
            self.at(made, ITEMS + 8 * k).store(item)
            if item in self._held:
                self.keeps(item)
        return made

    def filled(self, count: Value, item: Callable[[Value], Value]) -> Value:
        """Emit the creation of a tuple of length `count`. Return the tuple, which is held (see `holding`).

        `item(k)` emits item k, a new reference; if it is null, the emitted function returns null or 0.
        """
        found = self.made(self.call("PyTuple_New", POINTER, [count]))

        def one(k: Value) -> None:
            x = item(k)
            self.refuse(self.is_null(x))
            self.at(found, ITEMS).at(k, POINTER).store(x)

        self.each(count, one)
        return found

    def give_known(self, table: Value, key: Value) -> None:
        """Emit a dictionary lookup by `key`, a new tuple; on a hit the emitted function releases `key` and returns the value."""
        known = self.found_in(table, key)

        def give() -> Value:
            self.own(known)
            self.drop(key)
            return known

        self.when_giving(~self.is_null(known), give)

    def ask_python(self, name: str, *given: Value) -> Value:
        """Emit a call of the Python function of this name; if the call raises, the emitted function returns null or 0. Return the result,
        which is released at once: the pointer may only be compared with immortal objects.
        """
        function = self.the(name)
        if len(given) < 2:
            answer = self.call(("PyObject_CallNoArgs", "PyObject_CallOneArg")[len(given)], POINTER, [function, *given])
        else:
            args = self.local(array(POINTER, len(given)))
            for k, x in enumerate(given):
                args.at(k, POINTER).store(x)
            answer = self.call("PyObject_Vectorcall", POINTER, [function, args, self.number(len(given)), self.nothing()])
        self.refuse(self.is_null(answer))
        self.drop(answer)
        return answer

    def known(self, look: Callable[[], Value], ask: Callable[[], object]) -> Value:
        """Emit a lookup; where it gives null, `ask`, a call of Python that may fill the table, and a second lookup. Return the result,
        borrowed. If the second lookup fails too, the emitted function returns null or 0.
        """

        def again() -> list[Value]:
            ask()
            return [look()]

        first = look()
        (found,) = self.choose(self.is_null(first), again, lambda: [first])
        self.refuse(self.is_null(found))
        return found

    def known_or_made(self, look: Callable[[], Value], make: Callable[[], Value], ask: Callable[[], object]) -> Value:
        """Emit a lookup; where it gives null, `make`; where that gives null without an error, `ask` and a second lookup. Return a new
        reference. If no step gives an object, the emitted function returns null or 0.
        """

        def ask_if_all_is_well() -> None:
            self.require(self.is_null(self.call("PyErr_Occurred", POINTER, [])))
            ask()

        def made() -> list[Value]:
            found = make()
            return self.choose(self.is_null(found), lambda: [self.own(self.known(look, ask_if_all_is_well))], lambda: [found])

        first = look()
        return self.choose(self.is_null(first), made, lambda: [self.own(first)])[0]

    def tell_what_was_met(self) -> None:
        """Emit an exit where an error other than MemoryError is set, as by a signal handler: the caller raises it. Clear a MemoryError."""
        memory = self.call("PyErr_ExceptionMatches", I32, [self.the("MemoryError")])
        self.require(self.either(self.is_null(self.call("PyErr_Occurred", POINTER, [])), lambda: memory.differs(0)))
        self.call("PyErr_Clear", VOID, [])

    def truth(self, holds: Value) -> Value:
        """Emit a choice of Python's True, where `holds`, or False; a new reference."""
        return self.own(self.selected(holds, self.the("True"), self.the("False")))

    def give_or_none(self, found: Value) -> None:
        """Emit the return to Python: `found`, or None where `found` is null. An error other than MemoryError is raised."""
        self.when_giving(~self.is_null(found), lambda: found)
        self.tell_what_was_met()
        self.give(self.own(self.the("None")))

    def either_of(self, x: Value, other: Value) -> Value:
        """Emit a choice: `x`, or `other` where `x` is null."""
        return select(self.is_null(x), other, x)

    def selected(self, condition: Value, yes: Value, no: Value) -> Value:
        """Emit a choice of two values that are both computed: `yes` where `condition` holds, else `no`."""
        return select(condition, yes, no)
