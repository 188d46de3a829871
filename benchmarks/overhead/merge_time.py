"""What `curator-bench merge` takes to put a database into a new one, and that merging it again adds nothing.

The whole process counts, from its start until it is gone, and the most memory it ever had.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_process import Took, parser_with, run, write_results
from sqlalchemy import func, select

from curator_bench.store.database import database_url, open_for_reading
from curator_bench.store.tables import METRICS, RUNS

MERGE = "from curator_bench.cli import main; main()"


def merged(source: Path, into: Path) -> Took:
    return run([sys.executable, "-c", MERGE, "merge", str(source), "--into", str(into)], into.parent)


def counted(path: Path) -> tuple[int, int]:
    """Runs and metrics."""
    database = open_for_reading(database_url(path))
    assert database
    with database, database.reading() as connection:
        runs, metrics = (connection.scalar(select(func.count()).select_from(table)) for table in (RUNS, METRICS))
        return runs or 0, metrics or 0


def main() -> None:
    parser = parser_with(__doc__)
    parser.add_argument("--database", type=Path, required=True)
    options = parser.parse_args()
    folder: Path = options.scratch.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    source, into = options.database.resolve(), folder / "merged.db"
    first, again = merged(source, into), merged(source, into)
    runs, metrics = counted(into)
    write_results(
        options,
        {
            "runs": runs,
            "is_complete": (runs, metrics) == counted(source),
            "merge_s": first.wall_s,
            "merge_cpu_s": first.cpu_s,
            "merge_memory_mb": first.peak_memory_mb,
            "again_s": again.wall_s,
            "again_memory_mb": again.peak_memory_mb,
        },
    )
    print(first.output, again.output, sep="")


if __name__ == "__main__":
    main()
