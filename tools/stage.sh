#!/bin/bash
# tools/stage.sh DIR [VERSION]: copies the built package chx into DIR/chx, to run from outside of
# Bazel; for Debian's Python, or for another VERSION such as 3.9. Build //python_client, or
# //python_client:VERSION/chx/_core.so, first.
set -euo pipefail
cd "$(dirname "$0")/.."
core=python_client/chx/_core.so
if [ "${2:-3.11}" != 3.11 ]; then core=python_client/$2/chx/_core.so; fi
mkdir -p "$1/chx"
cp -rL python_client/chx/. "$1/chx/"
find "$1/chx" -name __pycache__ -prune -exec rm -r {} +
cp -L ".bazel/bin/$core" "$1/chx/_core.so"
chmod -R u+w "$1/chx"
