#!/usr/bin/env bash
# One night: gets the record, runs the benchmarks against it, adds what they measured, publishes the dashboard.
#
#   ci/nightly.sh [PYTEST ARGUMENTS]        benchmarks, where none are given
#
# It is set by the environment:
#
#   RECORD    where the record is that all jobs share: a path, s3://…, any URL of fsspec (record.db)
#   SITE      where the dashboard goes: a folder or a URL; empty: none (site)
#   CONFIRM   how often a benchmark is measured again before it fails for a regression (2)
#   WORK      a folder for results and the database of this night (a new one in results/)
#
# Everything is recorded and published also on a night on which something got worse. The exit code is pytest's: 1 where
# a requirement was not met or a metric is worse than before.
set -euo pipefail
if [[ "${1:-}" == --help ]]; then
    sed -n '2,14p' "${BASH_SOURCE[0]}" | cut -c3-
    exit
fi
# shellcheck source=ci/programs.sh
source "$(dirname "${BASH_SOURCE[0]}")/programs.sh"
bin=$(bench_bin)
record=${RECORD:-record.db} site=${SITE-site} confirm=${CONFIRM:-2}
work=${WORK:-results/nightly-$(date -u +%Y%m%dT%H%M%SZ)}
(($#)) || set -- benchmarks

mkdir -p "$work"
"$clone/ci/combine_databases.sh" --fetch "$record" "$work/benchmark.db"
ended=0
"$bin/python" -m pytest "$@" --benchmark --benchmark-db="$work/benchmark.db" --bench-results="$work" \
    --bench-fail-on regression --bench-confirm "$confirm" --bench-reason "${REASON:-nightly}" || ended=$?
# 4 and 5 are nights that ran nothing: a mistake in the arguments or in a matrix, no benchmark selected.
nothing_ran='^[45]$'
if [[ -e "$work/benchmark.db" && ! "$ended" =~ $nothing_ran ]]; then
    "$clone/ci/combine_databases.sh" "$record" "$work/benchmark.db"
    if [[ -n "$site" ]]; then
        "$clone/ci/publish_dashboard.sh" "$record" "$site"
    fi
fi
exit "$ended"
