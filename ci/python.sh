#!/usr/bin/env bash
# Prints the Python that environments are made with: $PYTHON, else the first that will do. Called by the other scripts.
set -euo pipefail

will_do() {
    # pip and venv are packages of their own on some systems; a Python without them is of no use here.
    "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

candidates=(python3.11 python3 python3.12 python3.13)
if [[ -n "${PYTHON:-}" ]]; then
    candidates=("$PYTHON")
fi

for candidate in "${candidates[@]}"; do
    if will_do "$candidate"; then
        command -v "$candidate"
        exit
    fi
done
echo "curator-bench needs Python 3.11 or newer with its venv module, and found none (tried: ${candidates[*]})." \
    "Install python3.11 and python3.11-venv, or name one: make test PYTHON=/path/to/python3.11" >&2
exit 1
