"""Who runs an entry: whoever has created `claim.json` in its folder. So two invocations never run one at the same time.

A claim is void when its process is gone, or, of another machine, when its file has not been touched for five minutes.
Ages are told by the clock of the file system, not by those of the machines.
"""

from __future__ import annotations

import fcntl
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
from curator_bench.measure.processes import identify
from curator_bench.provenance.environment import boot_id

CLAIM = "claim.json"
_INVOCATIONS = ".invocations"
_LOCK = ".lock"
_EVERY_S = 30.0
_SILENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Claimant:
    """A process that runs entries."""

    invocation: str
    host: str
    boot_id: str
    pid: int
    process_start: float
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


@dataclass(frozen=True, slots=True)
class Silence:
    """Of a process on another machine that has a claim, and of which nothing has been heard since we first looked."""

    by: Claimant
    left_s: float
    """Until its claim is void."""


class Taken(Exception):
    """Somebody else runs this entry."""

    def __init__(self, by: Claimant) -> None:
        super().__init__(f"it is being run by {by}")


def create_exclusively(path: Path, text: str) -> None:
    """FileExistsError where it is there already. Nobody sees it empty, unless its file system has no links."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    beside.write_text(text, encoding="utf-8")
    try:
        os.link(beside, path)
    except FileExistsError:
        raise
    except OSError:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    finally:
        beside.unlink(missing_ok=True)


class Claims:
    """The claims of this process, and their heartbeat."""

    def __init__(
        self, session_dir: Path, invocation: str, create: Callable[[Path, str], None] = create_exclusively
    ) -> None:
        self._session_dir, self._create = session_dir, create
        process = identify(os.getpid())
        assert process is not None
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._own = Claimant(invocation, socket.gethostname(), boot_id(), process.pid, process.started, now)
        self._text = json.dumps(asdict(self._own))
        self._touched: set[Path] = set()
        self._first_seen: dict[Path, tuple[Claimant, int]] = {}
        """Claims of other machines, as they were when they were first looked at."""
        self._ended = threading.Event()
        self._heart: threading.Thread | None = None

    def take(self, directory: Path) -> None:
        """Raises Taken where it is somebody else's."""
        if self._heart is None:
            self._begin()
        directory.mkdir(parents=True, exist_ok=True)
        claim = directory / CLAIM
        if claim in self._touched and _read(claim) == self._own:
            return
        for _ in range(3):  # others may be at it too
            try:
                self._create(claim, self._text)
            except FileExistsError:
                self._put_aside(claim)
            else:
                self._touched.add(claim)
                return
        raise Taken(_read(claim) or self._own)

    def silence(self, directory: Path) -> Silence | None:
        """None where there is no claim, where it is ours or this machine's, and where it was renewed since."""
        claim = directory / CLAIM
        found = _read(claim)
        if found is None or found.host == self._own.host:
            return None
        try:
            seen = found, claim.stat().st_mtime_ns
        except FileNotFoundError:
            return None
        if self._first_seen.setdefault(claim, seen) != seen:
            return None
        return Silence(found, max(0.0, _SILENCE_S - _age_s(claim)))

    def release(self, directory: Path) -> None:
        """To be called when what came of the run is written."""
        claim = directory / CLAIM
        self._touched.discard(claim)
        if _read(claim) == self._own:
            with suppress(OSError):
                claim.unlink()

    def close(self) -> None:
        self._ended.set()
        for file in list(self._touched):
            if _read(file) == self._own:
                with suppress(OSError):
                    file.unlink()

    def _put_aside(self, claim: Path) -> None:
        """A claim of our own, or a void one. Of several that do so none takes away what another has just made."""
        with _alone(self._session_dir / _INVOCATIONS / _LOCK):
            self._put_aside_alone(claim)

    def _put_aside_alone(self, claim: Path) -> None:
        found = _read(claim)
        if found is not None and found != self._own and self._lives(found, claim):
            raise Taken(found)
        aside = claim.with_name(f".{CLAIM}.{secrets.token_hex(4)}")
        with suppress(FileNotFoundError):
            os.rename(claim, aside)
            if _read(aside) != found:  # only where files cannot be locked
                with suppress(FileExistsError):
                    os.link(aside, claim)
            aside.unlink(missing_ok=True)

    def _lives(self, claimant: Claimant, file: Path) -> bool:
        if claimant.host == self._own.host:
            process = identify(claimant.pid) if claimant.boot_id == self._own.boot_id else None
            return process is not None and process.started == claimant.process_start
        return _age_s(file) < _SILENCE_S

    def _begin(self) -> None:
        folder = self._session_dir / _INVOCATIONS
        folder.mkdir(parents=True, exist_ok=True)
        own = folder / f"{self._own.invocation}-{self._own.pid}.json"
        if not self._creates_exclusively(folder):
            self._refuse_a_second(folder)
        own.write_text(self._text)
        self._touched.add(own)
        self._heart = threading.Thread(target=self._beat, name="curator-bench claims", daemon=True)
        self._heart.start()

    def _creates_exclusively(self, folder: Path) -> bool:
        probe = folder / f".probe-{secrets.token_hex(4)}"
        try:
            self._create(probe, "")
            self._create(probe, "")
        except FileExistsError:
            return True
        finally:
            probe.unlink(missing_ok=True)
        return False

    def _refuse_a_second(self, folder: Path) -> None:
        """Where files cannot be created exclusively, two invocations could not be kept from running the same."""
        for file in folder.glob("*.json"):
            other = _read(file)
            if other is not None and other.invocation != self._own.invocation and self._lives(other, file):
                raise BenchError(
                    f"{self._session_dir} is in use by {other}, and its file system cannot create files exclusively,"
                    " so they cannot share the session; use another --bench-session or --bench-results"
                )

    def _beat(self) -> None:
        while not self._ended.wait(_EVERY_S):
            for file in list(self._touched):
                with suppress(OSError):
                    os.utime(file)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """One process at a time, where the file system has locks."""
    with ExitStack() as held:
        with suppress(OSError):
            fcntl.flock(held.enter_context(lock.open("a")), fcntl.LOCK_EX)
        yield


def _read(file: Path) -> Claimant | None:
    """None where there is none, or one that was cut off in the middle."""
    try:
        return Claimant(**json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _age_s(file: Path) -> float:
    """By the clock of the file system."""
    probe = file.with_name(f".age-{secrets.token_hex(4)}")
    try:
        probe.touch()
        return probe.stat().st_mtime - file.stat().st_mtime
    except OSError:
        return 0.0
    finally:
        with suppress(OSError):
            probe.unlink()
