"""--bench-confirm in a fleet: a run whose gates fail is measured again on the node it was on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from end_to_end.ray_nodes import QuickHead
from end_to_end.test_gates import COUNTING, LEVEL, TEN_PERCENT, Gated

if TYPE_CHECKING:
    from end_to_end.conftest import Project

pytestmark = pytest.mark.slow

SAYS_WHERE = f"""{COUNTING}
import os
with pathlib.Path(__file__).with_name("where").open("a") as file:
    file.write(os.environ.get("NODE", "head") + "\\n")
"""


def test_a_run_is_measured_again_where_it_was_measured_while_others_go_on(project: Project) -> None:
    """Its node is busy for long, the other one is not.

    `short` ends when `long` has begun, on the node of `sort` then, and leaves its own one idle; `long` goes on for two
    more seconds, in which `sort` would be measured again there.
    """
    gated = Gated(project)
    project.write("says.py", SAYS_WHERE)
    sort = {"name": "sort", "script": "says.py", "args": "1.4 1.01", "requirements": [TEN_PERCENT]}
    project.matrix(sort)
    gated.remember(LEVEL)
    begun, ended = project.session_dir / "long" / "logs" / "stdouterr.log", project.session_dir / "short/results.json"
    short = project.entry("short", f"--until {begun}", timeout_s=300)
    project.matrix(short, sort, project.entry("long", f"--until {ended} --sleep 2", timeout_s=300))
    confirming = ("--benchmark-db", "benchmark.db", "--bench-confirm", "2")
    with QuickHead() as nodes:
        nodes.join(NODE="joined")
        outcome = project.run("--bench-fleet", nodes.address, *confirming, NODE="here", **nodes.variables())
    assert outcome.code == 0, outcome.output
    places = (project.folder / "where").read_text().split()
    assert len(places) in (2, 3)
    assert set(places) in ({"head"}, {"joined"})
    ended_at = {name: project.outcome_of(name)["ended_at"] for name in ("short", "sort", "long")}
    assert ended_at["short"] < ended_at["long"] < ended_at["sort"]
    assert project.outcome_of("sort")["attempt"] == len(places)
