#!/usr/bin/env bash
# Makes sure that there is a PostgreSQL server to test on: its programs, not a running one, for the tests start their own.
# Prints where they are. `.ci/run` calls it. It installs only for root or on a CI machine (CI=true); elsewhere it says
# what is missing.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

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

find_programs && exit

install_package postgresql "PostgreSQL's server programs (initdb, postgres) are not here" "brew install postgresql"
find_programs || give_up "PostgreSQL was installed, but initdb and postgres are not where they should be"
