#!/usr/bin/env bash
# From a check of the machine to a trained voice on two GPUs, with the commands one would type.
#
#   bash examples/gpu_pipeline_example.sh                     GPU 0 prepares data, GPU 1 trains
#   SIMULATE=1 bash examples/gpu_pipeline_example.sh          two CPU devices, no GPU needed
#
# What can be set: DATA_GPU, MODEL_GPU, TRAIN_DATA (default: a small corpus by espeak-ng), RUN (the
# run folder), STEPS, MODEL_SIZE, PYTHON.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ -z "${PYTHON:-}" ]]; then
  PYTHON=python3
  if [[ -x .venv/bin/python ]]; then PYTHON=.venv/bin/python; fi
fi
DATA_GPU=${DATA_GPU:-0}
MODEL_GPU=${MODEL_GPU:-1}
RUN=${RUN:-runs/gpu-pipeline-example}
STEPS=${STEPS:-50}
MODEL_SIZE=${MODEL_SIZE:-tiny}
devices=(--data-gpu "$DATA_GPU" --model-gpu "$MODEL_GPU")
if [[ "${SIMULATE:-0}" == 1 ]]; then devices+=(--simulate); fi

say() { printf '\n== %s\n' "$*"; }

say "1. Is this machine ready?"
"$PYTHON" validate_dual_gpu_pipeline.py "${devices[@]}"

say "2. Recordings"
if [[ -z "${TRAIN_DATA:-}" ]]; then
  TRAIN_DATA=$RUN-corpus
  mkdir -p "$(dirname "$TRAIN_DATA")"
  "$PYTHON" -m myxtts data demo "$TRAIN_DATA" --voices 2 --sentences 80
fi
"$PYTHON" -m myxtts data check "$TRAIN_DATA"

say "3. Train: one device prepares batches while the other trains, each within its memory limit"
"$PYTHON" train_main.py --train-data "$TRAIN_DATA" --checkpoint-dir "$RUN" \
  "${devices[@]}" --enable-memory-isolation \
  --model-size "$MODEL_SIZE" --max-steps "$STEPS" --enable-static-shapes \
  --buffer-size 50 --prefetch-buffer-size 4 --pipeline-depth 3 --model-start-delay 2.0

say "4. How did it go?"
"$PYTHON" -m myxtts monitor "$RUN" --once

say "Next"
echo "Go on training:      the same command with more STEPS"
echo "What holds it back:  $PYTHON -m myxtts profile ${devices[*]} --train-data $TRAIN_DATA"
echo "Pass the voice on:   $PYTHON -m myxtts export $RUN my-voice"
