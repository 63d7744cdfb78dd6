#!/usr/bin/env bash
# Static analysis with clang-tidy (.clang-tidy says which checks).
# usage: scripts/tidy.sh [FILE...]      default: all sources that are built
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset asan >/dev/null
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  list=$(git ls-files '*.cpp' | grep -v -e '^tests/' -e '^bench/')
  mapfile -t files <<<"$list"
fi
# Sanitizers leave some files out (cmake/mpi.cmake); the release preset has them, where it was built.
check() {
  local preset=$1
  shift
  [ $# -eq 0 ] || printf '%s\n' "$@" |
    xargs -P "$(nproc)" -n 4 clang-tidy -p "build/$preset" --quiet --warnings-as-errors='*' 2>/dev/null
}
builds() { grep -qs "\"file\": .*/$2\"" "build/$1/compile_commands.json"; }
sanitized=()
released=()
for file in "${files[@]}"; do
  if builds asan "$file"; then
    sanitized+=("$file")
  elif builds release "$file"; then
    released+=("$file")
  else
    echo "skipped, not built here: $file"
  fi
done
check asan "${sanitized[@]}"
check release "${released[@]}"
