#!/bin/bash
# Sets up, checks style, builds everything and runs all tests; the sanitizers on those that can have
# them. Ends with one line: "N passed, M failed". `tools/test.sh --fast` leaves the sanitizers and
# clang-tidy out.
set -uo pipefail
cd "$(dirname "$0")/.."
fast=0
[ "${1:-}" = "--fast" ] && fast=1

tools/setup.sh || { echo "0 passed, 1 failed"; exit 1; }
export CHXD_VENV="${CHXD_VENV:-$HOME/.cache/chxd/venv}"

# The versions of what Bazel uses but doesn't track are in each action's key.
system=$(dpkg-query -W gcc-12 binutils libc6-dev libstdc++-12-dev libgrpc++-dev libabsl-dev libprotobuf-dev | sha256sum | cut -c1-16)
find "$HOME/.cache/chxd/bazel" -type f -atime +14 -delete
bazel_test=(bazel test --config=ci --remote_default_exec_properties="debian=$system"
  --test_env=CHXD_VENV="$CHXD_VENV" --keep_going)

log=$(mktemp)
trap 'rm -f "$log"; [ -z "${CI:-}" ] || bazel shutdown' EXIT
passed=0
failed=0

# step NAME COMMAND...: one check that counts as one test.
step() {
  local name=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $name"
  fi
}

# bazel_step NAME ARGS...: counts the test targets.
bazel_step() {
  local name=$1
  shift
  "${bazel_test[@]}" "$@" 2>&1 | tee "$log"
  local status=${PIPESTATUS[0]}
  passed=$((passed + $(grep -cE '^//[^ ]+ +(\(cached\) )?PASSED' "$log")))
  local bad
  bad=$(grep -cE '^//[^ ]+ +.*(FAILED|TIMEOUT|NO STATUS|INCOMPLETE)' "$log")
  # A build error without a test to blame.
  [ "$status" != 0 ] && [ "$bad" = 0 ] && [ "$status" != 4 ] && bad=1
  failed=$((failed + bad))
  [ "$bad" = 0 ] || echo "FAILED: $name"
}

step "clang-format, ruff" tools/lint.sh style
bazel_step "all tests" //...
if [ "$fast" = 0 ]; then
  bazel_step "ASan and UBSan" --config=asan //...
  bazel_step "TSan" --config=tsan //...
  step "clang-tidy" tools/lint.sh tidy
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
