"""An open finding, as the end of a session and sinks tell of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpenFinding:
    """A regression that is open: one cause, however many entries and metrics it made worse.

    `entry`, `path`, `metric`, `machine`, `change`, `before` and `after` are of its most important change.
    """

    name: str
    """Its name for `curator-bench accept`, such as `r-cb10dd`."""
    title: str
    """Its most important change, and how many other entries and metrics it explains."""
    entry: str
    path: str
    metric: str
    machine: str
    change: float
    """The change as a fraction."""
    before: float
    after: float
    since: str
    """Start of the first run that is certainly after it."""
    session: str
    """Name of that run's session."""
    commits: tuple[str, str] = ("", "")
    """Commits of the last run before it and of that run; empty where they are not known."""
    entries: tuple[str, ...] = ()
    """Every entry it explains."""
    metrics: tuple[str, ...] = ()
    """Every metric it explains."""
    changed: tuple[str, ...] = ()
    """The changes, in lines: the commits with author and subject, packages, machine and so on."""

    @property
    def line(self) -> str:
        return f"{self.title} since {self.since[:16].replace('T', ' ')} UTC ({self.name})"
