#!/bin/bash
# Compare with llama.cpp on AVX2 alone: decode of 32 tokens and prefill of 512 of seven models, then prefill in F16
# with all instructions of the CPU. Under 20 minutes on two cores; nothing else may run meanwhile. A pair that
# others disturbed is dropped and repeated, up to eight pairs in all.
#
# usage: avx2.sh MODELS BUILDS [compare.py option]...
#   MODELS  a folder for models; those that it lacks are written (benches/models.py)
#   BUILDS  the folder of llama-builds.sh
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,8s/^# \?//p' "$0"; exit 2; }
here=$(realpath "$(dirname "$0")")
models=$(realpath "$1") builds=$(realpath "$2")
shift 2
python=$builds/env/bin/python
names=(tinyllama-1.1b-{Q4_0,Q4_K_M,Q8_0,F16} llama-3.2-1b-Q4_0 qwen3-0.6b-Q4_0 smollm-135m-Q4_0)
missing=()
for name in "${names[@]}"; do [ -e "$models/$name.gguf" ] || missing+=("$name"); done
[ ${#missing[@]} -eq 0 ] || "$python" "$here/../models.py" "$models" "${missing[@]}"
files=()
for name in "${names[@]}"; do files+=("$models/$name.gguf"); done
results=$here/results/$(date -u +%F)
cat "${files[@]}" >/dev/null # into the page cache
"$python" "$here/compare.py" "${files[@]}" -p 512 -n 32 --most 8 \
    --isa avx2 --llama "$builds/avx2" -o "$results-avx2.json" "$@"
"$python" "$here/compare.py" "$models/tinyllama-1.1b-F16.gguf" -p 512 -n 0 --most 8 \
    --llama "$builds/native" -o "$results-f16.json" "$@"
"$python" "$here/report.py" "$results-avx2.json" "$results-f16.json"
