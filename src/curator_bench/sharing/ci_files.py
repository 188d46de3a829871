"""Files that set up benchmarks in the CI system of a repository: a nightly, a gate for pull requests, an A/B."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from curator_bench.errors import BenchError
from curator_bench.files.checkouts import first_checkout

FILES: Mapping[str, Mapping[str, str]] = {
    "github": {
        ".github/workflows/bench-nightly.yml": "the benchmarks every night, with their record and a dashboard",
        ".github/workflows/bench-gate.yml": "the benchmarks of a pull request, with and without it; one comment",
        ".github/workflows/bench-ab.yml": "any two branches, tags or commits, by hand",
    },
    "gitlab": {
        ".gitlab/bench.yml": "the benchmarks every night, of each merge request, and of any two commits by hand",
    },
}
_EXTRAS = "'curator-bench[report,s3,postgres]'"
_LOCKED = {"github": "$RUNNER_TEMP/locked.txt", "gitlab": "/tmp/locked.txt"}
_PROJECTS = ("pyproject.toml", "setup.py", "setup.cfg")
_PLAIN = re.compile(r"[\w.][\w./ +-]*")


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository that the files are for."""

    top: Path
    benchmarks: str
    """Folder of the benchmarks, relative to the top."""
    jobs: int | None = None
    """Number of jobs that the nightly divides them into; None for one job."""

    def write(self, system: str) -> Sequence[str]:
        """Write the files for a CI system and return their names. Raises BenchError if one exists."""
        names = [*FILES[system]]
        there = [name for name in names if os.path.lexists(self.top / name)]
        if there:
            raise BenchError(
                f"already in {self.top}: {', '.join(there)}; nothing was written. To write anew, remove them."
            )
        for name in names:
            file = self.top / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as new:
                new.write(self._text(system, file.name))
        return names

    def _text(self, system: str, name: str) -> str:
        divided = "" if self.jobs is None else "-jobs"
        template = _template(system, f"bench-nightly{divided}.yml" if name == "bench-nightly.yml" else name)
        if "@@NIGHTLY@@" in template:
            template = template.replace("@@NIGHTLY@@\n", _template(system, f"nightly{divided}.yml"))
        template = template.replace("@@JOBS@@", str(self.jobs))
        template = template.replace("@@BENCHMARKS@@", json.dumps(self.benchmarks, ensure_ascii=False))
        template = template.replace("@@NEEDED@@", self._needed_by_benchmarks())
        item = "- " if system == "gitlab" else ""
        commands = [f"{item}{command}" for command in self._install_commands(system)]
        return re.sub("^( *)@@INSTALL@@$", lambda at: "\n".join(at[1] + one for one in commands), template, flags=re.M)

    def _install_commands(self, system: str) -> list[str]:
        """Return the commands that install curator-bench and the project, in its locked versions if it has a lock."""
        locked = _LOCKED[system]
        export = f'uv export --frozen --quiet --no-emit-project --no-hashes --output-file "{locked}"'
        before, needed = [], []
        if self._has("uv.lock"):
            before = ["python -m pip install uv", export]
            needed = [f'--requirement "{locked}"']
        elif self._has("requirements.txt"):
            needed = ["--requirement requirements.txt"]
        project = ["."] if self._has(*_PROJECTS) else []
        return [*before, " ".join(["python -m pip install", _EXTRAS, *needed, *project])]

    def _needed_by_benchmarks(self) -> str:
        """Return what both sides of a comparison need. A project is installed of each side."""
        is_needed = self._has("requirements.txt") and not self._has(*_PROJECTS)
        return " --requirement requirements.txt" if is_needed else ""

    def _has(self, *names: str) -> bool:
        return any((self.top / name).is_file() for name in names)


def _template(system: str, name: str) -> str:
    return resources.files("curator_bench.sharing").joinpath("templates", system, name).read_text("utf-8")


def repository_around(folder: Path, benchmarks: str, jobs: int | None = None) -> Repository:
    """Return the git repository that a folder is in. Raises BenchError if there is none.

    `benchmarks` is relative to the folder.
    """
    here = Path(os.path.abspath(folder))
    top = first_checkout((here, *here.parents))
    if top is None:
        raise BenchError(f"{here} is in no git repository: run this in a checkout of yours")
    relative = Path(os.path.relpath(here / benchmarks, top)).as_posix()
    if relative.startswith("..") or not _PLAIN.fullmatch(relative):
        raise BenchError(
            f"--benchmarks: found {benchmarks!r}, expected a folder in {top}, named by letters, digits and . _ - +"
        )
    return Repository(top, relative, jobs)
