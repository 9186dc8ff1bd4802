#!/bin/bash
# link.sh HEADERS.tar SHARED STATIC ARCHIVE... -- STATIC_LIB...: links this project's archives to a
# shared and to a static library, which export what the public headers declare and nothing else. The
# static one contains what it needs of STATIC_LIBs; the shared one takes their shared objects.
set -euo pipefail
headers=$1 shared=$2 static=$3
shift 3
here=$(dirname "$0")
archives=()
while [ "$1" != -- ]; do
  archives+=("$1")
  shift
done
shift
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# One object of all archives. Groups are what linkers choose one of by name: a group whose names are
# local afterwards must not be chosen from.
ld -r --force-group-allocation -o "$stage/own.o" --whole-archive "${archives[@]}"
nm --defined-only --extern-only "$stage/own.o" | /usr/bin/python3 "$here/exports.py" "$headers" \
  >"$stage/exports"

{
  echo "{ global:"
  sed 's/$/;/' "$stage/exports"
  echo "local: *; };"
} >"$stage/version_script"
absl=$(cd /usr/lib/x86_64-linux-gnu && printf -- '-l:%s ' libabsl_*.so)
# shellcheck disable=SC2086  # Several options.
g++ -shared -o "$shared" -Wl,-soname,"$(basename "$shared")" -Wl,--version-script="$stage/version_script" \
  -Wl,-z,defs -Wl,--gc-sections -Wl,--as-needed -Wl,-z,relro,-z,now \
  -Wl,--whole-archive "${archives[@]}" -Wl,--no-whole-archive \
  $absl -lprotobuf -lzip -lssl -lcrypto -pthread

ld -r --force-group-allocation -o "$stage/chx.o" "$stage/own.o" "$@"
# objcopy keeps unique symbols (static variables of inline functions) global, but not weak ones.
nm --defined-only "$stage/chx.o" | sed -n 's/^[0-9a-f]* u //p' >"$stage/unique"
objcopy --weaken-symbols="$stage/unique" "$stage/chx.o"
objcopy --keep-global-symbols="$stage/exports" --strip-debug "$stage/chx.o"
rm -f "$static"
ar rcsD "$static" "$stage/chx.o"
