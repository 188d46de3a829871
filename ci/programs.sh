#!/usr/bin/env bash
# The programs that the scripts here run, for `source`: those of $BIN, else of this clone's .venv, else those on the PATH.
clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

bench_bin() {
    local found
    found=$(command -v curator-bench || true)
    for found in "${BIN:-}" "$clone/.venv/bin" "${found%/*}"; do
        if [[ -n "$found" && -x "$found/curator-bench" ]]; then
            echo "$found"
            return
        fi
    done
    echo "${0##*/}: no curator-bench here: run \`make test\`, or pip install curator-bench, or say BIN=…/bin" >&2
    return 2
}
