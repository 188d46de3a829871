"""`curator-bench why` names the stage that made an entry slower, for every way to name two sides."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from causes.pipelines import record, runs
from causes.profiled import profiles, record_hunt, record_profiles
from cli.nights import History, commit

from curator_bench.causes.matched_stages import StagedRun

NIGHTS, SLOWER_SINCE = 24, 14


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """Nights of a serial pipeline whose third stage took 40 % longer from one night on, and of one without stages."""
    made = History(tmp_path_factory.mktemp("why"))
    found = [*runs(SLOWER_SINCE), *runs(NIGHTS - SLOWER_SINCE, slower={2: 1.4}, seed=1)]
    record(made, found, path="pipelines.yaml")
    made.nights({("bare", "time_taken_s"): [1.0 + 0.001 * night for night in range(NIGHTS)]})
    return made


def document(history: History, *words: object) -> dict[str, Any]:
    result = history.ask("why", "--json", *words)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def refusal(history: History, *words: object) -> str:
    result = history.ask("why", *words)
    assert result.exit_code != 0
    assert "Traceback" not in result.output
    return str(result.exception) if result.exit_code == 1 and result.exception else result.output


def finding(history: History) -> str:
    return str(history.regressions("--metric", "time_taken_s")[0]["finding"])


def test_the_open_regression_of_an_entry_is_explained_by_its_stage_and_what_else_changed(history: History) -> None:
    output = history.ask("why", "pipeline").output
    assert "regression: stage_2 +4" in output
    assert ": regression, from 1" in output
    assert "(unexplained)" in output
    assert "what else changed:" in output
    assert "commits " in output
    ends = f"--good {commit(SLOWER_SINCE - 1)[:12]} --bad {commit(SLOWER_SINCE)[:12]}"
    command = f"curator-bench bisect {ends} --entry pipeline --metric exec_time_s"
    assert f"To find the cause:\n  which commit: {command}\n" in output
    assert document(history, "pipeline")["commands"] == [{"tells": "which commit", "command": command}]
    (regression,) = history.regressions("--metric", "time_taken_s")
    assert regression["commands"][0]["command"].startswith(f"curator-bench bisect {ends} --entry pipeline --metric ")
    rows = [line for line in output.splitlines() if line.startswith(("stage_", "(unexplained)"))]
    assert rows[0].startswith("stage_2")
    assert rows[-1].startswith("(unexplained)")


def test_every_way_to_name_the_two_sides_leads_to_the_same_stage(history: History) -> None:
    name = finding(history)
    since = commit(SLOWER_SINCE)
    for words in (
        ["pipeline"],
        ["pipeline", "time_taken_s"],
        [name],
        ["pipeline", name],
        ["pipeline", "--since", since],
        ["pipeline", "time_taken_s", "--since", "2026-01-15"],
    ):
        found = document(history, *words)
        assert found["named"] == ["stage_2"], words
        assert found["entry"] == "pipeline"
        assert found["stages"][0]["work"]["verdict"] == "regression"
        assert min(found["runs"]) >= 8


def test_two_sessions_of_one_run_each_say_how_many_more_would_tell(history: History) -> None:
    found = document(history, "pipeline", commit(0), commit(NIGHTS - 1))
    assert (found["named"], found["runs"]) == ([], [1, 1])
    assert found["decides"].startswith("2 more runs on each side at least")
    assert {stage["work"]["verdict"] for stage in found["stages"]} == {"inconclusive"}
    assert document(history, "pipeline", "time_taken_s", commit(0), commit(1))["metric"] == "time_taken_s"


def test_the_document_has_what_the_manual_says(history: History) -> None:
    found = document(history, "pipeline")
    assert found["schema_version"] == 1
    manual = (Path(__file__).parents[2] / "docs" / "files.md").read_text()
    section = manual.split("### Explanations as JSON")[1].split("\n## ")[0]
    stage = found["stages"][0]
    names = {*found, *stage, *stage["work"], *stage["wall"], *stage["before"], *found["before"][0]}
    assert [name for name in sorted(names) if f"`{name}`" not in section] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pipelin"], "did you mean 'pipeline'"),
        (["pipeline", "time_takn_s"], "did you mean 'time_taken_s'"),
        (["pipeline", "nothing", commit(0), commit(1)], "pipeline has no metric 'nothing'"),
        (["r-000000"], "no finding is named 'r-000000'"),
        (["bare"], "no regression of bare is open; name two sides"),
        (["bare", commit(0), commit(1)], "recorded stages"),
        (["bare", "--since", commit(SLOWER_SINCE)], "Measure this side again"),
        (["pipeline", commit(0), commit(0)], "there is nothing to compare"),
        (["pipeline", commit(0), "unknown"], "no session, branch or commit 'unknown' is recorded"),
        (["pipeline", "--since", "unknown"], "--since: found 'unknown'"),
        (["pipeline", "--since", "2020-01-01"], "no run of pipeline before 2020-01-01"),
        (["pipeline", "a", "b", "--since", "2026-01-15"], "name either A and B or --since"),
        (["pipeline", "a", "b", "c", "d"], "expected ENTRY [METRIC] [A B]"),
        (["pipeline", "--machine", "other"], "no run on a machine 'other' is recorded"),
        (["pipeline", "--since", "2026-01-15", "--machine", "other"], "no run on a machine 'other' is recorded"),
        ([], "Missing argument"),
    ],
)
def test_each_wrong_use_gets_one_clear_message(history: History, words: list[str], said: str) -> None:
    assert said in refusal(history, *words)


def test_runs_of_another_machine_are_not_mixed_in(tmp_path: Path) -> None:
    history = History(tmp_path)
    record(history, [*runs(8), *runs(8, slower={0: 1.5}, seed=1)], machine="one")
    record(history, [*runs(8, seed=2), *runs(8, slower={3: 3.0}, seed=3)], machine="two")
    for machine, guilty in (("one", "stage_0"), ("two", "stage_3")):
        output = history.ask("why", "pipeline", "--since", "2026-01-09", "--machine", machine).output
        assert f"regression: {guilty}" in output
    sides = ("--machine", "one"), ("--machine", "two")
    both = [history.ask("why", "pipeline", commit(0), commit(15), *words).output for words in sides]
    assert "from 1 run and 1 run" in both[0]
    assert both[0] != both[1]


def test_runs_of_another_branch_are_not_mixed_in(tmp_path: Path) -> None:
    history = History(tmp_path)
    for place, (branch, slower) in enumerate((("main", 0), ("topic", 3))):
        found = [*runs(14, seed=place), *runs(10, slower={slower: 3.0}, seed=place + 2)]
        commits = [commit(100 * place + night) for night in range(24)]
        record(history, found, branch=branch, commits=commits)
    for words in ((), ("--since", "2026-01-15")):
        for branch, guilty in (("main", "stage_0"), ("topic", "stage_3")):
            assert document(history, "pipeline", *words, "--branch", branch)["named"] == [guilty]
    assert "did you mean 'topic'" in refusal(history, "pipeline", "--branch", "topi")


def test_runs_without_stages_are_left_out_and_counted(tmp_path: Path) -> None:
    history = History(tmp_path)
    found = [*runs(8), *runs(8, slower={0: 1.5}, seed=1)]
    found[0] = StagedRun(stages=(), wall_s=found[0].wall_s)
    record(history, found)
    output = history.ask("why", "pipeline", "--since", "2026-01-09").output
    assert "from 7 runs and 8 runs" in output
    assert "left out: 1 run without stages" in output


CLEAN = {"main:run;words:clean": 1.5}


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> History:
    """Nights of an entry with stages and profiles, and of one with profiles only; `words:clean` takes longer later."""
    made = History(tmp_path_factory.mktemp("why_profiled"))
    record(made, [*runs(SLOWER_SINCE), *runs(NIGHTS - SLOWER_SINCE, slower={2: 1.4}, seed=1)])
    made.nights({("bare", "time_taken_s"): [1.0 + 0.001 * night for night in range(NIGHTS)]})
    for entry in ("pipeline", "bare"):
        none = [None] * (SLOWER_SINCE - 2)
        record_profiles(made, entry, [*none, *profiles(2, seed=1), *profiles(3, seed=2, slower=CLEAN)])
    return made


def test_after_the_stage_comes_the_function(profiled: History) -> None:
    output = profiled.ask("why", "pipeline").output
    assert output.index("regression: stage_2 +4") < output.index("by functions (py-spy): ")
    assert "regression: computing in words:clean, called by main:run +" in output
    assert output.index("FUNCTION") < output.index("what else changed:")
    assert "--bench-profile" not in output
    found = document(profiled, "pipeline")
    assert found["named"] == ["stage_2"]
    (functions,) = found["functions"]
    assert (functions["certainty"], functions["named"][0]["function"]) == ("certain", "words:clean")
    assert min(found["profiled_runs"]) >= 2


def test_the_profiles_of_a_bisect_between_the_same_commits_explain_a_regression(tmp_path: Path) -> None:
    made = History(tmp_path)
    record(made, [*runs(SLOWER_SINCE), *runs(NIGHTS - SLOWER_SINCE, slower={2: 1.4}, seed=1)])
    record_hunt(made, "pipeline", "bisect-1-good-profile", commit(SLOWER_SINCE - 1), profiles(2, seed=1))
    assert "no run has a profile" in made.ask("why", "pipeline").output, "one end alone"
    record_hunt(made, "pipeline", "bisect-1-bad-profile", commit(SLOWER_SINCE), profiles(2, seed=2, slower=CLEAN))
    output = made.ask("why", "pipeline").output
    assert "profiled at two commits, in bisect-1-good-profile and bisect-1-bad-profile:\nby functions" in output
    assert "regression: computing in words:clean, called by main:run +" in output
    assert document(made, "pipeline")["profiled_sessions"] == ["bisect-1-good-profile", "bisect-1-bad-profile"]
    assert made.ask("report", "--out", tmp_path / "site").exit_code == 0
    link = re.search(
        r'href="(profiles/pipeline-\w+.html)#run=(\w+)&amp;before=(\w+)"', (tmp_path / "site/index.html").read_text()
    )
    assert link
    shown = (tmp_path / "site" / "data" / link[1].replace(".html", ".js")).read_text()
    assert all(uid in shown for uid in link.groups()[1:])


def test_without_stages_the_functions_are_named_all_the_same(profiled: History) -> None:
    output = profiled.ask("why", "bare", "--since", commit(SLOWER_SINCE)).output
    assert "regression: computing in words:clean" in output
    assert "what else changed:" in output
    found = document(profiled, "bare", "--since", commit(SLOWER_SINCE))
    assert "stages" not in found
    assert found["functions"][0]["named"][0]["time"] == "computing"


def test_where_profiles_are_missing_it_says_how_to_record_them(history: History, profiled: History) -> None:
    output = history.ask("why", "pipeline").output
    assert "no run has a profile; profiles of both sides tell which function it is: `pytest" in output
    assert "--benchmark --bench-profile py-spy -k pipeline`" in output
    words = commit(SLOWER_SINCE), commit(NIGHTS - 1)
    assert "no run after has a profile" in profiled.ask("why", "pipeline", *words).output


def test_the_functions_of_the_document_have_what_the_manual_says(profiled: History) -> None:
    (functions,) = document(profiled, "pipeline")["functions"]
    manual = (Path(__file__).parents[2] / "docs" / "files.md").read_text()
    section = manual.split("### Explanations as JSON")[1].split("\n## ")[0]
    names = {"functions", "profiled_runs", *functions, *functions["named"][0]}
    assert [name for name in sorted(names) if f"`{name}`" not in section] == []
