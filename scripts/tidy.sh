#!/usr/bin/env bash
# Static analysis with clang-tidy (.clang-tidy says which checks).
# usage: scripts/tidy.sh [FILE...]      default: all sources, over the build folder of the asan preset
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset asan >/dev/null
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  list=$(git ls-files '*.cpp' | grep -v -e '^tests/' -e '^bench/')
  mapfile -t files <<<"$list"
fi
printf '%s\n' "${files[@]}" |
  xargs -P "$(nproc)" -n 4 clang-tidy -p build/asan --quiet --warnings-as-errors='*' 2>/dev/null
