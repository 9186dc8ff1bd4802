#!/bin/bash
# Builds the documentation site, dist/docs/index.html, which needs no network and no server. Warnings
# are errors. `tools/docs.sh check` tests it then; needs `bazel build //python_client`, too.
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

read -ra bazel <<<"${BAZEL:-bazel}"
# shellcheck disable=SC2086  # Several options.
"${bazel[@]}" build ${CHXD_BAZEL_OPTIONS:---config=dev} //docs:ops.md //client:ops_h \
  //python_client:stubs

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/include/client" dist
cp -r python_client/chx "$stage/"
(cd .bazel/bin/python_client && find chx -name '*.pyi' -exec cp -L --parents {} "$stage/" \;)
cp -L .bazel/bin/docs/ops.md "$stage/"
cp -L .bazel/bin/client/ops.h "$stage/include/client/"
chmod -R u+w "$stage"
