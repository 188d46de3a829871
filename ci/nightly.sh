#!/usr/bin/env bash
# One night: `curator-bench nightly` with these arguments for pytest. It is set by variables; --help lists them.
set -euo pipefail
# shellcheck source=ci/programs.sh
source "$(dirname "${BASH_SOURCE[0]}")/programs.sh"
[[ "${1:-}" == --help ]] || set -- -- "$@"
bin=$(bench_bin) && exec "$bin/curator-bench" nightly "$@"
