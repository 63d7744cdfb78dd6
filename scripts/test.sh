#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests.
# usage: scripts/test.sh [quick|full] [PRESET] [CTEST ARGUMENT...]
#   quick (the default): each at most some seconds; full: everything. PRESET: release (the default), asan, tsan …
set -euo pipefail
cd "$(dirname "$0")/.."
which=${1:-quick}
preset=${2:-release}
shift $(($# < 2 ? $# : 2))
case "$which" in
  quick) labels=(-L quick) ;;
  full) labels=() ;;
  *)
    sed -n '2,4s/^# //p' "$0" >&2
    exit 2
    ;;
esac

lists=(scripts/packages.txt)
case "$preset" in asan | tsan) lists+=(scripts/packages_checks.txt) ;; esac
scripts/install.sh "${lists[@]}"
scripts/build.sh "$preset"

report="build/$preset/test-report.xml"
code=0
ctest --preset "$preset" "${labels[@]}" -j "$(nproc)" --output-junit "test-report.xml" --quiet "$@" || code=$?
attribute() { grep -o -m1 "\b$1=\"[0-9]*\"" "$report" | tr -dc 0-9; }
tests=$(attribute tests)
failed=$(attribute failures)
skipped=$(attribute skipped)
disabled=$(attribute disabled)
if [ "$code" -ne 0 ]; then
  ctest --preset "$preset" --rerun-failed --output-on-failure || true
fi
echo "$((tests - failed - skipped - disabled)) passed, $failed failed, $((skipped + disabled)) skipped" |
  tee "build/$preset/test-summary.txt"
exit "$code"
