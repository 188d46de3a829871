"""Makes a manifest of recordings as diarization and transcription leave them; the same one from the same seed.

Every other recording is natural: talk that overlaps, speakers nobody recognized, telephone lines, ties. The others are
planted: scenes whose windows are known by construction, for the default options of the pipeline. How many there are
stands in planted.json. Times of planted scenes are multiples of 1/8 s, so that sums of them are exact.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

SIZES = {"S": 8, "M": 100, "L": 2000}
WORDS = ("well", "so", "I", "think", "that", "we", "should", "probably", "look", "at", "it", "before", "anyone", "says")
WORD_S = 0.4
GOOD_BANDWIDTH, LOW_BANDWIDTH = 11000, 4000
GOOD_RATES, LOW_RATE = (16000, 22050, 44100, 48000), 8000
VOICES = ("ann", "bob", "cem", "dee", "eve", "fox", "gus", "hal")

Segment = dict[str, Any]


class Planted(NamedTuple):
    """What the pipeline must find."""

    builder_windows: int = 0
    filtered_windows: int = 0
    filtered_dur_s: float = 0.0

    def plus(self, other: Planted) -> Planted:
        return Planted(
            self.builder_windows + other.builder_windows,
            self.filtered_windows + other.filtered_windows,
            self.filtered_dur_s + other.filtered_dur_s,
        )


class Scene(NamedTuple):
    """Some talk, how long it is, and what is planted in it."""

    segments: list[Segment]
    length_s: float
    planted: Planted


def segment(
    start: float,
    length: float,
    speaker: str | None,
    rng: random.Random,
    *,
    bandwidth: int = GOOD_BANDWIDTH,
    word_s: float = WORD_S,
) -> Segment:
    """One turn of talk, full of words; without a speaker it has no such key."""
    count = max(1, round(length / word_s))
    step = length / count
    words: list[Segment] = [
        {"word": rng.choice(WORDS), "start": _ms(start + at * step), "end": _ms(start + (at + 1) * step)}
        for at in range(count)
    ]
    text = " ".join(word["word"] for word in words)
    named = {} if speaker is None else {"speaker": speaker}
    return {
        "start": _ms(start),
        "end": _ms(start + length),
        **named,
        "text": text,
        "words": words,
        "metrics": {"bandwidth": bandwidth},
    }


def _ms(seconds: float) -> float:
    return round(seconds, 3)


# Planted scenes. A window is 108 to 132 s long, has two to five speakers, and none of it is of low bandwidth.


def turns(
    start: float, rng: random.Random, speakers: tuple[str | None, ...], planted: Planted, count: int = 12
) -> Scene:
    """Turns of 10 s: twelve are 120 s. The second window, of 110 s, is the only other one that is long enough."""
    segments = [segment(start + 10 * at, 10, speakers[at % len(speakers)], rng) for at in range(count)]
    return Scene(segments, 10.0 * count, planted)


def dialogue(start: float, rng: random.Random) -> Scene:
    return turns(start, rng, tuple(rng.sample(VOICES, rng.randint(2, 5))), Planted(2, 1, 120.0))


def half_anonymous(start: float, rng: random.Random) -> Scene:
    """Talk of an unknown speaker fills a window but counts for nobody."""
    one, other = rng.sample(VOICES, 2)
    return turns(start, rng, (one, None, other, ""), Planted(2, 1, 120.0))


def monologue(start: float, rng: random.Random) -> Scene:
    return turns(start, rng, (rng.choice(VOICES),), Planted())


def crowd(start: float, rng: random.Random) -> Scene:
    """Six take turns, so that no window gets beyond 50 s."""
    return turns(start, rng, tuple(rng.sample(VOICES, 6)), Planted())


def small_talk(start: float, rng: random.Random) -> Scene:
    return turns(start, rng, ("ann", "bob"), Planted(), count=10)


def tie(start: float, rng: random.Random) -> Scene:
    """Two begin at once, so that two windows have the same times: the filter keeps both and counts one duration."""
    first, *others = dialogue(start, rng).segments
    twin = segment(start, 10, others[0]["speaker"], rng)
    return Scene([first, twin, *others], 120.0, Planted(3, 2, 120.0))


def long_talk(start: float, rng: random.Random) -> Scene:
    """Thirty turns of 20 s with a word a second: 25 windows, all but the last cut at 132 s; each fourth one stays."""
    segments = [segment(start + 20 * at, 20, VOICES[at % 2], rng, word_s=1.0) for at in range(30)]
    return Scene(segments, 600.0, Planted(25, 7, 6 * 132.0 + 120.0))


SCENES: tuple[Callable[[float, random.Random], Scene], ...] = (
    dialogue,
    half_anonymous,
    monologue,
    crowd,
    small_talk,
    tie,
    long_talk,
)


def wall(start: float, rng: random.Random) -> Segment:
    """A segment no window contains: a telephone line, or talk that was given to nobody."""
    if rng.random() < 0.5:
        return segment(start, 2, rng.choice(VOICES), rng, bandwidth=LOW_BANDWIDTH)
    return segment(start, 2, "no-speaker", rng)


def planted_recording(rng: random.Random) -> tuple[dict[str, Any], Planted]:
    """Seven scenes with walls between them; nothing at all is found in one of eight, whose sample rate is too low."""
    segments: list[Segment] = []
    planted, now = Planted(), rng.randrange(80) / 8
    for _ in range(7):
        scene = rng.choice(SCENES)(now, rng)
        segments += [*scene.segments, wall(now + scene.length_s + 1, rng)]
        planted = planted.plus(scene.planted)
        now += scene.length_s + rng.randrange(32, 80) / 8
    if rng.random() < 1 / 8:
        return _recording(segments, LOW_RATE), Planted()
    return _recording(segments, rng.choice(GOOD_RATES)), planted


def natural_recording(rng: random.Random) -> dict[str, Any]:
    """A quarter of an hour of two to seven people who interrupt each other and pause."""
    voices = rng.sample(VOICES, rng.randint(2, 7))
    segments, now = [], rng.uniform(0, 5)
    while now < 900:
        length = min(rng.expovariate(1 / 7) + 0.5, 40)
        segments.append(_natural_segment(now, length, voices, rng))
        if rng.random() < 0.03:
            segments.append(_natural_segment(now, length, voices, rng))
        now += max(length + rng.gauss(0.3, 0.8), 0.1)
    return _recording(segments, rng.choice(GOOD_RATES))


def _natural_segment(start: float, length: float, voices: list[str], rng: random.Random) -> Segment:
    luck = rng.random()
    speaker = None if luck < 0.02 else "no-speaker" if luck < 0.03 else rng.choice(voices[:3] if luck < 0.8 else voices)
    bandwidth = LOW_BANDWIDTH if rng.random() < 0.02 else rng.randint(8000, 16000)
    return segment(start, length, speaker, rng, bandwidth=bandwidth)


def _recording(segments: list[Segment], sample_rate: int) -> dict[str, Any]:
    return {"audio_sample_rate": sample_rate, "segments": segments}


def recordings(count: int, seed: int) -> Iterator[tuple[dict[str, Any], Planted | None]]:
    """Natural and planted ones in turn. Each has random numbers of its own: larger manifests begin as smaller ones."""
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        recording, planted = (natural_recording(rng), None) if number % 2 == 0 else planted_recording(rng)
        kind = "natural" if planted is None else "planted"
        yield {"audio_filepath": f"{kind}/{number:06d}.wav", **recording}, planted


def write_manifest(folder: Path, count: int, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    known = {}
    with (folder / "manifest.jsonl").open("w", encoding="utf-8") as file:
        for recording, planted in recordings(count, seed):
            file.write(json.dumps(recording) + "\n")
            if planted is not None:
                known[recording["audio_filepath"]] = planted._asdict()
    (folder / "planted.json").write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the folder for manifest.jsonl and planted.json")
    parser.add_argument("--size", choices=SIZES, default="S", help="how many recordings: " + str(SIZES))
    parser.add_argument("--recordings", type=int, help="how many, instead of a size")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    write_manifest(options.out, options.recordings or SIZES[options.size], options.seed)


if __name__ == "__main__":
    main()
