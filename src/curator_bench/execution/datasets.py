"""Datasets of a run: present already, or generated once on first use, even if several processes need them at once."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from curator_bench.errors import DatasetError
from curator_bench.execution.child import run_child
from curator_bench.files import safe_files
from curator_bench.files.folder_handles import NotUsable
from curator_bench.files.json_files import log_tail, read_object, write_json
from curator_bench.files.locking import locked
from curator_bench.files.names import safe_name
from curator_bench.files.planted import refuse_planted_on_the_way
from curator_bench.masking import Mask
from curator_bench.values import DatasetNeed

_PIECE = 1 << 20
_MAKING, _MADE = "making", "made"


def ensure(need: DatasetNeed, *, env: Mapping[str, str], session_dir: Path, mask: Mask | None = None) -> None:
    """Provide the dataset at its path. Raises DatasetError if that is impossible."""
    if need.command:
        _Generated(need, mask or Mask()).ensure(env, session_dir)
    elif "://" not in need.path and not os.path.exists(need.path):
        raise DatasetError(f"dataset {need.name},{need.format} not found: {need.path} (create it, or add `generate`)")


class _Generated:
    """A dataset that a script generates in a folder.

    Our manifest is beside the folder, whose contents are the script's.
    """

    def __init__(self, need: DatasetNeed, mask: Mask) -> None:
        self._need = need
        self._mask = mask
        self._name = f"the dataset {need.name},{need.format}"
        self._folder = Path(need.folder)
        self._manifest = self._folder.with_name(f".{self._folder.name}.curator-bench.json")
        self._definition = self._read_definition()

    def ensure(self, env: Mapping[str, str], session_dir: Path) -> None:
        if self._is_there():
            return
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        self._refuse_others()  # also before waiting for a lock that another user could hold
        with _locked(self._manifest.with_suffix(".lock")) as lock:
            if not self._is_there():  # another process may have made it meanwhile
                self._make(env, session_dir, lock)

    def _read_definition(self) -> str:
        """Hash of the script and its arguments. A different one means a different dataset."""
        _, script, *words = self._need.command
        digest = hashlib.sha256()
        try:
            digest.update(safe_files.read_bytes(Path(os.path.realpath(script))))
        except OSError as error:
            why = error.strerror or error
            raise DatasetError(f"the script that generates {self._name} cannot be read: {script}: {why}") from None
        for word in words:
            digest.update(b"\0" + word.replace(self._need.folder, "{dataset_dir}").encode())
        return digest.hexdigest()[:32]

    def _is_there(self) -> bool:
        """True if the dataset is complete.

        The files are checked before the manifest, which is written before the first file.
        """
        exists = os.path.exists(self._need.path)
        manifest = self._read_manifest()
        if manifest is None:
            return exists  # the user's own files, not generated
        is_made = manifest.get("state") == _MADE and manifest.get("definition") == self._definition
        if is_made and not exists and self._ours():
            raise DatasetError(
                f"{self._name} was generated, but there is nothing at {self._need.path}. To generate it again, remove "
                + " ".join(map(str, self._ours()))
            )
        return is_made and exists

    def _read_manifest(self) -> dict[str, Any] | None:
        return read_object(self._manifest) or None

    def _not_ours(self) -> list[str]:
        """Names in the folder that existed before generation. They stay when the dataset is generated again."""
        manifest = self._read_manifest()
        if manifest is None:
            return sorted(path.name for path in self._folder.glob("*"))
        return [str(name) for name in manifest.get("not_ours", [])]

    def _ours(self) -> list[Path]:
        not_ours = self._not_ours()
        return sorted(path for path in self._folder.glob("*") if path.name not in not_ours)

    def _refuse_others(self) -> None:
        """Raise DatasetError if the folder or the manifest is another user's: it would decide what is removed here."""
        try:
            for path in (self._folder, self._manifest):
                refuse_planted_on_the_way(path)
        except NotUsable as error:
            raise DatasetError(f"{self._name} cannot be generated: {error.filename} {error.strerror}") from None

    def _make(self, env: Mapping[str, str], session_dir: Path, lock: int) -> None:
        self._refuse_others()
        note: dict[str, Any] = {
            "state": _MAKING,
            "definition": self._definition,
            "dataset": self._need.name,
            "command": [self._mask.hide(word) for word in self._need.command],
            "not_ours": self._not_ours(),
        }
        write_json(self._manifest, note)
        began = time.monotonic()
        with self._nothing_left_of_a_failure():
            self._clear()
            self._folder.mkdir(parents=True, exist_ok=True)
            self._run_script(env, session_dir, lock)
        note |= {"state": _MADE, "seconds": round(time.monotonic() - began, 3)}
        write_json(self._manifest, {**note, "made_at": datetime.now(UTC).isoformat(timespec="seconds"), **self._sum()})
        if not os.path.exists(self._need.path):
            raise DatasetError(f"{self._name} was generated, but its script left nothing at {self._need.path}")

    def _clear(self) -> None:
        for path in self._ours():
            safe_files.remove(path)

    @contextmanager
    def _nothing_left_of_a_failure(self) -> Iterator[None]:
        """Remove everything if generation fails, so that files the user puts there later count as the user's own."""
        try:
            yield
        except BaseException:
            with suppress(OSError):
                self._clear()
                safe_files.remove(self._manifest)
                self._folder.rmdir()
            raise

    def _run_script(self, env: Mapping[str, str], session_dir: Path, lock: int) -> None:
        """Run the generating script.

        It inherits the lock, so if we are killed no other process starts before it has ended.
        """
        name = safe_name(f"dataset_{self._need.name}_{self._need.format}")
        log = session_dir / "data_setup" / name / "stdouterr.log"
        session_dir.mkdir(parents=True, exist_ok=True)
        safe_files.make_folder(log.parent, below=session_dir)
        ended = run_child(
            self._need.command,
            env=env,
            log=log,
            below=session_dir,
            cwd=str(self._folder.parent),
            timeout_s=self._need.timeout_s,
            keep_open=[lock],
        )
        if ended.exit_code != 0:
            how = "its time was over" if ended.exit_code is None else f"exit code {ended.exit_code}"
            lines = "\n".join(f"  {line}" for line in log_tail(log, self._mask, below=session_dir))
            raise DatasetError(f"{self._name} could not be generated ({how}). The end of {log}:\n{lines}")

    def _sum(self) -> dict[str, Any]:
        """Number of files, total size, and a checksum over names and contents."""
        digest, files, size = hashlib.sha256(), 0, 0
        for path in sorted(path for path in self._folder.rglob("*") if path.is_file()):
            digest.update(str(path.relative_to(self._folder)).encode() + b"\0")
            with safe_files.open_file(Path(os.path.realpath(path))) as file:
                while piece := file.read(_PIECE):
                    digest.update(piece)
                    size += len(piece)
            files += 1
        return {"files": files, "bytes": size, "sha256": digest.hexdigest()}


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Hold a lock and yield its descriptor. The kernel releases the lock when its last holder dies."""
    with locked(path) as file:
        yield file.fileno()
