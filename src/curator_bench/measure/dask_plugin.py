"""What runs on the scheduler of a Dask cluster: it adds up the times of tasks.

This module is sent there by value, since the scheduler may be on a machine without curator_bench. So it imports nothing
of ours, and answers in plain types.
"""

from __future__ import annotations

from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.utils import key_split  # type: ignore[attr-defined]

NAME = "curator_bench_task_times"


class TaskTimes(SchedulerPlugin):
    """Adds up the times of finished tasks by kind of action, and by the prefix of their keys."""

    def __init__(self) -> None:
        self.actions: dict[str, dict[str, float]] = {}
        """Seconds by prefix and action."""
        self.counts: dict[str, int] = {}
        self.failures: dict[str, int] = {}
        self.spans: dict[str, tuple[float, float]] = {}
        """Start of the first task and end of the last by prefix, in seconds since 1970."""

    def transition(self, key: Any, start: str, finish: str, *_: Any, **facts: Any) -> None:
        prefix = key_split(key)
        if (start, finish) == ("processing", "erred"):
            self.failures[prefix] = self.failures.get(prefix, 0) + 1
        if (start, finish) == ("processing", "memory"):
            self.counts[prefix] = self.counts.get(prefix, 0) + 1
            self._add(prefix, facts.get("startstops") or ())

    def _add(self, prefix: str, startstops: Any) -> None:
        seconds = self.actions.setdefault(prefix, {})
        for one in startstops:
            began, ended = one["start"], one["stop"]
            seconds[one["action"]] = seconds.get(one["action"], 0.0) + max(ended - began, 0.0)
            first, last = self.spans.get(prefix, (began, ended))
            self.spans[prefix] = min(first, began), max(last, ended)

    def found(self) -> dict[str, Any]:
        return {"actions": self.actions, "counts": self.counts, "failures": self.failures, "spans": self.spans}


def begin(dask_scheduler: Any) -> None:
    """Begin to add up. A plugin that was left behind is replaced."""
    dask_scheduler.add_plugin(TaskTimes(), name=NAME, idempotent=False)


def end(dask_scheduler: Any) -> dict[str, Any]:
    """Return the sums, and remove the plugin."""
    plugin = dask_scheduler.plugins.get(NAME)
    if plugin is None:
        return {}
    dask_scheduler.remove_plugin(name=NAME)
    return dict(plugin.found())
