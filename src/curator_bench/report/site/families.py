"""The entries of a matrix with their axes, for the page that shows a metric by two of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from curator_bench.report.pivot import naturally
from curator_bench.report.site.memory import EntryStatus
from curator_bench.report.site.model import SiteEntry


@dataclass(frozen=True, slots=True)
class Family:
    """An entry with axes, and all combinations of their values that were run."""

    family: SiteEntry
    latest: str
    """The session that ran any of them last."""
    axes: Sequence[tuple[str, Sequence[str]]]
    """Names, each with its values in the order that `curator-bench pivot` shows them in."""
    members: Mapping[str, Mapping[str, str]]
    """The values of each combination, by name of its page."""

    def place(self, values: Mapping[str, str]) -> list[int]:
        """Return the place of each axis's value; -1 where a combination lacks the axis."""
        return [known.index(values[name]) if name in values else -1 for name, known in self.axes]


def families_of(statuses: Sequence[EntryStatus], axes: Mapping[SiteEntry, Mapping[str, str]]) -> list[Family]:
    """Group the entries that have axes."""
    grouped: dict[SiteEntry, list[EntryStatus]] = defaultdict(list)
    for one in statuses:
        if one.entry in axes:
            grouped[one.entry.family].append(one)
    return [_family(family, grouped[family], axes) for family in sorted(grouped)]


def _family(family: SiteEntry, members: Sequence[EntryStatus], axes: Mapping[SiteEntry, Mapping[str, str]]) -> Family:
    values: dict[str, set[str]] = defaultdict(set)
    for one in members:
        for name, value in axes[one.entry].items():
            values[name].add(value)
    latest = max((one.latest for one in members), key=attrgetter("start"))
    return Family(
        family,
        latest.session_slug,
        [(name, sorted(known, key=lambda value: naturally((value,)))) for name, known in values.items()],
        {one.entry.slug: axes[one.entry] for one in members},
    )
