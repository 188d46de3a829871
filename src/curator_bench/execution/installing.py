"""The command that installs modules a run needs and its interpreter lacks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from importlib import metadata

_OURS = "curator-bench"
_REQUIREMENT = re.compile(r"(?P<package>[\w.-]+)[^;]*(;.*\bextra\s*==\s*['\"](?P<extra>[\w.-]+)['\"])?")
_TOO_MUCH_FOR_ONE = ("all", "dev")
_NAMED_OTHERWISE = {
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "git": "gitpython",
    "magic": "python-magic",
    "pil": "pillow",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Packages whose module has another name, by module. A package named like the module may be a stranger's."""


def install_command(python: str, modules: Iterable[str]) -> str:
    """Command that installs the modules: through one of our extras if it contains them, otherwise by name."""
    extra_of = _extras()
    wanted = dict.fromkeys(_wanted(module, extra_of) for module in modules)
    return shlex.join([python, "-m", "pip", "install", *wanted])


def _wanted(module: str, extra_of: dict[str, str]) -> str:
    name = _normal(module.partition(".")[0])
    package = _NAMED_OTHERWISE.get(name, name)
    return f"{_OURS}[{extra_of[package]}]" if package in extra_of else package


def _extras() -> dict[str, str]:
    """Our extras by package. Empty if only our code was shipped, without its metadata."""
    try:
        requirements = metadata.requires(_OURS) or []
    except metadata.PackageNotFoundError:
        return {}
    found = [match for requirement in requirements if (match := _REQUIREMENT.match(requirement))]
    needed_anyway = {_normal(match["package"]) for match in found if not match["extra"]}
    extras = {_normal(match["package"]): match["extra"] for match in found if match["extra"] not in _TOO_MUCH_FOR_ONE}
    return {package: extra for package, extra in extras.items() if package not in needed_anyway}


def _normal(name: str) -> str:
    """Normalize a package's name, which may be written with `-` or `_`."""
    return name.replace("_", "-").lower()
