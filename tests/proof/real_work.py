"""Do some real work, and print the processor time of its fastest repeat: python real_work.py NAME UNITS."""

from __future__ import annotations

import json
import random
import re
import sqlite3
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import closing

REPEATS = 9
_RANDOM = random.Random(1)
_NUMBERS = [_RANDOM.random() for _ in range(4000)]
_RECORDS = [{"name": f"record {n}", "values": _NUMBERS[n : n + 5], "tags": ["a", "b", str(n)]} for n in range(100)]
_LOG = "\n".join(f"2026-11-{n % 30 + 1:02} node-{n % 7} took {n * 37 % 1000} ms" for n in range(300))
_LINE = re.compile(r"^(\d{4})-(\d\d)-(\d\d) node-(\d) took (\d+) ms$", re.MULTILINE)
_TEXT = _LOG.encode() * 2


def sort() -> object:
    return sorted(_NUMBERS)


def dump_json() -> object:
    return json.loads(json.dumps(_RECORDS))


def match() -> object:
    return sum(int(found[4]) for found in _LINE.findall(_LOG))


def compress() -> object:
    return zlib.decompress(zlib.compress(_TEXT))


def query() -> object:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table run (node integer, took real)")
        connection.executemany(
            "insert into run values (?, ?)", [(n % 7, took) for n, took in enumerate(_NUMBERS[:500])]
        )
        return connection.execute("select node, avg(took) from run group by node order by 2").fetchall()


WORK: dict[str, Callable[[], object]] = {
    "sort": sort,
    "json": dump_json,
    "regex": match,
    "zlib": compress,
    "sqlite": query,
}


def fastest(work: Callable[[], object], units: int) -> float:
    took = []
    for _ in range(REPEATS):
        began = time.process_time()
        for _ in range(units):
            work()
        took.append(time.process_time() - began)
    return min(took)


if __name__ == "__main__":
    print(fastest(WORK[sys.argv[1]], int(sys.argv[2])))
