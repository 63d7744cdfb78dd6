#!/usr/bin/env bash
# All-reduce of ringgrad beside Gloo (chunked ring) and Open MPI: all take turns, and the medians give
# one line per path, ranks and size. ratio: our speed by that of the better peer.
# usage: bench/compare_allreduce.sh [BYTES...]      ROUNDS=N (3), RANKS="2 4"
set -euo pipefail
cd "$(dirname "$0")/.."
unset OPENBLAS_CORETYPE
scripts/install.sh scripts/packages_bench.txt
scripts/build.sh release bench_allreduce mpi_allreduce gloo_allreduce ringgrad_command
sizes=("$@")
[ ${#sizes[@]} -gt 0 ] || sizes=(4 1024 16384 65536 1048576 4194304 26214400 67108864)
build=$PWD/build/release
tables=$(mktemp -d)
trap 'rm -rf "$tables"' EXIT
# A job that mpirun starts as root says so.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

ours() { "$build/ringgrad" launch -np "$1" -- "$build/bench/bench_allreduce" "$2" "$3" "${sizes[@]}"; }
mpi() { mpirun --oversubscribe "${@:2}" -np "$1" "$build/bench/mpi_allreduce" "${sizes[@]}"; }
gloo() {
  local folder
  folder=$(mktemp -d -p "$tables")
  "$build/ringgrad" launch -np "$1" -- "$build/bench/gloo_allreduce" "$folder" "${sizes[@]}"
}
for round in $(seq "${ROUNDS:-3}"); do
  for ranks in ${RANKS:-2 4}; do
    echo "round $round, $ranks ranks" >&2
    run() { "${@:2}" >>"$tables/$ranks.$1" 2>>"$tables/errors" || { cat "$tables/errors" >&2; exit 1; }; }
    run shared ours "$ranks" shared auto
    run foreign ours "$ranks" foreign auto
    run tcp ours "$ranks" foreign tcp
    run threads "$build/bench/bench_allreduce" shared "threads:$ranks" "${sizes[@]}"
    run gloo gloo "$ranks"
    run mpi mpi "$ranks"
    run mpi-tcp mpi "$ranks" --mca btl self,tcp
  done
done
echo "TCP's congestion control: $(cat /proc/sys/net/ipv4/tcp_congestion_control)"
python3 bench/peers/allreduce_ratios.py "$tables"
