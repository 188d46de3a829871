#!/usr/bin/env bash
# Adds what jobs have recorded to the record that all of them share, without losing what another job adds meanwhile.
#
#   ci/combine_databases.sh RECORD DATABASE…     DATABASE: a file or URL as --benchmark-db has it, or JSON lines of an export
#   ci/combine_databases.sh --fetch RECORD FILE  only gets the record into FILE; an empty one where there is none
#
# RECORD is a path, s3://BUCKET/KEY, or a URL of any file system that fsspec knows (pip install 'curator-bench[s3]').
# A server such as MinIO is named by AWS_ENDPOINT_URL. Programs: ci/programs.sh.
set -euo pipefail
# shellcheck source=ci/programs.sh
source "$(dirname "${BASH_SOURCE[0]}")/programs.sh"
bin=$(bench_bin)
tries=${TRIES:-20}
other_was_faster=75

usage() {
    sed -n '2,8p' "${BASH_SOURCE[0]}" | cut -c3- >&2
    exit 2
}

shared_record() {
    "$bin/python" "$clone/ci/shared_record.py" "$@"
}

fetch() { # RECORD FILE: with all the parts it may have
    rm -f "$2" "$2".part-* "$2".version
    shared_record fetch "$1" "$2"
    local part
    for part in "$2".part-*; do
        [[ -e "$part" ]] || continue
        "$bin/curator-bench" merge "$part" --into "$2" >&2
        rm -f "$part"
    done
}

add() { # DATABASE FILE
    case $1 in
        *.jsonl) "$bin/curator-bench" import "$1" --db "$2" ;;
        *) "$bin/curator-bench" merge "$1" --into "$2" ;;
    esac 2> >(sed "s|$2|the record|" >&2) # nobody knows the file it was fetched into
}

(($# >= 2)) || usage
if [[ "$1" == --fetch ]]; then
    (($# == 3)) || usage
    fetch "$2" "$3"
    rm -f "$3.version"
    exit
fi

record=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for ((try = 1; try <= tries; try++)); do
    fetch "$record" "$folder/record.db"
    for database in "$@"; do
        add "$database" "$folder/record.db"
    done
    ended=0
    shared_record store "$record" "$folder/record.db" || ended=$?
    case $ended in
        0) exit ;;
        "$other_was_faster") echo "another job was faster; once more with what it added" >&2 ;;
        *) exit "$ended" ;;
    esac
    sleep "$((RANDOM % 3)).$((RANDOM % 10))"
done
echo "${0##*/}: $tries tries, and each time another job was faster; nothing of this one was added" >&2
exit 1
