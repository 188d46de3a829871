"""A session is run with a fistful of nasty secrets, and every byte that was written is searched for them."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner
from end_to_end.conftest import Project

from curator_bench.cli import group
from curator_bench.errors import BenchError

# Each has this word in it, and in each of its long lines: however it is written, the word stays what it is.
MARK = "planted"
QUOTED, PERCENT, SHELL = 'planted\'s "own"\\n\\\\', "planted%20%41+&x=1?#", "planted $HOME `id` $(id) ${X}; rm *"
UNICODE, LINES = "plantedüé€\U0001f511\u2028", 'first planted\'s line\n"second" planted line\\\nab\nplanted=last%line\n'
BY_NAME = {
    "QUOTED_SECRET": QUOTED,
    "PGPASSWORD": PERCENT,
    "DB_PASSWORDS": SHELL,
    "MYSQL_PWD": UNICODE,
    "DEPLOY_SSH_KEY": LINES,
    "SENTRY_DSN": "https://planted0001:planted0002@sentry.example/planted0003",
}
DECLARED = {"LICENCE_NUMBER": "planted-licence-'7'"}
NOT_NAMED = {"CI_JOB_TOKEN": "planted-in-the-environment", "DATABASE_URL": "postgresql://me:planted%27s@host/db"}
SCRIPT = """
import json, os, shlex, sys, urllib.parse
from pathlib import Path

secrets = [os.environ[name] for name in os.environ["NAMES"].split()]
for secret in secrets:
    print(secret, repr(secret), json.dumps(secret), shlex.quote(secret), urllib.parse.quote(secret, safe=""), sep="\\n")
results = Path(sys.argv[-1])
said = {f"name of {secret}": [secret, {"url": urllib.parse.quote_plus(secret)}] for secret in secrets}
results.joinpath("params.json").write_text(json.dumps({"said": said, "argv": sys.argv}))
results.joinpath("metrics.json").write_text(json.dumps({"is_success": True, "told": secrets[0], "number": 1, **said}))
print("the last of it:", secrets[4])
sys.exit(int(sys.argv[1]))
"""
NAMED = " ".join([*BY_NAME, *DECLARED])


@pytest.fixture
def planted(project: Project) -> Project:
    variables = {**BY_NAME, **DECLARED, "DATABASE_URL": ""}
    words = " ".join(f"'--x=${{{name}}}' ${{{name}}}" for name in variables)
    env = {"NAMES": NAMED + " CI_JOB_TOKEN"}
    project.write("nasty.py", SCRIPT)
    project.write(
        "broken.py",
        """\
        from curator_bench.sinks import Sink
        from curator_bench.sinks.adapters import OpenConfig

        class Broken(Sink[OpenConfig]):
            config_model = OpenConfig

            def start_session(self, session):
                raise RuntimeError(f"no way in with {self.config.model_extra}")
        """,
    )
    project.folder.joinpath("made").mkdir()
    entries = [
        project.entry("fails", f"3 {words}", script="nasty.py", env=env),
        project.entry(
            "unmet",
            f"0 {words}",
            script="nasty.py",
            env=env,
            requirements=[{"metric": "told", "exact_value": "${PGPASSWORD}"}, {"metric": "number", "min_value": 2}],
        ),
        project.entry("passes", f"0 {words}", script="nasty.py", env=env),
        project.entry("nowhere", script="${DB_PASSWORDS}.py"),
        project.entry("slow", f"0 {words}", script="nasty.py", env=env, timeout_s=60, repeat=2),
    ]
    project.matrix(
        *entries,
        secrets=list(DECLARED),
        run_reason="for ${LICENCE_NUMBER} and ${QUOTED_SECRET}",
        viewer_url_template="http://viewer/{session_name_url}?key=${DEPLOY_SSH_KEY}",
        data_setups=[{"name": "setup", "script": "nasty.py", "args": f"0 {words} made", "env": env}],
        sinks=[{"name": "./broken.py:Broken", "password": "${PGPASSWORD}", "in": ["${DB_PASSWORDS}", "${MYSQL_PWD}"]}],
    )
    return project


def test_no_secret_is_written_whatever_a_script_does_with_it(planted: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(planted.folder)
    for name, value in {**BY_NAME, **DECLARED, **NOT_NAMED}.items():
        monkeypatch.setenv(name, value)
    outcome = planted.run(
        *("--benchmark", "-v", "--junitxml=junit.xml", "--log-file=log.txt", "--log-level=DEBUG"),
        *("--bench-reason", f"told {DECLARED['LICENCE_NUMBER']}", "-rA", "--tb=long"),
    )
    assert outcome.code == 1, outcome.output
    verdicts = {
        entry: planted.outcome_of(entry)["verdict"] for entry in ("fails", "unmet", "passes", "nowhere", "slow")
    }
    assert verdicts == {"fails": "crashed", "unmet": "failed", "passes": "passed", "nowhere": "error", "slow": "passed"}
    told = [outcome.output, *commands()]
    assert [line for text in told for line in text.splitlines() if MARK in line] == []
    own = re.compile(r"matrix\.yaml|/stdouterr\.log|/benchmark_results/|made/|\.py$")
    written = [path for path in planted.folder.rglob("*") if path.is_file()]
    searched = [path for path in written if not own.search(path.relative_to(planted.folder).as_posix())]
    assert {
        "command.txt",
        "results.json",
        "results.jsonl",
        "status.json",
        "summary.json",
        "outcome.json",
        "junit.xml",
        "log.txt",
        "benchmark.db",
        "index.html",
    } <= {path.name for path in searched}
    assert list(planted.session_dir.glob("undelivered/*"))
    assert [str(path) for path in searched if MARK.encode() in path.read_bytes()] == []


def commands() -> list[str]:
    """What our own commands say of it afterwards."""
    lines = [
        ["show", "s"],
        ["history", "fails"],
        ["export", "--format", "csv"],
        ["command", "matrix.yaml", "fails"],
        ["matrix", "matrix.yaml"],
        ["matrix", "matrix.yaml", "--json"],
        ["report", "--session", "s", "--format", "markdown"],
        ["report", "--out", "site"],
        ["resend", "results/s"],
    ]
    done = [CliRunner().invoke(group, words) for words in lines]
    assert {type(result.exception) for result in done} <= {type(None), SystemExit, BenchError}
    return [f"{result.output}{result.exception or ''}" for result in done]
