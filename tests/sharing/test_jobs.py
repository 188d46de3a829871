"""The benchmarks of a project are divided into jobs, which make up one session."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import warm
import yaml
from plugins_of_others import WITHOUT_OTHERS
from sharing.jobs_of_ci import PROGRAMS
from sharing.shared_records import command

from curator_bench.errors import BenchError
from curator_bench.sharing.ci_jobs import github_matrix, gitlab_pipeline
from curator_bench.sharing.jobs import Limits, Unit, divided, missing
from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import InvocationRecord, RunEnd, RunStart, SessionRecord
from curator_bench.values import Verdict

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

MATRIX = """
marks: [nightly]
ray: false
default_timeout_s: 100
cleanup_timeout_s: 20
min_timeout_s: 600
entries:
  - {name: short, script: sleep.py, args: "0", repeat: 2}
  - name: long
    script: sleep.py
    matrix: {text: ["a b", "[é]"], seconds: [0, 0.01]}
    args: --text "{text}" {seconds}
    marks: [weekly]
"""
SCRIPT = """
import sys, time, pathlib
time.sleep(float(sys.argv[sys.argv.index("--benchmark-results-path") - 1]))
results = pathlib.Path(sys.argv[-1])
(results / "params.json").write_text("{}")
(results / "metrics.json").write_text('{"is_success": true}')
"""
BENCHMARK = """
def test_packing(benchmark_time):
    with benchmark_time:
        sum(range(1000))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -q\n")
    for name, text in {"matrix.yaml": MATRIX, "sleep.py": SCRIPT, "test_pack.py": BENCHMARK}.items():
        (folder / "benchmarks" / name).write_text(text)
    return folder


def units(*seconds: float, timeout_s: float = 100.0) -> list[Unit]:
    return [
        Unit(f"m.yaml::e{at}", f"e{at}", "m.yaml", each, is_recorded=True, longest_s=timeout_s)
        for at, each in enumerate(seconds)
    ]


def test_a_job_is_ended_when_all_its_entries_must_have_ended_but_within_the_limit(tmp_path: Path) -> None:
    limits = Limits(job_s=3600, set_up_s=60)
    (job,) = divided(units(10, 20), 1, limits, tmp_path)
    assert (job.seconds, job.timeout_s) == (30, 60 + 200)
    assert limits.timeout_s([*units(10, timeout_s=9000)]) == 3600
    least = Unit("m.yaml::e", "e", "m.yaml", 1, is_recorded=True, longest_s=100, shortest_job_s=900)
    assert limits.timeout_s([least]) == 960


def test_jobs_beyond_the_limit_are_refused_with_a_number_that_is_enough(tmp_path: Path) -> None:
    limits = Limits(job_s=100, set_up_s=10)
    with pytest.raises(BenchError, match=r"2 jobs would take up to 2 min 10 s.*: 3 are enough"):
        divided(units(60, 60, 60), 2, limits, tmp_path)
    assert len(divided(units(60, 60, 30), None, limits, tmp_path)) == 2
    unknown = [replace(unit, is_recorded=False) for unit in units(60, 60, 60)]
    assert len(divided(unknown, 2, limits, tmp_path)) == 2  # these are timeouts, which are seldom reached
    with pytest.raises(BenchError, match=r"e0 takes 95.0 s, and a job may take .*raise --limit"):
        divided(units(95), None, limits, tmp_path)


def test_a_ci_system_gets_only_as_many_jobs_as_it_starts(tmp_path: Path) -> None:
    jobs = divided(units(*[1.0] * 300), 300, Limits(3600, 60), tmp_path)
    for form, most in ((github_matrix, 256), (lambda found: gitlab_pipeline(found, "s"), 200)):
        with pytest.raises(BenchError, match=f"at most {most}"):
            form(jobs)


def test_nothing_to_do_is_a_pipeline_that_gitlab_accepts() -> None:
    (job,) = yaml.safe_load(gitlab_pipeline([], "night")).values()
    assert job["script"] == ['echo "Every benchmark has a result"']


def test_if_no_duration_is_known_each_job_has_as_many(tmp_path: Path) -> None:
    unknown = [replace(unit, is_recorded=False) for unit in units(600, 600, *[1.0] * 4)]
    jobs = divided(unknown, 2, Limits(3600, 60), tmp_path)
    assert [(len(job.units), job.seconds) for job in jobs] == [(3, 0), (3, 0)]


def test_what_has_no_result_is_missing() -> None:
    known, unknown = (
        Unit("test_a.py", "test_a.py", "test_a.py", 1, is_recorded=is_known, longest_s=9) for is_known in (True, False)
    )
    verdicts = {("m.yaml", "e0"): "failed", ("m.yaml", "e1"): "interrupted"}
    found = missing([*units(1, 1, 1), known, unknown], verdicts)
    assert [(unit.name, why) for unit, why in found] == [
        ("e1", "interrupted"),
        ("e2", "not run"),
        ("test_a.py", "not run"),
    ]
    assert missing([known], {("test_a.py", "test_x"): "passed"}) == []


def test_every_benchmark_is_in_one_job_and_old_files_go(project: Path) -> None:
    done = command("jobs", "benchmarks", "--count", "4", "--github", cwd=project)
    assert done.returncode == 0, done.stderr
    assert "6 benchmarks have no recorded duration yet, so they are divided by their number" in done.stderr
    first = json.loads(done.stdout)["include"]
    assert [job["file"] for job in first] == [f"jobs/job-{number}.txt" for number in range(1, 5)]
    lines = [line for file in (project / "jobs").iterdir() for line in file.read_text().splitlines()]
    named = sorted(line for line in lines if line.startswith("benchmarks"))
    assert len(named) == 6 == len(set(named))
    assert "benchmarks/matrix.yaml::long[[\\xe9]-0.01]" in named  # as pytest names it
    (project / "jobs" / "all.txt").write_text("mine")
    done = command("jobs", "benchmarks", "--count", "2", "-m", "nightly", "--gitlab", cwd=project)
    assert sorted(file.name for file in (project / "jobs").iterdir()) == ["all.txt", "job-1.txt", "job-2.txt"]
    (project / "child.yml").write_text(done.stdout)
    words = ("--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci")
    checked = subprocess.run([PROGRAMS / "check-jsonschema", *words, project / "child.yml"], check=False)
    assert checked.returncode == 0
    (job,) = (yaml.safe_load(done.stdout)["bench-job"]["parallel"]["matrix"][:1],)
    assert job == [{"BENCH_JOB": "1", "BENCH_ARGUMENTS": "jobs/job-1.txt"}]


def test_many_that_are_missing_are_counted_and_long_names_are_short(project: Path) -> None:
    names = [f"{'long' * 30}-{number}" for number in range(15)]
    entries = "\n".join(f"  - {{name: {name}, script: sleep.py}}" for name in names)
    (project / "benchmarks" / "matrix.yaml").write_text(f"ray: false\nentries:\n{entries}")
    record(project, dict.fromkeys(names[:3], 5.0))
    words = ("benchmarks/matrix.yaml", "--session", "earlier", "--db", "benchmark.db", "--count", "1")
    done = command("jobs", *words, "--missing", cwd=project)
    assert done.stderr.count("missing: ") == 11
    assert "missing: 2 more; the files in jobs name all" in done.stderr
    done = command("jobs", *words, cwd=project)
    assert "15.0 s + 12 not known" in done.stdout
    (said,) = [line for line in done.stderr.splitlines() if "12 benchmarks have no recorded duration:" in line]
    assert len(said) < 320
    assert command("jobs", "benchmarks", "--session", "night", "--count", "2", cwd=project).returncode == 0
    of_night = [file.read_text() for file in sorted((project / "jobs").iterdir())]
    refused = command("jobs", *words, "--missing", cwd=project)
    assert (refused.returncode, "jobs has jobs of another session: name another folder" in refused.stderr) == (2, True)
    assert [file.read_text() for file in sorted((project / "jobs").iterdir())] == of_night


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing.yaml",), "nothing.yaml"),
        (("benchmarks/matrix.yaml", "-m", "missing"), "no entry has the mark 'missing'"),
        (("benchmarks", "--shared"), "--shared needs --count"),
        (("benchmarks", "--github", "--gitlab"), "cannot be used together"),
        (("benchmarks", "--set-up", "7h"), "leaves nothing of the limit"),
        (("benchmarks", "--session", "a/b"), "expected letters"),
        (("benchmarks", "--missing"), "no runs here yet"),
        (("benchmarks", "--out", "pytest.ini"), "cannot be written"),
    ],
)
def test_a_mistake_is_one_message(project: Path, words: tuple[str, ...], message: str) -> None:
    done = command("jobs", *words, cwd=project)
    assert (done.returncode, message in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


@pytest.mark.slow
def test_jobs_on_machines_apart_are_one_session_and_what_is_missing_is_said(project: Path) -> None:
    assert command("jobs", "benchmarks", "--count", "2", "--session", "night", cwd=project).returncode == 0
    for job in (1, 2):
        done = run(project, f"@jobs/job-{job}.txt", f"--benchmark-db=machine-{job}.db", results=f"machine-{job}")
        assert done.returncode == 0, done.stdout
    assert command("merge", "machine-1.db", "--into", "benchmark.db", cwd=project).returncode == 0
    done = command("jobs", "benchmarks", "--missing", "--session", "night", cwd=project)
    assert done.returncode == 1
    left = done.stderr.count("missing: ")
    assert 0 < left < 6
    assert sum(map(len, [text.splitlines()[2:] for text in texts(project)])) == left  # for another try
    assert command("merge", "machine-2.db", "--into", "benchmark.db", cwd=project).returncode == 0
    done = command("jobs", "benchmarks", "--missing", "--session", "night", cwd=project)
    assert (done.returncode, "6 of 6 benchmarks are done" in done.stderr) == (0, True)
    assert texts(project) == []
    (session,) = json.loads(command("sessions", "--json", "--db", "benchmark.db", cwd=project).stdout)["sessions"]
    assert (session["name"], session["verdicts"]) == ("night", {"passed": 6})
    uid = "--bench-session-uid=0123456789"
    done = run(project, "benchmarks/matrix.yaml", "--bench-session=night", uid, results="machine-1")
    assert (done.returncode, "is another session" in done.stderr) == (4, True), done.stdout


@pytest.mark.slow
def test_jobs_that_share_their_results_take_the_longest_entry_that_is_left(project: Path) -> None:
    names = [f"sleep{number}" for number in range(6)]
    entries = [f'  - {{name: {name}, script: sleep.py, args: "{at / 10}"}}' for at, name in enumerate(names)]
    (project / "benchmarks" / "matrix.yaml").write_text("ray: false\nentries:\n" + "\n".join(entries))
    (project / "benchmarks" / "test_pack.py").unlink()
    record(project, {name: float(at) for at, name in enumerate(names)})
    assert command("jobs", "benchmarks", "--count", "2", "--shared", "--session", "s", cwd=project).returncode == 0
    (text,) = texts(project)
    assert [line.rpartition("::")[2] for line in text.splitlines() if "::" in line] == names[::-1]
    with ThreadPoolExecutor() as threads:
        jobs = [
            threads.submit(run, project, "@jobs/all.txt", "--benchmark-db=benchmark.db", results="both") for _ in "12"
        ]
    assert [job.result().returncode for job in jobs] == [0, 0]
    shown = json.loads(command("show", "s", "--json", "--db", "benchmark.db", cwd=project).stdout)
    assert sorted(one["name"] for one in shown["runs"]) == names
    assert len(shown["invocations"]) == 2


def record(project: Path, durations: dict[str, float]) -> None:
    with open_for_writing(database_url(str(project / "benchmark.db"))) as database:
        recorder = Recorder(database, SessionRecord("earlier", str(project)), InvocationRecord("earlier", NOON))
        for name, seconds in durations.items():
            uid = recorder.start_run(RunStart(name, "benchmarks/matrix.yaml", NOON))
            recorder.finish_run(uid, RunEnd(Verdict.PASSED, NOON, duration=seconds))


def texts(project: Path) -> list[str]:
    return [file.read_text() for file in sorted((project / "jobs").iterdir())]


def run(project: Path, *words: str, results: str) -> subprocess.CompletedProcess[str]:
    """Run a job."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("CURATOR_BENCH_")}
    words = (*WITHOUT_OTHERS, "--benchmark", *words, f"--bench-results={results}")
    return warm.run("pytest", *words, cwd=project, env=env)
