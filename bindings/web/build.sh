#!/bin/sh
# Builds the page with its WebAssembly, by default into target/web, and prints the folder.
#
# usage: bindings/web/build.sh [FOLDER]
#
# Any server of files can serve the folder: python3 -m http.server --directory target/web
set -eu
cd "$(dirname "$0")/../.."

folder=${1:-$PWD/target/web}
target=wasm32-unknown-unknown
built=${CARGO_TARGET_DIR:-target}/$target/release/pelton_web.wasm

if command -v rustup >/dev/null; then
    rustup target add "$target" >&2
fi
cargo build --release --locked --package pelton-web --target "$target" >&2

# The tool writes the glue for one version of the library.
version=$(sed -n '/^name = "wasm-bindgen"$/{n;s/version = "\(.*\)"/\1/p}' Cargo.lock)
export PATH="$PWD/target/tools/bin:$PATH"
if [ "$(wasm-bindgen --version 2>/dev/null)" != "wasm-bindgen $version" ]; then
    cargo install wasm-bindgen-cli --version "$version" --root target/tools --target-dir target/tools/build >&2
fi
mkdir -p "$folder"
wasm-bindgen --target web --no-typescript --out-dir "$folder" "$built" >&2
cp bindings/web/page/* "$folder"
echo "$folder"
