#!/bin/bash
# Uses the SDK of tools/sdk.sh as others would: outside CMake, pkg-config and Bazel projects, in folders
# and with an environment in which nothing of this checkout can be found.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
for file in dist/chx-sdk.tar.xz dist/chx-sdk_*_amd64.deb; do
  [ -e "$file" ] || { echo "no $file: run tools/sdk.sh" >&2; exit 1; }
done
home=$(mktemp -d)
daemon=
cleanup() {
  [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
  if [ -d "$home/output_base" ]; then
    outside shutdown >/dev/null 2>&1 || true
    chmod -R u+w "$home/output_base"
  fi
  rm -rf "$home"
}
trap cleanup EXIT
clean() { env -i PATH=/usr/bin:/bin HOME="$home" "$@"; }
quietly() { "$@" >"$home/log" 2>&1 || { cat "$home/log" >&2; return 1; }; }

tar -xJf dist/chx-sdk.tar.xz -C "$home"
sdk=$home/chx-sdk
clean "$sdk/bin/chxd" --devices native:0 --listen "unix:$home/chxd.sock" >"$home/chxd.log" 2>&1 &
daemon=$!
while [ ! -S "$home/chxd.sock" ]; do
  kill -0 "$daemon" 2>/dev/null || { cat "$home/chxd.log" >&2; exit 1; }
  sleep 0.1
done

# Images of ten kinds, with noise: a network learns to tell them apart within an epoch.
clean python3 - "$home" <<'PYTHON'
import random
import struct
import sys

random.seed(1)
count = 3000
prototypes = [bytes(random.randrange(256) for _ in range(784)) for _ in range(10)]
labels = bytes(random.randrange(10) for _ in range(count))
with open(f"{sys.argv[1]}/images", "wb") as file:
    file.write(struct.pack(">I3I", 0x803, count, 28, 28))
    for label in labels:
        noise = random.randbytes(784)
        file.write(bytes((3 * p + n) // 4 for p, n in zip(prototypes[label], noise)))
with open(f"{sys.argv[1]}/labels", "wb") as file:
    file.write(struct.pack(">II", 0x801, count) + labels)
PYTHON

# train NAME PROGRAM: prints what the program reaches, which must be nearly everything.
train() {
  clean "$2" --connect "unix:$home/chxd.sock" --images "$home/images" --labels "$home/labels" \
    --epochs 2 >"$home/trained"
  tail -1 "$home/trained" | awk -v name="$1" '
    { print name ": loss " $2 ", test accuracy " $4; exit !($2 < 1 && $4 > 0.95) }'
}

# needs PROGRAM LIBRARY: whether the program names the shared library.
needs() { objdump -p "$1" | grep "NEEDED *$2" >/dev/null; }
lacks() { ! needs "$@"; }

# A CMake project outside, against the unpacked tarball, shared and static.
cp -r "$sdk/share/chx/examples" "$home/project"
quietly clean cmake -S "$home/project" -B "$home/build" -DCMAKE_PREFIX_PATH="$sdk" -DCMAKE_BUILD_TYPE=Debug
quietly clean cmake --build "$home/build" -j2
needs "$home/build/mnist" libchx.so
for library in libchx libabsl libprotobuf; do
  lacks "$home/build/mnist_static" $library
done
train "CMake, shared" "$home/build/mnist"
cp "$home/trained" "$home/shared"
train "CMake, static" "$home/build/mnist_static"
cmp "$home/trained" "$home/shared"

# The programs of the page and of README, by pkg-config as the page says.
page() { python3 sdk/snippets.py docs/cpp_sdk.md "$@"; }
mkdir "$home/program"
page cpp "$home/program/program.cc"
page cmake "$home/program/CMakeLists.txt"
for package in chx chx-static; do
  clean bash -c "cd '$home' && g++ -std=c++17 program/program.cc -o '$package' \
    \$(PKG_CONFIG_PATH='$sdk/lib/pkgconfig' pkg-config --cflags --libs $package)"
  value=$(clean "$home/$package" "unix:$home/chxd.sock")
  echo "pkg-config, $package: $value"
  [ "$value" = 3.85611 ]  # 4 tanh(2)
done
lacks "$home/chx-static" libchx.so
python3 sdk/snippets.py README.md cpp "$home/readme.cc"
sed -i "s|unix:/run/chxd/chxd.sock|unix:$home/chxd.sock|" "$home/readme.cc"
clean bash -c "cd '$home' && g++ -std=c++17 readme.cc -o readme \
  \$(PKG_CONFIG_PATH='$sdk/lib/pkgconfig' pkg-config --cflags --libs chx)"
clean "$home/readme"
echo "README's program: ran"

# The Debian package, unpacked elsewhere: what it depends on is installed, and its files are whole.
deb=$(echo dist/chx-sdk_*_amd64.deb)
dpkg-deb -x "$deb" "$home/deb"
dpkg-deb -e "$deb" "$home/control"
(cd "$home/deb" && md5sum --quiet -c "$home/control/md5sums")
depends=$(dpkg-deb -f "$deb" Depends)
[[ $depends == *libabsl-dev* && $depends == *libprotobuf32* && $depends == *libssl3* && $depends != *grpc* ]]
tr ',' '\n' <<<"$depends" | sed 's/^ *\([^ ]*\).*/\1/' | xargs dpkg-query -W >/dev/null
clean "$sdk/bin/chxctl" --address "unix:$home/chxd.sock" status
[ "$("$home/deb/usr/bin/chxctl" --version | awk '{print $2}')" = "$(dpkg-deb -f "$deb" Version)" ]
[ "$(dpkg-deb -f "$deb" Version)" = "$("$home/deb/usr/bin/chxd" --version | awk '{print $2}')" ]
quietly clean cmake -S "$home/program" -B "$home/build_deb" -DCMAKE_PREFIX_PATH="$home/deb/usr"
quietly clean cmake --build "$home/build_deb"
echo "Debian package, the page's CMake project: $(clean "$home/build_deb/program" "unix:$home/chxd.sock")"

# The page's Bazel workspace.
mkdir "$home/workspace"
cp "$home/program/program.cc" "$home/workspace/"
page starlark "$home/workspace/WORKSPACE" "$home/workspace/BUILD"
page text "$home/workspace/.bazelrc"
sed -i "s|/path/to/chxd|$root|" "$home/workspace/WORKSPACE"
read -ra bazel <<<"${CHXD_OUTSIDE_BAZEL:-bazel}"
# Each library as one file, and tools compiled once (bazel/cc.bzl): a third of the time.
options="--config=none --jobs=2 --noshow_progress --color=no --experimental_repository_disable_download \
  --define=joined=1 --nodistinct_host_configuration --disk_cache=$HOME/.cache/chxd/bazel"
echo "build:none --nosandbox_debug" >>"$home/workspace/.bazelrc"
outside() {
  (cd "$home/workspace" && "${bazel[@]}" "--output_base=$home/output_base" --max_idle_secs=60 "$@")
}
# shellcheck disable=SC2086  # Several options.
quietly outside build $options //:program
echo "Bazel: $("$(cd "$home/workspace" && readlink -f bazel-bin/program)" "unix:$home/chxd.sock")"
