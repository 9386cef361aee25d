#!/usr/bin/env bash
# Measure the gain of a model that drafts its own tokens at a low effort, next to plain decoding.
#
#   benches/effort/drafts.sh PELTON MODEL OUT.json [THREADS]
#
# MODEL is in Q8_0, for the nested mode too. Prints for each mode and effort the accepted of the drafted
# tokens and the speed in times of plain decoding of the same load, medians of pairs in turn: with drafts in
# every pass, and where `auto` chooses.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '4p' "$0" | cut -c3- >&2; exit 2; }
pelton=$1 model=$2 out=$3 threads=${4:-2}
for mode in channel nested; do
    for effort in 0.3 0.5 0.7; do
        for when in always auto; do
            "$pelton" bench "$model" --speculation --draft effort:$effort --effort 1,mode=$mode,table=uniform \
                --speculate $when -p 16 -n 96 -r 7 -t "$threads" --device cpu -o json |
                "${PYTHON:-python3}" -c '
import json, sys

row, = json.load(sys.stdin)
row |= dict(zip(("mode", "effort", "speculate"), sys.argv[1:]))
drafts, ratio = row["drafts"], row["ratio"]
print(*sys.argv[1:], drafts["accepted"], "of", drafts["drafted"], *(f"{ratio[k]:.2f}" for k in ("median", "min", "max")),
      file=sys.stderr)
print(json.dumps(row))
' $mode $effort $when
        done
    done
done | "${PYTHON:-python3}" -c 'import json, sys; print(json.dumps([json.loads(line) for line in sys.stdin], indent=1))' > "$out"
