"""Builds the manual as a site, in build/site: README is its first page, and README's table of pages its order.

Links that lead nowhere stop it. `make site` calls it; `python -m http.server -d build/site` shows the outcome.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""The pages that do not stand in docs/, and what they are called in the site."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s:#]+)(#[^)\s]*)?\)")
ROW = re.compile(r"^\| \[([^\]]+)\]\((docs/[\w-]+\.md|[A-Z]+\.md)\)", re.MULTILINE)
SETTINGS = """[project]
site_name = "curator-bench"
site_description = "A pytest plugin in which benchmarks are test cases"
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false
nav = [{nav}]

[project.theme]
font = false
language = "en"
features = ["navigation.instant", "navigation.top", "content.code.copy", "search.highlight"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
"""


def in_site(page: str, folder: Path) -> str:
    """The page with its links as the site has them. A link to a file that is no page becomes its text."""

    def moved(link: re.Match[str]) -> str:
        is_image, text, target, anchor = link.groups(default="")
        file = (folder / target).resolve()
        if file.parent == ROOT and file.name in PAGES:
            return f"[{text}]({PAGES[file.name]}{anchor})"
        if file.is_relative_to(DOCS) and file.suffix in (".md", ".svg", ".png"):
            return f"{is_image}[{text}]({file.relative_to(DOCS)}{anchor})"
        if not file.exists():
            sys.exit(f"the site was not built: {link[0]} leads nowhere")
        return text

    return LINK.sub(moved, page)


def pages() -> Iterator[tuple[str, str]]:
    """Name and text of every page of the site."""
    for source, name in PAGES.items():
        yield name, in_site((ROOT / source).read_text("utf-8"), ROOT)
    for file in sorted(DOCS.glob("*.md")):
        yield file.name, in_site(file.read_text("utf-8"), DOCS)


def order() -> Iterator[tuple[str, str]]:
    """Title and name of every page, as README lists them."""
    yield "curator-bench", "index.md"
    for title, target in ROW.findall((ROOT / "README.md").read_text("utf-8")):
        yield title, PAGES.get(target, target.removeprefix("docs/"))


def lay_out(folder: Path) -> None:
    shutil.rmtree(folder / "pages", ignore_errors=True)
    (folder / "pages").mkdir(parents=True)
    for name, text in pages():
        (folder / "pages" / name).write_text(text, "utf-8")
    shutil.copytree(DOCS / "images", folder / "pages" / "images")
    nav = ", ".join(f'{{"{title}" = "{name}"}}' for title, name in order())
    (folder / "zensical.toml").write_text(SETTINGS.format(nav=nav), "utf-8")


def main() -> None:
    build = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build"
    lay_out(build)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    if subprocess.run(command, cwd=build, check=False).returncode:
        sys.exit("the site was not built: see the warnings above")
    sys.stdout.write(f"the manual is in {build / 'site'}/index.html\n")


if __name__ == "__main__":
    main()
