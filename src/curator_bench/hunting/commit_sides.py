"""Sides of a comparison that are commits: each in a worktree, with the project of that commit in an environment."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count, zip_longest
from pathlib import Path

from curator_bench.errors import BenchError
from curator_bench.hunting import import_check_program
from curator_bench.hunting.building import Venv, has_curator_bench
from curator_bench.hunting.checkout import Checkout
from curator_bench.hunting.children import tail_of
from curator_bench.hunting.kept_folders import alone_on_this_machine
from curator_bench.hunting.sides import Side
from curator_bench.hunting.worktrees import WORKING_TREE, CommitFolder, named_commit, remove_unused
from curator_bench.provenance.git import Commit
from curator_bench.words import how_many

_PROJECT_FILES = ("pyproject.toml", "setup.py")
_DEFAULT_BENCHMARKS = "benchmarks"
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.+@-]+")
_WITH_A_VALUE = ("-m", "-k", "-p", "-n", "-o", "-c", "-W", "-r")
_COMPLETE, _NOTES = "complete", "imports.txt"


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """The user's request: names of commits, and what is run of them."""

    names: tuple[str, ...]
    pytest_args: tuple[str, ...]
    folder: Path
    """The folder in the checkout that pytest is started in, in each of the worktrees."""
    install: str | None = None
    own_benchmarks: bool = False
    """True if each commit is measured with its own benchmarks, and not with those of the newest that has them."""
    labels: tuple[str, ...] = ()
    """Names of the sides in the answer; without them, those of the commits."""


class CommitSides:
    """The commits of a comparison, and how their sides are made."""

    def __init__(self, request: CommitRequest, tell: Callable[[str], None]) -> None:
        self._request, self._tell = request, tell
        if len(request.labels) > len(request.names):
            named, commits = len(request.labels), how_many(len(request.names), "commit")
            raise BenchError(f"{named} names for {commits}: give --name as often as there are commits")
        self._checkout = Checkout(request.folder)
        self.commits = tuple(named_commit(self._checkout, name) for name in request.names)
        self.names = _side_names([label or name for label, name in zip_longest(request.labels, request.names)])
        self._arguments = self._in_the_checkout(request.pytest_args or (_DEFAULT_BENCHMARKS,))
        self._newest = self._newest_of(self._with_benchmarks() or self.commits)
        if request.own_benchmarks:
            self._refuse_missing_benchmarks()
        self._benchmarks = [] if request.own_benchmarks else self._shared_benchmarks()
        self._warn_of_changes()

    @property
    def described(self) -> dict[str, str]:
        """The commit of each side, for people."""
        return dict(zip(self.names, map(str, self.commits), strict=True))

    def parts(self) -> list[str]:
        """Return everything that defines the comparison."""
        request = self._request
        measured_with = "own" if request.own_benchmarks else self._newest.sha
        commits = [one.sha for one in self.commits]
        return [*commits, *self.names, request.install or "", measured_with, *self._arguments, str(self._sub)]

    @contextmanager
    def ready(self) -> Iterator[list[Side]]:
        """Check the commits out, and build their environments. In the block, no other comparison measures."""
        with alone_on_this_machine(self._tell):
            remove_unused(self._checkout)
            folders = {one: CommitFolder(self._checkout, one) for one in self.commits}
            for folder in folders.values():
                folder.check_out()
                if self._benchmarks and folder.commit != self._newest:
                    folder.take(self._newest, self._benchmarks)
            yield [
                self._side(name, folders[commit], [one.tree for one in folders.values() if one.commit != commit])
                for name, commit in zip(self.names, self.commits, strict=True)
            ]

    def refuse_wrong_imports(self, side: Side) -> None:
        """Raise BenchError if processes of a side have imported modules of another side, or of the user's checkout."""
        notes = Path(side.check_env[import_check_program.VARIABLE].split(os.pathsep)[0])
        if not notes.exists():
            return
        lines = list(dict.fromkeys(notes.read_text("utf-8", "replace").splitlines()))[:5]
        found = "\n".join(f"  {module}: {file}" for module, _, file in (line.partition("\t") for line in lines))
        raise BenchError(
            f"{side.name}: its benchmarks import modules that are not of {side.name}:\n{found}\nAn absolute path in"
            " sys.path, PYTHONPATH or a .pth file leads there: use a path relative to the benchmark's file, or install"
            " the package with --install"
        )

    def _with_benchmarks(self) -> list[Commit]:
        """Return the commits with every benchmark that any of them has: a branch may be older than the benchmarks."""
        places = [
            os.path.normpath(self._sub / word) for word in paths_among(self._arguments) if not os.path.isabs(word)
        ]
        known = [place for place in places if any(self._is_in(one, place) for one in self.commits)]
        return [one for one in self.commits if all(self._is_in(one, place) for place in known)]

    def _newest_of(self, commits: Sequence[Commit]) -> Commit:
        """Return the last commit that no other one of them comes after."""
        first, *others = commits
        newest = first
        for one in others:
            newest = newest if self._checkout.comes_before(one, newest) and one != newest else one
        return newest

    @property
    def _sub(self) -> Path:
        """The folder that pytest is started in, from the top."""
        return self._request.folder.resolve().relative_to(self._checkout.top.resolve())

    def _in_the_checkout(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return arguments whose paths into the checkout are relative, and others absolute, as for a worktree."""
        return tuple(map(self._relative, words))

    def _relative(self, word: str) -> str:
        path, colons, rest = word.partition("::")
        place = os.path.realpath(self._request.folder / path)
        if word.startswith("-") or not os.path.exists(place) or (self._is_inside(place) and not os.path.isabs(path)):
            return word
        found = os.path.relpath(place, self._request.folder.resolve()) if self._is_inside(place) else place
        return f"{found}{colons}{rest}"

    def _is_inside(self, place: str) -> bool:
        top = os.path.realpath(self._checkout.top)
        return place == top or place.startswith(f"{top}{os.sep}")

    def _shared_benchmarks(self) -> list[str]:
        """Return the benchmarks that pytest is to run, from the top: those of the newest commit measure all others."""
        found, outside = list[str](), False
        for word in paths_among(self._arguments):
            path = os.path.normpath(self._sub / word)
            if os.path.isabs(path):
                outside = True
            elif self._is_in_newest(path):
                self._refuse_the_project(word, path)
                found.append(path)
            elif (self._request.folder / word).exists():
                raise BenchError(f"{word} is not in {self._newest}: commit it, or compare with `{WORKING_TREE}`")
        if not found and not outside:
            said = " ".join(self._arguments)
            raise BenchError(f"{said}: no benchmarks in {self._newest}; name their folder after --")
        return found

    def _refuse_missing_benchmarks(self) -> None:
        for word in paths_among(self._arguments):
            missing = [one for one in self.commits if not self._is_in(one, os.path.normpath(self._sub / word))]
            if missing and not os.path.isabs(word):
                raise BenchError(f"{word} is not in {missing[0]}")

    def _refuse_the_project(self, word: str, path: str) -> None:
        if self._holds_the_project(path):
            raise BenchError(
                f"{word} is the whole project: name the folder of the benchmarks, or measure each commit with its"
                " own benchmarks by --own-benchmarks"
            )

    def _holds_the_project(self, path: str) -> bool:
        """True for a folder that has the measured code in it, so that all sides would be the same."""
        places = [str(place) for place in (self._sub, *self._sub.parents)]
        projects = (place for place in places for name in _PROJECT_FILES if self._is_in_newest(f"{place}/{name}"))
        project = next(projects, ".")
        return path in (".", project) or project.startswith(f"{path}/")

    def _is_in_newest(self, path: str) -> bool:
        return self._is_in(self._newest, path)

    def _is_in(self, commit: Commit, path: str) -> bool:
        place = os.path.normpath(path)
        words = ("cat-file", "-e", f"{commit.sha}:{'' if place == '.' else place}")
        return self._checkout.tried(*words).returncode == 0

    def _warn_of_changes(self) -> None:
        changes = self._checkout.git("status", "--porcelain", "--untracked-files=no")
        if changes and WORKING_TREE not in self._request.names:
            self._tell(f"what is not committed is not measured; `{WORKING_TREE}` instead of a commit would be")

    def _side(self, name: str, folder: CommitFolder, others: Sequence[Path]) -> Side:
        where = folder.tree / self._sub
        where.mkdir(parents=True, exist_ok=True)
        venv = self._environment(name, folder)
        notes = folder.folder / _NOTES
        notes.unlink(missing_ok=True)
        wrong = [os.path.realpath(place) for place in (self._checkout.top, *others)]
        check = os.pathsep.join([str(notes), os.path.realpath(folder.folder), *wrong])
        return Side(
            name,
            venv.python,
            self._arguments,
            where,
            env={**venv.variables, **self._python_path(folder.tree)},
            check_env={import_check_program.VARIABLE: check},
        )

    def _python_path(self, tree: Path) -> dict[str, str]:
        """Return PYTHONPATH with the folders of the checkout as those of the worktree."""
        said = os.environ.get("PYTHONPATH")
        if not said:
            return {}
        places = (self._moved(place, tree) for place in said.split(os.pathsep))
        return {"PYTHONPATH": os.pathsep.join(places)}

    def _moved(self, place: str, tree: Path) -> str:
        top, real = os.path.realpath(self._checkout.top), os.path.realpath(place)
        is_moved = os.path.isabs(place) and self._is_inside(real)
        return str(tree / os.path.relpath(real, top)) if is_moved else place

    def _environment(self, name: str, folder: CommitFolder) -> Venv:
        """Return the environment of a commit: the one that an earlier comparison has built, or a new one."""
        key = hashlib.sha256("\0".join([sys.executable, sys.version, self._request.install or ""]).encode()).hexdigest()
        venv = Venv(folder.folder / f"venv-{key[:8]}", sys.executable, name)
        if not (venv.folder / _COMPLETE).exists():
            self._tell(f"{name}: installing {folder.commit}")
            shutil.rmtree(venv.folder, ignore_errors=True)
            venv.log.unlink(missing_ok=True)
            venv.create(for_commands=self._request.install is not None)
            _add_import_check(venv)
            try:
                self._install(venv, folder.tree)
            except BenchError as error:
                raise BenchError(f"{folder.commit}: {error}\nall of it: {venv.log}") from error
            (venv.folder / _COMPLETE).touch()
        is_usable, said = has_curator_bench(venv.python, {})
        if not is_usable:
            raise BenchError(f"{name}: its environment cannot run benchmarks: {said}")
        return venv

    def _install(self, venv: Venv, tree: Path) -> None:
        command = self._request.install
        if command is not None:
            if code := venv.run(command, tree / self._sub):
                raise BenchError(f"{venv.name}: {command!r} ended with exit code {code}:\n{tail_of(venv.log)}")
        elif project := self._project_in(tree):
            venv.install_project(project)

    def _project_in(self, tree: Path) -> Path | None:
        """Return the nearest project: where pytest is started, or around it."""
        places = [tree / self._sub, *(tree / self._sub).parents]
        inside = [place for place in places if place == tree or tree in place.parents]
        return next((place for place in inside if any((place / name).exists() for name in _PROJECT_FILES)), None)


def _add_import_check(venv: Venv) -> None:
    name = "_curator_bench_import_check"
    shutil.copyfile(import_check_program.__file__, venv.site / f"{name}.py")
    (venv.site / f"{name}.pth").write_text(f"import {name}\n", "utf-8")


def paths_among(words: Sequence[str]) -> Iterator[str]:
    """Yield the files and folders that pytest's arguments may name, without the values of options."""
    for before, word in zip(("", *words), words, strict=False):
        if not word.startswith("-") and before not in _WITH_A_VALUE:
            yield word.partition("::")[0]


def _side_names(names: Sequence[str]) -> list[str]:
    """Return names that sessions can have, each another one."""
    found = list[str]()
    for name in names:
        plain = "working-tree" if name == WORKING_TREE else _NOT_IN_A_NAME.sub("-", name).strip("-.") or "commit"
        numbered = (f"{plain}-{number}" for number in count(2))
        found.append(next(one for one in chain([plain], numbered) if one not in found))
    return found
