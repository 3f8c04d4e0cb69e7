"""Entries that rules make for tensors of other sizes equal entries that each size learns for itself."""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor._utils.locks import try_acquire
from tenxor.errors import DTypeError, OutOfBounds, ShapeError
from tenxor.fastpath import launch_records, size_generic, write_recorder
from tenxor.fastpath.size_generic import SplitCall, is_same_template
from tenxor.graph import spec
from tenxor.graph.node import Recipe
from tenxor.layout import Layout, layout_key_of_dims
from tenxor.tensor.core import TensorBase

pytestmark = pytest.mark.usefixtures("on")

Line = Callable[[Any, Any, int, int], Any]
# Of two matrices of the same shape (n, m): operations, views, reductions, products, functions of several, and writes.
LINES: dict[str, Line] = {
    "a number": lambda x, y, n, m: x * 2.5,
    "an integer": lambda x, y, n, m: 3 - x,
    "its own size": lambda x, y, n, m: m - x / n,
    "its own size, of integers": lambda x, y, n, m: x.astype(tx.int64) * n + m,
    "two": lambda x, y, n, m: x + y,
    "compared": lambda x, y, n, m: x < y,
    "turned": lambda x, y, n, m: x.T - 1.0,
    "both turned": lambda x, y, n, m: x.T / y.T,
    "one turned": lambda x, y, n, m: x.T.reshape(n, m) * y,
    "a function": lambda x, y, n, m: tx.exp(x),
    "rows": lambda x, y, n, m: x - y[0],
    "columns": lambda x, y, n, m: x - y[:, :1],
    "backwards": lambda x, y, n, m: x[::-1] + y[:, ::-1],
    "itself": lambda x, y, n, m: x * x,
    "chosen": lambda x, y, n, m: tx.where(x > 0.5, x, y),
    "chosen, a number": lambda x, y, n, m: tx.where(x > 0.5, x, -1.0),
    "clipped": lambda x, y, n, m: tx.clip(x, 0.25, 0.75),
    "another dtype": lambda x, y, n, m: x.astype(tx.float32) + 1,
    "sum": lambda x, y, n, m: x.sum(),
    "sums of rows": lambda x, y, n, m: x.sum(axis=1, keepdims=True),
    "largest of columns": lambda x, y, n, m: x.max(axis=0),
    "place of the largest": lambda x, y, n, m: x.argmax(axis=1),
    "mean": lambda x, y, n, m: x.mean(axis=0),
    "variance": lambda x, y, n, m: x.var(axis=1, correction=1),
    "half a degree": lambda x, y, n, m: x.var(axis=1, correction=0.5),
    "summed up": lambda x, y, n, m: x.cumsum(axis=1),
    "softmax": lambda x, y, n, m: tx.softmax(x, axis=-1),
    "product": lambda x, y, n, m: x @ y.T,
    "with a vector": lambda x, y, n, m: x @ y[0],
    "outer": lambda x, y, n, m: x[:, 0].reshape(n, 1) @ y[0].reshape(1, m),
    "einsum": lambda x, y, n, m: tx.einsum("ij,ij->i", x, y),
    "in another shape": lambda x, y, n, m: x.reshape(m, n),
    "flat": lambda x, y, n, m: x.ravel(),
    "with a new axis": lambda x, y, n, m: x.reshape(n, 1, m),
    "repeated": lambda x, y, n, m: x[0].expand((3, m)),
    "flipped": lambda x, y, n, m: tx.flip(x),
    "side by side": lambda x, y, n, m: tx.concat([x, y], axis=1),
    "stacked": lambda x, y, n, m: tx.stack([x, y.T.reshape(n, m), x], axis=1),
    "flat, one after another": lambda x, y, n, m: tx.concat([x, y[1:]], axis=None),
    "rolled": lambda x, y, n, m: tx.roll(x, 2, axis=1),
    "rows of a list": lambda x, y, n, m: x[[0, n - 1, 0]],
    "rows of a longer list": lambda x, y, n, m: x[[*range(n), *range(n)]],
    "rows by indices": lambda x, y, n, m: x[tx.asarray([*range(n - 1, -1, -1)]).realize()[::2]],
    "rows by a mask": lambda x, y, n, m: x[(x[:, 0] > 2).realize()],
    "taken": lambda x, y, n, m: tx.take(x, tx.asarray([*range(n - 1, -1, -1)]).realize()[::2], axis=0),
    "elements by a mask": lambda x, y, n, m: x[(x > 2).realize()],
    "rows written by indices": lambda x, y, n, m: written(x, tx.asarray([*range(n)]).realize(), y),
    "split": lambda x, y, n, m: tx.split(tx.concat([x, y]).realize(), 2)[1],
    "uneven parts": lambda x, y, n, m: tx.array_split(x, 2, axis=1)[1],
    "split where said": lambda x, y, n, m: tx.split(x, (1, m - 1), axis=1)[2],
    "a grid": lambda x, y, n, m: tx.meshgrid(x[0], y[:, 0])[1],
    "sorted": lambda x, y, n, m: tx.sort(x, axis=0),
    "sorted backwards": lambda x, y, n, m: tx.sort(x[:, 0], descending=True),
    "in order": lambda x, y, n, m: tx.argsort(x, axis=1),
    "the best of rows": lambda x, y, n, m: tx.topk(x[:, :2], 1)[0],
    "a square solved": lambda x, y, n, m: tx.linalg.solve((x @ x.T + n * 4.0 * tx.eye(n)).realize(), y[:, 0]),
    "values of a square": lambda x, y, n, m: tx.linalg.eigvalsh((x @ x.T).realize()),
    "padded": lambda x, y, n, m: tx.pad(x, ((1, 1), (0, 2))),
    "norm": lambda x, y, n, m: tx.linalg.vector_norm(x),
    "written": lambda x, y, n, m: written(x, slice(1, n), 7.5),
    "written, an integer": lambda x, y, n, m: written(x, slice(1, n), 7),
    "written, rows": lambda x, y, n, m: written(x, slice(1, n), y[0]),
    "written, a part of another": lambda x, y, n, m: written(x, (slice(1, n), slice(0, m - 1)), y[1:, 1:]),
    "added to": lambda x, y, n, m: added(x, n),
}


def written(x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


def added(x: Any, n: int) -> Any:
    x[1:n] += 2.0
    return x


def matrices(n: int, m: int, dtype: Any = np.float64) -> tuple[tx.Tensor, tx.Tensor]:
    rng = np.random.default_rng(n * 1000 + m)
    x, y = (rng.random((n, m)) * 4).astype(dtype), (rng.random((n, m)) * 4).astype(dtype)
    return tx.asarray(x).realize(), tx.asarray(y).realize()


def bits(line: Line, n: int, m: int) -> bytes:
    return bytes(line(*matrices(n, m), n, m).to_numpy().tobytes())


NO_RULES = ("half a degree", "rows of a longer list")  # a number that is no integer, and few sizes
SIZES = [(5, 7), (6, 9), (8, 11), (9, 9), (12, 5), (7, 40), (40, 7), (33, 17), (17, 33), (21, 22), (64, 3), (3, 64), (16, 16), (2, 9)]
OTHERS = [(10, 13), (13, 10), (11, 11), (35, 19), (19, 35), (2, 2), (66, 3), (3, 70), (2, 31), (31, 2), (24, 24), (1, 12), (12, 1)]


def forget() -> None:
    spec.clear_templates()
    launch_records.drop_records()
    size_generic._templates_by_signature.clear()


def known() -> dict[tuple[int, object, object], spec.ResultTemplate | None]:
    """Return all entries of the tables of made tensors."""
    for each in spec._used_tables[:]:
        if isinstance(each, spec.Spec):
            assert each.templates is each._templates  # from now on it is in a table
    tables = [each for each in spec._used_tables if not isinstance(each, spec.Spec)]
    return {(id(table), op, key): made for table in tables for op, every in table.items() for key, made in every.items()}


def recipe_key(recipe: Recipe) -> tuple[object, ...]:
    """Return the values that equal recipes share."""
    return recipe.op, recipe.shape, recipe.dtype, recipe.dtypes, recipe.layout_keys, recipe.target


def recipes_in(known: dict[tuple[int, object, object], spec.ResultTemplate | None]) -> list[Recipe]:
    """Return the recipes of entries."""
    made = [each for each in known.values() if each is not None]
    several = [recipe for each in made if isinstance(each, spec.StepsTemplate) for recipe in each.step_recipes]
    return [*[each.recipe for each in made if isinstance(each, spec.RecipeTemplate) and each.recipe is not None], *several]


def words_with_sizes(frame: bytes, recipe: Recipe) -> list[int]:
    """Return the words of a frame, with the sizes from its recipe filled in."""
    words = list(struct.unpack(f"={len(frame) // 8}q", frame))
    sizes = [recipe.size, *[0 if form is None else form.layout.size for form in recipe.layout_keys]]
    if words[1] < 0:
        words[1] = sizes[-1 - words[1]]
    for at in range(launch_records.NODE_HEADER_WORDS, len(words), launch_records.ARGUMENT_WORDS):
        if words[at] == launch_records.ELEMENT_COUNT:
            words[at : at + launch_records.ARGUMENT_WORDS] = launch_records.LITERAL, 0, 0, 0, sizes[words[at + 1]]
    return words


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("name", LINES)
def test_size_generic_rule_makes_the_same_templates_as_recording(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line, asked, of = LINES[name], list[object](), SplitCall.of

    def noted(*given: Any, **more: Any) -> SplitCall | None:
        asked.append(given[0])
        return of(*given, **more)

    monkeypatch.setattr(SplitCall, "of", noted)
    found = {size: bits(line, *size) for size in SIZES + OTHERS}
    with_rules = known()
    packed = {recipe_key(x): words_with_sizes(x.launch_record, x) for x in recipes_in(with_rules) if x.launch_record}
    calls = len(asked)
    forget()
    monkeypatch.setattr(size_generic, "MAX_TRACES", 0)
    assert {size: bits(line, *size) for size in SIZES + OTHERS} == found
    assert name in NO_RULES or calls < len(asked) - calls, "rules make what Python's own methods would"
    compared = 0
    for key, made in known().items():
        before = with_rules.get(key)
        if before is not None:
            assert made is not None and is_same_template(before, made), (name, before.spec, made.spec)
            compared += 1
    for recipe in recipes_in(known()):
        if recipe.launch_record and packed.get(recipe_key(recipe)):
            assert packed[recipe_key(recipe)] == words_with_sizes(recipe.launch_record, recipe), (name, recipe)
    assert compared or name in NO_RULES


@pytest.mark.parametrize("name", LINES)
def test_values_of_other_sizes_match_python_methods(name: str) -> None:
    line = LINES[name]
    found = [bits(line, *size) for size in SIZES + OTHERS]
    with fastpath.disabled():
        assert found == [bits(line, *size) for size in SIZES + OTHERS]


@pytest.mark.usefixtures("afresh")
def test_sizes_covered_by_a_size_generic_rule_run_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_it(n: int) -> list[Any]:
        x, y = matrices(n, n + 1)
        row = x[:, 0].copy()
        row[: n - 1] = 3.0
        return [(x * 2 + y).tolist(), x.sum(axis=1).tolist(), x.mean().item(), (x @ y[0]).tolist(), tx.softmax(x).tolist(), row.tolist()]

    for n in (*range(16, 32, 2), *range(34, 64, 2)):
        all_of_it(n)

    def never(*given: object) -> None:
        raise AssertionError("Python's own method looks at sizes that are like others before")

    monkeypatch.setattr(TensorBase, "_compute_uncached", never)
    monkeypatch.setattr(launch_records, "_build_recipe_record", never)
    monkeypatch.setattr(write_recorder.WriteDescription, "build_template", never)
    for n in (21, 25, 41, 43, 45, 47):
        all_of_it(n)


@pytest.mark.usefixtures("afresh")
def test_random_operations_of_random_sizes_match_python(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(7)
    drawn = [(rng.choice(list(LINES)), rng.randrange(2, 50), rng.randrange(2, 50)) for _ in range(600)]
    found = [bits(LINES[name], n, m) for name, n, m in drawn]
    forget()
    with fastpath.disabled():
        for (name, n, m), its in zip(drawn, found, strict=True):
            assert bits(LINES[name], n, m) == its, (name, n, m)


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool", "complex128"])
def test_size_generic_rules_give_python_results_for_every_dtype(dtype: str) -> None:
    def line(n: int, m: int) -> list[Any]:
        x, y = matrices(n, m, dtype)
        return [(x == y).tolist(), x.T.tolist(), x.sum(axis=0).tolist(), tx.where(x == y, x, y).tolist(), (x * y).tolist()]

    found = [line(*size) for size in SIZES + OTHERS]
    with fastpath.disabled():
        assert found == [line(*size) for size in SIZES + OTHERS]


@pytest.mark.usefixtures("afresh")
def test_errors_at_sizes_covered_by_a_rule_name_the_operation() -> None:
    for n in range(5, 30):
        x, y = matrices(n, n + 1)
        assert (x + y).shape == (n, n + 1) and (x.reshape(n + 1, n)).shape == (n + 1, n)
        with pytest.raises(ShapeError, match="do not broadcast"):
            x + y.T
        with pytest.raises(ShapeError, match="reshape"):
            x.reshape(n, n)
        with pytest.raises(ShapeError, match="assignment"):
            x[: n - 1] = y
        bytes_of = tx.zeros((n,), dtype=tx.uint8)
        bytes_of[: n - 1] = 255
        with pytest.raises((OverflowError, DTypeError, ValueError), match="256"):
            bytes_of[: n - 1] = 256
        assert bytes_of.tolist() == [255] * (n - 1) + [0]


@pytest.mark.usefixtures("afresh")
def test_size_generic_rules_are_correct_inside_grad_and_vmap() -> None:
    def slope(x: Any) -> Any:
        return (tx.softmax(x * 2.0) * x).sum() + x.mean()

    for n in range(4, 40, 3):
        x = tx.asarray(np.linspace(-1, 1, n)).realize()
        (slope(x)).realize()
        found = tx.grad(slope)(x)
        with fastpath.disabled():
            wanted = tx.grad(slope)(tx.asarray(np.linspace(-1, 1, n)).realize())
        assert found.to_numpy().tobytes() == wanted.to_numpy().tobytes()
        batch = tx.vmap(slope)(tx.stack([x, x * 2]))
        assert np.allclose(batch.to_numpy(), [slope(x).item(), slope(x * 2).item()])


@pytest.mark.usefixtures("afresh")
def test_failed_trace_with_symbolic_sizes_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> None:
        raise TypeError("no")

    monkeypatch.setattr(size_generic, "_trace_template", broken)
    for n in range(5, 20):
        x, y = matrices(n, n + 1)
        assert np.array_equal((x + y).to_numpy(), x.to_numpy() + y.to_numpy())
    assert fastpath.state == "on" and "__add__" in vars(tx.Tensor)


@pytest.mark.usefixtures("afresh")
def test_number_of_traces_with_symbolic_sizes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = size_generic._trace_count
    monkeypatch.setattr(size_generic, "MAX_TRACES", looks + 2)
    for n in range(5, 40):
        x, y = matrices(n, n + 1)
        assert [tx.sin(x).shape, (x - y).shape, x.max().shape, tx.cos(y).shape] == [(n, n + 1), (n, n + 1), (), (n, n + 1)]
    assert size_generic._trace_count == looks + 2


@pytest.mark.usefixtures("afresh")
def test_tracing_is_deferred_while_another_thread_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = True
    monkeypatch.setattr(size_generic, "try_acquire", lambda its: not busy and try_acquire(its))
    for n in range(5, 20):
        tx.cos(matrices(n, n + 1)[0]).realize()
    assert not any(known.entries for known in size_generic._templates_by_signature.values())
    busy = False
    for n in range(20, 30):
        tx.cos(matrices(n, n + 1)[0]).realize()
    assert any(known.entries for known in size_generic._templates_by_signature.values())


def test_python_methods_stay_until_the_last_disabled_context_ends() -> None:
    def own() -> bool:
        return type(vars(tx.Tensor)["__add__"]).__name__ == "function" if "__add__" in vars(tx.Tensor) else True

    assert not own()
    one, other = fastpath.disabled(), fastpath.disabled()
    with one:
        other.__enter__()
        assert own()
    assert own()
    other.__exit__(None, None, None)
    assert not own()


@pytest.mark.usefixtures("afresh")
def test_size_generic_rules_are_made_again_after_layout_keys_are_cleared() -> None:
    from tenxor.graph.node import _recipes
    from tenxor.layout import layout_key

    for n in range(6, 20):
        x, y = matrices(n, n + 1)
        layout_key._layout_keys.clear()
        _recipes.clear()
        assert np.allclose((x @ y[0]).to_numpy(), x.to_numpy() @ y[0].to_numpy())
        assert np.array_equal(x.max(axis=1, keepdims=True).to_numpy(), x.to_numpy().max(axis=1, keepdims=True))
    assert sum(len(known.entries) for known in size_generic._templates_by_signature.values()) >= 2


def test_recipe_knows_whether_it_keeps_the_order_after_layout_keys_are_cleared() -> None:
    from tenxor.layout import layout, layout_key

    x = tx.ones((3, 5)).realize()
    before = x.layout.layout_key
    layout_key._layout_keys.clear()
    layout._contiguous.cache_clear()
    assert Layout.contiguous((3, 5)).layout_key is not before
    assert (x + 1).storage.node.recipe.keeps_order
    assert not (x[:, ::-1] + 1).storage.node.recipe.keeps_order


def test_layout_keys_are_unique_after_the_table_is_cleared() -> None:
    from tenxor.layout import layout_key

    x, point = tx.zeros((12, 9)).realize(), tx.asarray(1.0).spec
    before = x[1:8].layout.layout_key
    layout_key._layout_keys.clear()
    for _ in range(2):
        assert layout_key_of_dims((7, 9), (9, 1)) is Layout.contiguous((7, 9)).layout_key is x[1:8].layout.layout_key is not before
        assert x[1:8].spec is spec.intern_spec(Layout.contiguous((7, 9)), x.dtype)
    assert layout_key_of_dims((7, 9), (1, 7)).layout == Layout((7, 9), (1, 7))
    assert tx.asarray(1.0).spec is point is x[3, ..., 4].spec


def test_slice_update_is_recorded_after_layout_keys_are_cleared() -> None:
    """`x[4:] += y` writes once, because the spec of the slice is marked as writable."""
    from tenxor.layout import layout_key

    x = tx.zeros((12, 9)).realize()
    for _ in range(3):
        x[4:] += 1.0
    layout_key._layout_keys.clear()
    for k in range(6):
        x[4:] += 1.0
        assert k < 4 or x[4:].spec.is_writable
    assert x.to_numpy().sum() == 8 * 9 * 9


CREATED: dict[str, Callable[[int, int], Any]] = {
    "zeros": lambda n, m: tx.zeros(n),
    "zeros of rows": lambda n, m: tx.zeros((n, m), dtype=tx.float32),
    "ones": lambda n, m: tx.ones((3, n, m), dtype="int8"),
    "full": lambda n, m: tx.full((n, 2), 2.5),
    "full of integers": lambda n, m: tx.full((n,), 7, dtype=tx.uint64),
    "arange": lambda n, m: tx.arange(n),
    "arange from": lambda n, m: tx.arange(2, n, dtype=tx.float32),
    "arange in steps": lambda n, m: tx.arange(0, n, 3),
    "arange backwards": lambda n, m: tx.arange(n, -1, -1),
    "arange of two sizes": lambda n, m: tx.arange(n, n + m, dtype=tx.uint64),
    "arange of floats": lambda n, m: tx.arange(0.0, n),
    "linspace": lambda n, m: tx.linspace(-1.0, 1.0, n),
    "linspace without its end": lambda n, m: tx.linspace(0, 0.3, n, endpoint=False, dtype=tx.float32),
    "eye": lambda n, m: tx.eye(n, m, k=1),
    "zeros like": lambda n, m: tx.zeros_like(tx.ones((n, m))[:, 1:]),
}
BY_RULE = ("zeros", "zeros of rows", "ones", "full", "full of integers", "arange", "arange in steps", "linspace", "zeros like")


def made(found: Any) -> tuple[str, tuple[int, ...], bytes]:
    return str(found.dtype), found.shape, found.to_numpy().tobytes()


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("name", CREATED)
def test_creation_rule_makes_the_same_templates_as_recording(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fastpath.fast_path is not None
    rules, create, asked = fastpath.fast_path.creation_functions.templates, CREATED[name], list[str]()
    own = fastpath.fast_path.creation_functions.record
    monkeypatch.setattr(fastpath.fast_path.creation_functions, "record", lambda name, *given: [asked.append(name), own(name, *given)])
    rules.clear()
    sizes = [(n, n % 23 + 17) for n in (*range(16, 60), 100, 1000, 1024, 5, 1, 2, 300, 301)]
    for size in sizes:
        create(*size)
    asked.clear()
    others = [(n, n % 19 + 18) for n in (61, 77, 128, 129, 200, 257, 1001, 2000, 3, 3000, 4000)]
    found = [made(create(*size)) for size in others]
    functions = 3 if name == "linspace" else 2
    assert len(asked) <= 3 * functions or name not in BY_RULE, asked  # of the last three sizes
    by_rule = dict(rules)
    rules.clear()
    forget()
    monkeypatch.setattr(size_generic, "MAX_TRACES", 0)
    assert [made(create(*size)) for size in others] == found
    compared = [is_same_template(by_rule[key], known) for key, known in rules.items() if key in by_rule]
    assert compared and all(compared)
    with fastpath.disabled():
        assert [made(create(*size)) for size in others] == found


def test_invalid_sizes_raise_despite_creation_rules() -> None:
    for n in range(16, 40):
        tx.zeros(n), tx.arange(n)
        assert tx.arange(n, dtype=tx.int8).tolist() == list(range(n))
    with pytest.raises(ShapeError, match="negative"):
        tx.zeros(-17)
    with pytest.raises(OutOfBounds, match="int8"):
        tx.arange(400, dtype=tx.int8)
    with pytest.raises(MemoryError):
        tx.zeros(1 << 60).realize()
    with pytest.raises(MemoryError):
        tx.arange(1 << 62)
    assert tx.arange(-20).shape == (0,) and tx.arange((1 << 63) - 20, 1 << 63).tolist()[-1] == (1 << 63) - 1


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("line", (lambda x: x * 2, lambda x: (x * 2).sum(), lambda x: tx.exp(x).max()))
def test_node_seen_only_in_larger_graphs_gets_a_launch_record(line: Callable[[Any], Any]) -> None:
    """A rule is made after a few calls of its signature; the kernels of its steps may never have run by then."""
    x, y = (tx.asarray(np.arange(2000.0) % (7 + k)) for k in range(2))
    for n in range(40, 60):
        (line(x[:n]) + y[:n] * 0.5).realize()
    for n in range(100, 106):
        line(x[:n]).realize()
    met: list[str] = []
    sys.setprofile(lambda frame, event, _: met.append(frame.f_code.co_name) if event == "call" else None)
    try:
        for n in range(200, 240):
            line(x[:n]).realize()
    finally:
        sys.setprofile(None)
    assert met.count("store_node_record") <= 2, "that of a rule for others than those"
