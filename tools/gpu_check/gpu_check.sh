#!/bin/bash
# Checks the cuda backend on a machine with a GPU that has nothing of this project and no network: in
# the unpacked bundle of tools/gpu_check.sh.
#
#   ./gpu_check.sh run [DEVICE]    all steps, one after the other; DEVICE is cuda:0 by default
#   ./gpu_check.sh STEP [DEVICE]   one of them:
#     smoke           a daemon starts, and some operators give what NumPy gives
#     memcheck        the same under compute-sanitizer, where there is one
#     conformance     every operator against NumPy, by sessions of one daemon, on all cores; what is
#                     done is not done again
#     libraries-off   rows of operators that have two ways, without cuDNN and cuSOLVER
#     nccl            collectives between GPUs: a group of one rank, and of two and four, as far as
#                     there are GPUs
#     faults          sessions beside others that crash, take all memory, or never end
#     bench           operators, transfers, training steps; beside PyTorch where the machine's python3
#                     has it
#     sessions        training steps by several clients at once
#     table           what the logs say so far
#
# Each ends within $GPU_CHECK_SECONDS (540). The driver, cuBLAS, cuDNN, cuSOLVER and NCCL are
# the machine's.
# Results are in $OUT (./log): STEP.log, STEP.outcome, conformance/*.xml.
set -uo pipefail

root=$(cd "$(dirname "$0")" && pwd)
step=${1:-}
device=${2:-cuda:0}
log=${OUT:-$root/log}
seconds=${GPU_CHECK_SECONDS:-540}
shards=${GPU_CHECK_SHARDS:-16}
end=$((SECONDS + seconds))
steps='smoke conformance libraries-off nccl faults bench sessions memcheck'
machine_libraries=${LD_LIBRARY_PATH:-}

fail() {
  echo "gpu_check: $*" >&2
  exit 1
}

left() { echo $((end > SECONDS ? end - SECONDS : 1)); }

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

environment() {
  [ -x "$root/bin/chxd" ] || fail "run this in an unpacked bundle (tools/gpu_check.sh bundle)"
  mkdir -p "$log/conformance"
  # The driver's libraries may be found by the machine's own setting only.
  export LD_LIBRARY_PATH="$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:/usr/local/nvidia/lib64:/usr/local/nvidia/lib"
  if ldd "$root/bin/chxd" "$root/py/chx/_core.so" | grep -E 'libstdc|libgcc_s' | grep -q 'not found'; then
    LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$root/lib/fallback"
  fi
  case $device in
    cuda*)
      find_library CHXD_CUBLAS 'libcublas.so.1[23]'
      find_library CHXD_CUBLASLT 'libcublasLt.so.1[23]'
      # cuDNN and cuSOLVER load others, by names that are looked for along LD_LIBRARY_PATH.
      find_library CHXD_CUDNN 'libcudnn.so.9'
      find_library CHXD_CUSOLVER 'libcusolver.so.1[12]'
      find_library CHXD_NCCL 'libnccl.so.2'
      find_library CHXD_CUSPARSE 'libcusparse.so.12'
      find_library CHXD_NVJITLINK 'libnvJitLink.so.1[23]' ;;
  esac >"$log/libraries.txt"
  export PYTHONHOME="$root/python" PYTHONPATH="$root/py:$root/site" PYTHONDONTWRITEBYTECODE=1
  export CHX_CHXD="$root/bin/chxd" CHX_DEVICES="$device" PYTHONUNBUFFERED=1
  python="$root/python/python3"
  cd "$root/py" || exit 1
}

smoke() {
  case $device in
    cuda*) nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader ||
      { echo "nvidia-smi does not run: is there a GPU?"; return 1; } ;;
  esac
  timeout "$(left)" "$python" -m gpu_check.smoke
}

memcheck() {
  if [[ $device != cuda* ]] || ! command -v compute-sanitizer >/dev/null; then
    echo "passed over: no GPU, or no compute-sanitizer"
    return 0
  fi
  # The daemon is a child of the client.
  timeout "$(left)" compute-sanitizer --tool=memcheck --target-processes=all --error-exitcode=9 \
    "$python" -m gpu_check.smoke
}

# start_daemon LOG DEVICES. Small matrices too go to cuSOLVER.
start_daemon() {
  local folder text=$1
  folder=$(mktemp -d)
  export CHX_SERVER="unix:$folder/chxd.sock"
  CHXD_CUSOLVER_SMALLEST=0 "$root/bin/chxd" --devices="$2" --listen="$CHX_SERVER" \
    >"$text" 2>&1 &
  daemon=$!
  # shellcheck disable=SC2064 # the number of now
  trap "kill $daemon 2>/dev/null" EXIT
  while kill -0 "$daemon" && ! grep -q '^chxd ready' "$text"; do sleep 0.1; done
  grep -q '^chxd ready' "$text"
}

# one_shard I: its rows, unless that is done.
one_shard() {
  local name="$log/conformance/$1"
  [ ! -e "$name.done" ] || return 0
  GPU_CHECK_SHARD=$1/$shards timeout "$(left)" "$python" -m pytest -p no:cacheprovider -q \
    --tb=short -p gpu_check.shard -s --junitxml="$name.xml" tests/conformance/conformance_test.py \
    >"$name.log" 2>&1
  local status=$?
  # 1: some have failed; 5: it has none.
  [ $status -le 1 ] || [ $status = 5 ] || return 1
  touch "$name.done"
}

conformance() {
  local i running=0 most daemon pids=()
  most=$(nproc)
  start_daemon "$log/conformance/daemon.log" "$device" || return 1
  for ((i = 0; i < shards; i++)); do
    [ "$SECONDS" -lt "$end" ] || break
    one_shard "$i" &
    pids+=($!)
    running=$((running + 1))
    if [ "$running" -ge "$most" ]; then
      wait -n
      running=$((running - 1))
    fi
  done
  wait "${pids[@]}"
  kill "$daemon"
  unset CHX_SERVER
  local finished failures
  finished=$(find "$log/conformance" -name '*.done' | wc -l)
  cat "$log"/conformance/[0-9]*.log | grep -aE '^(FAILED|ERROR)' | sort
  failures=$(cat "$log"/conformance/[0-9]*.log | grep -acE '^(FAILED|ERROR)')
  echo "$finished of $shards shards done, $(cat "$log"/conformance/[0-9]*.log |
    grep -aoE '[0-9]+ passed' | awk '{s += $1} END {print s + 0}') passed, $failures failed"
  [ "$finished" = "$shards" ] || { echo "run this step again for the others"; return 1; }
  if [[ $device == cuda* ]]; then
    for library in 'cuBLAS 12 or 13' 'cuBLASLt 12 or 13' 'cuDNN 9' cuSOLVER; do
      grep -aom1 "cuda: $library: /.*" "$log/conformance/daemon.log" ||
        echo "$library was not used"
    done
  fi
  [ "$failures" = 0 ]
}

libraries-off() {
  local both='conv or pool or solve or inv or svd or qr or cholesky or eig or det or matrix_power'
  CHXD_CUDNN=off CHXD_CUSOLVER=off timeout "$(left)" "$python" -m pytest -p no:cacheprovider -q \
    --tb=short --junitxml="$log/without.xml" -k "$both or rnn" \
    tests/conformance/conformance_test.py
}

nccl() {
  if [[ $device != cuda* ]] || ! grep -q '^libnccl.so.2: /' "$log/libraries.txt"; then
    echo "passed over: no GPU, or no NCCL"
    return 0
  fi
  local daemon gpus count all status=0 text="$log/nccl_daemon.log"
  gpus=$(nvidia-smi -L | grep -c '^GPU')
  mapfile -t all < <(seq -f 'cuda:%.0f' 0 $((gpus - 1)))
  start_daemon "$text" "$(IFS=,; echo "${all[*]}")" || { cat "$text"; return 1; }
  for count in 1 2 4; do
    [ "$count" -le "$gpus" ] || { echo "passed over: $count ranks, with $gpus GPUs"; continue; }
    timeout "$(left)" "$python" -m gpu_check.nccl "${all[@]:0:count}" || status=1
  done
  kill "$daemon"
  unset CHX_SERVER
  grep -a 'NCCL\|a process group' "$text"
  ! grep -aq "through the host's memory" "$text" || status=1
  grep -aq 'exchanges arrays by its devices' "$text" || status=1
  return $status
}

faults() { timeout "$(left)" "$python" -m gpu_check.faults; }

bench() {
  # What takes a GPU seconds takes a CPU half an hour.
  local scale=1 peer
  [[ $device == cuda* ]] || scale=${GPU_CHECK_SCALE:-16}
  timeout "$(left)" "$python" gpu_bench.py chx --device="$device" --scale="$scale" \
    --json="$log/chx.json" || return 1
  peer=$(command -v python3 || true)
  if [[ $device == cuda* && -n $peer ]] && on_machine "$peer" -c 'import torch' 2>/dev/null; then
    on_machine timeout "$(left)" "$peer" gpu_bench.py torch --device="$device" \
      --json="$log/torch.json" || return 1
    "$python" gpu_bench.py table "$log/chx.json" "$log/torch.json"
  fi
}

# The machine's own programs, with its own settings.
on_machine() { env -u PYTHONHOME -u PYTHONPATH LD_LIBRARY_PATH="$machine_libraries" "$@"; }

sessions() {
  local counts=1,4,8,16
  [[ $device == cuda* ]] || counts=1,2
  timeout "$(left)" "$python" gpu_bench.py sessions --device="$device" --counts="$counts"
}

table() {
  local name
  for name in $steps; do
    [ -e "$log/$name.outcome" ] || continue
    printf '%-14s %s  %s\n' "$name" "$(cat "$log/$name.outcome")" \
      "$(grep -aE 'passed|failed|error|ready|chxd:' "$log/$name.log" | tail -n 1)"
  done
  ! grep -qs FAILED "$log"/*.outcome
}

# outcome STEP: runs it with its output in a log.
outcome() {
  local begin=$SECONDS status=0
  end=$((SECONDS + seconds))
  echo "== $1"
  "$1" >"$log/$1.log" 2>&1 || status=1
  tail -n 60 "$log/$1.log"
  printf '%-6s %5d s\n' "$([ $status = 0 ] && echo ok || echo FAILED)" $((SECONDS - begin)) \
    >"$log/$1.outcome"
  return $status
}

case $step in
  run)
    environment
    for name in $steps; do outcome "$name" || true; done
    table
    ;;
  smoke | conformance | libraries-off | nccl | faults | bench | sessions | memcheck)
    environment
    outcome "$step"
    ;;
  table) table ;;
  *)
    sed -n '2,22s/^# \?//p' "$0" >&2
    exit 2
    ;;
esac
