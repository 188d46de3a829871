"""GPUs in a fleet: only those of the user's list, each looked at before a run, those out of order left out."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from end_to_end.conftest import Outcome, Project

pytestmark = pytest.mark.slow

SEES = """
import json, os, sys, time
from pathlib import Path
while not Path(sys.argv[2]).exists():
    time.sleep(0.05)
time.sleep(float(sys.argv[1]))
out = Path(sys.argv[-1])
(out / "params.json").write_text("{}")
(out / "metrics.json").write_text(json.dumps({"visible": os.environ.get("CUDA_VISIBLE_DEVICES", "all")}))
"""
ONE_GPU = {"num_cpus": 1, "num_gpus": 1, "object_store_size": 100_000_000}
CPUS = ("--bench-fleet", "local", "--bench-fleet-cpus", "4")


def with_gpus(project: Project, nvml_library: Path, states: str, *options: str) -> Outcome:
    listed = project.write("gpus", "".join(f"{state}\n" for state in states.split()))
    return project.run(*CPUS, *options, NVML_STAND_IN=str(listed), LD_LIBRARY_PATH=str(nvml_library))


def sees(
    project: Project, name: str, seconds: float = 0, ray: Any = False, until: str | Path = "/", **keys: Any
) -> dict[str, Any]:
    project.write("sees.py", SEES)
    return {"name": name, "script": "sees.py", "args": f"{seconds} {until}", "ray": ray, **keys}


def results(outcome: Outcome, name: str) -> dict[str, Any]:
    found: dict[str, Any] = outcome.json(name, "results.json")
    return found


def test_runs_share_the_listed_gpus_as_they_ask_for_them(project: Project, nvml_library: Path) -> None:
    project.matrix(
        *(
            sees(project, name, 0, ONE_GPU, until=project.session_dir / other / "logs" / "stdouterr.log", timeout_s=300)
            for name, other in (("one", "other"), ("other", "one"))
        ),
        sees(project, "none"),
        gpu_stats_recorder={"interval_s": 0},
    )
    outcome = with_gpus(
        project, nvml_library, "healthy healthy healthy", "--bench-gpus", "2", "--bench-runs-per-gpu", "2"
    )
    assert outcome.code == 0, outcome.output
    found = [results(outcome, name) for name in ("one", "other")]
    assert [run["metrics"]["visible"] for run in found] == ["2", "2"]
    assert [run["gpus"] for run in found] == [["2"], ["2"]]
    began, ended = ([datetime.fromisoformat(run[key]) for run in found] for key in ("started_at", "ended_at"))
    assert max(began) < min(ended)
    assert results(outcome, "none")["metrics"]["visible"] == ""


def test_a_gpu_out_of_order_is_left_out_after_two_entries_and_nothing_runs_on_it(
    project: Project, nvml_library: Path
) -> None:
    names = [f"e{number}" for number in range(3)]
    project.matrix(*(sees(project, name, 1, ONE_GPU, retries=3) for name in names))
    outcome = with_gpus(project, nvml_library, "worn healthy", "--bench-gpus", "0,1")
    assert outcome.code == 0, outcome.output
    assert {name: results(outcome, name)["gpus"] for name in names} == {name: ["1"] for name in names}
    assert outcome.has("not used any more: GPU 0 of ")


def test_a_gpu_that_was_left_out_is_not_run_on_by_halves_either(project: Project, nvml_library: Path) -> None:
    """While it cannot be reserved as a whole, and by what was in the queue before."""
    names = [f"e{number}" for number in range(5)]
    project.matrix(*(sees(project, name, 1, ONE_GPU) for name in names))
    outcome = with_gpus(project, nvml_library, "worn healthy", "--bench-gpus", "0,1", "--bench-runs-per-gpu", "2")
    errors = [name for name in names if results(outcome, name)["verdict"] == "error"]
    assert 2 <= len(errors) <= 3, outcome.output  # two at a time, one of which another may follow at once
    assert outcome.has("not used any more: GPU 0 of ")


def test_a_gpu_that_somebody_else_uses_is_an_error_that_names_them(project: Project, nvml_library: Path) -> None:
    project.matrix(sees(project, "one", 0, ONE_GPU))
    outcome = with_gpus(project, nvml_library, "busy", "--bench-gpus", "0")
    run = results(outcome, "one")
    assert (run["verdict"], run["cause"]) == ("error", "gpu")
    assert "processes 4242, 4343" in run["error"]


def test_the_users_own_check_may_refuse_a_gpu(project: Project) -> None:
    project.write("check.py", "import sys; sys.exit('this model does not fit')")
    project.matrix(sees(project, "one", gpu_check="check.py"), sees(project, "lost", gpu_check="nowhere.py"))
    outcome = project.run()
    run = results(outcome, "one")
    assert (run["verdict"], run["cause"]) == ("error", "gpu")
    assert "this model does not fit" in run["error"]
    assert "nowhere.py" in results(outcome, "lost")["error"]
