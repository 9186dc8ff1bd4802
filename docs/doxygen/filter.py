#!/usr/bin/python3
"""Doxygen's input filter: makes this project's comments ones that doxygen reads.

The headers have plain comments in English. The first one describes the file. One above a
declaration describes it, and those in the lines directly below it. One behind a value describes
that value.
"""

import re
import sys

TRAILING = re.compile(r"^(.*[;,{})])  // (.*)$")
COMMENT = re.compile(r"^(\s*)//( .*)?$")
# A declaration in one line, or the last one of it.
DECLARATION = re.compile(r"^(\s*)[\w#].*[;}]$")


def escape(text):
    """English: what doxygen would take for a command or a tag is none."""
    return re.sub(r"([\\@<>#&%])", r"\\\1", text or "")


class Filter:
    """Converts one file, line by line."""

    def __init__(self):
        self.in_header = True
        self.header_seen = False
        self.last = []  # the comment above, as it was written
        self.shared = []  # that of the declaration above
        self.trailing_column = None

    def convert(self, line):
        """The lines that stand for this one."""
        line = re.sub(r"\s*// (NOLINT|IWYU).*$", "", line)
        comment = COMMENT.match(line)
        if comment:
            return self.convert_comment(comment, line.index("//"))
        self.in_header = False
        declaration = DECLARATION.match(line)
        above = []
        if declaration and not self.last:
            above = self.shared
        self.shared = (self.last or self.shared) if declaration else []
        if line.strip() and not declaration:
            self.shared = self.last  # goes on in the next line
        self.last = []
        trailing = TRAILING.match(line)
        if trailing:
            self.trailing_column = line.index("//", len(trailing[1]))
            return [f"{trailing[1]}  ///< {escape(trailing[2])}"]
        self.trailing_column = None
        return [*above, line]

    def convert_comment(self, comment, column):
        text = escape(comment[2])
        if self.trailing_column == column:
            return [f"{comment[1]}///<{text}"]
        lines = [f"{comment[1]}///{text}"]
        if self.in_header:
            first, self.header_seen = not self.header_seen, True
            return ["/// @file", *lines] if first else lines
        self.last = [*self.last, *lines]
        return lines


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        converter = Filter()
        for line in file.read().splitlines():
            print("\n".join(converter.convert(line)))


if __name__ == "__main__":
    main()
