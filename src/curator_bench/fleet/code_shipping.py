"""Code and files for machines that may lack them: our package, the matrices' folders, the scripts they name.

A machine that has the same files under the same paths uses its own. Ray's `runtime_env` sends them to the others.
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
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from curator_bench.cluster.temp_dirs import private_folder
from curator_bench.files import safe_files
from curator_bench.masking import Mask
from curator_bench.measure.processes import RUN_VARIABLE
from curator_bench.values import Plan, RunResult

_T = TypeVar("_T")

_LEFT_AT_HOME = frozenset({".git", ".venv", "venv", "__pycache__", "node_modules", ".mypy_cache", ".pytest_cache"})
_SMALL_BYTES = 1 << 20
_MOST_FILES = 5_000
_MOST_SENT_BYTES = 100 << 20
_LOOKS, _LOOKS_AGAIN_AFTER_S = 3, 2.0
_SHOWN_FILES = 3
_LONGEST_TOKEN = 1000


@dataclass(frozen=True, slots=True)
class Shipment:
    """The description of the files. The pytest process makes it, and each run uses it on its machine."""

    folders: tuple[str, ...] = ()
    """The folders of the matrices; none is inside another."""
    named: frozenset[str] = frozenset()
    """The files that the matrices name, in these folders or elsewhere."""
    fingerprints: tuple[tuple[str, str], ...] = ()
    """The path and the fingerprint of each file, as it was when it was packed."""
    session_dir: str = ""
    token_file: str = ""
    token: str = ""
    """The content of the token file. A machine that can read it sees our results directory."""
    home_python: str = ""
    present_on: frozenset[str] = frozenset()
    """The nodes that had the files when they were asked. They keep using them, also after a script wrote there."""

    def as_sent(self, is_sent: bool, present_on: frozenset[str] = frozenset()) -> Shipment:
        """The description that runs get. It names no files if they are not sent, because every node has them."""
        if is_sent:
            return dataclasses.replace(self, present_on=present_on)
        return dataclasses.replace(self, folders=(), named=frozenset(), fingerprints=())

    def close(self) -> None:
        """Remove the token file; no run looks for it any more."""
        with suppress(OSError):
            os.unlink(self.token_file)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between one machine and a shipment."""

    has_bench: bool
    differences: Mapping[str, str]
    """By path, the machine's fingerprints of files that differ; an empty text for a file that is missing there."""
    shares_results: bool


@dataclass(frozen=True, slots=True)
class Sending:
    """The decision what Ray sends, and lines about it for the user."""

    code: bool = False
    files: bool = False
    words: tuple[str, ...] = ()


class TooMuchToSend(ValueError):
    """Files are missing on a node, and too many or too large to be sent."""


def pack(plans: Iterable[Plan], session_dir: Path) -> Shipment:
    """Describe the files these plans need, and write a token file for this invocation alone."""
    plans = list(plans)
    folders, named = _outermost({plan.working_dir for plan in plans}), frozenset(_named_files(plans))
    token_file = session_dir / "fleet" / f"token-{secrets.token_hex(4)}"
    token_file.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(16)
    safe_files.write_text(token_file, token, mode=0o600)
    found = fingerprints_of(folders, named, str(session_dir))
    return Shipment(folders, named, tuple(found.items()), str(session_dir), str(token_file), token, sys.executable)


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


def compare_here(shipment: Shipment, version: str) -> tuple[bool, dict[str, str], bool]:
    """Compare the machine this runs on. The function is sent by value, because our code may be missing there."""
    import importlib

    try:
        has_bench = importlib.import_module("curator_bench.fleet.code_shipping").code_digest() == version
    except ImportError:
        has_bench = False
    try:  # a script may have put a pipe there
        descriptor = os.open(shipment.token_file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            shares_results = file.read(_LONGEST_TOKEN).decode(errors="replace") == shipment.token
    except OSError:
        shares_results = False
    here = fingerprints_of(shipment.folders, shipment.named, shipment.session_dir)
    packed = dict(shipment.fingerprints)
    paths = {*here, *packed}
    return has_bench, {path: here.get(path, "") for path in paths if here.get(path) != packed.get(path)}, shares_results


def code_digest() -> str:
    """The digest of the curator_bench that is imported here."""
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
    """The digest of a small file, the size of a large one (data); empty if there is no file."""
    try:
        size = os.stat(path).st_size
        if size > _SMALL_BYTES:
            return str(size)
        with open(path, "rb") as file:
            return hashlib.blake2b(file.read(), digest_size=16).hexdigest()
    except OSError:
        return ""


def _files(folder: str, results: str) -> Iterator[str]:
    """The files of a folder, except results and what `_is_code` leaves out."""
    for top, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _LEFT_AT_HOME and os.path.join(top, name) != results]
        yield from (path for name in names if _is_code(Path(path := os.path.join(top, name))))


def _is_code(path: Path) -> bool:
    """False for files that a session writes beside its matrix: databases, byte code, hidden files."""
    is_ours = path.suffix in (".pyc", ".db") or ".db-" in path.name or path.name.startswith(".")
    return path.is_file() and not path.is_symlink() and not is_ours


def real_differences(shipment: Shipment, found: Comparison) -> list[str]:
    """The paths that differ between here and a machine. A file that changed here meanwhile counts only if named."""
    packed = dict(shipment.fingerprints)
    differing = []
    for path, there in sorted(found.differences.items()):
        now = fingerprint(path)
        if now != there and (path in shipment.named or now == packed.get(path, "")):
            differing.append(path)
    return differing


def what_to_send(shipment: Shipment, found: Mapping[str, Comparison], unasked: str = "") -> Sending:
    """Decide what is sent, from the state of each host; raises TooMuchToSend.

    `unasked`: a name for nodes that could not be asked.
    """
    words = []
    others = [unasked] if unasked else []
    sends_code = sends_files = False
    if lacking := sorted(host for host, has in found.items() if not has.has_bench) + others:
        sends_code = True
        words.append(f"curator_bench is sent to {', '.join(lacking)}")
    differing = {host: paths for host, has in sorted(found.items()) if (paths := real_differences(shipment, has))}
    if shipment.fingerprints and (differing or others):
        sends_files, text = _files_to_send(shipment, differing, others)
        words.append(text)
    if lacking := sorted(host for host, has in found.items() if not has.shares_results):
        words.append(f"results come back from {', '.join(lacking)}, which cannot see {shipment.session_dir}")
    return Sending(sends_code, sends_files, tuple(words))


def _files_to_send(shipment: Shipment, differing: Mapping[str, list[str]], others: list[str]) -> tuple[bool, str]:
    folders, count = ", ".join(shipment.folders), len(shipment.fingerprints)
    size = sum(_size(path) for path, _ in shipment.fingerprints)
    if size <= _MOST_SENT_BYTES and count <= _MOST_FILES:
        return True, f"{folders} ({count} files) is sent to {', '.join([*differing, *others])}"
    too_much = f"{folders}, too much to send ({count} files, {size >> 20} MiB)"
    if differing:
        examples = sorted({path for paths in differing.values() for path in paths})
        shown = ", ".join(examples[:_SHOWN_FILES]) + (", …" if len(examples) > _SHOWN_FILES else "")
        raise TooMuchToSend(
            f"{', '.join(differing)} lack {too_much}; copy it there, to the same path (missing or different: {shown})"
        )
    return False, f"{', '.join(others)} must have {too_much}"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


@contextmanager
def runtime_env(shipment: Shipment, sending: Sending) -> Iterator[dict[str, Any]]:
    """Yield Ray's `runtime_env` for connecting a driver. The copies of the files exist until the block ends."""
    env: dict[str, Any] = {"py_modules": [str(Path(__file__).parents[1])]} if sending.code else {}
    with private_folder(os.environ.get(RUN_VARIABLE) or secrets.token_hex(8)) as folder:
        if sending.files:
            _copy_files(shipment, str(folder))
            env["working_dir"] = str(folder)
        yield env


def _copy_files(shipment: Shipment, folder: str) -> None:
    """Copy the files, each under its whole path, except those that changed meanwhile."""
    for path, packed in shipment.fingerprints:
        if path not in shipment.named and fingerprint(path) != packed:
            continue
        target = folder + path
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with suppress(FileNotFoundError):  # it has vanished this moment
            shutil.copy2(path, target)


@dataclass(slots=True)
class Unpacked:
    """The plan with the paths of this machine; `back` converts a result to the paths of pytest's machine (home)."""

    plan: Plan
    moved: dict[str, str] = field(default_factory=dict)
    is_away: bool = False
    """True if the run's folder cannot be seen at home."""

    def back(self, result: RunResult) -> RunResult:
        return relocated(result, self.to_home())

    def to_home(self) -> dict[str, str]:
        """Paths of this machine, and the same at home."""
        return {there: here for here, there in self.moved.items()}


@contextmanager
def unpacked(plan: Plan, shipment: Shipment, node: str, marker: str) -> Iterator[Unpacked]:
    """Relocate a plan to this machine. If this cannot see our results directory, the run gets a temporary one.

    The guard of `marker` removes that if we are killed.
    """
    found = _found_here(shipment)
    moved: dict[str, str] = {}
    own_session: AbstractContextManager[Path | None] = nullcontext()
    if shipment.fingerprints and node not in shipment.present_on and found.differences:
        moved = {path: os.getcwd() + path for path in (*shipment.folders, *shipment.named)}
    if shipment.session_dir and found.shares_results:
        moved[shipment.session_dir] = shipment.session_dir  # which may stand in a folder that is another here
    elif shipment.session_dir:
        own_session = private_folder(marker)
        plan = dataclasses.replace(plan, artifacts_dir=None)
    if shipment.home_python and not os.path.exists(shipment.home_python):
        moved[shipment.home_python] = sys.executable
    with own_session as folder:
        if folder:
            moved[shipment.session_dir] = str(folder)
        yield Unpacked(relocated(plan, moved) if moved else plan, moved, bool(folder))


@functools.cache
def _found_here(shipment: Shipment) -> Comparison:
    return Comparison(*compare_here(shipment, ""))


def relocated(value: _T, moved: Mapping[str, str]) -> _T:
    """Replace these paths, and the beginnings of longer ones, everywhere in a value; the longest match counts."""
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


def ask_nodes(ray: Any, shipment: Shipment, nodes: Mapping[str, str], unasked: str) -> tuple[Shipment, Sending]:
    """Ask every node (id to name) what it has, and decide what is to be sent. In the driver.

    Before a fleet is refused the nodes are asked again: a file that changes may be seen later there than here.
    """
    for look_number in range(1, _LOOKS + 1):
        found = _ask(ray, shipment, nodes)
        try:
            sending = what_to_send(shipment, {nodes[node]: found[node] for node in nodes}, unasked)
            break
        except TooMuchToSend:
            if look_number == _LOOKS:
                raise
            time.sleep(_LOOKS_AGAIN_AFTER_S)
    present_on = frozenset(node for node in nodes if not real_differences(shipment, found[node]))
    return shipment.as_sent(sending.files, present_on), sending


def _ask(ray: Any, shipment: Shipment, nodes: Iterable[str]) -> dict[str, Comparison]:
    ours: Any = importlib.import_module(__name__)
    ray.cloudpickle.register_pickle_by_value(ours)
    try:
        asking = ray.remote(num_cpus=0, max_retries=0)(compare_here)
        packed, version = ray.put(shipment), code_digest()
        options = ({"label_selector": {"ray.io/node-id": node}} for node in nodes)
        answers = [asking.options(**own).remote(packed, version) for own in options]
        return {node: Comparison(*ray.get(answer, timeout=60)) for node, answer in zip(nodes, answers, strict=True)}
    finally:
        ray.cloudpickle.unregister_pickle_by_value(ours)
