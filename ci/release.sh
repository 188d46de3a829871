#!/usr/bin/env bash
# release.sh [TAG]: builds the files of a release in dist/, and checks them; publishes nothing. `make release` calls it
# before the version is tagged; the workflow release.yml calls it with the tag that it runs for.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tag=${1:-}
twine=twine==7.0.0

fail() {
    echo "release: $1" >&2
    exit 1
}

bin=${BIN:-$PWD/.venv/bin}
version=$(PYTHONPATH=src "$bin/python" -c 'from curator_bench.package import VERSION; print(VERSION)')

changes=$(git status --porcelain)
[[ -z "$changes" ]] || fail "not all is committed; commit or remove: $(head -n 5 <<<"$changes" | tr -s ' \n' ' ')"
if [[ -n "$tag" ]]; then
    [[ "$tag" == "v$version" ]] || fail "the tag $tag is not that of version $version, in src/curator_bench/package.py"
    [[ "$(git rev-parse "$tag^{commit}")" == "$(git rev-parse HEAD)" ]] || fail "$tag is another commit than the one that is checked out"
elif git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null; then
    fail "v$version is tagged already; raise VERSION in src/curator_bench/package.py"
fi
grep --quiet --extended-regexp "^## \\[${version//./\\.}\\] - [0-9]{4}-[0-9]{2}-[0-9]{2}\$" CHANGELOG.md ||
    fail "CHANGELOG.md has no heading '## [$version] - YYYY-MM-DD'; give the section Unreleased its version and today's date"

# The same commit gives the same files, byte for byte.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
ci/dist.sh

checker=$(mktemp -d)
trap 'rm -rf "$checker"' EXIT
"$bin/python" -m venv "$checker"
"$bin/python" ci/install.py "$checker/bin/python" "$twine"
"$checker/bin/twine" check --strict dist/*
echo "dist/ has version $version."
[[ -n "$tag" ]] || echo "To publish it: git tag -a v$version -m $version && git push origin v$version"
