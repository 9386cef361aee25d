#!/usr/bin/env bash
# Makes a release and tests it: scripts, packages of crates, the library for C, archives, bare systems, Windows
# under Wine, equal builds. `./check --full` calls it and installs the tools. A part whose tools are missing is
# skipped, aloud.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/target/tools/bin:$PATH"
host=$(rustc -vV | sed -n 's/^host: //p')
windows=x86_64-pc-windows-gnu
release=target/packaging/release

step() { printf '\n== %s\n' "$*"; }
# lacks NAME PROGRAM...: whether a program is missing, which is then printed
lacks() {
    local name=$1 program
    shift
    for program in "$@"; do
        if ! command -v "$program" >/dev/null; then
            echo "SKIPPED: $name: there is no $program"
            return 0
        fi
    done
    return 1
}

step "scripts of a release"
lacks "lints of scripts" shellcheck || shellcheck packaging/*.sh check

# As crates.io would get them: what a package lacks, its own build shows.
step "packages of crates"
CARGO_PROFILE_DEV_DEBUG=0 cargo package --workspace --exclude pelton-testing --locked --offline --allow-dirty --quiet
large=$(find target/package -maxdepth 1 -name '*.crate' -size +10000k)
if [ -n "$large" ]; then
    echo "crates.io takes at most 10 MB, found larger: $large" >&2
    exit 1
fi

step "the library for C"
lacks "the library for C" gcc g++ make pkg-config objdump || packaging/test-library.sh

step "a release"
targets=("$host")
if ! lacks "the program for Windows" x86_64-w64-mingw32-gcc rustup && rustup target add "$windows" >/dev/null 2>&1; then
    targets+=("$windows")
fi
if lacks "a release" cargo-deb xz zip python3; then exit; fi
rm -rf "$release"
packaging/release.sh --out "$release" "${targets[@]}"
# the suppressed tag asks for a bug number of Debian's own archive
lacks "lints of the Debian package" lintian ||
    lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs --allow-root "$release"/*.deb

step "the installer"
lacks "the installer" python3 curl wget || packaging/test-installer.sh "$release"

step "a release on bare systems"
if [ "$(id -u)" != 0 ]; then
    echo "SKIPPED: bare systems: roots are made by root"
elif ! lacks "bare systems" debootstrap unshare; then
    packaging/test-roots.sh "$release"
fi

step "the program for Windows"
if [ "${#targets[@]}" = 2 ] && { [ -x /usr/lib/wine/wine64 ] || ! lacks "Windows" wine; }; then
    packaging/test-windows.sh "target/$windows/release/pelton.exe" "target/$host/release/pelton"
fi

step "equal builds"
packaging/reproduce.sh
