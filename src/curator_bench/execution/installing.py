"""What to install where a run needs what its interpreter cannot import."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from importlib import metadata

_OURS = "curator-bench"
_REQUIREMENT = re.compile(r"(?P<package>[\w.-]+)[^;]*(;.*\bextra\s*==\s*['\"](?P<extra>[\w.-]+)['\"])?")
_TOO_MUCH_FOR_ONE = ("all", "dev")


def install_command(python: str, modules: Iterable[str]) -> str:
    """The command that installs them: by an extra of ours where one has them, else by the modules' own names."""
    extra_of = _extras()
    wanted = dict.fromkeys(_wanted(module, extra_of) for module in modules)
    return shlex.join([python, "-m", "pip", "install", *wanted])


def _wanted(module: str, extra_of: dict[str, str]) -> str:
    package = _normal(module.partition(".")[0])
    return f"{_OURS}[{extra_of[package]}]" if package in extra_of else package


def _extras() -> dict[str, str]:
    """Packages with the extra of ours that has them. There are none to know of where only our code was sent."""
    try:
        requirements = metadata.requires(_OURS) or []
    except metadata.PackageNotFoundError:
        return {}
    found = [match for requirement in requirements if (match := _REQUIREMENT.match(requirement))]
    needed_anyway = {_normal(match["package"]) for match in found if not match["extra"]}
    extras = {_normal(match["package"]): match["extra"] for match in found if match["extra"] not in _TOO_MUCH_FOR_ONE}
    return {package: extra for package, extra in extras.items() if package not in needed_anyway}


def _normal(name: str) -> str:
    """Packages are called by either letter; modules by one of them."""
    return name.replace("_", "-").lower()
