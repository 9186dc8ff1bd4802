#!/bin/bash
# Runs a checkout of data-apis/array-api-tests, which needs pytest, hypothesis and ndindex in
# $CHXD_VENV, against chx.array_api, and prints the table of tests/conformance/array_api_suite.md.
#
#   tools/array_api_suite.sh CHECKOUT [pytest arguments]
set -euo pipefail
checkout=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
read -ra bazel <<<"${BAZEL:-bazel}"
read -ra options <<<"${CHXD_BAZEL_OPTIONS:---config=ci}"
"${bazel[@]}" build "${options[@]}" //tests/conformance:report_test
files=$PWD/.bazel/bin/tests/conformance/report_test.runfiles/chxd
python=${CHXD_VENV:-$HOME/.cache/chxd/venv}/bin/python
export CHX_CHXD=$PWD/.bazel/bin/server/chxd PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH=$files:$files/python_client
export ARRAY_API_TESTS_MODULE=chx.array_api ARRAY_API_TESTS_VERSION=2023.12
export ARRAY_API_TESTS_SKIP_DTYPES=uint16,uint32,uint64,complex64,complex128
junit=$(mktemp)
trap 'rm -f "$junit"' EXIT
(cd "$checkout" && "$python" -m pytest -q -p no:cacheprovider --disable-deadline \
  --junitxml="$junit" array_api_tests "$@") >&2 || true # failures are in the table
"$python" -m tests.conformance.array_api_suite "$junit"
