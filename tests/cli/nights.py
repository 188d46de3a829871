"""Databases of nightly sessions for tests of commands that read history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner, Result

from curator_bench.cli import group

FIRST = datetime(2026, 1, 1, 3, tzinfo=UTC)


def noisy(*levels: tuple[float, int], seed: int = 0, spread: float = 0.02) -> list[float]:
    places = np.repeat([level for level, _ in levels], [runs for _, runs in levels])
    values = places * (1 + spread * np.random.default_rng(seed).standard_normal(len(places)))
    return [float(value) for value in values]


def commit(night: int) -> str:
    return f"{night + 1:040x}"


class History:
    """A database of nights, taken in from plain lines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = folder / "benchmark.db"

    def nights(self, series: Mapping[tuple[str, str], Sequence[float]], db: Path | None = None, **more: Any) -> None:
        """By entry and metric a value a night; `more` stands on every line."""
        commits = more.pop("commits", [])
        lines = [
            {
                "name": name,
                "metric": metric,
                "value": value,
                "time": (FIRST + timedelta(days=night)).isoformat(),
                "commit": commits[night] if commits else commit(night),
                **more,
            }
            for (name, metric), values in series.items()
            for night, value in enumerate(values)
        ]
        file = self.folder / "lines.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert self.say("import", file, "--db", db or self.db).exit_code == 0

    def say(self, *words: object) -> Result:
        return CliRunner().invoke(group, [*map(str, words)])

    def ask(self, *words: object) -> Result:
        return self.say(*words, "--db", self.db)

    def regressions(self, *words: object) -> list[dict[str, Any]]:
        result = self.ask("regressions", "--json", *words)
        assert result.exit_code in (0, 1), result.output
        found: list[dict[str, Any]] = json.loads(result.stdout)
        return found
