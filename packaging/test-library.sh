#!/usr/bin/env bash
# Installs the C library by library.sh and by cargo-c, builds the examples as their readers would, and runs them.
#
# usage: packaging/test-library.sh [PROFILE]
#
# PROFILE is Cargo's, by default dev. cargo-c is used if there is `cargo cinstall`. Linux alone.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/target/tools/bin:$PATH"
profile=${1:-dev}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "test-library.sh: $*" >&2
    exit 1
}

# $1: a prefix. The examples with the shared library, and one with the static library alone.
examples() {
    local prefix=$1 build=$work/build-$(basename "$1")
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
    [ "$(pkg-config --variable=prefix pelton)" = "$prefix" ] || fail "pelton.pc has another prefix than $prefix"
    cp -r crates/capi/examples "$build"
    make --silent -C "$build" CFLAGS="-Wall -Wextra -Werror" CXXFLAGS="-Wall -Wextra -Werror" LDFLAGS="-Wl,-rpath,$prefix/lib"
    for program in chat chat-cpp session epoll; do
        "$build/$program" - cpu >"$build/$program.txt" || fail "$program of $prefix has failed"
        [ -s "$build/$program.txt" ] || fail "$program of $prefix has printed nothing"
    done
    local natives
    natives=$(pkg-config --static --libs-only-l pelton | sed 's/-lpelton//')
    # shellcheck disable=SC2046,SC2086 # flags, several of them
    cc -std=c99 -D_GNU_SOURCE $(pkg-config --cflags pelton) "$build/chat.c" "$prefix/lib/libpelton.a" $natives -o "$build/static"
    "$build/static" - cpu >"$build/static.txt"
    cmp "$build/chat.txt" "$build/static.txt" || fail "the static library of $prefix answers differently"
    if ldd "$build/static" | grep pelton; then fail "the static program of $prefix needs libpelton.so"; fi
}

# The name of the library in a program that was linked to it, of a prefix.
soname() {
    objdump -p "$1"/lib/libpelton.so | sed -n 's/^ *SONAME *//p'
}

packaging/library.sh --prefix "$work/script" --profile "$profile"
examples "$work/script"
version=$(PKG_CONFIG_PATH=$work/script/lib/pkgconfig pkg-config --modversion pelton)
[ "$(soname "$work/script")" = "libpelton.so.$version" ] || fail "found the name $(soname "$work/script"), expected libpelton.so.$version"

if ! cargo cinstall --version >/dev/null 2>&1; then
    echo "SKIPPED: cargo-c: there is no cargo cinstall"
    exit
fi
cargo cinstall --package pelton-capi --locked --profile "$profile" --prefix "$work/cargo-c" --libdir "$work/cargo-c/lib"
examples "$work/cargo-c"
cmp "$work"/{script,cargo-c}/include/pelton.h || fail "the headers differ"
[ "$(soname "$work/script")" = "$(soname "$work/cargo-c")" ] || fail "cargo-c gives the library another name"
# a program of one runs with the library of the other
LD_PRELOAD=$work/cargo-c/lib/libpelton.so "$work/build-script/chat" - cpu | cmp - "$work/build-script/chat.txt" ||
    fail "a program of library.sh does not run with the library of cargo-c"
echo "the library, its examples and cargo-c: all checks passed"
