#!/usr/bin/env bash
# Builds the sdist, and the wheel by way of it, in dist/. Runs a matrix with each as a user would: installed into an empty
# environment, in a folder that has never seen this clone. `make dist` and release.sh call it. $BIN is where Python is,
# else .venv/bin.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
clone=$PWD
python=${BIN:-$PWD/.venv/bin}/python

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset PYTHONPATH PYTEST_ADDOPTS PYTEST_PLUGINS

fail() {
    echo "${0##*/}: $1" >&2
    exit 1
}

build() {
    rm -rf dist
    "$python" -m build --no-isolation --outdir dist . >"$scratch/build.log" 2>&1 || {
        cat "$scratch/build.log" >&2
        fail "the wheel does not build"
    }
    ls dist
}

install() { # install FILE
    rm -rf "$scratch/venv"
    "$python" -m venv "$scratch/venv"
    [[ ! -x "${python%/*}/uv" ]] || export UV=${UV:-${python%/*}/uv}
    "$python" ci/install.py "$scratch/venv/bin/python" --constraint constraints.txt "$1"
}

write_matrix() {
    cat >first_matrix.yaml <<'MATRIX'
entries:
  - name: sorting
    script: sorting.py
    args: --benchmark-results-path {session_entry_dir}/benchmark_results --numbers 200000
    ray: false
    requirements:
      - {metric: is_success, exact_value: true}
MATRIX
    cat >sorting.py <<'SCRIPT'
import argparse
import json
import pathlib
import pickle
import random
import time

parser = argparse.ArgumentParser()
parser.add_argument("--benchmark-results-path", type=pathlib.Path, required=True)
parser.add_argument("--numbers", type=int, required=True)
options = parser.parse_args()

numbers = [random.random() for _ in range(options.numbers)]
start = time.perf_counter()
ordered = sorted(numbers)
seconds = time.perf_counter() - start

results = options.benchmark_results_path
results.mkdir(parents=True, exist_ok=True)
(results / "params.json").write_text(json.dumps({"numbers": options.numbers}))
(results / "metrics.json").write_text(json.dumps({"is_success": ordered[0] <= ordered[-1], "sort_s": seconds}))
(results / "tasks.pkl").write_bytes(pickle.dumps([]))
SCRIPT
}

expect() { # expect EXIT_CODE TEXT COMMAND…
    local code=$1 text=$2 actual=0
    shift 2
    echo "+ ${*/#"$scratch/venv/bin/"/}"
    "$@" >"$scratch/output.txt" 2>&1 || actual=$?
    if [[ "$actual" != "$code" || "$(<"$scratch/output.txt")" != *"$text"* ]]; then
        cat "$scratch/output.txt" >&2
        fail "expected exit code $code and '$text', got exit code $actual"
    fi
}

find_package() {
    package=$("$scratch/venv/bin/python" -c 'import curator_bench, pathlib; print(pathlib.Path(curator_bench.__file__).parent)')
}

expect_package_data() {
    [[ "$package" == "$scratch"/* ]] || fail "imported $package, not what was installed"
    for file in alembic.ini alembic/env.py alembic/script.py.mako py.typed \
        report/site/templates/base.html report/site/assets/{uPlot.js,uPlot.LICENSE.txt,site.css} \
        report/site/flame_assets/{flameGraph.js,flameGraph.LICENSE.txt,profiles.js}; do
        [[ -f "$package/$file" ]] || fail "the installed package has no $file"
    done
    expect 0 "" "$scratch/venv/bin/alembic" --config "$package/alembic.ini" heads
}

verdicts() { # verdicts DATABASE
    "$scratch/venv/bin/python" - "$1" <<'QUERY'
import sqlite3
import sys

print(*(verdict for (verdict,) in sqlite3.connect(sys.argv[1]).execute("SELECT verdict FROM test_run")))
QUERY
}

expect_migrations() { # with one run recorded: a revision of a later release is applied to it, once
    expect 0 "passed" verdicts benchmark.db
    expect 0 "done" "$scratch/venv/bin/alembic" --config "$package/alembic.ini" revision --rev-id later -m later
    expect 0 "1 passed" "$scratch/venv/bin/pytest" --benchmark first_matrix.yaml
    expect 0 "passed passed" verdicts benchmark.db
    expect 0 "passed" verdicts benchmark.db.before-later
    expect 0 "later (head)" "$scratch/venv/bin/alembic" --config "$package/alembic.ini" current
}

try_out() { # try_out NAME, of what is installed
    find_package
    mkdir -p "$scratch/$1/elsewhere" "$scratch/$1/empty"
    cd "$scratch/$1/elsewhere"
    write_matrix
    expect_package_data
    expect 0 "first_matrix.yaml::sorting" "$bin/pytest" --collect-only -q .
    expect 0 "1 passed" "$bin/pytest" .
    expect 0 "1 passed" "$bin/pytest" --benchmark first_matrix.yaml
    expect 0 "1 passed" "$bin/curator-bench" report --format markdown
    expect 1 "curator-bench[report]" "$bin/curator-bench" report --out site
    expect_migrations
    expect 5 "no tests ran" "$bin/pytest" -p no:curator_bench .
    expect 0 "matrix" "$bin/curator-bench" --help

    cd "$scratch/$1/empty"
    expect 0 "pytest --benchmark" "$bin/curator-bench" init
    expect 0 "2 passed" "$bin/pytest"
    git init --quiet
    expect 0 "bench-gate.yml" "$bin/curator-bench" init --ci github
    expect 0 ".gitlab/bench.yml" "$bin/curator-bench" init --ci gitlab
    echo "The $1 works on its own."
}

bin=$scratch/venv/bin
build
for file in "$clone"/dist/*; do
    cd "$clone"
    install "$file"
    try_out "${file##*/}"
done
