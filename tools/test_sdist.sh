#!/bin/bash
# Installs dist/chx-*.tar.gz of `tools/wheel.sh sdist` by pip, which builds it by Bazel, in a new
# environment, and computes there. --no-build-isolation: setuptools and wheel are the pinned ones.
set -euo pipefail
cd "$(dirname "$0")/.."
archives=("$PWD"/dist/chx-*.tar.gz)
[ -e "${archives[0]}" ] || { echo "no dist/chx-*.tar.gz: run tools/wheel.sh sdist" >&2; exit 1; }
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
/usr/bin/python3 -m venv "$home/venv"
pip=("$home/venv/bin/pip" install -q --disable-pip-version-check --no-deps)
mapfile -t needed < <(grep -E '^(setuptools|wheel|numpy)==' tools/requirements.txt)
"${pip[@]}" "${needed[@]}"
cd "$home"
mkdir tmp
TMPDIR="$home/tmp" "${pip[@]}" --no-build-isolation "${archives[0]}"
env -u PYTHONPATH "$home/venv/bin/python" -c '
import sys, chx
assert chx.__file__.startswith(sys.prefix), chx.__file__
x = chx.arange(4).astype("float32").require_grad()
chx.sum(x * x).backward()
assert x.grad.tolist() == [0, 2, 4, 6], x.grad
print("installed from", sys.argv[1])' "${archives[0]}"
[ -z "$(ls tmp)" ] || { echo "the build has left behind:" tmp/* >&2; exit 1; }
