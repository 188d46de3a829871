"""What a plain `pytest` does in projects with and without benchmarks of ours, and with files that only look like it."""

from __future__ import annotations

import textwrap

import pytest

pytest.importorskip("yaml")  # once: what runs in process takes back what it imports, and its errors would be others
UNIT = "def test_unit(): ...\n"
MATRIX = """\
ray: false
entries:
  - {name: sorting, script: work.py, marks: [dedup]}
  - {name: searching, script: work.py, marks: [slow]}
"""
SCRIPT = """\
import pathlib, sys
results = pathlib.Path(sys.argv[-1])
results.joinpath("params.json").write_text("{}")
results.joinpath("metrics.json").write_text("{}")
"""
LEFT_OUT = "2 benchmarks were not run; to run them: `pytest benchmarks` or `pytest --benchmark`"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A repository with unit tests and, in a folder of their own, benchmarks."""
    write(pytester, "test_unit.py", UNIT)
    write(pytester, "benchmarks/matrix.yaml", MATRIX)
    write(pytester, "benchmarks/work.py", SCRIPT)
    pytester.makeini("[pytest]\nmarkers = unit: of the project's own\n")
    return pytester


def write(pytester: pytest.Pytester, name: str, text: str) -> None:
    file = pytester.path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text))


def test_unit_tests_do_not_start_the_benchmarks_beside_them(project: pytest.Pytester) -> None:
    for arguments in (
        (),
        ("-q",),
        ("-k", "unit"),
        ("-m", "not slow"),
        ("-k", "not sorting"),
        ("-k", "benchmarks or unit"),
    ):
        result = project.runpytest(*arguments)
        result.assert_outcomes(passed=1, deselected=2)
        assert LEFT_OUT in result.outlines, arguments
    assert not (project.path / "results").exists()


def test_testpaths_name_no_benchmarks(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\ntestpaths = . benchmarks\n")
    project.runpytest().assert_outcomes(passed=1, deselected=2)


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        ((".",), 3),
        (("benchmarks",), 2),
        (("benchmarks/matrix.yaml",), 2),
        (("benchmarks/matrix.yaml::sorting",), 1),
        (("test_unit.py", "benchmarks"), 3),
        (("--bench-session", "mine"), 3),
        (("--bench-strict",), 3),
        (("-m", "dedup"), 1),
        (("-m", "dedup or slow"), 2),
        (("-k", "sorting"), 1),
        (("-k", "SORT or unit"), 2),
        (("-o", "bench_collect=always"), 3),
    ],
)
def test_whoever_asks_for_benchmarks_gets_them(
    project: pytest.Pytester, arguments: tuple[str, ...], passed: int
) -> None:
    result = project.runpytest(*arguments)
    assert result.parseoutcomes()["passed"] == passed
    assert "not run" not in result.stdout.str()
    assert list(project.path.glob("**/results/*/session.json"))


def test_recording_asks_for_benchmarks(project: pytest.Pytester) -> None:
    project.runpytest_subprocess("--benchmark").assert_outcomes(passed=3)


def test_addopts_ask_as_well(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\naddopts = --bench-results=elsewhere\n")
    project.runpytest().assert_outcomes(passed=3)


def test_the_database_alone_asks_for_nothing(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\naddopts = --benchmark-db=runs.db\n")
    project.runpytest().assert_outcomes(passed=1, deselected=2)


def test_they_are_listed_when_asked_what_there_is(project: pytest.Pytester) -> None:
    result = project.runpytest("--collect-only", "-q")
    assert {"benchmarks/matrix.yaml::sorting", "test_unit.py::test_unit"} <= set(result.outlines)


def test_a_folder_of_benchmarks_only_runs_them(project: pytest.Pytester) -> None:
    (project.path / "test_unit.py").unlink()
    result = project.runpytest()
    result.assert_outcomes(passed=2)
    (name,) = [path.name for path in project.path.joinpath("results").iterdir()]
    assert len(name) == len("2026-11-18_1432")


def test_benchmarks_in_python_stay_ordinary_tests(project: pytest.Pytester) -> None:
    write(project, "benchmarks/test_python.py", "def test_it(benchmark_time):\n    with benchmark_time: ...\n")
    (project.path / "test_unit.py").unlink()
    result = project.runpytest()
    result.assert_outcomes(passed=1, deselected=2)
    assert LEFT_OUT in result.outlines


def test_workers_leave_them_out_too(project: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    result = project.runpytest_subprocess("-n", "1")
    assert result.parseoutcomes()["passed"] == 1
    assert LEFT_OUT in result.outlines
    (project.path / "test_unit.py").unlink()
    project.runpytest_subprocess("-n", "1").assert_outcomes(passed=2)


def test_mistakes_in_a_matrix_that_nobody_asked_for_do_not_stop_unit_tests(project: pytest.Pytester) -> None:
    write(project, "benchmarks/matrix.yaml", "entries:\n  - {name: sorting, scrip: work.py}\n")
    result = project.runpytest("-q")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["Benchmarks were not run: 2 mistakes in the benchmark matrix: benchmarks/matrix.yaml:2:*"]
    )
    assert project.runpytest(".").ret == pytest.ExitCode.USAGE_ERROR
    assert project.runpytest("--benchmark").ret == pytest.ExitCode.USAGE_ERROR
    (project.path / "test_unit.py").unlink()
    alone = project.runpytest()
    assert alone.ret == pytest.ExitCode.USAGE_ERROR
    alone.stderr.fnmatch_lines(["*entries[[]sorting[]]*scrip*"])


@pytest.mark.parametrize(
    "text",
    [
        "include:\n  - {os: linux}\njobs: [a, b]\n",
        "- a\n- b\n",
        "just words\n",
        "{{ a template }}\n",
        "",
        "strategy:\n\tbroken: tab\n",
        "deep: {entries: [1]}\n",
    ],
)
def test_a_file_of_somebody_else_is_not_ours(pytester: pytest.Pytester, text: str) -> None:
    """Found by walking, as below `pytest .`; a file that is named is meant to be a matrix."""
    write(pytester, "test_unit.py", UNIT)
    write(pytester, "ci/build-matrix.yaml", text)
    for arguments in ((), (".",), ("--bench-strict",)):
        result = pytester.runpytest(*arguments)
        result.assert_outcomes(passed=1)
        assert "matrix" not in result.stdout.str().partition("collected")[2]
    assert pytester.runpytest("ci/build-matrix.yaml").ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize("text", ["entries:\n\t- broken\n", "default_timeout_s: -1\n", "mlflow: {x: 1}\nentries: 3\n"])
def test_a_file_with_something_of_a_matrix_is_ours_whatever_is_wrong_with_it(
    pytester: pytest.Pytester, text: str
) -> None:
    write(pytester, "test_unit.py", UNIT)
    write(pytester, "matrix.yaml", text)
    pytester.runpytest().assert_outcomes(passed=1)
    assert pytester.runpytest(".").ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize("folder", [".", "tests"])
def test_an_option_of_ours_in_a_conftest_is_a_message_that_says_what_to_do(
    pytester: pytest.Pytester, folder: str
) -> None:
    """As in Coiled's suite; beside the tests, or in a folder that pytest finds later."""
    write(pytester, f"{folder}/test_unit.py", UNIT)
    conftest = "def pytest_addoption(parser):\n    parser.addoption('--benchmark', action='store_true')\n"
    write(pytester, f"{folder}/conftest.py", conftest)
    result = pytester.runpytest_subprocess()
    said = result.stdout.str() + result.stderr.str()
    assert "conftest.py defines the option --benchmark, which curator-bench has as well. Remove it there" in said
    assert "pytest -p no:curator_bench" in said
    assert "Traceback" not in said
    assert "ValueError" not in said
    pytester.runpytest_subprocess("-p", "no:curator_bench").assert_outcomes(passed=1)


def test_an_option_of_ours_in_a_plugin_that_came_first_is_told_too(pytester: pytest.Pytester) -> None:
    write(pytester, "of_others.py", "def pytest_addoption(parser):\n    parser.addoption('--bench-session')\n")
    write(pytester, "test_unit.py", UNIT)
    result = pytester.runpytest_subprocess("-p", "of_others")
    result.stderr.fnmatch_lines(["ERROR: Another plugin defines the option --bench-session, which curator-bench has*"])
    assert "Traceback" not in result.stderr.str()


def test_a_clash_that_is_not_ours_stays_what_it_is(pytester: pytest.Pytester) -> None:
    write(pytester, "conftest.py", "def pytest_addoption(parser):\n    parser.addoption('--lf')\n")
    result = pytester.runpytest_subprocess()
    assert "curator-bench" not in result.stdout.str() + result.stderr.str()
