"""Our own hooks: other plugins see, and may change, what is run."""

from __future__ import annotations

import pytest

CONFTEST = """
import dataclasses

def pytest_bench_plan(item, plan):
    return dataclasses.replace(plan, args=(*plan.args, "--more", "words"))

def pytest_bench_run_started(item, plan):
    print("started", plan.name)

def pytest_bench_run_finished(item, result):
    print("finished", result.name, result.verdict, result.metrics["words"])
"""
SCRIPT = """
import json, pathlib, sys
results = pathlib.Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
results.joinpath("metrics.json").write_text(json.dumps({"words": len(sys.argv)}))
"""


def test_a_conftest_sees_a_plan_before_and_a_result_after(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.path.joinpath("work.py").write_text(SCRIPT)
    pytester.path.joinpath("matrix.yaml").write_text("entries: [{name: one, script: work.py, ray: false}]")
    result = pytester.runpytest_subprocess("-s", "-q")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*started one", "*finished one passed 5*"])
