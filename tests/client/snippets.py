#!/usr/bin/python3
"""snippets.py PAGE NUMBER: prints a program in C++ of a page."""

import re
import sys

with open(sys.argv[1], encoding="utf-8") as page:
    blocks = re.findall(r"^```cpp\n(.*?)^```$", page.read(), re.MULTILINE | re.DOTALL)
print(blocks[int(sys.argv[2])])
