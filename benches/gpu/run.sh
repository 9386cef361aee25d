#!/bin/sh
# Benchmarks decode and prefill of seven models on the first GPU and profiles them. Models that are
# absent or that fail are named on standard error and omitted; the exit status is 1 if one failed.
#
# usage: run.sh PELTON MODELS OUT
#   PELTON  the binary
#   MODELS  a folder with files of real shapes, named SHAPE-TYPE.gguf as below: real ones, or with
#           random weights (benches/models.py), since speed depends on the shape only
#   OUT     a folder for devices.json, bench.json, depth.json and profile.json: objects by model,
#           complete after every step, so that an interrupted run leaves its results
# The environment variable DEVICE selects another device than gpu.
set -eu
if [ $# -ne 3 ]; then
    sed -n '5,10s/^# //p' "$0" >&2
    exit 2
fi
pelton=$1 models=$2 out=$3
device=${DEVICE:-gpu}
failed=0
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# put NAME KEY COMMAND...: adds the output of COMMAND to the object in OUT/NAME.json.
put() {
    name=$1 key=$2
    shift 2
    if ! "$@" >"$work/answer"; then
        echo "FAILED: $*" >&2
        failed=1
        return 0
    fi
    if [ -s "$work/$name" ]; then echo , >>"$work/$name"; fi
    { printf '"%s": ' "$key" && cat "$work/answer"; } >>"$work/$name"
    { echo "{" && cat "$work/$name" && echo "}"; } >"$out/$name.json"
    echo "done: $name of $key" >&2
}

if ! "$pelton" devices --json >"$out/devices.json"; then
    echo "FAILED: $pelton devices" >&2
    exit 1
fi
for model in \
    smollm-135m-Q4_0 qwen3-0.6b-Q4_0 tinyllama-1.1b-Q4_0 llama-3.2-1b-Q4_0 llama-3.2-1b-Q4_K_M \
    llama-3.1-8b-Q4_0 llama-3.1-8b-Q4_K_M; do
    file=$models/$model.gguf
    if [ ! -f "$file" ]; then
        echo "skipped: $file does not exist" >&2
        continue
    fi
    put bench "$model" "$pelton" bench "$file" --device "$device" -p 512 -n 128 -r 3 -o json
    put profile "$model" "$pelton" profile "$file" --device "$device" -o json
    case $model in
    llama-3.1-8b-*)
        put depth "$model" \
            "$pelton" bench "$file" --device "$device" -p 0 -n 128 -r 3 --depth 4096 -o json
        put profile "$model @ d4096" \
            "$pelton" profile "$file" --device "$device" --depth 4096 -o json
        ;;
    esac
done
exit "$failed"
