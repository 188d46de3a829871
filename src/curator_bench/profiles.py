"""Profiles as text: collapsed stacks (`a;b;c 12`), the JSON of speedscope, and how large a profile may become."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from curator_bench.values.profiles import OTHER, WAITING, Profile, ProfileUnit

LONGEST_FRAME = 250
DEEPEST_STACK = 200
MOST_STACKS = 5_000
MOST_TEXT = 4 * 2**20
"""Characters of all stacks of a bounded profile, collapsed."""
LEFT_OUT = "[…]"
"""Frame in place of the middle of a stack that was too deep."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def short_name(profiler: str) -> str:
    """Name of a profiler as its folder and its rows have it: the class, if it is named by its place."""
    return _UNSAFE.sub("_", profiler.rpartition(":")[2]).strip("._") or "profiler"


def clean_frame(text: str) -> str:
    """Make a frame fit for a line of collapsed stacks: without its separators, line breaks and unusual length."""
    clean = " ".join(text.replace(";", ",").split())
    return clean[:LONGEST_FRAME] or "?"


def clean_stack(frames: Iterable[str]) -> tuple[str, ...]:
    """Clean the frames of a stack, and leave out the middle of a deep one."""
    clean = tuple(map(clean_frame, frames))
    half = DEEPEST_STACK // 2
    return clean if len(clean) <= DEEPEST_STACK else (*clean[:half], LEFT_OUT, *clean[1 - half :])


def collapsed(stacks: Mapping[tuple[str, ...], int]) -> str:
    """Write stacks as lines `a;b;c 12`, the most frequent first."""
    ordered = sorted(stacks.items(), key=lambda pair: (-pair[1], pair[0]))
    return "".join(f"{';'.join(map(clean_frame, stack))} {count}\n" for stack, count in ordered if count > 0)


def stacks_of(text: str) -> dict[tuple[str, ...], int]:
    """Read collapsed stacks. Lines that are none are left out."""
    found: Counter[tuple[str, ...]] = Counter()
    for line in text.splitlines():
        frames, _, count = line.rpartition(" ")
        if frames and count.isascii() and count.isdigit() and len(count) <= 18:
            found[clean_stack(frames.split(";"))] += int(count)
    return +found


def bounded(profile: Profile, most_stacks: int = MOST_STACKS, most_text: int = MOST_TEXT) -> Profile:
    """Keep the most frequent stacks of a profile. The others are counted together, computing and waiting apart."""
    kept: dict[tuple[str, ...], int] = {}
    rest: Counter[tuple[str, ...]] = Counter()
    size = 0
    for stack, count in sorted(profile.stacks.items(), key=lambda pair: (-pair[1], pair[0])):
        size += sum(map(len, stack)) + len(stack) + len(str(count))
        if len(kept) < most_stacks and size <= most_text:
            kept[stack] = count
        else:
            rest[(OTHER, WAITING) if stack[-1:] == (WAITING,) else (OTHER,)] += count
    for stack, count in rest.items():
        kept[stack] = kept.get(stack, 0) + count
    return Profile(profile.profiler, profile.unit, profile.seconds, kept)


def speedscope(profile: Profile, name: str) -> str:
    """Write a profile as JSON that speedscope.app opens."""
    places: dict[str, int] = {}
    samples = [[places.setdefault(frame, len(places)) for frame in stack] for stack in profile.stacks]
    said = {
        "$schema": _SCHEMA,
        "shared": {"frames": [{"name": frame} for frame in places]},
        "profiles": [
            {
                "type": "sampled",
                "name": f"{name} ({profile.profiler})",
                "unit": "bytes" if profile.unit == "bytes" else "none",
                "startValue": 0,
                "endValue": profile.total,
                "samples": samples,
                "weights": list(profile.stacks.values()),
            }
        ],
        "name": name,
        "exporter": "curator-bench",
        "curator_bench": {"profiler": profile.profiler, "unit": profile.unit, "seconds": profile.seconds},
    }
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False) + "\n"


def profile_of_speedscope(text: str, profiler: str = "", seconds: float = 0.0) -> Profile:
    """Read sampled profiles of speedscope, ours or those of other tools, as one. ValueError if it is none.

    Ours say their profiler and seconds; these take precedence.
    """
    try:
        said = json.loads(text)
        names = [str(frame["name"]) for frame in said["shared"]["frames"]]
        own = said.get("curator_bench") or {}
        stacks: Counter[tuple[str, ...]] = Counter()
        for part in said["profiles"]:
            if part["type"] == "sampled":
                _add_samples(stacks, part, names)
        unit = own.get("unit", "bytes" if any(part["unit"] == "bytes" for part in said["profiles"]) else "samples")
        return Profile(
            str(own.get("profiler", profiler)), _unit(unit), float(own.get("seconds", seconds)), dict(+stacks)
        )
    except (KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"this is no profile of speedscope: {error!r}") from None


def _add_samples(stacks: Counter[tuple[str, ...]], part: dict[str, Any], names: list[str]) -> None:
    weights = part.get("weights") or [1] * len(part["samples"])
    is_count = part["unit"] in ("none", "bytes")
    for sample, weight in zip(part["samples"], weights, strict=True):
        stacks[clean_stack(names[place] for place in sample)] += round(weight) if is_count else 1


def _unit(text: str) -> ProfileUnit:
    if text not in ("samples", "bytes"):
        raise ValueError(f"a profile has no unit {text!r}")
    return "bytes" if text == "bytes" else "samples"
