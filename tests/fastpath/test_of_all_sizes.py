"""Rules share one object among all sizes where the sizes do not matter, and leave little memory."""

from __future__ import annotations

import gc
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.api import histograms, host_calls, unique_values
from tenxor.fastpath import graph_launch, launch_records, size_generic
from tenxor.graph import spec
from tenxor.graph.node import DATA, Recipe
from tenxor.ops import OPS

pytestmark = [pytest.mark.usefixtures("on"), pytest.mark.usefixtures("afresh")]
SEVERAL = (61, 67, 71)


def numbers(*shape: int, dtype: Any = "d") -> tuple[tx.Tensor, np.ndarray[Any, Any]]:
    array = np.random.default_rng(sum(shape)).random(shape).astype(dtype)
    found = tx.asarray(array.copy()).realize()
    assert found.spec
    return found, array


def made_of(table: spec.TemplateTable) -> spec.ResultTemplate:
    (every,) = table.values()
    (made,) = every.values()
    assert made is not None
    return made


def doubled(n: int) -> spec.ResultTemplate:
    x, array = numbers(n)
    assert np.array_equal((x * 2).to_numpy(), array * 2)
    return made_of(x.spec.templates)


def test_launch_record_without_sizes_is_shared_by_all_sizes() -> None:
    for n in range(34, 60):
        doubled(n)
    first, *others = [doubled(n).recipe for n in SEVERAL]
    assert first is not None and type(first.launch_record) is launch_records.SharedLaunchRecord and first.launch_record.plan
    assert all(recipe is not None and recipe.launch_record is first.launch_record for recipe in others)


def test_launch_records_with_sizes_are_separate() -> None:
    found = []
    for n in (*range(34, 60), *SEVERAL):
        x, array = numbers(n, 3 + n % 7)
        assert np.array_equal((x[:, 1:] * 2).to_numpy(), array[:, 1:] * 2)
        found.append(made_of(x[:, 1:].spec.templates).recipe)
    packed = [recipe.launch_record for recipe in found[-3:] if recipe is not None]
    assert len(set(packed)) == 3 and not any(type(frame) is launch_records.SharedLaunchRecord for frame in packed)


@pytest.mark.parametrize("line", [lambda x: x.sum(), lambda x: x.max(), lambda x: x @ x, lambda x: (x * x).sum(), lambda x: x.mean()])
def test_reductions_of_new_sizes_read_every_element(line: Any) -> None:
    for n in (*range(34, 60), 1, 2, *SEVERAL, 1000, 2047, 3, 5):
        x, array = numbers(n)
        assert np.allclose(line(x).item(), line(array), rtol=1e-14)


def test_step_operands_of_a_template_are_one_object_for_all_sizes() -> None:
    def made(n: int) -> spec.ResultTemplate:
        x, array = numbers(n)
        assert x.sum(axis=0).item() == pytest.approx(array.sum())
        return made_of(x.spec.call_templates)

    for n in range(34, 60):
        made(n)
    first, *others = [made(n) for n in SEVERAL]
    assert all(other.step_operands is first.step_operands and other.step_recipes != first.step_recipes for other in others)
    assert first.steps == ((first.step_recipes[0], *first.step_operands[0]),)


def test_recipe_refers_to_the_spec_of_its_operand() -> None:
    for n in range(34, 60):
        doubled(n)
    x, _ = numbers(SEVERAL[0])
    x * 2
    recipe = made_of(x.spec.templates).recipe
    assert recipe is not None and recipe.packed_specs is x.spec and recipe.spec_indices == (0, -1, -1)
    assert recipe.specs == (x.spec, None, None) and recipe.layout_keys == (x.spec.layout_key, None) and recipe.target is None


def test_recipe_with_two_operands_refers_to_both_specs() -> None:
    for n in range(34, 60):
        (x, a), (y, b) = numbers(n, 3), numbers(3)
        assert np.array_equal((x + y).to_numpy(), a + b)
    (x, a), (y, b) = numbers(SEVERAL[0], 3), numbers(3)
    assert np.array_equal((x + y).to_numpy(), a + b)
    recipe = x.spec.templates[OPS["add"]][y.spec].recipe  # type: ignore[union-attr]
    assert recipe is not None and type(recipe.packed_specs) is tuple and recipe.specs is recipe.packed_specs
    assert [None if form is None else form.layout.strides for form in (*recipe.layout_keys, recipe.target)] == [(3, 1), (0, 1), None]


def test_elementwise_product_keeps_a_launch_record_for_each_axis_of_its_sums() -> None:
    def sums(n: int) -> tuple[Recipe, list[Recipe]]:
        (x, a), (y, b) = numbers(n, 3), numbers(n, 3)
        found = [(x * y).sum(axis=axis) for axis in (0, 1, None)]
        own = [t.storage.node for t in found]
        product, recipes = own[0].sources[0].recipe, [node.recipe for node in own]  # type: ignore[union-attr]
        for t, axis in zip(found, (0, 1, None), strict=True):
            assert np.allclose(t.to_numpy(), (a * b).sum(axis=axis), rtol=1e-14)
        return product, recipes

    for n in range(34, 60):
        sums(n)
    product, recipes = sums(SEVERAL[0])
    known = product.sum_launch_records
    assert type(product.sum_launch_records) is dict and all(known.get(recipe) for recipe in recipes)
    sums(SEVERAL[0])
    assert product.sum_launch_records == known
    launch_records.drop_records()


def test_recipe_numbers_are_assigned_on_demand() -> None:
    for n in range(34, 60):
        doubled(n)
    recipes = [doubled(n).recipe for n in SEVERAL]
    assert not any(has_number(recipe) for recipe in recipes if recipe is not None)
    found = {recipe.serial for recipe in recipes if recipe is not None}
    assert len(found) == len(SEVERAL) and found == {recipe.serial for recipe in recipes if recipe is not None}


def has_number(recipe: Recipe) -> bool:
    try:
        Recipe.__dict__["_serial"].__get__(recipe, Recipe)
    except AttributeError:
        return False
    return True


def test_recipe_of_data_is_in_no_reference_cycle() -> None:
    x, _ = numbers(SEVERAL[0])
    for recipe in (x.storage.node.recipe, Recipe(DATA, (3,), tx.float64, (), (), None)):
        assert recipe.data_recipe is recipe and recipe not in gc.get_referents(recipe)


def test_cache_entries_of_new_sizes_are_untracked_and_small() -> None:
    for n in range(34, 60):
        doubled(n), numbers(n)[0].sum()
    likewise_known = len(size_generic._templates_by_signature)
    gc.collect()
    made = [doubled(n) for n in SEVERAL]
    assert len(size_generic._templates_by_signature) == likewise_known
    tracked = {id(x) for x in gc.get_objects()}
    for each in made:
        assert each.recipe is not None
        of_it = (each, each.recipe, each.spec, each.recipe.data_recipe, each.spec.shape)
        assert not any(id(x) in tracked for x in of_it), "the collector walks through each"
    assert sum(sys.getsizeof(x) for x in (made[0], made[0].recipe, made[0].spec)) < 600


def record_calls(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> list[Any]:
    """Record the arguments of a Python function of this name."""
    asked, own = list[Any](), getattr(where, name)

    def noted(*given: Any, **named: Any) -> Any:
        asked.append(given)
        return own(*given, **named)

    monkeypatch.setattr(where, name, noted)
    return asked


def test_pad_of_new_sizes_is_not_planned_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def padded(n: int) -> None:
        x, array = numbers(n)
        assert np.array_equal(tx.pad(x, (2, 3)).realize().to_numpy(), np.pad(array, (2, 3)))

    for n in range(34, 60):
        padded(n)
    planned = record_calls(monkeypatch, sys.modules["tenxor.runtime.realize"], "_find_plan")
    for n in (*SEVERAL, 73, 75):
        padded(n)
    assert not planned


def test_map_written_nodes_maps_each_step_to_the_last_step_that_overwrites_it() -> None:
    def where(*steps: tuple[int, int | None, bool, int]) -> dict[int, int] | None:
        made = [SimpleNamespace(result_slot=k, overwritten_slot=over, donors=[(over, ())] * last, nbytes=n) for k, over, last, n in steps]
        return graph_launch._map_written_nodes(SimpleNamespace(steps=made))  # type: ignore[arg-type]

    assert where((3, None, False, 8), (5, None, False, 8)) == {3: 3, 5: 5}
    assert where((3, None, False, 8), (4, 3, True, 8), (7, None, False, 8), (9, 4, True, 8)) == {3: 9, 4: 9, 7: 7, 9: 9}
    assert where((3, None, False, 8), (4, 3, False, 8)) is None, "what is read afterwards is copied"
    assert where((4, 3, True, 8)) is None, "memory that was there before is not looked at"
    assert where((3, None, False, 8), (4, 3, True, 1 << 21)) is None


def test_held_copies_are_not_overwritten() -> None:
    for n in (*range(34, 60), *SEVERAL):
        x, array = numbers(n)
        first = x * 2
        second = first.copy()
        second[3:7] = x[:4]
        third = second.copy()
        third[1] = 5.0
        wanted = array * 2
        wanted[3:7] = array[:4]
        last = wanted.copy()
        last[1] = 5.0
        kept = first if n % 2 else second
        assert np.array_equal(third.realize().to_numpy(), last)
        assert np.array_equal(kept.to_numpy(), array * 2 if n % 2 else wanted)
        assert np.array_equal(second.to_numpy(), wanted) and np.array_equal(first.to_numpy(), array * 2)


def test_counting_functions_of_new_sizes_run_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(n: int, least: int | None = None) -> None:
        array = np.random.default_rng(n).integers(0, 9, n)
        x, weights = tx.asarray(array.copy()).realize(), numbers(n)
        named = {} if least is None else {"minlength": least}
        assert np.array_equal(tx.bincount(x, **named).to_numpy(), np.bincount(array, **named))
        assert np.allclose(tx.bincount(x, weights[0], **named).to_numpy(), np.bincount(array, weights[1], **named), rtol=1e-14)
        values, counts = tx.unique_counts(x)
        wanted = np.unique(array, return_counts=True)
        assert np.array_equal(values.to_numpy(), wanted[0]) and np.array_equal(counts.to_numpy(), wanted[1])
        assert np.array_equal(tx.unique_values(x).to_numpy(), wanted[0])
        assert np.array_equal(tx.unique_inverse(x).inverse_indices.to_numpy(), np.unique(array, return_inverse=True)[1])

    for n in range(34, 60):
        counted(n)
        counted(n, n)
    of_python = (histograms, "_bincount"), (unique_values, "_unique_all_small"), (unique_values, "call_on_copies")
    by_python = [record_calls(monkeypatch, where, name) for where, name in of_python]
    for n in SEVERAL:
        counted(n)
    assert not any(by_python)
    for n in SEVERAL:
        for least in (0, 3, 20, n, n + 1, 40):
            counted(n, least)


def test_solve_and_det_of_new_sizes_run_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def solved(n: int) -> None:
        x, array = numbers(n, n)
        y, right = numbers(n)
        assert np.array_equal(tx.linalg.solve(x, y).to_numpy(), np.linalg.solve(array, right))
        assert tx.linalg.det(x).item() == np.linalg.det(array)

    for n in range(34, 60):
        solved(n)
    by_python = record_calls(monkeypatch, host_calls, "_large_direct_call")
    for n in (60, 61, 62, 57):
        solved(n)
    assert not by_python
