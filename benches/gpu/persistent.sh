# Decoding by persistent kernels and by dispatches on a GPU: speeds, and many tokens of both.
# usage: OUT=FOLDER persistent.sh; needs the example `persistent` of crates/gpu as $PERSISTENT and pip
# packages gguf and numpy

MODELS="llama-3.2-1b-Q4_0 llama-3.2-1b-Q4_K_M llama-3.2-1b-Q8_0 tinyllama-1.1b-F16 smollm-135m-Q4_0 qwen3-0.6b-Q4_0"
LARGE="llama-3.1-8b-Q4_0 llama-3.1-8b-Q4_K_M"
python3 benches/models.py /tmp/m smollm-2-layers-Q4_0 $MODELS >/tmp/models.log 2>&1 || tail -3 /tmp/models.log
python3 benches/models.py /tmp/m $LARGE >/tmp/models8.log 2>&1 &
for m in $MODELS; do
  timeout 60 $PERSISTENT /tmp/m/$m.gguf ${CHECKED:-4096} 2>&1 | tee $OUT/persistent-$m.txt
done
wait
for m in $LARGE; do
  timeout 60 $PERSISTENT /tmp/m/$m.gguf 1024 2>&1 | tee $OUT/persistent-$m.txt
done
for run in 1 2 3 4; do
  $PERSISTENT /tmp/m/smollm-2-layers-Q4_0.gguf 131072 132 2>&1 | tee -a $OUT/persistent-many.txt
done
grep -A3 "persistent layers" $HOME/.cache/pelton/gpu-tuning.json | tr -d '\n ' | tee $OUT/choices.txt
nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv | tail -1 | tee $OUT/gpu.txt
