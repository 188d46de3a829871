"""Every mistake of a matrix file is told with its place, its path, what was found and what was expected."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from curator_bench.errors import MatrixError, Mistake
from curator_bench.values import Place

if TYPE_CHECKING:
    from matrix.conftest import Folder

TABLE = Path(__file__).parent / "data" / "mistakes.yaml"


def broken_files() -> Iterator[Any]:
    """The table of broken files, as parameters of a test."""
    for group, files in yaml.safe_load(TABLE.read_text(encoding="utf-8")).items():
        for file in files:
            yield pytest.param(file["file"], file["mistakes"].splitlines(), id=f"{group}: {file['name']}")


@pytest.mark.parametrize(("text", "mistakes"), list(broken_files()))
def test_a_broken_file_gets_these_mistakes_and_no_others(folder: Folder, text: str, mistakes: list[str]) -> None:
    assert folder.mistakes(text) == mistakes


def test_all_mistakes_of_all_files_are_told_at_once(folder: Folder) -> None:
    first = """\
        entrees: []
        ray: {cpus: 1}
        paths: [{name: data}]
        entries:
          - {name: a, script: run.py, args: "{data}/x '", timout_s: 3, matrix: {n: }, ray: {num_gpu: 1}}
          - {name: b, script: run.py, args: "{dataset:x}", repeat: none, requirements: {speed: {}}}
    """
    second = "entries: [{name: b}]\n"
    assert folder.mistakes(first, second, overlays=("entries: [{name: c}]\n",)) == [
        "matrix.yaml:1: entrees: unknown key; did you mean 'entries'?",
        "matrix.yaml:2: ray.cpus: unknown key; did you mean 'num_cpus'?",
        "matrix.yaml:3: paths[data].host_path: is missing",
        "matrix.yaml:5: entries[a].args: bad shell quoting: no closing quotation",
        "matrix.yaml:5: entries[a].matrix.n: found nothing, expected a list of values or a mapping of named ones",
        "matrix.yaml:5: entries[a].ray.num_gpu: unknown key; did you mean 'num_gpus'?",
        "matrix.yaml:5: entries[a].timout_s: unknown key; did you mean 'timeout_s'?",
        "matrix.yaml:6: entries[b].args: found {dataset:x}, expected {dataset:NAME,FORMAT}",
        "matrix.yaml:6: entries[b].repeat: found 'none', expected a whole number",
        "matrix.yaml:6: entries[b].requirements[speed]: has no bound; "
        "expected min_value, max_value, exact_value, max_regression or max_drift",
        "matrix_2.yaml:1: entries[b].script: is missing",
        "overlay.yaml:1: entries[c]: an entry without a script must name an existing entry, "
        "but there is no entry 'c'; known: a, b",
    ]


def test_many_mistakes_take_time_in_proportion_to_their_number(folder: Folder) -> None:
    """As in a file that was made to keep pytest busy. Thirty times the mistakes took two hundred times as long."""

    def seconds(count: int) -> float:
        text = "".join(f"k{number}: 1\n" for number in range(count)) + "entries: [{name: a, script: run.py}]\n"
        began = time.process_time()
        assert len(folder.mistakes(text)) == count
        return time.process_time() - began

    seconds(10)
    assert min(seconds(6000) for _ in range(3)) < 90 * seconds(200)


def test_the_headline_counts_the_mistakes_and_repeats_none(folder: Folder) -> None:
    with pytest.raises(MatrixError, match=r"\A1 mistake in the benchmark matrix:\n  matrix.yaml:1: entires: unknown"):
        folder.load("entires: []")
    twice = Mistake(Place("a.yaml", 3), "entries[x]", "is wrong")
    other = Mistake(Place("a.yaml", 1), "", "is wrong too")
    expected = "2 mistakes in the benchmark matrix:\n  a.yaml:1: is wrong too\n  a.yaml:3: entries[x]: is wrong"
    assert str(MatrixError([twice, other, twice])) == expected


def test_a_mistake_is_one_line_whatever_the_names_are(folder: Folder) -> None:
    (mistake,) = folder.mistakes('entries:\n  - {name: "a\\nb", script: x, "un\\nknown": 1}\n')[:1]
    assert "\n" not in mistake
    mistakes = folder.mistakes(f"entries:\n  - {{name: {'n' * 500}, script: x, {'k' * 500}: {'v' * 500}}}\n")
    assert len(mistakes) == 1
    assert len(mistakes[0]) < 500


def test_unknown_names_are_no_mistake_when_what_may_define_them_could_not_be_read(folder: Folder) -> None:
    matrix = "entries: [{name: a, script: b, args: '--in {data}/x {dataset:cleaned_cc,jsonl}'}]\n"
    assert folder.mistakes(matrix, overlays=("paths: [\n",)) == [
        "overlay.yaml:2: not valid YAML: while parsing a flow node, did not find expected node content"
    ]
    assert folder.mistakes("paths: [{name: data}]\ndatasets: [{name: cleaned_cc}]\n" + matrix) == [
        "matrix.yaml:1: paths[data].host_path: is missing",
        "matrix.yaml:2: datasets[cleaned_cc].formats: is missing",
    ]
