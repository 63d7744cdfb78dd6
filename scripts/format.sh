#!/usr/bin/env bash
# Formats all C++ and CUDA files; with --check, only says which differ.
set -euo pipefail
cd "$(dirname "$0")/.."
list=$(git ls-files --cached --others --exclude-standard '*.h' '*.cpp' '*.cu')
mapfile -t files <<<"$list"
if [ "${1:-}" = "--check" ]; then
  clang-format --dry-run --Werror "${files[@]}"
else
  clang-format -i "${files[@]}"
fi
