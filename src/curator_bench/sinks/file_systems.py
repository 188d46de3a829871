"""File systems of fsspec, chosen by URL. Missing libraries are found without importing fsspec's file systems."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_EXTRAS = {"fsspec": "s3", "s3fs": "s3"}
"""Modules that come with an extra of curator-bench."""


def scheme_of(url: str) -> str:
    """Return the scheme of a URL, or `file` for a path."""
    return url.rpartition("::")[2].partition("://")[0] if "://" in url else "file"


def lacking(url: str) -> str:
    """Return what is missing to use a URL, as text for the user; empty if nothing is."""
    if find_spec("fsspec") is None:
        return _install("fsspec", url)
    from fsspec.registry import get_filesystem_class, known_implementations

    if scheme_of(url) not in known_implementations:
        return f"a folder, or a URL that fsspec knows; it does not know {scheme_of(url)}://"
    module = str(known_implementations[scheme_of(url)]["class"]).partition(".")[0]
    if find_spec(module) is None:
        return _install(module, url)
    try:
        if module == "fsspec":
            get_filesystem_class(scheme_of(url))
    except ImportError as error:
        return f"what fsspec lacks for {scheme_of(url)}://: {error}"
    return ""


def _install(module: str, url: str) -> str:
    what = f"'curator-bench[{_EXTRAS[module]}]'" if module in _EXTRAS else module
    return f"{module} for {scheme_of(url)}://: pip install {what}"


def opened(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the file system of a URL, and the path within it."""
    import fsspec

    file_system, path = fsspec.url_to_fs(url, skip_instance_cache=True, **options)
    return file_system, path


def local_folder(url: str, base: Path) -> Path | None:
    """Return the local folder of a URL or path, or None for a remote one. Relative paths are relative to `base`."""
    if scheme_of(url) not in ("file", "local") or "::" in url:
        return None
    return base / os.path.expanduser(url.partition("://")[2] if "://" in url else url)
