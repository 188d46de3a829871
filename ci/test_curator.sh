#!/usr/bin/env bash
# test_curator.sh PYTHON [CHECKOUT]: NeMo Curator under test, as far as a CPU goes, in an environment that has it; with a checkout
# of its repository, also the entries of its own nightly matrix that need no data of elsewhere. `make test-curator` calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$1 checkout=${2:-}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Its audio package imports torchaudio, of which there is no CPU build everywhere, and ALM does not use it.
PYTHONPATH=$("$python" benchmarks/alm/alm_stand_ins.py "$scratch/stand_ins")
export PYTHONPATH

step() {
    echo "== $1"
    shift
    "$python" -m pytest -q -p no:cacheprovider "$@"
}

step "both engines of ALM give the same windows; a nightly entry as it is" \
    tests/benchmarks -k "nemo_curator or both_engines or datasketch"
step "benchmarks/curator" benchmarks/curator -m curator

if [[ -z "$checkout" ]]; then
    echo "== NeMo Curator's own scripts and nightly matrix: skipped, no checkout was named (make test-curator CURATOR_REPO=path)"
    exit
fi
step "NeMo Curator's own scripts and nightly matrix: what needs no data of elsewhere" \
    "$checkout/benchmarking/nightly-benchmark.yaml" --bench-matrix benchmarks/curator/checkout.yaml \
    --bench-curator-repo "$checkout" -k alm
