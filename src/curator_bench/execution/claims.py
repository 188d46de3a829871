"""Claims on entries: whoever creates `claim.json` in an entry's folder runs it. So no two invocations run one at the
same time.

A claim is void if its process is gone, or, on another machine, if its file was not touched for five minutes. Ages are
measured by the clock of the file system, not by the machines' clocks.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from curator_bench.errors import BenchError
from curator_bench.execution.directories import make_own_folder
from curator_bench.files import safe_files
from curator_bench.files.codec import from_document, parsed
from curator_bench.files.locking import locked
from curator_bench.measure.processes import identify
from curator_bench.provenance.claimants import INVOCATIONS, SILENCE_S, Claimant
from curator_bench.provenance.environment import boot_id

CLAIM = "claim.json"
_LOCK = ".lock"
_EVERY_S = 30.0
_LARGEST_CLAIM = 1 << 16


@dataclass(frozen=True, slots=True)
class Silence:
    """A claim of another machine that was not renewed since we first saw it."""

    by: Claimant
    left_s: float
    """Seconds until the claim is void."""


class Taken(Exception):
    """Another process runs this entry."""

    def __init__(self, by: Claimant) -> None:
        super().__init__(f"it is being run by {by}")
        self.by = by


def _create(path: Path, text: str, below: Path) -> None:
    safe_files.create_exclusively(path, text, below=below)


class Claims:
    """The claims of this process, and their heartbeat."""

    def __init__(
        self,
        session_dir: Path,
        invocation: str,
        create: Callable[[Path, str, Path], None] = _create,
    ) -> None:
        self._session_dir, self._create = session_dir, create
        process = identify(os.getpid())
        assert process is not None
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._own = Claimant(invocation, socket.gethostname(), boot_id(), process.pid, process.started, now)
        self._text = json.dumps(asdict(self._own))
        self._touched: set[Path] = set()
        self._first_seen: dict[Path, tuple[Claimant, float]] = {}
        """Claims of other machines, as first seen."""
        self._ended = threading.Event()
        self._heart: threading.Thread | None = None

    def take(self, directory: Path) -> None:
        """Claim the entry of this folder. Raises Taken if another process holds the claim."""
        if self._heart is None:
            self._begin()
        make_own_folder(directory, self._session_dir)
        claim = directory / CLAIM
        if claim in self._touched and self._read(claim) == self._own:
            return
        for _ in range(3):  # others may claim it at the same time
            try:
                self._create(claim, self._text, self._session_dir)
            except FileExistsError:
                self._put_aside(claim)
            else:
                self._touched.add(claim)
                return
        raise Taken(self._read(claim) or self._own)

    def silence(self, directory: Path) -> Silence | None:
        """Read how long a silent claim still holds.

        None without a claim, if it belongs to this machine, or if it was renewed meanwhile.
        """
        claim = directory / CLAIM
        found = self._read(claim)
        if found is None or found.host == self._own.host:
            return None
        try:
            seen = found, safe_files.time_of(claim, below=self._session_dir)
        except OSError:
            return None
        if self._first_seen.setdefault(claim, seen) != seen:
            return None
        return Silence(found, max(0.0, SILENCE_S - self._age_s(claim)))

    def release(self, directory: Path) -> None:
        """Release the claim. Call it after the run's results are written."""
        claim = directory / CLAIM
        self._touched.discard(claim)
        self._remove_own(claim)

    def close(self) -> None:
        self._ended.set()
        for file in list(self._touched):
            self._remove_own(file)

    def _remove_own(self, file: Path) -> None:
        if self._read(file) == self._own:
            with suppress(OSError):
                safe_files.remove(file, below=self._session_dir)

    def _put_aside(self, claim: Path) -> None:
        """Remove a claim of our own or a void one, without removing another process's new claim."""
        with _alone(self._session_dir):
            self._put_aside_alone(claim)

    def _put_aside_alone(self, claim: Path) -> None:
        found = self._read(claim)
        if found is not None and found != self._own and self._lives(found, claim):
            raise Taken(found)
        aside = claim.with_name(f".{CLAIM}.{secrets.token_hex(4)}")
        with suppress(FileNotFoundError):
            safe_files.rename(claim, aside.name, below=self._session_dir)
            other = self._read(aside)
            if other != found and other is not None:  # possible only without file locks
                with suppress(FileExistsError):
                    self._create(claim, json.dumps(asdict(other)), self._session_dir)
            safe_files.remove(aside, below=self._session_dir)

    def _lives(self, claimant: Claimant, file: Path) -> bool:
        if claimant.host == self._own.host:
            return claimant.is_running
        return self._age_s(file) < SILENCE_S

    def _begin(self) -> None:
        folder = self._session_dir / INVOCATIONS
        self._session_dir.mkdir(parents=True, exist_ok=True)
        make_own_folder(folder, self._session_dir)
        own = folder / f"{self._own.invocation}-{self._own.pid}.json"
        if not self._creates_exclusively(folder):
            self._refuse_a_second(folder)
        safe_files.write_text(own, self._text, below=self._session_dir)
        self._touched.add(own)
        self._heart = threading.Thread(target=self._beat, name="curator-bench claims", daemon=True)
        self._heart.start()

    def _creates_exclusively(self, folder: Path) -> bool:
        probe = folder / f".probe-{secrets.token_hex(4)}"
        try:
            self._create(probe, "", self._session_dir)
            self._create(probe, "", self._session_dir)
        except FileExistsError:
            return True
        finally:
            safe_files.remove(probe, below=self._session_dir)
        return False

    def _refuse_a_second(self, folder: Path) -> None:
        """Refuse a second invocation if the file system cannot create files exclusively, because claims do not work
        there."""
        for file in (folder / name for name in safe_files.names_in(folder, below=self._session_dir)):
            other = self._read(file) if file.suffix == ".json" else None
            if other is not None and other.invocation != self._own.invocation and self._lives(other, file):
                raise BenchError(
                    f"{self._session_dir} is in use by {other}, and its file system cannot create files exclusively,"
                    " so they cannot share the session; use another --bench-session or --bench-results"
                )

    def _beat(self) -> None:
        while not self._ended.wait(_EVERY_S):
            for file in list(self._touched):
                with suppress(OSError):
                    safe_files.touch(file, below=self._session_dir)

    def _read(self, file: Path) -> Claimant | None:
        """Read a claim; None if it is missing, incomplete or not a claim."""
        try:
            found = safe_files.read_text(file, below=self._session_dir, most_bytes=_LARGEST_CLAIM)
            return from_document(Claimant, parsed(found))
        except (OSError, ValueError):
            return None

    def _age_s(self, file: Path) -> float:
        """Age of a file in seconds, by the clock of the file system."""
        probe, below = file.with_name(f".age-{secrets.token_hex(4)}"), self._session_dir
        try:
            safe_files.create_file(probe, below=below).close()
            return safe_files.time_of(probe, below=below) - safe_files.time_of(file, below=below)
        except OSError:
            return 0.0
        finally:
            with suppress(OSError):
                safe_files.remove(probe, below=below)


@contextmanager
def _alone(session_dir: Path) -> Iterator[None]:
    """Hold the session's lock, if the file system supports locks."""
    with ExitStack() as held:
        with suppress(OSError):
            held.enter_context(locked(session_dir / INVOCATIONS / _LOCK, below=session_dir))
        yield
