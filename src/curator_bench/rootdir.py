"""The folder that a project's names start from: what pytest calls the rootdir, whatever stands on the command line."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
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
"""With what must stand in it to be one."""
_ROOTDIR = pytest.StashKey[Path]()


def rootdir(config: pytest.Config) -> Path:
    """Where there is no ini file, pytest looks at all words for the files that are meant, before it knows our options:
    the value of `--benchmark-db ../runs.db` moves its rootdir, in the controller of xdist only. A benchmark would have
    two names, and each a history of its own."""
    if _ROOTDIR not in config.stash:
        is_said = config.inipath is not None or config.getoption("rootdir")
        config.stash[_ROOTDIR] = config.rootpath if is_said else _of_the_files(config)
    return config.stash[_ROOTDIR]


def refuse_unread_ini(config: pytest.Config) -> None:
    """Without it all would be as by default, and nobody told: marks, other databases, other matrices."""
    if config.inipath is not None or config.getoption("rootdir") or rootdir(config) == config.rootpath:
        return
    unread = next(_ini_files(rootdir(config)), None)
    words = config.invocation_params.args
    for option, value in itertools.pairwise(map(str, words)):
        if unread and option.startswith("--bench") and "=" not in option and Path(value).exists():
            raise BenchError(
                f"pytest has not read {unread}: it took {value} for files to run, since it does not know {option} yet "
                f"when it looks for them. Write it as one word: {option}={value}"
            )


def name_in_project(file: str | Path, config: pytest.Config) -> str:
    """The same on every machine."""
    return Path(os.path.relpath(file, rootdir(config))).as_posix()


def _of_the_files(config: pytest.Config) -> Path:
    """As pytest would have it."""
    working_dir = config.invocation_params.dir
    ancestor = _common([*_folders(config)] or [working_dir])
    for folder in (ancestor, *ancestor.parents):
        if (folder / "setup.py").is_file():
            return folder
    common = _common([working_dir, ancestor])
    return ancestor if common == common.parent else common


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
