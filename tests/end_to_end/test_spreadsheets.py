"""A hostile benchmark names things as formulas are written; a spreadsheet that opens our CSV runs none of them."""

from __future__ import annotations

import csv
import io
import math

import pytest
from click.testing import CliRunner
from end_to_end.conftest import Project

from curator_bench.cli import group
from curator_bench.words import csv_cells

FORMULAS = ["=HYPERLINK(0)", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1+1"]


def test_no_cell_is_a_formula(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = dict.fromkeys(FORMULAS, 1.5) | {"below": -1.5, "said": "@SUM(1)", "tabbed": "\t=1"}
    script = project.folder / "formulas.py"
    script.write_text(
        "import json, pathlib, sys\n"
        f"metrics = {metrics!r}\n"
        "results = pathlib.Path(sys.argv[-1])\n"
        "results.joinpath('params.json').write_text('{}')\n"
        "results.joinpath('metrics.json').write_text(json.dumps(metrics))\n"
    )
    axes = {"way": ["=1+1", "-1+1", "@x"]}
    project.matrix(
        project.entry("=cmd|x", script="formulas.py", matrix=axes),
        project.entry("@fails", script="formulas.py", requirements=[{"metric": "below", "min_value": 0}]),
        run_reason="=1+1",
    )
    project.run("--benchmark")
    monkeypatch.chdir(project.folder)
    commands = (
        ["export", "--format", "csv"],
        ["history", "=cmd|x", "--csv"],
        ["pivot", "s", "--rows", "way", "--metric", "=HYPERLINK(0)", "--format", "csv"],
    )
    texts = [CliRunner().invoke(group, words).stdout for words in commands]
    tables = [list(csv.reader(io.StringIO(text, newline=""))) for text in texts]
    cells = [cell for table in tables for row in table for cell in row]
    assert [cell for cell in cells if cell and cell[0] in "=+@-\t\r\uff1d" and cell != "-1.5"] == []
    assert {"'=HYPERLINK(0)", "'@fails", "'=1+1", "'\t=1", "-1.5"} <= set(cells)
    assert [len(table) > 3 for table in tables] == [True] * 3


def test_numbers_stay_numbers() -> None:
    row = [-1.5, "-1.5", "+2", "-inf", -math.inf, None, "text", "a=b", "-", "--x"]
    assert csv_cells(row) == [-1.5, "-1.5", "+2", "-inf", -math.inf, None, "text", "a=b", "'-", "'--x"]
