#!/usr/bin/env bash
# Configures and builds a preset; one line of progress a tenth, the whole output only if it fails.
# usage: scripts/build.sh PRESET [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
log="build/$preset.log"
mkdir -p build
# Objects are found again by another clone on the same machine.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
# Ninja's "[done/total] step" lines: on a terminal one that is overwritten, elsewhere one each quarter.
show() {
  local line counts done total shown=0
  while IFS= read -r line; do
    case "$line" in
      \[*/*\]*) ;;
      *) continue ;;
    esac
    counts=${line%%]*}
    done=${counts#[}
    done=${done%/*}
    total=${counts#*/}
    if [ -t 1 ]; then
      printf '\r\033[K%.100s' "$line"
    elif [ $((4 * done / total)) -gt "$shown" ]; then
      shown=$((4 * done / total))
      echo "build $preset: $done of $total"
    fi
  done
  [ ! -t 1 ] || printf '\r\033[K'
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
