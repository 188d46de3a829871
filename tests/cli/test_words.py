"""Every command, page and file says the same word of a metric, and what its judgement could have seen."""

from __future__ import annotations

import html
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from curator_bench.cli import group

WORDS = {"regression", "improvement", "no change", "inconclusive", "no history", "not comparable"}
OLDER = re.compile(
    r"\b(unsure|suspects?|not certain|got worse|got better|\d+ (worse|better)|met|shifts?|level$|same$|differs?$)\b",
    re.IGNORECASE,
)
EXPECTED = {
    "slower": "no change",
    "slowest": "regression",
    "faster": "no change",
    "steady": "no change",
    "doubtful": "inconclusive",
    "young": "no history",
}
"""What the newest runs say: where the new level is ten runs old, it is what they are held against."""
FIRST = datetime(2026, 1, 1, 3, tzinfo=UTC)


def noisy(*levels: tuple[float, int], seed: int = 0, spread: float = 0.01) -> list[float]:
    places = np.repeat([level for level, _ in levels], [runs for _, runs in levels])
    values = places * (1 + spread * np.random.default_rng(seed).standard_normal(len(places)))
    return [float(value) for value in values]


class Recorded:
    """A database of sessions n0, n1, …, one a day."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lines: list[dict[str, Any]] = []

    def add(self, name: str, values: Sequence[float], metric: str = "time_s", first: int = 0, **more: Any) -> None:
        """A value a session, from session `first` on."""
        for day, value in enumerate(values, first):
            when = {
                "time": (FIRST + timedelta(days=day)).isoformat(),
                "session": f"n{day}",
                "commit": f"{day + 1:040x}",
            }
            self._lines.append({"name": name, "metric": metric, "value": value, **when, **more})

    def ask(self, *words: object) -> Result:
        """Run a subcommand on all that was added."""
        file = self.folder / "lines.jsonl"
        if self._lines:
            file.write_text("".join(json.dumps(line) + "\n" for line in self._lines))
            self._lines.clear()
            assert CliRunner().invoke(group, ["import", str(file), "--db", self.db]).exit_code == 0
        return CliRunner().invoke(group, [*map(str, words), "--db", self.db])

    @property
    def db(self) -> str:
        return str(self.folder / "benchmark.db")

    def json(self, *words: object) -> Any:
        result = self.ask(*words, "--json")
        assert result.exit_code in (0, 1), result.output
        return json.loads(result.stdout)


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)


@pytest.fixture
def all_kinds(recorded: Recorded) -> Recorded:
    """Sixty sessions with a result of every kind in the last of them."""
    recorded.add("slower", noisy((1.0, 50), (1.3, 10)))
    recorded.add("slowest", noisy((1.0, 59), (12.0, 1), seed=1))
    recorded.add("faster", noisy((100.0, 50), (130.0, 10), seed=2), "rows_per_s")
    recorded.add("steady", noisy((1.0, 60), seed=3))
    recorded.add("doubtful", noisy((1.0, 59), (1.08, 1), seed=42, spread=0.02))
    recorded.add("young", noisy((1.0, 3), seed=5), first=57)
    recorded.add("drifting", [value * 1.003**day for day, value in enumerate(noisy((1.0, 60), seed=6))])
    recorded.add("elsewhere", noisy((1.0, 60), seed=7), machine="epyc")
    recorded.add("elsewhere", noisy((1.0, 60), seed=8), machine="arm")
    return recorded


def outputs(recorded: Recorded) -> Iterator[tuple[str, str]]:
    """Everything that people read, by where it stands."""
    for words in (["regressions"], ["regressions", "--all"], ["compare", "n58", "n59"], ["sessions"], ["show", "n59"]):
        yield " ".join(words), recorded.ask(*words).output
    yield "compare --markdown", recorded.ask("compare", "n58", "n59", "--markdown").output
    for name in ("slower", "slowest", "faster", "steady", "doubtful", "young", "drifting"):
        yield f"history {name}", recorded.ask("history", name).output
    for form in ("markdown", "json", "junit"):
        yield form, recorded.ask("report", "--format", form).output
    site = recorded.folder / "site"
    assert recorded.ask("report", "--out", site).exit_code == 0
    for page in sorted(site.rglob("*.html")):
        yield page.name, html.unescape(re.sub(r"<[^>]+>", " ", page.read_text()))


def test_no_command_page_or_file_says_any_other_word(all_kinds: Recorded) -> None:
    found = {place: OLDER.findall(text) for place, text in outputs(all_kinds)}
    assert {place: words for place, words in found.items() if words} == {}


def verdicts(table: str, name_column: int = 0) -> dict[str, str]:
    """The last cell of each row of a table, by its first."""
    rows = [re.split(r"\s{2,}", line) for line in table.splitlines()[1:]]
    return {row[name_column]: row[-1] for row in rows if row[-1] in WORDS}


def test_the_newest_runs_of_a_metric_are_the_same_everywhere(all_kinds: Recorded) -> None:
    entries = dict.fromkeys(["slower", "slowest", "steady", "doubtful", "young"], "time_s") | {"faster": "rows_per_s"}
    site = all_kinds.folder / "site"
    assert all_kinds.ask("report", "--out", site).exit_code == 0
    for name, metric in entries.items():
        (known,) = all_kinds.json("history", name)["entries"]
        word = known["judgements"][metric]["verdict"]
        assert word == EXPECTED[name]
        assert verdicts(all_kinds.ask("history", name).output)[metric] == word
        (page,) = (site / "entries").glob(f"{name}-*.html")
        assert f'<span class="word w-{word.replace(" ", "-")}">{word}</span>' in page.read_text()
        (data,) = (site / "data" / "entries").glob(f"{name}-*/unnamed-*.js")
        assert f'"says":"{word}"' in data.read_text()


def test_compare_says_one_word_in_its_table_its_json_its_markdown_and_on_its_page(all_kinds: Recorded) -> None:
    rows = all_kinds.json("compare", "n58", "n59")
    said = {(row["entry"], row["machine"]): row["verdict"] for row in rows}
    assert {row["verdict"] for row in rows} <= WORDS
    assert said["slowest", None] == "regression"
    assert said["steady", None] == "no change"
    table = all_kinds.ask("compare", "n58", "n59").output
    assert verdicts(table)["slowest"] == "regression"
    marked = all_kinds.ask("compare", "n58", "n59", "--markdown").output
    assert re.search(r"\| slowest \| time_s \| .*\| 🔴 regression \|", marked)
    site = all_kinds.folder / "site"
    assert all_kinds.ask("report", "--out", site).exit_code == 0
    (pair,) = (site / "data" / "compared").glob("n58-*/n59-*.js")
    for (entry, machine), word in said.items():
        pattern = rf'\["{entry}-\w{{8}}","\w+","{machine or ""}","{word}"'
        assert re.search(pattern, pair.read_text()), (entry, machine, word)


def test_an_interval_beyond_what_matters_never_stands_beside_no_change(recorded: Recorded) -> None:
    for place, factor in enumerate((1.02, 1.04, 1.06, 1.1, 1.3, 2.0, 12.0)):
        for seed in range(4):
            values = noisy((1.0, 20), (factor, 2), seed=10 * place + seed, spread=0.02)
            recorded.add(f"entry_{place}_{seed}", values)
    for row in [*recorded.json("compare", "n19", "n20"), *recorded.json("compare", "n20", "n21")]:
        if row["interval"] is not None and row["verdict"] == "no change":
            assert min(row["interval"]) < 0.03, row
            assert max(row["interval"]) > -0.03, row


@pytest.fixture
def many(recorded: Recorded) -> Recorded:
    """Entries of every size of change and of noise, whose last session is the one that is looked at."""
    for place, factor in enumerate((0.5, 0.88, 0.96, 1.0, 1.02, 1.04, 1.12, 1.25, 3.0)):
        for number, spread in enumerate((0.004, 0.02, 0.08, 0.3)):
            values = noisy((1.0, 20), (factor, 1), seed=10 * place + number, spread=spread)
            recorded.add(f"e{place}{number}", [abs(value) for value in values], ("time_s", "rows_per_s")[place % 2])
    return recorded


LINE = re.compile(
    r"^(?P<entry>e\d\d) +(?P<metric>\w+) .*?(?P<change>[+-][\d.]+)% +(?P<low>[+-][\d.]+)% to (?P<high>[+-][\d.]+)%"
    r" .*(?P<word>regression|improvement|no change|inconclusive)$",
    re.MULTILINE,
)


def test_a_reader_can_check_each_word_of_compare_by_its_line(many: Recorded) -> None:
    found = list(LINE.finditer(many.ask("compare", "n19", "n20").output))
    assert len(found) >= 30
    assert {line["word"] for line in found} == {"regression", "improvement", "no change", "inconclusive"}
    for line in found:
        change, low, high = (float(line[name]) for name in ("change", "low", "high"))
        is_worse = (change > 0) == (line["metric"] == "time_s")
        is_certain = line["word"] != "inconclusive"
        if abs(change) < 3:
            assert line["word"] == "no change", line[0]
        else:
            assert line["word"] in ("inconclusive", "regression" if is_worse else "improvement"), line[0]
            assert not is_certain or low > 0 or high < 0, line[0]


def test_history_regressions_the_report_and_the_dashboard_say_the_same_word(many: Recorded) -> None:
    assert verdicts(many.ask("history", "e12").output)["rows_per_s"] == "inconclusive"
    notes = many.ask("regressions", "--all").output
    named, more = (
        re.findall(r"^inconclusive: e", notes, re.MULTILINE),
        re.search(r"(\d+) more with inconclusive", notes),
    )
    assert more
    report = many.ask("report", "--format", "markdown").output
    assert re.search(r"\| e12 \| rows_per_s \| – \| [\d.]+% less in 1 run, limit 3%: noise may explain it", report)
    section = report.partition("### Inconclusive")[2].partition("###")[0]
    assert len(re.findall(r"^\| e\d\d \|", section, re.MULTILINE)) == len(named) + int(more[1])
    site = many.folder / "site"
    assert many.ask("report", "--out", site).exit_code == 0
    (page,) = (site / "entries").glob("e12-*.html")
    assert '<span class="word w-inconclusive">inconclusive</span>' in page.read_text()


@pytest.mark.parametrize("slow", range(1, 10))
def test_compare_finds_twice_as_slow_however_many_slow_runs_are_known(recorded: Recorded, slow: int) -> None:
    recorded.add("sort", noisy((1.0, 20), (2.0, slow), seed=slow))
    result = recorded.ask("compare", "n19", "n20", "--fail")
    assert (result.exit_code, verdicts(result.output)) == (1, {"sort": "regression"}), result.output
    (step,) = recorded.json("regressions")
    assert (step["kind"], step["state"], step["since"]["session"]) == ("regression", "open", "n20")


@pytest.mark.parametrize("slow", [1, 3, 9])
def test_the_dashboard_says_of_twice_as_slow_what_compare_says(recorded: Recorded, slow: int) -> None:
    recorded.add("sort", noisy((1.0, 20), (2.0, slow), seed=slow))
    site = recorded.folder / "site"
    assert recorded.ask("report", "--out", site).exit_code == 0
    (pair,) = (site / "data" / "compared").glob("n19-*/n20-*.js")
    assert re.search(r'\["sort-\w{8}","\w+","","regression"', pair.read_text())


@pytest.mark.parametrize(("before", "noise"), [(6, 0.08), (10, 0.08), (8, 0.05)])
def test_a_young_or_noisy_history_says_what_it_cannot_see(recorded: Recorded, before: int, noise: float) -> None:
    recorded.add("sort", noisy((1.0, before), seed=4, spread=noise))
    output = recorded.ask("regressions").output
    assert re.search(r"Blind: 1 metric would miss a change that matters\.", output), output
    assert re.search(r"sort time_s: noise of [\d.]+% and \d+ runs: changes below \d+% cannot be seen", output)
    site = recorded.folder / "site"
    assert recorded.ask("report", "--out", site).exit_code == 0
    assert re.search(r"changes below \d+ % cannot be seen", (site / "index.html").read_text())


def test_a_blind_metric_that_is_also_inconclusive_says_in_the_report_what_it_cannot_see(recorded: Recorded) -> None:
    recorded.add("sort", noisy((1.0, 20), (1.2, 1), seed=3, spread=0.08))
    report = recorded.ask("report", "--format", "markdown").output
    rows = dict(re.findall(r"### (Inconclusive|Blind)\n\n.*\n.*\n(.*)\n", report))
    assert "noise may explain it" in rows["Inconclusive"]
    assert "cannot be seen" in rows["Blind"]


@pytest.mark.parametrize("sessions", [60, 120])
def test_three_thousandths_a_session_are_drift(recorded: Recorded, sessions: int) -> None:
    recorded.add("sort", [value * 1.003**day for day, value in enumerate(noisy((1.0, sessions)))])
    recorded.add("load", noisy((1.0, sessions), seed=1))
    found = recorded.json("regressions", "--drift")
    (drift,) = (one for one in found if one["kind"] == "drift")
    assert (drift["entry"], drift["metric"]) == ("sort", "time_s")
    assert drift["change"] > 0.05
    result = recorded.ask("regressions")
    assert re.search(r"drift: sort time_s has crept by \+\d+\.\d% since .*2026-\d\d-\d\d", result.output)
    site = recorded.folder / "site"
    assert recorded.ask("report", "--out", site).exit_code == 0
    assert "has crept by" in (site / "index.html").read_text()


def test_drift_that_was_accepted_is_closed(recorded: Recorded) -> None:
    recorded.add("sort", [value * 1.003**day for day, value in enumerate(noisy((1.0, 60)))])
    assert "drift since" in recorded.ask("accept", "sort", "time_s", "--why", "it checks more").output
    assert [one for one in recorded.json("regressions", "--drift") if one["kind"] == "drift"] == []


def both_machines(recorded: Recorded, slower_on: str) -> Mapping[str, float]:
    levels = {machine: 1.5 if machine == slower_on else 1.0 for machine in ("arm", "epyc")}
    for place, (machine, level) in enumerate(levels.items()):
        recorded.add("sort", noisy((1.0, 30), (level, 10), seed=place), machine=machine)
    return levels


def test_machines_are_told_apart_and_named(recorded: Recorded) -> None:
    both_machines(recorded, "arm")
    (found,) = recorded.json("regressions")
    assert found["machine"] == "arm"
    assert " arm " in recorded.ask("regressions").output
    rows = recorded.json("compare", "n29", "n30")
    assert {row["machine"]: row["verdict"] for row in rows} == {"arm": "regression", "epyc": "no change"}
    table = recorded.ask("compare", "n29", "n30").output
    assert {line.split()[2] for line in table.splitlines()[1:3]} == {"arm", "epyc"}


def test_a_machine_of_one_side_is_not_dropped_in_silence(recorded: Recorded) -> None:
    recorded.add("sort", noisy((1.0, 30)), machine="epyc")
    recorded.add("sort", noisy((1.0, 1), seed=1), first=29, machine="arm")
    assert "only n29 measured sort time_s on machine arm" in recorded.ask("compare", "n28", "n29").output


def test_what_requirements_name_stands_first_within_a_word(recorded: Recorded) -> None:
    for metric in ("load_time_s", "parse_time_s", "zip_time_s"):
        recorded.add("one", noisy((1.0, 20), (1.5, 5)), metric=metric)
    assert recorded.ask("sessions").exit_code == 0
    with closing(sqlite3.connect(recorded.db)) as connection, connection:
        connection.execute(
            "insert into requirement (run, position, metric, bound, met)"
            " select max(id), 0, 'zip_time_s', 'max_value', 1 from test_run where name = 'one'"
        )
    answer = recorded.ask("compare", "n19", "n24", "--json")
    assert [row["metric"] for row in json.loads(answer.stdout)] == ["zip_time_s", "load_time_s", "parse_time_s"]
