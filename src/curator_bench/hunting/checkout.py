"""A git checkout: its commits, and git run in it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from curator_bench.errors import BenchError
from curator_bench.files.checkouts import is_in_planted_checkout
from curator_bench.hunting.children import environment
from curator_bench.provenance.git import Commit, only_programs_of_ours
from curator_bench.verdict.requirements import nearest_names


class Checkout:
    """One checkout."""

    def __init__(self, path: Path) -> None:
        if is_in_planted_checkout(path):
            raise BenchError(f"{path} is in a git repository that another user has planted")
        self.top = path
        problem = f"{path.absolute()} is not a git checkout: name one with --repo"
        self.top = Path(self.git("rev-parse", "--show-toplevel", problem=problem))
        self.directory = Path(self.git("rev-parse", "--absolute-git-dir"))

    def commit(self, ref: str) -> Commit:
        """Return a commit. Raises BenchError if the name is unknown here."""
        found = self.tried("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        if found.returncode:
            said = found.stderr.strip()
            raise BenchError(f"no commit {ref!r} in {self.top}{said and f': {said}'}{self._meant(ref)}")
        sha = found.stdout.strip()
        subject, author, date = self.git("log", "-1", "--format=%s%x00%an%x00%as", sha).split("\0")
        return Commit(sha, subject, author, date)

    def comes_before(self, first: Commit, second: Commit) -> bool:
        """True if the first commit is an ancestor of the second, or the same."""
        return self.tried("merge-base", "--is-ancestor", first.sha, second.sha).returncode == 0

    def _meant(self, ref: str) -> str:
        """Return advice for a name that is unknown here: branches and tags like it, or that the clone is shallow."""
        names = self.tried("for-each-ref", "--format=%(refname:short)").stdout.split()
        if near := nearest_names(ref, names):
            return f"; did you mean {', '.join(map(repr, near))}?"
        is_shallow = self.tried("rev-parse", "--is-shallow-repository").stdout.strip() == "true"
        return "; the clone is shallow: run `git fetch --unshallow --tags`" if is_shallow else ""

    def git(self, *words: str, problem: str = "", variables: Mapping[str, str] | None = None) -> str:
        """Run git and return its output. Raises BenchError if it fails."""
        done = self.tried(*words, variables=variables)
        if done.returncode:
            said = done.stderr.strip() or ("" if problem else f"exit code {done.returncode}")
            raise BenchError(": ".join(part for part in (problem or f"{self.top}: git {words[0]}", said) if part))
        return done.stdout.rstrip("\n")

    def tried(self, *words: str, variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run git to its end. Stopping it half-way would leave its lock and half a checkout."""
        command = ["git", "-C", str(self.top), *words]
        env = environment({"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", **(variables or {})})
        try:
            child = subprocess.Popen(
                command,
                env=env | only_programs_of_ours(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="surrogateescape",
                start_new_session=True,
            )
        except OSError as error:
            raise BenchError(f"git cannot be started: {error.strerror or error}") from error
        try:
            output, errors = child.communicate()
        except BaseException:
            child.communicate()
            raise
        return subprocess.CompletedProcess(command, child.returncode, output, errors)
