#!/bin/bash
# Installs what the build and the tests need, by name, on a bare Debian 12 machine. Idempotent: a
# second run does nothing. Needs root only if a package is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  bazel-bootstrap g++ libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev
  libabsl-dev libc-ares-dev libre2-dev libssl-dev zlib1g-dev libopenblas-dev libgtest-dev
  libgmock-dev libbenchmark-dev python3-dev python3-venv clang libclang-rt-14-dev clang-format
  clang-tidy
)
missing=$(dpkg-query -W -f '${db:Status-Status}\n' "${packages[@]}" 2>&1 | grep -vc '^installed$' || true)
if [ "$missing" != 0 ]; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=600 "${packages[@]}" >/dev/null
fi

venv="${CHXD_VENV:-$HOME/.cache/chxd/venv}"
want=$(sha256sum tools/requirements.txt | cut -c1-16)
if [ "$(cat "$venv/.requirements" 2>/dev/null || true)" != "$want" ]; then
  rm -rf "$venv"
  /usr/bin/python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check -r tools/requirements.txt
  echo "$want" >"$venv/.requirements"
fi
mkdir -p "$HOME/.cache/chxd/bazel"
