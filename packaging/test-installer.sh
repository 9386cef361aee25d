#!/usr/bin/env bash
# Tests the installer of a release on this machine: from an address, with the fewest tools, and where it must
# refuse. Runs on Linux with python3, curl and wget; test-roots.sh installs on bare systems.
#
# usage: packaging/test-installer.sh RELEASE
set -euo pipefail
release=$(realpath "${1:?usage: packaging/test-installer.sh RELEASE}")
work=$(mktemp -d)
server=
cleanup() {
    [ -z "$server" ] || kill "$server"
    rm -rf "$work"
}
trap cleanup EXIT
fail() {
    echo "test-installer.sh: $*: $(cat "$work/output")" >&2
    exit 1
}

# install_to NAME ARGUMENTS...: runs the installer for a user whose home is a new folder
install_to() {
    export HOME="$work/home of $1"
    shift
    mkdir "$HOME"
    sh "$release/pelton-installer.sh" "$@" >"$work/output" 2>&1
}
# refused TEXT NAME ARGUMENTS...: an error with the text, after which the home is empty
refused() {
    local text=$1
    shift
    if install_to "$@"; then fail "$1: expected an error"; fi
    grep -q -F -- "$text" "$work/output" || fail "$1: expected $text"
    [ -z "$(ls -A "$HOME")" ] || fail "$1: files were left"
    echo "$1: refused"
}
runs() {
    [ -n "$("$2/bin/pelton" run --device cpu Hello 2>/dev/null)" ] || fail "$1: no answer"
    echo "$1: runs"
}

# the server prints the port that the system gave it
python3 -u -m http.server 0 --bind 127.0.0.1 --directory "$release" >"$work/server" 2>&1 &
server=$!
for _ in $(seq 100); do
    port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' "$work/server" | head -n 1)
    [ -z "$port" ] || break
    sleep 0.1
done
address=http://127.0.0.1:$port

install_to curl --from "$address" || fail "an address"
runs "an address" "$HOME/.local"
export HOME="$work/piped"
mkdir "$HOME"
sh -s -- --from "$address" --prefix "$HOME/a b" <"$release/pelton-installer.sh" >"$work/output" 2>&1 || fail "a pipe"
runs "a pipe, to a folder with a space" "$HOME/a b"

# wget and gzip in place of curl and xz
tools=$work/tools
mkdir "$tools"
for tool in sh uname mktemp rm grep head sha256sum tar gzip chmod mkdir cp mv basename dirname wget; do
    ln -s "$(command -v $tool)" "$tools/$tool"
done
PATH=$tools install_to "few tools" --from "$address" || fail "few tools"
runs "few tools" "$HOME/.local"

refused "begins with https://" "another protocol" --from ftp://127.0.0.1
refused "begins with https://" "an open network" --from http://192.0.2.1
refused "cannot be downloaded" "a closed port" --from https://127.0.0.1:1
refused "no $work/empty/SHA256SUMS" "an empty folder" --from "$work/empty"
refused "expected --from" "a wrong option" --form "$release"
mkdir "$work/other"
sed 's/-unknown-linux-gnu/-unknown-other/' "$release/SHA256SUMS" >"$work/other/SHA256SUMS"
refused "has no archive for" "a release for others" --from "$work/other"
