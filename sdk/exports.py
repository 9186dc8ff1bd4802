#!/usr/bin/python3
"""Lists the symbols that the SDK's libraries export: what the public headers declare.

exports.py HEADERS.tar: reads `nm --defined-only --extern-only OBJECT` and writes one symbol a line,
as the linker knows it: those that are chx::NAME or chainerx::NAME, or inside of it.
"""

import re
import subprocess
import sys
import tarfile

COMMENT = re.compile(r"//.*$", re.MULTILINE)
FORWARD = re.compile(r"^\s*(?:class|struct) (\w+);$", re.MULTILINE)
DEFINED = re.compile(r"^\s*(?:class|struct) (\w+)[^;]*\{", re.MULTILINE)
WORD = re.compile(r"\b[A-Za-z_]\w*\b")
# What a demangled name may have in front of it.
OF = re.compile(
    r"^(?:(?:vtable|VTT|typeinfo|typeinfo name|guard variable) for |(?:non-)?virtual thunk to )?"
)
NAME = re.compile(r"(?:chx|chainerx)::(operator|~?\w+)")


def declared(headers):
    """The words of the public headers, without the names of classes that they do not define."""
    words, forward, defined = set(), set(), set()
    with tarfile.open(headers) as tar:
        for member in tar.getmembers():
            if member.isfile():
                text = tar.extractfile(member).read().decode()
                text = COMMENT.sub("", text)
                words.update(WORD.findall(text))
                forward.update(FORWARD.findall(text))
                defined.update(DEFINED.findall(text))
    return words - (forward - defined)


def demangle(symbols):
    run = subprocess.run(
        ["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True
    )
    return run.stdout.splitlines()


def is_public(name, words):
    match = NAME.match(OF.sub("", name))
    return bool(match) and match[1] in words


def main():
    words = declared(sys.argv[1])
    symbols = [line.split()[-1] for line in sys.stdin if line.strip()]
    for symbol, name in zip(symbols, demangle(symbols), strict=False):
        if is_public(name, words):
            print(symbol)


if __name__ == "__main__":
    main()
