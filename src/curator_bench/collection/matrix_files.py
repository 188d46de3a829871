"""Find the matrices in a folder: files that pytest would collect and that have a key of a matrix.

Names are checked first, because this runs in every project that has the plugin installed.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from curator_bench.options.declaration import DEFAULT_PATTERNS

NOT_RECURSED = ("*.egg", ".*", "_darcs", "build", "CVS", "dist", "node_modules", "venv", "{arch}")
"""Default of pytest's `norecursedirs`."""
_YAML = (".yaml", ".yml")
_PYTHON_FILES = ("test_*.py", "*_test.py")
"""Default of pytest's `python_files`."""
_MOST_BYTES = 64 * 1024 * 1024
SUFFIXES = (*_YAML, ".json")
_OF_ENVIRONMENTS = ("pyvenv.cfg", os.path.join("conda-meta", "history"))
_BEGINS_ENTRIES = re.compile(rb"^[\"']?entries[\"']?[ \t]*:", re.MULTILINE)
_OLD_KEYS = frozenset(
    ["environment", "results_path", "datasets_path", "model_weights_path", "mlflow", "slack", "wandb", "gdrive"]
)


def matrices_in(places: Iterable[Path]) -> Iterator[Path]:
    """Yield the matrices that pytest would collect. A file that is named counts whatever its content."""
    for place in places:
        if place.is_file():
            if place.suffix in SUFFIXES:
                yield place
            continue
        from curator_bench.options.rootdir import ini_of

        ini = ini_of(place)
        patterns, not_recursed = ini.words("bench_files") or DEFAULT_PATTERNS, ini.words("norecursedirs")
        yield from filter(is_matrix, files_below(place, patterns, not_recursed or NOT_RECURSED))


def test_modules_in(folder: Path) -> list[Path]:
    """Return the modules of tests that pytest would collect in a folder."""
    from curator_bench.options.rootdir import ini_of

    ini = ini_of(folder)
    patterns, not_recursed = ini.words("python_files") or _PYTHON_FILES, ini.words("norecursedirs") or NOT_RECURSED
    return list(files_below(folder, patterns, not_recursed, (".py",)))


def files_below(
    folder: Path, patterns: Sequence[str], not_recursed: Sequence[str], suffixes: tuple[str, ...] = _YAML
) -> Iterator[Path]:
    """Yield the files whose names match, in folders that pytest enters."""
    for top, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _is_skipped(os.path.join(top, name), name, not_recursed))
        for name in sorted(files):
            if name.endswith(suffixes) and any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
                yield Path(top, name)


def _is_skipped(folder: str, name: str, patterns: Iterable[str]) -> bool:
    """True if pytest skips the folder. A pattern with a slash is matched with the whole path, as in `norecursedirs`."""
    if name == "__pycache__":
        return True
    for pattern in patterns:
        found, looked_for = (folder, f"*/{pattern.lstrip('/')}") if "/" in pattern else (name, pattern)
        if fnmatch.fnmatch(found, looked_for):
            return True
    return any(os.path.exists(os.path.join(folder, mark)) for mark in _OF_ENVIRONMENTS)


def is_matrix(file: Path) -> bool:
    """True for a file with `entries` or another key of a matrix. Other tools also have files with such names."""
    try:
        return file.is_file() and any(key == "entries" or key in _known_keys() for key in _top_level_keys(file))
    except OSError:
        return True  # one that cannot be read says so when it is loaded


def _known_keys() -> frozenset[str]:
    from curator_bench.matrix.schema import FileBlock

    return _OLD_KEYS | FileBlock.model_fields.keys()


def _top_level_keys(file: Path) -> Iterator[str]:
    """Yield the keys of a file's mappings. In an invalid file: keys before the error, and `entries` anywhere."""
    import yaml

    with file.open("rb") as text:
        try:
            yield from _keys(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        except (yaml.YAMLError, ValueError):
            text.seek(0)
            if _BEGINS_ENTRIES.search(text.read(_MOST_BYTES)):
                yield "entries"


def _keys(events: Iterable[Any]) -> Iterator[str]:
    depth, is_mapping, is_key = 0, False, False
    for event in events:
        kind = type(event).__name__.removesuffix("Event")
        if kind in ("MappingEnd", "SequenceEnd"):
            depth -= 1
        elif kind in ("Scalar", "Alias", "MappingStart", "SequenceStart"):
            if depth == 0:
                is_mapping, is_key = kind == "MappingStart", True
            elif depth == 1 and is_mapping:
                if is_key and kind == "Scalar":
                    yield event.value
                is_key = not is_key
            depth += kind.endswith("Start")
