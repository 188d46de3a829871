"""`curator-bench serve` as people use it: a server of its own, sessions of pytest beside it, and a real browser."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nightly_history as nights
import psutil
import pytest
import warm
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, expect
from real_browser import chromium
from store.postgres_server import start_server

from curator_bench.measure.processes import busyness
from curator_bench.report.server.live_sessions import LiveSessions
from curator_bench.report.server.pages import Building, ServedPages
from curator_bench.report.server.web_server import WebServer
from curator_bench.report.site.build import Settings

pytestmark = pytest.mark.slow

WITHIN_S = 60
BIN = Path(sys.executable).parent
PHONE, DESK = ViewportSize(width=390, height=844), ViewportSize(width=1280, height=900)
MATRIX = """
ray: false
entries:
  - {name: first, script: talker.py, args: first, timeout_s: 300}
  - {name: second, script: talker.py, args: second, timeout_s: 300, requirements: [{metric: rate, min_value: 5}]}
"""
ENTRY_PAGE = '<!doctype html><link rel="icon" href="data:,"><title>quick</title><h1>quick</h1>'
TALKER = """
import json, sys, time
from pathlib import Path
name, out = sys.argv[1], Path(sys.argv[-1])
print("hello from", name, flush=True)
said = 0
while not Path(f"{name}.end").exists():
    told = Path(f"{name}.say").read_text() if Path(f"{name}.say").exists() else ""
    sys.stdout.write(told[said:])
    sys.stdout.flush()
    said = len(told)
    time.sleep(0.05)
out.joinpath("params.json").write_text("{}")
out.joinpath("metrics.json").write_text(json.dumps({"is_success": True, "rate": 1}))
"""


@dataclass
class Project:
    """A folder with a matrix of two benchmarks that print what they are told, until they are told to end."""

    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, session: str, *words: str, db: str = "benchmark.db") -> subprocess.Popen[str]:
        command: list[str | Path] = [
            BIN / "pytest",
            "matrix.yaml",
            "--benchmark",
            "--benchmark-db",
            db,
            "--bench-session",
            session,
            *words,
        ]
        with (self.folder / f"{session}.out").open("w") as out:
            process = subprocess.Popen(command, cwd=self.folder, stdout=out, stderr=out, text=True)
        self.started.append(process)
        return process

    def start_and_wait(self, session: str, *words: str, **how: str) -> subprocess.Popen[str]:
        """Wait until its first benchmark has said something: only then a page shows it soon."""
        process = self.start(session, *words, **how)
        log = self.folder / "results" / session / "first" / "logs" / "stdouterr.log"
        _until(lambda: process.poll() is not None or (log.exists() and log.read_text()))
        return process

    def say(self, name: str, text: str) -> None:
        with (self.folder / f"{name}.say").open("a") as file:
            file.write(text)

    def let_end(self, *names: str) -> None:
        for name in names:
            (self.folder / f"{name}.end").touch()

    def close(self) -> None:
        self.let_end("first", "second")
        for process in self.started:
            process.wait(WITHIN_S * busyness())


@dataclass
class Served:
    """A server, and the address it printed."""

    process: subprocess.Popen[str]
    address: str

    @property
    def folder(self) -> Path:
        """The server's private folder."""
        for note in Path("/tmp").glob("cb-*/owner.json"):
            with suppress(OSError, ValueError):
                if json.loads(note.read_text())["pid"] == self.process.pid:
                    return note.parent
        raise AssertionError("there is no private folder")

    @property
    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def read(self, path: str) -> str:
        with urllib.request.urlopen(self.address + path, timeout=WITHIN_S * busyness()) as answer:
            return str(answer.read().decode())

    def wait_until_built(self) -> None:
        _until(lambda: json.loads(self.read("state.json"))["is_there"])

    def end(self, number: signal.Signals = signal.SIGINT) -> str:
        self.process.send_signal(number)
        return self.process.communicate(timeout=WITHIN_S * busyness())[0]


Serve = Callable[..., Served]
Open = Callable[..., Page]


def _until(holds: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WITHIN_S * busyness()
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    (tmp_path / "matrix.yaml").write_text(MATRIX)
    (tmp_path / "talker.py").write_text(TALKER)
    with closing(Project(tmp_path)) as made:
        yield made


@pytest.fixture
def history(project: Project) -> Project:
    """With a night that was recorded before."""
    _import(project, "night_1")
    return project


def _import(project: Project, session: str) -> None:
    line = {"name": "quick", "metric": "time_s", "value": 1.0, "time": f"2026-01-0{session[-1]}T02:00:00+00:00"}
    line |= {"session": session, "path": "matrix.yaml"}
    (project.folder / "more.jsonl").write_text(json.dumps(line) + "\n")
    warm.run("curator-bench", "import", "more.jsonl", "--db", "benchmark.db", cwd=project.folder).check_returncode()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    processes: list[subprocess.Popen[str]] = []

    def serving(*words: str, folder: Path = tmp_path) -> Served:
        command: list[str | Path] = [BIN / "curator-bench", "serve", *(words or ("--db", "benchmark.db"))]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        process = subprocess.Popen(command, cwd=folder, restore_signals=True, **pipes)
        processes.append(process)
        assert process.stdout
        found = re.match(
            r"(http://127\.0\.0\.1:\d+/[\w-]{43}/) \(Ctrl-C ends it\)\n", line := process.stdout.readline()
        )
        assert found, line + process.communicate()[0]
        return Served(process, found[1])

    yield serving
    for process in processes:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=WITHIN_S * busyness())


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens a page. An error in it, or a word on its console, fails the test."""
    problems: list[str] = []
    contexts = []

    def opened(address: str, **how: Any) -> Page:
        context = browser.new_context(**{"viewport": DESK, **how})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000 * busyness())
        expect.set_options(timeout=30_000 * busyness())
        page.on("console", lambda said: problems.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(address)
        return page

    yield opened
    hacked = [page.evaluate("window.hacked") for context in contexts for page in context.pages]
    for context in contexts:
        context.close()
    # The browser itself says on the console that a server does not answer, or ends before it has answered.
    assert [one for one in problems if "Failed to load resource: net::ERR_" not in one] == []
    assert set(hacked) <= {None}


def test_a_session_is_watched_from_its_start_to_its_end(history: Project, serve: Serve, open_page: Open) -> None:
    page = open_page(serve().address + "now.html")
    expect(page.locator("#live")).to_contain_text("No session runs on this machine")
    pytest_process = history.start_and_wait("tonight")
    live = page.get_by_role("region", name="tonight running")
    expect(live).to_contain_text("0 of 2 done, 1 running")
    row = live.get_by_role("row").filter(has_text="first")
    expect(row).to_contain_text(socket.gethostname())
    expect(row).to_contain_text("hello from first")
    expect(row).to_contain_text("MiB")
    expect(page.get_by_role("link", name="Running (1)")).to_be_visible()
    row.get_by_role("link", name="first").click()
    log = page.get_by_role("region", name="Log")
    expect(log).to_have_text("hello from first\n")
    history.say("first", "<script>window.hacked=1</script> \x1b[31mred\x1b[0m ü\nhalf a line")
    expect(log).to_have_text("hello from first\n<script>window.hacked=1</script> red ü\nhalf a line")
    page.get_by_role("button", name="Pause").click()
    history.say("first", ", the rest\n" + "".join(f"line {number}\n" for number in range(200)))
    _until(lambda: "line 199" in _log_file(history, "first").read_text())
    page.wait_for_timeout(2500)
    expect(log).to_have_text(re.compile("half a line$"))
    page.get_by_role("button", name="Go on").click()
    expect(log).to_have_text(re.compile(r"half a line, the rest\nline 0\n[\s\S]*line 199\n$"))
    expect(log.locator("script")).to_have_count(0)
    assert log.evaluate("log => log.scrollHeight - log.scrollTop - log.clientHeight") < 40
    history.let_end("first")
    expect(page.locator("#state")).to_have_text(re.compile(r"^passed \d"))
    history.let_end("second")
    assert pytest_process.wait(WITHIN_S * busyness()) == 1
    page.get_by_role("link", name="The page of this session").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("tonight")
    failed = page.get_by_role("row").filter(has_text="second")
    expect(failed).to_contain_text("failed")
    failed.get_by_role("link", name="log").click()
    expect(page.get_by_role("region", name="Log")).to_have_text("hello from second\n")
    page.get_by_role("link", name="Running", exact=True).click()
    ended = page.get_by_role("region", name="tonight ended")
    expect(ended).to_contain_text("1 passed")
    expect(ended.get_by_role("row").filter(has_text="second")).to_contain_text("rate is 1")


def _log_file(project: Project, name: str, session: str = "tonight") -> Path:
    return project.folder / "results" / session / name / "logs" / "stdouterr.log"


def test_two_sessions_at_once_and_one_that_is_killed(history: Project, serve: Serve, open_page: Open) -> None:
    served = serve("--db", "benchmark.db", "--results", "results")
    page = open_page(served.address + "now.html")
    history.start_and_wait("one")
    other = history.start_and_wait("other")
    for name in ("one", "other"):
        expect(page.get_by_role("region", name=f"{name} running")).to_contain_text("hello from first")
    other.kill()
    other.wait()
    expect(page.get_by_role("region", name="other killed")).to_contain_text("it was killed")
    expect(page.get_by_role("region", name="one running")).to_contain_text("hello from first")


def test_a_session_of_this_folder_is_shown_before_the_database_names_its_results(
    history: Project, serve: Serve
) -> None:
    served = serve("--db", "benchmark.db")
    history.start_and_wait("tonight", db="other.db")
    _until(lambda: "tonight" in served.read("now.html"))


def test_a_log_that_a_script_makes_hostile_is_shown_or_refused(history: Project, serve: Serve) -> None:
    served = serve()
    history.start_and_wait("tonight")
    where = _until(lambda: re.search(r'log\.html(\?session=[^"]+)', served.read("now.html")))[1].replace("&amp;", "&")
    asked = f"log.json{where}"
    log = _log_file(history, "first")
    with log.open("r+b") as file:
        file.truncate(2**30)
    log.open("ab").write(b"\nthe end\n")
    piece = json.loads(served.read(asked))
    assert piece["lines"][-1] == "the end"
    assert piece["skipped"] > 2**30 - 2**20
    secret = history.folder / "secret"
    secret.write_text("secret\n")
    log.unlink()
    log.symlink_to(secret)
    assert json.loads(served.read(asked))["why_not"] == "The log is a link, not a file."
    log.unlink()
    os.mkfifo(log)
    assert json.loads(served.read(asked))["why_not"] == "The log is a pipe, not a file."
    assert "is a pipe" in served.read(f"log.html{where}")
    (history.folder / "results" / "tonight" / "progress.json").write_text('{"running": 1, "total": 1e999}')
    (log.parents[1] / "status.json").write_text('{"name": "<b>", "elapsed_s": "NaN", "last_line": [1]}')
    assert "<b>" not in served.read("now.html").partition("<main")[2]


def test_an_open_page_says_that_there_are_newer_data(history: Project, serve: Serve, open_page: Open) -> None:
    served = serve()
    served.wait_until_built()  # a page of the progress would still load the scripts of the next one
    page = open_page(served.address)
    expect(page.get_by_role("region", name="Latest session")).to_contain_text("night_1")
    _import(history, "night_2")
    expect(page.get_by_role("status").filter(has_text="This page has newer data.")).to_be_visible()
    page.get_by_role("button", name="Reload").click()
    expect(page.get_by_role("region", name="Latest session")).to_contain_text("night_2")
    expect(page.locator("#newer")).to_be_empty()


def test_an_open_page_says_that_the_server_has_ended(history: Project, serve: Serve, open_page: Open) -> None:
    served = serve()
    served.wait_until_built()  # a page of the progress would still load the scripts of the next one
    pages = [open_page(served.address + path) for path in ("", "now.html")]
    expect(pages[0].get_by_role("region", name="Latest session")).to_be_visible()
    served.end()
    for page in pages:
        expect(page.get_by_role("status").filter(has_text="curator-bench serve has ended")).to_be_visible()


def test_the_overview_says_that_it_is_being_built(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    nights.make(tmp_path)
    served = serve()
    page = open_page(served.address)
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("being built|Overview|Benchmarks"))
    expect(page.get_by_role("region", name="Latest session")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_that_is_being_built_says_how_far_it_is_and_opens_when_it_is_there(
    tmp_path: Path, open_page: Open, scheme: str
) -> None:
    state = Building(doing="Writing pages: 3 of 1,031")
    live = LiveSessions(lambda folder: False, list)
    pages = ServedPages(tmp_path, Settings(is_served=True), lambda: state, lambda file: None, live, lambda uid: None)
    with WebServer(0, pages.answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        page = open_page(server.address + "entries/quick.html", color_scheme=scheme, viewport=PHONE)
        expect(page.get_by_role("status").filter(has_text="Writing pages: 3 of 1,031")).to_be_visible()
        _is_accessible(page, PHONE)
        (tmp_path / "entries").mkdir()
        (tmp_path / "entries" / "quick.html").write_text(ENTRY_PAGE)
        expect(page.get_by_role("heading", level=1)).to_have_text("quick")
        server.shutdown()
        thread.join()


def test_ctrl_c_leaves_nothing(history: Project, serve: Serve) -> None:
    served = serve()
    served.wait_until_built()
    folder, children = served.folder, served.children
    assert folder.stat().st_mode & 0o777 == 0o700
    assert children
    assert served.end() == "Ended.\n"
    assert served.process.returncode == 0
    assert not folder.exists()
    assert not [one for one in children if one.is_running()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_it_ends_as_well_with_its_terminal(history: Project, serve: Serve, number: signal.Signals) -> None:
    served = serve()
    folder = served.folder
    served.end(number)
    assert (served.process.returncode, folder.exists()) == (0, False)


def test_what_a_killed_server_leaves_the_next_one_removes(history: Project, serve: Serve) -> None:
    served = serve()
    served.wait_until_built()
    folder, children = served.folder, served.children
    served.end(signal.SIGKILL)
    psutil.wait_procs(children, WITHIN_S * busyness())
    assert not [one for one in children if one.is_running()]
    serve()  # or whatever else of curator-bench starts on this machine
    assert not folder.exists()


def test_the_token_is_in_no_arguments_and_no_output(history: Project, serve: Serve) -> None:
    served = serve("--db", "benchmark.db", "--port", "0")
    served.wait_until_built()
    token = served.address.split("/")[3]
    for process in [psutil.Process(served.process.pid), *served.children]:
        assert token not in " ".join(process.cmdline())
        assert token not in " ".join(process.environ().values())
    with suppress(OSError):
        urllib.request.urlopen(served.address + "nothing.html")
    assert token not in served.end()


def test_mistakes_are_said_in_one_line(history: Project, tmp_path: Path) -> None:
    def said(*words: str) -> tuple[int, str]:
        done = warm.run("curator-bench", "serve", *words, cwd=tmp_path)
        return done.returncode, done.stderr

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, text = said("--db", "benchmark.db", "--port", str(port))
    assert (code, text) == (1, f"port {port} is in use: name another one, or leave out --port for any that is free\n")
    code, text = said("--db", "missing.db")
    assert code == 1
    assert "there are no runs here yet" in text
    assert text.count("\n") == 1


def test_every_page_is_accessible_and_fits_the_screen(history: Project, serve: Serve, open_page: Open) -> None:
    """On a desk in light colours and on a phone in dark ones: two browsers look at one session."""
    served = serve()
    history.start_and_wait("tonight")
    history.say("first", "a long line " * 200 + "\n")
    looks = [("light", DESK), ("dark", PHONE)]
    pages = [(open_page(served.address + "now.html", color_scheme=one, viewport=size), size) for one, size in looks]
    for page, size in pages:
        expect(page.get_by_role("region", name="tonight running")).to_contain_text("a long line")
        _is_accessible(page, size)
        page.get_by_role("link", name="first").focus()
    pages[0][0].wait_for_timeout(3000)  # the tables are renewed
    for page, size in pages:
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="Log")).to_contain_text("a long line")
        _is_accessible(page, size)
        page.get_by_role("link", name="Overview").click()
        expect(page.get_by_role("region", name="Latest session")).to_be_visible()
        page.evaluate("document.getElementById('newer').textContent = 'This page has newer data.'")
        _is_accessible(page, size)


def _is_accessible(page: Page, size: ViewportSize) -> None:
    found = Axe().run(page, options={"preload": False})
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_sessions_and_logs_are_shown_without_javascript(history: Project, serve: Serve, open_page: Open) -> None:
    served = serve()
    history.start_and_wait("tonight")
    _until(lambda: "hello from first" in served.read("now.html"))
    page = open_page(served.address + "now.html", java_script_enabled=False)
    page.get_by_role("link", name="first").click()
    expect(page.get_by_role("region", name="Log")).to_have_text("hello from first\n")


def test_a_database_on_a_server_is_shown_while_pytest_writes_into_it(
    project: Project, serve: Serve, open_page: Open
) -> None:
    server = start_server()
    try:
        url = server.new_database()
        project.let_end("first", "second")
        project.start("before", db=url).wait(WITHIN_S * busyness())
        for name in ("first", "second"):
            (project.folder / f"{name}.end").unlink()
        served = serve("--db", url)
        page = open_page(served.address)
        expect(page.get_by_role("region", name="Latest session")).to_contain_text("before")
        project.start_and_wait("tonight", db=url)
        page.get_by_role("link", name="Running").click()
        expect(page.get_by_role("region", name="tonight running")).to_contain_text("hello from first")
        for child in served.children:
            assert url not in " ".join(child.cmdline())
        project.close()
        expect(page.get_by_role("region", name="tonight ended")).to_contain_text("1 passed")
        served.end()
    finally:
        server.close()
