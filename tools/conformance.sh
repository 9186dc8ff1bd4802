#!/bin/bash
# Writes docs/conformance.md, from the operator table and the rows of tests/conformance. $BAZEL may
# name startup options, $CHXD_BAZEL_OPTIONS others than --config=ci.
set -euo pipefail
cd "$(dirname "$0")/.."
read -ra bazel <<<"${BAZEL:-bazel}"
read -ra options <<<"${CHXD_BAZEL_OPTIONS:---config=ci}"
"${bazel[@]}" build "${options[@]}" //tests/conformance:report_test
root=$PWD
cd .bazel/bin/tests/conformance/report_test.runfiles/chxd
text=$(PYTHONPATH=$PWD:$PWD/python_client PYTHONDONTWRITEBYTECODE=1 \
  "${CHXD_VENV:-$HOME/.cache/chxd/venv}/bin/python" -m tests.conformance.report \
  docs/ops.md python_client/tests/chainerx_names_test.py)
printf '%s\n' "$text" >"$root/docs/conformance.md"
