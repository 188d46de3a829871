"""What git is told of a commit: nothing that has to do with something else may look like a bad one."""

from __future__ import annotations

from pathlib import Path

import pytest

from curator_bench.hunting.bisect_codes import code_of
from curator_bench.hunting.junit import JunitOutcome, read
from curator_bench.values import Verdict

PASSED, FAILED, CRASHED = Verdict.PASSED, Verdict.FAILED, Verdict.CRASHED
TIMEOUT, ERROR, SKIPPED = Verdict.TIMEOUT, Verdict.ERROR, Verdict.SKIPPED


@pytest.mark.parametrize(
    ("told", "code"),
    [
        (JunitOutcome(0, (PASSED,)), 0),
        (JunitOutcome(0, (PASSED, SKIPPED)), 0),
        (JunitOutcome(0, (SKIPPED,)), 125),
        (JunitOutcome(0, (PASSED,), inconclusive=("time_s max_regression",)), 125),
        (JunitOutcome(1, (PASSED, FAILED), inconclusive=("time_s max_regression",)), 1),
        (JunitOutcome(1, (FAILED,)), 1),
        (JunitOutcome(1, (ERROR, FAILED)), 1),
        (JunitOutcome(1, (ERROR,)), 125),
        (JunitOutcome(1, (ERROR, CRASHED)), 125),
        (JunitOutcome(1, (CRASHED,)), 1),
        (JunitOutcome(1, (TIMEOUT, PASSED)), 1),
        (JunitOutcome(2, (), ("ImportError while importing test module",)), 125),
        (JunitOutcome(1, (PASSED,), ("SyntaxError",)), 125),
        (JunitOutcome(2, (), ("ImportError while loading conftest '/x/conftest.py'.",)), 132),
        (JunitOutcome(2, (Verdict.INTERRUPTED,)), 130),
        (JunitOutcome(2), 130),
        (JunitOutcome(3, (PASSED,)), 131),
        (JunitOutcome(4), 132),
        (JunitOutcome(5), 133),
        (JunitOutcome(1), 131),
        (JunitOutcome(1, (PASSED,)), 131),
        (JunitOutcome(137), 137),
        (JunitOutcome(70), 198),
    ],
)
def test_codes(told: JunitOutcome, code: int) -> None:
    assert code_of(told, skip_broken=False)[0] == code


@pytest.mark.parametrize("verdict", [CRASHED, TIMEOUT])
def test_what_broke_can_be_skipped(verdict: Verdict) -> None:
    assert code_of(JunitOutcome(1, (verdict, PASSED)), skip_broken=True)[0] == 125
    assert code_of(JunitOutcome(1, (verdict, FAILED)), skip_broken=True)[0] == 1


def test_half_a_file_tells_no_verdicts(tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    file.write_text("<testsuites><testcase name='a'>")
    assert read(file, 1) == JunitOutcome(1)
    assert read(tmp_path / "none.xml", 0) == JunitOutcome(0)
