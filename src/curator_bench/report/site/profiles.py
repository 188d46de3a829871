"""The profiles of an entry's newest profiled runs: their data, and the page with flame graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from curator_bench.profiles import bounded
from curator_bench.report.site import words
from curator_bench.report.site.data_files import Numbered, as_json, handed_over
from curator_bench.report.site.folder import SiteFolder
from curator_bench.report.site.links import slug
from curator_bench.report.site.model import EntryState, History, RunFacts
from curator_bench.report.site.pages import Pages
from curator_bench.values import Profile

_ASSETS = Path(__file__).with_name("flame_assets")
_FORMAT = 1
"""Changes with the format of the data: files of another one are written again."""
_MOST_STACKS, _MOST_TEXT = 1_500, 200_000
"""Stacks of a profile that a page shows, and characters of all of them. The others are counted together."""


def write_assets(site: SiteFolder) -> None:
    """Write the programs of these pages, which are larger than those of all others."""
    for file in sorted(_ASSETS.iterdir()):
        site.write(f"assets/{file.name}", file.read_bytes())


class ProfileWriter:
    """Writes the pages of entries that have profiles. The data of a run is written once."""

    def __init__(self, site: SiteFolder, pages: Pages, history: History) -> None:
        self._site, self._pages, self._history = site, pages, history

    def write(self, state: EntryState) -> tuple[str, ...]:
        """Write the profiles of an entry, and return the names of the files."""
        if not state.profiled:
            return ()
        found = self._history.profiles([run.uid for run in state.profiled])
        runs = [run for run in state.profiled[::-1] if found.get(run.uid)]
        if not runs:
            return ()
        key = f"profiles/{state.entry.slug}"
        of_runs = [(run, dict(self._write_runs(key, run, found[run.uid]))) for run in runs]
        self._site.write(f"data/{key}.js", handed_over(key, _index(of_runs)))
        self._pages.write(f"{key}.html", "profiles", entry=state.entry)
        return (
            f"{key}.html",
            f"data/{key}.js",
            *(f"data/{file}.js" for _, files in of_runs for file in files.values()),
        )

    def _write_runs(self, key: str, run: RunFacts, profiles: Sequence[Profile]) -> Iterator[tuple[str, str]]:
        for profile in profiles:
            own = f"{key}/{run.uid[:12]}_{slug(profile.profiler, run.uid)}"
            self._site.write(f"data/{own}.js", handed_over(own, data_of(profile)))
            yield profile.profiler, own


def _index(runs: Sequence[tuple[RunFacts, Mapping[str, str]]]) -> str:
    listed = [{"uid": run.uid, "text": _text(run), "files": files} for run, files in runs]
    names = sorted({name for _, files in runs for name in files})
    return as_json({"runs": listed, "profilers": names, "version": str(_FORMAT)})


def _text(run: RunFacts) -> str:
    commit = f", {words.commit(run.commit)}" if run.commit else ""
    return f"{run.session}{commit}, {words.moment(run.start)}"


def data_of(profile: Profile) -> str:
    """Return a profile as JSON: a tree in which each node has its frame and its parent, of which 0 is the root."""
    kept = bounded(profile, _MOST_STACKS, _MOST_TEXT)
    frames = Numbered()
    nodes: dict[tuple[int, int], int] = {}
    own: list[int] = []
    for stack, count in kept.stacks.items():
        node = 0
        for frame in stack:
            key = node, frames.of(frame)
            if key not in nodes:
                nodes[key] = len(nodes) + 1
                own.append(0)
            node = nodes[key]
        if node:
            own[node - 1] += count
    return as_json(
        {
            "profiler": profile.profiler,
            "unit": profile.unit,
            "seconds": profile.seconds,
            "samples": profile.total,
            "frames": frames.names,
            "frame": [frame for _, frame in nodes],
            "parent": [parent for parent, _ in nodes],
            "own": own,
        }
    )
