"""Decides whether less or more of a metric is better: as declared, else by the words in its name."""

from __future__ import annotations

import re
from enum import StrEnum


class Better(StrEnum):
    LESS = "less"
    MORE = "more"


_CAMEL_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[a-z0-9]+")

_SECONDS = frozenset(
    {"s", "sec", "secs", "second", "seconds", "ms", "us", "ns", "min", "minute", "minutes", "hour", "hours"}
)
_PER_SECOND = re.compile(rf"/(?=({'|'.join(sorted(_SECONDS))})\b)", re.IGNORECASE)
_LESS = _SECONDS | {
    *("time", "times", "duration", "latency", "elapsed", "runtime", "walltime", "delay", "wait", "age"),
    *("memory", "mem", "rss", "pss", "uss", "ram", "swap", "byte", "bytes", "size"),
    *("b", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib"),
    *("loss", "error", "errors", "failure", "failures", "failed", "misplaced", "missed", "retries", "overhead", "cost"),
    *("perplexity", "joule", "joules", "watt", "watts", "energy"),
}
_MORE = frozenset(
    {
        *("throughput", "bandwidth", "speed", "speedup", "rate", "qps", "rps", "tps", "fps", "iops", "flops", "tflops"),
        *("accuracy", "recall", "precision", "f1", "auc", "bleu", "rouge", "score", "efficiency", "hits"),
    }
)
_LESS_RATES = frozenset(
    {"error", "errors", "failure", "failures", "failed", "miss", "misses", "missed", "loss", "retries"}
)


def better_of(metric: str, declared: str | None = None, otherwise: str | None = None) -> Better | None:
    """Return less or more: as declared, else by the name, else `otherwise`; None if all are unknown."""
    if declared is not None:
        return Better(declared)
    return _by_name(metric) or (None if otherwise is None else Better(otherwise))


def _by_name(metric: str) -> Better | None:
    words = _WORD.findall(_CAMEL_HUMP.sub("_", _PER_SECOND.sub("_per_", metric)).lower())
    if "per" in words:
        return _better_of_ratio(words)
    if "rate" in words and _LESS_RATES.intersection(words):
        return Better.LESS
    if _MORE.intersection(words):
        return Better.MORE
    return Better.LESS if _LESS.intersection(words) else None


def _better_of_ratio(words: list[str]) -> Better | None:
    """More per second is better; fewer seconds or bytes per anything are."""
    place = words.index("per")
    if _SECONDS.intersection(words[place + 1 :]):
        return Better.MORE
    return Better.LESS if _LESS.intersection(words[:place]) else None
