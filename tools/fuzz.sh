#!/bin/bash
# tools/fuzz.sh [SECONDS [TARGET...]]: libFuzzer with AddressSanitizer and UBSan, by default 20 seconds
# for each target of tests/fuzz. The corpus is kept in ~/.cache/chxd/fuzz and grows; an input that
# fails is left in fuzz_failures/. A long run: tools/fuzz.sh 36000.
# tools/fuzz.sh --commands [COUNT [SEED]]: so many random commands, by default ten million, to the
# release's chxd over its socket; what was sent, by kind. See docs/fuzzing.md.
set -euo pipefail
cd "$(dirname "$0")/.."
read -ra bazel <<<"${BAZEL:-bazel}"

if [ "${1:-}" = --commands ]; then
  read -ra options <<<"${CHXD_BAZEL_OPTIONS:---config=release}"
  "${bazel[@]}" build "${options[@]}" //server:chxd //tests/fuzz:storm
  directory=$(mktemp -d /tmp/chxd-fuzz-XXXXXX)
  .bazel/bin/server/chxd --listen="unix:$directory/chxd.sock" --session-memory=8MiB --lease=1s \
    --threads=1 >"$directory/log" 2>&1 &
  daemon=$!
  trap 'kill $daemon 2>/dev/null || true; wait $daemon || true; rm -rf "$directory"' EXIT
  until grep -q '^chxd ready' "$directory/log"; do
    kill -0 $daemon || { cat "$directory/log" >&2; exit 1; }
    sleep 0.1
  done
  .bazel/bin/tests/fuzz/storm "unix:$directory/chxd.sock" "${2:-10000000}" ${3:+"$3"}
  kill -0 $daemon || { cat "$directory/log" >&2; exit 1; }
  grep -E 'VmRSS|VmHWM|Threads' /proc/$daemon/status
  exit
fi

seconds=${1:-20}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || targets=(command_fuzzer session_fuzzer program_fuzzer frame_fuzzer message_fuzzer segment_fuzzer text_fuzzer file_fuzzer state_fuzzer)
read -ra options <<<"${CHXD_BAZEL_OPTIONS:---config=ci}"
options+=(--config=asan)
export ASAN_OPTIONS=intercept_tls_get_addr=0  # as .bazelrc has it for tests
corpora=$HOME/.cache/chxd/fuzz
mkdir -p fuzz_failures
log=$(mktemp)
trap 'rm -f "$log"' EXIT
bad=()
for target in "${targets[@]}"; do
  "${bazel[@]}" build "${options[@]}" "//tests/fuzz:$target" "//tests/fuzz:${target}_smoke"
  bin=$("${bazel[@]}" info "${options[@]}" bazel-bin 2>/dev/null)/tests/fuzz
  mkdir -p "$corpora/$target"
  "$bin/${target}_smoke" --write-seeds "$corpora/$target"
  if ! "$bin/$target" "$corpora/$target" -max_total_time="$seconds" -max_len=4096 -timeout=10 \
    -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 \
    -artifact_prefix="fuzz_failures/$target-" 2>&1 | tee "$log"; then
    bad+=("FAILED: $target: $(grep -m1 -E '^==.*ERROR|^Base64' "$log") $(tail -1 "$log")")
  fi
done
rmdir --ignore-fail-on-non-empty fuzz_failures
# At the end, which is what is kept of a long log.
printf '%s\n' "${bad[@]}"
[ ${#bad[@]} = 0 ]
