#!/bin/bash
# libraries_test.sh SHARED STATIC: both libraries export names of chx, some well-known ones among them,
# and nothing else: no symbol of protobuf, of the messages, of Abseil, or of an internal class.
set -euo pipefail
check() {
  local names
  names=$(c++filt <<<"$2" | sort -u)
  if grep -vE '^((vtable|typeinfo|typeinfo name|guard variable) for )?(chx|chainerx)::' <<<"$names"; then
    echo "$1 exports the above" >&2
    return 1
  fi
  if grep -E 'chx::(v1|CommandQueue|Connection|OpRegistry)\b' <<<"$(sed 's/(.*//' <<<"$names")"; then
    echo "$1 exports the above, which no public header declares" >&2
    return 1
  fi
  local name
  for name in 'chx::Session::Connect(' 'chx::Array::Item() const' 'chx::BackpropScope::BackpropScope(' \
    'chx::SaveNpz(' 'chx::SetLogHandler(' 'chainerx::Context::Context('; do
    grep -qF "$name" <<<"$names" || { echo "$1 lacks $name" >&2; return 1; }
  done
}
check "$1" "$(nm -D --defined-only --format=posix "$1" | cut -d' ' -f1)"
check "$2" "$(nm --defined-only --extern-only --format=posix "$2" | grep ' ' | cut -d' ' -f1)"
# What the static one needs and does not have: neither protobuf nor our own.
if nm -u "$2" | grep -E 'U _ZNK?(6google|3chx|8chainerx)'; then exit 1; fi
# The shared one's libraries.
if objdump -p "$1" | grep -E 'NEEDED +lib(grpc|upb|gpr|re2|cares)'; then exit 1; fi
if objdump -p "$1" | grep -E 'R(UN)?PATH'; then exit 1; fi
