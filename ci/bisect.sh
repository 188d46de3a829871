#!/usr/bin/env bash
# Hunts for a slow commit in a clone of its own, so that the job's checkout is left alone.
#
#   ci/bisect.sh REPOSITORY GOOD BAD ENTRY METRIC [OPTIONS OF curator-bench bisect…] [-- PYTEST ARGUMENTS]
#
# REPOSITORY is a path or a URL of git. The clone and what was measured are in $WORK (results/bisect): started again with
# the same arguments, the hunt goes on. Where GITHUB_STEP_SUMMARY is set, its answer is also written there.
# The exit code is that of curator-bench bisect: 0 with a culprit, 3 where bad is not worse than good, 4 in doubt.
set -euo pipefail
# shellcheck source=ci/programs.sh
source "$(dirname "${BASH_SOURCE[0]}")/programs.sh"
bin=$(bench_bin)

if (($# < 5)); then
    sed -n '2,8p' "${BASH_SOURCE[0]}" | cut -c3- >&2
    exit 2
fi
repository=$1 good=$2 bad=$3 entry=$4 metric=$5
shift 5
work=$(realpath -m "${WORK:-results/bisect}")
mkdir -p "$work"
[[ ! -d "$repository" ]] || repository=$(realpath "$repository")
if [[ ! -d "$work/clone/.git" ]]; then
    git clone --quiet "$repository" "$work/clone"
fi
git -C "$work/clone" fetch --quiet --tags --force --prune origin
git -C "$work/clone" remote set-head origin --auto >/dev/null 2>&1 || true # a detached HEAD has no branch

commit_of() { # NAME: what it stands for in the repository now; branches of the clone stay where they were at first
    git -C "$work/clone" rev-parse --verify --quiet "origin/$1^{commit}" || echo "$1"
}

# Where the benchmarks are in the repository, pytest is to be started in it.
cd "$work/clone"
ended=0
"$bin/curator-bench" bisect --repo "$work/clone" --good "$(commit_of "$good")" --bad "$(commit_of "$bad")" \
    --entry "$entry" --metric "$metric" --db "${CURATOR_BENCH_DB:-$work/benchmark.db}" "$@" | tee "$work/answer.txt" || ended=$?
if [[ -n "${GITHUB_STEP_SUMMARY:-}" ]]; then
    {
        echo "### $entry: $metric from $good to $bad"
        echo '```'
        cat "$work/answer.txt"
        echo '```'
    } >>"$GITHUB_STEP_SUMMARY"
fi
exit "$ended"
