#!/usr/bin/env bash
# Installs the Debian packages that the given lists name and this machine lacks.
# usage: scripts/install.sh LIST...        for example scripts/packages.txt
set -euo pipefail

missing=()
for package in $(cat "$@" | sed 's/#.*//'); do
  if ! dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed; then
    missing+=("$package")
  fi
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi

command="apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -eq 0 ]; then
  sudo=""
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; }; then
  sudo="sudo"
else
  echo "These packages are missing, and installing them needs root. Please run:" >&2
  echo "  sudo apt-get update && sudo $command" >&2
  exit 1
fi

echo "installing ${#missing[@]} packages: ${missing[*]}"
log=$(mktemp)
if ! { $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive $command -qq; } >"$log" 2>&1; then
  cat "$log" >&2
  echo "the installation failed; its output is above" >&2
  exit 1
fi
rm -f "$log"
