"""NeMo Curator's reader, one stage that filters or modifies texts, its writer; against the same done in a plain loop.

score_filter keeps documents of --least-words to --most-words words; modifier takes addresses out of texts and keeps
their first --keep-characters characters.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from typing import Any

from curator_script import (
    differing_texts,
    executor_of,
    parser_for_documents,
    read_documents,
    speed,
    write_results,
)
from nemo_curator.pipeline import Pipeline
from nemo_curator.stages.text.filters import ScoreFilter
from nemo_curator.stages.text.filters.heuristic import WordCountFilter
from nemo_curator.stages.text.io.reader import JsonlReader, ParquetReader
from nemo_curator.stages.text.io.writer import JsonlWriter, ParquetWriter
from nemo_curator.stages.text.modifiers import Modify, Slicer, UrlRemover

READERS = {"jsonl": JsonlReader, "parquet": ParquetReader}
WRITERS = {"jsonl": JsonlWriter, "parquet": ParquetWriter}
ADDRESS = re.compile(r"(https?://|www\.)\S+", re.IGNORECASE)
Options = argparse.Namespace


def score_filter(options: Options) -> Any:
    return ScoreFilter(WordCountFilter(options.least_words, options.most_words), text_field="text")


def filtered(text: str, options: Options) -> str | None:
    return text if options.least_words <= len(text.split()) <= options.most_words else None


def modifier(options: Options) -> Any:
    return Modify([UrlRemover(), Slicer(0, options.keep_characters)], input_fields="text")


def modified(text: str, options: Options) -> str | None:
    return ADDRESS.sub("", text)[: options.keep_characters].strip()


OPERATIONS: dict[str, tuple[Callable[[Options], Any], Callable[[str, Options], str | None]]] = {
    "score_filter": (score_filter, filtered),
    "modifier": (modifier, modified),
}


def stages_of(options: Options) -> list[Any]:
    make_stage, _ = OPERATIONS[options.operation]
    return [
        READERS[options.format](file_paths=str(options.input_path), files_per_partition=1),
        make_stage(options),
        WRITERS[options.format](path=str(options.output_path)),
    ]


def expected_texts(options: Options) -> dict[int, str]:
    _, expect = OPERATIONS[options.operation]
    documents = read_documents(options.input_path, options.format)
    expected = {
        number: expect(text, options)
        for number, text in zip(documents["id"].to_pylist(), documents["text"].to_pylist(), strict=True)
    }
    return {number: text for number, text in expected.items() if text is not None}


def main() -> None:
    parser = parser_for_documents(__doc__)
    parser.add_argument("--operation", choices=sorted(OPERATIONS), required=True)
    parser.add_argument("--least-words", type=int, default=150)
    parser.add_argument("--most-words", type=int, default=190)
    parser.add_argument("--keep-characters", type=int, default=500)
    options = parser.parse_args()
    pipeline = Pipeline(name=options.operation, stages=stages_of(options))
    begin = time.perf_counter()
    tasks = pipeline.run(executor_of(options)) or []
    seconds = time.perf_counter() - begin
    documents = read_documents(options.input_path, options.format).num_rows
    found = read_documents(options.output_path, options.format)
    metrics = {
        "is_success": True,
        "num_output_documents": found.num_rows,
        "kept_share": found.num_rows / documents,
        "differing_documents": differing_texts(found, expected_texts(options)),
        **speed(options, documents, seconds),
    }
    write_results(options, metrics, tasks)


if __name__ == "__main__":
    main()
