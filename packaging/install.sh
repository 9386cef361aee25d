#!/bin/sh
# Installs Pelton for the user who runs it, from the archives of a release. Needs no root.
#
# The folder or address of the archives is that of --from, or the folder of this script if it holds
# SHA256SUMS, or the line `release=` below, which packaging/release.sh fills.
set -eu

release=''

usage() {
    cat <<'END'
usage: pelton-installer.sh [--from FOLDER|URL] [--prefix FOLDER]

Installs the program, its manual pages and its completions, after a check of the archive's SHA-256.

  --from FOLDER|URL  where the archives and SHA256SUMS are
  --prefix FOLDER    install to FOLDER/bin and FOLDER/share, in place of ~/.local
  --help             print this text
END
}

say() { printf '%s\n' "$*"; }
fail() {
    printf 'pelton-installer: %s\n' "$*" >&2
    exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }

# Everything is in functions and the last line calls one: a download of this script that breaks off runs nothing.
main() {
    from='' prefix=''
    while [ $# -gt 0 ]; do
        case $1 in
        --from | --prefix)
            [ $# -gt 1 ] || fail "$1 lacks its value: see --help"
            if [ "$1" = --from ]; then from=$2; else prefix=$2; fi
            shift 2
            ;;
        --help)
            usage
            exit
            ;;
        *) fail "found $1, expected --from, --prefix or --help" ;;
        esac
    done
    if [ -z "$from" ]; then
        # piped into a shell, $0 is the shell
        here=$(dirname -- "$0")
        if [ -f "$0" ] && [ -f "$here/SHA256SUMS" ]; then from=$here; else from=$release; fi
    fi
    [ -n "$from" ] || fail "there is no SHA256SUMS next to this script: name the archives' folder with --from"
    if [ -z "$prefix" ]; then
        [ -n "${HOME:-}" ] || fail "the variable HOME is not set: name a folder with --prefix"
        prefix=$HOME/.local
    fi

    target=$(find_target)
    temporary=$(mktemp -d) || fail "no temporary folder can be made: set TMPDIR to a folder that can be written"
    trap 'rm -rf "$temporary"' EXIT
    trap 'exit 1' HUP INT TERM

    get SHA256SUMS
    # a system without xz has gzip
    if has xz; then kind=tar.xz; else kind=tar.gz; fi
    line=$(grep -E "^[0-9a-f]{64}  pelton-[^/]*-$target\\.$kind\$" "$temporary/SHA256SUMS" | head -n 1) ||
        fail "$from has no archive for $target: build from source as the README says"
    [ -n "$line" ] || fail "$from has no archive for $target: build from source as the README says"
    expected=${line%% *} archive=${line##* }
    say "downloading $archive from $from"
    get "$archive"
    found=$(hash_of "$temporary/$archive")
    [ "$found" = "$expected" ] ||
        fail "$archive has the SHA-256 $found, but SHA256SUMS has $expected: nothing was installed; try again"
    unpack "$temporary/$archive" "$kind"

    folder=$temporary/${archive%".$kind"}
    [ -f "$folder/pelton" ] || fail "$archive holds no program: nothing was installed"
    version=$("$folder/pelton" --version 2>"$temporary/error") || {
        reason=$(head -n 3 "$temporary/error")
        fail "the program does not start on this system, nothing was installed: $reason"
    }

    put "$folder/pelton" "$prefix/bin/pelton" 755
    for page in "$folder"/man/*.1; do
        put "$page" "$prefix/share/man/man1/$(basename "$page")" 644
    done
    put "$folder/completions/pelton.bash" "$prefix/share/bash-completion/completions/pelton" 644
    put "$folder/completions/pelton.fish" "$prefix/share/fish/vendor_completions.d/pelton.fish" 644
    put "$folder/completions/_pelton" "$prefix/share/zsh/site-functions/_pelton" 644

    say "installed $version:"
    say "  $prefix/bin/pelton"
    say "  $prefix/share/man/man1/pelton*.1"
    say "  $prefix/share/bash-completion/completions/pelton"
    say "  $prefix/share/fish/vendor_completions.d/pelton.fish"
    say "  $prefix/share/zsh/site-functions/_pelton"
    case :${PATH:-}: in
    *":$prefix/bin:"*) ;;
    *) say "$prefix/bin is not in PATH; for this shell: export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
    say "try: pelton run \"Tell me a story.\""
}

# The name of Rust for this system.
find_target() {
    system=$(uname -s) machine=$(uname -m)
    case $machine in
    x86_64 | amd64) machine=x86_64 ;;
    arm64) machine=aarch64 ;;
    esac
    case $system in
    Linux) say "$machine-unknown-linux-gnu" ;;
    Darwin) say "$machine-apple-darwin" ;;
    *) fail "found the system $system, expected Linux or macOS; for Windows there is a zip archive" ;;
    esac
}

# Copies or downloads a file of the release into the temporary folder.
get() {
    case $from in
    https://* | http://127.0.0.1[:/]* | http://localhost[:/]*)
        if has curl; then
            curl --fail --silent --show-error --location --retry 3 --output "$temporary/$1" "$from/$1" ||
                fail "$from/$1 cannot be downloaded"
        elif has wget; then
            wget --quiet --output-document="$temporary/$1" "$from/$1" || fail "$from/$1 cannot be downloaded"
        else
            fail "a download needs curl or wget: install one, or name a folder with --from"
        fi
        ;;
    *://*) fail "found the address $from, expected one that begins with https://" ;;
    *)
        [ -f "$from/$1" ] || fail "there is no $from/$1: --from names the folder of a release"
        cp "$from/$1" "$temporary/$1"
        ;;
    esac
}

hash_of() {
    if has sha256sum; then
        set -- "$(sha256sum "$1")"
    elif has shasum; then
        set -- "$(shasum -a 256 "$1")"
    else
        fail "a check of the archive needs sha256sum or shasum: install one"
    fi
    say "${1%% *}"
}

unpack() {
    case $2 in
    tar.xz) xz --decompress --stdout "$1" ;;
    tar.gz) gzip --decompress --stdout "$1" ;;
    esac | tar -x -f - -C "$temporary" || fail "$1 cannot be unpacked: nothing was installed"
}

# Copies a file under a new name and then renames it, since a running program cannot be overwritten.
put() {
    mkdir -p "$(dirname "$2")" || fail "$(dirname "$2") cannot be made: name another folder with --prefix"
    cp "$1" "$2.new" || fail "$2 cannot be written: name another folder with --prefix"
    chmod "$3" "$2.new"
    mv -f "$2.new" "$2"
}

main "$@"
