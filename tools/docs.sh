#!/bin/bash
# Builds the documentation's site, dist/docs/index.html, which needs no network and no server to be
# read. Warnings are errors. `tools/docs.sh check` tests it, too: that builds the Python client.
# $CHXD_BAZEL_OPTIONS replaces the development configuration.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
venv="${CHXD_VENV:-$HOME/.cache/chxd/venv}"
docs_venv="${CHXD_DOCS_VENV:-$HOME/.cache/chxd/docs-venv}"
want=$(sha256sum tools/requirements-docs.txt | cut -c1-16)
if [ "$(cat "$docs_venv/.requirements" 2>/dev/null || true)" != "$want" ]; then
  rm -rf "$docs_venv"
  /usr/bin/python3 -m venv "$docs_venv"
  # --no-deps: requirements-docs.txt names everything.
  "$docs_venv/bin/pip" install -q --disable-pip-version-check --no-deps -r tools/requirements-docs.txt
  echo "$want" >"$docs_venv/.requirements"
fi

targets=(//docs:ops.md //python_client:ops_pyi //python_client:linalg_pyi //python_client:optimizers_pyi)
[ "${1:-}" != check ] || targets+=(//python_client)
read -ra bazel <<<"${BAZEL:-bazel}"
# shellcheck disable=SC2086  # Several options.
"${bazel[@]}" build ${CHXD_BAZEL_OPTIONS:---config=dev} "${targets[@]}"

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
cp -r python_client/chx "$stage/"
cp -L .bazel/bin/docs/ops.md "$stage/"
cp -L .bazel/bin/python_client/chx/_*_ops.pyi .bazel/bin/python_client/chx/_ops.pyi "$stage/chx/"
chmod -R u+w "$stage"
"$docs_venv/bin/python" tools/site/prepare.py "$stage"
CHX_SITE_STAGE="$stage" NO_MKDOCS_2_WARNING=1 "$docs_venv/bin/mkdocs" build --quiet --strict
tools/doxygen.sh dist/docs/cpp

if [ "${1:-}" = check ]; then
  rm -rf "$stage/chx"
  tools/stage.sh "$stage"
  PYTHONPATH="$stage" "$venv/bin/python" -m pytest -p no:cacheprovider -q tools/site/site_test.py
fi
echo "dist/docs/index.html"
