#!/usr/bin/env bash
# Measure decoding by effort next to the dense kernels, in pairs, on a quiet machine with 8 GB of memory; under 10 minutes.
#
#   benches/effort/speed.sh PELTON MODELS OUT [THREADS] [SET...]
#
# PELTON is a release build, MODELS a folder with the models below (benches/models.py writes missing ones
# if Python has gguf and numpy), OUT a folder for one JSON file a pair. Each file has runs of the dense
# kernels, of a load for effort at each effort in turn, and of the dense
# kernels again; printed are the medians and their ratio to the median of both dense loads.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '4p' "$0" | cut -c3- >&2; exit 2; }
pelton=$1 models=$2 out=$3 threads=${4:-2}
sets=("${@:5}")
[ ${#sets[@]} -gt 0 ] || sets=(avx2 avx512-vnni)
here=$(cd "$(dirname "$0")" && pwd)
efforts=1,0.7,0.5,0.35,0.25
tokens=8 runs=5
mkdir -p "$out"
for model in tinyllama-1.1b-Q8_0 llama-3.2-1b-Q8_0; do
    file=$models/$model.gguf
    [ -f "$file" ] || "${PYTHON:-python3}" "$here/../models.py" "$models" "$model"
    cat "$file" > /dev/null
    for set in "${sets[@]}"; do
        export PELTON_ISA=$set
        common=("$pelton" bench "$file" -p 0 -n $tokens -r $runs -t "$threads" -o json --device cpu)
        to=$out/speed-$model-$set-t$threads.json
        {
            "${common[@]}"
            "${common[@]}" --efforts $efforts
            "${common[@]}"
        } | "${PYTHON:-python3}" -c '
import json, statistics, sys

decoder, text, loads = json.JSONDecoder(), sys.stdin.read(), []
while text.strip():
    rows, end = decoder.raw_decode(text.lstrip())
    text = text.lstrip()[end:]
    loads.append(rows)
names = ["dense", "effort", "dense after"]
dense = statistics.median(speed for rows in (loads[0], loads[-1]) for speed in rows[0]["runs"])
for name, rows in zip(names, loads):
    for row in rows:
        median = statistics.median(row["runs"])
        row |= {"load": name, "of_dense": median / dense}
        told = name + " " + row["test"]
        print(sys.argv[1], told, f"{median:.2f} tokens/s, {median / dense:.2f} of dense", file=sys.stderr)
print(json.dumps([row for rows in loads for row in rows], indent=1))
' "$model $set t$threads" > "$to"
    done
done
