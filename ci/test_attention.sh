#!/usr/bin/env bash
# test_attention.sh BIN: runs the attention suite with the programs of an environment that has its extra, into a folder
# that is gone afterwards, and prints what the study is for: tables of models and attention. An entry that is skipped is
# as bad as one that fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=$1 workers=${TEST_WORKERS:-2}

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

"$bin/python" -m pytest benchmarks/attention -q -n "$workers" --bench-results "$results" --bench-session study
if grep --quiet --extended-regexp '"verdict": "skipped"' "$results/study/summary.json"; then
    echo "make test-attention: entries were skipped, so nothing is known of them" >&2
    exit 1
fi
for metric in retrieval_rate perplexity_shift decode_tokens_per_s; do
    "$bin/curator-bench" pivot "$results/study" --rows model,context --columns attention --metric "$metric"
done
