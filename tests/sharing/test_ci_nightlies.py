"""The nightlies that `curator-bench init --ci` writes run in a repository that is not ours."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import replace

import pytest
from plugins_of_others import WITHOUT_OTHERS
from scratch_repository import ScratchRepository
from sharing.jobs_of_ci import GITLAB, PROGRAMS, Machine, init, make_slower, run
from sharing.shared_records import command, recorded

NAMES = {"test_packing", "clock"}


@pytest.mark.slow
def test_a_nightly_of_github_runs_as_it_is_written(machine: Machine) -> None:
    checkout = machine.checkout
    first = machine.github("bench-nightly", "nightly")
    assert first.code == 0, first.output
    assert recorded(checkout / "record" / "benchmark.db") == NAMES
    assert (checkout / "site" / "index.html").exists()
    # The next night, on a machine whose cache was cleared: its record is the artifact of the first one.
    (checkout / "record").rename(machine.folder / "nights" / "1")
    shutil.rmtree(checkout / "results")
    second = machine.github("bench-nightly", "nightly")
    assert second.code == 0, second.output
    sessions = command("sessions", "--json", "--db", "record/benchmark.db", cwd=checkout).stdout
    assert len(json.loads(sessions)["sessions"]) == 2


@pytest.mark.slow
def test_a_nightly_of_github_in_several_jobs_is_one_session(machine: Machine) -> None:
    checkout, told = machine.checkout, machine.folder / "outputs"
    for file in (checkout / ".github" / "workflows").iterdir():
        file.unlink()
    assert init(checkout, "github", "--jobs", "2").returncode == 0
    night = replace(machine, variables={"GITHUB_OUTPUT": str(told), "SESSION": "nightly-1"})
    planned = night.github("bench-nightly", "plan", {"github.run_id": "1"})
    assert planned.code == 0, planned.output
    workflow = checkout / ".github" / "workflows" / "bench-nightly.yml"
    workflow.write_text(re.sub("python -m pip install .*", "true", workflow.read_text()))  # it is installed by now
    jobs = json.loads(told.read_text().removeprefix("jobs="))["include"]
    for job in jobs:
        ran = night.github("bench-nightly", "run", {"matrix.file": job["file"]})
        assert ran.code == 0, ran.output
        (checkout / "done").mkdir(exist_ok=True)
        (checkout / "results").rename(checkout / "done" / f"bench-job-{job['job']}")
    ended = night.github("bench-nightly", "report", {"github.run_id": "1"})
    assert (len(jobs), ended.code, "2 of 2 benchmarks are done" in ended.output) == (2, 0, True), ended.output
    assert recorded(checkout / "record" / "benchmark.db") == NAMES
    shown = command("show", "nightly-1", "--json", "--db", "record/benchmark.db", cwd=checkout)
    assert len(json.loads(shown.stdout)["invocations"]) == 2
    assert (checkout / "site" / "index.html").exists()


@pytest.mark.slow
def test_a_nightly_of_gitlab_runs_as_it_is_written_and_fails_for_a_regression(machine: Machine) -> None:
    """Of a project with a lock file."""
    checkout = machine.checkout
    run(str(PROGRAMS / "uv"), "lock", "--offline", "--quiet", "--python", sys.executable, cwd=checkout)
    (checkout / GITLAB[0]).unlink()
    assert init(checkout, "gitlab").returncode == 0
    assert "uv export" in (checkout / GITLAB[0]).read_text()
    often = " ".join([*WITHOUT_OTHERS, "--bench-runs", "12"])
    night = machine.gitlab("bench-nightly", PYTEST_ADDOPTS=often)
    assert night.code == 0, night.output
    make_slower(ScratchRepository(checkout))
    night = machine.gitlab("bench-nightly")
    assert night.code == 1, night.output
    assert recorded(checkout / "record" / "benchmark.db") == NAMES
    assert machine.gitlab("pages").code == 0
