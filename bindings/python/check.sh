#!/usr/bin/env bash
# The checks of the Python package, in new environments: ./check runs this. PYTHON names another Python than
# python3. PELTON_FULL=1 installs what the package is compared with: lm-evaluation-harness, llama-cpp-python
# and LangChain, of which one is compiled.
set -euo pipefail
cd "$(dirname "$0")"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/../../target}
work=$CARGO_TARGET_DIR/python
python=${PYTHON:-python3}

step() { printf '\n== python: %s\n' "$*"; }

step "format and lints"
cargo fmt --check
cargo clippy --locked -- -D warnings
# as on machines without Python
PYO3_NO_PYTHON=1 cargo check --locked
# the interface of free-threaded builds; their Python is not needed
PYO3_CONFIG_FILE=$PWD/cp314t.txt cargo check --locked

step "versions of dependencies"
"$python" lock.py

# $1: the Python, $2: the name of its environment
tests() {
    step "tests on $("$1" --version) ($2)"
    PYO3_PYTHON=$(command -v "$1") cargo build --locked
    local folder=$work/$2
    rm -rf "$folder"
    "$1" -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check --requirement tests/requirements.txt
    if [ "${PELTON_FULL:-}" = 1 ]; then
        "$folder/bin/pip" install --quiet --disable-pip-version-check \
            --requirement tests/requirements-full.txt ||
            echo "they cannot be installed: the comparisons with them will be skipped"
    fi
    # not into the environment: type checkers look at packages there in another way
    local package=$folder/package
    mkdir "$package"
    cp -r python/pelton "$package"
    rm -f "$package"/pelton/_pelton.*.so
    local suffix built=libpelton_python.so
    suffix=$("$folder/bin/python" -c 'import importlib.machinery as m; print(m.EXTENSION_SUFFIXES[0])')
    [ "$(uname -s)" != Darwin ] || built=libpelton_python.dylib
    cp "$CARGO_TARGET_DIR/debug/$built" "$package/pelton/_pelton$suffix"
    PYTHONPATH=$package "$folder/bin/python" -m pytest --quiet -p no:cacheprovider
}

tests "$python" venv
free=
for candidate in python3.14t python3.15t; do
    if "$candidate" --version >/dev/null 2>&1; then
        free=$candidate
        tests "$candidate" "$candidate"
    fi
done
[ -n "$free" ] || step "free-threaded: NOT TESTED, there is no python3.14t or python3.15t"
