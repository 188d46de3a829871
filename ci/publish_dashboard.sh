#!/usr/bin/env bash
# Puts the dashboard of a record where people see it: `curator-bench publish RECORD SITE` with these options of `report`.
set -euo pipefail
# shellcheck source=ci/programs.sh
source "$(dirname "${BASH_SOURCE[0]}")/programs.sh"
bin=$(bench_bin) && exec "$bin/curator-bench" publish "${@:1:2}" -- "${@:3}"
