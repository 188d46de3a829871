"""What make_crawl.py put into its pages, against what was extracted from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq
from crawl_pipeline import FileDone


def compare(truth: Path, output: Path, form: str, done: Sequence[FileDone]) -> dict[str, Any]:
    """Only of the files that were listed: there may have been a limit."""
    files = {Path(urlsplit(file.download.url).path).name for file in done}
    known = json.loads((truth / "files.json").read_text("utf-8"))
    planted = sum(known[file]["broken"] for file in files)
    expected: dict[str, str] = {}
    for file in files:
        expected |= known[file]["pages"]
    found = dict(_digests(output, form))
    both = expected.keys() & found.keys()
    return {
        "planted_broken_records": planted,
        "uncounted_broken_records": planted - sum(file.tally.broken for file in done),
        "missing_documents": len(expected.keys() - found.keys()),
        "unexpected_documents": len(found.keys() - expected.keys()),
        "wrong_documents": sum(1 for url in both if expected[url] != found[url]),
    }


def digest_of(title: str, text: str) -> str:
    return hashlib.blake2b(f"{title}\n{text}".encode(), digest_size=12).hexdigest()


def _digests(output: Path, form: str) -> Iterator[tuple[str, str]]:
    for file in sorted(output.glob(f"*.{form}")):
        for document in _documents(file):
            yield document["url"], digest_of(document["title"], document["text"])


def _documents(file: Path) -> Iterator[dict[str, str]]:
    if file.suffix == ".parquet":
        for batch in pq.ParquetFile(file).iter_batches():
            yield from batch.to_pylist()
    else:
        with file.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)
