"""docs/scaling.md has the tables that its script prints."""

import os
import subprocess
import sys


def test_the_page_has_what_the_script_prints():
    command = [sys.executable, os.environ["SCALE_MODEL"], "--simulate"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    with open(os.environ["PAGE"]) as page:
        rows = [line.rstrip("\n") for line in page if line.startswith("|")]
    # The page adds links to some.
    plain = [
        row for row in rows if "](" not in row and "][" not in row and any(c.isdigit() for c in row)
    ]
    assert len(plain) > 30
    lines = set(printed.splitlines())
    assert not [row for row in plain if row not in lines]
