#!/bin/bash
# Runs pytest on the files given, from the test's runfiles, with the Python of the environment
# that tools/setup.sh made; and writes the results where Bazel looks for them.
set -euo pipefail
export PYTHONPATH="$PWD:$PWD/python_client" PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1
exec "${CHXD_VENV:-/opt/chxd-venv}/bin/python" -m pytest -p no:cacheprovider -q \
  --junitxml="${XML_OUTPUT_FILE:-/dev/null}" "$@"
