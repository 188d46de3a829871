"""Hunting on the command line: regressions are found in imported history, accepted, and compared."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from cli.nights import FIRST, History, commit, noisy

NOTHING = "0 regressions, 0 improvements, 0 drifts in {} series."


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


def test_a_step_is_found_with_size_and_place(history: History) -> None:
    history.nights({("sort", "time_s"): noisy((1.0, 40), (1.08, 30)), ("sort", "rows_per_s"): noisy((5e6, 70), seed=1)})
    (found,) = history.regressions()
    assert {"entry", "metric", "kind", "change", "interval", "since"} <= set(found)
    assert (found["entry"], found["metric"], found["kind"]) == ("sort", "time_s", "regression")
    assert found["change"] == pytest.approx(0.08, abs=0.02)
    low, high = found["interval"]
    assert low < 0.08 < high
    night = (datetime.fromisoformat(found["since"]["time"]) - FIRST).days
    assert abs(night - 40) <= 2
    assert found["since"]["commit"] == commit(night)
    assert found["since"]["session"].startswith("imported__2026-02")
    assert history.ask("regressions").exit_code == 1


def test_a_noisy_but_level_history_of_many_entries_raises_nothing(history: History) -> None:
    from generated_series import FAMILIES

    random = np.random.default_rng(11)
    families = list(FAMILIES.values())
    history.nights(
        {(f"entry_{number}", "time_s"): families[number % 6](random, 60, 0.03).tolist() for number in range(100)}
    )
    result = history.ask("regressions")
    assert (result.exit_code, result.output.splitlines()[0]) == (0, NOTHING.format(100))
    site = history.folder / "site"
    assert history.ask("report", "--out", site).exit_code == 0
    overview = (site / "index.html").read_text()
    for what in ("regressions", "drift", "broken", "improvements"):
        (section,) = re.findall(rf'<section aria-labelledby="{what}">.*?</section>', overview, re.DOTALL)
        assert re.search(r">(None|Nothing)\.</p>", section)


def test_noise_that_hides_everything_is_told_without_numbers_nobody_can_use(history: History) -> None:
    random = np.random.default_rng(2)
    history.nights({("sort", "time_s"): np.exp(2.5 * random.standard_normal(9)).tolist()})
    assert re.search(r"time_s .* over ×10 ", history.ask("history", "sort").output)
    for words in (["regressions"], ["history", "sort", "--metric", "time_s"]):
        output = history.ask(*words).output
        assert re.search(r"too noisy to judge: with noise of \d+% and 8 runs, even twice as much may be missed", output)
        assert "changes below" not in output
        assert not re.search(r"\d{4,}(\.\d)?%", output), output


def test_an_improvement_is_told_and_is_no_reason_to_fail(history: History) -> None:
    history.nights({("sort", "rows_per_s"): noisy((100.0, 40), (120.0, 20))})
    (found,) = history.regressions()
    assert found["kind"] == "improvement"
    assert history.ask("regressions").exit_code == 0


def test_what_later_runs_have_undone_is_not_open(history: History) -> None:
    history.nights({("sort", "time_s"): noisy((1.0, 40), (1.2, 20), (1.0, 20))})
    assert [one["kind"] for one in history.regressions()] == ["regression", "improvement"]
    result = history.ask("regressions")
    assert result.exit_code == 0
    assert "recovered" in result.output


def test_what_was_undone_once_is_not_what_is_open_now(history: History) -> None:
    history.nights({("sort", "time_s"): noisy((1.0, 30), (1.2, 20), (1.0, 20), (1.2, 20))})
    found = re.findall(
        r"^(regression|improvement) .-\w+( \(\w+\))? since", history.ask("regressions").output, re.MULTILINE
    )
    assert found == [("regression", " (recovered)"), ("improvement", ""), ("regression", " (open)")]


def test_what_came_from_zero_is_open_until_it_is_zero_again(history: History) -> None:
    history.nights({("sort", "errors_bytes"): [0.0] * 20 + [1e-9] * 10})
    result = history.ask("regressions")
    assert result.exit_code == 1
    assert re.search(r"from zero +- +0 B +1e-09 B +open", result.output)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--metric", "tmie_s"), "no run has measured 'tmie_s'; did you mean 'time_s'?"),
        (("--branch", "main"), "no run of a branch 'main' is recorded"),
        (("--since", "99999999999d"), "found '99999999999d', which is too long ago"),
        (("--since", "foo"), "--since: found 'foo', expected a day"),
        *(
            (("--min-effect", share), f"found '{share}', expected a share")
            for share in ("nan", "-3%", "1e999", "3%x", "")
        ),
    ],
    ids=" ".join,
)
def test_a_question_that_cannot_be_answered_is_no_answer(
    history: History, words: tuple[str, ...], problem: str
) -> None:
    history.nights({("sort", "time_s"): noisy((1.0, 40), (1.2, 20))})
    result = history.ask("regressions", *words)
    assert result.exit_code == 2
    assert problem in result.output


def test_commits_of_others_do_not_steer_the_terminal(history: History) -> None:
    commits = ["\x1b[31mRED\x1b]0;title\x07"] * 20 + ["x\ny"] * 20
    history.nights({("sort", "time_s"): noisy((1.0, 20), (1.5, 20))}, commits=commits)
    output = history.ask("regressions", "--repo", history.folder).output
    assert "\x1b" not in output
    assert f"({history.folder} is no checkout that has them)" in output


def test_what_is_accepted_is_closed_until_it_gets_worse_again(history: History) -> None:
    history.nights({("sort", "time_s"): noisy((1.0, 40), (1.2, 20))})
    assert history.ask("regressions").exit_code == 1
    said = history.ask("accept", "sort", "time_s", "--why", "it checks its input now")
    assert said.exit_code == 0, said.output
    assert "accepted: sort time_s +" in said.output
    assert history.regressions() == []
    assert "accepted" in history.ask("regressions", "--all").output
    history.nights({("sort", "time_s"): noisy((1.0, 40), (1.2, 20), (1.5, 20))}, branch="later")
    assert history.ask("regressions").exit_code == 1


def test_who_accepts_a_metric_hears_what_keeps_its_finding_open(history: History) -> None:
    slower = {("sort", name): noisy((1.0, 40), (1.2, 20), seed=seed) for seed, name in enumerate(("read_s", "write_s"))}
    history.nights(slower)
    said = history.ask("accept", "sort", "read_s", "--why", "it checks its input now").output
    (named,) = re.findall(r"^(r-\w+) stays open for sort write_s: `curator-bench accept r-\w+` closes all", said, re.M)
    assert history.ask("accept", named, "--why", "the same").exit_code == 0
    assert history.regressions() == []


def test_only_what_is_open_can_be_accepted(history: History) -> None:
    history.nights({("sort", "time_s"): noisy((1.0, 40))})
    for words in (("sort", "time_s"), ("sort", "tmie_s"), ("srot", "time_s")):
        assert history.ask("accept", *words, "--why", "x").exit_code == 1
    assert "did you mean 'time_s'" in str(history.ask("accept", "sort", "tmie_s", "--why", "x").exception)
    assert history.ask("accept", "sort", "time_s", "--why", " ").exit_code == 2


def test_an_acceptance_survives_a_merge(history: History) -> None:
    history.nights({("sort", "time_s"): noisy((1.0, 40), (1.2, 20))})
    history.ask("accept", "sort", "time_s", "--why", "meant")
    other = history.folder / "other.db"
    result = history.say("merge", "--help")
    assert result.exit_code == 0
    merged = history.say("merge", history.db, "--into", other)
    assert merged.exit_code == 0, merged.output
    assert history.say("regressions", "--db", other).exit_code == 0


def test_since_and_metric_and_direction_narrow_what_is_shown(history: History) -> None:
    history.nights(
        {
            ("sort", "time_s"): noisy((1.0, 40), (1.2, 30)),
            ("sort", "peak_bytes"): noisy((1e9, 20), (2e9, 50), seed=1),
            ("sort", "widgets"): noisy((10.0, 40), (5.0, 30), seed=2),
        }
    )
    assert {one["metric"] for one in history.regressions()} == {"time_s", "peak_bytes"}
    assert "widgets" in history.ask("regressions").output
    assert {one["metric"] for one in history.regressions("--since", "2026-01-30")} == {"time_s"}
    assert {one["metric"] for one in history.regressions("--metric", "peak_bytes")} == {"peak_bytes"}
    assert {one["metric"] for one in history.regressions("--better", "more", "--metric", "widgets")} == {"widgets"}
    assert history.ask("regressions", "--since", "yesterday").exit_code == 2


def test_a_branch_can_be_looked_at_by_itself(history: History) -> None:
    history.nights({("sort", "time_s"): noisy((1.0, 40))}, branch="main", session="main")
    history.nights({("sort", "time_s"): noisy((1.0, 20), (1.3, 20), seed=1)}, branch="topic", session="topic")
    assert history.regressions("--branch", "main") == []
    (found,) = history.regressions("--branch", "topic")
    assert found["change"] == pytest.approx(0.3, abs=0.03)
    result = history.ask("regressions", "--branch", "topci")
    assert (result.exit_code, "did you mean 'topic'" in result.output) == (2, True)
    assert history.ask("accept", "sort", "time_s", "--branch", "topic", "--why", "meant").exit_code == 0
    assert history.regressions("--branch", "topic") == []


def test_what_is_no_longer_measured_is_said(history: History) -> None:
    ended = [*noisy((1.0, 20), seed=1), *[float("nan")] * 3, *[float("inf")] * 2]
    history.nights({("sort", "time_s"): noisy((1.0, 25)), ("load", "time_s"): ended})
    result = history.ask("regressions")
    assert (result.exit_code, result.output) == (
        0,
        f"{NOTHING.format(2)}\nNot comparable, because the newest runs measured no number: load time_s (5 runs)\n",
    )


def test_what_cannot_be_said_is_no_regression(history: History) -> None:
    assert history.ask("regressions").exit_code == 2
    assert history.ask("compare", "a", "b", "--fail").exit_code == 2


def test_machines_are_not_mixed(history: History) -> None:
    history.nights({("sort", "time_s"): noisy((1.0, 40))}, machine="slow")
    history.nights({("sort", "time_s"): noisy((0.5, 40), seed=1)}, machine="fast")
    assert history.regressions() == []


def test_the_commits_between_are_listed_where_the_repository_is_at_hand(history: History, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()

    def git(*words: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *identity, *words], cwd=repo, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q")
    commits = []
    for night in range(60):
        git("commit", "-q", "--allow-empty", "-m", f"change {night}")
        commits.append(git("rev-parse", "HEAD"))
    history.nights({("sort", "time_s"): noisy((1.0, 40), (1.5, 20), spread=0.01)}, commits=commits)
    output = history.ask("regressions", "--repo", repo).output
    assert f"{commits[39][:12]}..{commits[40][:12]}" in output
    assert "change 40" in output
    assert "change 39" not in output


def test_branches_are_compared(history: History) -> None:
    series = {("sort", "time_s"): noisy((1.0, 20)), ("load", "rows_per_s"): noisy((100.0, 20), seed=1)}
    history.nights(series, branch="main", session="before")
    series = {("sort", "time_s"): noisy((1.2, 6), seed=2), ("load", "rows_per_s"): noisy((100.0, 6), seed=3)}
    history.nights(series, branch="topic", session="after")
    result = history.ask("compare", "main", "topic")
    assert result.exit_code == 0, result.output
    first, second, *_ = (line.split() for line in result.output.splitlines()[1:])
    assert (first[0], first[-1]) == ("sort", "regression")
    assert (second[0], second[-1]) == ("load", "change")
    assert history.ask("compare", "main", "topic", "--fail").exit_code == 1
    assert history.ask("compare", "topic", "main", "--fail").exit_code == 0
    (sort,) = (
        one for one in json.loads(history.ask("compare", "before", "after", "--json").output) if one["entry"] == "sort"
    )
    assert sort["verdict"] == "regression"
    assert sort["interval"][0] < 0.2 < sort["interval"][1]


def test_commits_are_compared_and_what_only_one_measured_is_named(history: History) -> None:
    history.nights({("sort", "time_s"): noisy((1.0, 20))}, commits=[commit(1)] * 20)
    series = {("sort", "time_s"): noisy((1.3, 6), seed=2), ("load", "time_s"): [1.0], ("load", "widgets"): [1.0]}
    history.nights(series, commits=["abcdef12" + "0" * 32] * 6, session="after")
    result = history.ask("compare", commit(1), "abcdef12", "--fail")
    assert result.exit_code == 1, result.output
    assert result.output.splitlines()[1].split()[-1] == "regression"
    assert result.output.splitlines()[-1] == "only abcdef12 measured load time_s"
    assert "\nonly after measured load time_s\n" in history.ask("compare", commit(1), "after", "--markdown").output


def test_a_comparison_is_a_table_for_a_pull_request(history: History) -> None:
    history.nights({("so|rt<b>", "time_s"): noisy((1.0, 20))}, session="a")
    history.nights({("so|rt<b>", "time_s"): noisy((1.3, 6), seed=2)}, session="b")
    output = history.ask("compare", "a", "b", "--markdown").output
    assert output.startswith("**1 regression, 0 improvements** in 1 metric\n\n| entry | metric | a | b |")
    assert "so\\|rt&lt;b&gt;" in output
    assert "🔴 regression" in output


def test_databases_are_compared(history: History) -> None:
    other = history.folder / "other.db"
    history.nights({("sort", "time_s"): noisy((1.0, 20))})
    history.nights({("sort", "time_s"): noisy((1.3, 8), seed=4)}, db=other)
    assert history.say("compare", history.db, other, "--fail").exit_code == 1
    assert history.say("compare", history.db, history.db, "--fail").exit_code == 0


def test_two_runs_without_a_history_are_not_judged(history: History) -> None:
    history.nights({("sort", "time_s"): [1.0]}, session="a")
    history.nights({("sort", "time_s"): [2.0]}, session="b")
    result = history.ask("compare", "a", "b", "--fail")
    assert result.exit_code == 0
    assert "not enough history" in result.output


def test_what_is_not_comparable_says_why(history: History) -> None:
    history.nights({("sort", "time_s"): noisy((1.0, 20))}, session="a", machine="one")
    history.nights({("sort", "time_s"): noisy((2.0, 20))}, session="b", machine="two")
    output = history.ask("compare", "a", "b").output
    assert "not comparable because the machine was one, not two" in output


def test_an_unknown_side_names_the_nearest(history: History) -> None:
    history.nights({("sort", "time_s"): noisy((1.0, 20))}, session="nightly", branch="main")
    result = history.ask("compare", "nihgtly", "main")
    assert result.exit_code == 2
    assert "did you mean 'nightly'" in result.output


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("a", "a"), "every session of a is also one of a"),
        (("a", "c"), "no common metric with a known better direction\nonly a measured sort time_s\n"),
        (("a", "b", "--metric", "tmie_s"), "no run has measured 'tmie_s'; did you mean 'time_s'?"),
    ],
)
def test_what_cannot_be_compared_says_why(history: History, words: tuple[str, ...], problem: str) -> None:
    for session, value in zip("abc", (1.0, 1.0, float("inf")), strict=True):
        history.nights({("sort", "time_s"): [value] * 5}, session=session)
    result = history.ask("compare", *words)
    assert result.exit_code == 2
    assert problem in result.output


def test_json_lists_drift_only_where_it_is_asked_for(history: History) -> None:
    """Who reads a step with its commit from each object must not meet one that has none."""
    crept = [1.002**night * value for night, value in enumerate(noisy((1.0, 120), seed=2, spread=0.01))]
    history.nights({("sort", "time_s"): crept})
    assert all("commit" in one["since"] for one in history.regressions("--all"))
    assert [one["kind"] for one in history.regressions("--drift")].count("drift") == 1
