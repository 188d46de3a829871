"""The overlap filter: of windows that share too much talk, the one whose length is nearest the target stays.

What it takes and leaves are the dictionaries that NeMo Curator's ALMDataOverlapStage takes and leaves, key by key.
"""

from __future__ import annotations

from typing import Any

Entry = dict[str, Any]
Window = dict[str, Any]
Span = tuple[float, float]  # end and start, in the order the results have them

DIGITS = 6  # windows whose times agree to the microsecond are the same window
WITHOUT_WINDOWS: tuple[tuple[str, Any], ...] = (
    ("filtered_windows", []),
    ("filtered_dur", 0.0),
    ("filtered_dur_list", []),
    ("total_dur_window", 0.0),
    ("total_dur_list_window", []),
    ("total_dur_list_window_timestamps", []),
    ("filtered", []),
    ("manifest_filepath", None),
    ("swift_filepath", None),
)


def filter_overlaps(entry: Entry, overlap_percentage: float, target_duration: float) -> Entry:
    """The entry with its `filtered_windows` and the durations of windows before and after."""
    windows: list[Window] = entry.get("windows", [])
    if not windows:
        return {**{key: value.copy() if value == [] else value for key, value in WITHOUT_WINDOWS}, **entry}
    spans = [_span(window) for window in windows if window.get("segments")]
    kept = _without_overlaps(spans, overlap_percentage / 100, target_duration)
    all_durations = [end - start for end, start in spans]
    kept_durations = [end - start for end, start in kept]
    stats = entry.get("stats", {})
    known = stats if isinstance(stats, dict) else {}
    return {
        **entry,
        "total_dur_window": sum(all_durations),
        "total_dur_list_window": all_durations,
        "total_dur_list_window_timestamps": spans,
        "filtered": kept,
        "filtered_windows": _windows_at(kept, windows),
        "filtered_dur": sum(kept_durations),
        "filtered_dur_list": kept_durations,
        "manifest_filepath": known.get("manifest_path"),
        "swift_filepath": known.get("swift_path"),
    }


def _span(window: Window) -> Span:
    segments = window["segments"]
    return segments[-1]["end"], segments[0]["start"]


def _without_overlaps(spans: list[Span], threshold: float, target: float) -> list[Span]:
    """The spans that stay, by start and then end. Each is held against those after it as long as both are there."""
    ordered = sorted(spans, key=lambda span: (span[1], span[0]))
    removed = [False] * len(ordered)
    for index, span in enumerate(ordered):
        if not removed[index]:
            _compare(index, span, ordered, removed, threshold, target)
    return [span for span, is_removed in zip(ordered, removed, strict=True) if not is_removed]


def _compare(index: int, span: Span, ordered: list[Span], removed: list[bool], threshold: float, target: float) -> None:
    """Removes the later ones that overlap too much, until one of them is better: then this one."""
    end, start = span
    duration = end - start
    off_target = abs(duration - target)
    for later in range(index + 1, len(ordered)):
        if removed[later]:
            continue
        its_end, its_start = ordered[later]
        if its_start >= end:
            return
        its_duration = its_end - its_start
        if not _share(span, ordered[later], min(duration, its_duration)) >= threshold:
            continue
        its_off_target = abs(its_duration - target)
        if off_target < its_off_target or (off_target == its_off_target and duration >= its_duration):
            removed[later] = True
        else:
            removed[index] = True
            return


def _share(one: Span, other: Span, shorter: float) -> float:
    """What part of the shorter one they have in common."""
    common = max(0, min(one[0], other[0]) - max(one[1], other[1]))
    return common / shorter if shorter else 0


def _windows_at(kept: list[Span], windows: list[Window]) -> list[Window]:
    """The windows at these times, in their own order: where two have the same times, both or neither."""
    exact = set(kept)
    rounded = {_rounded(span) for span in kept}
    found = []
    for window in windows:
        if window.get("segments"):
            span = _span(window)
            if span in exact or _rounded(span) in rounded:
                found.append(window)
    return found


def _rounded(span: Span) -> Span:
    return round(span[0], DIGITS), round(span[1], DIGITS)
