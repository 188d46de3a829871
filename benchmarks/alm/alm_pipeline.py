"""The ALM benchmark: a script as curator-bench runs them, and as a person runs them by hand.

It leaves params.json, metrics.json and tasks.pkl in --benchmark-results-path; `--help` lists what it takes.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from time import perf_counter

from alm_options import Options, params_of, parse_options
from alm_results import Metrics, Outcome, Task, failed_metrics, metrics_of, planted_metrics, write_results
from alm_work import Settings


def run_engine(options: Options) -> Outcome:
    """Only the engine that was asked for is imported: one needs NeMo Curator, some do not even need Ray."""
    settings = Settings(options.windows, options.overlap_percentage, options.output_path)
    url, repeat_factor = options.input_manifest, options.repeat_factor
    if options.engine == "plain_loop":
        import alm_plain_loop

        return alm_plain_loop.run(url, repeat_factor, settings, options.processes)
    if options.engine == "nemo_curator":
        import alm_nemo_curator

        return alm_nemo_curator.run(url, repeat_factor, settings, options.executor)
    if options.executor == "processes":
        import alm_processes

        return alm_processes.run(url, repeat_factor, settings, options.processes)
    import alm_builtin

    return alm_builtin.run(url, repeat_factor, settings, options.executor)


def measure(options: Options) -> tuple[Metrics, list[Task]]:
    """Whatever goes wrong is printed, and recorded as a run without success."""
    began = perf_counter()
    try:
        outcome = run_engine(options)
        metrics = metrics_of(outcome)
        if options.planted is not None:
            metrics |= planted_metrics(outcome.rows, options.planted)
    except Exception:  # a benchmark that fails leaves its files, too
        traceback.print_exc()
        return failed_metrics(perf_counter() - began), []
    return metrics, outcome.tasks


def main(words: Sequence[str]) -> int:
    options = parse_options(words)
    metrics, tasks = measure(options)
    write_results(options.benchmark_results_path, params_of(options), metrics, tasks)
    print(json.dumps(metrics, indent=2))
    return 0 if metrics["is_success"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
