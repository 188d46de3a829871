"""Holds the builtin engine against NeMo Curator's own stages, on entries made to be seen differently by the two.

The metric different_results counts the entries of which the two do not make the same, to the last bit of every number.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from alm_overlap import filter_overlaps
from alm_results import write_results
from alm_windows import WindowSettings
from alm_work import Settings, curate

Pick = Callable[[Sequence[Any]], Any]
Entry = dict[str, Any]

# Python 3.12 adds floats up more exactly than 3.11 does, so these depend on the interpreter.
SUMS = ("total_dur_window", "filtered_dur")

GAPS = (0, 0, 0.0, 0.25, 0.3, 1, 4.7, -0.4, -3, -11.3, 33.3)
LENGTHS = (0, 1, 2.5, 3.3, 6, 6, 7.1, 9.9, 10, 14.2, 33, 121.5, -2)
SPEAKERS = ("a", "a", "a", "b", "b", "b", "c", "d", "e", "f", "no-speaker", None, "", 0, 3)
BANDWIDTHS = (8000,) * 12 + (16000, 8000.5, 7999.9, 7999, 0)
BORDERS = (18, 22, 27, 33, 27.27, 33.33, 54, 66, 108, 132)  # the shortest and longest windows of the options below
TIMES = (0, 0.0, 1, 5, 10, 10.3, 10.3000001, 10.3000004, 15, 20, 30, 30.6, 40)
WORD_TEXTS = ("well", "so", "übrigens", "I", "", None)
LEFT_FROM_BEFORE: tuple[Entry, ...] = (
    {},
    {},
    {"duration": 12.5, "swift_audio_filepath": "swift://x", "words": ["dropped"]},
    {"windows": [{"segments": []}], "stats": {"swift_path": "old"}, "truncation_events": 7},
    {"filtered_windows": [1], "filtered_dur": 3.5, "filtered": [[1, 2]], "swift_filepath": "kept where no window is"},
)


class Case(NamedTuple):
    """An entry and the options to curate it with."""

    entry: Entry
    windows: WindowSettings
    overlap_percentage: int = 50


def awkward_case(pick: Pick) -> Case:
    """`pick` chooses one of some values: by chance, or as Hypothesis wants it."""
    windows = WindowSettings(
        target_window_duration=pick((20.0, 30, 30.3, 60.0, 120.0)),
        tolerance=pick((0.1, 0.1, 0.25, 0.0, 1.0, 1.5)),
        min_sample_rate=pick((16000, 16000, 16000, 44100)),
        min_bandwidth=pick((8000, 8000, 8000, 0, 12000)),
        min_speakers=pick((2, 2, 1, 0, 3)),
        max_speakers=pick((5, 5, 2, 3, 1, 0)),
        truncation=pick((True, True, True, False)),
    )
    return Case(awkward_entry(pick), windows, overlap_percentage=pick((50, 50, 0, 1, 33, 99, 100)))


def awkward_entry(pick: Pick) -> Entry:
    segments: list[Entry] = []
    now: float = pick((0, 0.0, 3, 17.3))
    for _ in range(pick(range(31))):
        start = now + pick(GAPS)
        end = start + pick(LENGTHS)
        if segments and pick((False,) * 5 + (True,)):
            end = pick(segments)["start"] + pick(BORDERS)
        segments.append(_segment(start, end, pick))
        now = pick((end, end, end, start))
    rate = pick((16000, 16000, 48000, 22050.0, 15999))
    return {**pick(LEFT_FROM_BEFORE), "audio_filepath": "talk.wav", "audio_sample_rate": rate, "segments": segments}


def _segment(start: float, end: float, pick: Pick) -> Entry:
    segment: Entry = {"start": start, "end": end, "text": "as transcribed"}
    segment.update(pick(({}, {}, {"id": 7})))
    if pick((True,) * 9 + (False,)):
        segment["speaker"] = pick(SPEAKERS)
    if pick((True,) * 14 + (False,)):
        segment["metrics"] = pick(({}, *({"bandwidth": bandwidth} for bandwidth in BANDWIDTHS)))
    if pick((True,) * 4 + (False,)):
        segment["words"] = _words(start, end, pick)
    return segment


def _words(start: float, end: float, pick: Pick) -> list[Entry]:
    count = pick((0, 1, 3, 3, 8))
    step = (end - start) / max(count, 1)
    words = [
        {"start": start + at * step, "end": start + (at + 1) * step, "word": pick(WORD_TEXTS)} for at in range(count)
    ]
    order = pick(("in order",) * 5 + ("backwards", "without texts", "without a time"))
    if order == "without a time":
        return [{**word, "end": math.nan} for word in words]
    if order == "without texts":
        return [{"end": word["end"]} for word in words]
    return words[::-1] if order == "backwards" else words


def awkward_windows(pick: Pick) -> Case:
    """Windows that begin and end at few different times, so that they overlap and tie; only the filter sees them."""
    spans = [(pick(TIMES), pick(TIMES)) for _ in range(pick(range(13)))]
    windows = [{"segments": [{"start": start, "end": 0}, {"start": 0, "end": end}]} for start, end in spans]
    entry = {"windows": [*windows, *pick(([], [{"segments": []}]))], "stats": {"swift_path": "x"}}
    target = pick((0.5, 10, 10.3, 15, 20.0))
    return Case(entry, WindowSettings(target_window_duration=target), pick((0, 1, 33, 50, 97, 100)))


def cases(count: int, seed: int) -> Iterator[Case]:
    """Entries for both stages and windows for the filter, in turn."""
    for number in range(count):
        awkward = awkward_windows if number % 2 else awkward_case
        yield awkward(random.Random(f"{seed}/{number}").choice)


def with_builtin(case: Case) -> Entry:
    if "segments" in case.entry:
        return curate(case.entry, Settings(case.windows, case.overlap_percentage))
    return filter_overlaps(case.entry, case.overlap_percentage, case.windows.target_window_duration)


def with_reference(case: Case) -> Entry:
    """What NeMo Curator's stages make of it; they change what they are given."""
    from nemo_curator.stages.audio.alm import ALMDataBuilderStage, ALMDataOverlapStage
    from nemo_curator.tasks import AudioTask

    windows = {name: getattr(case.windows, name) for name in WindowSettings.__slots__}
    task = AudioTask(data=json.loads(json.dumps(case.entry)))
    if "segments" in case.entry:
        task = ALMDataBuilderStage(**windows).process(task)
    target = case.windows.target_window_duration
    overlap = ALMDataOverlapStage(overlap_percentage=case.overlap_percentage, target_duration=target)
    return dict(overlap.process(task).data)


def canonical(result: Entry) -> str:
    return json.dumps(result, sort_keys=True)


def digest(result: Entry) -> str:
    """A fingerprint of everything in a result but the sums that depend on the interpreter."""
    stats = {name: value for name, value in result["stats"].items() if name != "total_dur"}
    rest = {name: value for name, value in result.items() if name not in SUMS}
    return hashlib.sha256(canonical({**rest, "stats": stats}).encode()).hexdigest()[:16]


def compare(all_cases: Iterable[Case]) -> dict[str, Any]:
    found: Counter[str] = Counter(is_different=0)
    for case in all_cases:
        reference = with_reference(case)
        found["entries"] += 1
        found["is_different"] += canonical(with_builtin(case)) != canonical(reference)
        found["entries_with_windows"] += bool(reference["windows"])
        found["total_builder_windows"] += len(reference["windows"])
        found["total_filtered_windows"] += len(reference["filtered_windows"])
        found["truncation_events"] += reference.get("truncation_events", 0)
    different = found.pop("is_different")
    return {"is_success": different == 0, "different_results": different, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    parser.add_argument("--entries", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="write fingerprints of what NeMo Curator finds to this file, too")
    options = parser.parse_args()
    metrics = compare(cases(options.entries, options.seed))
    write_results(options.benchmark_results_path, {"entries": options.entries, "seed": options.seed}, metrics, [])
    if options.record is not None:
        digests = [digest(with_reference(case)) for case in cases(options.entries, options.seed)]
        options.record.write_text(json.dumps({"seed": options.seed, "digests": digests}, indent=0) + "\n")
    print(json.dumps(metrics, indent=2))


if __name__ == "__main__":
    main()
