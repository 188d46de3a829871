"""What runs are measured with is looked up once in an invocation, whoever asks for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from end_to_end.conftest import Project


def test_git_is_asked_about_the_project_once(tmp_path: Path) -> None:
    """The row of the session, what sinks are given and env/HOST.json say the same commit, asked for once."""
    project, asked = Project(tmp_path), tmp_path / "asked.txt"
    for words in (["init", "-q"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a", "--allow-empty"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "bin").mkdir()
    program = f'#!/bin/sh\necho "$*" >> {asked}\nexec {shutil.which("git")} "$@"\n'
    git = project.write("bin/git", program)
    git.chmod(0o755)
    project.write(
        "told.py",
        """\
        from curator_bench import Sink

        class Told(Sink):
            def start_session(self, session):
                (self.context.session_dir / "commit").write_text(session.commit)
        """,
    )
    project.matrix(project.entry("a"), project.entry("b"), sinks=[{"name": "./told.py:Told"}])
    outcome = project.run("--benchmark", PATH=f"{git.parent}:{os.environ['PATH']}")
    assert outcome.code == 0, outcome.output
    (facts,) = (project.session_dir / "env").glob("*.json")
    commit = outcome.json("env", facts.name)["session_commit"]["commit"]
    assert (project.session_dir / "commit").read_text() == commit
    assert sum(" status " in line for line in asked.read_text().splitlines()) == 1
