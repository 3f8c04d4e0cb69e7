"""LLVM IR as text, written instruction by instruction: Python formulas over `Value`s emit code as they are evaluated.

`x * y + 1` emits a multiplication and an addition, of floats or integers according to `x`, in all lanes of a vector. A Python number stands
for a constant of the other operand's type. Instructions are appended at the builder's cursor. No optimisation passes follow: the emitted
code is the code that runs. So formulas ask for fused multiply-adds by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...target import Target
from . import float_formats
from .float_formats import FloatFormat
from .types import DOUBLE, FLOAT, I1, I32, VOID, Type, int_type, vector

Number = float | int
EmitValues = Callable[[], Sequence["Value"]]


class Value:
    """The result of an instruction, or a constant. Comparisons of integers are signed; comparisons of floats are false for NaN.

    `==` compares Python objects: `equals` and `differs` emit comparisons of values.
    """

    __slots__ = ("builder", "text", "type")

    def __init__(self, builder: Builder, type_: Type, text: str) -> None:
        self.builder, self.type, self.text = builder, type_, text

    def __repr__(self) -> str:
        return f"{self.type.text} {self.text}"

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r} has no truth value while code is emitted; it is known when the kernel runs")

    @property
    def lanes(self) -> int:
        """The number of lanes; 0 for a scalar."""
        return self.type.lanes

    def constant(self, number: Number) -> Value:
        """Return a number as a constant of the same type, in every lane."""
        return Value(self.builder, self.type, self.type.literal(number))

    # Arithmetic

    def __add__(self, other: Value | Number) -> Value:
        return self.builder.binary("fadd" if self.type.is_float else "add", self, other)

    def __sub__(self, other: Value | Number) -> Value:
        return self.builder.binary("fsub" if self.type.is_float else "sub", self, other)

    def __mul__(self, other: Value | Number) -> Value:
        return self.builder.binary("fmul" if self.type.is_float else "mul", self, other)

    def __truediv__(self, other: Value | Number) -> Value:
        return self.builder.binary("fdiv", self, other)

    def __rsub__(self, other: Number) -> Value:
        return self.constant(other) - self

    def __rtruediv__(self, other: Number) -> Value:
        return self.constant(other) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Value:
        if self.type.is_float:
            return self.builder.define(self.type, f"fneg {self.type.text} {self.text}")
        return self.constant(0) - self

    def __and__(self, other: Value | Number) -> Value:
        return self.builder.binary("and", self, other)

    def __or__(self, other: Value | Number) -> Value:
        return self.builder.binary("or", self, other)

    def __xor__(self, other: Value | Number) -> Value:
        return self.builder.binary("xor", self, other)

    def __invert__(self) -> Value:
        return self.builder.binary("xor", self, -1)

    def __lshift__(self, count: Value | Number) -> Value:
        return self.builder.binary("shl", self, count)

    def __rshift__(self, count: Value | Number) -> Value:
        """Emit a shift of integers to the right that copies the sign."""
        return self.builder.binary("ashr", self, count)

    def logical_shift_right(self, count: Value | Number) -> Value:
        """Emit a shift of integers to the right that brings in zeros."""
        return self.builder.binary("lshr", self, count)

    def abs(self) -> Value:
        """Emit the absolute value of a float."""
        return intrinsic("fabs", self)

    def sqrt(self) -> Value:
        """Emit the square root of a float."""
        return intrinsic("sqrt", self)

    def floor(self) -> Value:
        """Emit the largest integer not above a float, as a float."""
        return intrinsic("floor", self)

    def with_sign_of(self, sign_source: Value) -> Value:
        """Emit this float with the sign of `sign_source`.

        A float32 is put together from bits. From `copysign`, LLVM might see a float rounded from a double, and a result rounded to
        float16. LLVM would then round the double to float16 directly, by a function that a process may lack.
        """
        if self.type.scalar.bits == 32:
            return ((self.as_bits() & 0x7FFFFFFF) | (sign_source.as_bits() & -0x80000000)).as_float()
        return intrinsic("copysign", self, sign_source)

    # Comparison

    def compare(self, predicate: str, right: Value | Number) -> Value:
        """Emit a comparison with `right` by an LLVM predicate ("ult", "une", ...): a bool, or a bool for each lane."""
        kind = "fcmp" if self.type.is_float else "icmp"
        right_text = right.text if isinstance(right, Value) else self.type.literal(right)
        return self.builder.define(vector(I1, self.lanes), f"{kind} {predicate} {self.type.text} {self.text}, {right_text}")

    def __lt__(self, other: Value | Number) -> Value:
        return self.compare("olt" if self.type.is_float else "slt", other)

    def __le__(self, other: Value | Number) -> Value:
        return self.compare("ole" if self.type.is_float else "sle", other)

    def __gt__(self, other: Value | Number) -> Value:
        return self.compare("ogt" if self.type.is_float else "sgt", other)

    def __ge__(self, other: Value | Number) -> Value:
        return self.compare("oge" if self.type.is_float else "sge", other)

    def equals(self, right: Value | Number) -> Value:
        """Emit whether this value equals `right`, lane by lane; false for NaN."""
        return self.compare("oeq" if self.type.is_float else "eq", right)

    def differs(self, right: Value | Number) -> Value:
        """Emit whether this value differs from `right`, or either is NaN, lane by lane."""
        return self.compare("une" if self.type.is_float else "ne", right)

    def is_nan(self) -> Value:
        """Emit whether a float is NaN."""
        return self.compare("uno", self)

    # Types

    def cast(self, op: str, scalar: Type, name: str | None = None) -> Value:
        """Emit the conversion by the instruction `op` ("zext", "bitcast", ...) to the type `scalar`, or to lanes of this type."""
        to = vector(scalar, self.lanes)
        return self.builder.define(to, f"{op} {self.type.text} {self.text} to {to.text}", name)

    def bitcast(self, to: Type) -> Value:
        """Emit the same bits as another type."""
        return self.builder.define(to, f"bitcast {self.type.text} {self.text} to {to.text}")

    @property
    def format(self) -> FloatFormat:
        """The float format for computations with this value: float64 if an element has 64 bits, otherwise float32. It may be an integer."""
        return float_formats.FLOAT64_FORMAT if self.type.scalar.bits == 64 else float_formats.FLOAT32_FORMAT

    def as_bits(self) -> Value:
        """Emit the bit patterns of floats, as integers."""
        return self.cast("bitcast", int_type(self.type.scalar.bits))

    def as_float(self) -> Value:
        """Emit the floats with these integers, of 32 or 64 bits, as bit patterns."""
        return self.cast("bitcast", DOUBLE if self.type.scalar.bits == 64 else FLOAT)

    def to_float(self) -> Value:
        """Emit the floats nearest to these signed integers, of 32 or 64 bits, in the float type of the same width."""
        return self.cast("sitofp", DOUBLE if self.type.scalar.bits == 64 else FLOAT)

    def to_double(self) -> Value:
        """Emit the conversion of float32 to float64, in every lane."""
        return self.cast("fpext", DOUBLE)

    def to_single(self) -> Value:
        """Emit the conversion of float64 to float32, rounded to nearest, in every lane."""
        return self.cast("fptrunc", FLOAT)

    # Lanes

    def splat(self, lanes: int) -> Value:
        """Emit a vector of `lanes` lanes, 1 or more, with this scalar in every lane."""
        kind = vector(self.type, lanes)
        lane_zero = self.builder.undefined(kind).with_lane(0, self)
        return lane_zero.builder.define(
            kind, f"shufflevector {kind.text} {lane_zero.text}, {kind.text} undef, <{lanes} x i32> zeroinitializer"
        )

    def shuffle(self, lanes: Sequence[int], second: Value | None = None) -> Value:
        """Emit a vector of the lanes with the numbers `lanes`, in this order. Numbers from `self.lanes` on are lanes of `second`.

        Without `second`, such lanes are undefined.
        """
        kind, order = self.type, vector(I32, len(lanes))
        second_text = "undef" if second is None else second.text
        return self.builder.define(
            vector(kind.scalar, len(lanes)),
            f"shufflevector {kind.text} {self.text}, {kind.text} {second_text}, {order.text} {order.literals(lanes)}",
        )

    def lane(self, k: Value | int) -> Value:
        """Emit lane `k` of this vector, as a scalar."""
        index_text = f"i32 {k}" if isinstance(k, int) else f"{k.type.text} {k.text}"
        return self.builder.define(self.type.scalar, f"extractelement {self.type.text} {self.text}, {index_text}")

    def with_lane(self, k: Value | int, x: Value) -> Value:
        """Emit a copy of this vector with the scalar `x` in lane `k`."""
        index_text = f"i32 {k}" if isinstance(k, int) else f"{k.type.text} {k.text}"
        return self.builder.define(self.type, f"insertelement {self.type.text} {self.text}, {x.type.text} {x.text}, {index_text}")

    # Memory

    def at(self, index: Value | int, element: Type) -> Value:
        """Emit the pointer `index` elements of the type `element` behind this pointer."""
        offset = f"i64 {index}" if isinstance(index, int) else f"{index.type.text} {index.text}"
        return self.builder.define(self.type, f"getelementptr {element.text}, {self.type.text} {self.text}, {offset}")

    def copy_opaque(self) -> Value:
        """Emit a copy of this pointer through empty inline assembly, so that LLVM treats the copy as an unrelated pointer.

        Then LLVM neither merges loads from both pointers, nor recomputes addresses relative to the copy from a loop index.
        """
        return self.builder.define(self.type, f'call {self.type.text} asm "", "=r,0"({self.type.text} {self.text})')

    def load(self, kind: Type, name: str | None = None, *, volatile: bool = False, align: int = 0) -> Value:
        """Emit the load of a value of type `kind` from this pointer, called `name` in the LLVM IR.

        `align` is the alignment in bytes, for 0 the size of a number. `volatile` loads read memory at this very moment.
        """
        align_bytes = align or alignment(kind)
        return self.builder.define(
            kind, f"load{' volatile' * volatile} {kind.text}, {self.type.text} {self.text}, align {align_bytes}", name
        )

    def store(self, x: Value, align: int = 0, metadata: str = "") -> None:
        """Emit the store of `x` at this pointer. `align` is the alignment in bytes, for 0 the size of a number.

        `metadata` is text behind the instruction (`Module.attach_metadata`).
        """
        self.builder.emit(f"store {x.type.text} {x.text}, {self.type.text} {self.text}, align {align or alignment(x.type)}{metadata}")


def alignment(kind: Type) -> int:
    """Return the alignment of `kind` in bytes: the size of a number, a lane of a vector, or an element of an array."""
    return kind.element.bytes


class Phi(Value):
    """A phi node: a value chosen by the block from which control comes."""

    __slots__ = ("incoming",)

    def __init__(self, builder: Builder, type_: Type, text: str) -> None:
        super().__init__(builder, type_, text)
        self.incoming: list[str] = []

    def add_incoming(self, x: Value, block: Block) -> None:
        """Give the phi node the value `x` if control comes from `block`."""
        self.incoming.append(f"[{x.text}, %{block.name}]")


class Block:
    """A basic block: a sequence of instructions, the last of which is a jump or a return."""

    __slots__ = ("lines", "name", "phis")

    def __init__(self, name: str) -> None:
        self.name = name
        self.phis: list[Phi] = []
        self.lines: list[str] = []

    def __str__(self) -> str:
        phis = [f"  {p.text} = phi {p.type.text} {', '.join(p.incoming)}" for p in self.phis]
        return "\n".join([f"{self.name}:", *phis, *self.lines])


class Cursor:
    """An insertion point: the end of a block, which changes as code branches."""

    __slots__ = ("block",)

    def __init__(self, block: Block) -> None:
        self.block = block


class Module:
    """An LLVM module: functions for one machine, the declarations of external functions, global constants, and metadata."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.functions: dict[str, Builder] = {}
        self.declarations: dict[str, str] = {}
        self.globals: dict[str, str] = {}
        self.metadata: dict[str, int] = {}

    def define_constant(self, name: str, kind: Type, content: str) -> None:
        """Define the constant `name` of type `kind` in memory; `content` is its value in LLVM IR."""
        self.define_global(name, f"internal constant {kind.text} {content}")

    def define_global(self, name: str, definition: str) -> None:
        """Define the global `name` by the LLVM IR `definition`; raise ValueError if the module has the name with another definition."""
        text = f"@{name} = {definition}"
        if self.globals.setdefault(name, text) != text:
            raise ValueError(f"@{name} already has another definition: {self.globals[name]}")

    def attach_metadata(self, kind: str, content: str) -> str:
        """Return the text that, behind an instruction, attaches metadata of a kind ("prof", ...) to it, with `content` in LLVM IR."""
        number = self.metadata.setdefault(content, len(self.metadata))
        return f", !{kind} !{number}"

    def __str__(self) -> str:
        metadata = [f"!{number} = !{{ {content} }}" for content, number in self.metadata.items()]
        functions = [str(f) for f in self.functions.values()]
        triple = self.target.processor.triple
        head = [f'target triple = "{triple}"'] if triple else []
        external = [text for name, text in self.declarations.items() if name not in self.functions]
        return "\n".join([*head, *self.globals.values(), *functions, *external, *metadata, ""])


class Builder:
    """A function being written, added to `module` at once. Instructions are appended at the cursor.

    `parameters` are pairs of a name and a type. `attributes` and `calling_convention` are text in LLVM IR. The first function of a module
    is exported, and a further function if `is_exported`.
    """

    __slots__ = ("_name_counts", "_value_count", "arguments", "blocks", "cursor", "entry", "header", "module")

    def __init__(
        self,
        module: Module,
        name: str,
        parameters: Sequence[tuple[str, Type]],
        result: Type = VOID,
        attributes: str = "",
        calling_convention: str = "",
        is_exported: bool = False,
    ) -> None:
        self.module = module
        self.arguments = [Value(self, kind, f"%{name}") for name, kind in parameters]
        internal = "internal" if module.functions and not is_exported else ""  # further functions serve the first
        kind = " ".join([word for word in (internal, calling_convention, result.text) if word])
        self.header = f"define {kind} @{name}({', '.join(map(repr, self.arguments))}) {attributes}"
        self.blocks: list[Block] = []
        self._name_counts: dict[str, int] = {}
        self._value_count = 0
        self.entry = self.block("entry")
        self.cursor = Cursor(self.entry)
        module.functions[name] = self

    def __str__(self) -> str:
        return "\n".join([f"{self.header} {{", *map(str, self.blocks), "}"])

    # Instructions

    def emit(self, text: str) -> None:
        """Append the instruction `text`, which has no value."""
        self.cursor.block.lines.append(f"  {text}")

    def define(self, kind: Type, text: str, name: str | None = None) -> Value:
        """Append the instruction `text`, and return its value of type `kind`, called `name` in the LLVM IR, or for None numbered."""
        if name is None:
            self._value_count = number = self._value_count + 1
            name = f"%{kind.name_prefix}{number}"
        else:
            name = f"%{name}"
        self.cursor.block.lines.append(f"  {name} = {text}")
        return Value(self, kind, name)

    def binary(self, op: str, x: Value, y: Value | Number) -> Value:
        """Append the instruction `op` ("fadd", "urem", ...) with two operands and a result of the type of `x`, and return its value."""
        kind = x.type
        self._value_count = number = self._value_count + 1
        name = f"%{kind.name_prefix}{number}"
        right_text = y.text if isinstance(y, Value) else kind.literal(y)
        self.cursor.block.lines.append(f"  {name} = {op} {kind.text} {x.text}, {right_text}")
        return Value(self, kind, name)

    def call(self, name: str, result: Type, args: Sequence[Value]) -> Value:
        """Append a call of the function `name` with a result of type `result`, and return its value, empty for `VOID`.

        If the module has no such function, the name is declared as an external C function, or as an intrinsic ("llvm.").
        """
        module = self.module
        if name not in module.declarations and name not in module.functions:
            types = ", ".join([a.type.text for a in args])
            # A call of a C function reads the address from the table of its image (`elf_linker.py`), without a jump in between
            binding = "" if name.startswith("llvm.") else " nonlazybind"
            module.declarations[name] = f"declare {result.text} @{name}({types}){binding}"
        text = f"call {result.text} @{name}({', '.join([f'{a.type.text} {a.text}' for a in args])})"
        if result is VOID:
            self.emit(text)
            return Value(self, VOID, "")
        return self.define(result, text)

    # Constants

    def constant(self, kind: Type, number: Number) -> Value:
        """Return a number as a constant of type `kind`, the same in every lane."""
        return Value(self, kind, kind.literal(number))

    def constants(self, kind: Type, numbers: Sequence[Number]) -> Value:
        """Return a constant vector of type `kind` with one of `numbers` in each lane."""
        return Value(self, kind, kind.literals(numbers))

    def iota(self, scalar: Type, lanes: int) -> Value:
        """Return the integer vector 0, 1, 2, ... of `lanes` lanes of type `scalar`."""
        return self.constants(vector(scalar, lanes), range(lanes))

    def zeros(self, kind: Type) -> Value:
        """Return the constant 0 of type `kind`: in every lane, element or field."""
        return Value(self, kind, "zeroinitializer")

    def undefined(self, kind: Type) -> Value:
        """Return an undefined value of type `kind` (`undef`), without an instruction."""
        return Value(self, kind, "undef")

    # Blocks

    def block(self, name: str) -> Block:
        """Add a new, empty block behind the last one, and return the new block; the cursor stays. If `name` is taken, a number is added."""
        uses = self._name_counts.get(name, 0)
        self._name_counts[name] = uses + 1
        new_block = Block(f"{name}.{uses}" if uses else name)
        self.blocks.append(new_block)
        return new_block

    def phi(self, kind: Type, name: str | None = None) -> Phi:
        """Append a phi node of type `kind` to the present block; its values are given later, by `Phi.add_incoming`.

        The name in the LLVM IR begins with `name`, if given.
        """
        self._value_count += 1
        phi = Phi(self, kind, f"%{name or kind.name_prefix}{'.' if name else ''}{self._value_count}")
        self.cursor.block.phis.append(phi)
        return phi

    def merge(self, *incoming: tuple[Value, Block]) -> Value:
        """Append a phi node for values of equal type, each paired with the block from which control then comes, and return its value."""
        phi = self.phi(incoming[0][0].type)
        for x, block in incoming:
            phi.add_incoming(x, block)
        return phi

    def branch(self, to: Block) -> None:
        """Append a jump to another block."""
        self.emit(f"br label %{to.name}")

    def branch_if(self, condition: Value, yes: Block, no: Block, weights: tuple[int, int] | None = None) -> None:
        """Append a jump to `yes` if the scalar `condition` holds, else to `no`. `weights` are the relative frequencies of both."""
        metadata = ""
        if weights is not None:
            metadata = self.module.attach_metadata("prof", f'!"branch_weights", i32 {weights[0]}, i32 {weights[1]}')
        self.emit(f"br i1 {condition.text}, label %{yes.name}, label %{no.name}{metadata}")

    def only_if(
        self, condition: Value, emit_body: Callable[[], object], weights: tuple[int, int] | None = None, name: str = "then"
    ) -> None:
        """Emit the code of `emit_body`, to run if the condition holds, in a block called `name`.

        `weights` tell LLVM how often, relatively, the condition holds and does not.
        """
        inside, after = self.block(name), self.block("after")
        self.branch_if(condition, inside, after, weights)
        self.cursor.block = inside
        emit_body()
        self.branch(after)
        self.cursor.block = after

    def choose(self, condition: Value, yes: EmitValues, no: EmitValues, weights: tuple[int, int] | None = None) -> list[Value]:
        """Emit two alternatives, and return the values of the alternative that runs: `yes` if the scalar `condition` holds, else `no`.

        Both emit code and return equally many values, of the same types in this order. `weights` are the relative frequencies of both.
        """
        blocks, after, outcomes = (self.block("yes"), self.block("no")), self.block("after"), []
        self.branch_if(condition, *blocks, weights)
        for block, make in zip(blocks, (yes, no), strict=True):
            self.cursor.block = block
            outcomes.append((make(), self.cursor.block))
            self.branch(after)
        self.cursor.block = after
        (yes_values, yes_end), (no_values, no_end) = outcomes
        return [self.merge((a, yes_end), (b, no_end)) for a, b in zip(yes_values, no_values, strict=True)]

    def only_if_unlikely(self, condition: Value, emit_body: Callable[[], object]) -> None:
        """Emit the code of `emit_body`, to run if the condition holds, in a block marked as unlikely."""
        self.only_if(condition, emit_body, (1, 99), "rare")


def select(condition: Value, yes: Value | Number, no: Value | Number) -> Value:
    """Emit `yes` where the condition holds, else `no`, lane by lane; at most one of them is a Python number."""
    if not isinstance(yes, Value):
        assert isinstance(no, Value)
        yes = no.constant(yes)
    kind, c = yes.type.text, condition
    no_text = no.text if isinstance(no, Value) else yes.type.literal(no)
    return yes.builder.define(yes.type, f"select {c.type.text} {c.text}, {kind} {yes.text}, {kind} {no_text}")


def intrinsic(name: str, *args: Value, result: Type | None = None, suffix: str | None = None) -> Value:
    """Emit a call of `llvm.<name>` with `args`; the type of the result is `result`, by default the type of the first argument.

    `suffix` ends the name: the overloaded types in LLVM's notation, by default the type of the result.
    """
    kind = args[0].type if result is None else result
    return args[0].builder.call(f"llvm.{name}.{kind.mangled if suffix is None else suffix}", kind, args)


def fma(x: Value, y: Value | Number, z: Value | Number) -> Value:
    """Emit x * y + z, rounded once."""
    y = y if isinstance(y, Value) else x.constant(y)
    z = z if isinstance(z, Value) else x.constant(z)
    return intrinsic("fma", x, y, z)


def select_smaller(x: Value, y: Value | Number) -> Value:
    """Emit the smaller of `x` and `y`, lane by lane; `x` if either is NaN. Integers are compared as signed."""
    y = y if isinstance(y, Value) else x.constant(y)
    return select(y < x, y, x)


def select_larger(x: Value, y: Value | Number) -> Value:
    """Emit the larger of `x` and `y`, lane by lane; `x` if either is NaN. Integers are compared as signed."""
    y = y if isinstance(y, Value) else x.constant(y)
    return select(y > x, y, x)
