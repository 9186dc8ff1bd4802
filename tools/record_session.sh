#!/bin/bash
# tools/record_session.sh VERSION: records tests/compatibility/client_VERSION.bin, a session of this
# client with this daemon, and its results. tests/compatibility/compatibility_test.py replays it.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
read -ra bazel <<<"${BAZEL:-bazel}"
# shellcheck disable=SC2086  # Several options.
"${bazel[@]}" build ${CHXD_BAZEL_OPTIONS:---config=ci} //python_client //server:chxd
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
tools/stage.sh "$stage"
CHX_CHXD=$PWD/.bazel/bin/server/chxd PYTHONPATH=$PWD:$stage PYTHONDONTWRITEBYTECODE=1 \
  "${CHXD_VENV:-$HOME/.cache/chxd/venv}/bin/python" -m tests.compatibility.record \
  "tests/compatibility/client_$1.bin"
