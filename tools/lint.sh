#!/bin/bash
# tools/lint.sh style:           clang-format and ruff, without changing anything.
# tools/lint.sh fix:             the same, changing files.
# tools/lint.sh tidy [PATH...]:  clang-tidy on our own C++ files, those that changed since they last
#                                passed; $CHXD_TIDY_SECONDS bounds the time. After a build.
set -euo pipefail
cd "$(dirname "$0")/.."
ruff="${CHXD_VENV:-$HOME/.cache/chxd/venv}/bin/ruff"

# Those of our own files that exist, tracked or new.
cpp_files() {
  git ls-files -z --cached --others --exclude-standard '*.h' '*.cc' '*.cu' '*.cuh' '*.inc' |
    while IFS= read -rd '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done
}

case "${1:-style}" in
  style)
    status=0
    cpp_files | xargs -0r clang-format --dry-run -Werror || status=1
    "$ruff" check . || status=1
    "$ruff" format --check . || status=1
    exit $status
    ;;
  fix)
    cpp_files | xargs -0r clang-format -i
    "$ruff" check --fix .
    "$ruff" format .
    ;;
  tidy)
    /usr/bin/python3 tools/compile_commands.py ${CHXD_BAZEL_OPTIONS:---config=ci}
    /usr/bin/python3 tools/tidy.py --seconds="${CHXD_TIDY_SECONDS:-3600}" "${@:2}"
    ;;
  *)
    sed -n '2,5s/^# //p' "$0" >&2
    exit 2
    ;;
esac
