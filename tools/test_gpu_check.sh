#!/bin/bash
# The bundle of tools/gpu_check.sh in a clean folder, on the CPU and without a network: all of its
# steps end well, with a part of the rows. Its files are those that are built already.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ] || { echo "no CUDA toolkit: no bundle"; exit 0; }
read -ra options <<<"${CHXD_BAZEL_OPTIONS:---config=ci}"
# What CI builds is not optimised, and large.
GPU_CHECK_MB=500 tools/gpu_check.sh bundle "${options[@]}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -C "$folder" -xJf dist/gpu_check.tar.xz
rm dist/gpu_check.tar.xz
alone=(env -i "PATH=/usr/bin:/bin" "HOME=$folder" "PYTEST_ADDOPTS=-k 'logaddexp or conv_transpose'"
  GPU_CHECK_SHARDS=3 GPU_CHECK_SCALE=64)
if unshare -n true 2>/dev/null; then
  alone=(unshare -n "${alone[@]}")
elif unshare -rn true 2>/dev/null; then
  alone=(unshare -rn "${alone[@]}")
else
  echo "no network namespaces here: the network is not cut off"
fi
cd "$folder/gpu_check"
"${alone[@]}" ./gpu_check.sh run native:0
grep -q '3 of 3 shards done' log/conformance.log
# What is done is not done again, and what was cut off is.
rm log/conformance/1.done
touch "$folder/mark"
"${alone[@]}" ./gpu_check.sh conformance native:0
again=$(find log/conformance -name '*.xml' -newer "$folder/mark" -printf '%f ')
[ "$again" = "1.xml " ] || { echo "these ran again: $again"; exit 1; }
