#!/bin/bash
# Sets up, checks style, builds everything and runs all tests; then the wheel, the demo, the site of
# the documentation, the C++ SDK, the check for GPUs, the source distribution, clang-tidy, the unit
# tests under ASan and UBSan, those of engine, session and autograd under TSan, and libFuzzer for some
# seconds. `tools/test.sh --fast` stops after the check for GPUs. Ends with one line: "N passed, M
# failed", over all test targets and checks.
set -uo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  "") fast=0 ;;
  --fast) fast=1 ;;
  *)
    sed -n '2,6s/^# //p' "$0" >&2
    exit 2
    ;;
esac

if ! tools/setup.sh; then
  echo "FAILED: tools/setup.sh"
  echo "0 passed, 1 failed"
  exit 1
fi
export CHXD_VENV="${CHXD_VENV:-$HOME/.cache/chxd/venv}"

# Bazel never empties its disk cache, and its keys hold neither the compiler nor /usr/include.
cache=$HOME/.cache/chxd/bazel
mkdir -p "$cache"
find "$cache" -type f -atime +14 -delete
system=$(dpkg-query -W binutils gcc-12 libc6-dev libstdc++-12-dev libabsl-dev libgrpc++-dev \
  libprotobuf-dev libopenblas-dev | sha256sum | cut -c1-16)
# $BAZEL may name startup options: "bazel --output_base=...".
read -ra bazel <<<"${BAZEL:-bazel}"
bazel_options=(--config=ci --keep_going --disk_cache="$cache"
  --remote_default_exec_properties="debian=$system")

log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0
failed=0
failures=()
times=()

# note NAME: one more failure, to be named at the end too.
note() {
  failed=$((failed + 1))
  failures+=("$1")
}

# check NAME COMMAND...: counts as one test.
check() {
  local name=$1 began=$SECONDS
  shift
  echo "== $name"
  if "$@"; then passed=$((passed + 1)); else note "$name"; fi
  times+=("$(printf '%5d s  %s' $((SECONDS - began)) "$name")")
}

# bazel_tests NAME ARGS...: counts each test target, and a build that fails without one.
bazel_tests() {
  local name=$1 began=$SECONDS status bad target
  shift
  echo "== $name"
  "${bazel[@]}" test "${bazel_options[@]}" "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  passed=$((passed + $(grep -cE '^//[^ ]+ +(\(cached\) )?PASSED' "$log")))
  bad=0
  while read -r target; do
    bad=$((bad + 1))
    note "$name: $target"
  done < <(grep -E '^//[^ ]+ +.*(FAILED|FLAKY|TIMEOUT|NO STATUS|INCOMPLETE)' "$log" | cut -d' ' -f1)
  # 4: built, and nothing there has the tag.
  if [ "$status" != 0 ] && [ "$status" != 4 ] && [ "$bad" = 0 ]; then
    note "$name: the build (exit status $status)"
  fi
  times+=("$(printf '%5d s  %s' $((SECONDS - began)) "$name")")
}

check "style: clang-format, ruff" tools/lint.sh style
# Unit tests that are the same in every build are compiled once: below, for ASan.
once=()
[ "$fast" = 1 ] || once=(--build_tag_filters=-sanitized,-joined --test_tag_filters=-sanitized,-joined)
bazel_tests "all tests" "${once[@]}" //...
export CHXD_BAZEL_OPTIONS="${bazel_options[*]}"
check "wheel: build" tools/wheel.sh
check "wheel: install and use" tools/test_wheel.sh
check "demo: the main job" tools/demo.sh
check "demo: without its client" tools/demo.sh --detach
check "docs: site" tools/docs.sh check
# Quickly compressed: these packages, and the bundle below, are for the test.
XZ_OPT=-0 check "C++ SDK: build" tools/sdk.sh
check "C++ SDK: outside projects" tools/test_sdk.sh
XZ_OPT=-0 check "GPU check: on the CPU" tools/test_gpu_check.sh
if [ "$fast" = 0 ]; then
  check "source distribution: pack" tools/wheel.sh sdist
  check "source distribution: build, install and use" tools/test_sdist.sh
  # Before the sanitizers, whose builds would replace the generated headers it reads.
  CHXD_TIDY_SECONDS=${CHXD_TIDY_SECONDS:-200} check "clang-tidy" tools/lint.sh tidy
  # Programs of several tests, which compile in a fifth of the time.
  bazel_tests "ASan and UBSan" --config=asan --build_tag_filters=unit,-apart \
    --test_tag_filters=unit,-apart //...
  bazel_tests "TSan" --config=tsan --build_tag_filters=tsan,-apart \
    --test_tag_filters=tsan,-apart //...
  check "libFuzzer" tools/fuzz.sh 5
fi

[ -z "${CI:-}" ] || "${bazel[@]}" shutdown
printf '%s\n' "${times[@]}"
for name in "${failures[@]}"; do echo "FAILED: $name"; done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
