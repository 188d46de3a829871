#!/usr/bin/env bash
# setup.sh FOLDER EXTRAS [PACKAGE…]: makes a virtual environment in FOLDER and installs this clone into it, with the extras
# asked for, in the tested versions, and with the packages named. make calls it, and decides when: the stamp written last,
# FOLDER/.installed, says that all of it happened, and in which clone. FLOORS=1 installs the oldest versions that
# pyproject.toml allows, in place of the tested ones.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$1 extras=$2
shift 2
here=$(pwd -P)
stamp=$folder/.installed

python=$(ci/python.sh)

made_in=$(cat "$stamp" 2>/dev/null || true)
rm -f "$stamp"
# What was interrupted, moved, or lost its Python is made anew: nothing in it can be trusted.
if [[ "$made_in" != "$here" ]] || ! "$folder/bin/python" -c '' 2>/dev/null; then
    rm -rf "$folder"
    "$python" -m venv "$folder"
    version=$("$folder/bin/python" --version)
    echo "Installing curator-bench[$extras] into $folder, with $version: seconds with uv, a minute or two without; only this time"
else
    echo "Bringing $folder up to date with pyproject.toml and constraints.txt"
fi

versions=(--constraint constraints.txt)
if [[ -n "${FLOORS:-}" ]]; then
    versions=(--resolution lowest-direct) # which pip has not
fi
"$python" ci/install.py "$folder/bin/python" "${versions[@]}" "$@" --editable ".[$extras]"
echo "$here" >"$stamp"
