#!/bin/bash
# tools/doxygen.sh [DIR]: pages of the public C++ headers in DIR, by default dist/docs/cpp. Fails on
# doxygen's warnings, and on a class, a function or a type without a comment. Members whose names say
# all need none, nor do those of ChainerX's API, which mean what they mean in ChainerX.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-dist/docs/cpp}")
read -ra bazel <<<"${BAZEL:-bazel}"
# shellcheck disable=SC2086  # Several options.
"${bazel[@]}" build ${CHXD_BAZEL_OPTIONS:---config=dev} //sdk:headers
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir "$stage/include"
tar -xf .bazel/bin/sdk/headers.tar -C "$stage/include"
rm -rf "$out"
mkdir -p "$out"
CHX_VERSION=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' python_client/chx/_version.py) \
  CHX_INCLUDE=$stage/include CHX_OUT=$out doxygen docs/doxygen/Doxyfile 2>"$stage/warnings"
if grep -vE 'Member .* of (class|struct|namespace chainerx).* is not documented|Compound chainerx::' "$stage/warnings" >&2; then
  echo "tools/doxygen.sh: the headers lack comments, or have ones that doxygen cannot read" >&2
  exit 1
fi
echo "$out/index.html"
