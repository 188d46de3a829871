"""The program between bisecting and a command it runs (see children.py): ends the command when its parent is gone.

Arguments: the read end of a pipe whose write end only the parent holds, then the command. Both are in one process
group, so signals reach both. It imports no packages, to start at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

_GRACE_S = 15.0
_NOT_STARTED = 127


def main() -> None:
    descriptor, words = int(sys.argv[1]), sys.argv[2:]
    os.set_inheritable(descriptor, False)
    signal.signal(signal.SIGINT, lambda *_: None)  # the command gets the signal too, and its exit code is passed on
    try:
        child = subprocess.Popen(words)
    except OSError as error:
        sys.exit(_not_started(words[0], error))
    threading.Thread(target=_end_with_the_hunt, args=(descriptor,), daemon=True).start()
    code = child.wait()
    sys.exit(code if code >= 0 else 128 - code)


def _not_started(program: str, error: OSError) -> int:
    sys.stderr.write(f"{program} cannot be started: {error.strerror or error}\n")
    return _NOT_STARTED


def _end_with_the_hunt(descriptor: int) -> None:
    """Wait until the parent is gone. Then interrupt the group, so that pytest records its runs, and kill it later."""
    os.read(descriptor, 1)  # nothing is ever written, so this returns when the other end is closed
    os.killpg(0, signal.SIGINT)
    time.sleep(_GRACE_S)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
