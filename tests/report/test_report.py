"""`curator-bench report`: what it writes, where, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree

import nightly_history as nights
import pytest
import warm
from cli.nights import noisy

from curator_bench.report.site.data_files import as_json, numbers
from curator_bench.report.site.links import commit_address, slug, web_address
from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import InvocationRecord, SessionRecord


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    nights.make(folder)
    return folder


def report(folder: Path, *words: str) -> str:
    done = warm.run("curator-bench", "report", *words, cwd=folder)
    assert "Traceback" not in done.stderr
    return done.stdout if done.returncode == 0 else done.stderr


def test_markdown_says_what_got_worse_and_what_is_broken_and_calls_nobody(project: Path) -> None:
    text = report(project, "--format", "markdown")
    assert text.startswith("## nightly_44: 1 crashed, 4 passed")
    row, commits = [line for line in text.splitlines() if nights.commit_of(nights.SLOWER_FROM)[:10] in line]
    assert commits.startswith("- commits ")
    assert row.startswith("| removal\\[ray_data-dense\\] | time_taken_s | epyc-64 | +5.") or "+6." in row
    assert "| fuzzy_dedup | crashed | ValueError" in text
    assert "<script" not in text
    assert "<img" not in text
    assert {line.count(" | ") for line in text.splitlines() if line.startswith("| removal\\[")} == {7, 2}


def test_markdown_is_safe_from_what_calls_itself_a_commit(tmp_path: Path) -> None:
    lines = nights.long_names(tmp_path)
    warm.run("curator-bench", "import", lines, "--db", "benchmark.db", cwd=tmp_path).check_returncode()
    text = report(tmp_path, "--format", "markdown")
    assert "commit &lt;script" in text
    assert "<script" not in text


def test_json_is_for_programs(project: Path) -> None:
    document = json.loads(report(project, "--format", "json", "--session", "nightly_30"))
    assert (document["schema_version"], document["session"]["name"], len(document["runs"])) == (1, "nightly_30", 5)
    assert document["runs"][0]["metrics"].keys() == {nights.METRIC, "peak_memory_bytes", "recall"}
    assert [run["why"] for run in document["runs"]] == [""] * 5
    (worse,) = document["regressions"]
    assert (worse["entry"]["name"], worse["metric"], worse["is_new"]) == (nights.SLOWED, nights.METRIC, True)
    assert worse["first"]["commit"] == nights.commit_of(nights.SLOWER_FROM)


def test_regressions_name_the_commits_of_every_subject_between(project: Path) -> None:
    done = warm.run("curator-bench", "regressions", cwd=project)
    assert done.returncode == 1
    before, since = (nights.commit_of(1000 + nights.SLOWER_FROM + step)[:12] for step in (-1, 0))
    assert f"nemo_curator {before}..{since}" in done.stdout


def test_junit_has_a_case_per_run_and_per_open_regression(project: Path) -> None:
    runs, regressions = ElementTree.fromstring(report(project, "--format", "junit").encode())
    assert [runs.get(name) for name in ("tests", "failures", "errors")] == ["5", "0", "1"]
    assert [case.get("name") for case in runs if case.find("error") is not None] == [nights.BROKEN]
    assert [case.get("name") for case in runs][-1] == nights.EVIL
    (case,) = regressions
    assert (case.get("name"), case.get("classname")) == (nights.METRIC, nights.SLOWED)
    told = {one.get("name"): one.get("value") for one in case.iter("property")}
    assert told["explains"] == f"{nights.SLOWED} {nights.METRIC}"
    (failure,) = case.iter("failure")
    assert str(failure.get("message")).endswith(f"({told['finding']})")
    assert "commits " in str(failure.text)


def test_every_report_takes_a_cause_with_several_metrics_as_one(tmp_path: Path) -> None:
    lines = [
        {"name": name, "metric": "time_s", "value": value, "time": f"2026-01-{night:02d}", "commit": f"{night:040x}"}
        for seed, name in enumerate(("sort", "merge"))
        for night, value in enumerate(noisy((1.0, 15), (1.3, 15), seed=seed), 1)
    ]
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    warm.run("curator-bench", "import", "lines.jsonl", "--db", "benchmark.db", cwd=tmp_path).check_returncode()
    (change,) = json.loads(report(tmp_path, "--format", "json"))["changes"]
    assert {one["entry"] for one in change["explains"]} == {"sort", "merge"}
    text = report(tmp_path, "--format", "markdown")
    (head,) = [line for line in text.splitlines() if line.startswith("**")]
    assert ", with 1 other entry** since " in head
    assert f"({change['finding']})" in head
    assert text.count("commits ") == 1 + text.count("commits |")
    _, regressions = ElementTree.fromstring(report(tmp_path, "--format", "junit").encode())
    assert len(regressions) == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--commit-url", "https://git.example/commit/"), "expected an address with {commit} in it"),
        (("--commit-url", "javascript:alert({commit})"), "expected a web address"),
        (("--log-url", "results/"), "expected a web address"),
    ],
)
def test_addresses_that_lead_nowhere_are_refused(project: Path, words: tuple[str, ...], problem: str) -> None:
    assert problem in report(project, "--out", "nowhere", *words)
    assert not (project / "nowhere").exists()


def test_logs_are_linked_where_they_are_or_where_they_are_served(project: Path) -> None:
    report(project, "--out", "linked")
    (page,) = (project / "linked" / "entries").glob("fuzzy-dedup-*.html")
    assert 'href="../../results/nightly_44/entry%203%20%231/logs/stdouterr.log"' in page.read_text()
    report(project, "--out", "served", "--log-url", "https://ci.example/results/")
    served = (project / "served" / "entries" / page.name).read_text()
    assert 'href="https://ci.example/results/nightly_44/entry%203%20%231/logs/stdouterr.log"' in served


def test_a_folder_of_something_else_is_never_replaced(project: Path) -> None:
    (project / "mine").mkdir()
    (project / "mine" / "thesis.txt").touch()
    assert "mine contains something other than a dashboard" in report(project, "--out", "mine")
    assert [file.name for file in (project / "mine").iterdir()] == ["thesis.txt"]


def test_a_site_replaces_the_one_before_as_a_whole(project: Path) -> None:
    for _ in range(2):
        assert "5 entries, 225 runs, 45 sessions" in report(project, "--out", "again")
        assert not (project / "again" / "entries" / "gone.html").exists()
        (project / "again" / "entries" / "gone.html").touch()
    assert [path.name for path in project.glob(".*unfinished*")] == []


def test_a_session_that_ran_nothing_is_not_the_latest(project: Path, tmp_path: Path) -> None:
    shutil.copy(project / "benchmark.db", tmp_path)
    with open_for_writing(database_url(tmp_path / "benchmark.db")) as database:
        began = nights.BEGAN + timedelta(days=nights.NIGHTS)
        invocation = InvocationRecord("f" * 32, began, host="bench-1")
        Recorder(database, SessionRecord("nothing", str(tmp_path)), invocation).start_invocation()
    report(tmp_path, "--out", "site")
    overview = (tmp_path / "site" / "index.html").read_text()
    hero = overview.partition('id="latest"')[2].partition("</p>")[0]
    assert nights.session_of(nights.NIGHTS - 1) in hero


def test_older_sessions_may_go_without_a_page(project: Path) -> None:
    assert "225 runs, 3 sessions" in report(project, "--out", "short", "--sessions", "3")
    assert len(list((project / "short" / "sessions").glob("*.html"))) == 3


def test_what_is_missing_is_said(project: Path) -> None:
    blocked = "import sys; sys.modules['jinja2'] = None; from curator_bench.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", blocked, "report", "--out", "none"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    missing = "the dashboard needs an extra that is not installed: pip install 'curator-bench[report]'"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, missing)
    assert "name a folder for the site: --out site" in report(project)


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        " javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "//host/x",
        "http:",
        "http://[x",
    ],
)
def test_only_addresses_of_the_web_become_links(url: str) -> None:
    assert web_address(url) is None
    assert web_address("https://host/a?b#c") == "https://host/a?b#c"


def test_commits_are_linked_as_one_says() -> None:
    assert commit_address("https://git.example/{commit}", "ab/../c") == "https://git.example/ab%2F..%2Fc"
    assert commit_address("javascript:{commit}", "abc") is None
    assert commit_address(None, "abc") is None


def test_names_of_pages_are_safe_and_differ_where_names_do() -> None:
    assert re.fullmatch(r"a-b-[0-9a-f]{8}", slug("../A\\b", "path"))
    assert slug("a b", "p") != slug("a-b", "p")
    assert len(slug("x" * 500, "p")) < 80
    assert re.fullmatch(r"unnamed-[0-9a-f]{8}", slug("‮😀", "p"))


def test_data_is_strict_json_whatever_was_measured() -> None:
    assert as_json({"a": float("nan"), "b": "</script>\u2028é"}) == r'{"a":null,"b":"</script>\u2028\u00e9"}'
    assert numbers([1.0, None, 1234567.891, 1e-12]) == "[1,null,1234568,1e-12]"
