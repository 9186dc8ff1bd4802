#!/bin/bash
# tools/faults.sh [SECONDS [SEED [SCENARIO...]]]: daemons and clients under faults (docs/faults.md), by
# default for a minute with a new seed. Prints each round's seed and counts; exit status 1 if a
# promise broke. Hours: tools/faults.sh 36000. $BAZEL and $CHXD_BAZEL_OPTIONS as in tools/fuzz.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
read -ra bazel <<<"${BAZEL:-bazel}"
read -ra options <<<"${CHXD_BAZEL_OPTIONS:---config=ci}"
"${bazel[@]}" build "${options[@]}" //tests/faults:faults_test
cd .bazel/bin/tests/faults/faults_test.runfiles/chxd
export PYTHONPATH=$PWD:$PWD/python_client PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1
export CHX_CHXD=server/chxd CHX_CPP_CLIENT=tests/faults/cpp_client
exec "${CHXD_VENV:-$HOME/.cache/chxd/venv}/bin/python" -m tests.faults "$@"
