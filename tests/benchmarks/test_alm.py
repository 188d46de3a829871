"""What the ALM suite promises as a benchmark: every entry processed each time, planted windows found, its files."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import pickle
import subprocess
import sys
import uuid
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator_bench.cluster.environment import without_ray
from curator_bench.cluster.local import LocalCluster
from curator_bench.cluster.model import Cluster, ClusterRequest
from curator_bench.execution.result_files import read_result_files
from curator_bench.matrix import LoadRequest, command_of, load
from curator_bench.values import RaySettings

SUITE = Path(__file__).parents[2] / "benchmarks" / "alm"
sys.path.insert(0, str(SUITE))

import alm_manifest  # noqa: E402
import alm_options  # noqa: E402
import alm_work  # noqa: E402
import make_manifest  # noqa: E402
from alm_same_windows import Case, canonical, cases, with_builtin  # noqa: E402
from alm_stand_ins import make_stand_ins  # noqa: E402
from alm_windows import WindowSettings, build_windows  # noqa: E402

HAS_NEMO_CURATOR = importlib.util.find_spec("nemo_curator") is not None
HAS_RAY_DATA = all(importlib.util.find_spec(name) for name in ("pyarrow", "pandas", "fsspec"))
needs_nemo_curator = pytest.mark.skipif(not HAS_NEMO_CURATOR, reason="nemo_curator is not installed: make test-curator")
needs_ray_data = pytest.mark.skipif(not HAS_RAY_DATA, reason="Ray Data is not installed: curator-bench[data]")

# Manifests and their division


@given(
    st.lists(st.sampled_from([b'{"a": 1}', b"", b"x" * 300, b"  "]), max_size=40), st.integers(1, 30), st.integers(1, 9)
)
@settings(deadline=None)
def test_jobs_do_every_line_exactly_as_often_as_asked(lines: list[bytes], repeat_factor: int, tasks: int) -> None:
    done: Counter[tuple[int, bytes]] = Counter()
    jobs = alm_manifest.jobs_for(lines, repeat_factor, tasks)
    for job in jobs:
        for at, line in enumerate(job.shard.text.split(b"\n"), job.shard.first_line):
            done[at, line] += job.repeats if line.strip() else 0
    numbered = {(number, line) for number, line in enumerate(lines, 1) if line.strip()}
    assert +done == Counter(dict.fromkeys(numbered, repeat_factor))
    assert all(job.repeats >= 1 for job in jobs)


def test_work_is_divided_into_tasks_of_about_the_same_size() -> None:
    for lines, repeat_factor in ((5, 2000), (3, 100), (1, 50), (1000, 1), (40, 7)):
        jobs = alm_manifest.jobs_for([b"x" * 1000] * lines, repeat_factor, 8)
        sizes = [len(job.shard.text) * job.repeats for job in jobs]
        assert 8 <= len(jobs) <= 16
        assert max(sizes) <= 2.1 * sum(sizes) / len(sizes)


def test_the_largest_tasks_come_first_so_that_all_processes_end_together() -> None:
    lines = [b"x" * length for length in (3000, 9000, 1000, 7000, 5000)]
    sizes = [len(job.shard.text) * job.repeats for job in alm_manifest.jobs_for(lines, 2000, 8)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) > 2


def test_every_repeat_is_computed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    built: Counter[str] = Counter()

    def counting(entry: dict[str, Any], its_settings: Any) -> dict[str, Any]:
        built[entry["audio_filepath"]] += 1
        return build_windows(entry, its_settings)

    monkeypatch.setattr(alm_work, "build_windows", counting)
    text = b"\n".join(json.dumps({**some_entry(number), "audio_filepath": str(number)}).encode() for number in range(3))
    job = alm_manifest.Job(alm_manifest.Shard(1, text), repeats=5)
    rows = alm_work.do_job(4, job, alm_work.Settings(WindowSettings(), 50))
    assert built == {"0": 5, "1": 5, "2": 5}
    assert Counter(row.found.audio_filepath for row in rows) == built


def some_entry(number: int) -> dict[str, Any]:
    return list(cases(2 * number + 1, seed=1))[2 * number].entry


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{not json", "line 3 of the manifest is not JSON"),
        (b"[1]", "line 3 of the manifest is list, not an object"),
        (b'{"audio_filepath": "x"}', "line 3 of the manifest has no audio_sample_rate and no segments"),
        (b"\xff\xfe", "line 3 of the manifest is not JSON"),
    ],
)
def test_a_broken_line_is_named(line: bytes, complaint: str) -> None:
    good = json.dumps(some_entry(1)).encode()
    (job,) = alm_manifest.jobs_for([good, b"", line], 1, 1)
    with pytest.raises(alm_manifest.ManifestError, match=complaint):
        list(alm_manifest.entries_of(job.shard))


@needs_ray_data
def test_manifests_are_read_from_wherever_fsspec_reaches() -> None:
    import fsspec

    url = f"memory://{uuid.uuid4().hex}/manifest.jsonl"
    with fsspec.open(url, "w") as file:
        file.write("{}\r\n\n[]")
    assert alm_manifest.read_lines(url) == [b"{}", b"", b"[]"]
    assert alm_manifest.count_entries(alm_manifest.read_lines(url)) == 2


# Options

SEEDS_ENTRY = """
entries:
  - name: alm_pipeline_xenna
    script: alm_pipeline_benchmark.py
    args: >-
      --benchmark-results-path={session_entry_dir}
      --input-manifest={curator_repo_dir}/tests/fixtures/audio/alm/sample_input.jsonl
      --executor=xenna
      --target-window-duration=100.0
      --tolerance=0.2
      --min-sample-rate=8000
      --min-bandwidth=4000
      --min-speakers=1
      --max-speakers=4
      --overlap-percentage=40
      --repeat-factor=2000
"""


def test_an_entry_of_nemo_curators_own_matrix_is_read_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CURATOR_REPO_DIR", "/curator")
    (tmp_path / "nightly-benchmark.yaml").write_text(SEEDS_ENTRY)
    words = ["--config", str(tmp_path / "nightly-benchmark.yaml"), "--repeat-factor", "3"]
    words += ["--benchmark-results-path", str(tmp_path / "results")]
    options = alm_options.parse_options(words)
    assert options == alm_options.parse_options([*words, "--entry", "alm_pipeline_xenna"])
    assert options.input_manifest == "/curator/tests/fixtures/audio/alm/sample_input.jsonl"
    assert (options.engine, options.executor, options.repeat_factor) == ("nemo_curator", "xenna", 3)
    assert options.windows == WindowSettings(100.0, 0.2, 8000, 4000, 1, 4)
    assert options.overlap_percentage == 40
    assert "{" not in str(options.benchmark_results_path)


def test_an_entry_of_a_matrix_brings_its_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALM_DATASETS", str(tmp_path))
    monkeypatch.setenv("ALM_SIZE", "S")
    words = ["--config", str(SUITE / "matrix.yaml"), "--entry", "alm_pipeline[ray_actors]"]
    options = alm_options.parse_options([*words, "--benchmark-results-path", str(tmp_path / "results")])
    assert options.executor == "ray_actors"
    assert options.benchmark_results_path == tmp_path / "results"
    assert len(Path(options.input_manifest).read_text().splitlines()) == make_manifest.SIZES["S"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--engine builtin --executor xenna", "the engine builtin has no executor xenna; it has processes"),
        ("--entry alm_pipeline", "--entry is the name of an entry in the file of --config"),
        ("--overlap-percentage 101", "--overlap-percentage must be from 0 to 100"),
        ("--processes 0", "--processes must be 1 or more"),
        ("--repeat-factor 0", "--repeat-factor must be 1 or more"),
        ("--target-window-duration 0", "--target-window-duration must be more than 0"),
        ("--planted x.json --max-speakers 4", "--planted goes with the default options"),
        ("--config SUITE/matrix.yaml --entry alm_pipeline", "alm_pipeline[ray_data], alm_pipeline[ray_actors]"),
        ("--config SUITE/matrix.yaml --entry nothing", "alm_pipeline[ray_data], alm_pipeline[ray_actors]"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        alm_options.parse_options(
            [*words.replace("SUITE", str(SUITE)).split(), "--input-manifest", "x", "--benchmark-results-path", "y"]
        )
    assert stopped.value.code == 2
    assert complaint in " ".join(capsys.readouterr().err.split())


def test_paths_lead_to_the_same_place_from_any_directory() -> None:
    words = ["--benchmark-results-path", "results", "--input-manifest", "talk/manifest.jsonl"]
    local = alm_options.parse_options(words)
    assert local.input_manifest == str(Path("talk/manifest.jsonl").absolute())
    assert local.output_path is None
    remote = alm_options.parse_options(
        [*words, "--input-manifest", "s3://talk/x.jsonl", "--output-path", "s3://talk/out"]
    )
    assert (remote.input_manifest, remote.output_path) == ("s3://talk/x.jsonl", "s3://talk/out")


# The script on a real cluster


@pytest.fixture(scope="module")
def audio_stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stand_ins")
    if HAS_NEMO_CURATOR and (missing := make_stand_ins(folder)):
        warnings.warn(f"not installed, so that empty stand-ins are used: {', '.join(missing)}", stacklevel=1)
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, audio_stand_ins: Path) -> Iterator[Cluster]:
    """Two CPUs, and NeMo Curator's executors where it is installed."""
    folder = tmp_path_factory.mktemp("cluster")
    provider = LocalCluster()
    request = ClusterRequest(
        settings=RaySettings(num_cpus=2, object_store_size=300_000_000),
        marker=uuid.uuid4().hex,
        env={**os.environ, "PYTHONPATH": str(audio_stand_ins)},
        log_path=folder / "ray_startup.log",
    )
    started = provider.start(request)
    try:
        yield started
    finally:
        provider.close()


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    make_manifest.write_manifest(folder, count=4, seed=2)
    return folder / "manifest.jsonl"


class Run:
    """One run of the script, as a run of the bench would start it."""

    def __init__(self, cluster: Cluster, audio_stand_ins: Path, results: Path, *words: object) -> None:
        env = {**without_ray(os.environ), **cluster.env, "PYTHONPATH": str(audio_stand_ins)}
        command = [sys.executable, SUITE / "alm_pipeline.py", "--benchmark-results-path", results, *words]
        self.ended = subprocess.run(
            list(map(str, command)), env=env, capture_output=True, text=True, timeout=600, check=False
        )
        self.metrics: dict[str, Any] = json.loads((results / "metrics.json").read_text())
        self.params: dict[str, Any] = json.loads((results / "params.json").read_text())
        self.tasks: list[Any] = pickle.loads((results / "tasks.pkl").read_bytes())


def curated(folder: Path) -> Counter[str]:
    """What was written to --output-path, each entry as canonical text, and how often."""
    lines = [line for part in folder.glob("*.jsonl") for line in part.read_text("utf-8").splitlines()]
    return Counter(canonical(json.loads(line)) for line in lines)


@pytest.mark.slow
@needs_ray_data
@pytest.mark.parametrize("executor", ["ray_data", "ray_actors"])
def test_the_script_processes_every_entry_each_time_and_finds_what_was_planted(
    executor: str, cluster: Cluster, audio_stand_ins: Path, manifest: Path, tmp_path: Path
) -> None:
    planted = json.loads(manifest.with_name("planted.json").read_text())
    words = ["--input-manifest", manifest, "--executor", executor, "--repeat-factor", 6]
    words += ["--planted", manifest.with_name("planted.json"), "--output-path", tmp_path / "curated"]
    run = Run(cluster, audio_stand_ins, tmp_path / "results", *words)
    assert run.ended.returncode == 0, run.ended.stderr
    entries = [json.loads(line) for line in manifest.read_text().splitlines()]
    expected = Counter({canonical(with_builtin(Case(entry, WindowSettings()))): 6 for entry in entries})
    assert curated(tmp_path / "curated") == expected
    results = [json.loads(text) for text in expected]
    of_each = {
        "is_success": True,
        "num_input_entries": 24,
        "num_output_entries": 24,
        "entries_with_windows": 6 * sum(1 for result in results if result["windows"]),
        "total_builder_windows": 6 * sum(len(result["windows"]) for result in results),
        "total_filtered_windows": 6 * sum(len(result["filtered_windows"]) for result in results),
        "planted_entries": 6 * len(planted),
        "planted_entries_wrong": 0,
    }
    assert {name: run.metrics[name] for name in of_each} == of_each
    assert math.isclose(run.metrics["total_filtered_dur_s"], 6 * sum(result["filtered_dur"] for result in results))
    seconds = run.metrics["time_taken_s"]
    assert math.isclose(run.metrics["throughput_entries_per_sec"], 24 / seconds)
    assert math.isclose(run.metrics["throughput_windows_per_sec"], of_each["total_builder_windows"] / seconds)
    assert run.params["executor"] == executor
    assert run.params["repeat_factor"] == 6
    assert run.params["min_bandwidth"] == 8000


@pytest.mark.slow
@needs_ray_data
def test_the_times_of_stages_can_be_read_without_the_suite(
    cluster: Cluster, audio_stand_ins: Path, manifest: Path, tmp_path: Path
) -> None:
    run = Run(cluster, audio_stand_ins, tmp_path, "--input-manifest", manifest, "--executor", "ray_actors")
    found = read_result_files(tmp_path, python=sys.executable, env=without_ray(os.environ))
    assert not found.warnings
    metrics: dict[str, Any] = dict(found.metrics)
    assert metrics["task_alm_data_builder_process_time_sum"] > 0
    assert metrics["task_alm_data_overlap_num_items_processed_sum"] == 4
    assert metrics["task_alm_data_builder_custom.windows_created_sum"] == run.metrics["total_builder_windows"]


@pytest.mark.slow
@needs_ray_data
def test_a_manifest_that_cannot_be_read_is_a_run_without_success(
    cluster: Cluster, audio_stand_ins: Path, manifest: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken.jsonl").write_text(manifest.read_text() + '{"audio_filepath": 1}\n')
    run = Run(cluster, audio_stand_ins, tmp_path / "results", "--input-manifest", tmp_path / "broken.jsonl")
    assert run.ended.returncode == 1
    assert "line 5 of the manifest has no audio_sample_rate and no segments" in run.ended.stderr
    assert run.metrics["is_success"] is False
    assert run.tasks == []


@needs_ray_data
def test_what_runs_without_ray_does_the_same_work(
    cluster: Cluster, audio_stand_ins: Path, manifest: Path, tmp_path: Path
) -> None:
    words = ["--input-manifest", manifest, "--repeat-factor", 3, "--planted", manifest.with_name("planted.json")]
    loop = Run(cluster, audio_stand_ins, tmp_path / "loop", *words, "--engine", "plain_loop", "--processes", 2).metrics
    processes = Run(cluster, audio_stand_ins, tmp_path / "processes", *words, "--executor", "processes").metrics
    builtin = Run(cluster, audio_stand_ins, tmp_path / "builtin", *words, "--executor", "ray_actors").metrics
    counted = [name for name in loop if name.startswith(("num_", "total_", "entries_", "planted_"))]
    for without_ray_at_all in (loop, processes):
        assert {name: without_ray_at_all[name] for name in counted} == {name: builtin[name] for name in counted}


@pytest.mark.slow
@needs_ray_data
@needs_nemo_curator
@pytest.mark.parametrize("executor", ["ray_data", "ray_actors"])
def test_both_engines_write_the_same_entries(
    executor: str, cluster: Cluster, audio_stand_ins: Path, manifest: Path, tmp_path: Path
) -> None:
    written, metrics = [], []
    for engine in ("builtin", "nemo_curator"):
        words = ["--input-manifest", manifest, "--engine", engine, "--executor", executor, "--repeat-factor", 2]
        words += ["--planted", manifest.with_name("planted.json"), "--output-path", tmp_path / engine]
        run = Run(cluster, audio_stand_ins, tmp_path / f"{engine}_results", *words)
        assert run.ended.returncode == 0, run.ended.stderr
        written.append(curated(tmp_path / engine))
        metrics.append({name: run.metrics[name] for name in run.metrics if not name.startswith(("time", "throughput"))})
    assert written[0] == written[1]
    assert metrics[0] == metrics[1]


@pytest.mark.slow
@needs_ray_data
def test_engines_are_compared_by_what_each_needs_for_the_same_windows(
    cluster: Cluster, audio_stand_ins: Path, manifest: Path, tmp_path: Path
) -> None:
    words = ["--benchmark-results-path", tmp_path, "--input-manifest", manifest]
    words += ["--executor", "ray_actors", "--repeat-factor", 2, "--planted", manifest.with_name("planted.json")]
    env = {**without_ray(os.environ), **cluster.env}
    command = list(map(str, [sys.executable, SUITE / "alm_comparison.py", *words]))
    subprocess.run(command, env=env, check=True, timeout=300, capture_output=True)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["is_success"]
    ratio = metrics["builtin_windows_per_sec"] / metrics["loop_windows_per_sec"]
    assert math.isclose(metrics["speedup"], ratio)
    runs = {path.parent.name: json.loads(path.read_text()) for path in tmp_path.glob("runs/*/metrics.json")}
    assert set(runs) == {"1_builtin_before", "1_plain_loop", "1_builtin_after"}
    assert math.isclose(metrics["loop_windows_per_sec"], runs["1_plain_loop"]["throughput_windows_per_sec"])


# The matrices


def test_the_matrices_are_read_and_name_their_scripts() -> None:
    files = (SUITE / "matrix.yaml", SUITE / "compare_matrix.yaml")
    matrix = load(LoadRequest(files=files, variables={}))
    assert not matrix.warnings
    assert [entry.id for entry in matrix.entries if "compare" not in entry.marks] == [
        "alm_pipeline[ray_data]",
        "alm_pipeline[ray_actors]",
        "alm_pipeline_without_ray[processes]",
    ]
    assert all({"alm", "compare"} & set(entry.marks) for entry in matrix.entries)
    assert not [entry for entry in matrix.entries if command_of(entry, {}).problems]
