"""The program around a simulation: it measures cases in which one thing is slower and cases in which nothing is."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any


def run(parser: argparse.ArgumentParser, case: Any, numbers: Sequence[str], measure: Callable[..., Any]) -> None:
    """Add the common options to the parser, and one for each of these numbers of a case; measure, and write results.

    The case is a dataclass with a field `slower`; its numbers are the defaults. Results are printed if there is no
    folder for them.
    """
    parser.add_argument("--benchmark-results-path", type=Path)
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--first-seed", type=int, default=0)
    for name in numbers:
        parser.add_argument(f"--{name}", type=float, default=getattr(case, name.replace("-", "_")))
    options = vars(parser.parse_args())
    folder, seeds, first = (options.pop(name) for name in ("benchmark_results_path", "seeds", "first_seed"))
    asked = replace(case, **options)
    found = measure(asked, seeds, first=first)
    alike = measure(replace(asked, slower=0.0), seeds, first=first + seeds)
    metrics = {**found, "named_where_nothing_differs": alike["any_named"], "is_success": True}
    if folder is None:
        json.dump({**options, **metrics}, sys.stdout, indent=1)
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params.json").write_text(json.dumps({**options, "seeds": seeds}))
    (folder / "metrics.json").write_text(json.dumps(metrics))
