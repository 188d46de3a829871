#!/usr/bin/env bash
# test_attention.sh BIN: runs the attention suite with the programs of an environment that has its extra, into a folder
# that is gone afterwards: in a fleet of this machine, killed half-way and gone on with, as a study of days might be. Prints
# what the study is for: tables of models and attention. An entry that is skipped is as bad as one that fails.
# SUITES=short runs half of it: each benchmark with each model, attention and context, but not with all their combinations.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=$1 workers=${TEST_WORKERS:-2} killed_after=6 selected=()
if [[ "${SUITES:-}" == short ]]; then
    selected=(-k "needle and (tiny and 64 or small and 256) and (dense or local) \
        or needle and (tiny and 256 or small and 64) and (streaming or oracle) \
        or perplexity and (tiny and (dense or local) or small and (streaming or oracle)) \
        or latency and (small and (dense or local) or tiny and (streaming or oracle))")
fi

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
study=("$bin/python" -m pytest benchmarks/attention -q --bench-fleet local --bench-fleet-cpus "$workers"
    --benchmark --benchmark-db "$results/runs.db" --bench-results "$results" --bench-session study "${selected[@]}")

passed() {
    "$bin/python" - "$results/runs.db" <<'PROGRAM'
import contextlib, os, sqlite3, sys

if os.path.exists(sys.argv[1]):
    with contextlib.closing(sqlite3.connect(sys.argv[1])) as database, contextlib.suppress(sqlite3.OperationalError):
        print(*(name for (name,) in database.execute("SELECT name FROM test_run WHERE verdict = 'passed'")), sep="\n")
PROGRAM
}

"${study[@]}" &
until (($(passed | wc -l) >= killed_after)) || ! kill -0 $! 2>/dev/null; do sleep 0.5; done
if kill -KILL $! 2>/dev/null; then
    wait $! || echo "make test-attention: killed with $(passed | wc -l) entries done; the rest follows"
fi
"${study[@]}" --bench-resume

if twice=$(passed | sort | uniq --repeated | grep .); then
    echo "make test-attention: these were done, and run again: $twice" >&2
    exit 1
fi
if grep --quiet --extended-regexp '"verdict": "skipped"' "$results/study/summary.json"; then
    echo "make test-attention: entries were skipped, so nothing is known of them" >&2
    exit 1
fi
for metric in retrieval_rate perplexity_shift decode_tokens_per_s; do
    "$bin/curator-bench" pivot "$results/study" --rows model,context --columns attention --metric "$metric"
done
