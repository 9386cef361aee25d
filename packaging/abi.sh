#!/usr/bin/env bash
# Compares the interface of the C library with the header of its baseline, crates/capi/abi/pelton.h, by
# abidiff (Debian's abigail-tools). More functions are allowed; any other change is an error.
#
# usage: packaging/abi.sh [--write]
#
#   --write  replaces the baseline, after a release
set -euo pipefail
cd "$(dirname "$0")/.."

header=crates/capi/include/pelton.h
baseline=crates/capi/abi/pelton.h
if [ "${1:-}" = --write ]; then
    cp "$header" "$baseline"
    echo "$baseline"
    exit
fi
for program in abidiff gcc python3; do
    if ! command -v "$program" >/dev/null; then
        echo "NOT COMPARED: there is no $program (abidiff is in abigail-tools)"
        exit
    fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# interface HEADER FOLDER: writes FOLDER/libpelton.so, a library with the functions of a header, and their
# types as C has them: rustc's debug information has those of Rust. The test of the header compares its
# functions with the symbols of the real library.
interface() {
    mkdir "$2"
    {
        echo '#include "pelton.h"'
        python3 - "$1" <<'END'
import re, sys
text = re.sub(r"/\*.*?\*/", "", open(sys.argv[1]).read(), flags=re.S)
text = "\n".join(line for line in text.splitlines() if not line.startswith("#") and not line.startswith("//"))
for result, name, parameters in re.findall(r"^(?!typedef)([a-z][\w *]*?)(pelton_\w+)\(([^;{]*)\);", text, flags=re.M):
    print(f"{result.strip()} {name}({parameters}) {{ __builtin_trap(); }}")
END
    } >"$2/interface.c"
    gcc -std=c99 -g -shared -fPIC -w -I "$(dirname "$1")" "$2/interface.c" -o "$2/libpelton.so"
}
interface "$baseline" "$work/old"
interface "$header" "$work/new"
if ! abidiff --no-added-syms "$work/old/libpelton.so" "$work/new/libpelton.so"; then
    echo "the interface has changed: if that is meant, packaging/abi.sh --write makes the new baseline" >&2
    exit 1
fi
echo "the interface is that of $baseline, perhaps with more functions"
