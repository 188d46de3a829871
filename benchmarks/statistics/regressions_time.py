"""How long `curator-bench regressions` takes over a large history, and a verdict on one long series.

The history is that of many entries, each with some metrics of two kinds of noise and every tenth with a step. What is
measured is the command, from its start to its end, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from generated_series import correlated, lognormal

from curator_bench.store import bulk
from curator_bench.store.database import Database, database_url, open_for_writing
from curator_bench.store.tables import METRICS, RUNS, SESSIONS
from curator_bench.verdict.cases import History, Question, Rules
from curator_bench.verdict.direction import Better
from curator_bench.verdict.judging import judge
from curator_bench.verdict.trends import trends

COMMAND = "from curator_bench.cli import main; main()"
FIRST = datetime(2025, 1, 1, tzinfo=UTC)


def make_history(database: Database, entries: int, metrics: int, runs: int) -> None:
    """One session a night, which runs all entries."""
    random = np.random.default_rng(1)
    nothing = dict.fromkeys(column.name for column in RUNS.columns)
    with database.writing() as connection:
        sessions = [
            {
                "id": night + 1,
                "uid": f"s{night}",
                "name": f"night_{night}",
                "results_directory": "",
                "commit": f"{night:040x}",
            }
            for night in range(runs)
        ]
        connection.execute(SESSIONS.insert(), sessions)
        for entry in range(entries):
            columns = [
                _values(random, runs, step=0.08 if entry % 10 == 0 and one == 0 else 0.0) for one in range(metrics)
            ]
            rows, values = [], []
            for night in range(runs):
                number = 1 + night * entries + entry
                start = FIRST + timedelta(days=night, seconds=entry)
                row = {"id": number, "uid": f"r{number}", "session": night + 1, "name": f"entry_{entry}"}
                row |= {"originalname": f"entry_{entry}", "path": "matrix.yaml", "machine_id": "one", "attempt": 1}
                rows.append({**nothing, **row, "verdict": "passed", "start": start, "end": start, "duration": 1.0})
                values += [(number, f"part_{one}_time_s", float(columns[one][night]), None) for one in range(metrics)]
            bulk.write(connection, RUNS, rows)
            bulk.write_parts(connection, METRICS, values)


def _values(random: np.random.Generator, runs: int, step: float) -> Any:
    values = (lognormal if random.random() < 0.5 else correlated)(random, runs, random.uniform(0.01, 0.05))
    values[runs // 2 :] *= 1 + step
    return values


def time_of(command: list[str]) -> tuple[float, str]:
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    if done.returncode not in (0, 1) or done.stderr:
        sys.exit(done.stderr)
    return took, done.stdout


def verdict_ms(points: int, rounds: int) -> dict[str, float]:
    """Of a gate, and of all steps, over one series."""
    rules = Rules(Better.LESS)
    times: dict[str, list[float]] = {"gate_ms": [], "steps_ms": []}
    for seed in range(rounds):
        values = _values(np.random.default_rng(seed), points, 0.05)
        began = time.perf_counter()
        judge([Question(values[:-1], values[-1:], rules)])
        between = time.perf_counter()
        trends([History(values, rules)])
        times["gate_ms"].append(1000 * (between - began))
        times["steps_ms"].append(1000 * (time.perf_counter() - between))
    return {name: median(found) for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, required=True)
    parser.add_argument("--metrics", type=int, required=True)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    file = options.scratch / "history.db"
    if not file.exists():
        with open_for_writing(database_url(str(file))) as database:
            make_history(database, options.entries, options.metrics, options.runs)
    took = [
        time_of([sys.executable, "-c", COMMAND, "regressions", "--db", str(file), "--json"])
        for _ in range(options.rounds)
    ]
    found = json.loads(took[0][1])
    figures = {
        "values": options.entries * options.metrics * options.runs,
        "regressions_s": min(seconds for seconds, _ in took),
        "found": len(found),
        "planted": len(range(0, options.entries, 10)),
        **verdict_ms(options.runs, 50),
    }
    folder: Path = options.benchmark_results_path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params.json").write_text("{}")
    (folder / "metrics.json").write_text(json.dumps({"is_success": True, **figures}))
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
