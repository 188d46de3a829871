"""What sinks are told of where results can be looked at: the viewer's URL, and paths inside a container."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from end_to_end.conftest import Project

from curator_bench.runner.session import host_path

KEEPS_PLACES = """
    import json
    from pathlib import Path
    from curator_bench.sinks import Sink

    class Places(Sink):
        def start_session(self, session):
            self.url = session.viewer_url

        def run_finished(self, result):
            there = [Path(result.log_path).is_file(), Path(result.directory, "results.json").is_file()]
            told = {"url": self.url, "there": there, "shown": result.shown_log_path}
            Path("places.json").write_text(json.dumps(told))
"""
SINK = {"name": "./places.py:Places"}


def places(project: Project, *options: str, **variables: str) -> dict[str, Any]:
    project.write("places.py", KEEPS_PLACES)
    outcome = project.run("--benchmark", *options, **variables)
    assert outcome.code == 0, outcome.output
    found: dict[str, Any] = json.loads((project.folder / "places.json").read_text())
    return found


def test_the_placeholders_of_a_viewer_are_filled_in_and_escaped_where_that_is_asked_for(project: Project) -> None:
    template = (
        "http://viewer/{session_name}?r={results_path}&s={session_path}&R={results_path_url}&n={session_name_url}"
    )
    project.matrix(project.entry("a"), sinks=[SINK], viewer_url_template=f"{template}&S={{session_path_url}}")
    results, session = str(project.folder / "results"), str(project.folder / "results" / "night@1")
    told = places(project, "--bench-session", "night@1")
    escaped = f"&R={quote(results, safe='')}&n=night%401&S={quote(session, safe='')}"
    assert told["url"] == f"http://viewer/night@1?r={results}&s={session}{escaped}"


def test_an_unknown_placeholder_is_a_mistake_wherever_it_is_written(project: Project) -> None:
    project.matrix(project.entry("a"), viewer_url_template="http://viewer/{sesion_name}")
    outcome = project.run()
    assert outcome.code == 4
    assert outcome.has("viewer_url_template: has an unknown placeholder {sesion_name}; expected {results_path}")
    project.matrix(project.entry("a"))
    outcome = project.run("--bench-viewer-url", "http://viewer/{session}")
    assert outcome.code == 4
    assert outcome.has("--bench-viewer-url: unknown placeholder {session}; expected {results_path}")


def test_the_command_line_names_another_viewer(project: Project) -> None:
    project.matrix(project.entry("a"), sinks=[SINK], viewer_url="http://matrix/")
    assert places(project)["url"] == "http://matrix/"
    assert places(project, "--bench-viewer-url", "http://mine/{session_name}")["url"] == "http://mine/s"


@pytest.mark.parametrize("variables", [{}, {"CURATOR_BENCH_IN_CONTAINER": "1"}], ids=["outside", "in a container"])
def test_in_a_container_people_see_the_paths_of_the_host_and_sinks_find_the_files(
    project: Project, variables: dict[str, str]
) -> None:
    inside, outside = str(project.folder / "results"), "/nightly/my results"
    project.matrix(
        project.entry("a"),
        sinks=[SINK],
        viewer_url_template="http://viewer/{session_path_url}",
        paths=[{"name": "results_path", "host_path": outside, "container_path": inside}],
    )
    told = places(project, **variables)
    shown = outside if variables else inside
    assert told["url"] == f"http://viewer/{quote(f'{shown}/s', safe='')}"
    assert told["shown"] == f"{shown}/s/a/logs/stdouterr.log"
    assert told["there"] == [True, True]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/in/results/s", "/out/s"),
        ("/in/results", "/out"),
        ("/in/other", "/host/other"),
        ("/in/results_2/s", "/host/results_2/s"),
        ("/elsewhere/s", "/elsewhere/s"),
    ],
)
def test_of_several_mounts_the_longest_that_holds_the_path_counts(path: str, expected: str) -> None:
    assert host_path(path, [("/host/", "/in/"), ("/out", "/in/results")]) == expected


def test_the_root_may_be_a_mount() -> None:
    assert host_path("/a/b", [("/host", "/")]) == "/host/a/b"
    assert Path(host_path("/a", [("/", "/in")])) == Path("/a")
