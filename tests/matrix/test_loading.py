"""Loading the files of one invocation: what they must agree on, and how they find each other."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from curator_bench.errors import MatrixError
from curator_bench.values import Place

if TYPE_CHECKING:
    from matrix.conftest import Folder


def entries(*names: str) -> str:
    return "entries: [" + ", ".join(f"{{name: {name}, script: run.py}}" for name in names) + "]\n"


def test_files_may_say_the_same_results_directory_or_none(folder: Folder) -> None:
    same = folder.write(f"results_dir: ../out\n{entries('a')}", "below/matrix.yaml")
    matrix = folder.load(f"results_dir: ./out\n{entries('b')}", same, entries("c"))
    assert [file.results_dir for file in matrix.files] == [str(folder.path / "out")] * 2 + [None]


def test_results_directories_that_differ_are_a_mistake_that_shows_both(folder: Folder) -> None:
    first, second = f"results_dir: /one\n{entries('a')}", f"\nresults_dir: /two\n{entries('b')}"
    assert folder.mistakes(first, second) == [
        "matrix_2.yaml:2: results_dir: found /two, expected what matrix.yaml:1 has: /one"
    ]
    assert [file.results_dir for file in folder.load(first, second, results_dir="/given").files] == [None, None]


def test_sinks_that_differ_are_a_mistake_that_shows_both(folder: Folder) -> None:
    first = f"sinks: [{{name: mlflow, experiment: one}}]\n{entries('a')}"
    second = f"sinks: [{{name: mlflow, experiment: two}}]\n{entries('b')}"
    assert folder.mistakes(first, second) == [
        "matrix_2.yaml:1: sinks: found [{'name': 'mlflow', 'experiment': 'two'}], "
        "expected what matrix.yaml:1 has: [{'name': 'mlflow', 'experiment': 'one'}]"
    ]
    disabled = f"sinks: [{{name: mlflow, experiment: two, enabled: false}}]\n{entries('b')}"
    assert len(folder.load(first, disabled, entries("c")).entries) == 3
    on = f"sinks: [{{name: mlflow, experiment: one, enabled: true}}]\n{entries('b')}"
    assert len(folder.load(first, on).entries) == 2


def test_a_name_in_two_files_is_a_mistake_that_names_both_places(folder: Folder) -> None:
    assert folder.mistakes(entries("a", "b"), "\n" + entries("c", "a")) == [
        "matrix_2.yaml:2: entries[a]: the name 'a' is already used at matrix.yaml:1; names are unique in a session"
    ]


def test_files_are_named_from_where_the_user_stands(folder: Folder, tmp_path_factory: pytest.TempPathFactory) -> None:
    below = folder.write("entires: 1", "below/it.yaml")
    outside = tmp_path_factory.mktemp("outside") / "it.yaml"
    outside.write_text("entires: 1")
    assert [mistake.split(":")[0] for mistake in folder.mistakes(below, outside)] == [str(outside), "below/it.yaml"]


def test_relative_paths_are_relative_to_the_file_they_stand_in(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/of/user")
    text = """\
        results_dir: ../results
        artifacts_dir: ~/artifacts
        script_base_dir: scripts/./x
        paths: [{name: data, host_path: data/../other}, {name: bucket, host_path: "s3://bucket/../x"}]
        datasets: [{name: d, formats: [{type: t, path: files}, {type: u, path: "{bucket}/y"}]}]
        entries: [{name: a, script: b}]
    """
    (entry,) = folder.load(folder.write(text, "deep/er/matrix.yaml")).entries
    here, file = folder.path / "deep" / "er", entry.file
    assert (file.results_dir, file.artifacts_dir) == (str(folder.path / "deep" / "results"), "/home/of/user/artifacts")
    assert entry.script_base_dir == str(here / "scripts" / "x")
    assert file.paths == {"data": str(here / "other"), "bucket": "s3://bucket/../x"}
    assert [dataset.path for dataset in file.datasets.values()] == [str(here / "files"), "s3://bucket/../x/y"]


def test_a_place_is_the_file_as_shown_and_its_line(folder: Folder) -> None:
    (entry,) = folder.load(folder.write("\n\nentries:\n\n- name: a\n  script: b\n", "x/m.yaml")).entries
    assert entry.place == Place("x/m.yaml", 5)
    assert entry.file.file == str(folder.path / "x" / "m.yaml")


def test_a_matrix_may_be_json(folder: Folder) -> None:
    file = folder.write('{"entries": [{"name": "a", "script": "b", "timeout_s": 1e3, "ray": false}]}', "matrix.json")
    (entry,) = folder.load(file).entries
    assert (entry.name, entry.timeout_s, entry.ray) == ("a", 1000, None)


def test_a_matrix_without_entries_loads_and_has_none(folder: Folder) -> None:
    matrix = folder.load("paths: [{name: a, host_path: /x}]\n")
    assert (matrix.entries, len(matrix.files)) == ((), 1)
    assert folder.load("entries:\n").entries == folder.load("entries: []\n").entries == ()


def test_a_warning_is_given_once(folder: Folder) -> None:
    """An overlay is laid over every file; what is old in it is told once."""
    matrix = folder.load(entries("a"), entries("b"), overlays=("results_path: /x\n",))
    assert matrix.warnings == ("overlay.yaml:1: `results_path` is deprecated; write `results_dir`",)


def test_a_matrix_and_a_mistake_can_be_sent_to_a_worker(folder: Folder) -> None:
    matrix = folder.load(entries("a"))
    assert pickle.loads(pickle.dumps(matrix)) == matrix
    with pytest.raises(MatrixError) as caught:
        folder.load("entires: 1")
    assert caught.value.mistakes == pickle.loads(pickle.dumps(caught.value.mistakes))


def test_entries_of_one_file_share_their_file(folder: Folder) -> None:
    """There may be ten thousand of them."""
    matrix = folder.load("entries: [{name: a, script: b, matrix: {n: [1, 2, 3]}}, {name: c, script: d}]")
    assert {id(entry.file) for entry in matrix.entries} == {id(matrix.files[0])}


def test_the_same_request_gives_the_same_matrix(folder: Folder) -> None:
    text = "entries: [{name: a b, script: b, matrix: {n: [x y, x_y], m: {p: {}, q: {}}}}, {name: a_b, script: d}]\n"
    assert folder.load(text) == folder.load(text)


def test_nothing_is_read_but_what_was_named(folder: Folder) -> None:
    folder.write("entires: 1", "other.yaml")
    Path(folder.path / "scripts").mkdir()
    assert folder.load(entries("a")).entries[0].problems == ()
