"""How often a rule cries wolf on clean series, and how often it finds a step within so many runs.

One series is one gating decision: what a nightly job decides of its newest run. A step of N runs is found when the
decision on one of these N runs is an alarm.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from detectors import DETECTORS, Detector, improvements
from generated_series import FAMILIES, Floats, Kind, generate

CLEAN = Kind()
LARGE_STEP = Kind(0.10, 2, 0.02)
SMALL_STEP = Kind(0.05, 6, 0.02)
GOALS_FOR_LARGE = ("normal", "lognormal")
_AT_ONCE = 500


def share(detector: Detector, kind: Kind, family: str, count: int, seed: int) -> float:
    """The share of these series that are an alarm, at their end or at one of the runs since the step."""
    alarms = 0
    for batch in range(0, count, _AT_ONCE):
        series = list(generate(kind, family, min(_AT_ONCE, count - batch), seed + batch))
        alarms += int(np.sum(_found(detector, series, max(kind.runs, 1))))
    return alarms / count


def _found(detector: Detector, series: Sequence[Floats], runs: int) -> Floats:
    """An alarm at the newest run decides it; only where there is none the runs before are asked."""
    found = detector(series).astype(np.float64)
    for left_out in range(1, runs):
        open_ones = np.flatnonzero(found == 0)
        if len(open_ones):
            found[open_ones] = detector([series[int(index)][:-left_out] for index in open_ones])
    return found


def measure(detector: Detector, count: int, seed: int, *, mirrored: Detector | None = None) -> dict[str, float]:
    """Every figure by family, and over all of them. `count` clean series per family, a fifth of it with each step."""
    began = time.process_time()
    clean = {family: share(detector, CLEAN, family, count, seed) for family in FAMILIES}
    took = (time.process_time() - began) / (count * len(FAMILIES))
    large = {family: share(detector, LARGE_STEP, family, max(count // 5, 1), seed) for family in FAMILIES}
    small = {family: share(detector, SMALL_STEP, family, max(count // 5, 1), seed) for family in FAMILIES}
    mean: Callable[[dict[str, float]], float] = lambda shares: float(np.mean(list(shares.values())))  # noqa: E731
    figures = {
        "false_alarms_per_1000": 1000 * mean(clean),
        "found_10_percent_in_2_runs": mean(large),
        "found_5_percent_in_6_runs": mean(small),
        "found_10_percent_in_2_runs_normal_lognormal": float(np.mean([large[family] for family in GOALS_FOR_LARGE])),
        "ms_per_decision": 1000 * took,
    }
    for name, shares in (("false_alarms_per_1000", clean), ("found_10_percent", large), ("found_5_percent", small)):
        times = 1000 if shares is clean else 1
        figures |= {f"{name}_{family}": times * value for family, value in shares.items()}
    if mirrored is not None:
        wrong = {family: share(mirrored, CLEAN, family, count, seed) for family in FAMILIES}
        figures["false_improvements_per_1000"] = 1000 * mean(wrong)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--detector", choices=sorted(DETECTORS), required=True)
    parser.add_argument("--series", type=int, required=True, help="clean ones of each family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    options = parser.parse_args()
    is_ours = options.detector == "curator-bench"
    figures = measure(
        DETECTORS[options.detector], options.series, options.seed, mirrored=improvements if is_ours else None
    )
    folder: Path = options.benchmark_results_path
    folder.mkdir(parents=True, exist_ok=True)
    params = {"detector": options.detector, "series": options.series, "seed": options.seed}
    (folder / "params.json").write_text(json.dumps(params))
    (folder / "metrics.json").write_text(json.dumps({"is_success": True, **figures}))
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
