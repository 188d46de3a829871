"""How well a fleet of this machine is used: many entries of equal length, one CPU each.

`efficiency`: the time they need at best over the time from the first start to the last end, as their results.json say.
`gap_s`: from the end of an entry to the start of the next one in its place.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from statistics import median, quantiles

from pytest_process import make_project, parser_with, run_pytest, with_plugin, write_results
from small_entries import write_matrix, write_script

SLEEPS = """\
import pathlib, sys, time

time.sleep({seconds})
results = pathlib.Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
results.joinpath("params.json").write_text("{{}}")
results.joinpath("metrics.json").write_text('{{"is_success": true}}')
"""


def spans(session: Path) -> list[tuple[float, float]]:
    """Start and end of each entry, in the order they started."""
    found = [json.loads(path.read_text()) for path in session.glob("entry_*/results.json")]
    return sorted((moment(run["started_at"]), moment(run["ended_at"])) for run in found if run["verdict"] == "passed")


def moment(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def gaps(ran: list[tuple[float, float]], places: int) -> list[float]:
    """Each start that follows takes the place that became free first."""
    ends = sorted(end for _, end in ran)
    return [start - end for (start, _), end in zip(ran[places:], ends, strict=False)]


def main() -> None:
    parser = parser_with(__doc__)
    parser.add_argument("--entries", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--cpus", type=int, required=True)
    options = parser.parse_args()
    project = make_project(options.scratch.resolve() / "project")
    write_script(project, SLEEPS.format(seconds=options.seconds))
    matrix = write_matrix(project, options.entries, "false")
    fleet = ["--bench-fleet", "local", "--bench-fleet-cpus", str(options.cpus), "--bench-session", "s"]
    took = run_pytest(["-q", *with_plugin(), *fleet, "--benchmark", matrix.name], project)
    ran = spans(project / "results" / "s")
    between = gaps(ran, options.cpus)
    used_s = max(end for _, end in ran) - ran[0][0]
    write_results(
        options,
        {
            "passed_entries": len(ran),
            "efficiency": options.entries * options.seconds / options.cpus / used_s,
            "gap_s": median(between),
            "gap_90th_s": quantiles(between, n=10)[-1],
            "whole_s": took.wall_s,
        },
    )


if __name__ == "__main__":
    main()
