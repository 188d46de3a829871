#!/usr/bin/env bash
# Makes .venv and installs this clone into it, with the extras asked for, in the tested versions. make calls it, and
# decides when: the stamp written last, .venv/.installed, says that all of it happened, and in which folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
extras=$1
here=$(pwd -P)
stamp=.venv/.installed

python=$(ci/python.sh)

made_in=$(cat "$stamp" 2>/dev/null || true)
rm -f "$stamp"
# What was interrupted, moved, or lost its Python is made anew: nothing in it can be trusted.
if [[ "$made_in" != "$here" ]] || ! .venv/bin/python -c '' 2>/dev/null; then
    rm -rf .venv
    "$python" -m venv .venv
    echo "Installing curator-bench[$extras] into .venv, with $(.venv/bin/python --version): a minute or two, only this time"
else
    echo "Bringing .venv up to date with pyproject.toml and constraints.txt"
fi

.venv/bin/python -m pip install --quiet --quiet --disable-pip-version-check \
    --constraint constraints.txt --editable ".[$extras]"
echo "$here" >"$stamp"
