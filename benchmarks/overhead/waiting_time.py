"""What pytest itself computes while a script runs: read by that script from its parent, at its start and at its end."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_process import make_project, parser_with, run_pytest, with_plugin, write_results

WATCHING = """\
import json, os, pathlib, sys, time

def pytests_cpu_s():
    fields = pathlib.Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

results = pathlib.Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
before, start = pytests_cpu_s(), time.monotonic()
time.sleep(float(sys.argv[1]))
share = (pytests_cpu_s() - before) / (time.monotonic() - start)
results.joinpath("params.json").write_text("{}")
results.joinpath("metrics.json").write_text(json.dumps({"is_success": True, "percent_of_a_core": 100 * share}))
"""
MATRIX = """\
entries: [{{name: waits, script: work.py, ray: {{num_cpus: 2, object_store_size: 200000000}}, args: "{seconds}"}}]
"""


def main() -> None:
    parser = parser_with(__doc__)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    project: Path = make_project(options.scratch.resolve() / "project")
    (project / "work.py").write_text(WATCHING)
    (project / "waits.yaml").write_text(MATRIX.format(seconds=options.seconds))
    run_pytest(["-q", *with_plugin(), "--bench-session", "s", "waits.yaml"], project)
    results = project / "results" / "s" / "waits" / "benchmark_results" / "metrics.json"
    write_results(options, {"percent_of_a_core": json.loads(results.read_text())["percent_of_a_core"]})


if __name__ == "__main__":
    main()
