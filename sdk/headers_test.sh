#!/bin/bash
# headers_test.sh HEADERS.tar: each public header compiles alone, with warnings as errors and nothing
# but Abseil and the standard library beside it, and says nothing of gRPC, protobuf or OpenSSL.
set -euo pipefail
include=$(mktemp -d)
trap 'rm -rf "$include"' EXIT
tar -xf "$1" -C "$include"
if grep -rniE 'grpc|protobuf|[.]pb[.]h|openssl|chx::v1' "$include"; then exit 1; fi
cd "$include"
mapfile -t headers < <(find chx -name '*.h' | sort)
[ "${#headers[@]}" -gt 15 ]
printf '%s\n' "${headers[@]}" | xargs -P2 -I{} sh -c '
  echo "#include <$1>" | g++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only -I. -x c++ - ||
    { echo "$1 does not compile alone" >&2; exit 255; }' - {}
