#!/usr/bin/env bash
# Builds the C library and installs it: pelton.h, libpelton.so, libpelton.a, pelton.pc.
#
# usage: packaging/library.sh [--prefix FOLDER] [--destdir FOLDER] [--profile NAME] [OPTIONS]
#
#   --prefix FOLDER   where programs will find it, by default /usr/local
#   --destdir FOLDER  a root below which the prefix is written, for packages
#   --profile NAME    Cargo's profile, by default release
#
# OPTIONS are further ones of cargo rustc, such as --no-default-features or --target TARGET. Linux alone.
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=/usr/local
destdir=
profile=release
options=()
while [ $# -gt 0 ]; do
    case $1 in
    --prefix | --destdir | --profile)
        declare "${1#--}=${2:?$1 lacks its value}"
        shift 2
        ;;
    *)
        options+=("$1")
        shift
        ;;
    esac
done
if [ "$(uname -s)" != Linux ]; then
    echo "library.sh: found $(uname -s), expected Linux: cargo rustc --crate-type cdylib builds elsewhere" >&2
    exit 1
fi

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
soname=libpelton.so.$version
# The paths of what was built come from cargo: its target folder can be elsewhere.
build() {
    cargo rustc --package pelton-capi --lib --locked --profile "$profile" --crate-type "$1" \
        ${options[@]+"${options[@]}"} --message-format json-render-diagnostics -- "${@:2}" |
        python3 -c '
import json, sys
for line in sys.stdin:
    found = json.loads(line)
    if found["reason"] == "compiler-artifact" and found["target"]["name"].replace("-", "_") == "pelton_capi":
        print(found["filenames"][0])'
}
# The libraries of the system that a static link needs, as rustc prints them.
natives=$(mktemp)
trap 'rm -f "$natives"' EXIT
shared=$(build cdylib -C "link-arg=-Wl,-soname,$soname")
static=$(build staticlib --print "native-static-libs=$natives")

root=$destdir$prefix
mkdir -p "$root/include" "$root/lib/pkgconfig"
install -m 644 crates/capi/include/pelton.h "$root/include/pelton.h"
install -m 755 "$shared" "$root/lib/$soname"
install -m 644 "$static" "$root/lib/libpelton.a"
ln -sf "$soname" "$root/lib/libpelton.so"
cat >"$root/lib/pkgconfig/pelton.pc" <<END
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: pelton
Description: Inference of language and speech models
Version: $version
Libs: -L\${libdir} -lpelton
Libs.private: $(cat "$natives")
Cflags: -I\${includedir}
END
echo "$root"
