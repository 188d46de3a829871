"""A matrix becomes tests: ids, selection, marks, mistakes, workers."""

from __future__ import annotations

import textwrap
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable

import pytest

from curator_bench.collection.items import backstop_s
from curator_bench.values import DataSetup, Entry, MatrixFile, Place

SCRIPT = """
import argparse, json, pathlib, sys
parser = argparse.ArgumentParser()
parser.add_argument("--benchmark-results-path", type=pathlib.Path)
parser.add_argument("--say", default="hello")
parser.add_argument("--exit", type=int, default=0)
arguments = parser.parse_args()
(arguments.benchmark_results_path / "params.json").write_text("{}")
metrics = {"is_success": True, "said": len(arguments.say)}
(arguments.benchmark_results_path / "metrics.json").write_text(json.dumps(metrics))
print(arguments.say)
sys.exit(arguments.exit)
"""

TWO_AXES = """
marks: [dedup]
entries:
  - name: removal
    script: work.py
    ray: false
    matrix: {executor: [ray_data, ray_actors], size: [1, 2]}
    exclude: [{executor: ray_actors, size: 2}]
    args: --say {executor}
  - name: exact
    marks: [slow]
    script: work.py
    ray: false
"""

Lay = Callable[..., None]


@pytest.fixture
def lay(pytester: pytest.Pytester) -> Lay:
    """Writes a script and a matrix into the folder of the test."""

    def write(matrix: str = TWO_AXES, name: str = "matrix.yaml") -> None:
        pytester.path.joinpath("work.py").write_text(SCRIPT)
        pytester.path.joinpath(name).write_text(textwrap.dedent(matrix))

    return write


def ids(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if "::" in line and " " not in line]


def test_each_combination_is_an_item_and_its_printed_id_runs_just_it(pytester: pytest.Pytester, lay: Lay) -> None:
    lay()
    printed = ids(pytester.runpytest("--collect-only", "-q", "matrix.yaml"))
    assert printed == [
        "matrix.yaml::removal[ray_data-1]",
        "matrix.yaml::removal[ray_data-2]",
        "matrix.yaml::removal[ray_actors-1]",
        "matrix.yaml::exact",
    ]
    for node_id in (printed[2], printed[3]):
        pytester.runpytest(node_id).assert_outcomes(passed=1)
    pytester.runpytest("matrix.yaml::removal").assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["-k", "exact"], 1),
        (["-k", "removal"], 3),
        (["-k", "ray_actors"], 1),
        (["-k", "removal and not ray_actors"], 2),
        (["-m", "dedup"], 4),
        (["-m", "slow"], 1),
        (["-m", "dedup and not slow"], 3),
        (["--bench-entries", "exact"], 1),
        (["--bench-entries", "exact,removal[ray_data-2]"], 2),
    ],
)
def test_entries_are_chosen_by_name_axis_value_and_mark(
    pytester: pytest.Pytester, lay: Lay, arguments: list[str], count: int
) -> None:
    lay()
    result = pytester.runpytest("--collect-only", "-q", "--strict-markers", *arguments)
    assert len(ids(result)) == count


def test_in_a_folder_only_files_that_match_bench_files_are_collected(pytester: pytest.Pytester, lay: Lay) -> None:
    one = "entries: [{{name: {0}, script: work.py, ray: false}}]"
    for name in ("a_matrix.yaml", "b.benchmark.yml", "other.yaml"):
        lay(one.format(name[0]), name)
    assert ids(pytester.runpytest("--co", "-q")) == ["a_matrix.yaml::a", "b.benchmark.yml::b"]
    assert ids(pytester.runpytest("--co", "-q", "other.yaml")) == ["other.yaml::o"]
    assert ids(pytester.runpytest("--co", "-q", "-o", "bench_files=other.*")) == ["other.yaml::o"]


def test_what_pytest_ignores_is_not_even_read(pytester: pytest.Pytester, lay: Lay) -> None:
    lay()
    for folder in ("node_modules", "left_out", "venv"):
        pytester.mkdir(folder).joinpath("matrix.yaml").write_text("entries: 3")
    pytester.path.joinpath("venv", "pyvenv.cfg").write_text("")
    result = pytester.runpytest("--co", "-q", "--ignore", "left_out")
    assert result.ret == 0
    assert len(ids(result)) == 4


def test_without_the_plugin_a_matrix_is_no_test(pytester: pytest.Pytester, lay: Lay) -> None:
    lay()
    result = pytester.runpytest_subprocess("-p", "no:curator_bench", "--collect-only")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_fixtures_durations_setup_plan_and_junit_see_ordinary_tests(pytester: pytest.Pytester, lay: Lay) -> None:
    lay()
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(autouse=True)
        def around(request):
            print("around", request.node.name)

        @pytest.fixture
        def run_result(run_result):
            assert run_result.metrics["said"] > 0
            return run_result
        """
    )
    plan = pytester.runpytest("--setup-plan", "-k", "exact")
    used = "around, entry, judge_run, request, run_result"
    plan.stdout.fnmatch_lines(["*SETUP*around*", f"*exact (fixtures used: {used})*"])
    result = pytester.runpytest("--durations=1", "--junitxml=junit.xml", "-rP", "-k", "exact")
    result.assert_outcomes(passed=1, deselected=3)
    result.stdout.fnmatch_lines(["*around exact*", "*slowest 1 durations*"])
    case = next(ElementTree.parse(pytester.path / "junit.xml").iter("testcase"))
    assert case.attrib["name"] == "exact"


def test_last_failed_and_exitfirst_work(pytester: pytest.Pytester, lay: Lay) -> None:
    lay(
        """
        entries:
          - {name: good, script: work.py, ray: false}
          - {name: bad, script: work.py, ray: false, args: --exit 3 --say last-words}
          - {name: worse, script: work.py, ray: false, args: --exit 4}
        """
    )
    first = pytester.runpytest("-x")
    first.assert_outcomes(passed=1, failed=1)
    first.stdout.fnmatch_lines(["*bad*crashed*exit code 3*", "*last-words*"])
    assert "Traceback" not in first.stdout.str()
    pytester.runpytest("--lf").assert_outcomes(failed=1)


def test_the_place_of_an_item_is_its_line_in_the_matrix(pytester: pytest.Pytester, lay: Lay) -> None:
    lay()
    items, _ = pytester.inline_genitems("matrix.yaml")
    exact = next(item for item in items if item.name == "exact")
    file, line, name = exact.location
    text = pytester.path.joinpath(file).read_text().splitlines()[line or 0]
    assert "name: exact" in text
    assert name == "exact"


def test_a_python_benchmark_takes_the_entries_of_a_matrix(pytester: pytest.Pytester, lay: Lay) -> None:
    lay(TWO_AXES, "mine.yaml")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.bench_matrix("mine.yaml")
        def test_knows_its_entry(entry, run_result):
            assert run_result.metrics["said"] == len(entry.axes[0].text if entry.axes else "hello")
        """
    )
    result = pytester.runpytest("--collect-only", "-q", "--strict-markers")
    assert any(node_id.endswith("test_knows_its_entry[removal[ray_data-2]]") for node_id in ids(result))
    pytester.runpytest().assert_outcomes(passed=4)


def test_a_python_benchmark_that_names_a_broken_matrix_is_a_usage_error(pytester: pytest.Pytester) -> None:
    pytester.path.joinpath("mine.yaml").write_text("entries: [{name: x}]")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.bench_matrix("mine.yaml")
        def test_it(entry): ...
        """
    )
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*mine.yaml:1: entries?x?.script: is missing*"])


def test_entry_without_its_mark_says_what_is_needed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(entry): ...")
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*needs @pytest.mark.bench_matrix*"])


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_mistakes_of_all_files_are_printed_once_without_a_traceback(
    pytester: pytest.Pytester, lay: Lay, workers: list[str]
) -> None:
    lay("entries: [{name: a, script: work.py, tmeout_s: 3}]", "a_matrix.yaml")
    lay("entries: [{name: b, script: work.py, repeat: many}]", "b_matrix.yaml")
    result = pytester.runpytest_subprocess(*workers)
    output = result.stdout.str() + result.stderr.str()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert output.count("a_matrix.yaml:1: entries[a].tmeout_s: unknown key; did you mean 'timeout_s'?") == 1
    assert output.count("b_matrix.yaml:1: entries[b].repeat: found 'many', expected a whole number") == 1
    assert "Traceback" not in output
    assert "2 mistakes" in output


def test_an_unknown_name_in_bench_entries_lists_the_known(pytester: pytest.Pytester, lay: Lay) -> None:
    lay()
    result = pytester.runpytest("--bench-entries", "exact,removl")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no entry removl; there are: exact, removal*"])


def test_a_name_in_two_files_names_both_places(pytester: pytest.Pytester, lay: Lay) -> None:
    for name in ("a_matrix.yaml", "b_matrix.yaml"):
        lay("entries:\n  - {name: same, script: work.py}", name)
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*b_matrix.yaml:2: entries?same?:*'same' is already used at a_matrix.yaml:2*"])


def test_overlays_come_from_the_command_line_and_the_ini_file(pytester: pytest.Pytester, lay: Lay) -> None:
    lay()
    lay("entries: [{name: exact, args: --say from-ini --exit 0}]", "ini.yaml")
    lay("entries: [{name: exact, args: --say from-line}]", "line.yaml")
    pytester.makeini("[pytest]\nbench_matrix = ini.yaml")
    log = "results/s/exact/logs/stdouterr.log"
    pytester.runpytest("-k", "exact", "--bench-session", "s").assert_outcomes(passed=1, deselected=3)
    assert pytester.path.joinpath(log).read_text() == "from-ini\n"
    pytester.runpytest("-k", "exact", "--bench-session", "s", "--bench-matrix", "line.yaml")
    assert pytester.path.joinpath(log).read_text() == "from-line\n"


def test_workers_run_what_the_controller_read_in_one_session(pytester: pytest.Pytester, lay: Lay) -> None:
    lay()
    result = pytester.runpytest_subprocess("-n", "2", "--bench-results", "elsewhere")
    result.assert_outcomes(passed=4)
    sessions = list(pytester.path.joinpath("elsewhere").iterdir())
    assert len(sessions) == 1
    assert {path.name for path in sessions[0].iterdir()} >= {"removal", "exact"}


@pytest.mark.parametrize("name", ["a/b", "..", "", "a b"])
def test_a_session_name_is_a_folder_name(pytester: pytest.Pytester, lay: Lay, name: str) -> None:
    lay()
    result = pytester.runpytest("--bench-session", name)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--bench-session*expected letters, digits*"])


@pytest.mark.slow
def test_works_beside_pytest_benchmark_codspeed_and_xdist(
    pytester: pytest.Pytester, lay: Lay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-pno:anyio -pno:hypothesispytest -pno:platformdirs")
    lay()
    pytester.makepyfile("def test_theirs(benchmark): benchmark(sum, [1, 2])")
    for arguments in (["."], [".", "-n", "2"], ["--benchmark"], ["--benchmark", "--benchmark-disable"]):
        pytester.runpytest_subprocess("--strict-markers", *arguments).assert_outcomes(passed=5)
    pytester.runpytest_subprocess("--strict-markers").assert_outcomes(passed=1, deselected=4)
    # pytest-codspeed itself deselects whatever has no fixture or mark of its own.
    pytester.runpytest_subprocess(".", "--codspeed").assert_outcomes(passed=1, deselected=4)


def test_the_backstop_covers_every_execution_and_set_up() -> None:
    place = Place("m.yaml", 1)
    setup = DataSetup("s", "s.py", None, (), 100, {}, place)
    file = MatrixFile("m.yaml", ".", data_setups=(setup,))
    entry = Entry("e", place, file, "w.py", timeout_s=10, repeat=3, warmup=1, retries=2)
    assert backstop_s(entry) == 4 * 3 * (10 + 60) + 600 + 100
    assert backstop_s(entry, confirm=1) == 2 * 4 * 3 * 70 + 700
    assert backstop_s(entry, runs=5) == 4 * (5 + 2) * 70 + 700


def test_the_backstop_ends_an_item_only_through_pytest_timeout(pytester: pytest.Pytester, lay: Lay) -> None:
    lay()
    items, _ = pytester.inline_genitems("matrix.yaml")
    marker = items[0].get_closest_marker("timeout")
    assert marker is not None
    assert marker.args == (7200 + 60 + 600,)
    items, _ = pytester.inline_genitems("-p", "no:timeout", "--strict-markers", "matrix.yaml")
    assert items[0].get_closest_marker("timeout") is None
