#!/bin/bash
# The main job, from a bare machine: sets up, builds, starts chxd, trains the mushroom classifier,
# stops. Results go to demo-results/. Arguments are given to python_client/examples/mushrooms.py.
# tools/demo.sh --detach: one process starts the training and ends, while the daemon goes on by itself;
# another one attaches to it, waits, and draws the curves.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
venv="${CHXD_VENV:-$HOME/.cache/chxd/venv}"
# As in tools/wheel.sh: CI gives the options of its own build.
read -ra bazel <<<"${BAZEL:-bazel}"
# shellcheck disable=SC2086  # Several options.
"${bazel[@]}" build ${CHXD_BAZEL_OPTIONS:---config=release} //server:chxd //python_client
root=$(pwd)
stage=$(mktemp -d)
tools/stage.sh "$stage"

"$root/.bazel/bin/server/chxd" --listen="unix:$stage/chxd.sock" &
daemon=$!
stop() {
  kill -TERM "$daemon" 2>/dev/null && wait "$daemon" || true
  rm -rf "$stage"
}
trap stop EXIT
for _ in $(seq 100); do [ -S "$stage/chxd.sock" ] && break; sleep 0.1; done

mushrooms() {
  PYTHONPATH="$stage" "$venv/bin/python" python_client/examples/mushrooms.py \
    --server="unix:$stage/chxd.sock" --out=demo-results --min-accuracy=0.97 "$@"
}
mushrooms "$@"
others=()
for argument; do [ "$argument" = --detach ] || others+=("$argument"); done
if [ ${#others[@]} -lt $# ]; then mushrooms --attach "${others[@]}"; fi
