"""Every example in the docs loads, and every command in them prints what stands below it, or says why it is not run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import warm

from curator_bench.errors import MatrixError
from curator_bench.matrix import LoadRequest, load
from curator_bench.measure.processes import busyness
from curator_bench.runner.sinks import check

ROOT = Path(__file__).parents[2]
STORIES = (
    "docs/history.md",
    "docs/dashboard.md",
    "docs/first-benchmark.md",
    "docs/requirements.md",
    "docs/clusters.md",
    "docs/datasets.md",
    "docs/docker.md",
    "docs/troubleshooting.md",
    "docs/from-nemo-curator.md",
    "docs/from-coiled-benchmarks.md",
    "docs/from-nightly-runner.md",
    "docs/from-pytest-benchmark.md",
    "docs/from-asv.md",
    "docs/comparison.md",
    "docs/study.md",
    "docs/regressions.md",
    "docs/suites.md",
    "docs/ci.md",
    "docs/bisect.md",
)
"""Pages whose commands build upon each other, in one folder; those of the others stand alone."""
IN_A_CLONE = {"docs/docker.md": "ci", "docs/suites.md": "benchmarks"}
"""What of this repository the commands of a page are about."""
WITH_OTHER_PLUGINS = ("docs/from-pytest-benchmark.md",)
"""Pages about plugins that the tests switch off everywhere else."""
PAGES = ("docs/matrix.md", "docs/matrix-keys.md", "docs/fixtures.md", "README.md", *STORIES)
FENCE = re.compile(r"^(<!-- not run: [^\n]+ -->\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r"# (?P<name>[\w./-]+)(?:, laid over (?P<base>[\w.-]+))?\n")
# What differs from machine to machine and from run to run, and what is compared instead.
DIFFERS = {
    re.compile(r"(?<=s) \(\d+:\d\d:\d\d\)"): "",  # pytest says so from a minute on
    re.compile(r"\b\d+(\.\d+)? ?(µs|ms|s)\b"): "1 s",
    re.compile(r"(?<==)\d[\d.,]*"): "1",
    re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d[\d:.]*)?"): "2026-01-23",
    re.compile(r"\b([0-9a-f]{32}|[0-9a-f]{12}|[0-9a-f]{8})\b"): "3f2c1ab0",
    re.compile(r"[▁▂▃▄▅▆▇█]+"): "▁█",
    re.compile(r"[+-]?\d+\.\d+%?"): "1.0",
    re.compile(r"^(2026-01-23 +\S+ +\w+ +\S+ +)\d+(?= )", re.MULTILINE): r"\g<1>1.0",  # 2.000 s, in `history`
    re.compile(r"on [\w.-]+, exit code"): "on here, exit code",
    re.compile(r"^ *\d+ of \d+ done.*\n", re.MULTILINE): "",  # printed every 30 s, so only on a busy machine
    re.compile(r"^((average|peak)_memory_bytes|cpu_time_s|exec_time_s) .*", re.MULTILINE): r"\1",
    re.compile(r"\b\d{4}-\d\d-\d\d_\d{4}(_\d+)?\b"): "SESSION",
    re.compile(r"  +|=+"): " ",
}
BLOCK = re.compile(
    r"^(?P<why_not><!-- not run: [^\n]{10,} -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)
INDENTED = re.compile(
    r"(?<!-->\n)(?<=\n)\n {4}(?=(?:pytest|make|curator-bench|docker|pip|python|sqlite3|alembic|ci/|[A-Z_]+=)\S* )[^\n]+"
)
OF_A_SHELL = ("console", "sh", "bash", "shell")
EVERY_PAGE = ["README.md", *(f"docs/{file.name}" for file in sorted((ROOT / "docs").glob("*.md")))]
HOME = "/home/me"


@dataclass(frozen=True)
class Example:
    """A fenced block of a page. A file says in its first line what it is called."""

    language: str
    text: str

    @property
    def title(self) -> re.Match[str]:
        found = TITLE.match(self.text)
        assert found, f"an example without a name in its first line:\n{self.text}"
        return found

    @property
    def name(self) -> str:
        return self.title["name"]

    @property
    def has_mistakes(self) -> bool:
        return self.name.startswith("mistakes")


def examples(page: str) -> list[Example]:
    """Those that are run; a comment before a block says why it is not."""
    return [Example(*block) for why_not, *block in FENCE.findall((ROOT / page).read_text()) if not why_not]


def files(page: str) -> list[Example]:
    return [example for example in examples(page) if example.language in ("yaml", "python")]


def commands(page: str) -> Iterator[tuple[str, str]]:
    """Each command of the page with the output that stands below it."""
    for example in examples(page):
        if example.language == "console":
            for part in re.split(r"^\$ ", example.text, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                yield command, output


LOADED_WITH_MORE = ("removal_matrix.yaml",)
"""What only the command of its story gives the datasets to."""
MATRICES = [
    (page, example)
    for page in PAGES
    for example in files(page)
    if example.language == "yaml" and example.name not in LOADED_WITH_MORE
]
COMMANDS: list[tuple[str, str, str]] = [
    (page, *command) for page in PAGES if page not in STORIES for command in commands(page)
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "benchmarks"


def lay_out(page: str, folder: Path) -> None:
    folder.mkdir()
    if page in IN_A_CLONE:
        folder.joinpath(IN_A_CLONE[page]).symlink_to(ROOT / IN_A_CLONE[page])
    names = [example.name for example in files(page)]
    assert len(names) == len(set(names)), f"{page} has two examples of one name"
    for example in files(page):
        (folder / example.name).parent.mkdir(exist_ok=True)
        (folder / example.name).write_text(example.text)


@pytest.mark.parametrize(("page", "example"), MATRICES, ids=[f"{page}-{example.name}" for page, example in MATRICES])
def test_every_example_loads(page: str, example: Example, folder: Path) -> None:
    lay_out(page, folder)
    base = example.title["base"] or example.name
    overlays = (folder / example.name,) if example.title["base"] else ()
    request = LoadRequest(files=(folder / base,), overlays=overlays, working_dir=folder)
    if example.has_mistakes:
        with pytest.raises(MatrixError):
            load(request)
    else:
        assert load(request).entries


@pytest.mark.parametrize(
    ("page", "example"),
    [(page, example) for page, example in MATRICES if "sinks:" in example.text and not example.has_mistakes],
    ids=lambda part: part if isinstance(part, str) else part.name,
)
def test_sinks_of_examples_have_no_mistakes_once_their_variables_are_set(
    page: str, example: Example, folder: Path
) -> None:
    lay_out(page, folder)
    variables = dict.fromkeys(re.findall(r"\$\{(\w+)", example.text), "1")
    check(load(LoadRequest(files=(folder / example.name,), working_dir=folder, variables=variables)))


def shell_environment(page: str) -> dict[str, str]:
    """A plain terminal of 88 columns in which `pytest`, `python` and `curator-bench` are those that run this test."""
    names = ("HOME", "LANG", "PYTHONPATH", "TMPDIR", *([] if page in WITH_OTHER_PLUGINS else ["PYTEST_ADDOPTS"]))
    kept = {name: value for name, value in os.environ.items() if name in names}
    of_machine = {"CURATOR_BENCH_DISTURBED": "count"}  # or what runs beside a test would be among the output
    return kept | of_machine | {"PATH": f"{warm.programs()}:{os.environ['PATH']}", "COLUMNS": "88"}


def as_on_the_page(text: str, folder: Path) -> str:
    text = text.replace(str(folder.parent), HOME).replace(sys.executable, f"{HOME}/.venv/bin/python")
    for pattern, same in DIFFERS.items():
        text = pattern.sub(same, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


@pytest.mark.parametrize(("page", "command", "output"), COMMANDS, ids=[command[1] for command in COMMANDS])
def test_every_command_prints_what_the_docs_say(page: str, command: str, output: str, folder: Path) -> None:
    lay_out(page, folder)
    check_command(command, output, folder, shell_environment(page))


@pytest.mark.slow
@pytest.mark.parametrize("page", STORIES)
def test_every_command_of_a_story_prints_what_the_docs_say(page: str, folder: Path) -> None:
    lay_out(page, folder)
    environment = shell_environment(page)
    for command, output in commands(page):
        check_command(command, output, folder, environment)


def check_command(command: str, output: str, folder: Path, environment: dict[str, str]) -> None:
    outcome = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120 * busyness(),
        check=False,
    )
    printed, expected = as_on_the_page(outcome.stdout, folder), as_on_the_page(output, folder)
    pattern = re.escape(expected).replace("…", ".*")
    assert re.fullmatch(pattern, printed, re.DOTALL), f"$ {command}\n{printed}"


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_every_command_is_run_or_says_why_not(page: str) -> None:
    text = (ROOT / page).read_text()
    is_run = page in PAGES
    blocks = [block for block in BLOCK.finditer(text) if block["language"] in OF_A_SHELL and not block["why_not"]]
    assert [block[0] for block in blocks if not is_run or block["language"] != "console"] == []
    assert INDENTED.findall(text) == []


def test_a_command_that_is_not_run_is_found() -> None:
    assert INDENTED.search("See:\n\n    pytest benchmarks -m x\n")
    assert not INDENTED.search("See:\n\n<!-- not run: takes an hour -->\n    pytest benchmarks -m x\n")
    assert not INDENTED.search("See:\n\n    some text\n")
