"""Jobs as a CI system takes them: the matrix of a job of GitHub, a child pipeline of GitLab."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from curator_bench.errors import BenchError
from curator_bench.sharing.jobs import Job

_MOST_OF_GITHUB = 256
_MOST_OF_GITLAB = 200
_CHILD = """\
# Written by `curator-bench jobs --gitlab`. What the jobs do is in .gitlab/bench.yml.
include:
  - local: .gitlab/bench.yml

bench-job:
  extends: .bench-job
  timeout: {minutes} minutes
  parallel:
    matrix:
{jobs}

bench-jobs-report:
  extends: .bench-jobs-report
  variables:
    BENCH_SESSION: {session}

pages:
  extends: .bench-jobs-pages
"""
_NOTHING_TO_DO = """\
# Written by `curator-bench jobs --gitlab`.
bench-nothing-to-do:
  variables:
    GIT_STRATEGY: none
  script:
    - echo "Every benchmark has a result"
"""


def github_matrix(jobs: Sequence[Job]) -> str:
    """Return the jobs as JSON for `strategy.matrix`."""
    _refuse_too_many(jobs, _MOST_OF_GITHUB, "GitHub")
    found = [
        {"job": job.number, "file": job.file, "benchmarks": len(job.units), "timeout_minutes": _minutes(job)}
        for job in jobs
    ]
    return json.dumps({"include": found}, ensure_ascii=False)


def gitlab_pipeline(jobs: Sequence[Job], session: str) -> str:
    """Return the jobs as the YAML of a child pipeline. There, all jobs of a matrix have one timeout.

    GitLab refuses a pipeline or a matrix without jobs: if there are none, one job says so.
    """
    if not jobs:
        return _NOTHING_TO_DO
    _refuse_too_many(jobs, _MOST_OF_GITLAB, "GitLab")
    lines = [f'      - {{BENCH_JOB: "{job.number}", BENCH_ARGUMENTS: {_quoted(job.file)}}}' for job in jobs]
    minutes = max(map(_minutes, jobs), default=1)
    return _CHILD.format(minutes=minutes, jobs="\n".join(lines), session=_quoted(session))


def _quoted(text: str) -> str:
    """Return the text for YAML, which reads JSON. GitLab fills in variables, for which `$$` is a dollar."""
    return json.dumps(text.replace("$", "$$"), ensure_ascii=False)


def _minutes(job: Job) -> int:
    return max(1, math.ceil(job.timeout_s / 60))


def _refuse_too_many(jobs: Sequence[Job], most: int, where: str) -> None:
    if len(jobs) > most:
        raise BenchError(
            f"{len(jobs)} jobs are more than {where} starts of one matrix: at most {most} (--count, --limit)"
        )
