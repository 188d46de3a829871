"""Older spellings mean what the new ones do, and each is told once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from curator_bench.matrix import command_of

if TYPE_CHECKING:
    from matrix.conftest import Folder

ENTRY = "entries: [{name: a, script: b}]\n"


def test_the_old_name_of_the_results_directory(folder: Folder) -> None:
    matrix = folder.load(f"results_path: ./out\n{ENTRY}")
    assert matrix.files[0].results_dir == str(folder.path / "out")
    assert matrix.warnings == ("matrix.yaml:1: `results_path` is deprecated; write `results_dir`",)
    both = folder.load(f"results_dir: ./new\nresults_path: ./old\n{ENTRY}")
    assert both.files[0].results_dir == str(folder.path / "new")


def test_a_path_called_results_path_is_the_results_directory(folder: Folder) -> None:
    matrix = folder.load(f"paths: [{{name: results_path, host_path: ./out}}]\n{ENTRY}")
    assert matrix.files[0].results_dir == matrix.files[0].paths["results_path"] == str(folder.path / "out")
    assert matrix.warnings == ()


def test_the_old_paths(folder: Folder) -> None:
    matrix = folder.load(
        """\
        datasets_path: ./data
        model_weights_path: /models
        artifacts_dir: ./big
        entries: [{name: a, script: b, args: "{datasets_path} {model_weights_path}"}]
        """
    )
    assert matrix.files[0].paths == {"datasets_path": str(folder.path / "data"), "model_weights_path": "/models"}
    assert matrix.files[0].artifacts_dir == str(folder.path / "big")
    assert command_of(matrix.entries[0], {}).args == (str(folder.path / "data"), "/models")
    assert matrix.warnings == (
        "matrix.yaml:1: `datasets_path` is deprecated; write `paths: [{name: datasets_path, host_path: …}]`",
        "matrix.yaml:2: `model_weights_path` is deprecated; write `paths: [{name: model_weights_path, host_path: …}]`",
    )


def test_the_old_blocks_of_sinks(folder: Folder) -> None:
    matrix = folder.load(
        """\
        mlflow:
          tracking_uri: http://localhost
          experiment: nightly
        slack: {webhook_env: SLACK_WEBHOOK_URL}
        wandb: {enabled: false, project: "${PROJECT}"}
        sinks: [{name: mine}]
        """
    )
    assert [(sink.name, dict(sink.settings), sink.place.line) for sink in matrix.files[0].sinks] == [
        ("mine", {}, 6),
        ("mlflow", {"tracking_uri": "http://localhost", "experiment": "nightly"}, 1),
        ("slack", {"webhook_env": "SLACK_WEBHOOK_URL"}, 4),
    ]
    assert matrix.warnings == tuple(
        f"matrix.yaml:{line}: a top-level `{name}:` block is deprecated; write `sinks: [{{name: {name}, …}}]`"
        for line, name in ((1, "mlflow"), (4, "slack"), (5, "wandb"))
    )


def test_the_old_name_of_the_folder_of_an_entry_is_told_once(folder: Folder) -> None:
    matrix = folder.load(
        """\
        entries:
          - {name: a, script: s, args: "--out {session}/scratch --tmp {session}/tmp"}
          - {name: b, script: s, args: "--out {session}/scratch"}
        """
    )
    assert matrix.warnings == ("matrix.yaml:2: `{session}` is deprecated; write `{session_entry_dir}`",)
    assert [entry.problems for entry in matrix.entries] == [(), ()]


def test_environment_is_another_name_for_env(folder: Folder) -> None:
    matrix = folder.load(
        """\
        environment: {A: "1", B: "2"}
        data_setups: [{name: s, script: p, environment: {C: "${X}"}}]
        entries: [{name: a, script: b, environment: {B: "${X}", x-extra: kept}}]
        """,
        variables={"X": "3"},
    )
    assert dict(matrix.entries[0].env) == {"A": "1", "B": "${X}", "x-extra": "kept"}
    assert command_of(matrix.entries[0], {"X": "3"}).env["B"] == "3"
    assert dict(matrix.files[0].data_setups[0].env) == {"A": "1", "B": "2", "C": "${X}"}
    assert matrix.warnings == ()


def test_timeouts_of_job_generators_are_kept(folder: Folder) -> None:
    (file,) = folder.load(f"cleanup_timeout_s: 90\nmin_timeout_s: 0\n{ENTRY}").files
    assert (file.cleanup_timeout_s, file.min_timeout_s) == (90, 0)


def test_requirements_and_sink_data_may_be_mappings(folder: Folder) -> None:
    entry = folder.entry(
        """\
        entries:
          - name: a
            script: b
            requirements: {speed: {min_value: 1, max_value: 2}, ok: {exact_value: true}}
            sink_data: {slack: {additional_metrics: [n]}, mlflow: }
        """
    )
    assert [(r.metric, r.min_value, r.max_value, r.exact_value) for r in entry.requirements] == [
        ("speed", 1, 2, None),
        ("ok", None, None, True),
    ]
    assert entry.sink_data == {"slack": {"additional_metrics": ["n"]}, "mlflow": {}}


def test_requirements_that_are_a_mapping_can_be_switched_off(folder: Folder) -> None:
    text = "entries: [{{name: a, script: b, requirements: {{enabled: {switch}, speed: {{min_value: 1}}}}}}]\n"
    assert folder.entry(text.format(switch="false")).requirements == ()
    assert [r.metric for r in folder.entry(text.format(switch="true")).requirements] == ["speed"]


DATASETS = '{"cc": {"jsonl": "/data/cc", "parquet": "cc_parquet"}, "books": {"text": "${BOOKS}"}}'


def test_the_old_file_of_datasets(folder: Folder) -> None:
    datasets = folder.write(DATASETS, "elsewhere/datasets.json")
    matrix = folder.load(
        """\
        entries:
          - {name: a, script: b, args: "{dataset:cc,parquet}"}
          - {name: c, script: d, args: "{dataset:books,text}"}
        """,
        datasets_file=datasets,
    )
    cc, books = matrix.entries
    assert command_of(cc, {}).args == (str(folder.path / "elsewhere" / "cc_parquet"),)
    assert books.problems == (
        "elsewhere/datasets.json:1: datasets[books].formats[text].path: environment variable BOOKS is not set",
    )
    assert matrix.warnings == (
        "elsewhere/datasets.json: a JSON file of datasets is deprecated; list them under `datasets:`",
    )


def test_a_file_of_datasets_wins_over_those_of_the_matrix_and_may_be_of_the_new_form(folder: Folder) -> None:
    matrix = """\
        datasets: [{name: cc, formats: [{type: jsonl, path: /old}, {type: parquet, path: /kept}]}]
        entries: [{name: a, script: b, args: "{dataset:cc,jsonl} {dataset:cc,parquet}"}]
    """
    old = folder.write(DATASETS.replace('"parquet"', '"other"'), "datasets.json")
    new = folder.write("datasets: [{name: cc, formats: [{type: jsonl, path: /new}]}]\n", "datasets.yaml")
    assert command_of(folder.entry(matrix, datasets_file=old), {}).args == ("/data/cc", "/kept")
    assert command_of(folder.entry(matrix, datasets_file=new), {}).args == ("/new", "/kept")


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        ("", ["datasets.json: the file is empty, expected a mapping with `entries`"]),
        ("[1]", ["datasets.json:1: found a list, expected a mapping with `entries`"]),
        ('{"cc": "/data"}', ["datasets.json:1: cc: found '/data', expected a mapping of formats to paths"]),
        (
            '{"cc": {"jsonl": 3, "a": [1]}}',
            ["datasets.json:1: datasets[cc].formats[a].path: found a list, expected text"],
        ),
        ('{"cc": {}}', ["datasets.json:1: datasets[cc].formats: found an empty list, expected at least 1 item"]),
        (
            '{"cc": {"a": "/1",\n"a": "/2"},\n"cc": {"b": "/3"}}',
            [
                "datasets.json:3: cc: is written twice in the same mapping",
            ],
        ),
        ('{"cc": {"a": "/1",\n"a": "/2"}}', ["datasets.json:2: cc.a: is written twice in the same mapping"]),
    ],
)
def test_mistakes_of_a_file_of_datasets(folder: Folder, text: str, mistakes: list[str]) -> None:
    assert folder.mistakes(ENTRY, datasets_file=folder.write(text, "datasets.json")) == mistakes
