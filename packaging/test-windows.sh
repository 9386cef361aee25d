#!/usr/bin/env bash
# Runs the program for Windows under Wine: the built-in model, a GGUF file, a server, Ctrl-C, with paths of
# spaces and other scripts. Texts are compared with those of the program for this machine.
# Runs on Linux with wine64 and gcc-mingw-w64-x86-64-win32.
#
# usage: packaging/test-windows.sh pelton.exe PELTON
set -euo pipefail
[ $# = 2 ] || {
    echo "usage: packaging/test-windows.sh pelton.exe PELTON" >&2
    exit 2
}
program=$(realpath "$1")
native=$(realpath "$2")
cd "$(dirname "$0")/.."
sources=$PWD/packaging/windows
models=$PWD/tests/fixtures/models
work="$PWD/target/packaging/windows test/Prüfung 試験"
rm -rf "$work"
mkdir -p "$work"
export WINEPREFIX=$PWD/target/packaging/wine WINEDEBUG=-all LC_ALL=C.UTF-8
wine=/usr/lib/wine/wine64
[ -x $wine ] || wine=wine

fail() {
    echo "test-windows.sh: $*" >&2
    exit 1
}
started=()
end_all() {
    for process in "${started[@]}"; do kill "$process" 2>/dev/null || true; done
    "${wine%64}server64" -k 2>/dev/null || wineserver -k 2>/dev/null || true
}
trap end_all EXIT

x86_64-w64-mingw32-gcc -O1 -shared -o "$work/bcryptprimitives.dll" "$sources/bcryptprimitives.c" -ladvapi32
cp "$program" "$work/pelton.exe"
cp "$models/qwen3/model.gguf" "$work/modèle 模型.gguf"
cp -r "$models/qwen3" "$work/répertoire 目录"
rm "$work/répertoire 目录/model.gguf"
cd "$work"

# Without a first start of Wine, its messages would be in the first output.
timeout 300 $wine wineboot --init >/dev/null 2>&1 || true

# same NAME ARGUMENTS...: equal text and exit code of both programs, in the working folder
same() {
    local name=$1 expected found
    shift
    expected=$("$native" "$@" 2>expected.txt) || fail "$name: the program of this machine fails: $(cat expected.txt)"
    found=$(timeout 300 $wine ./pelton.exe "$@" 2>found.txt | tr -d '\r') || fail "$name: $(cat found.txt)"
    [ -n "$expected" ] || fail "$name: no text"
    [ "$found" = "$expected" ] || fail "$name: expected $expected, found $found"
    echo "$name: equal"
}
# refused NAME TEXT ARGUMENTS...: an error that has the text
refused() {
    local name=$1 text=$2
    shift 2
    if timeout 300 $wine ./pelton.exe "$@" >found.txt 2>&1; then fail "$name: expected an error"; fi
    grep -q -F -- "$text" found.txt || fail "$name: expected $text in: $(cat found.txt)"
    echo "$name: refused"
}

# the AVX2 path of the machine below is that of the program above, and so are the bits
greedy=(--device cpu --temperature 0 -n 24)
same "version" --version
same "built-in model" run "${greedy[@]}" --raw "Once upon a time"
same "answer of the built-in model" run "${greedy[@]}" "What is 3 + 4?"
same "a mapped GGUF file" run "${greedy[@]}" --raw "modèle 模型.gguf" "Hello"
same "a directory" run "${greedy[@]}" --raw "répertoire 目录" "Hello"
same "a prompt of other scripts" tokenize "modèle 模型.gguf" "Grüße, 世界"
folder=${PWD//\//\\}
windows_path="Z:$folder\\modèle 模型.gguf"
found=$($wine ./pelton.exe run "${greedy[@]}" --raw "$windows_path" Hello 2>found.txt | tr -d '\r') ||
    fail "an absolute path: $(cat found.txt)"
[ "$found" = "$("$native" run "${greedy[@]}" --raw "modèle 模型.gguf" Hello 2>/dev/null)" ] ||
    fail "an absolute path: found $found"
echo "an absolute path: equal"
refused "a missing file" "fehlt 不在.gguf" run "fehlt 不在.gguf" Hello
refused "a wrong option" "--no-such" run --no-such

same_file() {
    "$native" quantize "modèle 模型.gguf" expected.gguf Q8_0 --force 2>/dev/null
    $wine ./pelton.exe quantize "modèle 模型.gguf" "größe 小.gguf" Q8_0 2>found.txt || fail "quantize: $(cat found.txt)"
    cmp expected.gguf "größe 小.gguf" || fail "quantize: the files differ"
    # a mapped file that is replaced
    $wine ./pelton.exe quantize "modèle 模型.gguf" "größe 小.gguf" Q8_0 --force 2>found.txt ||
        fail "quantize over a file: $(cat found.txt)"
    cmp expected.gguf "größe 小.gguf" || fail "quantize over a file: the files differ"
    echo "a quantized file: equal"
}
same_file

# serve LOG COMMAND...: starts a server and sets `server` and `address`
serve() {
    local log=$1
    shift
    "$@" >"$log" 2>&1 &
    server=$!
    started+=("$server")
    for _ in $(seq 300); do
        address=$(sed -n 's/.*listening on \(http:[^ ]*\).*/\1/p' "$log" | tr -d '\r' | tail -n 1)
        [ -z "$address" ] || return 0
        kill -0 "$server" 2>/dev/null || fail "the server ended: $(cat "$log")"
        sleep 0.2
    done
    fail "the server does not listen: $(cat "$log")"
}
ask() {
    local body='{"model": "m", "messages": [{"role": "user", "content": "What is 3 + 4?"}], "temperature": 0}'
    curl --silent --show-error --fail-with-body --max-time 60 -H 'Content-Type: application/json' -d "$body" \
        "$address/v1/chat/completions" | python3 -c 'import json, sys; print(json.load(sys.stdin)["choices"][0]["message"]["content"])'
}
ends_with() {
    local code=0
    for _ in $(seq 150); do
        if ! kill -0 "$server" 2>/dev/null; then
            wait "$server" || code=$?
            [ "$code" = "$2" ] || fail "$1: expected the exit code $2, found $code: $(cat log.txt)"
            echo "$1: ends with $2"
            return
        fi
        sleep 0.2
    done
    fail "$1: the server runs on: $(cat log.txt)"
}
expected=$("$native" run --device cpu --temperature 0 "What is 3 + 4?" 2>/dev/null)
serve log.txt $wine ./pelton.exe serve --port 0 --device cpu
answer=$(ask) || fail "the server answers: $answer"
[ "$answer" = "$expected" ] || fail "the server: expected $expected, found $answer"
echo "an answer of the server: equal"
# Wine makes Ctrl-C of the signal. It has no Ctrl-Break for a program without a window.
kill -INT "$server"
ends_with "Ctrl-C of the server" 0

# Ctrl-C ends a generation of many texts
for _ in $(seq 20000); do echo "Once upon a time"; done >prompts.txt
$wine ./pelton.exe run --device cpu --raw --prompts prompts.txt >found.txt 2>log.txt &
server=$!
started+=("$server")
for _ in $(seq 100); do
    [ ! -s found.txt ] || break
    sleep 0.1
done
kill -INT "$server"
ends_with "Ctrl-C of a generation" 130
