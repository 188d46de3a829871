"""A suite of asv stands for one entry per benchmark, as asv's own library lists them."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from curator_bench.errors import BenchError, MatrixError
from curator_bench.matrix import Definitions, LoadRequest, command_of, load
from curator_bench.matrix import asv_suite as suites
from curator_bench.matrix.asv_suite import Benchmark
from curator_bench.matrix.tree import Block
from curator_bench.values import Entry, Place

SORTS = """
class Sort:
    params = [[10, 1000], ["quick", "merge sort"]]
    param_names = ["n", "how much"]
    timeout = 20
    rounds = 3

    def setup(self, n, how):
        self.data = list(range(n, 0, -1))

    def time_sort(self, n, how):
        sorted(self.data)


def track_size():
    return 5
"""
HERE = Place("m.yaml", 1)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "perf").mkdir()
    (folder / "perf" / "__init__.py").touch()
    (folder / "perf" / "sorts.py").write_text(SORTS)
    (folder / "asv.conf.json").write_text('{\n  // "benchmark_dir": "elsewhere",\n  "benchmark_dir": "perf",\n}')
    return folder


def entries(project: Path, block: str, above: str = "") -> tuple[Entry, ...]:
    file = project / "asv_matrix.yaml"
    file.write_text(f"{above}entries: [{block}]")
    return load(LoadRequest(files=(file,), working_dir=project)).entries


def mistakes(project: Path, block: str, above: str = "") -> list[str]:
    with pytest.raises(MatrixError) as raised:
        entries(project, block, above)
    return [f"{mistake.place.line} {mistake.path}: {mistake.problem}" for mistake in raised.value.mistakes]


@pytest.mark.parametrize("path", ["perf", ".", "asv.conf.json"])
def test_each_benchmark_and_combination_is_an_entry_that_needs_no_ray(project: Path, path: str) -> None:
    found = entries(project, f"{{asv: {path}, marks: nightly}}", "ray: {num_cpus: 2}\n")
    assert [entry.id for entry in found] == [
        "sorts.Sort.time_sort[10-quick]",
        "sorts.Sort.time_sort[10-merge sort]",
        "sorts.Sort.time_sort[1000-quick]",
        "sorts.Sort.time_sort[1000-merge sort]",
        "sorts.track_size",
    ]
    assert {(entry.ray, entry.marks, entry.script) for entry in found} == {(None, ("nightly",), "perf/sorts.py")}
    assert [axis.axis for axis in found[0].axes] == ["n", "how_much"]


def test_its_command_runs_the_benchmark_with_asvs_own_values(project: Path) -> None:
    found = command_of(entries(project, f"{{asv: perf, python: {sys.executable}}}")[1], {})
    assert (found.python, found.script, found.skip_code) == (sys.executable, str(suites.PROGRAM), 77)
    assert found.args == ("perf", "sorts.Sort.time_sort", "10", "'merge sort'")


def test_the_definition_is_its_code_and_its_values_wherever_it_is(project: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "perf").symlink_to(project / "perf")
    here, there = (Definitions().hash_of(entries(one, "{asv: perf}")[1]) for one in (project, clone))
    assert here == there
    (clone / "perf").unlink()
    (clone / "perf").mkdir()
    (clone / "perf" / "__init__.py").touch()
    (clone / "perf" / "sorts.py").write_text(SORTS + "\n# changed\n")
    assert Definitions().hash_of(entries(clone, "{asv: perf}")[1]) != here


def test_its_time_limit_is_that_of_asv_for_all_its_processes(project: Path) -> None:
    assert [entry.timeout_s for entry in entries(project, "{asv: perf}")[-2:]] == [3 * 20 + 10, 60 + 10]
    assert [entry.timeout_s for entry in entries(project, "{asv: perf}", "timeout_s: 9\n")[-2:]] == [3 * 20 + 10, 9]
    assert {entry.timeout_s for entry in entries(project, "{asv: perf, timeout_s: 5}")} == {5}


def test_a_setup_cache_adds_its_own_time_limit_or_that_of_the_benchmark() -> None:
    assert Benchmark("x", rounds=2, setup_cache_key="x:1", setup_cache_timeout=7).limit_s(3) == 2 * 3 + 7 + 10
    assert Benchmark("x", rounds=2, setup_cache_key="x:1").limit_s(3) == 2 * 3 + 3 + 10


@pytest.mark.parametrize("path", ["perf", ".", "asv.conf.json"])
def test_the_configuration_of_asv_sets_the_default_time_limit(tmp_path: Path, path: str) -> None:
    assert suites.default_timeout_of(tmp_path / path) == 60
    (tmp_path / "asv.conf.json").write_text('{\n  "default_benchmark_timeout": 90.5,\n}')
    assert suites.default_timeout_of(tmp_path / path) == 90.5


def test_a_suite_one_level_below_is_named(project: Path) -> None:
    with pytest.raises(BenchError, match=f"; there is one in {project}$"):
        suites.folder_of_suite(project.parent)


def test_bench_chooses_as_in_asv(project: Path) -> None:
    assert [entry.id for entry in entries(project, "{asv: perf, bench: track_}")] == ["sorts.track_size"]
    both = "{asv: perf, bench: track_}, {asv: perf, bench: Sort, repeat: 3}"
    assert [entry.repeat for entry in entries(project, both)] == [1, 3, 3, 3, 3]
    rest = "{asv: perf, not_bench: Sort}, {asv: perf, bench: Sort, repeat: 3}"
    assert [entry.repeat for entry in entries(project, rest)] == [1, 3, 3, 3, 3]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("{asv: nowhere}", "1 entries[0].asv: {project}/nowhere is no suite of asv: expected a folder with"),
        ("{asv: [1]}", "1 entries[0].asv: found a list, expected text"),
        ("{asv: '${NOT_SET}'}", "1 entries[0].asv: "),
        ("{asv: perf, name: x}", "1 entries[x].name: conflicts with asv"),
        ("{asv: perf, args: x}", "1 entries[0].args: conflicts with asv"),
        ("{asv: perf, bench: x}", "1 entries[0].bench: no benchmark matches 'x'; there are: sorts.Sort.time_sort, sor"),
        ("{asv: perf, not_bench: s}", "1 entries[0].not_bench: every benchmark matches 's', so none is left"),
        ("{asv: perf, not_bench: x}", "1 entries[0].not_bench: no benchmark matches 'x'; there are: sorts.Sort"),
        ("{asv: perf, bench: (}", "1 entries[0].bench: expected a regular expression: "),
        ("{asv: perf, timeout: 5}", "1 entries[0].timeout: unknown key; did you mean 'timeout_s'?"),
        ("{asv: perf, python: /no/python}", "1 entries[0].asv: /no/python could not be started"),
        ("{asv: perf}, {asv: perf, bench: Sort}", "1 entries[1]: the name 'sorts.Sort.time_sort' is already used"),
        ("{name: a, script: b, bench: c}", "1 entries[a].bench: goes with `asv`"),
    ],
)
def test_a_mistake_says_where_it_is_once(project: Path, block: str, expected: str) -> None:
    (found,) = mistakes(project, block)
    assert found.startswith(expected.format(project=project))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import json\nimport no_such_module", "2: ModuleNotFoundError: No module named 'no_such_module'"),
        ("import json\nx = = 1", "2: SyntaxError: invalid syntax"),
        ("raise SystemExit('no data\\nat all')", "1: SystemExit: no data"),
    ],
)
def test_a_suite_that_cannot_be_imported_is_a_mistake_with_its_place(tmp_path: Path, code: str, expected: str) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "__init__.py").touch()
    (tmp_path / "broken" / "sorts.py").write_text(code)
    (found,) = mistakes(tmp_path, "{asv: broken}")
    assert found.endswith(f"could not be listed by {sys.executable}: {tmp_path}/broken/sorts.py:{expected}")


def test_an_interpreter_without_asv_runner_says_how_to_install_it(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S "$@"\n')
    python.chmod(0o755)
    (tmp_path / "perf").mkdir()
    (tmp_path / "perf" / "__init__.py").touch()
    (found,) = mistakes(tmp_path, "{asv: perf, python: ./python}")
    assert found.endswith("./python -m pip install asv_runner`")


def test_a_list_is_kept_until_the_suite_changes(tmp_path: Path) -> None:
    imported = tmp_path / "imported"
    suite = tmp_path / "perf"
    suite.mkdir()
    (suite / "__init__.py").write_text(f"open({str(imported)!r}, 'a').write('x')\ndef time_one(): pass\n")
    for _ in range(2):
        assert [one.name for one in suites.benchmarks_of(suite, sys.executable, os.environ)] == ["time_one"]
    assert imported.read_text() == "x"
    (suite / "more.py").write_text("def time_two(): pass\n")
    assert len(suites.benchmarks_of(suite, sys.executable, os.environ)) == 2


def test_odd_names_and_values_of_parameters_become_axes(tmp_path: Path) -> None:
    params = (("'a'", '"b\'s"', "''"), ("'1'", "1"), ("<class 'int'>", "x[0]"))
    one = Benchmark("mod.time_x", ("f(x)", "how much", "name"), params)
    (block,) = suites.blocks_of(Block(), tmp_path / "perf", [one], HERE)
    axes = {name: list(values) for name, values in block["matrix"].items()}
    assert axes == {"f_x": ["a", '"b\'s"', "''"], "how_much": ["'1'", "1"], "name": ["int", "x[0]"]}
    assert block["args"] == "mod.time_x {f_x.value} {how_much.value} {name.value}"
    assert [fields["value"] for fields in block["matrix"]["f_x"].values()] == list(params[0])
    (block,) = suites.blocks_of(Block(), tmp_path / "perf", [Benchmark("t", ("1 2", "a", "a"), params)], HERE)
    assert list(block["matrix"]) == ["param1", "a", "param3"]


def test_a_pattern_that_chooses_nothing_lists_a_few() -> None:
    with pytest.raises(BenchError, match=r"there are: time_0, .*time_7, …$"):
        suites.chosen([Benchmark(f"time_{number}") for number in range(100)], "no")
