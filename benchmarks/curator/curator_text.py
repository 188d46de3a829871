"""NeMo Curator's reader, one stage that filters or modifies texts, its writer; against what was planted in the texts.

score_filter has the filters of its heuristic_filter_english_pipeline.yaml, modifier its nightly's modifiers without
UnicodeReformatter, which needs ftfy. They are one stage: Xenna wants a CPU for each.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import nemo_curator
import pyarrow as pa
import pyarrow.compute as pc
import yaml
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
from nemo_curator.stages.text.io.reader import JsonlReader, ParquetReader
from nemo_curator.stages.text.io.writer import JsonlWriter, ParquetWriter
from nemo_curator.stages.text.modifiers import Modify
from nemo_curator.stages.text.modifiers.string import (
    BoilerPlateStringModifier,
    MarkdownRemover,
    NewlineNormalizer,
    QuotationRemover,
    UrlRemover,
)

READERS = {"jsonl": JsonlReader, "parquet": ParquetReader}
WRITERS = {"jsonl": JsonlWriter, "parquet": ParquetWriter}
FILTERS = Path(nemo_curator.__path__[0], "config", "text", "heuristic_filter_english_pipeline.yaml")
MODIFIERS = (BoilerPlateStringModifier, MarkdownRemover, NewlineNormalizer, QuotationRemover, UrlRemover)
Options = argparse.Namespace


def score_filter() -> Any:
    stages = yaml.safe_load(FILTERS.read_text())["stages"]
    return ScoreFilter([_made(stage["filter_obj"]) for stage in stages if "filter_obj" in stage], text_field="text")


def _made(described: dict[str, Any]) -> Any:
    module, name = described["_target_"].rsplit(".", 1)
    options = {key: value for key, value in described.items() if key != "_target_"}
    return getattr(import_module(module), name)(**options)


def modifier() -> Any:
    return Modify([kind() for kind in MODIFIERS], input_fields="text")


OPERATIONS: dict[str, Callable[[], Any]] = {"score_filter": score_filter, "modifier": modifier}


def stages_of(options: Options) -> list[Any]:
    return [
        READERS[options.format](file_paths=str(options.input_path), files_per_partition=1),
        OPERATIONS[options.operation]().with_(name=options.operation),  # its own name has those of all filters in it
        WRITERS[options.format](path=str(options.output_path)),
    ]


def expected_texts(options: Options) -> dict[int, str]:
    """Of texts that filters reject it is not known what modifiers make of them."""
    known = [json.loads(line) for line in options.truth_path.read_text("utf-8").splitlines()]
    stay = [row for row in known if row["rejected_by"] is None]
    if options.operation == "modifier":
        return {row["id"]: row["modified"] for row in stay}
    documents = read_documents(options.input_path, options.format)
    texts = dict(zip(documents["id"].to_pylist(), documents["text"].to_pylist(), strict=True))
    return {row["id"]: texts[row["id"]] for row in stay}


def main() -> None:
    parser = parser_for_documents(__doc__)
    parser.add_argument("--operation", choices=sorted(OPERATIONS), required=True)
    parser.add_argument("--truth-path", type=Path, required=True, help="truth.jsonl of the suite text")
    options = parser.parse_args()
    pipeline = Pipeline(name=options.operation, stages=stages_of(options))
    begin = time.perf_counter()
    tasks = pipeline.run(executor_of(options)) or []
    seconds = time.perf_counter() - begin
    documents = read_documents(options.input_path, options.format).num_rows
    found, expected = read_documents(options.output_path, options.format), expected_texts(options)
    known = found.filter(pc.is_in(found["id"], pa.array(expected))) if options.operation == "modifier" else found
    metrics = {
        "is_success": True,
        "num_output_documents": found.num_rows,
        "kept_share": found.num_rows / documents,
        "differing_documents": differing_texts(known, expected),
        **speed(options, documents, seconds),
    }
    write_results(options, metrics, tasks)


if __name__ == "__main__":
    main()
