#!/bin/bash
# tools/lint.sh style:           clang-format, ruff, and no CHECK or assert where bytes of clients
#                                arrive; without changing anything.
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

# What would end the daemon of all tenants: macros that abort, in what the daemon is built of. Tests
# may abort.
checks_of() {
  grep -nE '(^|[^[:alnum:]_])((ABSL_)?(D|Q|P|DP)?CHECK(_[A-Z]+)?|(ABSL_)?(RAW_CHECK|HARDENING_ASSERT|ASSERT|INTERNAL_CHECK)|assert|abort) *\(|LOG\((D?FATAL|QFATAL)\)' \
    "$@" | grep -vE '^[^:]*(_test\.cc|/testing/[^:]*):|^[^:]*:[0-9]+: *//'
}

no_checks() {
  local found
  found=$(git ls-files --cached --others --exclude-standard -- {server,proto,formats,base,ops}/'*.'{h,cc,cu,cuh,inc} |
    { mapfile -t files && checks_of "${files[@]}"; } || true)
  [ -z "$found" ] && return
  printf '%s\n' "$found" >&2
  echo "tools/lint.sh: expects errors (absl::Status) where clients' bytes may lead, got the above" >&2
  return 1
}

case "${1:-style}" in
  style)
    status=0
    cpp_files | xargs -0r clang-format --dry-run -Werror || status=1
    "$ruff" check . || status=1
    "$ruff" format --check . || status=1
    no_checks || status=1
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
    sed -n '2,6s/^# //p' "$0" >&2
    exit 2
    ;;
esac
