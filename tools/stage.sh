#!/bin/bash
# tools/stage.sh DIR: copies the built package chx into DIR/chx, to run from outside of Bazel. Build
# //python_client first.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "$1/chx"
cp -rL python_client/chx/. "$1/chx/"
find "$1/chx" -name __pycache__ -prune -exec rm -r {} +
cp -L .bazel/bin/python_client/chx/_core.so "$1/chx/"
chmod -R u+w "$1/chx"
