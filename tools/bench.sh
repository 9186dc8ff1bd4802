#!/bin/bash
# Benchmarks against PyTorch (CPU; two versions), JAX (CPU), NumPy Chainer 7.8.1, raw gRPC and memcpy,
# all in one run. Writes bench.json and the tables in docs/performance.md and README.md.
# `tools/bench.sh --rounds 5` is quicker.
# `tools/bench.sh ops`: each operator against the newest PyTorch (CPU); writes ops.json and the tables in
# docs/performance_ops.md. `tools/bench.sh ops sort 10^7`: only what matches; writes nothing.
# `tools/bench.sh transfers [SIZE...]`: bulk transfers against memcpy; writes nothing.
# `tools/bench.sh gpt`: a small GPT's steps against PyTorch, time and peak memory; writes nothing.
# `tools/bench.sh embedding`: SGD over a large table, its rows or the whole, against PyTorch; writes nothing.
# `tools/bench.sh busy [SESSIONS]`: what others wait beside a thousand busy sessions; writes nothing.
# `tools/bench.sh observability [--against=CHXD]`: what metrics and logs cost; writes nothing.
# `tools/bench.sh shared [PROCESSES]`: arrays that processes share; writes nothing.
# `tools/bench.sh fairness [equal] [weights] [hogs] [idle]`: how sessions share a daemon; writes nothing.
# `tools/bench.sh collectives`: all_reduce between ranks of one daemon and of several, against Gloo and
# the newest PyTorch, and how much of it is hidden behind a backward pass; writes nothing.
# `tools/bench.sh dlpack`: no benchmark: exchanges arrays with both versions of PyTorch, and JAX, by DLPack.
# `tools/bench.sh snapshot`: sessions to disk and back, against a plain file; writes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
# The fastest kernels of OpenBLAS, chxd's and NumPy's. NumPy's does not know newer AMD processors.
unset "${!OPENBLAS_@}"
if grep -qw avx512vl /proc/cpuinfo; then export OPENBLAS_CORETYPE=SkylakeX; fi
venv="${CHXD_BENCH_VENV:-$HOME/.cache/chxd/bench-venv}"
new_venv="${CHXD_BENCH_NEW_VENV:-$HOME/.cache/chxd/bench-new-venv}"

# make_venv DIR REQUIREMENTS [PIP_OPTION...]: unless it is there already.
make_venv() {
  local want
  want=$(sha256sum "$2" | cut -c1-16)
  [ "$(cat "$1/.requirements" 2>/dev/null || true)" != "$want" ] || return 0
  rm -rf "$1"
  /usr/bin/python3 -m venv "$1"
  "$1/bin/pip" install -q --disable-pip-version-check wheel setuptools==70.3.0
  "$1/bin/pip" install -q --disable-pip-version-check "${@:3}" -r "$2"
  echo "$want" >"$1/.requirements"
}
make_venv "$venv" tools/requirements-bench.txt
case "${1:-}" in
  "" | --* | ops | gpt | embedding | collectives | dlpack) make_venv "$new_venv" tools/requirements-bench-new.txt --no-deps ;;
esac
# Without the CUDA backend, which takes some ten minutes to compile.
bazel build --config=release //server:chxd //server/gloo:libchxd_gloo.so //python_client \
  //tests/perf:native_bench //tests/perf:raw_gloo
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
tools/stage.sh "$stage"

if [ "${1:-}" = ops ]; then
  shift
  write=(--out=ops.json)
  [ $# -eq 0 ] || write=()
  PYTHONPATH="$stage" "$new_venv/bin/python" tests/perf/op_bench.py "${write[@]}" "$@"
  [ ${#write[@]} -eq 0 ] || "$venv/bin/python" tests/perf/op_report.py ops.json docs/performance_ops.md
  exit
fi

if [ "${1:-}" = collectives ]; then
  shift
  PYTHONPATH="$stage" "$new_venv/bin/python" tests/perf/collectives_bench.py "$@"
  PYTHONPATH="$stage" "$new_venv/bin/python" tests/perf/data_parallel_bench.py
  exit
fi

case "${1:-}" in
  transfers | snapshot | busy | observability | shared | fairness)
    bench=tests/perf/${1/%transfers/transfer}_bench.py
    shift
    PYTHONPATH="$stage:$PWD" "$venv/bin/python" "$bench" --chxd=.bazel/bin/server/chxd "$@"
    exit
    ;;
esac

if [ "${1:-}" = embedding ]; then
  shift
  PYTHONPATH="$stage" "$new_venv/bin/python" tests/perf/embedding_bench.py "$@"
  exit
fi

if [ "${1:-}" = dlpack ]; then
  for each in "$venv" "$new_venv"; do
    CHX_CHXD=.bazel/bin/server/chxd PYTHONPATH="$stage" "$each/bin/python" tests/perf/dlpack_check.py
  done
  exit
fi

if [ "${1:-}" = gpt ]; then
  shift
  CHX_CHXD=.bazel/bin/server/chxd PYTHONPATH="$stage" "$venv/bin/python" tests/perf/gpt_bench.py \
    --new-python="$new_venv/bin/python" "$@"
  exit
fi
coproc DAEMON {
  exec .bazel/bin/server/chxd --listen="unix:$stage/chxd.sock,127.0.0.1:0" --allow-unauthenticated-loopback
}
daemon=$DAEMON_PID
.bazel/bin/server/chxd --threads=1 --listen="unix:$stage/one.sock" --log-level=warning &
one_thread=$!
trap 'kill -TERM $daemon $one_thread 2>/dev/null || true; rm -rf "$stage"' EXIT
read -r _ _ unix tcp <&"${DAEMON[0]}"

export CHX_SERVER="$unix"
PYTHONPATH="$stage" "$venv/bin/python" tests/perf/same_gradients.py
PYTHONPATH="$stage" "$venv/bin/python" tests/perf/bench.py --unix="$unix" --tcp="$tcp" \
  --unix-one-thread="unix:$stage/one.sock" \
  --new-python="$new_venv/bin/python" --native=.bazel/bin/tests/perf/native_bench --out=bench.json "$@"
"$venv/bin/python" tests/perf/report.py bench.json docs/performance.md README.md
