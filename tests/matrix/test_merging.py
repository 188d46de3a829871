"""Overlays: what a file laid over another changes, and what it leaves."""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from curator_bench.matrix.merging import merge, merge_document
from curator_bench.matrix.tree import leaves
from curator_bench.matrix.validation import plain
from curator_bench.values import Place

if TYPE_CHECKING:
    from matrix.conftest import Folder, Tree

FULL = os.environ.get("CURATOR_BENCH_PROOF") == "full"
EXAMPLES = settings(max_examples=2000 if FULL else 100, deadline=None, derandomize=True, database=None)

scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | st.sampled_from(["", "a", "b", "1", "true"])
keys = st.sampled_from(["name", "metric", "type", "a", "b", "entries"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=25
)
documents = st.dictionaries(keys, values, max_size=5)


def same(value: Any) -> str:
    """A form in which true, 1 and 1.0 differ and .nan equals itself; the order of keys counts."""
    return repr(plain(value))


def with_prefix(value: Any, prefix: str, *, top: bool = True) -> Any:
    """The same with other keys and names, so that two results share none; below the top keys stay as they are."""
    if isinstance(value, dict):
        return {(prefix + key if top else key): with_prefix(inner, prefix, top=False) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_prefix(inner, prefix, top=False) for inner in value]
    return f"{prefix}{value}"


@EXAMPLES
@given(documents)
@example({"a": [1, True, 1.0, float("nan")], "b": [{"name": "x", "a": [1]}, {"name": "x", "a": [2]}]})
@example({"a": [[1], [1], {}, {}]})
def test_an_overlay_that_repeats_the_base_changes_nothing(tree: Tree, data: dict[str, Any]) -> None:
    base, again = tree(data), tree(copy.deepcopy(data), "overlay.yaml")
    assert same(merge(base, again)) == same(base)
    assert same(merge_document(base, again)[0]) == same(base)


@EXAMPLES
@given(documents)
def test_nothing_is_changed_in_place(tree: Tree, data: dict[str, Any]) -> None:
    base = tree(data)
    before, places = same(base), [(path, place) for path, _, place in leaves(base, Place("", 0))]
    merge(base, tree({"name": 1, "a": [{"name": "a", "b": 2}, 7], "b": {"a": {"b": 1}}}, "overlay.yaml"))
    assert same(base) == before
    assert [(path, place) for path, _, place in leaves(base, Place("", 0))] == places


@EXAMPLES
@given(documents, documents, documents)
def test_merging_is_associative_for_files_without_common_names(
    tree: Tree, one: dict[str, Any], two: dict[str, Any], three: dict[str, Any]
) -> None:
    first, second, third = (tree(with_prefix(data, f"{n}_")) for n, data in enumerate((one, two, three)))
    assert same(merge(merge(first, second), third)) == same(merge(first, merge(second, third)))


named = st.dictionaries(
    st.sampled_from("abcdef"), st.dictionaries(keys.filter(lambda k: k != "name"), scalars, max_size=3)
)


@EXAMPLES
@given(named, named, named)
def test_merging_lists_of_named_blocks_is_associative_too(
    tree: Tree, one: dict[str, Any], two: dict[str, Any], three: dict[str, Any]
) -> None:
    """Whatever names they share: the last word on each key is the last file's."""
    first, second, third = (
        tree({"entries": [{"name": name, **block} for name, block in data.items()]}) for data in (one, two, three)
    )
    left, right = merge(merge(first, second), third), merge(first, merge(second, third))
    assert same(left) == same(right)
    expected = {
        name: {**one.get(name, {}), **two.get(name, {}), **three.get(name, {})} for name in {**one, **two, **three}
    }
    found = {entry.pop("name"): entry for entry in plain(left)["entries"]}
    assert {name: sorted(map(repr, block.items())) for name, block in found.items()} == {
        name: sorted(map(repr, block.items())) for name, block in expected.items()
    }


@EXAMPLES
@given(documents, documents)
def test_merging_keeps_every_value_at_a_known_place(tree: Tree, one: dict[str, Any], two: dict[str, Any]) -> None:
    merged = merge(tree(one), tree(two, "overlay.yaml"))
    assert all(place.line for _, _, place in leaves(merged, Place("", 0)))


@pytest.mark.parametrize(
    ("base", "overlay", "merged"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 3}, {"a": 3, "b": 2}, id="scalars: later wins"),
        pytest.param({"a": 1}, {"a": True}, {"a": True}, id="true is not 1"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}, id="mappings: deep"),
        pytest.param({"a": [1, 2]}, {"a": [2, 3]}, {"a": [1, 2, 3]}, id="other lists: appended"),
        pytest.param({"a": [1]}, {"a": [True, "1", 1.0]}, {"a": [1, True, "1", 1.0]}, id="appended by type"),
        pytest.param(
            {"a": [{"name": "x", "v": 1}, {"name": "y", "v": 2}]},
            {"a": [{"name": "y", "v": 3}, {"name": "z", "v": 4}]},
            {"a": [{"name": "x", "v": 1}, {"name": "y", "v": 3}, {"name": "z", "v": 4}]},
            id="lists of mappings: by name",
        ),
        pytest.param(
            {"a": [{"metric": "x", "name": "n", "v": 1}]},
            {"a": [{"metric": "x", "name": "m", "v": 2}]},
            {"a": [{"metric": "x", "name": "n", "v": 1}, {"metric": "x", "name": "m", "v": 2}]},
            id="name goes before metric",
        ),
        pytest.param(
            {"a": [{"metric": "x", "v": 1}]},
            {"a": [{"v": 2, "metric": "x"}]},
            {"a": [{"metric": "x", "v": 2}]},
            id="by metric",
        ),
        pytest.param(
            {"a": [{"type": "x", "v": 1}]},
            {"a": [{"type": "x", "w": 2}]},
            {"a": [{"type": "x", "v": 1, "w": 2}]},
            id="by type",
        ),
        pytest.param(
            {"a": [{"executor": "x", "v": 1}]},
            {"a": [{"executor": "x", "v": 2}, {"executor": "y"}]},
            {"a": [{"executor": "x", "v": 2}, {"executor": "y"}]},
            id="by the first key",
        ),
        pytest.param({"a": [1]}, {"a": "text"}, {"a": "text"}, id="another kind: later wins"),
    ],
)
def test_each_kind_of_value_is_merged_in_its_way(tree: Tree, base: Any, overlay: Any, merged: Any) -> None:
    assert same(merge(tree(base), tree(overlay))) == same(tree(merged))


BASE = """\
paths: [{name: data, host_path: ./data}]
entries:
  - name: removal
    script: run.py
    args: --in {data}
    requirements:
      - {metric: speed, min_value: 200}
      - {metric: recall, exact_value: 0.97, tolerance: 0.01}
  - {name: exact, script: exact.py}
"""


def test_an_overlay_changes_one_requirement_of_one_entry_without_repeating_the_rest(folder: Folder) -> None:
    overlay = "entries: [{name: removal, requirements: [{metric: speed, min_value: 50}]}]\n"
    removal, exact = folder.load(BASE, overlays=(overlay,)).entries
    plain_removal, plain_exact = folder.load(BASE).entries
    assert [(r.metric, r.min_value) for r in removal.requirements] == [("speed", 50), ("recall", None)]
    assert removal.requirements[1] == plain_removal.requirements[1]
    assert (removal.args, removal.place, exact.name) == (plain_removal.args, plain_removal.place, plain_exact.name)


def test_requirements_written_as_a_mapping_and_as_a_list_are_merged_with_each_other(folder: Folder) -> None:
    overlay = "entries: [{name: removal, requirements: {speed: {min_value: 50}, memory: {max_value: 9}}}]\n"
    removal = folder.load(BASE, overlays=(overlay,)).entries[0]
    assert [r.metric for r in removal.requirements] == ["speed", "recall", "memory"]
    assert removal.requirements[0].min_value == 50


def test_overlays_are_merged_in_order_and_paths_belong_to_the_file_they_stand_in(folder: Folder) -> None:
    machine = folder.write("paths: [{name: data, host_path: ./big}]\nresults_dir: ./out\n", "machine/machine.yaml")
    last = "default_timeout_s: 7\nartifacts_dir: ./artifacts\n"
    matrix = folder.load(BASE, overlays=("default_timeout_s: 5\nresults_dir: first\n", machine, last))
    (file,) = matrix.files
    assert file.paths == {"data": str(folder.path / "machine" / "big")}
    assert file.results_dir == str(folder.path / "machine" / "out")
    assert file.artifacts_dir == str(folder.path / "artifacts")
    assert {entry.timeout_s for entry in matrix.entries} == {7}


def test_an_overlay_is_laid_over_each_file_and_its_entries_over_those_that_have_them(folder: Folder) -> None:
    other = "entries: [{name: other, script: other.py}]\n"
    overlay = "marks: [nightly]\nentries: [{name: other, repeat: 3}]\n"
    matrix = folder.load(BASE, other, overlays=(overlay,))
    assert {entry.name: (entry.repeat, entry.marks) for entry in matrix.entries} == {
        "removal": (1, ("nightly",)),
        "exact": (1, ("nightly",)),
        "other": (3, ("nightly",)),
    }


def test_an_entry_of_an_overlay_that_matches_nowhere_is_a_mistake_unless_it_has_a_script(folder: Folder) -> None:
    assert folder.mistakes(BASE, overlays=("entries: [{name: remval, repeat: 3}]\n",)) == [
        "overlay.yaml:1: entries[remval]: an entry without a script must name an existing entry, "
        "but there is no entry 'remval'; did you mean 'removal'?"
    ]
    assert folder.mistakes(BASE, overlays=("entries: [{repeat: 3}]\n",)) == [
        "overlay.yaml:1: entries[0].name: found nothing, expected the name of an entry"
    ]
    matrix = folder.load(BASE, "entries: []", overlays=("entries: [{name: new, script: new.py}]\n",))
    assert [(entry.name, entry.file is matrix.files[0]) for entry in matrix.entries][-1] == ("new", True)
    assert folder.load(BASE, overlays=("entries: [{name: remval, enabled: false}]\n",)).entries


def test_several_documents_of_a_file_count_as_several_files(folder: Folder) -> None:
    (file,) = folder.load(BASE + "---\nresults_dir: out\n").files
    assert file.results_dir == str(folder.path / "out")
    matrix = folder.load(BASE + "---\nentries:\n- {name: exact, repeat: 2}\n- {name: new, script: x}\n")
    assert [(entry.name, entry.repeat) for entry in matrix.entries] == [("removal", 1), ("exact", 2), ("new", 1)]


def test_an_overlay_can_switch_off_and_on_again(folder: Folder) -> None:
    off = "entries: [{name: removal, enabled: false}]\n"
    on = "entries: [{name: removal, enabled: true}]\n"
    assert [entry.name for entry in folder.load(BASE, overlays=(off,)).entries] == ["exact"]
    assert [entry.name for entry in folder.load(BASE, overlays=(off, on)).entries] == ["removal", "exact"]


def test_a_mistake_in_an_overlay_is_told_with_its_own_place(folder: Folder) -> None:
    overlay = "\nentries:\n  - name: exact\n    timeout_s: soon\n"
    assert folder.mistakes(BASE, overlays=(overlay,)) == [
        "overlay.yaml:4: entries[exact].timeout_s: found 'soon', expected a number"
    ]


def test_keys_twice_in_an_overlay_are_a_mistake_too(folder: Folder) -> None:
    assert folder.mistakes(BASE, overlays=("marks: [a]\nmarks: [b]\n",)) == [
        "overlay.yaml:2: marks: is written twice in the same mapping"
    ]
