#!/bin/sh
# Builds the program of a release for a target, by default this machine's, and prints its path.
#
# usage: packaging/build.sh [TARGET [OPTIONS]]
#
# Options are further ones of cargo build, such as --no-default-features.
#
# Equal sources give equal bytes in whatever folder, at whatever time (packaging/reproduce.sh compares):
# paths of this machine are replaced, and linkers write no timestamps.
set -eu
cd "$(dirname "$0")/.."

target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
[ $# = 0 ] || shift
folder=${CARGO_TARGET_DIR:-$PWD/target}
registry=${CARGO_HOME:-$HOME/.cargo}

# Names of source files are in messages of panics. The last prefix that fits is replaced.
flags="--remap-path-prefix=$PWD=/pelton"
flags="$flags --remap-path-prefix=$folder=/target"
flags="$flags --remap-path-prefix=$registry=/cargo"
name=pelton
case $target in
*-windows-gnu)
    flags="$flags -Clink-arg=-Wl,--no-insert-timestamp"
    name=pelton.exe
    ;;
esac

# ring compiles C and assembly
CFLAGS="-ffile-prefix-map=$folder=/target -ffile-prefix-map=$registry=/cargo ${CFLAGS:-}"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1)}
export CFLAGS SOURCE_DATE_EPOCH

RUSTFLAGS="$flags" cargo build --release --locked --package pelton-cli --target "$target" \
    --config 'profile.release.strip="symbols"' "$@" >&2
echo "$folder/$target/release/$name"
