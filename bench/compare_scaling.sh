#!/usr/bin/env bash
# Data-parallel training steps of ringgrad beside PyTorch's DistributedDataParallel over Gloo (in its better
# memory format): one batch shared by 2 single-thread ranks, all take turns. Medians of the rounds.
# usage: bench/compare_scaling.sh [WORK...]      default: resnet18-32; RANKS=2, ROUNDS=N (5)
set -euo pipefail
cd "$(dirname "$0")/.."
unset OPENBLAS_CORETYPE
ranks=${RANKS:-2}
threads=$(($(nproc) / ranks))
[ "$threads" -gt 0 ] || threads=1
scripts/build.sh release bench_scaling ringgrad_command
. bench/peers/torch.sh

works=("$@")
[ ${#works[@]} -gt 0 ] || works=(resnet18-32)
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
for work in "${works[@]}"; do
  : >"$lines"
  peer() { python bench/peers/torch_scaling.py --work "$work" --ranks "$ranks" --threads "$threads" "$@"; }
  for round in $(seq "${ROUNDS:-5}"); do
    echo "$work, round $round" >&2
    build/release/bench/bench_scaling --work "$work" --ranks "$ranks" --steps 15 >>"$lines"
    echo "ddp $(peer) images/s" >>"$lines"
    echo "ddp-channels-last $(peer --channels-last) images/s" >>"$lines"
  done
  python bench/peers/scaling_ratios.py "$work" "$ranks" <"$lines"
done
