"""Rules in machine code: they evaluate sizes, know the kinds of calls, and make the recipes that Python makes."""

from __future__ import annotations

import random
import struct
import sys
import threading
from itertools import product
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor._utils import upcalls
from tenxor.fastpath import launch_records, size_generic
from tenxor.fastpath.size_generic import SplitCall
from tenxor.graph import spec
from tenxor.graph.node import Recipe, _recipes, intern_recipe
from tenxor.ops import OPS
from tenxor.runtime.plan_execution import Plan
from tenxor.runtime.realize import compute_lock
from tenxor.symbolic.symint import SizeTrace
from tests.test_symbolic_sizes import a_program

pytestmark = pytest.mark.usefixtures("on")


def evaluate_traced(trace: SizeTrace, results: Any, *numbers: int) -> tuple[int, ...] | None:
    words = trace.encode(results)
    return upcalls.get_size_generic_functions().run_bytecode(struct.pack(f"={len(words)}q", *words), numbers)


@pytest.mark.parametrize("seed", range(300))
def test_size_programs_evaluate_as_in_python(seed: int) -> None:
    program, rng, trace = a_program(seed), random.Random(seed), SizeTrace()
    given = [rng.choice((0, 1, 2, 3, 5, 8, 12, 30, -1, -4)) for _ in range(3)]
    results = program([trace.add_input(n) for n in given])
    python = trace.compile_function(results)
    for other in (tuple(given), *product((0, 1, 3, 4, 7, 24, -2), repeat=3)):
        assert evaluate_traced(trace, results, *other) == python(*other), other


def test_size_programs_with_large_numbers_are_left_to_python() -> None:
    trace = SizeTrace()
    n, m = trace.add_input(6), trace.add_input(7)
    results = (n * n * n, n * m + 2, n - m)
    large = 1 << 21
    assert evaluate_traced(trace, results, 6, 7) == (216, 44, -1)
    assert evaluate_traced(trace, results, large - 1, -5) == ((large - 1) ** 3, (large - 1) * -5 + 2, large + 4)
    assert evaluate_traced(trace, results, large, 7) is None and evaluate_traced(trace, results, 3, 1 << 62) is None
    assert evaluate_traced(trace, results, 1) is None and evaluate_traced(trace, results, 1, 2, 3) is None


def kind(name: object, *given: Any, names: tuple[str, ...] = (), more: tuple[Any, ...] = ()) -> tuple[bytes, tuple[int, ...]] | None:
    found = SplitCall.of(name, given, names, more)
    return None if found is None else (found.signature, found.dims)


def realized(*shape: int, dtype: Any = tx.float64) -> tx.Tensor:
    found = tx.zeros(shape, dtype=dtype).realize()
    assert found.spec
    return found


def test_calls_share_a_signature_if_the_same_sizes_are_equal() -> None:
    def of(*shapes: tuple[int, ...], more: tuple[Any, ...] = ()) -> tuple[bytes, tuple[int, ...]]:
        found = kind("f", *[realized(*shape) for shape in shapes], *more)
        assert found is not None
        return found

    assert of((5, 7)) == (of((8, 3))[0], (5, 7)) and of((8, 3))[1] == (8, 3)
    alike = (
        [of((5, 7)), of((3, 4))],
        [of((5, 5)), of((4, 4))],
        [of((1, 7)), of((1, 4))],
        [of((0, 7)), of((0, 4))],
        [of((5, 7), (7,)), of((6, 8), (8,))],
        [of((5, 7), (5,)), of((6, 8), (6,))],
        [of((5, 7), (9,)), of((6, 8), (3,))],
        [of((5, 7), more=(5,)), of((6, 8), more=(6,))],
        [of((5, 7), more=((7, 5),)), of((6, 8), more=((8, 6),))],
        [of((5, 7), more=((7, 4),)), of((6, 8), more=((8, 4),))],
        [of((5, 7), more=((7, 3),)), of((6, 8), more=((8, 3),))],
        [of((5, 7), more=(1,)), of((6, 8), more=(1,))],
        [of((5, 7), more=(True,)), of((6, 8), more=(True,))],
        [of((5, 7), more=(0.5,)), of((6, 8), more=(0.5,))],
        [of((5, 7), more=(None,)), of((6, 8), more=(None,))],
        [of((5, 7), more=("sum",)), of((6, 8), more=("sum",))],
        [of((5, 7), more=(tx.int32,)), of((6, 8), more=(tx.int32,))],
        [of((5, 7), more=(float,)), of((6, 8), more=(float,))],
    )
    kinds = [{key for key, _ in each} for each in alike]
    assert all(len(each) == 1 for each in kinds)
    assert len(set.union(*kinds)) == len(kinds)
    assert of((5, 7), more=(-0.0,)) != of((5, 7), more=(0.0,)) and of((5, 7), more=(1,)) != of((5, 7), more=(True,))


def test_signatures_distinguish_dtypes_names_and_extra_numbers() -> None:
    x, y, z = realized(5, 7), realized(5, 7, dtype=tx.float32), realized(6, 8)
    assert kind("f", x) != kind("g", x) and kind("f", x) != kind("f", y)
    assert kind("f", x, 2, names=("axis",)) != kind("f", x, 2) != kind("f", x, 2, names=("other",))
    assert kind("f", x, more=((35,),)) == (kind("f", z, more=((48,),))[0], (5, 7, 35))  # type: ignore[index]
    assert kind("f", x, more=((35,),))[0] != kind("f", z, more=((6,),))[0]  # type: ignore[index]
    assert kind("f", x, more=((35, 5), (3,)))[0] != kind("f", x, more=((35,), (5, 3)))[0]  # type: ignore[index]
    assert kind("f", x.T) != kind("f", x) and kind("f", x.T)[0] == kind("f", z.T)[0]  # type: ignore[index]


def test_calls_with_tables_chains_or_objects_have_no_signature() -> None:
    x = realized(5, 7)
    table, chain, many = x.oindex[[0, 3, 1]], x.T.reshape(35), realized(1, 2, 3, 4, 5)
    assert table.spec and chain.spec
    for given in ((table,), (chain,), (many,), (x, [1, 2]), (x, (1, "a")), (x, 1 << 70), (x, object()), (x, np.float64(2)), (x[0, 0],)):
        assert kind("f", *given) is None, given
    assert kind("f", *[realized(2 * k + 3, 2 * k + 4) for k in range(16)]) is None  # more numbers than there is room for
    assert kind("f", x, more=((1,) * 600,)) is None  # more words


def by_rule(n: int) -> spec.ResultTemplate:
    """Return the entry of `x * 2` for this number of elements."""
    x = realized(n)
    x * 2
    found = x.spec.templates[tx.ops.OPS["multiply"]][int]
    assert found is not None
    return found


@pytest.mark.usefixtures("afresh")
def test_recipes_made_by_rule_equal_python_recipes() -> None:
    for n in range(20, 40):
        by_rule(n)
    assert any(known.entries for known in size_generic._templates_by_signature.values())
    for n in (7013, 7019, 7027, 7039):  # of which nobody has a recipe
        _recipes.clear()
        recipe = by_rule(n).recipe
        assert recipe is not None and not recipe.residuals
        parts = recipe.op, recipe.shape, recipe.dtype, recipe.dtypes, recipe.layout_keys, recipe.target
        assert recipe.data_recipe is intern_recipe(tx.graph.node.DATA, (n,), recipe.dtype)
        assert recipe.data_recipe.data_recipe is recipe.data_recipe
        for made, slots in ((recipe, Recipe(*parts)), (recipe.data_recipe, Recipe(tx.graph.node.DATA, (n,), recipe.dtype, (), (), None))):
            slots_compared = {slot.removeprefix("_") for slot in Recipe.__slots__}
            for slot in slots_compared - {"serial", "data_recipe", "launch_record", "packed_specs", "spec_indices", "residuals"}:
                assert getattr(made, slot) == getattr(slots, slot), slot
        assert recipe.serial > recipe.data_recipe.serial > 0 or recipe.data_recipe.serial > recipe.serial


@pytest.mark.usefixtures("afresh")
def test_templates_made_by_rule_count_toward_the_cache_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(20, 40):
        by_rule(n)
    first = realized(20).spec
    assert first.templates
    monkeypatch.setattr(spec, "_template_count", spec.MAX_TEMPLATES - 1)
    for n in range(5000, 5010 + spec.TEMPLATES_PER_REPORT):
        realized(n) * 2
    assert not first.templates and spec._template_count < spec.MAX_TEMPLATES


def test_views_made_by_rule_equal_python_views() -> None:
    rng, a = random.Random(5), np.arange(3 * 4 * 5.0).reshape(3, 4, 5)
    x = tx.asarray(a).realize()

    def part() -> Any:
        kind = rng.randrange(7)
        if kind < 2:
            return rng.randrange(-5, 5)
        ends = [rng.choice([None, *range(-7, 7), 1 << 40, -(1 << 70)]) for _ in range(2)]
        return slice(*ends, rng.choice([None, 1, 2, -1, -2, 7, -9, 1 << 40])) if kind < 5 else (None, ...)[kind - 5]

    seen = 0
    for _ in range(4000):
        key = tuple(part() for _ in range(rng.randrange(5)))
        try:
            wanted = a[key]
        except IndexError:
            with pytest.raises(IndexError):
                x[key]
            continue
        for found in (x[key], x[key]):
            with fastpath.disabled():
                own = x[key]
            assert (found.layout.shape, found.layout.strides, found.offset) == (own.layout.shape, own.layout.strides, own.offset), key
            assert found.spec.layout == own.spec.layout and np.array_equal(found.to_numpy(), wanted), key
            seen += found.ndim > 0
    assert seen > 1000


def test_views_of_more_bytes_than_64_bits_have_exact_sizes() -> None:
    x = tx.broadcast_to(realized(1, 1, dtype=tx.complex128), (1 << 31, 1 << 31))
    for n, m in ((1 << 30, 1 << 30), (1 << 30, 1 << 29), (1 << 20, 1 << 10), (1 << 20, (1 << 10) + 1), (1 << 30, 0)):
        assert (x[:n, :m].spec.size, x[:n, :m].spec.nbytes) == (n * m, n * m * 16)


@pytest.mark.usefixtures("afresh")
def test_first_templates_stay_inline_in_the_spec_until_python_reads_tables() -> None:
    for n in range(20, 40):
        (realized(n) * 2, realized(n) + 1, realized(n).sum(), 2 - realized(n))
    x, near = realized(41), spec.INLINE_CACHE_SLOTS
    assert not any(getattr(x.spec, name, None) for name in near)
    x.sum(), x * 2
    assert all(getattr(x.spec, name) for name in near)
    sums, double = x.spec.inline_cache_0, x.spec.inline_cache_1
    assert (sums.operation, double.operation, double.other_key) == ("sum", OPS["multiply"], int)  # type: ignore[union-attr]
    x + 1, 2 - x
    assert (x.spec.inline_cache_0, x.spec.inline_cache_1) == (sums, double)
    tables = x.spec.templates, x.spec.call_templates
    assert not any(getattr(x.spec, name, None) for name in near)
    assert [list(table) for table in tables] == [[OPS["add"], OPS["multiply"]], ["sum"]]
    assert tables[0][OPS["multiply"]][int] is double and list(tables[1]["sum"].values()) == [sums]
    x * 2, x.sum()
    assert not any(getattr(x.spec, name, None) for name in near), "what is in a table is found there"
    y = realized(42)
    y * 2
    assert y.spec.inline_cache_0.operation is OPS["multiply"] and spec._used_tables.count(y.spec) == 1  # type: ignore[union-attr]
    spec.clear_templates()
    assert not any(getattr(y.spec, name, None) for name in near)


@pytest.mark.usefixtures("afresh")
def test_spec_entries_are_cleared_whole_while_other_threads_use_them() -> None:
    """A half cleared entry was once found, and read."""
    sizes = [realized(n) for n in range(20, 90)]
    for x in sizes:
        -x, x.sum(), x * 2
    over, errors, interval = threading.Event(), list[BaseException](), sys.getswitchinterval()

    def again(act: Any) -> None:
        try:
            while not over.is_set():
                act()
        except BaseException as error:
            errors.append(error)

    def use() -> None:
        for x in sizes:
            -x, x.sum(), x * 2

    def look() -> None:
        for x in sizes:
            assert all(
                made is not None
                for every in (*x.spec.templates.values(), *x.spec.call_templates.values())
                for made in every.copy().values()
            )

    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=again, args=(act,)) for act in (use, spec.clear_templates, look)]
    try:
        for thread in threads:
            thread.start()
        over.wait(2)
    finally:
        over.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()
    assert not errors


@pytest.mark.usefixtures("afresh")
def test_forgotten_signatures_are_released_by_the_fast_path() -> None:
    for n in range(20, 60):
        realized(n) * 2, realized(n).sum()
    known, (alone,) = (
        list(size_generic._templates_by_signature.values()),
        [sys.getrefcount(kind) for kind in [size_generic.SignatureTemplates(None)]],
    )
    assert any(sys.getrefcount(kind) >= alone + 2 for kind in known if kind.entries), "machine code has at hand which it met last"
    size_generic._templates_by_signature.clear()
    assert [sys.getrefcount(kind) for kind in known] == [alone] * len(known)
    for n in range(60, 100):
        assert (realized(n) * 2).tolist() == [0.0] * n and realized(n).sum().item() == 0


@pytest.mark.usefixtures("afresh")
def test_inline_spec_entry_is_found_by_an_equal_key() -> None:
    for n in range(20, 40):
        realized(n, n + 1).sum(axis=(0, 1)), realized(n, 3).reshape(n * 3), realized(n, n + 1).sum(axis=0)
    x, y = realized(50, 51), realized(50, 3)
    x.sum(axis=(0, 1)), y.reshape(150)
    for made, again in ((x, lambda: x.sum(axis=(0, 1))), (y, lambda: y.reshape(int("150")))):
        before = made.spec.inline_cache_0
        again()
        assert made.spec.inline_cache_0 is before and getattr(made.spec, "inline_cache_1", None) is None
    x.sum(axis=0)
    assert x.spec.inline_cache_1


def columns(n: int) -> tx.Tensor:
    """Return all columns but the first: frames of its results contain sizes."""
    return realized(n, 3 + n % 5)[:, 1:]


@pytest.mark.usefixtures("afresh")
def test_launch_records_are_kept_while_another_thread_computes() -> None:
    """The other thread may run a kernel that only the record refers to."""
    for n in range(20, 40):
        (columns(n) * 2).tolist()
    taken, over = threading.Event(), threading.Event()
    x, y = columns(51), columns(52)
    recipes = [Recipe(tx.graph.node.DATA, (1,), tx.uint8, (), (), None) for _ in range(2 * launch_records.MAX_LAUNCH_RECORDS)]
    launch_records.recipes_with_records[:] = recipes

    def compute() -> None:
        with compute_lock:
            taken.set()
            over.wait(60)

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        assert taken.wait(60)
        x * 2
    finally:
        over.set()
        thread.join()
    assert x.spec.templates and launch_records.recipes_with_records[0] is recipes[0]
    y * 2
    assert y.spec.templates and recipes[0] not in launch_records.recipes_with_records


@pytest.mark.usefixtures("afresh")
@pytest.mark.parametrize("is_shared", [True, False])
def test_launch_record_of_a_dot_product_stays_with_its_kernel(is_shared: bool) -> None:
    """Another thread may be running the kernel."""

    def frame_and_key(n: int) -> tuple[Any, Any]:
        x = realized(n) if is_shared else columns(n)
        y = realized(x.shape[-1])
        x @ y
        (made,) = x.spec.call_templates["__matmul__"].values()
        product, recipe = [recipe for recipe, *_ in made.steps]  # type: ignore[union-attr]
        (x @ y).tolist()
        return product.sum_launch_records[recipe], (recipe, product)

    for n in range(20, 60):
        frame_and_key(n)
    frame, key = frame_and_key(71)
    kept = launch_records.recipes_with_records[:]
    spec.clear_templates()
    frame_and_key(71)
    recipe, product = key
    assert product.sum_launch_records[recipe] is frame and launch_records.recipes_with_records[: len(kept)] == kept
    plan = frame.plan if is_shared else kept[kept.index(product) - 1]
    assert isinstance(plan, Plan) and (type(frame) is launch_records.SharedLaunchRecord) is is_shared and is_shared is (product not in kept)
