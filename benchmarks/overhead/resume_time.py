"""How long --bench-resume takes to find the first entry that is not done, over collecting the matrix.

All entries but the last are done: one was run, and its results.json and row in the database stand for all others, each
with a name and a definition of its own.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from pytest_process import make_project, parser_with, run_pytest, with_plugin, write_results
from small_entries import write_matrix

from curator_bench.matrix import LoadRequest, definition_of, load
from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import InvocationRecord, RunEnd, RunStart, SessionRecord
from curator_bench.values import Entry, Verdict

STARTED = """\
import pathlib, sys, time

pathlib.Path("started").write_text(repr(time.time()))
results = pathlib.Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
results.joinpath("params.json").write_text("{}")
results.joinpath("metrics.json").write_text('{"is_success": true}')
"""


def finish_all_but_the_last(matrix: Path, session: Path) -> None:
    entries = load(LoadRequest(files=(matrix,), working_dir=matrix.parent)).entries
    run_pytest(["-q", *with_plugin(), "--bench-session", session.name, "-k", "entry_0", matrix.name], matrix.parent)
    pattern = json.loads((session / "entry_0" / "results.json").read_text())
    with open_for_writing(database_url(str(matrix.parent / "benchmark.db"))) as database:
        own = InvocationRecord(uuid.uuid4().hex, datetime.now(UTC))
        recorder = Recorder(database, SessionRecord(session.name, str(session.parent)), own)
        for entry in entries[:-1]:
            finish(entry, pattern, session, matrix, recorder)


def finish(entry: Entry, pattern: dict[str, object], session: Path, matrix: Path, recorder: Recorder) -> None:
    definition, uid, now = definition_of(entry), uuid.uuid4().hex, datetime.now(UTC)
    folder = session.joinpath(*entry.folder)
    folder.mkdir(parents=True, exist_ok=True)
    own = {"uid": uid, "name": entry.id, "entry": entry.name, "definition_hash": definition.hash}
    folder.joinpath("results.json").write_text(json.dumps({**pattern, **own}, indent=2))
    recorder.start_run(RunStart(entry.id, matrix.name, now, uid=uid, definition_hash=definition.hash))
    recorder.finish_run(uid, RunEnd(Verdict.PASSED, now))


def main() -> None:
    parser = parser_with(__doc__)
    parser.add_argument("--entries", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    options = parser.parse_args()
    project = make_project(options.scratch.resolve() / "project")
    (project / "work.py").write_text(STARTED)
    matrix, session = write_matrix(project, options.entries, "false"), project / "results" / "s"
    finish_all_but_the_last(matrix, session)
    added = []
    for _ in range(options.rounds):
        collected = run_pytest(["--collect-only", "-q", *with_plugin(), matrix.name], project)
        began = time.time()
        resuming = ["-q", *with_plugin(), "--benchmark", "--bench-session", session.name, "--bench-resume"]
        took = run_pytest([*resuming, matrix.name], project)
        if f"resume: {options.entries - 1} of {options.entries} entries are done" not in took.output:
            sys.exit(took.output[-2000:])
        added.append(float((project / "started").read_text()) - began - collected.wall_s)
        (session / f"entry_{options.entries - 1}" / "results.json").unlink()
    write_results(options, {"added_s": median(added)})


if __name__ == "__main__":
    main()
