"""Results and checks for output, with secrets masked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from curator_bench.masking import Mask, masked
from curator_bench.values import Check, RunResult


def masked_result(result: RunResult, mask: Mask) -> RunResult:
    return replace(
        result,
        error=mask.hide(result.error),
        command=tuple(map(mask.hide, result.command)),
        log_tail=tuple(mask.hide_lines(result.log_tail)),
        params=masked(dict(result.params), mask),
        metrics=masked(dict(result.metrics), mask),
        warnings=tuple(map(mask.hide, result.warnings)),
    )


def masked_checks(checks: Iterable[Check], mask: Mask) -> tuple[Check, ...]:
    return tuple(_masked_check(check, mask) for check in checks)


def _masked_check(check: Check, mask: Mask) -> Check:
    limit, actual = masked([check.limit, check.actual], mask)
    return replace(check, limit=limit, actual=actual, note=mask.hide(check.note))
