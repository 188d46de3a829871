"""The child process of a sink: reads calls from standard input, one line each, and answers each with a line.

It ends when its input ends, which also happens when the parent is killed.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from curator_bench.files.codec import json_line
from curator_bench.masking import Mask
from curator_bench.sinks.messages import from_message
from curator_bench.sinks.sink import Context, Refused, Sink, TryLater

_YIELDS = 10
"""The niceness of this process, because benchmarks run at the same time."""


class _Answers:
    """Collects the links and lines of the sink during one call, and writes the answers."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self.links: list[tuple[str, str]] = []
        self.said: list[str] = []

    def send_sign_of_life(self) -> None:
        self._out.write(json_line({"alive": True}))
        self._out.flush()

    def send(self, error: dict[str, Any] | None = None) -> None:
        self._out.write(json_line({"links": self.links, "said": self.said, "error": error}))
        self._out.flush()
        self.links, self.said = [], []


def main() -> None:
    os.nice(_YIELDS)
    out = _take_standard_output()
    lines: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    answers = _Answers(out)
    sink = _make(json.loads(lines.get()), answers)
    answers.send()
    while True:
        question = json.loads(lines.get())
        messages = [from_message(document) for document in question["messages"]]
        call: Callable[..., None] = getattr(sink, question["method"])
        answers.send(_error_of(call, [messages] if question["method"] == "runs_finished" else messages))


def _take_standard_output() -> IO[bytes]:
    """Return the real standard output, and send what libraries print to standard error instead."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return out


def _read(lines: queue.Queue[bytes]) -> None:
    for line in sys.stdin.buffer:
        lines.put(line)
    shutil.rmtree(sys.argv[1], ignore_errors=True)  # the parent may have been killed
    os._exit(0)


def _make(start: dict[str, Any], answers: _Answers) -> Sink[Any]:
    module, _, name = start["worker"].partition(":")
    kind: type[Sink[Any]] = getattr(importlib.import_module(module), name)
    context = Context(
        name=start["context"]["name"],
        session_dir=Path(start["context"]["session_dir"]),
        matrix_dir=Path(start["context"]["matrix_dir"]),
        link=lambda uid, url: answers.links.append((uid, url)),
        say=lambda text: answers.said.append(text),
        alive=answers.send_sign_of_life,
        mask=Mask(frozenset(start["secrets"])),
    )
    return kind(kind.config_model.model_validate(start["config"]), context)


def _error_of(call: Callable[..., None], arguments: list[Any]) -> dict[str, Any] | None:
    try:
        call(*arguments)
    except Refused as error:
        return {"kind": "refused", "text": str(error)}
    except TryLater as error:
        return {"kind": "later", "text": str(error), "after_s": error.after_s}
    except Exception as error:  # the parent decides how to go on
        return {"kind": "failed", "text": f"{type(error).__name__}: {error}"}
    return None


if __name__ == "__main__":
    main()
