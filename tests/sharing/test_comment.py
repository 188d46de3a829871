"""`curator-bench comment`: one comment of ours on the request of a job, and a token that nobody sees."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sharing.shared_records import command
from stand_ins.code_hosts import OTHERS, TOKEN, US, CodeHost, served

MARKER = "<!-- curator-bench: curator-bench -->\n"


def comment(host: CodeHost, folder: Path, text: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    (folder / "comment.md").write_text(text)
    done = command("comment", "comment.md", *words, cwd=folder, **{**host.environment, **more})
    assert TOKEN not in done.stdout + done.stderr
    assert set(host.tokens) <= {TOKEN}
    return done


def test_it_comments_once_and_then_updates_that_comment(code_host: CodeHost, tmp_path: Path) -> None:
    for _ in range(5):
        code_host.add(OTHERS, "Looks good")
    for text in ("first", "second", "third"):
        done = comment(code_host, tmp_path, text)
        assert done.returncode == 0, done.stderr
    assert code_host.bodies == ["Looks good"] * 5 + [f"{MARKER}third"]
    assert done.stderr.endswith("comment updated\n")


def test_a_comment_of_somebody_else_is_never_changed(code_host: CodeHost, tmp_path: Path) -> None:
    code_host.add(OTHERS, f"{MARKER}mine")
    code_host.add(US, f"> {MARKER}quoted")
    code_host.add(US, "<!-- curator-bench: other -->\nof another job")
    assert comment(code_host, tmp_path, "text").returncode == 0
    assert comment(code_host, tmp_path, "text 2", "--name", "other").returncode == 0
    assert code_host.bodies[:2] == [f"{MARKER}mine", f"> {MARKER}quoted"]
    assert code_host.bodies[2:] == ["<!-- curator-bench: other -->\ntext 2", f"{MARKER}text"]


def test_what_fails_for_a_moment_is_tried_again_without_a_second_comment(code_host: CodeHost, tmp_path: Path) -> None:
    code_host.failures += [("GET", 502), ("POST", 500)]  # it is there when the server says that it is not
    assert comment(code_host, tmp_path, "text").returncode == 0
    assert code_host.bodies == [f"{MARKER}text"]


def test_what_keeps_failing_ends(code_host: CodeHost, tmp_path: Path) -> None:
    code_host.failures += [("GET", 429)] * 50
    done = comment(code_host, tmp_path, "text")
    assert (done.returncode, "429 later; tried 5 times" in done.stderr) == (1, True)
    assert len(code_host.failures) == 45


def test_without_permission_it_says_so_and_the_text_is_in_the_log(code_host: CodeHost, tmp_path: Path) -> None:
    code_host.refuses = 403
    done = comment(code_host, tmp_path, "text")
    assert done.returncode == 1
    assert "no permission (403 Resource not accessible with ***)" in done.stderr
    summary = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    done = comment(code_host, tmp_path, "::error::of others\n", "--or-log", **summary)
    assert done.returncode == 0
    assert "no permission" in done.stderr
    assert (tmp_path / "summary.md").read_text().startswith("::error::of others")
    lines = done.stdout.splitlines()
    assert "::error::of others" in lines
    if code_host.system == "github":  # which would take the line for a command
        stop = lines[0].removeprefix("::stop-commands::")
        assert (len(stop), lines[-1]) == (32, f"::{stop}::")


def test_a_text_that_is_too_long_is_cut_at_a_line_and_says_so(github: CodeHost, tmp_path: Path) -> None:
    text = "A table:\n```\n" + "a line of it\n" * 10_000 + "```\n"
    assert comment(github, tmp_path, text).returncode == 0
    (body,) = github.bodies
    assert len(body) <= 65_536
    assert "a line of it\n```\n\n*Cut here: the text has 130,017 characters" in body
    assert body.count("```") == 2


@pytest.fixture
def elsewhere() -> Iterator[CodeHost]:
    yield from served(CodeHost("github"))


def test_the_token_goes_to_no_other_host_and_over_no_open_line(
    code_host: CodeHost, elsewhere: CodeHost, tmp_path: Path
) -> None:
    code_host.redirects_to = f"{elsewhere.url}/user"
    done = comment(code_host, tmp_path, "text")
    assert (done.returncode, "not followed" in done.stderr) == (1, True)
    assert elsewhere.asked == []
    for name in ("GITHUB_API_URL", "CI_API_V4_URL"):
        done = comment(code_host, tmp_path, "text", **{name: "http://git.example.org/api"})
        if name in code_host.environment:
            assert (done.returncode, "a token is sent by https:// only" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("event", "number"),
    [
        ({"pull_request": {"number": 7}}, 7),
        ({"issue": {"number": 7, "pull_request": {"url": "x"}}}, 7),
        ({"workflow_run": {"pull_requests": [{"number": 7}]}}, 7),
        ({"issue": {"number": 7}}, None),
        ({"workflow_run": {"pull_requests": []}}, None),
        ({}, None),
    ],
)
def test_the_pull_request_is_that_of_the_event(
    github: CodeHost, tmp_path: Path, event: dict[str, object], number: int | None
) -> None:
    (tmp_path / "event.json").write_text(json.dumps(event))
    of_job = {"GITHUB_EVENT_PATH": str(tmp_path / "event.json"), "GITHUB_REF": "refs/heads/main"}
    done = comment(github, tmp_path, "text", **of_job)
    assert done.returncode == (0 if number else 1), done.stderr
    assert bool(github.bodies) == bool(number)
    if not number:
        assert "this job is for no pull request" in done.stderr
        assert comment(github, tmp_path, "text", "--number", "7", **of_job).returncode == 0


def test_mistakes_are_told_in_a_line(gitlab: CodeHost, tmp_path: Path) -> None:
    cases = {
        "CI_JOB_TOKEN can write neither": {"GITLAB_TOKEN": ""},
        "this job is for no merge request": {"CI_MERGE_REQUEST_IID": ""},
        "expected a number": {"CI_PROJECT_ID": "../12"},
        "this is no job of GitHub Actions or GitLab CI": {"CI_PROJECT_ID": ""},
    }
    for said, variables in cases.items():
        done = comment(gitlab, tmp_path, "text", **variables)
        assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (1, True, False), done.stderr
    done = comment(gitlab, tmp_path, " \n", "--or-log")
    assert (done.returncode, "is empty" in done.stderr) == (1, True)
    done = command("comment", "none.md", cwd=tmp_path, **gitlab.environment)
    assert (done.returncode, "none.md cannot be read" in done.stderr) == (1, True)
    done = comment(gitlab, tmp_path, "text", "--name", "a --> b")
    assert done.returncode == 2
    assert gitlab.comments == []
