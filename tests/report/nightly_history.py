"""A history of nights: one step of 6 %, one improvement, something broken, and names that mean harm."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import InvocationRecord, RunEnd, RunStart, SessionRecord
from curator_bench.values import Scalar, Subject, Verdict

NIGHTS = 45
SLOWER_FROM, FASTER_FROM, BROKEN_FROM = 30, 20, 42
MATRIX = "benchmarks/dedup/matrix.yaml"
SLOWED, SPED_UP, BROKEN, LEVEL = "removal[ray_data-dense]", "identification", "fuzzy_dedup", "exact_dedup"
METRIC, SPED_UP_METRIC = "time_taken_s", "throughput_docs_per_sec"
EVIL = "<script>window.hacked=1</script><img src=x onerror='window.hacked=2'>\"&'{{7*7}}"
EVIL_LINK = "javascript:window.hacked=3"
BEGAN = datetime(2026, 1, 1, 2, 30, tzinfo=UTC)


def commit_of(night: int) -> str:
    return f"{random.Random(night).getrandbits(160):040x}"


def session_of(night: int) -> str:
    return f"nightly_{night:02d}"


def make(folder: Path, evil: str = EVIL) -> Path:
    """The database; results lie beside it. `evil` is what names and texts are that might do harm."""
    numbers = random.Random(6)
    path = folder / "benchmark.db"
    with open_for_writing(database_url(path)) as database:
        for night in range(NIGHTS):
            start = BEGAN + timedelta(days=night)
            recorder = Recorder(database, _session(folder, night, evil), _invocation(night, start, evil))
            recorder.start_invocation()
            for place, (name, metrics, verdict) in enumerate(_runs(night, numbers, evil)):
                began = start + timedelta(minutes=place)
                log = _log(folder, night, place, evil) if verdict is not Verdict.PASSED or night == NIGHTS - 1 else None
                first = RunStart(
                    name,
                    evil if name == evil else MATRIX,
                    began,
                    definition_hash="d",
                    machine_id="epyc-64",
                    log_path=log,
                )
                recorder.start_run(first)
                recorder.finish_run(first.uid, _end(began, metrics, verdict, evil))
            recorder.finish_invocation(0)
    return path


def _session(folder: Path, night: int, evil: str) -> SessionRecord:
    is_last = night == NIGHTS - 1
    return SessionRecord(
        session_of(night),
        str(folder / "results"),
        reason=evil if is_last else "nightly",
        commit=commit_of(night),
        branch=evil if is_last else "main",
        viewer_url=EVIL_LINK if is_last else f"https://viewer.example/{night}",
        subjects=(Subject("nemo_curator", f"1.{night // 10}.0", commit_of(1000 + night)),),
    )


def _invocation(night: int, start: datetime, evil: str) -> InvocationRecord:
    environment = {
        "cpu_model": "EPYC 9554",
        "cores": 64,
        "python": "3.11.7",
        "ray": "2.59.0" if night < SLOWER_FROM else "2.60.0",
        "load_average": [night, 0, 0],
        "note": evil,
    }
    return InvocationRecord(
        f"{night:032x}", start, host="bench-1", environment=environment, command_line="pytest benchmarks --benchmark"
    )


def _runs(night: int, numbers: random.Random, evil: str) -> Iterator[tuple[str, dict[str, Scalar], Verdict]]:
    def noisy(value: float) -> float:
        return value * numbers.lognormvariate(0, 0.01)

    slow, fast = 1.06 if night >= SLOWER_FROM else 1.0, 1.15 if night >= FASTER_FROM else 1.0
    yield SLOWED, {METRIC: noisy(42.0 * slow), "peak_memory_bytes": noisy(3.1e9), "recall": 0.97}, Verdict.PASSED
    yield SPED_UP, {SPED_UP_METRIC: noisy(18_000 * fast), "note": evil}, Verdict.PASSED
    yield LEVEL, {METRIC: noisy(7.5), f"{METRIC}_min": 7.3, f"{METRIC}_max": 7.7}, Verdict.PASSED
    if night < BROKEN_FROM:
        yield BROKEN, {METRIC: noisy(120.0)}, Verdict.PASSED
    else:
        yield BROKEN, {}, Verdict.CRASHED
    yield evil, {f"{evil}_s": noisy(1.0)}, Verdict.PASSED


def _end(start: datetime, metrics: dict[str, Scalar], verdict: Verdict, evil: str) -> RunEnd:
    duration = metrics.get(METRIC, 60.0)
    assert isinstance(duration, float)
    error = f"ValueError: {evil}\n  line two of {evil}" if verdict is Verdict.CRASHED else None
    return RunEnd(verdict, start + timedelta(seconds=duration), duration=duration, error=error, metrics=metrics)


def _log(folder: Path, night: int, place: int, evil: str) -> str:
    log = folder / "results" / session_of(night) / f"entry {place} #1" / "logs" / "stdouterr.log"
    log.parent.mkdir(parents=True)
    log.write_text(f"<html>{evil}\nstarted\n")
    return str(log)


LONG = "x" * 300


def long_names(folder: Path) -> Path:
    """Lines to import: a step under names that no screen is wide enough for, at commits that are none."""
    lines = [
        {"name": name, "metric": metric, "value": 1.0 + night % 3 / 100 + (night >= 20) / 2, "session": session}
        | {"time": (BEGAN + timedelta(days=night)).isoformat(), "commit": EVIL}
        for night in range(30)
        for name, metric in ((LONG, "time_s"), ("sort", f"{LONG}_s"))
        for session in (LONG if night == 29 else session_of(night),)
    ]
    file = folder / "long.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file
