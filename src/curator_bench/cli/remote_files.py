"""Files of `import` and `merge` at a URL that fsspec knows: one file, or all JSON lines in a folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curator_bench.errors import BenchError
from curator_bench.masking import Mask

_DATABASES = ("sqlite", "postgresql", "postgres")
_LINES = ".jsonl"
_AT_ONCE = 200


def is_store(named: str) -> bool:
    """True for a URL that is not that of a database."""
    scheme, is_url, _ = named.partition("://")
    return bool(is_url) and scheme.partition("+")[0].lower() not in _DATABASES


@dataclass(frozen=True, slots=True)
class Stored:
    """Files in a store. They are fetched in batches, and a batch is removed before the next one."""

    shown: str
    names: Sequence[str]
    _files: Any
    """The file system of fsspec."""

    @property
    def is_lines(self) -> bool:
        """True for JSON lines. Otherwise it is one database file."""
        return all(name.endswith(_LINES) for name in self.names)

    def fetched(self) -> Iterator[tuple[str, Path]]:
        """Fetch the files. Yields the name of each in the store and its local path. Raises BenchError."""
        for start in range(0, len(self.names), _AT_ONCE):
            names = self.names[start : start + _AT_ONCE]
            with tempfile.TemporaryDirectory() as folder:
                paths = [Path(folder, str(number)) for number in range(len(names))]
                with _failing_in_one_line(self.shown):
                    self._files.get(list(names), [str(path) for path in paths])
                yield from zip(map(self._files.unstrip_protocol, names), paths, strict=True)


def find(url: str) -> Stored:
    """List the files at a URL. Raises BenchError. Credentials come from variables that fsspec and the store know."""
    from curator_bench.sinks.file_systems import lacking, opened

    shown = Mask().hide(url)
    if lacks := lacking(url):
        raise BenchError(f"{shown} needs {lacks}")
    with _failing_in_one_line(shown):
        files, path = opened(url, {})
        if not files.isdir(path):
            files.info(path)  # raises if nothing is there
            return Stored(shown, [path], files)
        return Stored(shown, sorted(name for name in files.find(path) if name.endswith(_LINES)), files)


@contextmanager
def _failing_in_one_line(shown: str) -> Iterator[None]:
    try:
        yield
    except BenchError:
        raise
    except FileNotFoundError as error:
        raise BenchError(f"not found: {shown}") from error
    except Exception as error:  # each kind of store has errors of its own
        raise BenchError(f"{shown} cannot be read: {type(error).__name__}: {Mask().hide(str(error))}") from error
