"""What is done with each file of a crawl, on whichever worker: download it, read its pages, write their texts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from downloads import Download, Patience, download
from html_text import page_of
from http_response import Response, parse_response
from warc import MEBIBYTE, Broken, NotWhole, Record, read_warc

SCHEMA = pa.schema([(name, pa.string()) for name in ("url", "warc_id", "fetched_at", "title", "text")])
Document = dict[str, str]
_DOCUMENTS_PER_BATCH = 1_000
_MOST_PAGE_BYTES = 8 * MEBIBYTE
_REASONS_KEPT = 20
_OK = 200


@dataclass(frozen=True, slots=True)
class Settings:
    """Where files come from and go to."""

    base_url: str
    downloads: Path
    output: Path
    output_format: str
    patience: Patience = field(default_factory=Patience)


@dataclass(slots=True)
class Tally:
    """What was found in one file, and the seconds each stage took."""

    records: int = 0
    documents: int = 0
    characters: int = 0
    broken: int = 0
    reasons: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def add_broken(self, offset: int, reason: str) -> None:
        self.broken += 1
        if len(self.reasons) < _REASONS_KEPT:
            self.reasons.append(f"at byte {offset}: {reason}")

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin


@dataclass(frozen=True, slots=True)
class Downloaded:
    """A file that is to be read next."""

    download: Download
    seconds: float


@dataclass(frozen=True, slots=True)
class FileDone:
    """A file and what was found in it; nothing where the download failed."""

    download: Download
    size: int
    tally: Tally

    def as_task(self) -> dict[str, Any]:
        items = {"download": 1, "read": self.tally.records}
        return {
            "_stage_perf": [
                {
                    "stage_name": name,
                    "process_time": seconds,
                    "num_items_processed": items.get(name, self.tally.documents),
                }
                for name, seconds in self.tally.seconds.items()
            ]
        }


def fetch_file(settings: Settings, path: str) -> Downloaded:
    begin = time.perf_counter()
    fetched = download(settings.base_url + path, settings.downloads, settings.patience)
    return Downloaded(fetched, time.perf_counter() - begin)


def curate_file(settings: Settings, fetched: Downloaded) -> FileDone:
    tally = Tally(seconds={"download": fetched.seconds})
    source = fetched.download.path
    if source is None:
        return FileDone(fetched.download, 0, tally)
    name = source.name.removesuffix(".gz").removesuffix(".warc")
    settings.output.mkdir(parents=True, exist_ok=True)
    with WRITERS[settings.output_format](settings.output / f"{name}.{settings.output_format}") as writer:
        for batch in _batches(documents_of(source, tally)):
            with tally.stage("write"):
                writer.write(batch)
    return FileDone(fetched.download, source.stat().st_size, tally)


def documents_of(file: Path, tally: Tally) -> Iterator[Document]:
    """The text of every page of a file that has any."""
    for record, response in _pages_of(file, tally):
        with tally.stage("extract"):
            page = page_of(response.body, response.header.get("content-type", ""))
        if page.text:
            tally.documents += 1
            tally.characters += len(page.text)
            yield {
                "url": record.header.get("warc-target-uri", "").strip("<>"),
                "warc_id": record.header.get("warc-record-id", "").strip("<>"),
                "fetched_at": record.header.get("warc-date", ""),
                "title": page.title,
                "text": page.text,
            }


def _pages_of(file: Path, tally: Tally) -> Iterator[tuple[Record, Response]]:
    records = read_warc(file)
    while True:
        with tally.stage("read"):
            record = next(records, None)
            response = _page_in(record, tally) if record else None
        if record is None:
            return
        if response is not None and isinstance(record, Record):
            yield record, response


def _page_in(record: Record | Broken, tally: Tally) -> Response | None:
    """The page a record holds, if it is one that was found and that people read."""
    if isinstance(record, Broken):
        tally.add_broken(record.offset, record.reason)
        return None
    tally.records += 1
    if record.kind != "response":
        return None
    try:
        response = parse_response(record.content, most_bytes=_MOST_PAGE_BYTES)
    except NotWhole as reason:
        tally.add_broken(record.offset, str(reason))
        return None
    return response if response.status == _OK and response.is_html else None


def _batches(documents: Iterator[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    for document in documents:
        batch.append(document)
        if len(batch) == _DOCUMENTS_PER_BATCH:
            yield batch
            batch = []
    yield batch


class Writer(Protocol):
    """Writes documents to a file that has its name only once it is whole."""

    def __init__(self, file: Path) -> None: ...

    def __enter__(self) -> Writer: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None: ...

    def write(self, batch: list[Document]) -> None: ...


class JsonlWriter:
    """JSON lines."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._partial = file.with_name(file.name + ".part")

    def __enter__(self) -> JsonlWriter:
        self._output = self._partial.open("w", encoding="utf-8", errors="replace")
        return self

    def write(self, batch: list[Document]) -> None:
        self._output.writelines(json.dumps(document, ensure_ascii=False) + "\n" for document in batch)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._output.close()
        if kind is None:
            self._partial.replace(self._file)


class ParquetWriter:
    """Parquet, a row group for each batch."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._partial = file.with_name(file.name + ".part")

    def __enter__(self) -> ParquetWriter:
        self._output = pq.ParquetWriter(self._partial, SCHEMA)
        return self

    def write(self, batch: list[Document]) -> None:
        self._output.write_table(pa.Table.from_pylist(batch, schema=SCHEMA))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._output.close()
        if kind is None:
            self._partial.replace(self._file)


WRITERS: dict[str, type[Writer]] = {"jsonl": JsonlWriter, "parquet": ParquetWriter}
