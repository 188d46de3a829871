"""A proof in full that could not be tried has failed; at its smaller size it is skipped by name."""

from __future__ import annotations

from pathlib import Path

import pytest

SKIPS = """
import pytest

@pytest.mark.skipif(True, reason="needs a second user")
def test_marked(): ...

def test_calls(): pytest.skip("no file system may be mounted here")

def test_passes(): ...
"""


@pytest.fixture
def proofs(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text())
    pytester.makepyfile(test_one=SKIPS, test_two="import pytest; pytest.importorskip('no_such_module')")
    return pytester


def test_in_full_what_was_skipped_has_failed(proofs: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURATOR_BENCH_PROOF", "full")
    outcome = proofs.runpytest_inprocess("--continue-on-collection-errors")
    outcome.assert_outcomes(passed=1, failed=1, errors=2)
    outcome.stdout.fnmatch_lines(
        [
            "*Not proved (*no_such_module*",
            "*Not proved (*needs a second user*",
            "*Not proved (*no file system may be mounted here*",
        ]
    )


def test_at_the_smaller_size_it_is_skipped(proofs: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CURATOR_BENCH_PROOF", raising=False)
    proofs.runpytest_inprocess().assert_outcomes(passed=1, skipped=3)
