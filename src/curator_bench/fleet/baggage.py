"""What a run needs beside its plan, on a machine that may have none of it: our code, the matrix's folder, the results'.

What is there under the same path, and the same, is used. The rest is sent by Ray's `runtime_env`, and results come back
with the answer.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from curator_bench import safe_files
from curator_bench.execution.directories import attempt_top, prepare, remove_scratch
from curator_bench.execution.result_lines import RESULT_LINES
from curator_bench.masking import Mask
from curator_bench.values import Plan, RunResult

_T = TypeVar("_T")

_LEFT_AT_HOME = frozenset({".git", ".venv", "venv", "__pycache__", "node_modules", ".mypy_cache", ".pytest_cache"})
_SMALL_BYTES = 1 << 20
_MOST_FILES = 5_000
_MOST_SENT_BYTES = 100 << 20
_MOST_BACK_BYTES = 64 << 20
_LARGEST_BACK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Baggage:
    """Packed by the pytest process; unpacked by each run where it is."""

    folder: str = ""
    """What holds the matrices and their scripts."""
    digest: str = ""
    session_dir: str = ""
    token: str = ""
    """What stands in the file `token` of the session's fleet folder: who can read it sees our results directory."""
    home_python: str = ""
    at_home_on: frozenset[str] = frozenset()
    """The nodes that had the folder when they were asked: they keep to it when scripts write into it meanwhile."""

    def as_sent(self, env: Mapping[str, Any], at_home_on: frozenset[str] = frozenset()) -> Baggage:
        """Where the folder is not sent every node has it."""
        if "working_dir" in env:
            return dataclasses.replace(self, at_home_on=at_home_on)
        return dataclasses.replace(self, folder="")

    @property
    def token_file(self) -> Path:
        return Path(self.session_dir, "fleet", "token")


@dataclass(frozen=True, slots=True)
class Found:
    """What a machine has of it."""

    has_bench: bool
    has_folder: bool
    shares_results: bool


def pack(folders: list[str], session_dir: Path, token: str) -> Baggage:
    folder = os.path.commonpath(folders) if folders else ""
    own = Baggage(folder, digest_of(folder, str(session_dir)), str(session_dir), token, sys.executable)
    own.token_file.parent.mkdir(parents=True, exist_ok=True)
    safe_files.write_text(own.token_file, token, mode=0o600)
    return own


def look(baggage: Baggage, version: str) -> tuple[bool, bool, bool]:
    """What is found, to be called on the machine in question. It is sent by value: our code need not be there."""
    import importlib

    try:
        has_bench = importlib.import_module("curator_bench.fleet.baggage").code_digest() == version
    except ImportError:
        has_bench = False
    try:
        shares_results = baggage.token_file.read_text() == baggage.token
    except OSError:
        shares_results = False
    return has_bench, digest_of(baggage.folder, baggage.session_dir) == baggage.digest, shares_results


def code_digest() -> str:
    return digest_of(str(Path(__file__).parents[1]), "")


def digest_of(folder: str, but: str) -> str:
    """Of names and contents of its small files; large ones are data, and known by size."""
    digest = hashlib.sha256()
    for path in _files(folder, but):
        digest.update(os.path.relpath(path, folder).encode("utf-8", "surrogateescape") + b"\0")
        size = path.stat().st_size
        digest.update(path.read_bytes() if size <= _SMALL_BYTES else str(size).encode())
    return digest.hexdigest()


def _files(folder: str, but: str) -> Iterator[Path]:
    """`but`: our session's folder, and what stands beside it, which are results."""
    results = os.path.dirname(but)
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if name not in _LEFT_AT_HOME and os.path.join(top, name) != results
        )
        yield from (path for name in sorted(names) if _is_code(path := Path(top, name)))


def _is_code(path: Path) -> bool:
    """Not what a session writes beside its matrix while it runs."""
    is_ours = path.suffix in (".pyc", ".db") or ".db-" in path.name or path.name.startswith(".")
    return path.is_file() and not path.is_symlink() and not is_ours


def runtime_env(baggage: Baggage, found: Mapping[str, Found], unasked: str = "") -> tuple[dict[str, Any], list[str]]:
    """What Ray has to send, and the same in words; ValueError where it is too much.

    `unasked`: the nodes of which nothing is known.
    """
    env: dict[str, Any] = {}
    words = []
    others = [unasked] if unasked else []
    if lacking := sorted(host for host, has in found.items() if not has.has_bench) + others:
        env["py_modules"] = [str(Path(__file__).parents[1])]
        words.append(f"curator_bench is sent to {', '.join(lacking)}")
    lacking = sorted(host for host, has in found.items() if not has.has_folder)
    if baggage.folder and (lacking or others):
        sent, text = _folder_to_send(baggage, lacking, others)
        env |= sent
        words.append(text)
    if lacking := sorted(host for host, has in found.items() if not has.shares_results):
        words.append(f"results come back from {', '.join(lacking)}, which cannot see {baggage.session_dir}")
    return env, words


def _folder_to_send(baggage: Baggage, lacking: list[str], others: list[str]) -> tuple[dict[str, Any], str]:
    files = list(_files(baggage.folder, baggage.session_dir))
    size = sum(path.stat().st_size for path in files)
    if size <= _MOST_SENT_BYTES and len(files) <= _MOST_FILES:
        told = f"{baggage.folder} ({len(files)} files) is sent to {', '.join([*lacking, *others])}"
        return {"working_dir": baggage.folder, "excludes": _excludes(baggage)}, told
    too_much = f"{baggage.folder}, which is too much to send ({len(files)} files, {size >> 20} MiB)"
    if lacking:
        raise ValueError(f"{', '.join(lacking)} lack {too_much}; put it there, under the same path")
    return {}, f"{', '.join(others)} must have {too_much}"


def _excludes(baggage: Baggage) -> list[str]:
    results = os.path.dirname(baggage.session_dir)
    inside = [f"/{os.path.relpath(results, baggage.folder)}/"] if results.startswith(baggage.folder + os.sep) else []
    return [*(f"{name}/" for name in sorted(_LEFT_AT_HOME)), "*.db", "*.db-*", *inside]


@dataclass(slots=True)
class Unpacked:
    """The plan as it can be run here; `back` gives the result as it is at home, and the files it left."""

    plan: Plan
    moved: dict[str, str] = field(default_factory=dict)
    session_dir: str = ""

    def back(self, result: RunResult) -> tuple[RunResult, dict[str, bytes]]:
        result = relocated(result, {there: here for here, there in self.moved.items()})
        if not self.session_dir:
            return result, {}
        files, left_behind = _collected(Path(self.plan.entry_dir))
        if left_behind:
            warning = f"too large to come back from {result.host}, and gone: {', '.join(left_behind[:10])}"
            result = dataclasses.replace(result, warnings=(*result.warnings, warning))
        return result, files


@contextmanager
def unpacked(plan: Plan, baggage: Baggage, node: str) -> Iterator[Unpacked]:
    found = _found_here(baggage)
    moved: dict[str, str] = {}
    own_session = ""
    if baggage.folder and not (node in baggage.at_home_on or found.has_folder):
        moved[baggage.folder] = os.getcwd()
    if baggage.session_dir and found.shares_results:
        moved[baggage.session_dir] = baggage.session_dir  # which may stand in a folder that is another here
    elif baggage.session_dir:
        own_session = moved[baggage.session_dir] = tempfile.mkdtemp(prefix="cbf-")
        plan = dataclasses.replace(plan, artifacts_dir=None)
    if baggage.home_python and not os.path.exists(baggage.home_python):
        moved[baggage.home_python] = sys.executable
    try:
        yield Unpacked(relocated(plan, moved) if moved else plan, moved, own_session)
    finally:
        if own_session:
            shutil.rmtree(own_session, ignore_errors=True)


@functools.cache
def _found_here(baggage: Baggage) -> Found:
    return Found(*look(baggage, ""))


def relocated(value: _T, moved: Mapping[str, str]) -> _T:
    """The value with every path in it that begins with one of these replaced, the longest first."""
    found: Any = value
    if isinstance(found, str):
        found = _with_other_paths(found, moved)
    elif isinstance(value, Mask):
        return value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {item.name: relocated(getattr(value, item.name), moved) for item in dataclasses.fields(value)}
        found = dataclasses.replace(value, **changes)
    elif isinstance(value, Mapping):
        found = {key: relocated(item, moved) for key, item in value.items()}
    elif isinstance(value, list | tuple):
        found = type(value)(relocated(item, moved) for item in value)
    return cast(_T, found)


def _with_other_paths(text: str, moved: Mapping[str, str]) -> str:
    if not any(here in text for here in moved):
        return text  # the very same: verdicts are texts, too
    longest_first = "|".join(map(re.escape, sorted(moved, key=len, reverse=True)))
    return re.sub(longest_first, lambda here: moved[here[0]], text)


def bring_home(plan: Plan, result: RunResult, files: Mapping[str, bytes]) -> RunResult:
    """Puts what a run left where nobody here can see it into the plan's folder, as if it had run here."""
    if not files:
        return result
    try:
        directories = prepare(plan, attempt_top(plan))
        for name, content in files.items():
            if name == RESULT_LINES:  # a script's own; ours are written here, once the run is judged
                continue
            path = Path(plan.entry_dir, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if plan.delete_scratch:
            remove_scratch(directories)
    except OSError as error:
        warning = f"what it left could not be brought home: {error}"
        return dataclasses.replace(result, warnings=(*result.warnings, warning))
    return result


def _collected(entry_dir: Path) -> tuple[dict[str, bytes], list[str]]:
    """What a run left, but for its scratch; and the names of what is too large."""
    files: dict[str, bytes] = {}
    too_large: list[str] = []
    total = 0
    for path in sorted(entry_dir.rglob("*")):
        name = path.relative_to(entry_dir).as_posix()
        if path.is_symlink() or not path.is_file() or "scratch" in path.relative_to(entry_dir).parts:
            continue
        size = path.stat().st_size
        total += size
        if size > _LARGEST_BACK_BYTES or total > _MOST_BACK_BYTES:
            too_large.append(name)
            total -= size
        else:
            files[name] = path.read_bytes()
    return files, too_large


def choose(
    ray: Any, baggage: Baggage, nodes: Mapping[str, str], unasked: str
) -> tuple[Baggage, dict[str, Any], list[str]]:
    """Asks every node (id to name) what it has, and says what is to be sent. In the driver."""
    ours: Any = importlib.import_module(__name__)
    ray.cloudpickle.register_pickle_by_value(ours)
    try:
        asking = ray.remote(num_cpus=0, max_retries=0)(look)
        answers = {
            name: asking.options(label_selector={"ray.io/node-id": node}).remote(baggage, code_digest())
            for node, name in nodes.items()
        }
        found = {name: Found(*ray.get(answer, timeout=60)) for name, answer in answers.items()}
    finally:
        ray.cloudpickle.unregister_pickle_by_value(ours)
    env, words = runtime_env(baggage, found, unasked)
    at_home_on = frozenset(node for node, name in nodes.items() if found[name].has_folder)
    return baggage.as_sent(env, at_home_on), env, words
