"""How long pytest takes to collect a large matrix, against the two things it cannot do without.

These are parsing the file with libyaml's loader, and pytest collecting as many trivially parametrized tests without our
plugin. Each round measures all three; what counts is the median of the rounds' ratios.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

from large_matrix import collect, write_matrix
from pytest_process import make_project, parser_with, run, run_pytest, without_plugin, write_results

TRIVIAL_TESTS = """\
import pytest


@pytest.mark.parametrize("number", range({count}))
def test_nothing(number):
    pass
"""
PARSE = """\
import sys, time, yaml

text = open(sys.argv[1], "rb").read()
start = time.perf_counter()
yaml.load(text, yaml.CSafeLoader)
print(time.perf_counter() - start)
"""


def parse_s(matrix: Path) -> float:
    """What the loader alone takes, without the start of the process."""
    return float(run([sys.executable, "-c", PARSE, str(matrix)], matrix.parent).output)


def collect_trivial_s(tests: Path) -> float:
    return run_pytest(["--collect-only", "-q", *without_plugin(), tests.name], tests.parent).wall_s


def main() -> None:
    parser = parser_with(__doc__)
    parser.add_argument("--entries", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    options = parser.parse_args()
    project = make_project(options.scratch.resolve() / "project")
    matrix, tests = project / "large_matrix.yaml", project / "test_trivial.py"
    write_matrix(matrix, options.entries)
    tests.write_text(TRIVIAL_TESTS.format(count=options.entries))
    collect(matrix, options.entries)
    collect_trivial_s(tests)
    rounds = [
        (collect(matrix, options.entries), parse_s(matrix), collect_trivial_s(tests)) for _ in range(options.rounds)
    ]
    write_results(
        options,
        {
            "collected_entries": options.entries,
            "collect_matrix_s": median(took.wall_s for took, _, _ in rounds),
            "parse_s": median(parse for _, parse, _ in rounds),
            "collect_trivial_s": median(trivial for _, _, trivial in rounds),
            "time_ratio": median(took.wall_s / (parse + trivial) for took, parse, trivial in rounds),
            "peak_memory_mb": max(took.peak_memory_mb for took, _, _ in rounds),
        },
    )


if __name__ == "__main__":
    main()
