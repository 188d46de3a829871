"""Asks the server of warm.py for a run. As a program: `warm_client.py SOCKET PROGRAM [ARGUMENT…]`, in a folder and an
environment of its own, with its own standard streams."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence

GIVEN_UP = b"!"


def ask(
    address: str, words: Sequence[str], cwd: str, env: Mapping[str, str], fds: Sequence[int], within_s: float | None
) -> int:
    """The exit code; negative after a signal. Whoever does not wait for it any more ends it.

    What takes too long is made to print its stacks (see hung_processes.py). TimeoutError then names its processes.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        request = json.dumps([list(words), cwd, dict(env)]).encode()
        socket.send_fds(connection, [len(request).to_bytes(8, "big")], list(fds))
        connection.sendall(request)
        connection.settimeout(within_s)
        try:
            return int(connection.recv(32) or b"1")
        except TimeoutError:
            connection.settimeout(None)
            connection.sendall(GIVEN_UP)
            raise TimeoutError(connection.makefile().read()) from None


if __name__ == "__main__":
    code = ask(sys.argv[1], sys.argv[2:], os.getcwd(), os.environ, (0, 1, 2), None)
    sys.exit(code if code >= 0 else 128 - code)
