"""Recognizes scripts that run on Xenna, an executor of NeMo Curator, and gives their clusters what it needs.

Xenna's monitor asks Ray's state API, which needs the dashboard, for all actors at once. An entry that says itself
whether it wants the dashboard is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from curator_bench.values import Plan

LIMITS = {"RAY_MAX_LIMIT_FROM_API_SERVER": "40000", "RAY_MAX_LIMIT_FROM_DATA_SOURCE": "40000"}
_OPTION = "--executor"
_NAME = "xenna"
_BY_DEFAULT = re.compile(rf"""["']{_OPTION}["'][^)]*\bdefault\s*=\s*["']{_NAME}["']""")
_MADE = re.compile(r"\bXennaExecutor\(")
_LONGEST_SCRIPT = 1 << 20


def with_xennas_needs(plan: Plan) -> Plan:
    """Return the plan with the dashboard and the limits of its API, if the script runs on Xenna."""
    ray = plan.ray
    if ray is None or ray.address or ray.include_dashboard is not None or not runs_on_xenna(plan.script, plan.args):
        return plan
    return replace(plan, ray=replace(ray, include_dashboard=True), env={**LIMITS, **plan.env})


def runs_on_xenna(script: str, words: Sequence[str]) -> bool:
    """True if the arguments name Xenna; without an executor in them, if the script's own default is Xenna."""
    said = None
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        if word == _OPTION:
            said = following
        elif word.startswith(f"{_OPTION}="):
            said = word.partition("=")[2]
    return _is_default_of(script) if said is None else said == _NAME


def _is_default_of(script: str) -> bool:
    try:
        with Path(script).open(encoding="utf-8", errors="replace") as file:
            text = file.read(_LONGEST_SCRIPT)
    except OSError:
        return False
    return bool(_BY_DEFAULT.search(text) or _MADE.search(text))
