#!/usr/bin/env bash
# Runs benchmarks in a container of the image that ci/build_docker.sh built. Arguments are pytest's:
#
#   ci/run.sh benchmarks/dedup -m dedup --benchmark
#   GPUS=all IMAGE=curator-bench:cuda ci/run.sh nightly.yaml --bench-matrix this_machine.yaml
#   ci/run.sh --use-host-source benchmarks -m demo      with the source of this clone instead of the image's
#   ci/run.sh --print nightly.yaml                      only prints the line it would run
#   ci/run.sh --shell                                   a shell instead of pytest, with the same mounts
#   ci/run.sh --shell 'ray --version; nproc'            one command line in that shell
#
# The options of NeMo Curator's container script work too; other arguments then go to `curator-bench run`:
#
#   ci/run.sh --config nightly-benchmark.yaml --config my_machine.yaml --session-name night
#   ci/run.sh --use-host-curator --config nightly-benchmark.yaml
#                                                       nemo_curator of HOST_CURATOR_DIR (default: the source tree that
#                                                       holds a --config) instead of the image's
#   ci/run.sh --use-host-curator-benchmarking --config my.yaml      only its benchmarks, with the image's nemo_curator
#
# The working directory, the paths of the arguments and the `paths` of the matrices are mounted. Variables that the
# matrices, sinks and scripts of NeMo Curator name are handed in, and so are those of PASS_ENV. It is set by the environment:
#
#   IMAGE    curator-bench:latest         GPUS      none, all, or their numbers: 0,2 (none; with --config all there are)
#   MEMORY   9/10 of the machine's        SHM_SIZE  9/20 of the machine's; Ray's object store lives there
#   DOCKER   docker                       PASS_ENV  names of further variables to hand in
#
# CURATOR_BENCHMARKING_IMAGE is another name of IMAGE; CURATOR_BENCHMARKING_DEBUG=1 turns the live display off.
set -euo pipefail
clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
here=$(pwd -P)
docker=${DOCKER:-docker}
image=${IMAGE:-${CURATOR_BENCHMARKING_IMAGE:-curator-bench:latest}}

fail() {
    echo "ci/run.sh: $1" >&2
    exit 2
}

usage() {
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
    exit
}

curator_bench() {
    local found
    for found in "$clone/.venv/bin/curator-bench" "$(command -v curator-bench || true)"; do
        [[ -x "$found" ]] && exec "$found" "$@"
    done
    fail "no curator-bench here to read the matrices with: run \`make test\` or \`pip install curator-bench\` first"
}

machine_memory() { # in bytes
    if [[ -r /proc/meminfo ]]; then
        awk '/^MemTotal:/ { printf "%.0f\n", $2 * 1024 }' /proc/meminfo
    else
        sysctl -n hw.memsize
    fi
}

read_arguments() { # sorts them into what is for us, what is for pytest, and the files that are named
    while (($#)); do
        if [[ -n "${shell:-}" && "$1" != --config* && "$1" != --use-host-* && "$1" != --print ]]; then
            shell_command=$*
            break
        fi
        case $1 in
            --use-host-source) use_host_source=1 ;;
            --use-host-curator) use_host_curator=1 ;;
            --use-host-curator-benchmarking) use_host_benchmarks=1 ;;
            --print) print=1 ;;
            --shell) shell=1 ;;
            --config)
                (($# >= 2)) || fail "$1 wants a value"
                read_config "$2"
                shift
                ;;
            --config=*) read_config "${1#*=}" ;;
            --bench-matrix | --bench-results | --benchmark-db)
                (($# >= 2)) || fail "$1 wants a value"
                read_option "$1" "$2"
                arguments+=("$1" "$2")
                shift
                ;;
            --*=*) read_option "${1%%=*}" "${1#*=}" && arguments+=("$1") ;;
            -[ckmnoprW] | --session-name | --entries | --entries-exact | --reason | --viewer-url | --viewer-url-template)
                # What follows is a word, even where a folder is called like it.
                arguments+=("${@:1:2}")
                shift $(($# > 1))
                ;;
            *)
                arguments+=("$1")
                read_place "${1%%::*}"
                ;;
        esac
        shift
    done
    [[ -z "${use_host_curator:-}" || -z "${use_host_benchmarks:-}" ]] ||
        fail "--use-host-curator includes --use-host-curator-benchmarking: name one of them"
}

read_config() { # the first is the matrix, others are laid over it
    [[ -e "$1" ]] || fail "--config: there is no $1"
    if ((${#configs[@]})); then overlays+=("$1"); else places+=("$1"); fi
    configs+=("--config=$1")
}

read_option() { # OPTION VALUE
    case $1 in
        --bench-matrix) overlays+=("$2") ;;
        --bench-results) mkdir -p "$2" && mount_place "$2" ;;
        --benchmark-db) mount_database "$2" ;;
        *) [[ ! -e "$2" ]] || mount_place "$2" ;;
    esac
}

read_place() { # matrix.yaml, a folder
    if [[ -e "$1" ]]; then
        places+=("$1")
    fi
}

add_mount() { # HOST CONTAINER, unless it is there anyway
    local known
    [[ "$1" != "$2" || "$1/" != "$here/"* ]] || return 0
    for known in "${options[@]}"; do
        [[ "$known" != "--volume=$1:$2" ]] || return 0
    done
    options+=("--volume=$1:$2")
}

mount_place() { # a file or folder, by its own name
    local folder
    folder=$(realpath "$1")
    [[ -d "$folder" ]] || folder=$(dirname "$folder")
    add_mount "$folder" "$folder"
}

mount_database() { # PATH|URL
    if [[ -n "$1" && "$1" != *://* ]]; then
        mkdir -p "$(dirname "$1")"
        mount_place "$(dirname "$1")"
    fi
}

mount_places() { # the working directory, and what is named outside of it
    local place
    for place in "${places[@]}" "${overlays[@]}"; do
        mount_place "$place"
    done
}

mount_paths() { # what the matrices themselves name
    local listed option
    ((${#places[@]})) || places=(.)
    listed=$(curator_bench paths --docker "${overlays[@]/#/--overlay=}" "${places[@]}") || exit "$?"
    while read -r option; do
        case $option in
            --volume=*)
                option=${option#*=}
                add_mount "${option%%:*}" "${option#*:}"
                ;;
            ?*) options+=("$option") ;;
        esac
    done <<<"$listed"
}

source_tree_of() { # FILE: the folder above it that holds NeMo Curator
    local folder
    folder=$(dirname "$(realpath "$1")")
    while [[ "$folder" != / ]]; do
        [[ ! -d "$folder/nemo_curator" ]] || { echo "$folder" && return; }
        folder=$(dirname "$folder")
    done
}

find_curator() { # the tree of the older script's options, as CURATOR_REPO_DIR
    local config found=${HOST_CURATOR_DIR:-${CURATOR_REPO_DIR:-}}
    for config in "${configs[@]#--config=}"; do
        found=${found:-$(source_tree_of "$config")}
    done
    [[ -d "$found" ]] || fail "which NeMo Curator? HOST_CURATOR_DIR names the folder of its source${found:+; there is no $found}"
    CURATOR_REPO_DIR=$(realpath "$found")
    export CURATOR_REPO_DIR
}

mount_sources() {
    local sources=()
    [[ -z "${use_host_curator:-}${use_host_benchmarks:-}" ]] || find_curator
    if [[ -n "${use_host_source:-}" ]]; then
        mount_place "$clone"
        sources+=("$clone/src")
    fi
    if [[ -n "${CURATOR_REPO_DIR:-}" ]]; then
        mount_place "$CURATOR_REPO_DIR"
        options+=("--env=CURATOR_REPO_DIR")
        [[ -z "${use_host_source:-}${use_host_curator:-}" ]] || sources+=("$CURATOR_REPO_DIR")
    fi
    ((${#sources[@]} == 0)) || options+=("--env=PYTHONPATH=$(IFS=: && echo "${sources[*]}")")
}

limit_memory() {
    local machine memory
    machine=$(machine_memory)
    memory=${MEMORY:-$((machine * 9 / 10))}
    # No swap: what swaps is not worth measuring.
    options+=("--memory=$memory" "--memory-swap=$memory" "--shm-size=${SHM_SIZE:-$((machine * 9 / 20))}")
}

gpus_by_default() { # the older form uses all there are
    if ((${#configs[@]})) && command -v nvidia-smi >/dev/null; then echo all; else echo none; fi
}

choose_gpus() {
    local gpus=${GPUS:-$(gpus_by_default)}
    gpus=${gpus//\"/}
    gpus=${gpus#device=}
    case $gpus in
        none) return ;;
        all) options+=("--gpus=all") ;;
        *[!0-9,]*) fail "GPUS=$GPUS: expected none, all or their numbers, as in 0,2" ;;
        *) options+=("--gpus=\"device=$gpus\"") ;;
    esac
    # Decoding videos is none of the capabilities that containers get by default.
    options+=("--env=NVIDIA_DRIVER_CAPABILITIES=compute,utility,video")
}

say_where() { # a name of its own, by which databases tell containers of one machine apart
    local host digest why=
    host=$(uname -n)
    digest=$("$docker" image inspect --format '{{if .RepoDigests}}{{index .RepoDigests 0}}{{else}}{{.Id}}{{end}}' "$image" 2>&1) ||
        why=${digest##*$'\n'} digest=unknown
    [[ "$digest" != unknown || -n "${print:-}" ]] ||
        fail "there is no image $image: ci/build_docker.sh builds it ($docker says: ${why:-nothing})"
    options+=("--hostname=${host:0:50}-$$" "--env=HOST_HOSTNAME=$host" "--env=IMAGE_DIGEST=$digest")
}

hand_in_variables() { # by name: their values stand on no command line
    local name known=" ${options[*]} "
    mount_database "${CURATOR_BENCH_DB:-}"
    # What sinks and NeMo Curator's scripts read without a matrix that names it.
    for name in CURATOR_BENCH_DB DB_NAME CURATOR_BENCHMARKING_DEBUG MLFLOW_TRACKING_URI NVIDIA_API_KEY \
        SLACK_BOT_TOKEN SLACK_CHANNEL_ID "${!GDRIVE_@}" ${PASS_ENV:-}; do
        [[ -z "${!name:-}" || "$known" == *" --env=$name "* ]] || options+=("--env=$name")
        known+=" --env=$name "
    done
    if [[ -e "${GDRIVE_SERVICE_ACCOUNT_FILE:-}" ]]; then
        GDRIVE_SERVICE_ACCOUNT_FILE=$(realpath "$GDRIVE_SERVICE_ACCOUNT_FILE")
        add_mount "$GDRIVE_SERVICE_ACCOUNT_FILE" "$GDRIVE_SERVICE_ACCOUNT_FILE"
    fi
}

use_terminal() {
    [[ -t 0 && -t 1 ]] || return 0
    options+=(--interactive)
    [[ -z "${shell:-}" && "${CURATOR_BENCHMARKING_DEBUG:-0}" != 0 ]] || options+=(--tty)
}

((BASH_VERSINFO[0] > 4 || (BASH_VERSINFO[0] == 4 && BASH_VERSINFO[1] >= 4))) || fail "needs bash 4.4 or newer"
options=(--rm --init "--user=$(id -u):$(id -g)" "--volume=$here:$here" "--workdir=$here")
arguments=() places=() overlays=() configs=()
[[ "${1:-}" != -h && "${1:-}" != --help ]] || usage
read_arguments "$@"
mount_places
mount_paths
mount_sources
limit_memory
choose_gpus
say_where
hand_in_variables
use_terminal
if [[ -n "${shell:-}" ]]; then
    options+=(--entrypoint=bash)
    arguments=()
    [[ -z "${shell_command:-}" ]] || arguments=(-c "$shell_command")
elif ((${#configs[@]})); then
    options+=(--entrypoint=curator-bench)
    arguments=(run "${configs[@]}" "${arguments[@]}")
fi
if [[ -n "${print:-}" ]]; then
    printf '%q ' "$docker" run "${options[@]}" "$image" "${arguments[@]}"
    echo
    exit
fi
exec "$docker" run "${options[@]}" "$image" "${arguments[@]}"
