"""The session of this invocation: its folders, its addresses and its facts, which are looked up once."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from curator_bench.collection.benchmarks import BENCHMARKS, Benchmarks
from curator_bench.collection.items import entry_of
from curator_bench.matrix import viewer
from curator_bench.matrix.axes import safe_folders
from curator_bench.options.rootdir import rootdir
from curator_bench.provenance.environment import Provenance
from curator_bench.values import Hunt, Session, Subject

_PROVENANCE = pytest.StashKey[Provenance]()
_SESSION = pytest.StashKey[Session]()


@dataclass(frozen=True, slots=True)
class BenchSession:
    """The session of this invocation."""

    name: str
    directory: Path


def bench_session(config: pytest.Config) -> BenchSession:
    directory = config.stash[BENCHMARKS].session_dir
    return BenchSession(directory.name, directory)


def item_dir(item: pytest.Item) -> Path:
    """Return the folder of an item: that of its entry, or one named after its node id."""
    session = bench_session(item.config).directory
    entry = entry_of(item)
    if entry is not None and entry.folder:
        return session.joinpath(*entry.folder)
    return session / safe_folders([item.nodeid])[item.nodeid]


def provenance_of(config: pytest.Config) -> Provenance:
    """Return the provenance of the runs of this process."""
    if _PROVENANCE not in config.stash:
        config.stash[_PROVENANCE] = Provenance(rootdir(config), machine=config.stash[BENCHMARKS].settings.machine)
    return config.stash[_PROVENANCE]


def session_of(config: pytest.Config) -> Session:
    """Return the session without its environment, which takes longer to find."""
    if _SESSION not in config.stash:
        config.stash[_SESSION] = _session(config, config.stash[BENCHMARKS])
    return config.stash[_SESSION]


def _session(config: pytest.Config, benchmarks: Benchmarks) -> Session:
    provenance, mask = provenance_of(config), benchmarks.mask
    checkout = provenance.checkout
    states = map(provenance.subject, subjects_of(benchmarks))
    reasons = [benchmarks.settings.reason, *(file.run_reason for file in benchmarks.matrix.files)]
    return Session(
        name=benchmarks.session_dir.name,
        directory=str(benchmarks.session_dir),
        invocation=benchmarks.settings.invocation,
        started_at=datetime.now(UTC).isoformat(),
        reason=next((mask.hide(reason) for reason in reasons if reason), ""),
        commit=(checkout.commit if checkout else None) or "",
        branch=(checkout.branch if checkout else None) or "",
        dirty=checkout.dirty if checkout else None,
        place=provenance.commit_place,
        subjects=tuple(Subject(state.package, state.version, state.commit, state.dirty) for state in states),
        viewer_url=viewer_url(benchmarks),
        ci_run_url=ci_run_url() or "",
        host=socket.gethostname(),
        hunt=hunt_of(config),
    )


def hunt_of(config: pytest.Config) -> str:
    """Return what the runs of this invocation are recorded for, as in `Hunt`; empty if they are history.

    While a git bisect is under way, in the checkout of the session or of a package under test, they are not.
    """
    benchmarks, provenance = config.stash[BENCHMARKS], provenance_of(config)
    if benchmarks.settings.hunt:
        return benchmarks.settings.hunt
    checkouts = (provenance.checkout, *map(provenance.subject, subjects_of(benchmarks)))
    return Hunt.GIT_BISECT.value if any(one.is_bisecting for one in checkouts if one is not None) else ""


def subjects_of(benchmarks: Benchmarks) -> list[str]:
    """Return the names of all packages under test."""
    return list(dict.fromkeys(subject.package for file in benchmarks.matrix.files for subject in file.subjects))


def ci_run_url() -> str | None:
    """Return the page of the current CI job, if the CI system provides it."""
    env = os.environ
    if "GITHUB_RUN_ID" in env:
        return (
            f"{env.get('GITHUB_SERVER_URL', '')}/{env.get('GITHUB_REPOSITORY', '')}/actions/runs/{env['GITHUB_RUN_ID']}"
        )
    return next((env[name] for name in ("CI_JOB_URL", "BUILD_URL", "CI_RUN_URL") if env.get(name)), None)


def viewer_url(benchmarks: Benchmarks) -> str:
    """Return --bench-viewer-url or the matrix's, with placeholders filled in; empty if there is none."""
    files = benchmarks.matrix.files
    said = [benchmarks.settings.viewer_url]
    said += [url for file in files for url in (file.viewer_url, file.viewer_url_template)]
    template = next((url for url in said if url), "")
    session = host_path(str(benchmarks.session_dir), _mounts(benchmarks))
    values = {
        "results_path": str(Path(session).parent),
        "session_name": benchmarks.settings.session,
        "session_path": session,
    }
    return benchmarks.mask.hide(viewer.filled(template, values))


def shown_path(path: str, benchmarks: Benchmarks) -> str:
    """Return a path as its readers know it: outside of a container."""
    return host_path(path, _mounts(benchmarks)) if path else path


def host_path(path: str, mounts: Iterable[tuple[str, str]]) -> str:
    """Translate a path in the container to the host. `mounts` are pairs of host and container path."""
    for host, container in sorted(mounts, key=lambda mount: len(mount[1]), reverse=True):
        if path == container or path.startswith(container.rstrip("/") + "/"):
            return host.rstrip("/") + path[len(container.rstrip("/")) :]
    return path


def _mounts(benchmarks: Benchmarks) -> list[tuple[str, str]]:
    files = benchmarks.matrix.files
    return [(host, here) for file in files for host, here in file.mounts if here in file.paths.values()]
