"""The `curator-bench` command, run as its users run it."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import warm

MATRIX = """
entries:
  - name: removal
    script: work.py
    ray: false
    matrix: {size: [1, 2]}
    args: --out {session_entry_dir}/out --say 'two words' --token ${MY_TOKEN:-none} --size {size}
    requirements: [{metric: said, min_value: 1}]
  - {name: waits, script: work.py, args: "--x ${NOT_SET}"}
"""

SCRIPT = """
import json, pathlib, sys
results = pathlib.Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
results.mkdir(parents=True, exist_ok=True)
results.joinpath("metrics.json").write_text(json.dumps({"said": len(sys.argv)}))
print(json.dumps(sys.argv[1:]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.joinpath("matrix.yaml").write_text(MATRIX)
    tmp_path.joinpath("work.py").write_text(SCRIPT)
    return tmp_path


def bench(folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return warm.run("curator-bench", *arguments, cwd=folder, env=env)


def test_the_help_lists_each_command_in_a_group(folder: Path) -> None:
    text = bench(folder, "--help").stdout
    starts = [text.index(f"\n{group}:\n") for group in ("Matrices", "Results", "Regressions", "The database")]
    assert starts == sorted(starts)
    for command, group in (("init", 0), ("history", 1), ("compare", 2), ("merge", 3)):
        at = text.index(f"\n  {command} ")
        assert starts[group] < at < [*starts, len(text)][group + 1]


def test_a_mistyped_command_is_answered_with_what_was_meant(folder: Path) -> None:
    done = warm.run("curator-bench", "histroy", cwd=folder)
    assert (done.returncode, "No such command 'histroy'. Did you mean history?" in done.stderr) == (2, True)
    assert "Did you mean" not in warm.run("curator-bench", "zzz", cwd=folder).stderr


def test_matrix_prints_a_table_and_what_cannot_run(folder: Path) -> None:
    result = bench(folder, "matrix", "matrix.yaml")
    assert result.returncode == 0
    assert "removal[1]" in result.stdout
    assert "3 entries" in result.stdout
    assert "waits: cannot run: matrix.yaml:9: entries[waits].args: environment variable NOT_SET" in result.stdout


def test_matrix_prints_json(folder: Path) -> None:
    document = json.loads(bench(folder, "matrix", "matrix.yaml", "--json").stdout)
    first = document["entries"][0]
    assert first["id"] == "removal[1]"
    assert first["axes"] == {"size": {"value": 1}}
    assert first["ray"] is False
    assert first["requirements"] == [{"metric": "said", "min_value": 1.0}]


def test_matrix_lays_overlays_over_it(folder: Path) -> None:
    folder.joinpath("over.yaml").write_text("entries: [{name: removal, timeout_s: 7}]")
    result = bench(folder, "matrix", "matrix.yaml", "--overlay", "over.yaml", "--json")
    assert json.loads(result.stdout)["entries"][0]["timeout_s"] == 7


def test_matrix_with_mistakes_prints_them_and_exits_with_one(folder: Path) -> None:
    folder.joinpath("broken.yaml").write_text("entries: [{name: x, script: y, tags: [z]}]")
    result = bench(folder, "matrix", "broken.yaml")
    assert result.returncode == 1
    assert "broken.yaml:1: entries[x].tags: unknown key" in result.stderr
    assert "Traceback" not in result.stderr


def test_matrix_knows_the_mistakes_in_a_sinks_block_that_pytest_knows(folder: Path) -> None:
    folder.joinpath("told.yaml").write_text(
        "sinks: [{name: slack, channel_id: C1, token: planted}, {name: mlfow}]\n"
        "entries: [{name: x, script: y, sink_data: [{name: slak}]}]"
    )
    result = bench(folder, "matrix", "told.yaml")
    assert result.returncode == 1
    assert "told.yaml:1: sinks[slack].token: unknown key; did you mean 'bot_token'?" in result.stderr
    assert "told.yaml:2: entries[x].sink_data[slak].name: unknown sink 'slak'; did you mean 'slack'?" in result.stderr
    assert "told.yaml:1: sinks[mlfow].name: unknown sink 'mlfow'; did you mean 'mlflow'?" in result.stderr


def test_command_prints_what_runs_and_keeps_secrets(folder: Path) -> None:
    env = {"MY_TOKEN": "s3cret-value", "PATH": "/usr/bin:/bin"}
    result = bench(folder, "command", "matrix.yaml", "removal[2]", env=env)
    assert result.returncode == 0, result.stderr
    assert "s3cret" not in result.stdout
    words = shlex.split(result.stdout)
    assert words[1] == str(folder / "work.py")
    assert words[2:6] == ["--out", str(folder / "manual_run/out"), "--say", "two words"]
    assert words[-2:] == ["--benchmark-results-path", str(folder / "manual_run/benchmark_results")]
    ran = subprocess.run(result.stdout, shell=True, capture_output=True, text=True, check=True, cwd=folder)
    assert "two words" in json.loads(ran.stdout)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("removal", "'removal' has 2 combinations; name one of: removal[1], removal[2]"),
        ("remove", "no entry 'remove'; there are: removal[1], removal[2], waits"),
        ("waits", "environment variable NOT_SET is not set"),
    ],
)
def test_command_says_why_it_cannot(folder: Path, entry: str, message: str) -> None:
    result = bench(folder, "command", "matrix.yaml", entry)
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_run_translates_the_older_options_and_prints_the_invocation(folder: Path) -> None:
    folder.joinpath("paths.yaml").write_text("paths: [{name: results_path, host_path: ./there}]")
    folder.joinpath("datasets.json").write_text('{"cc": {"jsonl": "/data/cc"}}')
    result = bench(
        folder, "run", "--config", "matrix.yaml", "--config", "paths.yaml", "--datasets", "datasets.json",
        "--session-name", "night", "--entries", "removal and not 2", "--reason", "why not",
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr.splitlines()[0] == (
        "python -m pytest matrix.yaml --bench-matrix=paths.yaml --bench-datasets datasets.json "
        "--bench-session night -k 'removal and not 2' --bench-reason 'why not' --benchmark"
    )
    assert folder.joinpath("there", "night", "removal", "1").is_dir()


def test_run_takes_the_other_options_of_nemo_curators_runner(folder: Path) -> None:
    """Strictly, the variable that an entry lacks is a mistake."""
    result = bench(
        folder, "run", "--config=matrix.yaml", "--entries-exact", "removal,waits", "--list", "--strict-config-check",
        "--viewer-url-template", "http://viewer/{session_name_url}",
    )  # fmt: skip
    assert result.stderr.splitlines()[0] == (
        "python -m pytest matrix.yaml --bench-entries removal,waits "
        "--bench-viewer-url 'http://viewer/{session_name_url}' --bench-strict --collect-only -q"
    )
    assert result.returncode == 4
    assert "environment variable NOT_SET is not set" in result.stdout + result.stderr


def test_run_lists_without_running(folder: Path) -> None:
    result = bench(folder, "run", "--matrix", "matrix.yaml", "--list")
    assert "matrix.yaml::removal[2]" in result.stdout
    assert not folder.joinpath("results").exists()


def test_run_without_a_matrix_says_what_to_name(folder: Path) -> None:
    result = bench(folder, "run")
    assert result.returncode == 2
    assert "name a matrix: --config FILE or --matrix FILE" in result.stderr
