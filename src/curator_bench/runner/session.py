"""The session as this invocation found it: its reason, commit and subjects, looked up once for all who tell of it."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime

import pytest

from curator_bench.collection import BENCHMARKS, Benchmarks
from curator_bench.provenance.environment import Provenance
from curator_bench.rootdir import rootdir
from curator_bench.runner.viewing import viewer_url
from curator_bench.values import Session, Subject

_PROVENANCE = pytest.StashKey[Provenance]()
_SESSION = pytest.StashKey[Session]()


def provenance_of(config: pytest.Config) -> Provenance:
    """What the runs of this process are measured with."""
    if _PROVENANCE not in config.stash:
        config.stash[_PROVENANCE] = Provenance(rootdir(config))
    return config.stash[_PROVENANCE]


def session_of(config: pytest.Config) -> Session:
    """The session this invocation joins, without its environment, which takes longer to look up."""
    if _SESSION not in config.stash:
        config.stash[_SESSION] = _session(config, config.stash[BENCHMARKS])
    return config.stash[_SESSION]


def _session(config: pytest.Config, benchmarks: Benchmarks) -> Session:
    provenance, mask = provenance_of(config), benchmarks.matrix.mask
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
        subjects=tuple(Subject(state.package, state.version, state.commit, state.dirty) for state in states),
        viewer_url=viewer_url(benchmarks),
        ci_run_url=ci_run_url() or "",
        host=socket.gethostname(),
    )


def subjects_of(benchmarks: Benchmarks) -> list[str]:
    """The names of all packages under test."""
    return list(dict.fromkeys(subject.package for file in benchmarks.matrix.files for subject in file.subjects))


def ci_run_url() -> str | None:
    """The page of the CI job we run in, where its system tells."""
    env = os.environ
    if "GITHUB_RUN_ID" in env:
        return (
            f"{env.get('GITHUB_SERVER_URL', '')}/{env.get('GITHUB_REPOSITORY', '')}/actions/runs/{env['GITHUB_RUN_ID']}"
        )
    return next((env[name] for name in ("CI_JOB_URL", "BUILD_URL", "CI_RUN_URL") if env.get(name)), None)
