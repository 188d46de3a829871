"""What the machine did during a run stands apart from the run's own metrics in sinks that draw all of these."""

from __future__ import annotations

from curator_bench.sinks import mlflow_values
from curator_bench.values import RunRecord, Session, Verdict

STAMP = "2026-01-01T00:01:00+00:00"
DONE = RunRecord(
    name="sort",
    nodeid="m.yaml::sort",
    verdict=Verdict.PASSED,
    metrics={"sort_time_s": 2.0, "machine.cpu_s": 1.5, "machine.others": "cc1plus 12.4 s"},
    started_at=STAMP,
    ended_at=STAMP,
)


def test_mlflow_has_it_among_the_metrics_of_the_system() -> None:
    logged = mlflow_values.logged(DONE, Session("nightly", "/results/nightly"))
    assert {point.name: point.value for point in logged.metrics if point.name != "run_duration_s"} == {
        "sort_time_s": 2.0,
        "system/machine.cpu_s": 1.5,
    }
    assert not any(tag.startswith("metric_name.") for tag in logged.tags)
