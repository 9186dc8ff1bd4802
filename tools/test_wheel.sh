#!/bin/bash
# Installs each wheel of tools/wheel.sh in new environments of its Python, in which nothing of this
# checkout can be found: with the newest NumPy and with an old one (tools/requirements-wheel*.txt).
# Trains two steps there with the daemon that the wheel brings, and with the newest NumPy runs most of
# the tests of the Python client.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
wheels=("$root"/dist/chx-*.whl)
[ -e "${wheels[0]}" ] || { echo "no dist/chx-*.whl: run tools/wheel.sh" >&2; exit 1; }
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
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

try:
    chx.connect(devices="cuda:0")
    raise SystemExit("there is no plug-in for GPUs")
except ConnectionError as error:
    assert "`pip install chx[cuda]`" in str(error), error

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
print("Python %d.%d," % sys.version_info[:2], "NumPy", np.__version__, end=": ")
print("two steps with", daemon[len(sys.prefix) :], "losses", losses)
PYTHON

# The tests of the client, without those of the checkout's files and those that take long and have
# nothing to do with NumPy.
mkdir -p "$home/suite/tests" "$home/suite/python_client"
cp tests/__init__.py "$home/suite/tests/"
cp -r tests/integration "$home/suite/tests/"
cp -r python_client/tests "$home/suite/python_client/"
left_out='cancel|chainerx_install|docs|examples|fork|gpu_plugin|identity|import_cycles|lifetime|session|stubs|typing|versions'
mapfile -t suite < <(
  cd "$home/suite" && printf "%s\n" python_client/tests/*_test.py | grep -vE "/($left_out)_test.py"
  printf 'tests/integration/%s_test.py\n' daemons function integration shared_memory staging
)

# make_venv NAME PYTHON WHEEL REQUIREMENTS
make_venv() {
  "$2" -m venv "$home/$1"
  "$home/$1/bin/pip" install -q --disable-pip-version-check --no-deps -r "$root/tools/$4" "$3"
}

# run_suite VENV: each file in a process of its own, as many at a time as there are cores.
run_suite() {
  local logs="$home/$1.logs" chxd
  chxd=$("$home/$1/bin/python" -c 'import chx, os; print(os.path.dirname(chx.__file__))')/bin/chxd
  mkdir "$logs"
  # shellcheck disable=SC2016  # For the inner shell.
  printf '%s\n' "${suite[@]}" | (cd "$home/suite" && xargs -P"$(nproc)" -I{} \
    env -i PATH=/usr/bin:/bin HOME="$home" CHX_CHXD="$chxd" PYTHONDONTWRITEBYTECODE=1 \
    bash -c 'log="$3/$(basename "$1").log"
      "$2/bin/python" -m pytest -p no:cacheprovider -q "$1" >"$log" 2>&1 || { cat "$log"; exit 1; }' \
    _ {} "$home/$1" "$logs")
  tail -qn1 "$logs"/*.log | sed -nE 's/^([0-9]+) passed.*/\1/p' |
    awk '{ n += $1 } END { print n, "tests of the client passed" }'
}

cd "$home"
for wheel in "${wheels[@]}"; do
  version=$(sed -E 's/.*-cp3([0-9]+)-.*/3.\1/' <<<"$wheel")
  python=$(/usr/bin/python3 "$root/bazel/python/find_pythons.py" | sed -n "s/^$version \([^ ]*\) .*/\1/p")
  [ -n "$python" ] || { echo "no Python $version for $wheel" >&2; exit 1; }
  for requirements in requirements-wheel.txt requirements-wheel-old.txt; do
    venv="$version-$requirements"
    make_venv "$venv" "$python" "$wheel" "$requirements"
    env -i PATH=/usr/bin:/bin HOME="$home" "$home/$venv/bin/python" two_steps.py
  done
  run_suite "$version-requirements-wheel.txt"
done

# The plug-in for GPUs, if it was built: the daemon of the last environment opens it, and may miss a
# driver.
plugins=("$root"/dist/chx_cuda-*.whl)
if [ -e "${plugins[0]}" ]; then
  "$home/$venv/bin/pip" install -q --disable-pip-version-check --no-deps "${plugins[0]}"
  env -i PATH=/usr/bin:/bin HOME="$home" "$home/$venv/bin/python" -c '
import chx
try:
    print(chx.connect(devices="cuda:0").devices)
except ConnectionError as error:
    assert "chx_cuda/libchxd_cuda.so: no NVIDIA driver" in str(error), error
    print("the plug-in for GPUs finds no driver")'
fi
