#!/bin/bash
# plugin_symbols_test.sh HOST PLUGIN: every symbol that the plug-in leaves undefined is exported by the
# host or by a library that the plug-in names, and the plug-in has no copy of the host's code.
set -euo pipefail
host=$1
plugin=$2

names() { nm -D --format=posix "$@" | cut -d' ' -f1 | sed 's/@.*//' | sort -u; }

# ldd names what both load; a library that isn't installed can't be asked, so it may not be needed.
if ldd "$plugin" | grep 'not found'; then
  echo "the plug-in needs a library at load time that isn't there: open it with dlopen" >&2
  exit 1
fi
mapfile -t libraries < <(ldd "$host" "$plugin" | awk '$2 == "=>" {print $3} $1 ~ /^\/lib/ {print $1}' | sort -u)
missing=$(comm -23 <(nm -D --format=posix --undefined-only "$plugin" | awk '$2 == "U" {print $1}' |
  sed 's/@.*//' | sort -u) <(names --defined-only "$host" "${libraries[@]}"))
if [ -n "$missing" ]; then
  echo "$host does not export what $plugin needs:" >&2
  c++filt <<<"$missing" >&2
  exit 1
fi

# T: code with one definition. Inline code, which both may have, is W.
strong() { nm -D --format=posix --defined-only "$1" | awk '$2 == "T" {print $1}' | sort -u; }
twice=$(comm -12 <(strong "$host") <(strong "$plugin") | grep -vE '^_(init|fini)$' || true)
if [ -n "$twice" ]; then
  echo "both $host and $plugin define (name the library in host_deps, not in deps):" >&2
  c++filt <<<"$twice" >&2
  exit 1
fi
