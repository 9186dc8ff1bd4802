#!/bin/bash
# Installs the wheel of tools/wheel.sh in a new environment, in which nothing of this checkout can be
# found, and trains two steps there with the daemon that the wheel brings.
set -euo pipefail
cd "$(dirname "$0")/.."
wheels=(dist/chx-*.whl)
[ -e "${wheels[0]}" ] || { echo "no dist/chx-*.whl: run tools/wheel.sh" >&2; exit 1; }
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
/usr/bin/python3 -m venv "$home/venv"
"$home/venv/bin/pip" install -q --disable-pip-version-check "${wheels[0]}" \
  "$(grep '^numpy==' tools/requirements.txt)"
cat >"$home/two_steps.py" <<'PYTHON'
import os
import sys

import numpy as np

import chx

site = os.path.dirname(os.path.dirname(chx.__file__))
assert site.startswith(sys.prefix), site
with open("/proc/self/maps") as maps:
    mapped = {line.split()[-1] for line in maps}
protobuf = {path for path in mapped if "libprotobuf" in path}
assert protobuf and all(path.startswith(site) for path in protobuf), protobuf
assert not any("libgrpc" in path for path in mapped), mapped
files = os.listdir(os.path.dirname(chx.__file__))
assert {"py.typed", "_core.pyi", "_ops.pyi", "_linalg_ops.pyi", "linalg.pyi", "__init__.pyi", "chainerx"} <= set(files), files

session = chx.connect()
daemon = os.readlink(f"/proc/{session._daemon.process.pid}/exe")
assert daemon == os.path.join(site, "chx", "bin", "chxd"), daemon
chx.random.seed(1)
x = chx.random.normal(size=(100, 4), dtype="float32")
t = (x.sum(1, keepdims=True) > 0).astype("int32")
w = chx.zeros((1, 4)).require_grad()
losses = []
for _ in range(2):
    loss = chx.mean(chx.sigmoid_cross_entropy(chx.linear(x, w), t))
    loss.backward()
    values = w.as_grad_stopped()
    values -= w.grad
    w.cleargrad()
    losses.append(float(loss))
assert abs(losses[0] - np.log(2)) < 1e-6 and losses[1] < losses[0], losses
print("two steps with", daemon.removeprefix(sys.prefix), "losses", losses)
PYTHON
cd "$home"
env -i PATH=/usr/bin:/bin HOME="$home" "$home/venv/bin/python" two_steps.py
