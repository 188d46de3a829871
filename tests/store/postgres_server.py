"""A PostgreSQL server for the tests, from the system's binaries: its own data, a socket instead of a port, an
unprivileged user. It ends with the tests, also when those are killed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import IO
from urllib.parse import quote

import psutil
import pytest

from curator_bench.measure.processes import busyness

TO_INSTALL = "PostgreSQL's server programs (initdb, postgres) are not here: apt-get install postgresql"
_PATIENCE_S = 60.0


def find_binaries() -> Path | None:
    """Where initdb and postgres are: Debian keeps them out of the PATH."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    on_path = shutil.which("initdb")
    for folder in (*versions, *([Path(on_path).resolve().parent] if on_path else [])):
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


def start_server() -> PostgresServer:
    """Skips the test where there is none to start; a CI machine must have one."""
    binaries = find_binaries()
    if binaries is None:
        if os.environ.get("CI") == "true":
            pytest.fail(TO_INSTALL)
        pytest.skip(TO_INSTALL)
    return PostgresServer(binaries)


class PostgresServer:
    """One server with as many empty databases as are asked for."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self._user = _unprivileged() if os.geteuid() == 0 else None
        # Not below pytest's own folder: that is for its user only, and the path of a socket must be short.
        self.directory = Path(tempfile.mkdtemp(prefix="cb-pg-", dir="/tmp"))
        self._log = self.directory / "log"
        if self._user is not None:
            os.chown(self.directory, self._user.pw_uid, self._user.pw_gid)
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self._run("initdb", "--auth=trust", "--username=bench", "--encoding=UTF8", "--no-sync", "--no-instructions")
            self.start()
        except BaseException:
            self.close()
            raise

    def url(self, **parameters: str) -> str:
        query = "".join(f"&{name}={quote(value)}" for name, value in parameters.items())
        return f"postgresql://bench@/postgres?host={self.directory}{query}"

    def new_database(self) -> str:
        """The URL of an empty one: a schema, which is made in no time."""
        name = f"t{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE SCHEMA {name}")
        return self.url(options=f"-csearch_path={name}")

    def execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement.encode())

    def start(self) -> None:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.directory),
            "fsync": "off",  # the server itself is not what is tested
            "max_connections": "60",
            "shared_buffers": "32MB",
            "dynamic_shared_memory_type": "mmap",
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            self.process = self._popen([*_dying_with_us(), str(self._binaries / "postgres"), *words], log)
        self._wait_until_ready()

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends all connections first, SIGQUIT leaves everything as it is, SIGKILL is a crash."""
        if self.process is not None:
            its_own = psutil.Process(self.process.pid).children(recursive=True)
            self.process.send_signal(number)
            self.process.wait(_PATIENCE_S)
            self.process = None
            psutil.wait_procs(its_own, timeout=_PATIENCE_S)  # they serve on until they notice

    def pause(self) -> None:
        """All of its processes stand still, as on a machine that hangs."""
        self._signal_all(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal_all(signal.SIGCONT)

    def close(self) -> None:
        try:
            if self.process is not None:
                self.go_on()
            self.stop(signal.SIGQUIT)
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _signal_all(self, number: signal.Signals) -> None:
        assert self.process is not None
        server = psutil.Process(self.process.pid)
        for process in (server, *server.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def _wait_until_ready(self) -> None:
        import psycopg

        deadline = time.monotonic() + _PATIENCE_S * busyness()
        while True:
            with suppress(psycopg.OperationalError):
                psycopg.connect(self.url(), connect_timeout=5).close()
                return
            if time.monotonic() > deadline or self.process is None or self.process.poll() is not None:
                raise RuntimeError(f"PostgreSQL does not start:\n{self._log.read_text(errors='replace')}")
            time.sleep(0.05)

    def _run(self, program: str, *words: str) -> None:
        with self._log.open("wb") as log:
            code = self._popen([str(self._binaries / program), *words], log).wait(_PATIENCE_S)
        if code != 0:
            raise RuntimeError(f"{program} failed:\n{self._log.read_text(errors='replace')}")

    def _popen(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        environment = {"PATH": os.defpath, "LC_ALL": "C", "PGDATA": str(self.directory / "data")}
        owner = self._user
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=self.directory,
            env=environment,
            user=owner.pw_uid if owner else None,
            group=owner.pw_gid if owner else None,
            extra_groups=[] if owner else None,
        )


def _unprivileged() -> pwd.struct_passwd:
    """PostgreSQL refuses to run as root."""
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("there is no user postgres and no user nobody to run PostgreSQL as")


def _dying_with_us() -> list[str]:
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    return [setpriv, "--pdeathsig", "INT", "--"] if setpriv else []
