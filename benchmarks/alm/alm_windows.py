"""The window builder: from the segments of one recording to windows of talk that are about as long as asked for.

What it takes and leaves are the dictionaries that NeMo Curator's ALMDataBuilderStage takes and leaves, key by key.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from dataclasses import dataclass
from operator import le
from typing import Any, NamedTuple

Segment = dict[str, Any]
Entry = dict[str, Any]

NOBODY = "no-speaker"  # how a diarizer marks talk it could give to nobody; no window contains it
FEWEST_SEGMENTS = 2
SPEAKERS_LISTED = 5
LEFT_OUT_OF_SEGMENTS = "words"
LEFT_OUT_OF_ENTRIES = ("words", "segments")


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """What a window must satisfy."""

    target_window_duration: float = 120.0
    tolerance: float = 0.1
    min_sample_rate: int = 16000
    min_bandwidth: int = 8000
    min_speakers: int = 2
    max_speakers: int = 5
    truncation: bool = True

    @property
    def shortest(self) -> float:
        return self.target_window_duration - self.target_window_duration * self.tolerance

    @property
    def longest(self) -> float:
        return self.target_window_duration + self.target_window_duration * self.tolerance


def build_windows(entry: Entry, settings: WindowSettings) -> Entry:
    """The entry with its `windows`, with `stats` about what was lost and why, and without segments and words."""
    segments: list[Segment] = entry.get("segments", [])
    durations = [segment["end"] - segment["start"] for segment in segments]
    stats = _new_stats(entry, len(segments), sum(durations))
    if entry.get("audio_sample_rate", 0) < settings.min_sample_rate:
        stats["lost_sr"] = len(segments)
        stats["dur_lost_sr"] = stats["total_dur"]
        return {"audio_filepath": entry.get("audio_filepath"), "windows": [], "stats": stats, "truncation_events": 0}
    builder = _Builder(segments, durations, stats, settings)
    windows = builder.windows()
    result = {key: value for key, value in entry.items() if key not in LEFT_OUT_OF_ENTRIES}
    return {**result, "windows": windows, "stats": stats, "truncation_events": builder.truncations}


def _new_stats(entry: Entry, segments: int, duration: float) -> dict[str, Any]:
    stats: dict[str, Any] = {
        "total_segments": segments,
        "total_dur": duration,
        "swift_path": entry.get("swift_audio_filepath", ""),
        "audio_sample_rate": entry.get("audio_sample_rate", 0),
    }
    for reason in ("bw", "sr", "spk", "win", "no_spkr", "next_seg_bm"):
        stats[f"lost_{reason}"] = 0
        stats[f"dur_lost_{reason}"] = 0.0
    stats["lost_win_full_data"] = []
    return stats


def _bandwidth(segment: Segment) -> Any:
    return segment.get("metrics", {}).get("bandwidth", 0)


def _without_words(segment: Segment) -> Segment:
    slim = segment.copy()
    slim.pop(LEFT_OUT_OF_SEGMENTS, None)
    return slim


class _Words(NamedTuple):
    """The words of a segment by column."""

    ends: list[float]
    texts: list[str]
    are_in_order: bool

    @classmethod
    def of(cls, segment: Segment) -> _Words:
        words = segment.get("words", ())
        ends = [word["end"] for word in words]
        texts = [word.get("word", "") for word in words]
        return cls(ends, texts, all(map(le, ends, ends[1:] + ends[-1:])))  # the last held against itself: it may be NaN

    def until(self, end: float) -> tuple[list[float], list[str]]:
        """Ends and texts of the words that are over by then."""
        if self.are_in_order:
            count = bisect_right(self.ends, end)
            return self.ends[:count], self.texts[:count]
        over = [index for index, its_end in enumerate(self.ends) if its_end <= end]
        return [self.ends[index] for index in over], [self.texts[index] for index in over]


class _Reach:
    """How far a window reaches that begins at some segment: `stop` is the first segment it cannot hold whole.

    It is moved from segment to segment. Where segments stand in the order of their starts, as they nearly always do,
    a later window stops no earlier, so that moving over all of them takes as many steps as there are segments.
    """

    __slots__ = ("_ends", "_longest", "_max_speakers", "_present", "_speakers", "_starts", "_usable", "stop")

    def __init__(
        self, starts: list[float], ends: list[float], speakers: list[Hashable], usable: list[bool], s: WindowSettings
    ) -> None:
        self._starts = starts
        self._ends = ends
        self._speakers = speakers
        self._usable = usable
        self._longest = s.longest
        self._max_speakers = s.max_speakers
        self._present: dict[Hashable, int] = {}
        self.stop = 0

    def begin_at(self, first: int) -> int:
        """`stop` for a window that begins at this usable segment; called for one after another."""
        starts, ends, speakers, usable, longest = self._starts, self._ends, self._speakers, self._usable, self._longest
        self._leave(first - 1)
        if self.stop < first or not starts[first] >= starts[first - 1]:
            self._present.clear()
            self.stop = first
        start, stop, present, count = starts[first], self.stop, self._present, len(starts)
        while stop < count and usable[stop] and not ends[stop] - start > longest:
            speaker = speakers[stop]
            if not self.has_room_for(speaker):
                break
            if speaker:
                present[speaker] = present.get(speaker, 0) + 1
            stop += 1
        self.stop = stop
        return stop

    def has_room_for(self, speaker: Hashable) -> bool:
        """Whether the window may hold this speaker too. Talk of an unknown speaker counts for nobody."""
        present = self._present
        is_new = bool(speaker) and speaker not in present
        return len(present) + is_new <= self._max_speakers and speaker != NOBODY

    def _leave(self, index: int) -> None:
        speaker = self._speakers[index]
        if index < 0 or self.stop <= index or not speaker or not self._usable[index]:
            return
        self._present[speaker] -= 1
        if not self._present[speaker]:
            del self._present[speaker]


class _Builder:
    """Builds the windows of one entry, and notes in its statistics what is lost."""

    def __init__(
        self, segments: list[Segment], durations: list[float], stats: dict[str, Any], settings: WindowSettings
    ) -> None:
        self._segments = segments
        self._durations = durations
        self._stats = stats
        self._settings = settings
        self._starts: list[float] = [segment["start"] for segment in segments]
        self._ends: list[float] = [segment["end"] for segment in segments]
        self._speakers: list[Hashable] = [segment.get("speaker") for segment in segments]
        self._talk = list(zip(self._speakers, durations, strict=True))
        self._usable = [not _bandwidth(segment) < settings.min_bandwidth for segment in segments]
        self._slim = [_without_words(segment) for segment in segments]
        self._words: dict[int, _Words] = {}
        self._longest = settings.longest
        self.truncations = 0

    def windows(self) -> list[dict[str, Any]]:
        """The valid windows, by the segment they begin with."""
        reach = _Reach(self._starts, self._ends, self._speakers, self._usable, self._settings)
        shortest, longest = self._settings.shortest, self._longest
        windows = []
        for first, is_usable in enumerate(self._usable):
            if not is_usable:
                self._lose("bw", first)
                continue
            chosen, end = self._grow(first, reach)
            if not shortest <= end - self._starts[first] <= longest or len(chosen) < FEWEST_SEGMENTS:
                self._lose_window(first, reach.stop, chosen)
            elif (spoken := self._spoken(first, reach.stop, chosen)) is None:
                self._lose("spk", first)
            else:
                windows.append({"segments": chosen, "speaker_durations": spoken})
        return windows

    def _grow(self, first: int, reach: _Reach) -> tuple[list[Segment], float]:
        """The segments of the window that begins at `first`, the last of them cut short where need be, and its end."""
        stop = reach.begin_at(first)
        chosen = self._slim[first:stop]
        end = self._ends[max(stop - 1, first)]
        if not self._is_too_long(first, stop):
            return chosen, end
        cut_at = self._starts[first] + self._longest
        if self._starts[stop] >= cut_at:
            return chosen, end
        self.truncations += 1
        if not reach.has_room_for(self._speakers[stop]):
            return chosen, end
        part = self._truncated(stop, cut_at)
        chosen.append(part)
        return chosen, part["end"]

    def _is_too_long(self, first: int, stop: int) -> bool:
        """Whether the window ends before `stop` because of its length, and may be filled up with a part of that."""
        if stop == len(self._ends) or not self._usable[stop] or not self._settings.truncation:
            return False
        return self._ends[stop] - self._starts[first] > self._longest

    def _truncated(self, index: int, cut_at: float) -> Segment:
        """A copy of the segment with those words only that are over by then; it ends with the last of them."""
        words = self._words.get(index)
        if words is None:
            words = self._words[index] = _Words.of(self._segments[index])
        ends, texts = words.until(cut_at)
        text = " ".join(filter(None, texts))
        return {**self._slim[index], "text": text, "end": ends[-1] if ends else self._starts[index]}

    def _spoken(self, first: int, stop: int, chosen: list[Segment]) -> list[float] | None:
        """How long the longest speakers of the window talk, or None where it has too few of them.

        Added up from left to right for each window alone: differences of running sums would be rounded differently.
        """
        spoken: dict[Hashable, float] = {}
        for speaker, duration in self._talk[first:stop]:
            if speaker:
                spoken[speaker] = spoken.get(speaker, 0) + duration
        if len(chosen) > stop - first and (speaker := self._speakers[stop]):
            spoken[speaker] = spoken.get(speaker, 0) + (chosen[-1]["end"] - self._starts[stop])
        if len(spoken) < self._settings.min_speakers:
            return None
        longest = sorted(spoken.values(), reverse=True)[:SPEAKERS_LISTED]
        return longest + [0.0] * (SPEAKERS_LISTED - len(longest))

    def _lose(self, reason: str, index: int) -> None:
        self._stats[f"lost_{reason}"] += 1
        self._stats[f"dur_lost_{reason}"] += self._durations[index]

    def _lose_window(self, first: int, stop: int, chosen: list[Segment]) -> None:
        """A window of the wrong length is lost; where it was stopped by a neighbour, that is noted as well."""
        self._lose("win", first)
        stopped_by = min(stop, len(self._segments) - 1)
        if self._segments[stopped_by].get("speaker", NOBODY) == NOBODY:
            self._lose("no_spkr", first)
        elif not self._usable[stopped_by]:
            self._lose("next_seg_bm", first)
        self._stats["lost_win_full_data"].append(
            {
                "index": first,
                "window_segs": chosen,
                "next_seg": self._slim[stopped_by],
                "prev_seg": self._slim[max(first - 1, 0)],
            }
        )
