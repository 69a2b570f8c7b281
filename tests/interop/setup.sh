#!/usr/bin/env bash
# Installs the third-party software of the interop tests if possible (on Debian, as root), and
# prints a line for each missing tool. It never fails: tests without their software are skipped.
set -uo pipefail
cd "$(dirname "$0")/../.."

declare -A packages=([javac]=default-jdk-headless [mvn]=maven [kcat]=kcat [chromium]=chromium)

install() {
  export DEBIAN_FRONTEND=noninteractive
  [ "$(id -u)" = 0 ] && command -v apt-get && apt-get -qq update &&
    apt-get -qq install -y --no-install-recommends "$1"
}

for tool in "${!packages[@]}"; do
  command -v "$tool" >/dev/null || install "${packages[$tool]}" >/dev/null 2>&1 </dev/null
  command -v "$tool" >/dev/null || echo "interop: no $tool, and it can't be installed here"
done
.venv/bin/python -m tests.interop.fetch
