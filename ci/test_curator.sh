#!/usr/bin/env bash
# test_curator.sh PYTHON [CHECKOUT]: NeMo Curator under test, as far as a CPU goes, in an environment that has it; with a checkout
# of its repository, also the entries of its own nightly matrix that need no GPU. `make test-curator` calls it.
# SUITES=short runs half of it: each operation, each format and each executor, but not all of one with all of the others.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$1 checkout=${2:-}
run=("$python")
nightly=$checkout/benchmarking/nightly-benchmark.yaml
[[ -z "$checkout" || -f "$nightly" ]] || {
    echo "CURATOR_REPO=$checkout is no checkout of NeMo Curator: there is no $nightly" >&2
    exit 2
}

# Most of a test and of an entry is the start of workers: two at a time are done in little more than half the time.
step() {
    echo "== $1"
    shift
    "${run[@]}" -m pytest -q -p no:cacheprovider -n "${TEST_WORKERS:-2}" --dist worksteal "$@"
}

step "both engines of ALM give the same windows; a nightly entry as it is" \
    tests/benchmarks -k "nemo_curator or both_engines or datasketch"

# Its audio package imports torchaudio, of which there is no CPU build everywhere, and ALM does not use it. The tests above
# see to that themselves.
run=(ci/with_curator.sh "$python")

selected=()
if [[ "${SUITES:-}" == short ]]; then
    selected=(-k "removal and (ray_data and jsonl or xenna) \
        or score_filter and xenna or modifier and ray_actors \
        or alm and xenna or identification")
fi
step "benchmarks/curator" benchmarks/curator -m curator "${selected[@]}"

if [[ -z "$checkout" ]]; then
    echo "== NeMo Curator's own scripts and nightly matrix: skipped, no checkout was named (make test-curator CURATOR_REPO=path)"
    exit
fi
CURATOR_REPO=$checkout step "the nightly matrix is collected, and NeMo Curator's own runner does the same as the plugin" \
    tests/benchmarks/test_curators_own_runner.py -n 0
# One at a time: Xenna takes a process for each stage.
step "NeMo Curator's own scripts and nightly matrix: the entries that need no GPU, on small data" \
    "$nightly" --bench-matrix benchmarks/curator/checkout.yaml --bench-matrix benchmarks/curator/small_data.yaml \
    "--bench-curator-repo=$checkout" --bench-results results -n 0 -rs \
    -k "alm or removal or score_filter or fasttext or modifier or transcoding or math"
