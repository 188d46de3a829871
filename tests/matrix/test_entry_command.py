"""The command of an entry: where its script is found, and what it needs before it can run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from curator_bench.matrix import Command, command_of
from curator_bench.matrix.definition import definition_hash

if TYPE_CHECKING:
    from matrix.conftest import Folder


def command(folder: Folder, text: str, **variables: str) -> Command:
    return command_of(folder.entry(text, variables=variables), variables)


def test_a_script_is_found_in_its_base_beside_the_file_or_in_scripts(folder: Folder) -> None:
    text = "entries: [{name: a, script: run.py, script_base_dir: ./base}]\n"
    places = [folder.path / "base" / "run.py", folder.path / "run.py", folder.path / "scripts" / "run.py"]
    nowhere = command(folder, text)
    assert nowhere.problems == (f"the script 'run.py' was not found; looked for {', '.join(map(str, places))}",)
    for place in reversed(places):
        folder.write("", str(place.relative_to(folder.path)))
        found = command(folder, text)
        assert (found.script, found.problems) == (str(place), ())


def test_the_machine_may_be_named_first_and_the_benchmarks_of_a_source_tree_laid_over_it(folder: Folder) -> None:
    """As in `--config my_machine.yaml --config their/benchmarking/nightly.yaml`."""
    for name in ("pyproject.toml", "benchmarking/scripts/run.py", "benchmarking/data_prep/prepare.py"):
        folder.write("", f"their/{name}")
    benchmarks = folder.write(
        """\
        data_setups: [{name: s, script: prepare.py}]
        entries: [{name: a, script: run.py, args: "{curator_repo_dir}/tests {data}"}]
        """,
        "their/benchmarking/nightly.yaml",
    )
    matrix = folder.load("paths: [{name: data, host_path: ./data}]\n", overlays=(benchmarks,))
    found = command_of(matrix.entries[0], {})
    assert found.problems == ()
    assert found.script == str(folder.path / "their/benchmarking/scripts/run.py")
    assert found.args == (str(folder.path / "their/tests"), str(folder.path / "data"))
    assert found.data_setups[0].command[1] == str(folder.path / "their/benchmarking/data_prep/prepare.py")


def test_an_overlay_elsewhere_may_name_another_script_of_the_matrix(folder: Folder) -> None:
    folder.write("", "scripts/other.py")
    overlay = folder.write("entries: [{name: a, script: other.py}]\n", "elsewhere/machine.yaml")
    (entry,) = folder.load("entries: [{name: a, script: run.py}]\n", overlays=(overlay,)).entries
    assert command_of(entry, {}).script == str(folder.path / "scripts/other.py")


def test_an_overlay_may_generate_a_dataset_of_the_matrix_with_a_script_beside_itself(folder: Folder) -> None:
    """What makes the dataset is found, and is part of the definition, wherever the matrix lies."""
    folder.write("", "elsewhere/make.py")
    text = "datasets: [{name: d, generate: {script: make.py}, formats: [{type: t, path: ./d}]}]\n"
    overlay = folder.write(text, "elsewhere/machine.yaml")
    entry = 'entries: [{name: a, script: run.py, args: "{dataset:d,t}"}]\n'
    matrix = "datasets: [{name: d, formats: [{type: t, path: ./d}]}]\n" + entry

    def found() -> tuple[str, str]:
        (entry,) = folder.load(matrix, overlays=(overlay,)).entries
        (need,) = command_of(entry, {}).datasets
        return need.command[1], definition_hash(entry)

    script, before = found()
    assert script == str(folder.path / "elsewhere/make.py")
    folder.write("print()", "elsewhere/make.py")
    assert found() != (script, before)


def test_a_script_may_be_absolute_or_named_by_placeholders(folder: Folder) -> None:
    for name in ("elsewhere/run_fast.py", "elsewhere/two words.py"):
        folder.write("", name)
    elsewhere = folder.path / "elsewhere"
    for script in (
        str(elsewhere / "run_fast.py"),
        "elsewhere/run_{mode}.py",
        "{place}/run_fast.py",
        "${DIR}/run_fast.py",
    ):
        text = f"""\
        paths: [{{name: place, host_path: ./elsewhere}}]
        entries: [{{name: a, script: "{script}", matrix: {{mode: [fast]}}}}]
        """
        assert command(folder, text, DIR=str(elsewhere)).script == str(elsewhere / "run_fast.py")
    spaced = command(folder, 'entries: [{name: a, script: "${DIR}/two words.py"}]', DIR=str(elsewhere))
    assert (spaced.script, spaced.problems) == (str(elsewhere / "two words.py"), ())


def test_the_interpreter_is_that_of_pytest_unless_it_is_said(folder: Folder) -> None:
    assert command(folder, "entries: [{name: a, script: b}]").python == sys.executable
    text = 'entries: [{name: a, script: b, python: "${VENV}/bin/python{v}", matrix: {v: [3]}}]\n'
    assert command(folder, text, VENV="/venv").python == "/venv/bin/python3"


def test_the_datasets_an_entry_names_are_its_needs(folder: Folder) -> None:
    text = """\
        datasets:
          - {name: cc, formats: [{type: jsonl, path: ./cc}, {type: parquet, path: ./ccp}]}
          - {name: wiki, formats: [{type: jsonl, path: ./wiki}]}
          - {name: books, formats: [{type: text, path: ./books}]}
        entries:
          - name: a
            script: b
            args: --in {dataset:cc, parquet} --again {dataset:cc,parquet} --or ${NONE:-{dataset:books,text}}
            env: {WIKI: "{dataset:wiki,jsonl}"}
    """
    needs = command(folder, text).datasets
    assert [(need.name, need.format, need.path, need.command) for need in needs] == [
        ("cc", "parquet", str(folder.path / "ccp"), ()),
        ("wiki", "jsonl", str(folder.path / "wiki"), ()),
        ("books", "text", str(folder.path / "books"), ()),
    ]


def test_a_dataset_that_can_be_made_brings_the_command(folder: Folder) -> None:
    script = folder.write("", "scripts/make.py")
    text = """\
        paths: [{name: data, host_path: "./my data"}]
        datasets:
          - name: cc
            formats: [{type: jsonl, path: "{data}/cc/jsonl"}, {type: parquet, path: "{data}/cc/parquet"}]
            generate: {script: make.py, args: "--out {dataset_dir} --from '{data}/raw' --key ${KEY}", timeout_s: 9}
        entries: [{name: a, script: b, args: "{dataset:cc,jsonl}"}]
    """
    (need,) = command(folder, text, KEY="a b").datasets
    data = folder.path / "my data"
    assert need.command == (
        *(sys.executable, str(script), "--out", str(data / "cc"), "--from", str(data / "raw"), "--key", "a b"),
    )
    assert need.timeout_s == 9


@pytest.mark.parametrize(
    ("paths", "shared"),
    [
        (["/d/cc"], "/d/cc"),
        (["/d/cc/a", "/d/cc/b/c"], "/d/cc"),
        (["/d/cc1", "/d/cc2"], "/d"),
        (["s3://bucket/cc/a"], "s3://bucket/cc/a"),
        (["s3://bucket/cc/a", "s3://bucket/cc/b"], "s3://bucket/cc"),
        (["/d/a", "/e/a"], "/"),
    ],
)
def test_the_folder_of_a_dataset_is_what_its_formats_share(folder: Folder, paths: list[str], shared: str) -> None:
    formats = ", ".join(f'{{type: t{number}, path: "{path}"}}' for number, path in enumerate(paths))
    text = f"""\
        datasets: [{{name: cc, formats: [{formats}], generate: {{script: m.py, args: "{{dataset_dir}}"}}}}]
        entries: [{{name: a, script: b, args: "{{dataset:cc,t0}}"}}]
    """
    (need,) = command(folder, text).datasets
    assert need.command[-1] == shared


def test_a_dataset_in_a_bucket_and_on_disk_at_once_is_no_crash(folder: Folder) -> None:
    text = """\
        datasets: [{name: cc, formats: [{type: a, path: "s3://b/x"}, {type: b, path: /x}], generate: {script: m.py}}]
        entries: [{name: a, script: b, args: "{dataset:cc,a}"}]
    """
    assert len(command(folder, text).datasets) == 1


def test_setups_of_the_data_are_looked_for_in_data_prep_too(folder: Folder) -> None:
    script = folder.write("", "data_prep/fleurs.py")
    text = """\
        paths: [{name: data, host_path: "./my data"}]
        data_setups:
          - {name: fleurs, script: fleurs.py, args: "--to {data}/fleurs", env: {LANGUAGE: "${LANG_}"}, timeout_s: 60}
          - {name: gone, script: gone.py}
        entries: [{name: a, script: b}]
    """
    fleurs, gone = command(folder, text, LANG_="de").data_setups
    assert fleurs.command == (sys.executable, str(script), "--to", str(folder.path / "my data" / "fleurs"))
    assert (dict(fleurs.env), fleurs.timeout_s, fleurs.problems) == ({"LANGUAGE": "de"}, 60, ())
    assert "the script 'gone.py' was not found" in gone.problems[0]
    assert str(Path("data_prep") / "gone.py") in gone.problems[0]


def test_what_keeps_an_entry_from_running_is_told_with_its_command(folder: Folder) -> None:
    folder.write("", "run.py")
    told = command(folder, 'entries: [{name: a, script: run.py, args: "${UNSET}"}]')
    assert told.problems == ("matrix.yaml:1: entries[a].args: environment variable UNSET is not set",)


def test_variables_are_taken_when_the_command_is_asked_for(folder: Folder) -> None:
    """A worker on another machine has another environment."""
    entry = folder.entry(
        'entries: [{name: a, script: b, args: "${DIR}", env: {D: "${DIR}"}}]', variables={"DIR": "/here"}
    )
    there = command_of(entry, {"DIR": "/there"})
    assert (there.args, dict(there.env)) == (("/there",), {"D": "/there"})


def test_what_a_secret_option_takes_is_a_secret_and_what_others_take_is_not(folder: Folder) -> None:
    folder.write("", "run.py")
    args = "--api-key AAAA --hf_token=BBBB --password CCCC --text-key text --max-tokens 8192 --tokenizer fast --token"
    text = f"entries: [{{name: a, script: run.py, args: '{args}'}}]\n"
    assert {secret for secret in command(folder, text).secrets if secret} == {"AAAA", "BBBB", "CCCC"}
