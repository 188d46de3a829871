"""Scripts that run on Xenna are recognized, and their clusters get the dashboard and the limits of its API."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from curator_bench.runner.xenna import LIMITS, runs_on_xenna, with_xennas_needs
from curator_bench.values import Plan, RaySettings

BY_DEFAULT = 'parser.add_argument(\n    "--executor", type=str, default="xenna",\n    choices=["xenna", "ray_data"])\n'
NOT_BY_DEFAULT = 'parser.add_argument("--executor", default="ray_data", choices=["xenna", "ray_data"])\n'


@pytest.mark.parametrize(
    ("script", "words", "expected"),
    [
        (NOT_BY_DEFAULT, ("--executor=xenna",), True),
        (NOT_BY_DEFAULT, ("--executor", "xenna"), True),
        (NOT_BY_DEFAULT, (), False),
        (BY_DEFAULT, (), True),
        (BY_DEFAULT, ("--executor=ray_data",), False),
        (BY_DEFAULT, ("--executor", "xenna", "--executor=ray_data"), False),
        ("executor = XennaExecutor(config)", (), True),
        ("# nothing of the kind: xenna", ("--name", "xenna"), False),
    ],
)
def test_a_script_runs_on_xenna_where_its_arguments_or_else_its_default_say_so(
    tmp_path: Path, script: str, words: tuple[str, ...], expected: bool
) -> None:
    file = tmp_path / "script.py"
    file.write_text(script)
    assert runs_on_xenna(str(file), words) is expected


def test_only_clusters_that_xenna_runs_on_get_a_dashboard_and_an_entry_may_refuse_it(tmp_path: Path) -> None:
    plan = Plan("a", "s", "/s", "/s/a", "python", "missing.py", ("--executor=xenna",), str(tmp_path))
    assert with_xennas_needs(plan) is plan
    found = with_xennas_needs(replace(plan, ray=RaySettings(), env={"RAY_MAX_LIMIT_FROM_API_SERVER": "7"}))
    assert found.ray == RaySettings(include_dashboard=True)
    assert found.env == {**LIMITS, "RAY_MAX_LIMIT_FROM_API_SERVER": "7"}
    for ray in (RaySettings(include_dashboard=False), RaySettings(address="10.0.0.5:6379")):
        refused = replace(plan, ray=ray)
        assert with_xennas_needs(refused) is refused
    other = replace(plan, ray=RaySettings(), args=("--executor=ray_data",))
    assert with_xennas_needs(other) is other
