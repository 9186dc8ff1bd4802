"""The table of a run of the array API standard's test suite, from pytest's JUnit file.

tools/array_api_suite.sh prints it. array_api_suite.md, which docs/conformance.md includes, has that
of the last run, and says how it was made.
"""

import collections
import sys
import xml.etree.ElementTree as ElementTree

OUTCOMES = ("passed", "failed", "skipped")


def outcome(case):
    if case.find("skipped") is not None:
        return "skipped"
    return "passed" if case.find("failure") is None and case.find("error") is None else "failed"


def table(junit):
    """A row for each of the suite's files: how many of its tests passed, failed, were skipped."""
    counts = collections.defaultdict(collections.Counter)
    for case in ElementTree.parse(junit).iter("testcase"):
        name = next(part for part in case.get("classname").split(".") if part.startswith("test_"))
        counts[name][outcome(case)] += 1
    total = sum(counts.values(), collections.Counter())
    rows = [(name, counts[name]) for name in sorted(counts)] + [("all", total)]
    return "\n".join(
        ["| file | passed | failed | skipped |", "|---|---|---|---|"]
        + [f"| {name} | {' | '.join(str(row[o]) for o in OUTCOMES)} |" for name, row in rows]
    )


if __name__ == "__main__":
    print(table(sys.argv[1]))
