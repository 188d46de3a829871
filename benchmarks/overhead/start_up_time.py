"""What a pytest start costs more in a project that has our plugin installed and no matrix.

pytest runs one test with the plugin and without it, in pairs; what counts is the median of the pairs' differences.
Which modules the plugin brought in is read from what each of the two had imported when it ended.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median

from pytest_process import (
    PLUGIN,
    Took,
    make_project,
    parser_with,
    run_pytest,
    with_plugin,
    without_plugin,
    write_results,
)

TEST = """\
def test_nothing():
    pass
"""
LISTS_MODULES = """\
import atexit, json, pathlib, sys

atexit.register(lambda: pathlib.Path("modules.json").write_text(json.dumps(sorted(sys.modules))))
"""


def start(project: Path, plugin: list[str]) -> Took:
    return run_pytest(["-q", *plugin], project)


def pair(project: Path, number: int) -> tuple[Took, Took]:
    """A start with the plugin and one without it; which of the two comes first alternates."""
    if number % 2:
        with_it = start(project, with_plugin())
        return with_it, start(project, without_plugin())
    without_it = start(project, without_plugin())
    return start(project, with_plugin()), without_it


def imported(project: Path, plugin: list[str]) -> set[str]:
    """The modules that were there when pytest ended."""
    start(project, plugin)
    return set(json.loads((project / "modules.json").read_text()))


def main() -> None:
    parser = parser_with(__doc__)
    parser.add_argument("--pairs", type=int, required=True)
    options = parser.parse_args()
    project = make_project(options.scratch.resolve() / "project")
    (project / "test_nothing.py").write_text(TEST)
    watched = make_project(options.scratch.resolve() / "watched")
    (watched / "test_nothing.py").write_text(TEST)
    (watched / "conftest.py").write_text(LISTS_MODULES)
    brought = imported(watched, with_plugin()) - imported(watched, without_plugin())
    own = {name for name in brought if name.partition(".")[0] == PLUGIN}
    standard = {name for name in brought if name.partition(".")[0] in sys.stdlib_module_names}
    third_party = sorted(brought - own - standard)
    print("third-party modules:", ", ".join(third_party) or "none")
    print("standard library:", ", ".join(sorted(standard)) or "none")
    pair(project, 0)  # has everything compiled
    pairs = [pair(project, number) for number in range(options.pairs)]
    write_results(
        options,
        {
            "third_party_modules": len(third_party),
            "standard_library_modules": len(standard),
            "own_modules": len(own),
            "start_up_ms": 1000 * median(one.wall_s - other.wall_s for one, other in pairs),
            "start_up_cpu_ms": 1000 * median(one.cpu_s - other.cpu_s for one, other in pairs),
            "without_plugin_ms": 1000 * median(other.wall_s for _, other in pairs),
        },
    )


if __name__ == "__main__":
    main()
