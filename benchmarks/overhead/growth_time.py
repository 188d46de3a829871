"""How much longer pytest takes to collect a matrix that is some times as large.

The small matrix is collected as many times as the large one is larger, half of them before and half of them after it:
so both sides take about as long, and what else the machine does meets both of them.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean, median

from large_matrix import collect, write_matrix
from pytest_process import Took, make_project, parser_with, write_results


def measure(small: Path, large: Path, entries: int, factor: int) -> tuple[list[Took], Took]:
    """What the small one took each time, and what the large one took."""
    before = [collect(small, entries) for _ in range(factor // 2)]
    took = collect(large, entries * factor)
    after = [collect(small, entries) for _ in range(factor - factor // 2)]
    return before + after, took


def main() -> None:
    parser = parser_with(__doc__)
    parser.add_argument("--entries", type=int, required=True)
    parser.add_argument("--factor", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    options = parser.parse_args()
    project = make_project(options.scratch.resolve() / "project")
    small, large = project / "small_matrix.yaml", project / "large_matrix.yaml"
    write_matrix(small, options.entries)
    write_matrix(large, options.entries * options.factor)
    collect(small, options.entries)
    rounds = [measure(small, large, options.entries, options.factor) for _ in range(options.rounds)]
    write_results(
        options,
        {
            "collected_entries": options.entries * options.factor,
            "small_s": median(mean(one.wall_s for one in ones) for ones, _ in rounds),
            "large_s": median(took.wall_s for _, took in rounds),
            "growth_ratio": median(took.wall_s / mean(one.wall_s for one in ones) for ones, took in rounds),
            "growth_ratio_cpu": median(took.cpu_s / mean(one.cpu_s for one in ones) for ones, took in rounds),
            "peak_memory_mb": max(took.peak_memory_mb for _, took in rounds),
        },
    )


if __name__ == "__main__":
    main()
