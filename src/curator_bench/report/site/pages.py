"""Renders pages to HTML. Templates escape every value."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from curator_bench.report.site import words
from curator_bench.report.site.folder import SiteFolder
from curator_bench.report.site.links import commit_address, web_address
from curator_bench.report.site.model import FINE

_TEMPLATES = Path(__file__).with_name("templates")
_FILTERS = (
    *("value", "change", "seconds", "moment", "first_line", "trend", "share", "sight", "off", "around", "blindness"),
)
_OFTEN_THE_SAME = ("verdict", "sha", "session_link")
"""Macros that hundreds of pages call with the same few arguments."""
_MOST_KEPT = 4096


def environment(commit_url: str | None, facts: Mapping[str, Any], *folders: Path) -> Environment:
    """Return the environment of the templates here and in other folders. `facts` are available on every page."""
    made = Environment(
        loader=FileSystemLoader([_TEMPLATES, *folders]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals.update(facts, fine=FINE)
    made.filters.update({name: getattr(words, name) for name in _FILTERS})
    made.filters.update(sha=words.commit, web=web_address, commit_address=lambda sha: commit_address(commit_url, sha))
    parts = made.get_template("parts.html").module
    made.globals.update({name: lru_cache(_MOST_KEPT)(getattr(parts, name)) for name in _OFTEN_THE_SAME})
    return made


class Pages:
    """Writes pages into a dashboard."""

    def __init__(self, site: SiteFolder, commit_url: str | None, facts: Mapping[str, Any]) -> None:
        self._site = site
        self._environment = environment(commit_url, facts)

    def write(self, name: str, template: str, **shown: Any) -> None:
        """Render a template into the file `name` of the dashboard."""
        top = "../" * name.count("/")
        text = self._environment.get_template(f"{template}.html").render(top=top, page=name, **shown)
        self._site.write(name, text)
