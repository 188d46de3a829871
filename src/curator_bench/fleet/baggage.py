"""The code and files that runs need on machines that may lack them: our package, the matrices' folders, named scripts.

A machine that has the same files under the same paths uses them. Ray's `runtime_env` sends them to the others.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import os
import re
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from curator_bench import safe_files
from curator_bench.masking import Mask
from curator_bench.values import Plan, RunResult

_T = TypeVar("_T")

_LEFT_AT_HOME = frozenset({".git", ".venv", "venv", "__pycache__", "node_modules", ".mypy_cache", ".pytest_cache"})
_SMALL_BYTES = 1 << 20
_MOST_FILES = 5_000
_MOST_SENT_BYTES = 100 << 20
_LOOKS, _LOOKS_AGAIN_AFTER_S = 3, 2.0
_SHOWN_FILES = 3


@dataclass(frozen=True, slots=True)
class Baggage:
    """Packed by the pytest process; unpacked by each run where it is."""

    folders: tuple[str, ...] = ()
    """The folders of the matrices; none of them stands in another."""
    named: frozenset[str] = frozenset()
    """The files that the matrices name, in these folders or elsewhere."""
    fingerprints: tuple[tuple[str, str], ...] = ()
    """The path and the fingerprint of each file, as it was when it was packed."""
    session_dir: str = ""
    token_file: str = ""
    token: str = ""
    """The content of the token file. A machine that can read it sees our results directory."""
    home_python: str = ""
    at_home_on: frozenset[str] = frozenset()
    """The nodes that had the files when they were asked: they keep to them when scripts write into them meanwhile."""

    def as_sent(self, is_sent: bool, at_home_on: frozenset[str] = frozenset()) -> Baggage:
        """Where the files are not sent, every node has them."""
        if is_sent:
            return dataclasses.replace(self, at_home_on=at_home_on)
        return dataclasses.replace(self, folders=(), named=frozenset(), fingerprints=())

    def close(self) -> None:
        """Remove the token file; no run looks for it any more."""
        with suppress(OSError):
            os.unlink(self.token_file)


@dataclass(frozen=True, slots=True)
class Found:
    """What a machine has of it."""

    has_bench: bool
    differences: Mapping[str, str]
    """By path, the fingerprints of files that are not as they were packed; an empty text where there is no file."""
    shares_results: bool


@dataclass(frozen=True, slots=True)
class Sending:
    """What Ray has to send, and the same in words."""

    code: bool = False
    files: bool = False
    words: tuple[str, ...] = ()


class TooMuchToSend(ValueError):
    """A node lacks files, and they are too many or too large to be sent."""


def pack(plans: Iterable[Plan], session_dir: Path) -> Baggage:
    """Take down what these plans need beside themselves, and write a token file of this invocation's own."""
    plans = list(plans)
    folders, named = _outermost({plan.working_dir for plan in plans}), frozenset(_named_files(plans))
    token_file = session_dir / "fleet" / f"token-{secrets.token_hex(4)}"
    token_file.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(16)
    safe_files.write_text(token_file, token, mode=0o600)
    found = fingerprints_of(folders, named, str(session_dir))
    return Baggage(folders, named, tuple(found.items()), str(session_dir), str(token_file), token, sys.executable)


def _named_files(plans: Iterable[Plan]) -> Iterator[str]:
    for plan in plans:
        yield plan.script
        if plan.gpu_check:
            yield plan.gpu_check
        for command in [*(need.command for need in plan.datasets), *(need.command for need in plan.data_setups)]:
            yield from command[1:2]


def _outermost(folders: Iterable[str]) -> tuple[str, ...]:
    kept: list[str] = []
    for folder in sorted(folders):
        if not any(Path(folder).is_relative_to(other) for other in kept):
            kept.append(folder)
    return tuple(kept)


def look(baggage: Baggage, version: str) -> tuple[bool, dict[str, str], bool]:
    """Compare the machine this is called on. The function is sent by value: our code need not be there."""
    import importlib

    try:
        has_bench = importlib.import_module("curator_bench.fleet.baggage").code_digest() == version
    except ImportError:
        has_bench = False
    try:
        shares_results = Path(baggage.token_file).read_text() == baggage.token
    except OSError:
        shares_results = False
    here = fingerprints_of(baggage.folders, baggage.named, baggage.session_dir)
    packed = dict(baggage.fingerprints)
    paths = {*here, *packed}
    return has_bench, {path: here.get(path, "") for path in paths if here.get(path) != packed.get(path)}, shares_results


def code_digest() -> str:
    """The digest of the package that is imported here."""
    top = str(Path(__file__).parents[1])
    found = fingerprints_of([top], (), "")
    lines = (f"{os.path.relpath(path, top)}\0{found[path]}\n" for path in sorted(found))
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def fingerprints_of(folders: Iterable[str], named: Iterable[str], session_dir: str) -> dict[str, str]:
    """By path, the fingerprints of all files of the folders and of the named files."""
    paths = {*named, *(path for folder in folders for path in _files(folder, os.path.dirname(session_dir)))}
    found = {path: fingerprint(path) for path in sorted(paths)}
    return {path: text for path, text in found.items() if text}


def fingerprint(path: str) -> str:
    """The digest of a small file, the size of a large one, which is data; empty where there is no file."""
    try:
        size = os.stat(path).st_size
        if size > _SMALL_BYTES:
            return str(size)
        with open(path, "rb") as file:
            return hashlib.blake2b(file.read(), digest_size=16).hexdigest()
    except OSError:
        return ""


def _files(folder: str, results: str) -> Iterator[str]:
    """The files of a folder, but for those in the results directory."""
    for top, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _LEFT_AT_HOME and os.path.join(top, name) != results]
        yield from (path for name in names if _is_code(Path(path := os.path.join(top, name))))


def _is_code(path: Path) -> bool:
    """Not what a session writes beside its matrix while it runs."""
    is_ours = path.suffix in (".pyc", ".db") or ".db-" in path.name or path.name.startswith(".")
    return path.is_file() and not path.is_symlink() and not is_ours


def real_differences(baggage: Baggage, found: Found) -> list[str]:
    """The files that a machine has otherwise than we have. A file that changes here meanwhile counts only if named."""
    packed = dict(baggage.fingerprints)
    differing = []
    for path, there in sorted(found.differences.items()):
        now = fingerprint(path)
        if now != there and (path in baggage.named or now == packed.get(path, "")):
            differing.append(path)
    return differing


def what_to_send(baggage: Baggage, found: Mapping[str, Found], unasked: str = "") -> Sending:
    """Decide what is to be sent to the machines that lack something; TooMuchToSend where that is too much.

    `unasked`: the nodes of which nothing is known.
    """
    words = []
    others = [unasked] if unasked else []
    sends_code = sends_files = False
    if lacking := sorted(host for host, has in found.items() if not has.has_bench) + others:
        sends_code = True
        words.append(f"curator_bench is sent to {', '.join(lacking)}")
    differing = {host: paths for host, has in sorted(found.items()) if (paths := real_differences(baggage, has))}
    if baggage.fingerprints and (differing or others):
        sends_files, text = _files_to_send(baggage, differing, others)
        words.append(text)
    if lacking := sorted(host for host, has in found.items() if not has.shares_results):
        words.append(f"results come back from {', '.join(lacking)}, which cannot see {baggage.session_dir}")
    return Sending(sends_code, sends_files, tuple(words))


def _files_to_send(baggage: Baggage, differing: Mapping[str, list[str]], others: list[str]) -> tuple[bool, str]:
    folders, count = ", ".join(baggage.folders), len(baggage.fingerprints)
    size = sum(_size(path) for path, _ in baggage.fingerprints)
    if size <= _MOST_SENT_BYTES and count <= _MOST_FILES:
        return True, f"{folders} ({count} files) is sent to {', '.join([*differing, *others])}"
    too_much = f"{folders}, which is too much to send ({count} files, {size >> 20} MiB)"
    if differing:
        examples = sorted({path for paths in differing.values() for path in paths})
        shown = ", ".join(examples[:_SHOWN_FILES]) + (", …" if len(examples) > _SHOWN_FILES else "")
        raise TooMuchToSend(
            f"{', '.join(differing)} lack {too_much}; put it there, under the same path"
            f" (missing or different there: {shown})"
        )
    return False, f"{', '.join(others)} must have {too_much}"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


@contextmanager
def runtime_env(baggage: Baggage, sending: Sending) -> Iterator[dict[str, Any]]:
    """What Ray takes when a driver connects; it has sent it by the end of the context."""
    env: dict[str, Any] = {"py_modules": [str(Path(__file__).parents[1])]} if sending.code else {}
    with tempfile.TemporaryDirectory(prefix="cbf-") as folder:
        if sending.files:
            _copy_files(baggage, folder)
            env["working_dir"] = folder
        yield env


def _copy_files(baggage: Baggage, folder: str) -> None:
    """Copy what is sent, under its whole path, but for files that change meanwhile."""
    for path, packed in baggage.fingerprints:
        if path not in baggage.named and fingerprint(path) != packed:
            continue
        target = folder + path
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with suppress(FileNotFoundError):  # it has vanished this moment
            shutil.copy2(path, target)


@dataclass(slots=True)
class Unpacked:
    """The plan as it can be run here; `back` gives the result as it is at home."""

    plan: Plan
    moved: dict[str, str] = field(default_factory=dict)
    is_away: bool = False
    """The run's folder is one that nobody at home can see."""

    def back(self, result: RunResult) -> RunResult:
        return relocated(result, self.to_home())

    def to_home(self) -> dict[str, str]:
        """By path here, the path at home."""
        return {there: here for here, there in self.moved.items()}


@contextmanager
def unpacked(plan: Plan, baggage: Baggage, node: str) -> Iterator[Unpacked]:
    """The plan with the paths of this machine, and a session's folder of its own where it cannot see ours."""
    found = _found_here(baggage)
    moved: dict[str, str] = {}
    own_session = ""
    if baggage.fingerprints and node not in baggage.at_home_on and found.differences:
        moved = {path: os.getcwd() + path for path in (*baggage.folders, *baggage.named)}
    if baggage.session_dir and found.shares_results:
        moved[baggage.session_dir] = baggage.session_dir  # which may stand in a folder that is another here
    elif baggage.session_dir:
        own_session = moved[baggage.session_dir] = tempfile.mkdtemp(prefix="cbf-")
        plan = dataclasses.replace(plan, artifacts_dir=None)
    if baggage.home_python and not os.path.exists(baggage.home_python):
        moved[baggage.home_python] = sys.executable
    try:
        yield Unpacked(relocated(plan, moved) if moved else plan, moved, bool(own_session))
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
    # A whole path, or the beginning of one; and not one in the middle of another. A letter is that of an option: -I/usr
    return re.sub(
        rf"(?:(?<![\w.~])|(?<=-[A-Za-z]))(?:{longest_first})(?![\w-]|\.\w)", lambda here: moved[here[0]], text
    )


def choose(ray: Any, baggage: Baggage, nodes: Mapping[str, str], unasked: str) -> tuple[Baggage, Sending]:
    """Ask every node (id to name) what it has, and decide what is to be sent. In the driver.

    Before a fleet is refused the nodes are asked again: a file that changes may be seen later there than here.
    """
    for look_number in range(1, _LOOKS + 1):
        found = _ask(ray, baggage, nodes)
        try:
            sending = what_to_send(baggage, {nodes[node]: found[node] for node in nodes}, unasked)
            break
        except TooMuchToSend:
            if look_number == _LOOKS:
                raise
            time.sleep(_LOOKS_AGAIN_AFTER_S)
    at_home_on = frozenset(node for node in nodes if not real_differences(baggage, found[node]))
    return baggage.as_sent(sending.files, at_home_on), sending


def _ask(ray: Any, baggage: Baggage, nodes: Iterable[str]) -> dict[str, Found]:
    ours: Any = importlib.import_module(__name__)
    ray.cloudpickle.register_pickle_by_value(ours)
    try:
        asking = ray.remote(num_cpus=0, max_retries=0)(look)
        packed, version = ray.put(baggage), code_digest()
        options = ({"label_selector": {"ray.io/node-id": node}} for node in nodes)
        answers = [asking.options(**own).remote(packed, version) for own in options]
        return {node: Found(*ray.get(answer, timeout=60)) for node, answer in zip(nodes, answers, strict=True)}
    finally:
        ray.cloudpickle.unregister_pickle_by_value(ours)
