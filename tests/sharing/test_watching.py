"""Issues of findings: one for each, at most so many a day, brought up to date, closed when the finding is over."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cli.nights import History, noisy
from scratch_repository import make_repository
from sharing.shared_records import command
from stand_ins.code_hosts import OTHERS, US, CodeHost

from curator_bench.causes.finding_changes import changes_of
from curator_bench.causes.findings import RecordedFinding
from curator_bench.causes.judged_history import JudgedHistory, Query, judge_history
from curator_bench.causes.wording import no_log
from curator_bench.cli.databases import reading
from curator_bench.errors import BenchError
from curator_bench.sharing.issue_texts import Cause, Surroundings
from curator_bench.sharing.issues import LABEL, Mark, tracker_of
from curator_bench.sharing.measured_causes import cause_of
from curator_bench.sharing.watching import Watch, in_turn

FOUND = Cause(("The first bad commit is abc", "  @somebody made it slower"), is_confirmed=True, is_explained=True)
SUSPECTS = Cause(("It is worse",), is_confirmed=True, is_explained=False)
NOT_WORSE = Cause(("Measured again, it is not worse.",), is_confirmed=False, is_explained=True)


class Record:
    """A record of nights, and one watch after the other."""

    def __init__(self, folder: Path, host: CodeHost) -> None:
        self.history, self.host = History(folder), host
        self.looked_into: list[str] = []
        self.told: list[str] = []
        self.now = datetime.now(UTC)

    def judged(self) -> tuple[JudgedHistory, Surroundings]:
        with reading(str(self.history.folder / "benchmark.db")) as opened, opened.reading() as connection:
            judged = judge_history(connection, Query())
            return judged, Surroundings(changes_of(connection, in_turn(judged)), no_log)

    def watch(self, cause: Cause | Callable[[RecordedFinding], Cause | None] | None = FOUND, most: int = 10) -> int:
        def look_into(finding: RecordedFinding) -> Cause | None:
            self.looked_into.append(finding.largest.entry.name)
            return cause(finding) if callable(cause) else cause

        judged, around = self.judged()
        tracker = tracker_of(self.host.environment)
        return Watch(tracker, look_into, around, most, self.told.append, now=lambda: self.now).run(judged)


@pytest.fixture
def record(tmp_path: Path, code_host: CodeHost) -> Record:
    return Record(tmp_path, code_host)


def slower(by: float, seed: int = 0) -> list[float]:
    return noisy((1.0, 40), (1.0 + by, 20), seed=seed)


def test_a_regression_gets_one_issue_which_names_its_cause(record: Record) -> None:
    record.history.nights({("sort", "time_s"): slower(0.2)})
    assert record.watch() == 0
    (text,) = record.host.texts()
    assert "sort time_s" in text
    assert "The first bad commit is abc" in text
    assert "| sort | time_s |" in text
    said = list(record.host.asked)
    assert record.watch() == 0
    assert record.looked_into == ["sort"], "it is explained"
    assert [one for one in record.host.asked[len(said) :] if not one.startswith("GET") and "graphql" not in one] == []


def test_what_is_known_later_is_written_into_the_issue_and_told_once(record: Record) -> None:
    record.history.nights({("sort", "time_s"): slower(0.2)})
    assert record.watch(SUSPECTS) == 1
    assert record.watch(None) == 1, "no time is left: the issue stays as it is"
    assert ["It is worse" in text for text in record.host.texts()] == [True]
    assert record.watch(FOUND) == 0
    (issue,) = record.host.issues
    assert ["first bad commit" in text for text in record.host.texts()] == [True]
    assert issue["notes"] == ["The cause is known now. The text above names it."]


def test_the_largest_and_surest_come_first_and_no_more_a_day_than_asked(record: Record) -> None:
    steps = {"small": (0.1, 20), "large": (0.5, 30), "middle": (0.3, 40), "refuted": (0.2, 50)}
    record.history.nights(
        {(name, "time_s"): noisy((1.0, night), (1 + by, 70 - night), seed=night) for name, (by, night) in steps.items()}
    )

    def cause(finding: RecordedFinding) -> Cause:
        return NOT_WORSE if finding.largest.entry.name == "refuted" else FOUND

    assert record.watch(cause, most=2) == 1, record.told
    assert record.looked_into == ["large", "middle", "refuted", "small"]
    assert len(record.host.texts()) == 2
    assert "2 issues were opened in 24 hours" in record.told[-1]
    record.now += timedelta(days=1, minutes=1)
    assert record.watch(cause, most=2) == 0
    titles = [issue["title"].split()[1] for issue in record.host.issues]
    assert titles == ["large", "middle", "small"]


@pytest.mark.parametrize("later", ["recovered", "accepted"])
def test_an_issue_is_closed_when_its_finding_is_over(record: Record, later: str) -> None:
    record.history.nights({("sort", "time_s"): slower(0.2)})
    record.watch()
    if later == "accepted":
        assert record.history.ask("accept", "sort", "time_s", "--why", "wanted").exit_code == 0
    else:
        record.history.nights({("sort", "time_s"): noisy((1.0, 40), (1.2, 20), (1.0, 20))})
    assert record.watch() == 0
    assert record.host.texts() == []
    (issue,) = record.host.issues
    assert later in issue["notes"][0]
    record.watch()
    assert len(issue["notes"]) == 1


def test_an_issue_that_a_person_closed_stays_closed_and_those_of_others_do_not_count(record: Record) -> None:
    record.history.nights({("sort", "time_s"): slower(0.2)})
    judged, _ = record.judged()
    (finding,) = in_turn(judged)
    mark = Mark(finding.name, (("m.yaml", "sort", "time_s"),), is_explained=True)
    record.host.open_issue(OTHERS, "a trap", f"{mark.line}\ntext", [LABEL])
    record.host.open_issue(US, "another", "no mark", [LABEL])
    record.watch()
    assert len(record.host.issues) == 3
    record.host.issues[-1]["state"] = "closed"
    record.watch()
    assert (record.host.issues[-1]["state"], len(record.host.issues)) == ("closed", 3)


def test_another_record_closes_nothing(record: Record, tmp_path: Path, code_host: CodeHost) -> None:
    record.history.nights({("sort", "time_s"): slower(0.2)})
    record.watch()
    (tmp_path / "other").mkdir()
    other = Record(tmp_path / "other", code_host)
    other.history.nights({("join", "time_s"): noisy((1.0, 40))})
    other.watch()
    assert len(code_host.texts()) == 1


def test_an_answer_that_is_lost_makes_no_second_issue(record: Record) -> None:
    record.history.nights({("sort", "time_s"): slower(0.2)})
    method = "POST"
    record.host.failures = [(method, 502)]
    record.watch()
    assert len(record.host.issues) == 1


def test_labels_are_there_or_the_issue_would_not_be_found_again(record: Record) -> None:
    record.history.nights({("sort", "time_s"): slower(0.2)})
    record.host.drops_labels = record.host.system == "github"
    record.watch()
    record.watch()
    assert len(record.host.issues) == 1


def test_no_permission_is_told_without_the_token(record: Record) -> None:
    record.history.nights({("sort", "time_s"): slower(0.2)})
    record.host.refuses = 403
    with pytest.raises(BenchError, match="no permission") as told:
        record.watch()
    assert "planted-token" not in str(told.value)


def test_a_mark_survives_any_name() -> None:
    mark = Mark("r-1", (("a --> b.yaml", "<!-- x -->", 'm"e'),), ("-->", "ä\n"), is_explained=True)
    assert "-->" not in mark.line[:-3]
    assert Mark.of(f"{mark.line}\r\nrest") == mark
    assert Mark.of("<!-- curator-bench finding {} -->") is None
    assert Mark.of("text") is None


def test_what_bisect_says_becomes_a_cause() -> None:
    tried = [{"commit": "abc", "subject": "Change 3"}]
    ends = {"metric": "time_s", "change": 0.5, "interval": [0.4, 0.6]}
    measured = "Measured again, time_s +50.0% (95 % interval +40.0% to +60.0%)"
    assert cause_of(0, {"culprit": "abc", "tried": tried, **ends}) == Cause(
        ("The first bad commit is abc", "  Change 3", measured), is_confirmed=True, is_explained=True
    )
    packages = cause_of(0, {"culprits": [{"name": "p", "a": None, "b": "2"}], **ends})
    assert packages
    assert packages.lines == ("Packages:", "  p not installed → 2", measured)
    assert cause_of(4, {}) is None
    undecided = cause_of(4, {"difference": "inconclusive"})
    assert undecided
    assert not undecided.is_confirmed
    suspected = cause_of(4, {"difference": "regression", "suspects": ["abc", "def"]})
    assert suspected
    assert (suspected.is_confirmed, suspected.is_explained) == (True, False)
    failed = cause_of(1, {})
    assert failed
    assert not failed.is_confirmed, "nothing was measured"


@pytest.mark.slow
def test_after_two_nights_the_guilty_commit_is_in_an_issue(tmp_path: Path, github: CodeHost) -> None:
    repository = make_repository(tmp_path / "project", seed=5, slower_at=3, by=1.0, commits=4)
    record = tmp_path / "record.db"
    for tag in ("c1", "c4"):
        repository.git("checkout", "--quiet", tag)
        night = ("nightly", "--record", record, "--site", "", "--confirm", "0", "--", "benchmarks", "--bench-runs", "8")
        command(*night, cwd=repository.folder, WORK=f"results/{tag}")

    def watch(*words: str) -> subprocess.CompletedProcess[str]:
        return command("watch", "--record", record, *words, cwd=repository.folder, **github.environment)

    assert command("watch", "--record", record, "--dry-run", cwd=repository.folder).stdout.startswith("# regression: ")
    stopped = watch("--budget", "1.2s")
    assert (stopped.returncode, github.texts()) == (0, []), stopped.stderr
    assert "1 regression waits for the next time" in stopped.stderr
    done = watch("--budget", "1h")
    assert done.returncode == 0, done.stderr
    (text,) = github.texts()
    guilty = repository.git("rev-parse", "c3")
    assert f"The first bad commit is {guilty}\n  Change 3" in text
    again = watch()
    assert (again.returncode, "measuring" in again.stderr, len(github.issues)) == (0, False, 1)
    assert "nothing new" in again.stderr
    dry = watch("--dry-run")
    assert (dry.returncode, dry.stdout) == (0, ""), "the issue that is there is read"
    assert "dry run: " in dry.stderr
    assert "nothing new" in dry.stderr
    github.issues.clear()
    (repository.folder / "package.py").write_text("changed by hand\n")
    refused = watch()
    assert (refused.returncode, github.issues) == (1, []), "nothing was measured, so nothing is confirmed"
    assert "has changes that are not committed" in refused.stderr
    repository.git("checkout", "--quiet", "package.py")
    assert repository.stands()[1] == repository.git("rev-parse", "c4")


def test_mistakes_are_told_in_a_line(tmp_path: Path, github: CodeHost) -> None:
    nowhere = command("watch", cwd=tmp_path)
    assert (nowhere.returncode, "this is no job of GitHub Actions or GitLab CI" in nowhere.stderr) == (1, True)
    empty = command("watch", cwd=tmp_path, **github.environment)
    assert (empty.returncode, "there is no record at record.db yet" in empty.stderr) == (1, True)
