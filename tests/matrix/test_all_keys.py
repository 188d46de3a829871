"""Every key of a matrix loads and lands where it is meant to; so does a whole nightly list of the shape users have."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from curator_bench.matrix import LoadRequest, command_of, load
from curator_bench.matrix.schema import EntryBlock, FileBlock
from curator_bench.values import (
    AxisValue,
    Dataset,
    DataSetup,
    Entry,
    Generate,
    Matrix,
    MatrixFile,
    Place,
    RaySettings,
    Requirement,
    SinkSettings,
    Subject,
)

if TYPE_CHECKING:
    from matrix.conftest import Folder

DATA = Path(__file__).parent / "data"
FILE = "all_keys.yaml"


def load_data(name: str, **circumstances: object) -> Matrix:
    return load(LoadRequest(files=(DATA / name,), working_dir=DATA, **circumstances))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_data(FILE, curator_repo="/repo")


@pytest.fixture(scope="module")
def lines() -> dict[str, int]:
    """The line of each line's text."""
    return {line.strip(): number for number, line in enumerate((DATA / FILE).read_text().splitlines(), 1)}


def place(lines: dict[str, int], beginning: str) -> Place:
    return Place(FILE, next(number for line, number in lines.items() if line.startswith(beginning)))


def test_the_file_of_all_keys_has_all_keys() -> None:
    """The old spellings, keys that another one stands for, and those of suites aside."""
    text = (DATA / FILE).read_text()
    missing = {key for model in (FileBlock, EntryBlock) for key in model.model_fields if f"{key}:" not in text}
    assert missing == {"viewer_url", "asv", "bench", "not_bench"}


def test_keys_of_the_file_land_in_matrix_file(matrix: Matrix, lines: dict[str, int]) -> None:
    words = ("--docs", "20000", "--out", "{dataset_dir}", "--seed", "1 2")
    generate = Generate("make_corpus.py", words, 900, directories=(str(DATA),))
    jsonl, parquet = (
        Dataset("cleaned_cc", kind, str(DATA / "data/cleaned_cc" / kind), place(lines, f"- {{type: {kind}"), generate)
        for kind in ("jsonl", "parquet")
    )
    file_env = {"FROM_FILE": "yes", "OMP_NUM_THREADS": "4"}
    assert matrix.files == (
        MatrixFile(
            file=str(DATA / FILE),
            directory=str(DATA),
            results_dir=str(DATA / "results"),
            artifacts_dir="/big/disk",
            curator_repo_dir="/repo",
            paths={"datasets_path": str(DATA / "data"), "models": "/models"},
            mounts=((str(DATA / "data"), "/datasets"), ("/models", "/MOUNT/models")),
            datasets={("cleaned_cc", "jsonl"): jsonl, ("cleaned_cc", "parquet"): parquet},
            data_setups=(
                DataSetup(
                    name="fleurs",
                    script="prepare.py",
                    script_base_dir=str(DATA / "setups"),
                    args=("--output-path", "{datasets_path}/fleurs"),
                    timeout_s=600,
                    env={**file_env, "HF_HOME": "{models}/hf"},
                    place=place(lines, "- name: fleurs"),
                    directories=(str(DATA),),
                ),
                DataSetup(
                    name="plain",
                    script="plain.py",
                    script_base_dir=str(DATA / "shared"),
                    args=(),
                    timeout_s=3600,
                    env=file_env,
                    place=place(lines, "- {name: plain"),
                    directories=(str(DATA),),
                ),
            ),
            sinks=(
                SinkSettings(
                    "mlflow",
                    {"tracking_uri": "http://localhost", "experiment": "nightly"},
                    place(lines, "- {name: mlflow"),
                ),
            ),
            subjects=(Subject("nemo_curator"), Subject("ray")),
            gpu_stats_interval_s=2.5,
            gpu_stats_asked=True,
            run_reason="nightly",
            viewer_url_template="http://viewer/{session_name_url}",
            cleanup_timeout_s=120,
            min_timeout_s=60,
        ),
    )
    assert matrix.warnings == ()


def test_keys_of_an_entry_land_in_entry(matrix: Matrix, lines: dict[str, int]) -> None:
    removal = matrix.entries[1]
    assert removal == Entry(
        name="removal",
        place=place(lines, "- name: removal"),
        file=matrix.files[0],
        script="removal_benchmark.py",
        directories=(str(DATA),),
        args=(
            *("--input-path", "{dataset:cleaned_cc,jsonl}", "--output-path", "{session_entry_dir}/scratch/out"),
            *("--executor", "{executor}", "--window", "{attention.window}", "--scaling", '{"min": 8}'),
        ),
        axes=(
            AxisValue("executor", "ray_data", "ray_data"),
            AxisValue("attention", "streaming", "streaming", {"window": 128}),
        ),
        variant="ray_data-streaming",
        folder=("removal", "ray_data", "streaming"),
        marks=("dedup", "slow"),
        script_base_dir=str(DATA / "scripts"),
        python="python3",
        env={"FROM_FILE": "yes", "OMP_NUM_THREADS": "1", "EXECUTOR": "{executor}"},
        secrets=("LICENCE_NUMBER", "CUSTOMER"),
        timeout_s=1800,
        repeat=3,
        warmup=1,
        retries=2,
        ray=RaySettings(
            num_cpus=4,
            num_gpus=0,
            memory=8 * 2**30,
            resources={"disk": 1},
            object_store_size=500_000_000,
            enable_object_spilling=False,
            include_dashboard=True,
            include_log_monitor=True,
            reuse=True,
            address="ray://head:10001",
            start_retries=5,
        ),
        delete_scratch=False,
        gpu_mem_use_warning_threshold=0.02,
        requires=("nemo_curator",),
        requires_programs=("lynx",),
        gpu_check="check_model.py",
        requirements=(
            Requirement("is_success", exact_value=True),
            Requirement("throughput_docs_per_sec", min_value=200),
            Requirement("recall", exact_value=0.97, tolerance=0.01),
            Requirement(
                "time_taken_s",
                max_value=60,
                max_regression=0.1,
                max_drift=0.15,
                baseline="main",
                min_history=7,
                better="less",
                min_effect=0.02,
            ),
        ),
        sink_data={"slack": {"additional_metrics": ["num_removed"], "ping_on_failure": ["U123"]}},
    )


def test_combinations_have_the_values_exclude_and_include_leave_them(matrix: Matrix) -> None:
    removal = [entry for entry in matrix.entries if entry.name == "removal"]
    assert [entry.variant for entry in removal] == ["ray_data-dense", "ray_data-streaming", "ray_actors-dense"]
    assert removal[2].axes[2] == AxisValue("batch", "7", 7, named=False)
    assert removal[2].folder == ("removal", "ray_actors", "dense")


def test_an_entry_takes_what_the_file_says(matrix: Matrix) -> None:
    plain, no_cluster = matrix.entries[3:]
    assert plain == dataclasses.replace(
        Entry("plain", plain.place, matrix.files[0], "plain.py", directories=(str(DATA),)),
        folder=("plain",),
        marks=("dedup",),
        script_base_dir=str(DATA / "shared"),
        env={"FROM_FILE": "yes", "OMP_NUM_THREADS": "4"},
        secrets=("LICENCE_NUMBER",),
        timeout_s=3600,
        ray=RaySettings(num_cpus=2, num_gpus=0, enable_object_spilling=False, object_store_size=0.3),
        delete_scratch=True,
        gpu_mem_use_warning_threshold=0.01,
    )
    assert no_cluster.ray is None


def test_without_any_key_there_are_defaults(folder: Folder) -> None:
    entry = folder.entry("entries: [{name: a, script: b}]")
    assert entry == dataclasses.replace(
        Entry("a", Place("matrix.yaml", 1), entry.file, "b", directories=(str(folder.path),)),
        folder=("a",),
        timeout_s=7200,
        ray=RaySettings(),
    )
    assert (entry.repeat, entry.warmup, entry.retries, entry.delete_scratch) == (1, 0, 0, True)
    assert entry.file == MatrixFile(
        file=str(folder.path / "matrix.yaml"), directory=str(folder.path), curator_repo_dir=entry.file.curator_repo_dir
    )


@pytest.mark.parametrize(
    ("given", "size"),
    [("0.3", 0.3), ("1.0", 1.0), ("500000000", 500_000_000), ("8GiB", 8 * 2**30), ("1.5 kb", 1500), ("default", None)],
)
def test_the_object_store_is_sized_in_bytes_as_a_share_or_by_ray(folder: Folder, given: str, size: object) -> None:
    for text in (
        f"object_store_size: {given}\nentries: [{{name: a, script: b}}]",
        f"entries: [{{name: a, script: b, object_store_size: {given}}}]",
        f"object_store_size: 7\nentries: [{{name: a, script: b, ray: {{object_store_size: {given}}}}}]",
    ):
        ray = folder.entry(text).ray
        assert ray is not None
        assert (ray.object_store_size, type(ray.object_store_size)) == (size, type(size))


def test_no_timeout_is_above_the_highest_even_by_default(folder: Folder) -> None:
    assert folder.entry("max_timeout_s: 60\nentries: [{name: a, script: b}]").timeout_s == 60
    assert folder.entry("timeout_s: 5\nentries: [{name: a, script: b}]").timeout_s == 5


@pytest.mark.parametrize(
    ("of_file", "of_entry", "num_cpus"),
    [
        ("ray: {num_cpus: 2}", "", 2),
        ("ray: {num_cpus: 2}", "ray: {num_gpus: 1}", 2),
        ("ray: {num_cpus: 2}", "ray: {num_cpus: 3}", 3),
        ("ray: {num_cpus: 2}", "ray: true", 2),
        ("ray: {num_cpus: 2}", "ray: false", "none"),
        ("ray: false", "", "none"),
        ("ray: false", "ray: true", None),
        ("ray: false", "ray: {num_cpus: 3}", 3),
        ("", "", None),
    ],
)
def test_the_cluster_of_an_entry_is_merged_over_the_defaults(
    folder: Folder, of_file: str, of_entry: str, num_cpus: object
) -> None:
    ray = folder.entry(f"{of_file}\nentries:\n  - name: a\n    script: b\n    {of_entry}\n").ray
    assert ("none" if ray is None else ray.num_cpus) == num_cpus


def test_the_recorder_of_gpus_that_is_switched_off_records_nothing(folder: Folder) -> None:
    off = folder.load("gpu_stats_recorder: {enabled: false, interval_s: 3}")
    on = folder.load("gpu_stats_recorder: {enabled: true, interval_s: 3}")
    assert (off.files[0].gpu_stats_interval_s, on.files[0].gpu_stats_interval_s) == (0, 3)


def test_any_block_may_be_switched_on_or_off(folder: Folder) -> None:
    text = """\
        paths: [{{name: p, host_path: /p, enabled: {0}}}]
        datasets:
          - {{name: d, enabled: {0}, formats: [{{type: t, path: /t}}]}}
          - {{name: e, formats: [{{type: t, path: /t, enabled: {0}}}, {{type: u, path: /u}}]}}
        data_setups: [{{name: s, script: x, enabled: {0}}}]
        subjects: [{{package: ray, enabled: {0}}}]
        sinks: [{{name: slack, enabled: {0}}}]
        entries:
          - name: a
            script: b
            requirements: [{{metric: m, min_value: 1, enabled: {0}}}]
            sink_data: [{{name: slack, enabled: {0}}}]
            ray: {{num_cpus: 3, enabled: {0}}}
    """
    (on,), (off,) = (folder.load(text.format(switch)).entries for switch in ("true", "false"))
    for entry, count in ((on, 1), (off, 0)):
        file = entry.file
        parts = (file.paths, file.data_setups, file.subjects, file.sinks, entry.requirements, entry.sink_data)
        assert [len(part) for part in parts] == [count] * len(parts)
        assert len(file.datasets) == 1 + 2 * count
        assert entry.ray == RaySettings(num_cpus=3 if count else None)
    assert folder.load("enabled: false\nnonsense: 1\n").entries == ()


def test_keys_that_begin_with_x_and_holders_of_anchors_are_the_users_own(folder: Folder) -> None:
    matrix = folder.load(
        """\
        x-common: &common {script: run.py, timeout_s: 9, x-why: because}
        .hidden: &ray {num_cpus: 3}
        paths: [{name: p, host_path: /p, x-note: 1}]
        sinks: [{name: mine, x-note: left out, headers: {x-api: kept}}]
        entries:
          - {<<: *common, name: a, ray: *ray, env: {x-own: "1"}}
        """
    )
    (entry,) = matrix.entries
    assert (entry.script, entry.timeout_s, entry.ray, entry.env) == (
        "run.py",
        9,
        RaySettings(num_cpus=3),
        {"x-own": "1"},
    )
    assert matrix.files[0].sinks[0].settings == {"headers": {"x-api": "kept"}}


def test_numbers_and_switches_count_as_text_where_text_is_meant(folder: Folder) -> None:
    entry = folder.entry("entries: [{name: 7, script: b, args: 3, env: {A: 1, B: true, C: 0.5}, marks: slow}]")
    assert (entry.name, entry.args, entry.marks) == ("7", ("3",), ("slow",))
    assert entry.env == {"A": "1", "B": "true", "C": "0.5"}


NIGHTLY = ["classify_topics_raydata", "classify_topics_xenna", "remove_duplicates", "speakers_windows"]


def test_a_nightly_list_loads_its_enabled_entries_without_any_variable() -> None:
    matrix = load_data("curator_shape.yaml", curator_repo="/repo")
    assert [entry.name for entry in matrix.entries] == NIGHTLY
    assert [entry.problems for entry in matrix.entries] == [()] * len(NIGHTLY)
    (slack,) = matrix.files[0].sinks
    assert slack.problems == (
        "curator_shape.yaml:48: sinks[slack].channel_id: environment variable SLACK_CHANNEL_ID is not set",
    )
    assert matrix.warnings == (
        "curator_shape.yaml:2: `results_path` is deprecated; write `results_dir`",
        f"the sink slack is off: {slack.problems[0]}",
    )


def test_a_nightly_list_means_what_it_says() -> None:
    matrix = load_data("curator_shape.yaml", curator_repo="/repo", variables={"SLACK_CHANNEL_ID": "C0123"})
    raydata, xenna, duplicates, windows = matrix.entries
    assert command_of(raydata, {}).args == (
        "--benchmark-results-path={session_entry_dir}",
        "--output-path={session_entry_dir}/scratch/output",
        "--executor=ray_data",
        "--input-path=/nightly/datasets/tiny_stories/parquet",
        "--dataset-size-gb=10",
        "--model-inference-batch-size=1024",
    )
    assert "--cache-dir=/nightly/weights/topics" in command_of(xenna, {}).args
    assert "--input-manifest=/repo/tests/fixtures/windows.jsonl" in command_of(windows, {}).args
    assert (raydata.timeout_s, duplicates.timeout_s) == (900, 7200)
    assert raydata.ray == RaySettings(16, 4, object_store_size=536_870_912_000, enable_object_spilling=False)
    assert (xenna.requirements[0].min_value, xenna.requirements[0].max_value) == (0.2, 900)
    assert duplicates.requirements == (
        Requirement("num_removed", exact_value=18091),
        Requirement("is_success", exact_value=True),
    )
    assert duplicates.sink_data["slack"]["ping_on_failure"] == ["U00000000", "U11111111"]
    assert (windows.delete_scratch, duplicates.delete_scratch) == (False, True)
    file = matrix.files[0]
    assert (file.results_dir, file.cleanup_timeout_s, file.min_timeout_s) == ("/results", 300, 600)
    assert [(sink.name, sink.problems, sink.settings["channel_id"]) for sink in file.sinks] == [("slack", (), "C0123")]


def test_a_nightly_list_is_strict_about_what_is_on_only() -> None:
    with pytest.raises(Exception, match="SLACK_CHANNEL_ID") as caught:
        load_data("curator_shape.yaml", curator_repo="/repo", strict=True)
    assert str(caught.value).count("\n") == 1
