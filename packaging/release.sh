#!/usr/bin/env bash
# Makes the files of a release in a folder: archives, a Debian package, the source, SHA256SUMS, the
# installer and the Homebrew formula. Runs on Linux with GNU tar, xz, zip, python3 and cargo-deb.
#
# usage: packaging/release.sh [--out FOLDER] [TARGET...]
#
# Without targets: this machine's. Manual pages and completions are those of this machine's build, which
# is therefore always made.
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."

out=target/packaging/release
targets=()
while [ $# -gt 0 ]; do
    case $1 in
    --out)
        out=${2:?--out lacks its folder}
        shift 2
        ;;
    -*)
        echo "release.sh: found $1, expected --out FOLDER or targets of Rust" >&2
        exit 2
        ;;
    *)
        targets+=("$1")
        shift
        ;;
    esac
done
host=$(rustc -vV | sed -n 's/^host: //p')
[ "${#targets[@]}" != 0 ] || targets=("$host")

work=target/packaging
version=$(cargo metadata --format-version 1 --no-deps --locked |
    python3 -c 'import json, sys; print(next(p["version"] for p in json.load(sys.stdin)["packages"] if p["name"] == "pelton-cli"))')
repository=$(sed -n 's/^repository = "\(.*\)"$/\1/p' Cargo.toml)
download=$repository/releases/download/v$version
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
mkdir -p "$out"
rm -rf "$work/pages" "$work/stage"

# Manual pages and completions.
native=$(packaging/build.sh "$host")
mkdir -p "$work/pages/man" "$work/pages/completions"
"$native" man --dir "$work/pages/man"
"$native" completions bash >"$work/pages/completions/pelton.bash"
"$native" completions zsh >"$work/pages/completions/_pelton"
"$native" completions fish >"$work/pages/completions/pelton.fish"
"$native" completions powershell >"$work/pages/completions/_pelton.ps1"

# Equal bytes for equal contents.
pack_tar() { tar --create --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$work/stage" "$1"; }
pack_zip() {
    find "$work/stage/$1" -exec touch --date="@$SOURCE_DATE_EPOCH" {} +
    rm -f "$2"
    (cd "$work/stage" && find "$1" | LC_ALL=C sort | TZ=UTC zip -q -X -9 -@ -) >"$2"
}

archive() {
    local target=$1 program
    program=$(packaging/build.sh "$target")
    local name=pelton-$version-$target
    local stage=$work/stage/$name
    mkdir -p "$stage/docs"
    packaging/third_party.py "$target" >"$stage/THIRD-PARTY.txt"
    # messages of the program name these pages
    cp docs/*.md docs/*.svg "$stage/docs"
    cp "$program" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$stage"
    cp -r "$work/pages/man" "$work/pages/completions" "$stage"
    case $target in
    *-windows-*) pack_zip "$name" "$out/$name.zip" ;;
    *)
        pack_tar "$name" | xz -9 --threads=1 >"$out/$name.tar.xz"
        # a bare system has gzip, but not xz
        pack_tar "$name" | gzip -9 --no-name >"$out/$name.tar.gz"
        ;;
    esac
}

# The library for C, which belongs below any prefix: pelton.pc finds the others next to itself.
library() {
    local target=$1 name=libpelton-$version-$1
    local stage=$work/stage/$name
    # paths of this machine are replaced, as in build.sh
    RUSTFLAGS="--remap-path-prefix=$PWD=/pelton --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
        packaging/library.sh --prefix /usr/local --destdir "$PWD/$stage.root" --target "$target" >/dev/null
    mkdir -p "$stage/examples"
    cp -r "$stage.root/usr/local/." "$stage"
    sed -i "s|^prefix=.*|prefix=\${pcfiledir}/../..|" "$stage/lib/pkgconfig/pelton.pc"
    packaging/third_party.py "$target" >"$stage/THIRD-PARTY.txt"
    cp docs/c.md LICENSE-MIT LICENSE-APACHE "$stage"
    cp crates/capi/examples/* "$stage/examples"
    pack_tar "$name" | xz -9 --threads=1 >"$out/$name.tar.xz"
    pack_tar "$name" | gzip -9 --no-name >"$out/$name.tar.gz"
}

debian() {
    local target=$1
    # the format of deb-changelog(5)
    {
        printf 'pelton (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n' "$version-1"
        printf ' -- The Pelton contributors <pelton@example.org>  %s\n' "$(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")"
    } >"$work/changelog"
    cp "$work/stage/pelton-$version-$target/THIRD-PARTY.txt" "$work/THIRD-PARTY.txt"
    cargo deb --quiet --package pelton-cli --target "$target" --no-build --no-strip --output "$out" -- --locked
}

for target in "${targets[@]}"; do
    archive "$target"
    case $target in
    *-linux-gnu)
        debian "$target"
        library "$target"
        ;;
    esac
done

# The source, for Homebrew and distributions.
source=pelton-$version-source.tar.gz
git archive --format=tar --prefix="pelton-$version/" HEAD | gzip -9 --no-name >"$out/$source"

hash=$(sha256sum "$out/$source" | cut -d ' ' -f 1)
sed -e "s|@URL@|$download/$source|" -e "s|@SHA256@|$hash|" -e "s|@HOMEPAGE@|$repository|" \
    packaging/pelton.rb.in >"$out/pelton.rb"
sed "s|^release=''\$|release='$download'|" packaging/install.sh >"$out/pelton-installer.sh"
chmod 755 "$out/pelton-installer.sh"

(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum) >"$work/sums"
mv "$work/sums" "$out/SHA256SUMS"
cat "$out/SHA256SUMS"
