#!/usr/bin/env bash
# Configures and builds a preset; one line of progress a tenth, the whole output only if it fails.
# usage: scripts/build.sh PRESET [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
log="build/$preset.log"
mkdir -p build
show() {
  # On a terminal ninja's own line is progress enough; elsewhere every hundredth step is printed.
  if [ -t 1 ]; then
    awk '{ printf "\r\033[K%.100s", $0; fflush() } END { printf "\r\033[K" }'
  else
    awk '/^\[[0-9]+\/[0-9]+\]/ { split(substr($1, 2), n, "/"); if (int(n[1] * 4 / n[2]) > shown) {
           shown = int(n[1] * 4 / n[2]); print "build: " $1; fflush() } }'
  fi
}
if ! cmake --preset "$preset" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
targets=()
for target in "$@"; do
  targets+=(--target "$target")
done
if ! cmake --build --preset "$preset" "${targets[@]}" 2>&1 | tee -a "$log" | show; then
  grep -v '^\[[0-9]*/[0-9]*\]' "$log" | tail -n 60 >&2
  echo "the build failed; the whole output is in $log" >&2
  exit 1
fi
