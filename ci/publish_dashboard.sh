#!/usr/bin/env bash
# Builds the dashboard of a record, and puts it where people see it.
#
#   ci/publish_dashboard.sh RECORD SITE [OPTIONS OF curator-bench report…]
#
# RECORD is a database, or a URL as in ci/combine_databases.sh. SITE is a folder, which a job then hands to its web host
# (GitHub Pages: actions/upload-pages-artifact), or a URL of fsspec such as s3://BUCKET/site. Programs: ci/programs.sh.
set -euo pipefail
# shellcheck source=ci/programs.sh
source "$(dirname "${BASH_SOURCE[0]}")/programs.sh"
bin=$(bench_bin)

if (($# < 2)); then
    sed -n '2,7p' "${BASH_SOURCE[0]}" | cut -c3- >&2
    exit 2
fi
record=$1 site=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$clone/ci/combine_databases.sh" --fetch "$record" "$folder/record.db"
if [[ ! -e "$folder/record.db" ]]; then
    echo "${0##*/}: there is no record at $record yet" >&2
    exit 1
fi
case $site in
    *://*)
        "$bin/curator-bench" report --db "$folder/record.db" --out "$folder/site" "$@"
        "$bin/python" -c '
import sys
import fsspec
files, path = fsspec.url_to_fs(sys.argv[2])
files.put(sys.argv[1] + "/", path.rstrip("/") + "/", recursive=True)
' "$folder/site" "$site"
        ;;
    *) "$bin/curator-bench" report --db "$folder/record.db" --out "$site" "$@" ;;
esac
echo "${0##*/}: $site"
