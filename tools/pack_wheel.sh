#!/bin/bash
# tools/pack_wheel.sh VERSION DIR PYTHON: packs what Bazel has built for one version of Python (3.9,
# ...) into a wheel in DIR that needs the libraries of this system. PYTHON has setuptools and wheel.
# tools/wheel.sh makes wheels for other systems of it.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
mkdir -p "$2"
out=$(realpath "$2")
python=$3

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
tools/stage.sh "$stage" "$version"
mkdir -p "$stage/chx/bin"
(cd .bazel/bin/python_client && find chx -name '*.pyi' -exec cp -L --parents {} "$stage/" \;)
cp -L .bazel/bin/server/chxd "$stage/chx/bin/chxd"
# What chxd opens beside itself, if it is there.
cp -L /usr/lib/x86_64-linux-gnu/libdnnl.so.2 .bazel/bin/server/gloo/libchxd_gloo.so "$stage/chx/bin/"
cp python_client/setup.py README.md LICENSE "$stage/"
chmod -R u+w "$stage"
strip --strip-unneeded "$stage/chx/_core.so" "$stage/chx/bin/chxd" "$stage/chx/bin/libchxd_gloo.so"
chmod 755 "$stage/chx/bin/chxd"
cd "$stage"
CHX_WHEEL_PYTHON=$version "$python" setup.py -q bdist_wheel --dist-dir "$out" 2>"$stage/log" || {
  cat "$stage/log" >&2
  exit 1
}
