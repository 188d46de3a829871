"""`{…}`: what is a placeholder and what is not, what it becomes, and that words stay words."""

from __future__ import annotations

import json
import os
import shlex
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator_bench.files import containers
from curator_bench.matrix import command_of, placeholders
from curator_bench.matrix.file_block import split
from curator_bench.matrix.variables import Variables

if TYPE_CHECKING:
    from matrix.conftest import Folder

FULL = os.environ.get("CURATOR_BENCH_PROOF") == "full"
EXAMPLES = settings(max_examples=2000 if FULL else 100, deadline=None, derandomize=True, database=None)

NAMES = {"data": "/my data", "executor": "ray_data", "attention.window": "128", "own-path": "/own"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{data}/x", "/my data/x"),
        ("{data}{executor}", "/my dataray_data"),
        ("{attention.window}", "128"),
        ("{own-path}", "/own"),
        ("{unknown} {session_entry_dir}", "{unknown} {session_entry_dir}"),
        ("{dataset:cc,jsonl}", "/cc/jsonl"),
        ("{dataset: cc , jsonl }", "/cc/jsonl"),
        ("{dataset:cc,parquet}", "{dataset:cc,parquet}"),
        ('{"min": 8}', '{"min": 8}'),
        ("{}", "{}"),
        ("{ data }", "{ data }"),
        ("{8}", "{8}"),
        ("{a,b}", "{a,b}"),
        ("{{data}}", "{data}"),
        ("{{attention.window}}", "{attention.window}"),
        ("{{own-path}}", "{own-path}"),
        ('{"a": {data}}', '{"a": /my data}'),
        ("${SET} {data}", "{data} /my data"),
        ("${UNSET:-{data}/x}", "/my data/x"),
        ("${UNSET:-${OTHER:-{executor}}}", "ray_data"),
        ("$${SET}", "${SET}"),
        ("${UNSET}", "${UNSET}"),
    ],
)
def test_what_a_text_becomes(text: str, filled: str) -> None:
    paths = {("cc", "jsonl"): "/cc/jsonl"}
    variables = Variables({"SET": "{data}"})
    assert placeholders.fill(text, names=NAMES, dataset=paths.get, variables=variables) == filled


def test_what_a_text_names() -> None:
    text = '{a} {{b}} {c.d} ${E:-{f}} {dataset:g, h} {dataset:i} {"j": 1}'
    assert list(placeholders.names_in(text)) == ["a", "c.d", "f"]
    assert list(placeholders.datasets_in(text)) == [("g", "h")]
    assert list(placeholders.unfinished_datasets_in(text)) == ["{dataset:i}"]


def test_an_axis_may_choose_a_dataset_and_its_format(folder: Folder) -> None:
    entries = folder.load(
        """\
        datasets:
          - {name: cc, formats: [{type: jsonl, path: /cc/j}, {type: parquet, path: /cc/p}]}
        entries:
          - name: a
            script: b
            matrix: {format: [jsonl, parquet], source: {small: {from: cc}}}
            args: --in {dataset:cc,{format}} --from {dataset:{source.from},{format}}/x
            env: {INPUT: "{dataset:cc,{format}}"}
        """
    ).entries
    commands = [command_of(entry, {}) for entry in entries]
    assert [command.args for command in commands] == [
        ("--in", "/cc/j", "--from", "/cc/j/x"),
        ("--in", "/cc/p", "--from", "/cc/p/x"),
    ]
    assert [command.env["INPUT"] for command in commands] == ["/cc/j", "/cc/p"]


BY_AXIS = """\
    datasets: [{name: cc, formats: [{type: jsonl, path: /cc/j}]}]
    entries: [{name: a, script: b, matrix: AXES, args: "{dataset:cc,{format}}"}]
"""


def test_a_dataset_that_no_axis_can_choose_is_a_mistake(folder: Folder) -> None:
    mistakes = folder.mistakes(BY_AXIS.replace("AXES", "{size: [1]}"))
    assert any("found {dataset:cc,{format}}, expected {dataset:NAME,FORMAT}" in mistake for mistake in mistakes)


def test_a_format_that_an_axis_chooses_in_vain_is_the_problem_of_that_combination(folder: Folder) -> None:
    entries = folder.load(BY_AXIS.replace("AXES", "{format: [jsonl, csv]}")).entries
    assert [entry.problems for entry in entries] == [(), ("the dataset 'cc' has no format 'csv'; known: jsonl",)]


@EXAMPLES
@given(st.text("{}$:-,. ab\"'", max_size=40))
def test_a_text_without_known_names_is_left_alone(text: str) -> None:
    assert placeholders.fill(text.replace("{{", "{ {"), names={}) == text.replace("{{", "{ {")


@EXAMPLES
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_json_in_quotes_stays_json_and_one_word(value: object) -> None:
    """But for braces that look like a placeholder, `{word}`, which JSON's braces never do outside of its texts."""
    text = json.dumps(value)
    if (
        any(True for _ in (*placeholders.names_in(text), *placeholders.datasets_in(text)))
        or "{{" in text
        or "${" in text
    ):
        return
    (word,) = split(shlex.quote(text))
    assert json.loads(placeholders.fill(word, names=NAMES)) == value


@EXAMPLES
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0{}"), max_size=12), max_size=6))
def test_words_are_split_as_a_shell_does(words: list[str]) -> None:
    assert split(shlex.join(words)) == tuple(words)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("", ()),
        ("  --a  1\n--b\t2 \r\n", ("--a", "1", "--b", "2")),
        ("--name 'two words' \"it's\" a\\ b", ("--name", "two words", "it's", "a b")),
        ("--a ''", ("--a", "")),
        ("--x {dataset: cc, jsonl} --y", ("--x", "{dataset:cc,jsonl}", "--y")),
        ("a\u00a0b c\u3000d", ("a\u00a0b", "c\u3000d")),
        ("--a 1 \\\n  --b 2", ("--a", "1", "--b", "2")),
        ("'a\\\nb' \"c\\\nd it's\" e\\\nf \\\\\n", ("a\\\nb", "cd it's", "ef", "\\")),
        ("# no comment", ("#", "no", "comment")),
        ("--glob *.json ~ $(date) `date` | > &&", ("--glob", "*.json", "~", "$(date)", "`date`", "|", ">", "&&")),
    ],
)
def test_how_arguments_are_split(args: str, words: tuple[str, ...]) -> None:
    assert split(args) == words


def test_what_stands_for_something_stays_one_word_whatever_that_is(folder: Folder) -> None:
    variables = {"DIR": "/a dir/with 'quotes' and {data} and ${HOME}"}
    entry = folder.entry(
        """\
        paths: [{name: data, host_path: "./my data"}]
        datasets: [{name: cc, formats: [{type: jsonl, path: "{data}/c c"}]}]
        entries:
          - name: a
            script: b
            matrix: {mode: ["two words"]}
            args: >-
              --dir ${DIR} --data {data}/x --set={dataset:cc,jsonl} {mode} --json '{"min": 8, "mode": "{mode}"}'
              --out {session_entry_dir}/o ${NONE:-{data}}
            env: {DIR: "${DIR}", MODE: "<{mode}>"}
        """,
        variables=variables,
    )
    data = str(folder.path / "my data")
    command = command_of(entry, variables)
    assert command.args == (
        "--dir",
        variables["DIR"],
        "--data",
        f"{data}/x",
        f"--set={data}/c c",
        "two words",
        "--json",
        '{"min": 8, "mode": "two words"}',
        "--out",
        "{session_entry_dir}/o",
        data,
    )
    assert command.env == {"DIR": variables["DIR"], "MODE": "<two words>"}
    assert placeholders.fill_entry_dir(command.args[9], "/r/a b") == "/r/a b/o"
    assert placeholders.fill_entry_dir("{session}/o", "/r/a b") == "/r/a b/o"


def test_an_axis_goes_before_a_path_of_its_name(folder: Folder) -> None:
    entry = folder.entry(
        "paths: [{name: size, host_path: /p}]\nentries: [{name: a, script: b, matrix: {size: [1]}, args: '{size}'}]\n"
    )
    assert command_of(entry, {}).args == ("1",)


def test_paths_may_name_earlier_paths_and_the_repository(folder: Folder) -> None:
    file = folder.load(
        """\
        paths:
          - {name: root, host_path: "{curator_repo_dir}/data"}
          - {name: deep, host_path: "{root}/deep"}
        results_dir: "{curator_repo_dir}/results"
        artifacts_dir: "{deep}"
        script_base_dir: "{curator_repo_dir}/scripts"
        entries: [{name: a, script: b}, {name: c, script: d, script_base_dir: "{root}"}]
        """,
        curator_repo="/repo",
    )
    assert file.files[0].paths == {"root": "/repo/data", "deep": "/repo/data/deep"}
    assert (file.files[0].results_dir, file.files[0].artifacts_dir) == ("/repo/results", "/repo/data/deep")
    assert [entry.script_base_dir for entry in file.entries] == ["/repo/scripts", "/repo/data"]


def test_the_repository_is_the_checkout_around_the_matrix_unless_it_is_given(folder: Folder) -> None:
    text = "entries: [{name: a, script: b, args: '{curator_repo_dir}/x'}]\n"
    (folder.path / "checkout" / ".git").mkdir(parents=True)
    file = folder.write(text, "checkout/benchmarks/matrix.yaml")
    (entry,) = folder.load(file).entries
    assert command_of(entry, {}).args == (str(folder.path / "checkout" / "x"),)
    (entry,) = folder.load(file, variables={"CURATOR_REPO_DIR": "other"}).entries
    assert command_of(entry, {}).args == (str(folder.path / "other" / "x"),)
    (entry,) = folder.load(file, variables={"CURATOR_REPO_DIR": "other"}, curator_repo="/given").entries
    assert command_of(entry, {}).args == ("/given/x",)


def test_the_repository_may_be_an_unpacked_archive_of_a_project(folder: Folder) -> None:
    text = "entries: [{name: a, script: b, args: '{curator_repo_dir}/x'}]\n"
    file = folder.write(text, "archive/benchmarking/matrix.yaml")
    (folder.path / "archive" / "pyproject.toml").write_text("")
    (entry,) = folder.load(file).entries
    assert command_of(entry, {}).args == (str(folder.path / "archive" / "x"),)


def test_the_other_name_of_the_scripts_folder(folder: Folder) -> None:
    entries = folder.load("entries: [{name: a, script: b, script_base_path: /scripts}]\n").entries
    assert [entry.script_base_dir for entry in entries] == ["/scripts"]


def test_without_a_repository_what_names_it_has_a_problem(folder: Folder) -> None:
    text = """\
        paths: [{name: data, host_path: "{curator_repo_dir}/data"}]
        datasets: [{name: cc, formats: [{type: t, path: "{curator_repo_dir}/cc"}]}]
        entries:
          - {name: a, script: s, args: "{curator_repo_dir}/x"}
          - {name: b, script: s, args: "{data}"}
          - {name: c, script: s, args: "{dataset:cc,t}"}
          - {name: d, script: s}
    """
    if any((parent / ".git").exists() for parent in folder.path.parents):
        pytest.skip("the temporary folder is in a git checkout")
    problems = [entry.problems for entry in folder.load(text).entries]
    expected = "the matrix is in no git checkout or Python project; pass --bench-curator-repo"
    assert all(expected in told for (told,) in problems[:3])
    assert problems[3] == ()


def test_in_a_container_paths_are_those_of_the_container(folder: Folder) -> None:
    text = """\
        paths:
          - {name: data, host_path: ./data, container_path: /datasets}
          - {name: models, host_path: /models}
        datasets: [{name: cc, formats: [{type: t, path: "{data}/cc"}]}]
        entries: [{name: a, script: s, args: "{data} {models} {dataset:cc,t}"}]
    """
    outside, inside = folder.entry(text), folder.entry(text, variables={"CURATOR_BENCH_IN_CONTAINER": "1"})
    data = str(folder.path / "data")
    assert command_of(outside, {}).args == (data, "/models", f"{data}/cc")
    assert command_of(inside, {}).args == ("/datasets", "/MOUNT/models", "/datasets/cc")
    assert outside.file.mounts == inside.file.mounts == ((data, "/datasets"), ("/models", "/MOUNT/models"))


@pytest.mark.parametrize("is_there", [True, False], ids=["mounted", "not mounted"])
def test_in_a_container_of_docker_the_paths_that_are_mounted_are_those_of_the_container(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """A job of a CI system also runs in such a container, but with the paths of its host."""
    mark, mount = folder.write("", "dockerenv"), folder.path / "mount"
    monkeypatch.setattr(containers, "DOCKER_MARK", mark)
    if is_there:
        mount.mkdir()
    text = f"""\
        paths: [{{name: data, host_path: /host/data, container_path: {mount}}}]
        entries: [{{name: a, script: s, args: "{{data}}"}}]
    """

    def args(**variables: str) -> tuple[str, ...]:
        return command_of(folder.entry(text, variables=variables), {}).args

    assert args() == (str(mount) if is_there else "/host/data",)
    assert args(CURATOR_BENCH_IN_CONTAINER="0") == ("/host/data",)
    assert args(CURATOR_BENCH_IN_CONTAINER="1") == (str(mount),)
    mark.unlink()
    assert args() == ("/host/data",)


DATASETS = """\
    datasets: [{name: cc, formats: [{type: jsonl, path: /cc}]}]
    entries:
      - {name: known, script: s, args: "{dataset:cc,jsonl}"}
      - {name: unknown, script: s, args: "{dataset:c,jsonl}"}
      - {name: format, script: s, args: "x", env: {IN: "{dataset:cc,json}"}}
"""


def test_a_dataset_this_machine_does_not_have_is_the_problem_of_its_entry(folder: Folder) -> None:
    assert {entry.name: entry.problems for entry in folder.load(DATASETS).entries} == {
        "known": (),
        "unknown": ("unknown dataset 'c'; did you mean 'cc'?",),
        "format": ("the dataset 'cc' has no format 'json'; did you mean 'jsonl'?",),
    }


def test_an_overlay_brings_the_datasets_of_a_machine(folder: Folder) -> None:
    overlay = "datasets: [{name: c, formats: [{type: jsonl, path: /c}]}]\n"
    unknown = folder.load(DATASETS, overlays=(overlay,)).entries[1]
    assert unknown.problems == ()
    assert command_of(unknown, {}).args == ("/c",)


def test_hostile_texts_are_searched_without_delay() -> None:
    start = time.process_time()
    for piece in ("{a.", "{{a", "{dataset:a,", "${A:-{a}", "${A:-", "$$", "{a-"):
        list(placeholders.names_in(piece * 20_000))
        list(placeholders.unfinished_datasets_in(piece * 20_000))
    assert time.process_time() - start < 30


def test_the_nearest_name_is_found_among_thousands_without_delay() -> None:
    names = [f"entry_{number}" for number in range(10_000)]
    start = time.process_time()
    for number in range(200):
        assert "did you mean" in placeholders.nearest(f"entri_{number}", names)
    assert placeholders.nearest("zzz", ["a", "b"]) == "; known: a, b"
    assert placeholders.nearest("zzz", []) == "; there are none"
    assert time.process_time() - start < 30
