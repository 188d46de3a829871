"""Axes: the product of their values, minus `exclude`, plus `include`; ids and folders that tell combinations apart."""

from __future__ import annotations

import itertools
import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from curator_bench.errors import Mistake
from curator_bench.matrix.axes import AxesReader, Combination, ids, safe_folders, text_of
from curator_bench.values import AxisValue, Place

if TYPE_CHECKING:
    from matrix.conftest import Folder, Tree

FULL = os.environ.get("CURATOR_BENCH_PROOF") == "full"
EXAMPLES = settings(max_examples=2000 if FULL else 100, deadline=None, derandomize=True, database=None)
Chosen = frozenset[tuple[str, str]]

axis_names = st.sampled_from(["executor", "size", "mode"])
axis_values = st.sampled_from(["a", "b", "c", 1, 2, 1.5, True, None, "x-y", "x", "y"])
axes = st.dictionaries(
    axis_names, st.lists(axis_values, min_size=1, max_size=4, unique_by=text_of), min_size=1, max_size=3
)


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    """An entry with axes, some combinations left out, and some combinations or extra values added."""
    matrix = draw(axes)
    known = {axis: st.sampled_from(values) for axis, values in matrix.items()}
    condition = st.sampled_from(sorted(matrix)).flatmap(
        lambda axis: st.fixed_dictionaries({axis: known[axis]}, optional={k: v for k, v in known.items() if k != axis})
    )
    addition = st.fixed_dictionaries(
        {}, optional={**{axis: v | st.just("new") for axis, v in known.items()}, "extra": st.sampled_from(["p", "q"])}
    ).filter(bool)
    entry: dict[str, Any] = {"matrix": matrix}
    if draw(st.booleans()):
        entry["exclude"] = draw(st.lists(condition, min_size=1, max_size=3))
    if draw(st.booleans()):
        entry["include"] = draw(st.lists(addition, min_size=1, max_size=3))
    return entry


def combinations(tree: Tree, entry: dict[str, Any]) -> tuple[list[Combination], list[Mistake]]:
    mistakes: list[Mistake] = []
    return AxesReader(tree(entry), "entries[x]", Place("matrix.yaml", 1), mistakes).combinations(), mistakes


def chosen(combination: Combination) -> Chosen:
    return frozenset((value.axis, value.text) for value in combination)


def expected(entry: dict[str, Any]) -> list[Chosen]:
    """The same from the definition: GitHub's words on `matrix`, `exclude` and `include`."""
    matrix = {axis: [text_of(value) for value in values] for axis, values in entry["matrix"].items()}
    product = [frozenset(zip(matrix, choice, strict=True)) for choice in itertools.product(*matrix.values())]
    excluded = [frozenset((a, text_of(v)) for a, v in item.items()) for item in entry.get("exclude", [])]
    kept = [choice for choice in product if not any(condition <= choice for condition in excluded)]
    extras: list[dict[str, str]] = [{} for _ in kept]
    alone: list[Chosen] = []
    for item in entry.get("include", []):
        added = {axis: text_of(value) for axis, value in item.items()}
        condition = frozenset((axis, text) for axis, text in added.items() if axis in matrix)
        fitting = [index for index, choice in enumerate(kept) if condition <= choice]
        for index in fitting:
            extras[index].update({axis: text for axis, text in added.items() if axis not in matrix})
        if not fitting:
            alone.append(frozenset(added.items()))
    return [choice | frozenset(extra.items()) for choice, extra in zip(kept, extras, strict=True)] + alone


@EXAMPLES
@given(entries())
def test_combinations_are_the_product_minus_exclude_plus_include(tree: Tree, entry: dict[str, Any]) -> None:
    found, mistakes = combinations(tree, entry)
    assert [chosen(combination) for combination in found] == expected(entry)
    assert bool(mistakes) == (not found), "leaving out everything is a mistake, and the only one"


@EXAMPLES
@given(entries())
@example({"matrix": {"size": ["x", "x-y"], "mode": ["y", "y-y", "x-y"]}})
@example({"matrix": {"size": [""], "mode": [""]}})
@example({"matrix": {"size": ["", "empty"]}})
@example({"matrix": {"size": ["a::b", "a_b", "a\nb", "a_b-2"]}})
def test_ids_are_unique_and_none_is_empty(tree: Tree, entry: dict[str, Any]) -> None:
    found, _ = combinations(tree, entry)
    variants = ids(found)
    assert len(set(variants)) == len(variants) == len(found)
    assert all(variants)
    assert not any("::" in variant or "\n" in variant for variant in variants)


@EXAMPLES
@given(entries(), st.sampled_from(["p", "q"]))
def test_what_include_adds_to_a_combination_does_not_change_its_id(
    tree: Tree, entry: dict[str, Any], extra: str
) -> None:
    """So that adding it does not make strangers of earlier runs."""
    before, _ = combinations(tree, entry)
    assume(before)
    after, _ = combinations(tree, {**entry, "include": [*entry.get("include", []), {"extra": extra}]})
    assert ids(after)[: len(before)] == ids(before) or len(before) < len(expected(entry))


def test_ids_join_the_values_as_design_has_it(folder: Folder) -> None:
    matrix = folder.load(
        """\
        entries:
          - name: removal
            script: run.py
            matrix:
              executor: [ray_data, ray_actors]
              attention: {dense: {}, streaming: {window: 128}}
            exclude: [{executor: ray_actors, attention: streaming}]
        """
    )
    assert [entry.id for entry in matrix.entries] == [
        "removal[ray_data-dense]",
        "removal[ray_data-streaming]",
        "removal[ray_actors-dense]",
    ]
    assert matrix.entries[1].folder == ("removal", "ray_data", "streaming")
    executor, attention = matrix.entries[1].axes
    assert (executor, attention.text, attention.fields) == (
        AxisValue("executor", "ray_data", "ray_data"),
        "streaming",
        {"window": 128},
    )


def test_named_values_may_be_mappings_in_a_list_and_may_have_no_fields(folder: Folder) -> None:
    for axis in ("{dense: , streaming: {window: 128}}", "[{name: dense}, {name: streaming, window: 128}]"):
        text = f"entries: [{{name: a, script: b, matrix: {{attention: {axis}}}}}]\n"
        found = folder.load(text).entries
        assert [(e.variant, dict(e.axes[0].fields)) for e in found] == [("dense", {}), ("streaming", {"window": 128})]


def test_a_value_of_an_axis_may_be_nothing(folder: Folder) -> None:
    text = "entries: [{name: a, script: b, matrix: {limit: [null, 5], n: [1, 2]}, exclude: [{limit: null, n: 2}]}]\n"
    assert [entry.variant for entry in folder.load(text).entries] == ["null-1", "5-1", "5-2"]


def test_a_value_of_an_axis_may_be_switched_off(folder: Folder) -> None:
    text = (
        "entries: [{name: a, script: b, matrix: {m: {x: {enabled: false}, y: {enabled: true}}}, args: '{m.enabled}'}]\n"
    )
    (entry,) = folder.load(text).entries
    assert (entry.variant, entry.axes[0].fields) == ("y", {"enabled": True})


def test_include_alone_makes_combinations(folder: Folder) -> None:
    text = "entries: [{name: a, script: b, args: '{x}', include: [{x: 1, y: 2}, {x: 3}]}]\n"
    assert [entry.variant for entry in folder.load(text).entries] == ["1-2", "3"]


def test_an_axis_that_stands_alone_keeps_its_type(folder: Folder) -> None:
    first, second = folder.load(
        """\
        entries:
          - name: a
            script: b
            matrix: {gpus: [0, 2], spill: {on: {flag: true, mib: 5}}}
            timeout_s: "{spill.mib}"
            ray: {num_gpus: " {gpus} ", enable_object_spilling: "{spill.flag}", resources: {disk: "{spill.mib}"}}
            requirements: [{metric: "speed_{gpus}", min_value: "{gpus}"}]
            marks: ["gpus{gpus}"]
            sink_data: [{name: slack, text: "{gpus} of {{gpus}}"}]
            script_base_dir: "dir{gpus}"
        """
    ).entries
    assert second.ray is not None
    assert (second.ray.num_gpus, second.ray.enable_object_spilling, second.ray.resources) == (2, True, {"disk": 5})
    assert (second.timeout_s, second.marks, second.sink_data) == (5, ("gpus2",), {"slack": {"text": "2 of {gpus}"}})
    assert (second.requirements[0].metric, second.requirements[0].min_value) == ("speed_2", 2)
    assert second.script_base_dir == str(folder.path / "dir2")
    assert first.requirements[0].min_value == 0


def test_hundred_thousand_combinations_are_quickly_narrowed(folder: Folder) -> None:
    values = list(range(46))
    excluded = ", ".join(f"{{a: {n}}}" for n in range(45))
    text = (
        f"entries: [{{name: a, script: b, matrix: {{a: {values}, b: {values}, c: {values}}}, exclude: [{excluded}]}}]\n"
    )
    assert len(folder.load(text).entries) == 46 * 46


folder_texts = st.lists(
    st.text(max_size=120) | st.sampled_from(["a", "A", "a b", "a_b", "A_B", ".", "..", "", "/", "con", "é", "e\u0301"]),
    unique=True,
    min_size=1,
    max_size=12,
)


@EXAMPLES
@given(folder_texts, st.lists(st.sampled_from(["env", "ENV", "a", "a_b"]), max_size=2))
@example(["env", "Env", "env_"], ["env"])
@example(["a b", "a_b", "a/b", "A_b"], [])
@example(["x" * 500, "X" * 500, "x" * 501], [])
@example(["../../etc/passwd", "..", "a/../b", "\0", "-rf", "~", "a\nb"], [])
def test_folders_are_safe_different_and_bounded(texts: list[str], taken: list[str]) -> None:
    folders = safe_folders(texts, taken)
    assert list(folders) == texts
    assert all(re.fullmatch(r"[A-Za-z0-9._]+", folder) for folder in folders.values())
    assert not any(folder.startswith(".") or folder.endswith(".") for folder in folders.values())
    assert all(len(folder) <= 100 for folder in folders.values())
    without_case = [folder.casefold() for folder in (*folders.values(), *taken)]
    assert len(set(without_case)) == len(folders) + len({name.casefold() for name in taken})


@EXAMPLES
@given(folder_texts, st.randoms())
def test_folders_do_not_depend_on_the_order(texts: list[str], random: Any) -> None:
    shuffled = list(texts)
    random.shuffle(shuffled)
    assert safe_folders(shuffled) == {text: safe_folders(texts)[text] for text in shuffled}


@EXAMPLES
@given(st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.]{0,30}[A-Za-z0-9_]", fullmatch=True))
def test_a_name_that_is_safe_is_its_own_folder(name: str) -> None:
    assert safe_folders([name, "another name"])[name] == name


def test_no_run_is_put_where_something_else_of_the_session_or_another_run_is(folder: Folder) -> None:
    matrix = folder.load(
        """\
        entries:
          - {name: env, script: s}
          - {name: Session.json, script: s}
          - {name: a/b, script: s}
          - {name: a b, script: s}
          - {name: x, script: s, matrix: {m: [p q, p_q, P_Q]}, include: [{n: p_q}, {n: "p_Q"}]}
        """
    )
    folders = ["/".join(entry.folder).casefold() for entry in matrix.entries]
    assert len(set(folders)) == len(folders)
    assert "env" not in folders
    assert "session.json" not in folders


@pytest.mark.parametrize(
    ("value", "text"), [(None, "null"), (True, "true"), (False, "false"), (1, "1"), (0.5, "0.5"), ("x", "x")]
)
def test_a_value_reads_in_ids_as_it_does_in_yaml(value: Any, text: str) -> None:
    assert text_of(value) == text


def test_names_of_models_become_folders_and_stay_readable() -> None:
    names = ["meta-llama/Llama-3.1-8B", "Qwen/Qwen3-8B", "qwen/qwen3-8b"]
    folders = safe_folders(names)
    assert folders["meta-llama/Llama-3.1-8B"] == "meta_llama_Llama_3.1_8B"
    assert len({folder.casefold() for folder in folders.values()}) == len(names)
