#!/bin/bash
# Checks the cuda backend on a machine with a GPU that has nothing of this project and no network.
#
#   tools/gpu_check.sh bundle [BAZEL FLAGS]   here: writes dist/gpu_check.tar.gz (below 60 MB);
#                                             the flags are --config=release --config=cuda by default
#   ./gpu_check.sh run [DEVICE]               there, in the unpacked bundle; cuda:0 by default
#
# The bundle has the daemon, the plug-in, the Python client with an interpreter and NumPy, the
# conformance tests and a benchmark. The driver, cuBLAS, cuDNN and cuSOLVER are the machine's own.
# `run` prints a table and fails if any step does; its logs are in ./log (or $OUT). On a GPU the rows
# of the operators that have two ways run both ways: by cuDNN and cuSOLVER, and without.
set -euo pipefail

limit=$((60 * 1000 * 1000))

fail() {
  echo "gpu_check: $*" >&2
  exit 1
}

# Shared objects that the given files load, without glibc's.
needed() {
  ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(ld-linux.*|lib(c|m|dl|rt|util|pthread|resolv))\.so[.0-9]*$' || true
}

# One copy by name in folder $1; libstdc++ goes to its fallback/, for machines without any.
copy_libraries() {
  local to=$1 library
  shift
  mkdir -p "$to/fallback"
  for library in "$@"; do
    case $(basename "$library") in
      libstdc++* | libgcc_s*) cp -Ln "$library" "$to/fallback/" ;;
      *) cp -Ln "$library" "$to/" ;;
    esac
  done
}

bundle() {
  cd "$(dirname "$0")/.."
  local venv="${CHXD_VENV:-$HOME/.cache/chxd/venv}"
  [ -x "$venv/bin/python" ] || fail "no Python environment at $venv: run tools/setup.sh"
  [ -d tests/conformance ] || fail "there is no tests/conformance"
  [ $# -gt 0 ] || set -- --config=release --config=cuda
  bazel build "$@" \
    //server:chxd //server/cuda:libchxd_cuda.so //python_client:chx/_core.so //python_client:wheel_stubs
  stage=$(mktemp -d)
  trap 'rm -rf "$stage"' EXIT
  local root="$stage/gpu_check" built=.bazel/bin
  mkdir -p "$root/bin" "$root/py/tests" "$root/python/lib" "$root/site" dist
  [ -e "$built/server/cuda/libchxd_cuda.so" ] || fail "no plug-in was built: is there a toolkit?"
  cp -L "$built/server/chxd" "$built/server/cuda/libchxd_cuda.so" "$root/bin/"
  tools/stage.sh "$root/py"
  cp -L tests/__init__.py "$root/py/tests/"
  cp -rL tests/conformance "$root/py/tests/"
  cp -L tests/perf/gpu_bench.py "$root/py/"
  cp tools/gpu_check.sh "$root/"
  chmod -R u+w "$root"
  strip --strip-unneeded "$root/bin/chxd" "$root/bin/libchxd_cuda.so" "$root/py/chx/_core.so"

  # The interpreter that the client is built for.
  local version
  version=$("$venv/bin/python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
  cp -L "/usr/bin/$version" "$root/python/python3"
  cp -rL "/usr/lib/$version" "$root/python/lib/"
  local lib="$root/python/lib/$version"
  rm -rf "$lib"/{test,idlelib,tkinter,lib2to3,ensurepip,turtledemo,distutils,pydoc_data,config-*} \
    "$lib"/lib-dynload/{_tkinter,_dbm,_gdbm,_curses,_curses_panel,_sqlite3,readline}.*.so
  local packages="$venv/lib/$version/site-packages" package
  for package in numpy numpy.libs pytest _pytest py.py pluggy iniconfig packaging; do
    [ -e "$packages/$package" ] || continue
    cp -rL "$packages/$package" "$root/site/"
  done
  cp -rL "$packages"/pytest-*.dist-info "$packages"/pluggy-*.dist-info "$root/site/"
  find "$root" -name __pycache__ -prune -exec rm -rf {} +
  find "$root/site/numpy" -type d -name tests -prune -exec rm -rf {} +

  mapfile -t libraries < <(needed "$root/bin/chxd" "$root/py/chx/_core.so" "$root/python/python3" \
    "$lib"/lib-dynload/*.so)
  copy_libraries "$root/lib" "${libraries[@]}"
  { git rev-parse HEAD && git status --porcelain | head -20; } >"$root/version.txt" 2>/dev/null || true

  tar -C "$stage" -czf dist/gpu_check.tar.gz gpu_check
  local size
  size=$(stat -c %s dist/gpu_check.tar.gz)
  ls -lh dist/gpu_check.tar.gz
  [ "$size" -lt "$limit" ] || fail "the bundle has $size bytes, more than $limit"
}

results=()
failed=0

# step NAME COMMAND...: runs it with its output in a log, and remembers the outcome.
step() {
  local name=$1 start=$SECONDS outcome=ok
  shift
  echo "== $name"
  if ! "$@" >"$log/$name.log" 2>&1; then
    outcome=FAILED
    failed=1
  fi
  tail -n "${tail_lines:-15}" "$log/$name.log"
  results+=("$(printf '%-16s %-8s %5d s  %s' "$name" "$outcome" $((SECONDS - start)) \
    "$(grep -E '(passed|failed|error|ready|chxd:)' "$log/$name.log" | tail -n 1)")")
}

# Starts the daemon, and stops it when it says that it is ready.
start_daemon() {
  local line=""
  coproc DAEMON { exec "$root/bin/chxd" --devices="$device" --listen="unix:$log/chxd.sock" 2>&1; }
  local pid=$DAEMON_PID
  read -r -t 120 line <&"${DAEMON[0]}" || true
  echo "$line"
  kill -TERM "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
  [[ $line == "chxd ready"* ]]
}

# find_library VARIABLE PATTERN: where the machine keeps it, if the plug-in would not find it by
# itself. The newest.
find_library() {
  local found
  found=$(find /usr/local /usr/lib /opt -name "$2" -printf '%f %p\n' 2>/dev/null |
    sort -rV | sed -n '1s/^[^ ]* //p')
  if [ -z "$found" ]; then
    echo "$2: not found"
    return 0
  fi
  LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$(dirname "$found")"
  export "$1=$found"
  echo "$2: $found"
}

# Fails if the log of an earlier step does not say that the daemon opened a library.
opened() {
  grep -o "chxd: cuda: $2: /.*" "$log/$1.log" || { echo "$2 was not used"; return 1; }
}

run() {
  root=$(cd "$(dirname "$0")" && pwd)
  device=${1:-cuda:0}
  [ -x "$root/bin/chxd" ] || fail "run this in an unpacked bundle (tools/gpu_check.sh bundle)"
  log=${OUT:-$root/log}
  mkdir -p "$log"
  case $device in
    cuda*) nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader ||
      fail "nvidia-smi does not run: is there a GPU?" ;;
  esac
  export LD_LIBRARY_PATH="$root/lib"
  if ldd "$root/bin/chxd" "$root/py/chx/_core.so" | grep -E 'libstdc|libgcc_s' | grep 'not found'; then
    LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$root/lib/fallback"
  fi
  case $device in
    cuda*)
      find_library CHXD_CUBLAS 'libcublas.so.1[23]'
      # cuDNN and cuSOLVER load others, by names that are looked for along LD_LIBRARY_PATH.
      find_library CHXD_CUDNN 'libcudnn.so.9'
      find_library CHXD_CUSOLVER 'libcusolver.so.1[12]'
      find_library CHXD_CUSPARSE 'libcusparse.so.12'
      find_library CHXD_NVJITLINK 'libnvJitLink.so.1[23]' ;;
  esac
  export PYTHONHOME="$root/python" PYTHONPATH="$root/py:$root/site" PYTHONDONTWRITEBYTECODE=1
  export CHX_CHXD="$root/bin/chxd" CHX_DEVICES="$device" PYTHONUNBUFFERED=1
  local python="$root/python/python3"
  cd "$root/py"
  step daemon start_daemon
  local rows=tests/conformance/conformance_test.py
  local both='conv or pool or solve or inv or svd or qr or cholesky or eig or det or matrix_power'
  both+=' or batch_norm or rnn'
  local pytest=("$python" -m pytest -p no:cacheprovider -q --maxfail=40 --tb=short)
  case $device in
    cuda*)
      # Small matrices too go to cuSOLVER.
      step conformance env CHXD_CUSOLVER_SMALLEST=0 "${pytest[@]}" -s \
        --junitxml="$log/conformance.xml" "$rows"
      step cudnn opened conformance 'cuDNN 9'
      step cusolver opened conformance cuSOLVER
      step without env CHXD_CUDNN=off CHXD_CUSOLVER=off "${pytest[@]}" \
        --junitxml="$log/without.xml" -k "$both" "$rows"
      ;;
    *) step conformance "${pytest[@]}" --junitxml="$log/conformance.xml" "$rows" ;;
  esac
  # What takes a GPU seconds takes a CPU half an hour.
  local scale=1
  [[ $device == cuda* ]] || scale=16
  tail_lines=80 step benchmark "$python" gpu_bench.py --device="$device" --scale="$scale"
  echo
  printf '%s\n' "${results[@]}"
  exit "$failed"
}

command=${1:-}
[ $# -gt 0 ] && shift
case $command in
  bundle) bundle "$@" ;;
  run) run "$@" ;;
  *) fail "usage: $0 bundle [BAZEL FLAGS] | run [DEVICE]" ;;
esac
