#!/usr/bin/env bash
# Installs a release on bare systems without Rust, compilers and network, each by one command, and runs it.
# Runs as root on Linux, with debootstrap and unshare.
#
# usage: packaging/test-roots.sh RELEASE [SUITE...]
#
# RELEASE is the folder that packaging/release.sh wrote. Suites are of Debian: bookworm and trixie without
# any. Their roots are kept in target/packaging/roots and never changed: tests write to an overlay.
# commands in single quotes are for other shells
# shellcheck disable=SC2016
set -euo pipefail
release=$(realpath "${1:?usage: packaging/test-roots.sh RELEASE [SUITE...]}")
shift
suites=("$@")
[ "${#suites[@]}" != 0 ] || suites=(bookworm trixie)
cd "$(dirname "$0")/.."
roots=$PWD/target/packaging/roots
mkdir -p "$roots"

fail() {
    echo "test-roots.sh: $*" >&2
    exit 1
}

# in_root SUITE USER COMMAND: runs a command in a copy of a root that is dropped at its end, with the
# release in /release, as that user, without a network.
in_root() {
    unshare --mount --pid --fork --net bash -eu -c '
        base=$0/$1 user=$2 command=$3 release=$4
        mount -t tmpfs none /mnt
        mkdir /mnt/upper /mnt/work /mnt/root
        mount -t overlay -o "lowerdir=$base,upperdir=/mnt/upper,workdir=/mnt/work" overlay /mnt/root
        mkdir -p /mnt/root/release /mnt/root/home/user /mnt/root/proc
        mount --bind -o ro "$release" /mnt/root/release
        mount -t proc proc /mnt/root/proc
        chown 1000:1000 /mnt/root/home/user
        exec chroot --userspec="$user" /mnt/root \
            /usr/bin/env -i HOME=/home/user PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
            sh -eu -c "$command"
    ' "$roots" "$1" "$2" "$3" "$release"
}

# A greedy story of the built-in model.
story='--device cpu --raw "Once upon a time" --temperature 0 -n 24'

says_a_story() {
    [ "$(wc -w <<<"$2")" -ge 10 ] || fail "$1: expected a story of at least ten words, found: $2"
    echo "$1: $(tr '\n' ' ' <<<"$2")"
}

for suite in "${suites[@]}"; do
    if [ ! -e "$roots/$suite/complete" ]; then
        rm -rf "${roots:?}/$suite"
        debootstrap --variant=minbase "$suite" "$roots/$suite" >"$roots/$suite.log" ||
            fail "debootstrap $suite failed: see $roots/$suite.log"
        touch "$roots/$suite/complete"
    fi
    for tool in cc gcc rustc cargo curl xz; do
        in_root "$suite" 0:0 "! command -v $tool" || fail "$suite: a bare system has $tool"
    done

    # the installer, for a user without rights
    says_a_story "$suite, installer" "$(in_root "$suite" 1000:1000 "
        sh /release/pelton-installer.sh --from /release >&2 && ~/.local/bin/pelton run $story")"
    in_root "$suite" 1000:1000 '
        sh /release/pelton-installer.sh --from /release >/dev/null
        cd ~/.local
        ls share/man/man1/pelton.1 share/bash-completion/completions/pelton >/dev/null
        # a second time, over a program that runs
        bin/pelton serve --port 0 2>/dev/null & server=$!
        sleep 1
        sh /release/pelton-installer.sh --from /release >/dev/null
        kill $server
        find . -name "*.new" | grep . && exit 1
        exit 0' || fail "$suite: the files of the installer"

    # an archive with a flipped byte
    in_root "$suite" 1000:1000 '
        mkdir ~/bad && cp /release/* ~/bad
        for file in ~/bad/*.tar.gz; do printf X | dd of="$file" bs=1 seek=5000 conv=notrunc status=none; done
        if sh ~/bad/pelton-installer.sh 2>~/error; then exit 1; fi
        grep -q "SHA-256" ~/error && [ ! -e ~/.local ]' || fail "$suite: a damaged archive must be refused"

    # the Debian package
    says_a_story "$suite, package" "$(in_root "$suite" 0:0 "
        apt-get install --yes --no-install-recommends /release/pelton_*_amd64.deb >&2 && pelton run $story")"
    in_root "$suite" 0:0 '
        dpkg --install /release/pelton_*_amd64.deb >/dev/null
        ls /usr/share/man/man1/pelton.1.gz /usr/lib/systemd/system/pelton.service >/dev/null
        echo "# changed" >>/etc/pelton.toml
        dpkg --remove pelton >/dev/null
        [ -e /etc/pelton.toml ] && [ ! -e /usr/bin/pelton ]
        dpkg --purge pelton >/dev/null
        [ ! -e /etc/pelton.toml ] && ! find / -xdev -name "*pelton*" -not -path "/proc/*" -not -path "/release*" \
            -not -path "/var/log/*" | grep .' || fail "$suite: the files of the package"
done

# A system of the C library alone, as images have that are made of a program.
bare=$roots/bare
if [ ! -e "$bare/complete" ]; then
    rm -rf "$bare"
    mkdir -p "$bare/packages"
    (cd "$bare/packages" && apt-get -o APT::Sandbox::User=root download libc6 libgcc-s1 >/dev/null)
    for package in "$bare"/packages/*.deb; do dpkg-deb --extract "$package" "$bare"; done
    mkdir -p "$bare/proc"
    touch "$bare/complete"
fi
tar -x -z -f "$release"/pelton-*-x86_64-unknown-linux-gnu.tar.gz -C "$bare" --strip-components 1 --wildcards '*/pelton'
says_a_story "C library alone" "$(unshare --mount --pid --fork --net --mount-proc="$bare/proc" \
    chroot --userspec=65532:65532 "$bare" /pelton run --device cpu --raw "Once upon a time" --temperature 0 -n 24)"
