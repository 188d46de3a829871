"""The folder of a project: names of benchmarks start from it, and its database is there by default.

It is pytest's rootdir if an ini file or setup.py determines that. Otherwise it is the top of the git checkout, and not
the working folder as in pytest, so that a benchmark has one name and one database.
"""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from curator_bench.errors import BenchError

_INI_FILES = {
    "pytest.toml": "",
    ".pytest.toml": "",
    "pytest.ini": "",
    ".pytest.ini": "",
    "pyproject.toml": "[tool.pytest",
    "tox.ini": "[pytest]",
    "setup.cfg": "[tool:pytest]",
}
"""Names of ini files, each with the text that makes it an ini file of pytest."""
DATABASE = "benchmark.db"
_ROOTDIR = pytest.StashKey[Path]()


def rootdir(config: pytest.Config) -> Path:
    """Return the project's folder.

    Without an ini file, pytest derives its rootdir from all arguments that are paths, before it knows our options. So
    the value of `--benchmark-db ../runs.db` moves it, but only in the controller of xdist. A benchmark would then have
    two names and two histories.
    """
    if _ROOTDIR not in config.stash:
        is_said = config.inipath is not None or config.getoption("rootdir")
        config.stash[_ROOTDIR] = config.rootpath if is_said else _of_the_files(config)
    return config.stash[_ROOTDIR]


def refuse_unread_ini(config: pytest.Config) -> None:
    """Raise BenchError if pytest skipped the project's ini file. Marks, database and matrices would be wrong."""
    if config.inipath is not None or config.getoption("rootdir") or rootdir(config) == config.rootpath:
        return
    unread = next(_ini_files(rootdir(config)), None)
    words = config.invocation_params.args
    for option, value in itertools.pairwise(map(str, words)):
        if unread and option.startswith("--bench") and "=" not in option and Path(value).exists():
            raise BenchError(
                f"pytest has not read {unread}, because it took {value}, the value of {option}, for a file to run. "
                f"Write option and value as one word: {option}={value}"
            )


def name_in_project(file: str | Path, config: pytest.Config) -> str:
    """Return the file's path within the project, which is the same on every machine."""
    return Path(os.path.relpath(file, rootdir(config))).as_posix()


def _of_the_files(config: pytest.Config) -> Path:
    """Return the folder by pytest's rules, applied to the files on the command line."""
    working_dir = config.invocation_params.dir
    ancestor = _common([*_folders(config)] or [working_dir])
    for folder in (ancestor, *ancestor.parents):
        if (folder / "setup.py").is_file():
            return folder
    common = _common([working_dir, ancestor])
    return _checkout(ancestor if common == common.parent else common)


def _checkout(folder: Path) -> Path:
    """Return the top of the git checkout around the folder, or the folder. A home folder under git is not a project."""
    from curator_bench.files.checkouts import first_checkout  # most projects have an ini file

    inside = itertools.takewhile(lambda each: each != Path.home(), (folder, *folder.parents))
    return first_checkout(inside) or folder


def database_of(root: Path, ini: str, environ: Mapping[str, str], working_dir: Path) -> str:
    """Return the database without an option: CURATOR_BENCH_DB, DB_NAME (as in Coiled's suite), or the ini key."""
    said = environ.get("CURATOR_BENCH_DB") or environ.get("DB_NAME")
    folder, name = (working_dir, said) if said else (root, ini)
    return name if "://" in name else os.path.normpath(folder / os.path.expanduser(name))


def database_from(working_dir: Path, environ: Mapping[str, str]) -> str:
    """Return the database that `pytest --benchmark` in this folder would record in, without starting pytest."""
    ini = ini_of(working_dir)
    words = [*ini.words("addopts"), *shlex.split(environ.get("PYTEST_ADDOPTS", ""))]
    if said := _last_value(words, "--benchmark-db"):
        return said if "://" in said else os.path.normpath(working_dir / os.path.expanduser(said))
    return database_of(ini.root, str(ini.values.get("benchmark_db", DATABASE)), environ, working_dir)


@dataclass(frozen=True, slots=True)
class Ini:
    """The ini file of a folder, read without starting pytest."""

    root: Path
    values: Mapping[str, object] = field(default_factory=dict)

    def name_of(self, file: str | Path) -> str:
        """Return a file's path within the project, as `name_in_project` does."""
        return Path(os.path.relpath(file, self.root)).as_posix()

    def words(self, key: str) -> list[str]:
        value = self.values.get(key, "")
        return [*map(str, value)] if isinstance(value, list) else shlex.split(str(value))


def ini_of(folder: Path) -> Ini:
    """Return the ini file that pytest would find there, and its project's folder."""
    from _pytest.config.findpaths import determine_setup

    folder = Path(os.path.abspath(folder))
    of_pytest_9 = {"override_ini": None} if pytest.version_tuple >= (9,) else {}
    try:
        root, file, found, *_ = determine_setup(
            inifile=None, args=[str(folder)], rootdir_cmd_arg=None, invocation_dir=folder, **of_pytest_9
        )
    except pytest.UsageError:  # pytest itself reports mistakes in ini files
        return Ini(folder)
    is_said = file is not None or (root / "setup.py").is_file()
    return Ini(
        root if is_said else _checkout(root), {name: getattr(value, "value", value) for name, value in found.items()}
    )


def project_of(files: Iterable[str | Path], working_dir: Path) -> Ini:
    """Return the project of these files: names of benchmarks start from its folder."""
    folders = [os.path.dirname(os.path.abspath(file)) for file in files]
    ini = ini_of(Path(os.path.commonpath(folders)))
    return ini if ini.values else ini_of(Path(os.path.commonpath([*folders, working_dir])))


def _last_value(words: list[str], option: str) -> str:
    said = [word.partition("=")[2] for word in words if word.startswith(f"{option}=")]
    said += [value for word, value in itertools.pairwise(words) if word == option]
    return said[-1] if said else ""


def _ini_files(lowest: Path) -> Iterator[Path]:
    for folder in (lowest, *lowest.parents):
        for name, section in _INI_FILES.items():
            file = folder / name
            if file.is_file() and section in file.read_text(encoding="utf-8", errors="replace"):
                yield file


def _folders(config: pytest.Config) -> Iterator[Path]:
    for argument in config.args:
        path = config.invocation_params.dir / argument.partition("::")[0]
        if path.exists():
            yield Path(os.path.normpath(path if path.is_dir() else path.parent))


def _common(folders: list[Path]) -> Path:
    return Path(os.path.commonpath(folders))
