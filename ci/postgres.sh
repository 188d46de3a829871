#!/usr/bin/env bash
# Makes sure that there is a PostgreSQL server to test on: its programs, not a running one, for the tests start their own.
# Prints where they are. `.ci/run` calls it. It installs only for root or on a CI machine (CI=true); elsewhere it says
# what is missing.
set -euo pipefail

find_programs() {
    local on_path folder
    on_path=$(readlink -f "$(command -v initdb || true)" || true)
    for folder in /usr/lib/postgresql/*/bin "${on_path%/*}"; do
        if [[ -x "$folder/initdb" && -x "$folder/postgres" ]]; then
            echo "$folder"
            return
        fi
    done
    return 1
}

give_up() {
    echo "ci/postgres.sh: $1" >&2
    exit 1
}

as_root() {
    if [[ "$(id -u)" == 0 ]]; then
        DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo --non-interactive DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

find_programs && exit

missing="PostgreSQL's server programs (initdb, postgres) are not here"
[[ "$(id -u)" == 0 || "${CI:-}" == true ]] || give_up "$missing: apt-get install postgresql, or brew install postgresql"
command -v apt-get >/dev/null || give_up "$missing, and this script knows no other way to install them than apt-get"
as_root apt-get update -qq >&2
as_root apt-get install -y -qq --no-install-recommends postgresql >&2
find_programs || give_up "PostgreSQL was installed, but initdb and postgres are not where they should be"
