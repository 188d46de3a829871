"""The folder that paths in the history are told from: pytest's rootdir, as far as that does not depend on options."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

_ROOT = pytest.StashKey[Path]()


def path_in_history(config: pytest.Config, file: str | Path) -> str:
    """The file as the database knows it, the same on every machine and in every clone."""
    return Path(os.path.relpath(file, root_of(config))).as_posix()


def root_of(config: pytest.Config) -> Path:
    """Where no ini file fixes it, pytest takes the values of options that exist for places of tests, too.

    What `--benchmark-db PATH` names exists from the second run on; that must not be the beginning of another history.
    So it is found here as pytest does, but from the places of tests alone.
    """
    if config.inipath is not None or config.getoption("rootdir", None):
        return config.rootpath
    if _ROOT not in config.stash:
        config.stash[_ROOT] = _found(config.invocation_params.dir, [str(argument) for argument in config.args])
    return config.stash[_ROOT]


def _found(here: Path, arguments: Iterable[str]) -> Path:
    places = [Path(os.path.abspath(here / argument.partition("::")[0])) for argument in arguments]
    folders = [place if place.is_dir() else place.parent for place in places if place.exists()]
    ancestor = _common(folders or [here])
    for folder in (ancestor, *ancestor.parents):
        if (folder / "setup.py").is_file():
            return folder
    root = _common([here, ancestor])
    return ancestor if root == root.parent else root


def _common(folders: Iterable[Path]) -> Path:
    return Path(os.path.commonpath(list(folders)))
