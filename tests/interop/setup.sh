#!/usr/bin/env bash
# Installs the other software that tests are held against, where it may (Debian, as root), and
# says in one line what is missing. Never fails: the tests say what they skip.
set -uo pipefail
cd "$(dirname "$0")/../.."

missing=()
command -v javac >/dev/null || missing+=(openjdk-17-jdk-headless)
command -v mvn >/dev/null || missing+=(maven)
command -v kcat >/dev/null || missing+=(kcat)

if [ ${#missing[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  { apt-get -qq update && apt-get -qq install -y --no-install-recommends "${missing[@]}"; } \
    </dev/null >/dev/null 2>&1 || true
fi

for tool in javac mvn kcat; do
  command -v $tool >/dev/null || echo "interop: no $tool, and it can't be installed here"
done
.venv/bin/python -m tests.interop.kafka_jars >/dev/null || echo "interop: no jars of Kafka"
