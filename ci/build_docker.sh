#!/usr/bin/env bash
# Builds the image that ci/run.sh runs. It holds the tools; matrices, scripts and data are mounted when it runs.
#
#   ci/build_docker.sh                                      for the CPU, as curator-bench:latest and :VERSION
#   ci/build_docker.sh --cuda                               on a CUDA base, as curator-bench:cuda and :VERSION-cuda
#   ci/build_docker.sh --base python:3.12-slim@sha256:…     on any other base
#   ci/build_docker.sh --extras all,curator                 with these extras (data,postgres,report,xdist)
#   ci/build_docker.sh -- --no-cache --platform linux/arm64     what stands behind -- goes to `docker build`
#
# DOCKER=podman names another engine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

docker=${DOCKER:-docker}
cuda_base=nvidia/cuda:12.9.1-runtime-ubuntu24.04
tag=latest suffix=
options=()

usage() {
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2
    exit "$1"
}

while (($#)); do
    case $1 in
        --cuda) tag=cuda suffix=-cuda options+=(--build-arg "BASE_IMAGE=$cuda_base") ;;
        --base) options+=(--build-arg "BASE_IMAGE=${2:?--base: which image?}") && shift ;;
        --extras) options+=(--build-arg "EXTRAS=${2?--extras: which?}") && shift ;;
        --) shift && break ;;
        -h | --help) usage 0 ;;
        *) echo "ci/build_docker.sh: unknown option $1" >&2 && usage 2 ;;
    esac
    shift
done

version=$(sed -n 's/^VERSION = "\(.*\)"$/\1/p' src/curator_bench/package.py)
commit=$(git rev-parse HEAD 2>/dev/null || echo unknown)

"$docker" build \
    --tag "curator-bench:$tag" --tag "curator-bench:$version$suffix" \
    --label "org.opencontainers.image.version=$version" --label "org.opencontainers.image.revision=$commit" \
    "${options[@]}" "$@" .
echo "curator-bench:$tag $("$docker" image inspect --format '{{.Id}}' "curator-bench:$tag")"
