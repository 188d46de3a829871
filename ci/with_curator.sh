#!/usr/bin/env bash
# with_curator.sh PYTHON ARGUMENTS…: runs an environment that has NeMo Curator, with empty stand-ins for the audio libraries
# which its audio package imports, ALM does not use, and this platform has no build of.
set -euo pipefail
python=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
PYTHONPATH=$("$python" "$(dirname "${BASH_SOURCE[0]}")/../benchmarks/alm/alm_stand_ins.py" "$scratch/stand_ins")${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH
"$python" "$@"
