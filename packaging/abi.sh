#!/usr/bin/env bash
# Compares the interface of the C library with its baseline, crates/capi/abi/pelton.abi, by abidiff
# (Debian's abigail-tools). More functions are allowed; any other change is an error.
#
# usage: packaging/abi.sh [--write]
#
#   --write  replaces the baseline, after a release
set -euo pipefail
cd "$(dirname "$0")/.."

baseline=crates/capi/abi/pelton.abi
for program in abidw gcc python3; do
    if ! command -v "$program" >/dev/null; then
        echo "NOT COMPARED: there is no $program (abidw is in abigail-tools)"
        exit
    fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The types of the header as C has them, in a library with the same functions: rustc's debug information
# has those of Rust. The test of the header compares its functions with the symbols of the real library.
{
    echo '#include "pelton.h"'
    python3 - crates/capi/include/pelton.h <<'END'
import re, sys
text = re.sub(r"/\*.*?\*/", "", open(sys.argv[1]).read(), flags=re.S)
text = "\n".join(line for line in text.splitlines() if not line.startswith("#") and not line.startswith("//"))
for result, name, parameters in re.findall(r"^(?!typedef)([a-z][\w *]*?)(pelton_\w+)\(([^;{]*)\);", text, flags=re.M):
    print(f"{result.strip()} {name}({parameters}) {{ __builtin_trap(); }}")
END
} >"$work/interface.c"
gcc -std=c99 -g -shared -fPIC -w -I crates/capi/include "$work/interface.c" -o "$work/libpelton.so"
abidw --no-corpus-path --no-comp-dir-path --no-show-locs "$work/libpelton.so" >"$work/pelton.abi"
if [ "${1:-}" = --write ]; then
    cp "$work/pelton.abi" "$baseline"
    cp crates/capi/include/pelton.h crates/capi/abi/pelton.h
    echo "$baseline"
    exit
fi
if ! abidiff --no-added-syms "$baseline" "$work/pelton.abi"; then
    echo "the interface has changed: if that is meant, packaging/abi.sh --write makes the new baseline" >&2
    exit 1
fi
echo "the interface is that of $baseline, perhaps with more functions"
