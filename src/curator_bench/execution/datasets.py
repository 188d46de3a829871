"""Datasets a run needs: there already, or made on first use, once, whoever else wants them at the same moment."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from curator_bench.errors import DatasetError
from curator_bench.execution.child import run_child
from curator_bench.execution.files import tail, write_json
from curator_bench.values import DatasetNeed

_PIECE = 1 << 20
_LOG_LINES = 30
_MAKING, _MADE = "making", "made"


def ensure(need: DatasetNeed, *, env: Mapping[str, str], log_dir: Path) -> None:
    """The dataset is at its path when this returns; DatasetError says why it cannot be."""
    if not need.command:
        if "://" not in need.path and not os.path.exists(need.path):
            raise DatasetError(f"the dataset {_name(need)} is not there: {need.path}")
        return
    folder = Path(need.folder)
    definition = _definition(need)
    if _is_made(folder, definition) and os.path.exists(need.path):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(_beside(folder, "lock")):
        if _is_made(folder, definition) and os.path.exists(need.path):
            return  # somebody else made it while we waited
        manifest = _manifest(folder)
        if manifest is None and os.path.exists(need.path):
            return  # the user's own: put there by hand, not by us
        _make(need, folder, definition, manifest, env, log_dir)


def _name(need: DatasetNeed) -> str:
    return f"{need.name},{need.format}"


def _beside(folder: Path, kind: str) -> Path:
    """Our notes stand beside the folder, not in it: what is in it is the script's alone."""
    return folder.with_name(f".{folder.name}.curator-bench.{kind}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """The kernel gives the lock up when its holder dies."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _manifest(folder: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(_beside(folder, "json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _is_made(folder: Path, definition: str) -> bool:
    manifest = _manifest(folder) or {}
    return manifest.get("state") == _MADE and manifest.get("definition") == definition


def _definition(need: DatasetNeed) -> str:
    """What made a dataset: another script or other arguments make another one."""
    _, script, *words = need.command
    digest = hashlib.sha256()
    try:
        digest.update(Path(script).read_bytes())
    except OSError as error:
        raise DatasetError(f"the script that makes the dataset {_name(need)} cannot be read: {error}") from None
    for word in words:
        digest.update(b"\0" + word.replace(need.folder, "{dataset_dir}").encode())
    return digest.hexdigest()[:32]


def _make(
    need: DatasetNeed,
    folder: Path,
    definition: str,
    manifest: dict[str, Any] | None,
    env: Mapping[str, str],
    log_dir: Path,
) -> None:
    if manifest is not None:
        shutil.rmtree(folder, ignore_errors=True)  # ours: half made, or made by another definition
    note = {"state": _MAKING, "definition": definition, "dataset": need.name, "command": list(need.command)}
    write_json(_beside(folder, "json"), note)
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    _run_script(need, env, log_dir)
    if not os.path.exists(need.path):
        raise DatasetError(f"the dataset {_name(need)} was made, but there is nothing at {need.path}")
    seconds = round(time.monotonic() - began, 3)
    stamp = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(_beside(folder, "json"), {**note, "state": _MADE, "made_at": stamp, "seconds": seconds, **_sum(folder)})


def _run_script(need: DatasetNeed, env: Mapping[str, str], log_dir: Path) -> None:
    log_dir.mkdir(parents=True, exist_ok=True)
    log = log_dir / "stdouterr.log"
    cwd = str(Path(need.folder).parent)
    ended = run_child(need.command, env=env, log=log, cwd=cwd, timeout_s=need.timeout_s)
    if ended.exit_code != 0:
        how = "its time was over" if ended.exit_code is None else f"exit code {ended.exit_code}"
        lines = "\n".join(f"  {line}" for line in tail(log, _LOG_LINES))
        raise DatasetError(f"the dataset {_name(need)} could not be made ({how}). The end of {log}:\n{lines}")


def _sum(folder: Path) -> dict[str, Any]:
    """Number of files, their size, and a checksum over names and contents."""
    digest, files, size = hashlib.sha256(), 0, 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(folder)).encode() + b"\0")
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
                size += len(piece)
        files += 1
    return {"files": files, "bytes": size, "sha256": digest.hexdigest()}
