#!/usr/bin/env bash
# Writes constraints.txt anew: what pip installs today, in an empty environment, for the extras named, all at once, so
# that one set of versions suits every combination of them.
# `make constraints` names them. Run the tests before you commit the outcome.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
extras=$1

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

python=$(ci/python.sh)
echo "Installing .[$extras] without constraints into an empty environment"
"$python" -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --quiet --disable-pip-version-check ".[$extras]"
"$scratch/venv/bin/python" -m pip freeze --disable-pip-version-check --exclude curator-bench >"$scratch/constraints.txt"

# Addresses and editable installs would tie the file to one machine.
if grep --invert-match --line-regexp --extended-regexp '[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+' "$scratch/constraints.txt"; then
    echo "The lines above are not name==version; constraints.txt was left as it is." >&2
    exit 1
fi
cp "$scratch/constraints.txt" constraints.txt
echo "constraints.txt: $(wc -l <constraints.txt) versions"
