#!/bin/bash
# Checks of the cuda backend for a machine with a GPU that has nothing of this project and no network.
#
#   tools/gpu_check.sh bundle [BAZEL FLAGS]   writes dist/gpu_check.tar.xz, below $GPU_CHECK_MB (60);
#                                             the flags are --config=release --config=cuda by default
#
# The bundle has the daemon, the plug-in, the Python client with an interpreter and NumPy, the
# conformance tests, a benchmark, and tools/gpu_check/gpu_check.sh, which says how to run them there.
set -euo pipefail

read -ra bazel <<<"${BAZEL:-bazel}"
limit=$((${GPU_CHECK_MB:-60} * 1000 * 1000))

fail() {
  echo "gpu_check: $*" >&2
  exit 1
}

# Shared objects that the given files load, without glibc's.
needed() {
  ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(ld-linux.*|lib(c|m|dl|rt|util|pthread|resolv))\.so[.0-9]*$' || true
}

# One copy by name in folder $1; libstdc++ goes to its fallback/, for machines without any.
copy_libraries() {
  local to=$1 library
  shift
  mkdir -p "$to/fallback"
  for library in "$@"; do
    case $(basename "$library") in
      libstdc++* | libgcc_s*) cp -Ln "$library" "$to/fallback/" ;;
      *) cp -Ln "$library" "$to/" ;;
    esac
  done
}

bundle() {
  cd "$(dirname "$0")/.."
  local venv="${CHXD_VENV:-$HOME/.cache/chxd/venv}"
  [ -x "$venv/bin/python" ] || fail "no Python environment at $venv: run tools/setup.sh"
  [ -d tests/conformance ] || fail "there is no tests/conformance"
  # Hopper's code, and PTX for what is newer.
  [ $# -gt 0 ] || set -- --config=release --config=cuda --define=cuda_arch=check
  "${bazel[@]}" build "$@" \
    //server:chxd //server/cuda:libchxd_cuda.so //python_client:chx/_core.so //python_client:wheel_stubs
  stage=$(mktemp -d)
  trap 'rm -rf "$stage"' EXIT
  local root="$stage/gpu_check" built=.bazel/bin
  mkdir -p "$root/bin" "$root/py/tests" "$root/python/lib" "$root/site" dist
  [ -e "$built/server/cuda/libchxd_cuda.so" ] || fail "no plug-in was built: is there a toolkit?"
  cp -L "$built/server/chxd" "$built/server/cuda/libchxd_cuda.so" "$root/bin/"
  tools/stage.sh "$root/py"
  cp -L tests/__init__.py "$root/py/tests/"
  cp -rL tests/conformance "$root/py/tests/"
  cp -L tests/perf/gpu_{bench,cases,sides}.py "$root/py/"
  cp -r tools/gpu_check "$root/py/"
  mv "$root/py/gpu_check/gpu_check.sh" "$root/"
  chmod -R u+w "$root"
  strip --strip-unneeded "$root/bin/chxd" "$root/bin/libchxd_cuda.so" "$root/py/chx/_core.so"

  # The interpreter that the client is built for.
  local version
  version=$("$venv/bin/python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
  cp -L "/usr/bin/$version" "$root/python/python3"
  cp -rL "/usr/lib/$version" "$root/python/lib/"
  local lib="$root/python/lib/$version"
  rm -rf "$lib"/{test,idlelib,tkinter,lib2to3,ensurepip,turtledemo,distutils,pydoc_data,config-*} \
    "$lib"/lib-dynload/{_tkinter,_dbm,_gdbm,_curses,_curses_panel,_sqlite3,readline}.*.so
  local packages="$venv/lib/$version/site-packages" package
  for package in numpy numpy.libs ml_dtypes pytest _pytest py.py pluggy iniconfig packaging; do
    [ -e "$packages/$package" ] || continue
    cp -rL "$packages/$package" "$root/site/"
  done
  cp -rL "$packages"/pytest-*.dist-info "$packages"/pluggy-*.dist-info "$root/site/"
  find "$root" -name __pycache__ -prune -exec rm -rf {} +
  find "$root/site/numpy" -type d -name tests -prune -exec rm -rf {} +

  mapfile -t libraries < <(needed "$root/bin/chxd" "$root/py/chx/_core.so" "$root/python/python3" \
    "$lib"/lib-dynload/*.so)
  copy_libraries "$root/lib" "${libraries[@]}"
  { git rev-parse HEAD && git status --porcelain | head -20; } >"$root/version.txt" 2>/dev/null || true

  XZ_OPT="${XZ_OPT:--5 -T0}" tar -C "$stage" -cJf dist/gpu_check.tar.xz gpu_check
  local size
  size=$(stat -c %s dist/gpu_check.tar.xz)
  ls -lh dist/gpu_check.tar.xz
  [ "$size" -lt "$limit" ] || fail "the bundle has $size bytes, more than $limit"
}

[ "${1:-}" = bundle ] || fail "usage: $0 bundle [BAZEL FLAGS]"
shift
bundle "$@"
