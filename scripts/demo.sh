#!/usr/bin/env bash
# From a fresh clone to a trained network: installs what is missing, builds, trains the CIFAR network on
# Fashion-MNIST, and evaluates what it saved.
# Then ten steps on four emulated GPUs: the CUDA kernels, checked to leave the same bits on all four.
# usage: scripts/demo.sh [RUN FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
run=${1:-}
for ((n = 1; ${#run} == 0; ++n)); do
  [ -e "runs/demo-$n" ] || run=runs/demo-$n
done

scripts/install.sh scripts/packages.txt scripts/packages_demo.txt
echo "building"
scripts/build.sh release ringgrad_command
ringgrad=build/release/ringgrad

echo "training: 4 passes over 60,000 images, on two replicas that average their gradients"
"$ringgrad" train --data idx:/usr/share/datasets/fashion-mnist --epochs 4 --replicas 2 \
  --batch-size 64 --lr 0.08 --schedule cosine --out "$run"
echo
echo "evaluating the checkpoint from its file"
"$ringgrad" eval "$run"
echo
echo "ten steps of the CUDA kernels on four emulated K80s"
"$ringgrad" train --device emulated:k80x4 --replicas all --data synthetic:32x32 --samples 320 \
  --batch-size 8 --epochs 1 --out "$run-emulated"
echo "the weights of the four were compared after the last step: they are equal bit for bit"
cat <<EOF

What to try next:
  $ringgrad inspect $run                     what the checkpoint holds
  $ringgrad train --resume --out $run --epochs 6     two more epochs
  $ringgrad train --help                            your own images, ResNet-18, every setting
EOF
