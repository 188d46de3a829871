#!/usr/bin/env bash
# Makes sure that there is a Chromium to open the dashboard in. Prints where it is. `.ci/run` calls it. It installs only
# for root or on a CI machine (CI=true), and never with --look; elsewhere it says what is missing.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

find_browser() {
    local name
    for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome google-chrome-stable; do
        [[ -n "$name" ]] && command -v "$name" && return
    done
    return 1
}

find_browser && exit
[[ "${1:-}" == --look ]] && exit 1

install_package chromium "There is no Chromium here" "name one in CHROMIUM"
find_browser || give_up "Chromium was installed, but is not on the PATH"
