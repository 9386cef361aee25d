# usage: persistent.sh [MODEL...]; needs the example in /tmp/persistent and pip packages gguf and numpy

MODELS=${1:-"llama-3.2-1b-Q4_0 smollm-135m-Q4_0 qwen3-0.6b-Q4_0 llama-3.2-1b-Q4_K_M llama-3.2-1b-Q8_0 tinyllama-1.1b-F16"}
python3 benches/models.py /tmp/m $MODELS >/tmp/models.log 2>&1 || tail -3 /tmp/models.log
(python3 benches/models.py /tmp/m llama-3.1-8b-Q4_0 llama-3.1-8b-Q4_K_M >/tmp/models8.log 2>&1) &
cd $OUT
for m in $MODELS; do timeout ${T:-60} /tmp/persistent /tmp/m/$m.gguf ${CHECKED:-8192} $GROUPS_TRIED 2>&1 | tee persistent-$m.txt; done
wait
for m in llama-3.1-8b-Q4_0 llama-3.1-8b-Q4_K_M; do timeout ${T:-60} /tmp/persistent /tmp/m/$m.gguf 1024 $GROUPS_TRIED 2>&1 | tee persistent-$m.txt; done
cat $HOME/.cache/pelton/gpu-tuning.json > tuning.json; grep -A3 persistent tuning.json | tr -d '\n '; nvidia-smi --query-gpu=name,clocks.sm --format=csv | tail -1
