"""A history of an entry with three axes: in the last night one combination is slower, one faster, and one crashes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import Background, DefinitionRecord, InvocationRecord, RunEnd, RunStart, SessionRecord
from curator_bench.values import Verdict

NIGHTS = 20
AXES = {"model": ["small", "large"], "context": ["2k", "16k", "128k"], "precision": ["fp16", "int8"]}
ENTRY, SINGLE, MATRIX = "reading", "loading", "benchmarks/attention/matrix.yaml"
SLOWER, FASTER, CRASHED = ("small", "16k", "fp16"), ("large", "2k", "fp16"), ("large", "128k", "fp16")
BEGAN = datetime(2026, 1, 1, 2, 30, tzinfo=UTC)


def session_of(night: int) -> str:
    return f"night_{night:02d}"


def make(folder: Path) -> None:
    """Make the database. The last night has another parameter and another value of a variable."""
    numbers = random.Random(3)
    with open_for_writing(database_url(folder / "benchmark.db")) as database:
        for night in range(NIGHTS):
            start, is_last = BEGAN + timedelta(days=night), night == NIGHTS - 1
            session = SessionRecord(session_of(night), str(folder / "results"))
            recorder = Recorder(database, session, InvocationRecord(f"{night:032x}", start, host="bench"))
            variables = {"OMP_NUM_THREADS": f"key:{'b' if is_last else 'a'}", "HOME": "key:c"}
            for place, (name, axes, values) in enumerate(_entries()):
                definition = DefinitionRecord(f"of {name}", name, name, {"args": [*values], **axes})
                background = Background(definition, {"environment": variables, "packages": {"numpy": "2.0"}})
                began = start + timedelta(minutes=place)
                run = RunStart(
                    name,
                    MATRIX,
                    began,
                    definition_hash=definition.uid,
                    circumstances=background.circumstances_uid,
                    machine_id="epyc-64",
                )
                recorder.start_run(run, background)
                recorder.finish_run(run.uid, _end(began, values, numbers, is_last=is_last))
            recorder.finish_invocation(0)


def _entries() -> Iterator[tuple[str, dict[str, dict[str, str]], tuple[str, ...]]]:
    for values in product(*AXES.values()):
        yield f"{ENTRY}[{'-'.join(values)}]", {"axes": dict(zip(AXES, values, strict=True))}, values
    for context in AXES["context"]:
        yield f"{SINGLE}[{context}]", {"axes": {"context": context}}, (context,)


def _end(start: datetime, values: tuple[str, ...], numbers: random.Random, *, is_last: bool) -> RunEnd:
    factor = {SLOWER: 1.3, FASTER: 0.7}.get(values, 1.0) if is_last else 1.0  # type: ignore[arg-type]
    size = 4.0 if "128k" in values else 2.0 if "16k" in values else 1.0
    metrics = {"read_s": size * factor * numbers.lognormvariate(0, 0.01), "task_read_time_s_mean": 1.0}
    metrics["task_read_time_s_std"] = numbers.random()
    params = {"scale": 1000 if is_last else 100}
    if is_last and values == CRASHED:
        return RunEnd(Verdict.CRASHED, start + timedelta(seconds=9), error="out of memory", params=params)
    return RunEnd(Verdict.PASSED, start + timedelta(seconds=9), duration=9.0, metrics=metrics, params=params)
