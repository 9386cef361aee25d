#!/usr/bin/env bash
# Builds the program twice, in this checkout and in a copy with another path, time, language and mask of new
# files, and compares the bytes.
#
# usage: packaging/reproduce.sh [TARGET [OPTIONS]]
#
# Options are further ones of cargo build.
set -euo pipefail
cd "$(dirname "$0")/.."

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
copy=$PWD/target/packaging/a-copy-with-another-path
rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- --ignore-failed-read |
    tar --extract --directory="$copy"

first=$(packaging/build.sh "$@")
second=$(umask 077 && cd "$copy" && TZ=Asia/Tokyo LC_ALL=C.UTF-8 CARGO_TARGET_DIR="$copy/out" packaging/build.sh "$@")
sha256sum "$first" "$second"
if ! cmp "$first" "$second"; then
    echo "reproduce.sh: the builds differ; diffoscope $first $second shows where" >&2
    exit 1
fi
rm -rf "$copy"
