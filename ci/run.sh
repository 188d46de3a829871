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
# The working directory, the paths of the arguments and the `paths` of the matrices are mounted; variables the matrices
# name are handed in, and so are those of PASS_ENV. It is set by the environment:
#
#   IMAGE    curator-bench:latest         GPUS      none, all, or their numbers: 0,2 (none)
#   MEMORY   9/10 of the machine's        SHM_SIZE  9/20 of the machine's; Ray's object store lives there
#   DOCKER   docker                       PASS_ENV  names of further variables to hand in
set -euo pipefail
clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
here=$(pwd -P)
docker=${DOCKER:-docker}
image=${IMAGE:-curator-bench:latest}

fail() {
    echo "ci/run.sh: $1" >&2
    exit 2
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
        case $1 in
            --use-host-source) use_host_source=1 ;;
            --print) print=1 ;;
            --shell)
                shell=1
                shift
                shell_command=$*
                return
                ;;
            --bench-matrix | --bench-results | --benchmark-db)
                (($# >= 2)) || fail "$1 wants a value"
                read_option "$1" "$2"
                arguments+=("$1" "$2")
                shift
                ;;
            --*=*) read_option "${1%%=*}" "${1#*=}" && arguments+=("$1") ;;
            -[ckmnoprW]) # what follows is a word, even where a folder is called like it
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

mount_sources() {
    local path=$clone/src
    if [[ -n "${CURATOR_REPO_DIR:-}" ]]; then
        mount_place "$CURATOR_REPO_DIR"
        options+=("--env=CURATOR_REPO_DIR")
        path+=:$CURATOR_REPO_DIR
    fi
    if [[ -n "${use_host_source:-}" ]]; then
        mount_place "$clone"
        options+=("--env=PYTHONPATH=$path")
    fi
}

limit_memory() {
    local machine memory
    machine=$(machine_memory)
    memory=${MEMORY:-$((machine * 9 / 10))}
    # No swap: what swaps is not worth measuring.
    options+=("--memory=$memory" "--memory-swap=$memory" "--shm-size=${SHM_SIZE:-$((machine * 9 / 20))}")
}

choose_gpus() {
    local gpus=${GPUS:-none}
    gpus=${gpus//\"/}
    gpus=${gpus#device=}
    case $gpus in
        none) ;;
        all) options+=("--gpus=all") ;;
        *[!0-9,]*) fail "GPUS=$GPUS: expected none, all or their numbers, as in 0,2" ;;
        *) options+=("--gpus=\"device=$gpus\"") ;;
    esac
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
    local name
    mount_database "${CURATOR_BENCH_DB:-}"
    for name in CURATOR_BENCH_DB DB_NAME ${PASS_ENV:-}; do
        [[ -z "${!name:-}" ]] || options+=("--env=$name")
    done
}

use_terminal() {
    if [[ -t 0 && -t 1 ]]; then
        options+=(--interactive --tty)
    fi
}

((BASH_VERSINFO[0] > 4 || (BASH_VERSINFO[0] == 4 && BASH_VERSINFO[1] >= 4))) || fail "needs bash 4.4 or newer"
options=(--rm --init "--user=$(id -u):$(id -g)" "--volume=$here:$here" "--workdir=$here")
arguments=() places=() overlays=()
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
    [[ -z "$shell_command" ]] || arguments=(-c "$shell_command")
fi
if [[ -n "${print:-}" ]]; then
    printf '%q ' "$docker" run "${options[@]}" "$image" "${arguments[@]}"
    echo
    exit
fi
exec "$docker" run "${options[@]}" "$image" "${arguments[@]}"
