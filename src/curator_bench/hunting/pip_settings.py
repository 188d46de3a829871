"""What pip was told, in uv's words. uv reads nothing of pip's configuration, so whoever calls uv hands it on.

`ci/install.py` imports this module on a machine that has only Python: it needs the standard library alone.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

SECTIONS = ("global", "install", ":env:")
"""Of pip's configuration; the later ones override the earlier."""
VARIABLES = {
    "cert": "SSL_CERT_FILE",
    "constraint": "UV_CONSTRAINT",
    "default_timeout": "UV_HTTP_TIMEOUT",
    "extra_index_url": "UV_INDEX",
    "find_links": "UV_FIND_LINKS",
    "index_url": "UV_DEFAULT_INDEX",
    "keyring_provider": "UV_KEYRING_PROVIDER",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "trusted_host": "UV_INSECURE_HOST",
}
INDEX_OPTIONS = tuple(f"--{key.replace('_', '-')}" for key in VARIABLES if key.endswith("index_url"))
"""Options that name an index, which pip and uv call the same."""
FLAGS = {"no_index": "--no-index", "pre": "--prerelease=allow"}
YES = ("1", "true", "yes", "on")


def find_uv(python: str) -> str | None:
    """Find uv: $UV, the one in the PATH, or one beside the interpreter, where its wheel puts it."""
    named = os.environ.get("UV") or shutil.which("uv")
    beside = Path(python).with_name("uv")
    return named or (str(beside) if beside.exists() else None)


def pip_settings(python: str) -> dict[str, str]:
    """Ask pip for its configuration, from all of its files and variables. Dashes in its keys become underscores."""
    command = [python, "-m", "pip", "config", "list"]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        found.setdefault(section, {})[key.replace("-", "_")] = str(ast.literal_eval(value))
    return {key: value for section in SECTIONS for key, value in found.get(section, {}).items()}


def uv_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Say in uv's words what pip was told. As pip does, take the best version of all indexes."""
    said = {VARIABLES[key]: " ".join(value.split()) for key, value in settings.items() if key in VARIABLES}
    if "UV_FIND_LINKS" in said:
        said["UV_FIND_LINKS"] = said["UV_FIND_LINKS"].replace(" ", ",")
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", **said}


def uv_flags(settings: Mapping[str, str]) -> list[str]:
    """Do the same for what uv has no variables for."""
    return [flag for key, flag in FLAGS.items() if settings.get(key, "").lower() in YES]
