"""Functions on Python's objects, written as they would be in C: what they look at, what they own, and when they decline.

A function declines by giving nothing (null), and then Python's own method does the work. What it owns by then it lets go of:
`hold` takes a reference that a later `require` would give up again, and `keeps` says that it now belongs to somebody else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...backend.llvm.builder import Block, Builder, Module, Value, select
from ...backend.llvm.types import I1, I32, I64, POINTER, VOID, Type, array
from ..limits import IMMORTAL
from ..objects import DIGIT, DIGITS, ITEMS, REFERENCES, REUSED, SIGNED_SIZE, SIZE, TWO_DIGITS, TYPE, UNSEEN, Objects

Make = Callable[[], Value]
# By class: the slots that each instance has set from its construction on. One that `object.__new__` made has not, nor one of which somebody
# has deleted an attribute; Python's own methods tell that.
ALWAYS_SET = {"Tensor": ("storage", "dtype"), "Storage": ("node",)}


class Function(Builder):
    """One function. Arguments and locals are objects or 64-bit integers."""

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

    # What there is

    def the(self, name: str) -> Value:
        """An object that is known by name."""
        at = self.objects.number_of(name)
        return self.define(POINTER, f"load ptr, ptr getelementptr (ptr, ptr @objects, i64 {at})")

    def number(self, value: int) -> Value:
        """An integer of C."""
        return self.constant(I64, value)

    def nothing(self) -> Value:
        """No object."""
        return Value(self, POINTER, "null")

    def get(self, x: Value, slot: str) -> Value:
        """What an object of ours has in a slot, "Class.name"; null if nothing yet."""
        return self.at(x, self.objects.offset_of(slot)).load(POINTER)

    def set(self, x: Value, slot: str, value: Value) -> None:
        """Put an object, whose reference goes with it, into a slot."""
        self.at(x, self.objects.offset_of(slot)).store(value)

    def at(self, x: Value, offset: int) -> Value:
        """So many bytes further on."""
        return self.define(POINTER, f"getelementptr i8, ptr {x.text}, i64 {offset}")

    def word(self, x: Value, offset: int) -> Value:
        """The integer so many bytes further on."""
        return self.at(x, offset).load(I64)

    def item(self, items: Value, k: int | Value) -> Value:
        """An item of a tuple."""
        return self.at(items, ITEMS).at(k, POINTER).load(POINTER)

    def length(self, items: Value) -> Value:
        """How many items a list has."""
        return self.call("PyList_Size", I64, [items])

    def listed(self, items: Value, k: Value) -> Value:
        """An item of a list."""
        return self.call("PyList_GetItem", POINTER, [items, k])

    def append(self, items: Value, item: Value) -> None:
        """Append to a list, if there is memory."""
        self.require(self.call("PyList_Append", I32, [items, item]).equals(0))

    def type_of(self, x: Value) -> Value:
        return self.at(x, TYPE).load(POINTER)

    def has_type(self, x: Value, name: str) -> Value:
        """Return whether an object is of just this type, initialized or not: whoever is called next asks."""
        return self.type_of(x).equals(self.the(name))

    def is_a(self, x: Value, name: str) -> Value:
        """Return whether an object is of just this type, and initialized: slots that are read unasked are not empty."""
        alike, slots = self.has_type(x, name), ALWAYS_SET.get(name)

        def are_set(first: str, *others: str) -> Value:
            found = ~self.is_null(self.get(x, f"{name}.{first}"))
            return found & are_set(*others) if others else found

        return alike if slots is None else self.both(alike, lambda: are_set(*slots))

    def raise_if_uninitialized(self, x: Value) -> None:
        """Return with an AttributeError if an object is a tensor that is not initialized. For when Python's own is to be called."""
        is_bare = self.both(self.has_type(x, "Tensor"), lambda: ~self.is_a(x, "Tensor"))

        def tell() -> Value:
            self.call("PyErr_SetObject", VOID, [self.the("AttributeError"), self.the("uninitialized")])
            return self.nothing()

        self.when_giving(is_bare, tell)

    def is_the(self, x: Value, name: str) -> Value:
        """Whether it is this very object."""
        return x.equals(self.the(name))

    def is_null(self, x: Value) -> Value:
        return self.define(I1, f"icmp eq ptr {x.text}, null")

    def local(self, kind: Type, value: Value | None = None) -> Value:
        """A place for something that changes."""
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
        """Take a reference."""
        place, count, one = self._counted(x)
        place.store(count + one)
        return x

    def has_one_owner(self, x: Value) -> Value:
        """Whether there is one reference to an object."""
        return self.owners(x).equals(1)

    def owners(self, x: Value) -> Value:
        """How many references there are to an object."""
        return self.at(x, REFERENCES).load(I32)  # what is beside the count since Python 3.12 says something else

    def drop(self, x: Value) -> None:
        """Give a reference up."""
        place, count, one = self._counted(x)
        place.store(count - one)
        self.rarely(count.equals(1), lambda: self.call("_Py_Dealloc", VOID, [x]))

    def _counted(self, x: Value) -> tuple[Value, Value, Value | int]:
        """Where an object's references are counted, how many there are, and what one of them counts: nothing if it lives for ever."""
        place = self.at(x, REFERENCES)
        if not IMMORTAL:
            return place, place.load(I64), 1
        count = place.load(I32)
        return place, count, (count >= 0).cast("zext", I32)

    def hold(self, x: Value) -> Value:
        """Take a reference, until it is kept by somebody else or the function declines."""
        self._held.append(self.own(x))
        return x

    def holding(self, x: Value) -> Value:
        """The same for a reference that there is already."""
        self._held.append(x)
        return x

    def keeps(self, *xs: Value) -> None:
        """They belong to somebody else now."""
        for x in xs:
            self._held.remove(x)

    def let_go(self, *xs: Value) -> None:
        """Give what is held up."""
        self.keeps(*xs)
        for x in xs:
            self.drop(x)

    # Where it goes on

    def require(self, condition: Value) -> None:
        """Decline unless it holds."""
        on = self.block("on")
        self.branch_if(condition, on, self._exit(), (1000, 1))
        self.cursor.block = on

    def refuse(self, condition: Value) -> None:
        """Decline if it holds."""
        on = self.block("on")
        self.branch_if(condition, self._exit(), on, (1, 1000))
        self.cursor.block = on

    def decline(self) -> None:
        """Decline."""
        self.branch(self._exit())

    def _exit(self) -> Block:
        held = tuple([x.text for x in self._held])
        found = self._exits.get(held)
        if found is None:
            found = self._exits[held] = self.block("declined")
            here, self.cursor.block = self.cursor.block, found
            for x in self._held:
                self.call("Py_DecRef", VOID, [x])  # less code, as this is rarely gone through
            self.give(self.nothing() if self.result is POINTER else self.constant(self.result, 0))
            self.cursor.block = here
        return found

    def give(self, x: Value) -> None:
        """Return."""
        self.do(f"ret {x.type.text} {x.text}")

    def made(self, x: Value) -> Value:
        """An object just made, which is held; where there was no memory, this declines."""
        self.refuse(self.is_null(x))
        return self.holding(x)

    def when(self, condition: Value, make: Callable[[], object]) -> None:
        """What `make` writes, where the condition holds."""
        self.only_if(condition, make)

    def when_giving(self, condition: Value, make: Make) -> None:
        """Return what `make` gives, where the condition holds."""
        inside, after = self.block("then"), self.block("after")
        self.branch_if(condition, inside, after)
        self.cursor.block = inside
        self.give(make())
        self.cursor.block = after

    def both(self, one: Value, other: Make) -> Value:
        """Whether both hold; the second is looked at only if the first does."""
        return self.choose(one, lambda: [other()], lambda: [self.constant(I1, False)])[0]

    def either(self, one: Value, other: Make) -> Value:
        """Whether one holds; the second is looked at only if the first does not."""
        return self.choose(one, lambda: [self.constant(I1, True)], lambda: [other()])[0]

    def each(self, count: Value, body: Callable[[Value], object]) -> None:
        """The body for 0, 1, ... below `count`."""
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
        """What the body makes of `first` for 0, of that for 1, ... below `count`."""
        return self.folded(count, [first], lambda k, before: [body(k, *before)])[0]

    def folded(self, count: Value, firsts: Sequence[Value], body: Callable[[Value, Sequence[Value]], Sequence[Value]]) -> list[Value]:
        """The same of several values."""
        begin = [self.number(0), *firsts]
        return self.changing(begin, lambda now: now[0] < count, lambda now: [now[0] + 1, *body(now[0], now[1:])])[1:]

    def changing(
        self,
        firsts: Sequence[Value],
        goes_on: Callable[[Sequence[Value]], Value],
        body: Callable[[Sequence[Value]], Sequence[Value]],
    ) -> list[Value]:
        """What the body makes of some values, of those it made, and so on as long as that `goes_on`."""
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
        """The body, again and again while the condition holds before it."""
        head, inside, after = self.block("again"), self.block("body"), self.block("after")
        self.branch(head)
        self.cursor.block = head
        self.branch_if(condition(), inside, after)
        self.cursor.block = inside
        body()
        self.branch(head)
        self.cursor.block = after

    # Python's own

    def integer(self, x: Value) -> Value:
        """The value of a Python integer that is known to fit."""
        return self._unless_small(x, [], lambda: [self.call("PyLong_AsLongLong", I64, [x])])[0]

    def address(self, x: Value) -> Value:
        """The same of one that is mostly of two digits."""
        head, low = self._digit_of(x, 0)
        two = lambda: [low + (self._digit_of(x, 1)[1] << DIGIT)]  # noqa: E731
        return self.choose(head.equals(TWO_DIGITS), two, lambda: [self.call("PyLong_AsLongLong", I64, [x])], (99, 1))[0]

    def bounded(self, x: Value) -> tuple[Value, Value]:
        """The value of any Python integer, and whether it fits."""

        def asked() -> list[Value]:
            over = self.local(I32)
            found = self.call("PyLong_AsLongLongAndOverflow", I64, [x, over])
            return [found, over.load(I32).equals(0)]

        value, fits = self._unless_small(x, [self.constant(I1, True)], asked)
        return value, fits

    def _digit_of(self, x: Value, k: int) -> tuple[Value, Value]:
        """What an integer says of its sign and of how many digits it has, and a digit."""
        return self.word(x, SIZE), self.at(x, DIGITS + 4 * k).load(I32).cast("zext", I64)

    def _unless_small(self, x: Value, more: Sequence[Value], otherwise: Callable[[], Sequence[Value]]) -> list[Value]:
        """The value of an integer of one digit, and `more`; of any other what `otherwise` gives."""
        head, digit = self._digit_of(x, 0)
        small, sign = self.is_small(x), head if SIGNED_SIZE else self.number(1) - (head & 3)
        return self.choose(small, lambda: [sign * digit, *more], otherwise, (99, 1))

    def is_small(self, x: Value) -> Value:
        """Whether an integer has no more than one digit."""
        head, _ = self._digit_of(x, 0)
        return (head + 1).compare("ult", 3) if SIGNED_SIZE else head.compare("ult", TWO_DIGITS)

    def is_beyond_small(self, x: Value, *, below: bool = False) -> Value:
        """Whether an integer has more digits, and is above 0, or below."""
        head, _ = self._digit_of(x, 0)
        if SIGNED_SIZE:
            return head <= -2 if below else head >= 2
        return (head >= TWO_DIGITS) & (head & 3).equals(2 if below else 0)

    def as_object(self, x: Value) -> Value:
        """A Python integer, which is held."""
        return self.made(self.call("PyLong_FromLongLong", POINTER, [x]))

    def found_in(self, table: Value, key: Value) -> Value:
        """What a dictionary has for a key; null if nothing."""
        return self.call("PyDict_GetItemWithError", POINTER, [table, key])

    def new(self, name: str, **slots: Value) -> Value:
        """A new object of a class, which is held, with what is in its slots; those references go with it."""
        made = self.made(self.call(f"new_{name}", POINTER, []) if name in (*REUSED, *UNSEEN) else self.allocated(name))
        for slot, value in slots.items():
            self.set(made, f"{name}.{slot}", value)
            if value in self._held:
                self.keeps(value)
        return made

    def allocated(self, name: str) -> Value:
        """The same in memory of the interpreter's, with nothing in its slots; not held, and null where there was no memory."""
        if name not in UNSEEN:
            return self.call("PyType_GenericAlloc", POINTER, [self.the(name), self.number(0)])
        made = self.call("_PyObject_GC_New", POINTER, [self.the(name)])

        def empty() -> None:
            for slot in self.objects.slots_of(name):
                self.at(made, slot).store(self.nothing())

        self.when(~self.is_null(made), empty)
        return made

    def unseen(self, *xs: Value) -> None:
        """Have the collector not look at these, as at objects of ours that are `UNSEEN`."""
        for x in xs:
            self.call("PyObject_GC_UnTrack", VOID, [x])

    def tuple_of(self, *items: Value) -> Value:
        """A new tuple, which is held, of items whose references go with it."""
        made = self.made(self.call("PyTuple_New", POINTER, [self.number(len(items))]))
        for k, item in enumerate(items):
            self.at(made, ITEMS + 8 * k).store(item)
            if item in self._held:
                self.keeps(item)
        return made

    def filled(self, count: Value, item: Callable[[Value], Value]) -> Value:
        """A new tuple, which is held, of what is made for each number; it goes with it, and where it is null this declines."""
        found = self.made(self.call("PyTuple_New", POINTER, [count]))

        def one(k: Value) -> None:
            x = item(k)
            self.refuse(self.is_null(x))
            self.at(found, ITEMS).at(k, POINTER).store(x)

        self.each(count, one)
        return found

    def give_known(self, table: Value, key: Value) -> None:
        """Return what a dictionary has for a key, a tuple just made, if it has anything; then that is let go of."""
        known = self.found_in(table, key)

        def give() -> Value:
            self.own(known)
            self.drop(key)
            return known

        self.when_giving(~self.is_null(known), give)

    def ask_python(self, name: str, *given: Value) -> Value:
        """What a function of Python's answers, which is let go of, so it can be compared alone; nothing is given where that fails."""
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
        """What is found by a look, or by another one once Python was asked; declines if nothing is."""

        def again() -> list[Value]:
            ask()
            return [look()]

        first = look()
        (found,) = self.choose(self.is_null(first), again, lambda: [first])
        self.refuse(self.is_null(found))
        return found

    def known_or_made(self, look: Callable[[], Value], make: Callable[[], Value], ask: Callable[[], object]) -> Value:
        """What is found by a look, or else made, or found by another look once Python was asked, owned; declines if nothing is."""

        def ask_if_all_is_well() -> None:
            self.require(self.is_null(self.call("PyErr_Occurred", POINTER, [])))
            ask()

        def made() -> list[Value]:
            found = make()
            return self.choose(self.is_null(found), lambda: [self.own(self.known(look, ask_if_all_is_well))], lambda: [found])

        first = look()
        return self.choose(self.is_null(first), made, lambda: [self.own(first)])[0]

    def tell_what_was_met(self) -> None:
        """An error other than want of memory came from Python that ran on the way, say for a signal: it is told."""
        memory = self.call("PyErr_ExceptionMatches", I32, [self.the("MemoryError")])
        self.require(self.either(self.is_null(self.call("PyErr_Occurred", POINTER, [])), lambda: memory.differs(0)))
        self.call("PyErr_Clear", VOID, [])

    def truth(self, holds: Value) -> Value:
        """Python's True or False, owned."""
        return self.own(self.selected(holds, self.the("True"), self.the("False")))

    def give_or_none(self, found: Value) -> None:
        """Return an object, or where there is none Python's None, to a function of Python's."""
        self.when_giving(~self.is_null(found), lambda: found)
        self.tell_what_was_met()
        self.give(self.own(self.the("None")))

    def either_of(self, x: Value, other: Value) -> Value:
        """An object, or where there is none the other."""
        return select(self.is_null(x), other, x)

    def selected(self, condition: Value, yes: Value, no: Value) -> Value:
        return select(condition, yes, no)
