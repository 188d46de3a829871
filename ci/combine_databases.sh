#!/usr/bin/env bash
# Adds databases to the record (RECORD DATABASE…), or gets it (--fetch RECORD FILE): `curator-bench record`.
set -euo pipefail
# shellcheck source=ci/programs.sh
source "$(dirname "${BASH_SOURCE[0]}")/programs.sh"
if [[ "${1:-}" == --fetch ]]; then set -- get "${@:2}"; else set -- add "$@"; fi
bin=$(bench_bin) && exec "$bin/curator-bench" record "$@"
