#!/usr/bin/env bash
# What the scripts that make sure of a Debian package share. They install only for root or on a CI machine (CI=true);
# elsewhere they say what is missing.

give_up() {
    echo "$0: $1" >&2
    exit 1
}

as_root() {
    if [[ "$(id -u)" == 0 ]]; then
        DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo --non-interactive DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

# install_package NAME MISSING ELSEWHERE: what is missing, in a sentence, and how else to come by it
install_package() {
    [[ "$(id -u)" == 0 || "${CI:-}" == true ]] || give_up "$2: apt-get install $1, or $3"
    command -v apt-get >/dev/null || give_up "$2, and this script knows no other way to install it than apt-get"
    as_root apt-get update -qq >&2
    as_root apt-get install -y -qq --no-install-recommends "$1" >&2
}
