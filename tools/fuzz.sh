#!/bin/bash
# tools/fuzz.sh [SECONDS [TARGET...]]: libFuzzer with AddressSanitizer and UBSan, by default 20 seconds
# for each of command_fuzzer, session_fuzzer, message_fuzzer. The corpus is kept in
# ~/.cache/chxd/fuzz and grows; an input that fails is left in fuzz_failures/. A long run:
# tools/fuzz.sh 36000.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || targets=(command_fuzzer session_fuzzer message_fuzzer)
read -ra bazel <<<"${BAZEL:-bazel}"
read -ra options <<<"${CHXD_BAZEL_OPTIONS:---config=ci}"
options+=(--config=fuzz)
corpora=$HOME/.cache/chxd/fuzz
mkdir -p fuzz_failures
status=0
for target in "${targets[@]}"; do
  "${bazel[@]}" build "${options[@]}" "//tests/fuzz:$target" "//tests/fuzz:${target}_smoke"
  bin=$("${bazel[@]}" info "${options[@]}" bazel-bin 2>/dev/null)/tests/fuzz
  mkdir -p "$corpora/$target"
  "$bin/${target}_smoke" --write-seeds "$corpora/$target"
  "$bin/$target" "$corpora/$target" -max_total_time="$seconds" -max_len=4096 -timeout=10 \
    -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 -artifact_prefix="fuzz_failures/$target-" || status=1
done
rmdir --ignore-fail-on-non-empty fuzz_failures
exit $status
