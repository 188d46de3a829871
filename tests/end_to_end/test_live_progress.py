"""How far a session is, in every mode: progress.json while it runs and afterwards, a line now and then on a pipe."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from curator_bench.files.json_files import SCHEMA_VERSION
from curator_bench.measure.processes import busyness

if TYPE_CHECKING:
    from end_to_end.conftest import Project

pytestmark = pytest.mark.slow

WITHIN_S = 90
FLEET = ("--bench-fleet", "local", "--bench-fleet-cpus", "2")
OFTEN = ("--bench-progress", "0.3")


def progress_of(project: Project) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((project.session_dir / "progress.json").read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return found


def watch(project: Project, process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """progress.json again and again, whole each time."""
    deadline = time.monotonic() + WITHIN_S * busyness()
    while process.poll() is None:
        assert time.monotonic() < deadline
        if found := progress_of(project):
            yield found
        time.sleep(0.05)


def gates(project: Project, *names: str) -> None:
    """Entries that end when a file of their name is there."""
    project.write(
        "script.py",
        """
        import json, sys, time
        from pathlib import Path
        print("waiting at", sys.argv[1], flush=True)
        while not Path(sys.argv[1]).exists():
            time.sleep(0.05)
        Path(sys.argv[-1], "params.json").write_text("{}")
        Path(sys.argv[-1], "metrics.json").write_text(json.dumps({"is_success": sys.argv[1] != "bad"}))
        """,
    )
    requirement = {"requirements": [{"metric": "is_success", "exact_value": True}]}
    project.matrix(*(project.entry(name, name, **requirement) for name in names))


def open_gate(project: Project, name: str) -> None:
    (project.folder / name).touch()


@pytest.mark.parametrize(("mode", "at_once"), [((), 1), (("-n2",), 2), pytest.param(FLEET, 2, marks=pytest.mark.slow)])
def test_progress_json_tells_in_every_mode_what_is_done_and_what_runs(
    project: Project, mode: tuple[str, ...], at_once: int
) -> None:
    gates(project, "good", "bad", "last")
    output = project.folder / "output"
    with output.open("w") as file:
        process = project.start(*mode, *OFTEN, output=file)
    seen: dict[int, dict[str, Any]] = {}
    for found in watch(project, process):
        has_said = [run["name"] for run in found["running"] if run["last_line"] == f"waiting at {run['name']}"]
        enough = at_once if found["done"] == 0 else 1  # a worker of xdist may have nothing left to do
        is_told = re.search(rf"    {found['done']} of 3 done, .*: (good|bad|last)", output.read_text())
        if found["done"] not in seen and len(has_said) >= enough and is_told:
            seen[found["done"]] = found
            open_gate(project, has_said[0])
    assert process.wait() == pytest.ExitCode.TESTS_FAILED
    assert list(seen) == [0, 1, 2]
    first = seen[0]
    assert first["schema_version"] == SCHEMA_VERSION
    assert (first["total"], first["waiting"], first["failed"]) == (3, 3 - at_once, 0)
    assert all(run["host"] and run["elapsed_s"] >= 0 and run["state"] == "running" for run in first["running"])
    last = progress_of(project)
    assert (last["state"], last["done"], last["failed"], last["waiting"]) == ("ended", 3, 1, 0)
    assert last["counts"] == {"passed": 2, "failed": 1}
    told = [line for line in output.read_text().splitlines() if " of 3 done, " in line]
    assert told[0].startswith("    0 of 3 done, ")
    where = r" on \S+" if mode == FLEET else ""
    assert any(re.search(rf": (good|bad|last){where} [\d.]+ s", line) for line in told)


def test_what_resume_skips_is_counted_and_tells_how_long_the_rest_takes(project: Project) -> None:
    project.matrix(project.entry("a", matrix={"x": [1, 2, 3]}, args="--sleep {x}"), default_timeout_s=60)
    assert project.run("-k", "1 or 2").code == 0
    process = project.start("--bench-resume")
    seen = [found for found in watch(project, process) if found["running"]]
    outcome = project.outcome(process)
    assert outcome.code == 0, outcome.output
    assert seen
    assert (seen[-1]["total"], seen[-1]["skipped_by_resume"], seen[-1]["done"]) == (3, 2, 0)
    assert seen[-1]["left_s"] is not None
    assert progress_of(project)["counts"] == {"passed": 1}


def test_history_tells_the_time_left_and_what_each_run_usually_takes(project: Project) -> None:
    project.matrix(project.entry("a", "--sleep 2.5"))
    assert project.run("--benchmark").code == 0
    process = project.start("--benchmark", *OFTEN)
    seen = [found for found in watch(project, process) if found["running"] and found["running"][0]["expected_s"]]
    outcome = project.outcome(process)
    assert seen
    assert 2.5 <= seen[0]["running"][0]["expected_s"] < 60
    assert seen[0]["left_s"] <= seen[0]["running"][0]["expected_s"]
    assert re.search(r"    0 of 1 done, 1 running, about [\d.]+ s left: a [\d.]+ s of about [\d.]+ s", outcome.output)
    project.matrix(project.entry("a", "--sleep 2"))
    process = project.start("--benchmark", *OFTEN)
    seen = [found["running"][0] for found in watch(project, process) if found["running"] and found["left_s"]]
    project.outcome(process)
    assert seen  # as it was, it took so long
    assert not any(run["expected_s"] for run in seen)


@pytest.mark.parametrize("options", [("-q", *OFTEN), ("--bench-progress", "0")])
def test_whoever_wants_no_lines_gets_none(project: Project, options: tuple[str, ...]) -> None:
    project.matrix(project.entry("a", "--sleep 1.2"))
    outcome = project.run(*options)
    assert " of 1 done" not in outcome.output
    assert progress_of(project)["state"] == "ended"


def test_with_v_a_line_has_a_line_of_its_own(project: Project) -> None:
    project.matrix(project.entry("a", "--sleep 1.2"))
    outcome = project.run("-v", *OFTEN)
    assert any(line.startswith("    0 of 1 done, 1 running: a ") for line in outcome.lines)


def test_collecting_alone_leaves_no_progress(project: Project) -> None:
    project.matrix(project.entry("a"))
    assert project.run("--collect-only").code == 0
    assert not progress_of(project)


def test_seconds_that_are_none_are_a_usage_error(project: Project) -> None:
    project.matrix(project.entry("a"))
    outcome = project.run("--bench-progress", "often")
    assert outcome.code == pytest.ExitCode.USAGE_ERROR
    assert "--bench-progress: found 'often', expected seconds, or 0 for never" in outcome.output
