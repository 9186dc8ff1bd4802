#!/bin/bash
# Installs what the build and the tests need, by name, on a bare Debian 12 machine. Idempotent: a
# second run does nothing. Needs root only if a package is missing. The Python environment is made at
# $CHXD_VENV, by default ~/.cache/chxd/venv; that of the tests of ONNX and promtool are put beside it.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  bazel-bootstrap g++ git ca-certificates
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev
  libabsl-dev libc-ares-dev libre2-dev libssl-dev zlib1g-dev libopenblas-dev libdnnl-dev
  libcjose-dev libjansson-dev libyaml-cpp-dev libzip-dev nlohmann-json3-dev libspdlog-dev libfmt-dev
  libcli11-dev libtomlplusplus-dev libboost-dev libxxhash-dev libgloo-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  python3-dev python3-venv
  cmake doxygen dpkg-dev pkg-config
  clang libclang-rt-14-dev lld clang-format clang-tidy
  chromium fonts-dejavu-core
  openmpi-bin iproute2
)

missing() {
  comm -23 <(printf '%s\n' "${packages[@]}" | sort) \
    <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | sort -u)
}

# apt-get waits for another one's lock on dpkg, but not for its lock on the package lists.
update_lists() {
  for _ in 1 2 3 4 5; do
    apt-get update -qq && return
    sleep 10
  done
  return 1
}

if [ -n "$(missing)" ]; then
  echo "tools/setup.sh: installing Debian packages:" $(missing) >&2
  export DEBIAN_FRONTEND=noninteractive
  update_lists
  apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=600 \
    "${packages[@]}" >/dev/null
fi

# promtool alone, of the package prometheus, whose installation would start a server.
promtool="$HOME/.cache/chxd/bin/promtool"
if [ ! -x "$promtool" ]; then
  echo "tools/setup.sh: getting $promtool" >&2
  mkdir -p "${promtool%/*}"
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  (cd "$folder" && { apt-get download -qq prometheus 2>/dev/null ||
    { update_lists && apt-get download -qq prometheus; }; })
  dpkg-deb --fsys-tarfile "$folder"/prometheus_*.deb | tar -xO ./usr/bin/promtool >"$promtool.new"
  chmod 755 "$promtool.new"
  mv "$promtool.new" "$promtool"
fi

venv="${CHXD_VENV:-$HOME/.cache/chxd/venv}"
want=$(sha256sum tools/requirements.txt | cut -d' ' -f1)
if [ "$(cat "$venv/.requirements" 2>/dev/null || true)" != "$want" ]; then
  echo "tools/setup.sh: making the Python environment $venv" >&2
  /usr/bin/python3 -m venv "$venv"
  # --no-deps: requirements.txt names everything, so no version depends on the day.
  "$venv/bin/pip" install -q --disable-pip-version-check --no-deps -r tools/requirements.txt
  echo "$want" >"$venv/.requirements"
fi

onnx="$venv-onnx"
want+=" $(sha256sum tools/requirements-onnx.txt | cut -d' ' -f1)"
if [ "$(cat "$onnx/.requirements" 2>/dev/null || true)" != "$want" ]; then
  echo "tools/setup.sh: making the Python environment $onnx" >&2
  /usr/bin/python3 -m venv --without-pip "$onnx"
  "$venv/bin/pip" --python "$onnx/bin/python" install -q --disable-pip-version-check --no-deps \
    -r tools/requirements-onnx.txt
  # Behind its own packages, those of the other environment.
  packages='import sysconfig; print(sysconfig.get_path("purelib"))'
  "$venv/bin/python" -c "$packages" >"$("$onnx/bin/python" -c "$packages")/others.pth"
  echo "$want" >"$onnx/.requirements"
fi
