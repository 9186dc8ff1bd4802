#!/bin/bash
# tools/lint.sh style: clang-format and ruff, without changing anything.
# tools/lint.sh fix:   the same, changing files.
# tools/lint.sh tidy:  clang-tidy on our own C++ files, those that changed since they last passed.
set -euo pipefail
cd "$(dirname "$0")/.."
venv="${CHXD_VENV:-$HOME/.cache/chxd/venv}"
mapfile -t cpp < <(git ls-files -co --exclude-standard '*.h' '*.cc' '*.cu' '*.cuh' '*.inc')

case "${1:-style}" in
  style)
    clang-format --dry-run -Werror "${cpp[@]}"
    "$venv/bin/ruff" check .
    "$venv/bin/ruff" format --check .
    ;;
  fix)
    clang-format -i "${cpp[@]}"
    "$venv/bin/ruff" check --fix .
    "$venv/bin/ruff" format .
    ;;
  tidy)
    python3 tools/compile_commands.py --config=dev >/dev/null
    passed="$HOME/.cache/chxd/tidy"
    mkdir -p "$passed"
    headers=$(cat .clang-tidy $(git ls-files '*.h') | sha256sum | cut -c1-16)
    check() {
      key="$1/$(cat "$3" <(echo "$2") | sha256sum | cut -c1-32)"
      [ -e "$key" ] && return
      clang-tidy --quiet -p . "$3" 2>/dev/null || exit 1
      touch "$key"
    }
    export -f check
    git ls-files 'base/*.cc' 'ops/*.cc' 'proto/*.cc' 'server/*.cc' 'client/*.cc' |
      grep -v '_test.cc$' | xargs -P 2 -I{} bash -c "check '$passed' '$headers' {}"
    ;;
esac
