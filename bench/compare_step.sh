#!/usr/bin/env bash
# Training steps of ringgrad and PyTorch side by side: both run at once, take turns step by step, and the
# medians of 9 rounds give one line per work. PyTorch runs in its better memory format.
# usage: bench/compare_step.sh [WORK...]      default: all works; THREADS=N, ROUNDS=N, DEVICE=cpu
set -euo pipefail
cd "$(dirname "$0")/.."
unset OPENBLAS_CORETYPE
threads=${THREADS:-$(nproc)}
rounds=${ROUNDS:-9}
export OMP_NUM_THREADS=$threads

scripts/build.sh release bench_step
. bench/peers/torch.sh

works=("$@")
[ ${#works[@]} -gt 0 ] || works=(cifar-net resnet18-224 resnet18-32)
for work in "${works[@]}"; do
  case "$work" in
    cifar-net) batch=64 steps=9 ;;
    resnet18-224) batch=16 steps=1 ;;
    resnet18-32) batch=64 steps=3 ;;
    *) echo "unknown work $work" >&2; exit 2 ;;
  esac
  peer="$peer_venv/bin/python bench/peers/torch_step.py --work $work --threads $threads"
  python bench/peers/alternate.py "$work" "$batch" "$rounds" "$steps" \
    "build/release/bench/bench_step --serve --work $work --threads $threads --device ${DEVICE:-cpu}" \
    "$peer" "$peer --channels-last"
done
