"""Read entry blocks with `asv`, which stand for all benchmarks of a suite."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence

from curator_bench.errors import BenchError
from curator_bench.matrix import asv_suite
from curator_bench.matrix.context import Load
from curator_bench.matrix.file_block import FileReader
from curator_bench.matrix.scalars import describe
from curator_bench.matrix.schema import as_text
from curator_bench.matrix.tree import Block, Step, Undefined
from curator_bench.matrix.variables import unset_message
from curator_bench.values import Place

Wrong = Callable[[tuple[Step, ...], str], None]
"""Notes a mistake at a path of the file."""

CHOOSING = frozenset({"bench", "not_bench"})
"""Keys that choose among the benchmarks of a suite."""


class SuiteReader:
    """Reader of the blocks with `asv` of one file."""

    def __init__(self, reader: FileReader, load: Load, wrong: Wrong, directory: str) -> None:
        """`directory` is the one that the scripts of the file run in."""
        self._reader, self._load, self._wrong, self._directory = reader, load, wrong, directory

    def blocks(self, index: int, block: Block, place: Place) -> Sequence[Block]:
        """Return a block of an ordinary entry for each benchmark; none if there are mistakes."""
        above: tuple[Step, ...] = ("entries", index)
        own = [key for key in asv_suite.NOT_BESIDE if key in block]
        for key in own:
            self._wrong((*above, key), "conflicts with asv: each benchmark of a suite has its own")
        path = None if own else self._text(block, "asv", above)
        patterns = {key: self._text(block, key, above) for key in ("bench", "not_bench") if key in block}
        if path is None or None in patterns.values():
            return []
        directory, problems = self._reader.path_of(path, block.places["asv"], (*above, "asv"))
        for problem in problems:
            self._wrong((*above, "asv"), problem)
        return [] if problems else self._found(block, directory, patterns, above, place)

    def _text(self, block: Block, key: str, above: tuple[Step, ...]) -> str | None:
        value = block[key]
        if isinstance(value, Undefined):
            self._wrong((*above, key), unset_message(value.variables))
        elif isinstance(text := as_text(value), str):
            return text
        else:
            self._wrong((*above, key), f"found {describe(value)}, expected text")
        return None

    def _found(
        self, block: Block, directory: str, patterns: Mapping[str, str | None], above: tuple[Step, ...], place: Place
    ) -> Sequence[Block]:
        key = "asv"
        try:
            named = self._load.request.working_dir / directory
            suite = asv_suite.folder_of_suite(named)
            env = self._environment(block)
            benchmarks = asv_suite.benchmarks_of(suite, self._python(block, env), env)
            for key, pattern in patterns.items():
                benchmarks = asv_suite.chosen(benchmarks, pattern or "", is_wanted=key == "bench")
            default = None if self._has_timeout else asv_suite.default_timeout_of(named)
            return list(asv_suite.blocks_of(block, suite, benchmarks, place, default))
        except BenchError as error:
            self._wrong((*above, key), str(error))
            return []

    @property
    def _has_timeout(self) -> bool:
        """True if the file has a time limit for its entries."""
        return (self._reader.block.default_timeout_s or self._reader.block.timeout_s) is not None

    def _environment(self, block: Block) -> dict[str, str]:
        """Return the environment of the benchmarks, as far as it is known here."""
        written = block.get("env")
        own = written if isinstance(written, Block) else {}
        texts = {**self._reader.block.env, **{name: as_text(value) for name, value in own.items()}}
        return {**os.environ, **{name: self._reader.names.fill(text) for name, text in texts.items() if text}}

    def _python(self, block: Block, env: dict[str, str]) -> str:
        """Return the interpreter as a run would find it: by its name in PATH, or relative to the matrix."""
        written = block.get("python")
        if not isinstance(written, str):
            return sys.executable
        python = self._reader.names.fill(written)
        if os.sep in python:
            return os.path.join(self._directory, python)
        return shutil.which(python, path=env.get("PATH")) or python
