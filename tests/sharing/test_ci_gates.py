"""The gates of pull and merge requests that `curator-bench init --ci` writes run in a repository that is not ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from scratch_repository import ScratchRepository
from sharing.jobs_of_ci import Machine, commit, make_slower
from stand_ins.code_hosts import TOKEN, CodeHost


def merged_change(checkout: Path, *, slower: bool) -> str:
    """Commit the files, and a change on a branch, merged as GitHub offers it to a job. Returns the commit before.

    Only the benchmark whose clock is steady is compared: the real time of the other takes many rounds to judge.
    """
    repository = ScratchRepository(checkout)
    (checkout / "benchmarks" / "test_parcels.py").unlink()
    before = commit(repository, "Set up benchmarks")
    repository.git("checkout", "--quiet", "-b", "change")
    if slower:
        make_slower(repository)
    (checkout / "README.md").write_text("Parcels")
    commit(repository, "A change")
    repository.git("checkout", "--quiet", "--detach", before)
    repository.git("merge", "--quiet", "--no-ff", "--message", "Merge", "change")
    return before


@pytest.mark.slow
def test_a_gate_of_github_fails_for_a_regression_and_tells_it_in_one_comment(
    machine: Machine, github: CodeHost
) -> None:
    merged_change(machine.checkout, slower=True)
    machine = replace(machine, variables=github.environment)
    compared = machine.github("bench-gate", "compare")
    assert compared.code == 1, compared.output
    assert "pack_time_s" in (machine.folder / "summary.md").read_text()
    for _ in range(2):
        commented = machine.github("bench-gate", "comment", {"github.token": TOKEN})
        assert commented.code == 0, commented.output
    (body,) = github.bodies
    assert "pack_time_s" in body
    assert "regression" in body


@pytest.mark.slow
@pytest.mark.parametrize("slower", [True, False])
def test_a_gate_of_gitlab_fails_for_a_regression_only(machine: Machine, gitlab: CodeHost, *, slower: bool) -> None:
    before = merged_change(machine.checkout, slower=slower)
    after = ScratchRepository(machine.checkout).git("rev-parse", "HEAD")
    of_job = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": before, "CI_COMMIT_SHA": after}
    gate = machine.gitlab("bench-gate", **of_job, **gitlab.environment)
    assert gate.code == (1 if slower else 0), gate.output
    (body,) = gitlab.bodies
    assert ("regression" in body) == slower, body


@pytest.mark.slow
def test_any_two_branches_or_tags_are_compared_by_hand(machine: Machine, tmp_path: Path) -> None:
    origin = ScratchRepository(machine.checkout)
    origin.git("tag", "before", merged_change(origin.folder, slower=True))
    clone = replace(machine, checkout=tmp_path / "clone")
    origin.git("clone", "--quiet", str(origin.folder), str(clone.checkout))
    compared = clone.github("bench-ab", "ab", {"inputs.a": "before", "inputs.b": "change", "inputs.budget": "10m"})
    assert compared.code == 1, compared.output
    assert "pack_time_s" in (clone.checkout / "comparison.md").read_text()
    wrong = clone.gitlab("bench-ab", BENCH_A="--install=touch x", BENCH_B="change")
    assert wrong.code not in (0, 1), wrong.output
    assert not (clone.checkout / "x").exists()
