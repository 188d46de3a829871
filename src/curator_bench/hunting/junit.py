"""The outcome of a pytest run of benchmarks, read from its JUnit file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from curator_bench.values import Verdict

_NOT_COLLECTED = "collection failure"
_CONFTEST = "while loading conftest"


@dataclass(frozen=True, slots=True)
class JunitOutcome:
    """The outcome of one pytest."""

    exit_code: int
    verdicts: tuple[Verdict, ...] = ()
    uncollected: tuple[str, ...] = ()
    """Reasons why files could not be collected."""
    inconclusive: tuple[str, ...] = ()
    """The gates that are inconclusive."""

    @property
    def has_broken_conftest(self) -> bool:
        return any(_CONFTEST in why for why in self.uncollected)


def read(file: Path, exit_code: int) -> JunitOutcome:
    """Read the outcome. Without a complete file only the exit code is known."""
    try:
        cases = list(ElementTree.parse(file).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return JunitOutcome(exit_code)
    uncollected = [why for case in cases for why in _why_uncollected(case)]
    collected = [case for case in cases if not any(_why_uncollected(case))]
    verdicts = [_verdict(case) for case in collected]
    inconclusive = [said for case in collected if (said := _properties(case).get("inconclusive"))]
    return JunitOutcome(exit_code, tuple(verdicts), tuple(uncollected), tuple(inconclusive))


def _why_uncollected(case: ElementTree.Element) -> Iterator[str]:
    for error in case.iter("error"):
        if error.get("message") == _NOT_COLLECTED:
            yield error.text or _NOT_COLLECTED


def _properties(case: ElementTree.Element) -> dict[str | None, str | None]:
    return {one.get("name"): one.get("value") for one in case.iter("property")}


def _verdict(case: ElementTree.Element) -> Verdict:
    """Return the verdict of a run. For another test it follows from pytest's outcome."""
    said = _properties(case).get("verdict")
    if said in set(Verdict):
        return Verdict(said)
    for tag, verdict in (("error", Verdict.ERROR), ("failure", Verdict.FAILED), ("skipped", Verdict.SKIPPED)):
        if case.find(tag) is not None:
            return verdict
    return Verdict.PASSED
