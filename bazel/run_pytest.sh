#!/bin/bash
# Runs pytest on the files given, from the test's runfiles, with the Python of the environment
# that tools/setup.sh made, or, with $CHX_VENV_SUFFIX, one beside it; and writes the results where
# Bazel looks for them.
set -euo pipefail
# No HOME in a test: the account's is asked for.
venv="${CHXD_VENV:-$(getent passwd "$(id -u)" | cut -d: -f6)/.cache/chxd/venv}"
venv+="${CHX_VENV_SUFFIX:-}"
if [ ! -x "$venv/bin/python" ]; then
  echo "no Python environment at $venv: run tools/setup.sh" >&2
  exit 1
fi
export PYTHONPATH="$PWD:$PWD/python_client" PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1
exec "$venv/bin/python" -m pytest -p no:cacheprovider -q \
  --junitxml="${XML_OUTPUT_FILE:-/dev/null}" "$@"
