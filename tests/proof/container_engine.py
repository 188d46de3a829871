"""A container engine for machines without cgroups, to be named in DOCKER: podman builds, buildah runs in a chroot.

ENGINE_STORAGE names the folder that holds all of it, ENGINE_USER the user that containers run as in place of root.
It cannot limit what a container uses; the options that ask for it are named on standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

WITHOUT_CGROUPS = ("memory", "memory-swap", "shm-size", "gpus")
STORAGE = Path(os.environ["ENGINE_STORAGE"])
PLACES = ("--root", str(STORAGE / "root"), "--runroot", str(STORAGE / "run"))


def main() -> int:
    if sys.argv[1:2] != ["run"]:
        return subprocess.run(["podman", *PLACES, *sys.argv[1:]], check=False).returncode
    options = parsed(sys.argv[2:])
    for name in WITHOUT_CGROUPS:
        if value := getattr(options, name.replace("-", "_")):
            print(f"engine: --{name}={value} cannot be had without cgroups", file=sys.stderr)
    container = said("buildah", *PLACES, "from", "--pull=never", options.image)
    try:
        command = ["buildah", *PLACES, "run", "--isolation=chroot", *to_buildah(options), container, "--"]
        return subprocess.run([*command, *entry_point(options), *options.words], check=False).returncode
    finally:
        said("buildah", *PLACES, "rm", container)


def parsed(words: list[str]) -> argparse.Namespace:
    """The options that ci/run.sh gives to `docker run`."""
    parser = argparse.ArgumentParser()
    for name in ("rm", "init", "interactive", "tty"):
        parser.add_argument(f"--{name}", action="store_true")
    for name in ("user", "workdir", "hostname", "entrypoint", *WITHOUT_CGROUPS):
        parser.add_argument(f"--{name}")
    for name in ("volume", "env"):
        parser.add_argument(f"--{name}", action="append", default=[])
    parser.add_argument("image")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    return parser.parse_args(words)


def to_buildah(options: argparse.Namespace) -> list[str]:
    user = os.environ.get("ENGINE_USER") if options.user == "0:0" else options.user
    given = [f"--user={user}", f"--workingdir={options.workdir}", f"--hostname={options.hostname}"]
    given += [f"--volume={volume}" for volume in options.volume]
    for text in options.env:
        name, equals, value = text.partition("=")
        given.append(f"--env={name}={value if equals else os.environ[name]}")
    return given


def entry_point(options: argparse.Namespace) -> list[str]:
    if options.entrypoint:
        return [options.entrypoint]
    found: list[str] = json.loads(
        said("podman", *PLACES, "image", "inspect", "--format", "{{json .Config.Entrypoint}}", options.image)
    )
    return found


def said(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
