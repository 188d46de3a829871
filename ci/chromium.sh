#!/usr/bin/env bash
# Makes sure that there is a Chromium to open the dashboard in. Prints where it is. `.ci/run` calls it. It installs only
# for root or on a CI machine (CI=true); elsewhere it says what is missing.
set -euo pipefail

find_browser() {
    local name
    for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome google-chrome-stable; do
        [[ -n "$name" ]] && command -v "$name" && return
    done
    return 1
}

give_up() {
    echo "ci/chromium.sh: $1" >&2
    exit 1
}

as_root() {
    if [[ "$(id -u)" == 0 ]]; then
        DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo --non-interactive DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

find_browser && exit

missing="There is no Chromium here"
[[ "$(id -u)" == 0 || "${CI:-}" == true ]] || give_up "$missing: apt-get install chromium, or name one in CHROMIUM"
command -v apt-get >/dev/null || give_up "$missing, and this script knows no other way to install it than apt-get"
as_root apt-get update -qq >&2
as_root apt-get install -y -qq --no-install-recommends chromium >&2
find_browser || give_up "Chromium was installed, but is not on the PATH"
